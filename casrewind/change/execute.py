"""Executes a checked plan and records it in the ledger: the last part of every verb that changes files.

The danger prevented here: a change to the worktree that can be neither undone nor finished. So the safety checkpoint is
published and the journal written before the plan is applied. Then the ledger records it and the journal is removed.
docs/internals/format.md derives the order.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from .. import errors
from ..context import Context
from ..messages import is_disk_full, printable, reason_of
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.domain import Domain
from ..model.manifest import FILE, Entry
from ..model.plan import Action, Actions, content_differs
from ..model.undo_history import Operation
from ..store import packs
from ..store.store import Store
from ..store.writer import StoreWriter
from ..upkeep import save
from ..worktree.apply import Applier, Outcome
from .result import Restored
from .safety_capture import CapturedState

_FILES, _BYTES = 100, 4 << 20  # limits of one read-ahead: number of files, total size


def execute(
    context: Context, writer: StoreWriter, operation: Operation, report: Restored, now: CapturedState, actions: Actions
) -> Restored:
    """Execute `actions`: those of the report, as preflight returned them."""
    report = report._replace(tells_agent=_is_first_restore(context))
    digest = writer.put(packs.PLAN, plans.encode(actions))
    safety = publish_safety_checkpoint(context, writer, operation, report, now)
    operation = made_now(context, operation._replace(safety=safety.id, plan=digest))
    context.store.journals.write(operation)
    outcome = apply_actions(context, actions, safety.id)
    return record_and_close_journal(context, writer, operation, report._replace(safety=safety.id), actions, outcome)


def made_now(context: Context, operation: Operation) -> Operation:
    """The operation with the present time, and with the agent whose shell runs this process."""
    operation = operation._replace(created_ns=time.time_ns())
    return operation._replace(agent=context.shell[0], session=context.shell[1]) if context.shell[1] else operation


def _is_first_restore(context: Context) -> bool:
    """True if no restore of the worktree was finished yet, and the client of an agent here can tell it."""
    if not context.tells_agent or context.store.has_finished_restore(context.root.key):
        return False
    worked = context.store.newest_of_agents(context.root.key)
    if not worked:
        return False
    from .. import agents

    return any(agents.tells_model(agent) for agent in worked)


def publish_safety_checkpoint(
    context: Context, writer: StoreWriter, operation: Operation, report: Restored, now: CapturedState
) -> Checkpoint:
    """Publish the state before an operation. The report has the requested operation; a revert is recorded as a restore."""
    head = context.store.head(context.root.key)
    if head is not None:
        writer.load_tree.load_differing_trees(head.tree, now.tree)
    counts = diffs.count(diffs.diff(diffs.loader_with_damaged_trees_empty(now.load), head.tree if head else None, now.tree))
    scan = now.scan._replace(tree=now.tree, domain=_domain_of_captured(now))
    meta = ((checkpoints.TAKEN_FROM, printable(report.taken_from)),) if report.taken_from else ()
    more = checkpoints.Circumstances(op=report.op, target=operation.target, meta=meta)
    moment = save.Moment(checkpoints.SAFETY, f"before {report.op} of {operation.target}", more=more, pin=bool(report.only_copies))
    draft = save.draft_checkpoint(context, writer, moment, scan, head, counts)
    # the record of the operation follows: one commit of the index for both, unless the operation reads what it has made itself
    own = writer.unpublished()
    index_later = not any(each.after is not None and (each.after.digest in own or each.after.chunks in own) for each in report.actions)
    point = context.store.publish(writer, draft, partial(save.redraft, context, writer, draft, None), index_later=index_later)
    if now.scan.known.basis is None:
        save.update_stat_index(context, now.scan, point)
    # else the valid stat file stays: this operation changes most of the changed files once more, and the next save reads them
    return point


def _domain_of_captured(now: CapturedState) -> Domain:
    """The domain of the scan. What was captured behind it, because a plan needs it, may have changed since a turn was stopped."""
    domain = now.scan.domain
    if domain.stop is None or now.tree == now.scan.tree:
        return domain
    behind = (change.path for change in diffs.diff(diffs.loader_with_damaged_trees_empty(now.load), now.scan.tree, now.tree))
    return domain._replace(stop=domain.stop._replace(changed_since=tuple(sorted({*domain.stop.changed_since, *behind}))))


def apply_actions(context: Context, actions: Sequence[Action], tag: str) -> Outcome:
    """Apply the actions. An OSError becomes an error that names --continue and --abort."""
    try:
        contents = Contents(context.store, written_files(actions))
        return Applier(context.tree, actions, contents, tag, context.progress, may_make_in_worktrees=True).carry_out_plan()
    except OSError as error:
        raise interruption_error(error) from error


def interruption_error(error: OSError) -> errors.CasrewindError:
    """The error of a restore that stopped half way. The journal is not removed."""
    hint = "the restore is half done: casrewind restore --continue finishes it, casrewind restore --abort takes it back"
    path = f" at {printable(error.filename)}" if error.filename else ""
    if is_disk_full(error):
        return errors.StoreFull(f"{reason_of(error)} while restoring{path}", f"free some space; {hint}")
    return errors.WorkspaceError(f"cannot continue restoring{path}: {reason_of(error)}", hint)


def record_and_close_journal(
    context: Context, writer: StoreWriter, operation: Operation, report: Restored, actions: Sequence[Action], outcome: Outcome
) -> Restored:
    """Record the actions that were done, then remove the journal."""
    if outcome.incomplete or len(outcome.done) != len(actions):
        operation = operation._replace(plan=writer.put(packs.PLAN, plans.encode(outcome.done)), current="")
        context.store.add_blobs(writer)
    context.store.record_operation(operation)
    context.store.journals.remove(operation.worktree)
    left = {item.path for item in outcome.kept}
    if outcome.incomplete:
        modes = {each.path: each.after.mode for each in outcome.done if each.after is not None}
        done = plans.without(report.actions, {*left, *({item.path for item in outcome.incomplete} - modes.keys())})
        done = plans.with_modes(done, modes)
    else:
        done = plans.without(report.actions, left)
    return report._replace(
        actions=done, kept=tuple(sorted({*report.kept, *outcome.kept, *outcome.incomplete})), dry_run=False,
        merged=tuple(item for item in report.merged if item.path not in left),
    )  # fmt: skip


class Contents:
    """The contents of some files. Any order works; that of `files` is cheap."""

    def __init__(self, store: Store, files: Iterable[Entry]) -> None:
        """`files`: what will be wanted. Reads nothing yet."""
        self._store = store
        self._upcoming = (entry for entry in files if not entry.chunks)
        self._ahead: dict[bytes, bytes] = {}

    def __call__(self, entry: Entry) -> Iterable[bytes]:
        """A file's bytes, piece by piece, verified; also checks the size. Raises as Store.content."""
        if entry.chunks:
            return self._store.content(entry)
        if entry.digest not in self._ahead:
            self._read_batch(entry)
        data = self._ahead.get(entry.digest)
        if data is None:
            data = self._store.read(entry.digest, packs.FILE)
        if len(data) != entry.size:
            raise errors.ManifestCorrupt(f"damaged tree: blob {entry.digest.hex()[:16]} has another size", "run casrewind verify")
        return (data,)

    def _read_batch(self, entry: Entry) -> None:
        """Read this file and the next ones: one index lookup for a hundred files."""
        self._ahead = {}  # before others are read
        wanted, size = {entry.digest}, entry.size
        for other in self._upcoming:
            wanted.add(other.digest)
            size += other.size
            if len(wanted) >= _FILES or size >= _BYTES:
                break
        found = self._store.read_many(list(wanted), packs.FILE)
        self._ahead = {digest: data for digest, data in found if isinstance(data, bytes)}


def written_files(actions: Sequence[Action]) -> Iterator[Entry]:
    """The files with new content."""
    for action in actions:
        if action.after is not None and action.after.kind == FILE and content_differs(action):
            yield action.after
