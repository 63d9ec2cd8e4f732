"""Undo, redo and revert: reverse the newest restore, or take back what one turn changed, path by path.

The danger prevented here: work done after a restore, or after the turn, is lost when that is reversed. Paths edited
since are kept. A revert also keeps each path that another turn may have changed at the same time.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from .. import errors
from ..model import history as undo_history
from ..model import manifest, paths
from ..model import plan as plans
from ..model import rewind_record as rewinds
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.history import RESTORE, REVERT, Operation
from ..model.manifest import DIR, Entry
from ..model.plan import Action, Actions, Kept, Plan
from ..store import packs
from ..store.dry_run import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.nested_stores import NestedStores
from . import capture, preflight
from .capture import CapturedState, in_the_way
from .context import Context
from .execute import Restored, execute
from .restore import Confirm, Declined

_UNCLEAR = "not captured at the end of the turn, and not as it was before"

_Prepare = Callable[[StoreWriter | DryRunWriter], tuple[Restored, CapturedState]]
"""Returns (what would be done and kept, the current state), with new blobs in the given writer."""


def undo(context: Context, *, everything: bool = False, dry_run: bool = False, confirm: Confirm | None = None) -> Restored:
    """Undo the newest restore: its paths, and only those. A path that was edited since is kept, unless `everything`.

    `dry_run` changes and publishes nothing. `confirm` is asked with the plan. Raises NothingToUndo, Declined.
    """
    history = context.store.history(context.root.key)
    if not history.undo:
        raise errors.NothingToUndo("nothing to undo: no restore was made in this worktree, or all of them are undone")
    return _take_back(context, undo_history.UNDO, history.undo[-1], everything=everything, dry_run=dry_run, confirm=confirm)


def redo(context: Context, *, dry_run: bool = False, confirm: Confirm | None = None) -> Restored:
    """Redo the newest undo, by the same rules. Raises NothingToUndo, Declined."""
    history = context.store.history(context.root.key)
    if not history.redo:
        raise errors.NothingToUndo("nothing to redo: no undo was made since the newest restore")
    return _take_back(context, undo_history.REDO, history.redo[-1], everything=False, dry_run=dry_run, confirm=confirm)


def newer_rewind(context: Context) -> rewinds.Rewind | None:
    """The newest rewind that changed a conversation and no file, if it is newer than all that undo and redo know."""
    history = context.store.history(context.root.key)
    newest = [(context.store.checkpoint(step.safety), step) for step in (*history.undo[-1:], *history.redo[-1:])]
    made, step = max(((made, step) for made, step in newest if made is not None), key=lambda pair: pair[0].seq, default=(None, None))
    found = [one for one in context.store.rewinds(0 if made is None else made.seq) if one.worktree == context.root.key]
    if made is not None and step is not None and made.more.op == RESTORE and found and not found[0].safety:
        found = found[found[0].checkpoint == step.target :]  # of an older version: it was done with that restore
    return next((one for one in reversed(found) if one.safety in ("", rewinds.CHAT_ONLY)), None)


def revert(
    context: Context,
    before: Checkpoint,
    changes: Sequence[Change],
    left: Iterable[Kept] = (),
    *,
    unclear: Collection[bytes] = (),
    dry_run: bool = False,
    confirm: Confirm | None = None,
) -> Restored:
    """Take back the `changes` of the turn that the checkpoint `before` opened. `left`: paths that are kept, and why.
    `unclear`: changed paths that were not captured after the turn. They come back where nothing is in their place.

    `dry_run` changes nothing. `confirm` is asked with the plan; without its consent, Declined is raised. `undo` undoes
    a revert. Raises as a restore does.
    """
    kept = tuple(left)

    def reversed_actions() -> Actions:
        return plans.pack(Action(change.path, change.new, change.old, change.path) for change in changes)

    def prepared(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        hint = f"casrewind restore {before.id} PATH takes back what is sound"
        report, now = _prepare(context, writer, reversed_actions, REVERT, before.id, hint, unclear=unclear)
        return report._replace(kept=tuple(sorted((*report.kept, *kept)))), now

    preflight.refuse_open_journal(context)
    if dry_run:
        return _dry_run(context, prepared)
    with context.store.restoring(context.root.key), context.store.writing() as writer:
        preflight.refuse_open_journal(context)
        preflight.refuse_forgotten(context, before)
        report, now = prepared(writer)
        operation = Operation(RESTORE, 0, context.root.key, before.id, "", b"", "")
        return _confirmed(context, writer, operation, report, now, confirm) if report.actions else report


def _take_back(
    context: Context, op: str, step: undo_history.Step, *, everything: bool, dry_run: bool, confirm: Confirm | None
) -> Restored:
    """Reverse a step of the history, for undo and redo."""
    aim = step.safety if op == undo_history.UNDO else step.target

    def reversed_actions() -> Actions:
        return plans.reverse(context.store.plan(step.plan))

    def prepared(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        hint = f"What is sound can be had with casrewind restore {step.safety or step.target} --skip-damaged"
        return _prepare(context, writer, reversed_actions, op, aim, hint, everything=everything)

    preflight.refuse_open_journal(context)
    if dry_run:
        return _dry_run(context, prepared)
    with context.store.restoring(context.root.key), context.store.writing() as writer:
        preflight.refuse_open_journal(context)
        report, now = prepared(writer)
        current = step.safety if op == undo_history.UNDO else step.before
        operation = Operation(op, 0, context.root.key, step.target, "", b"", current)
        if report.actions:
            return _confirmed(context, writer, operation, report, now, confirm)
        if not report.kept:  # otherwise nothing was reversed, so the step remains
            empty = writer.put(packs.PLAN, plans.encode(()))
            context.store.add_blobs(writer)
            context.store.record_operation(operation._replace(plan=empty, created_ns=time.time_ns()))
        return report


def _dry_run(context: Context, prepare: _Prepare) -> Restored:
    """What would be done. Publishes and changes nothing. Raises as the operation would."""
    report, now = prepare(DryRunWriter(context.store.read))
    preflight.check_actions(context, now, report.actions)
    return report._replace(dry_run=True)


def _confirmed(
    context: Context, writer: StoreWriter, operation: Operation, report: Restored, now: CapturedState, confirm: Confirm | None
) -> Restored:
    """Execute the actions of a report if the user confirms them, else raise Declined."""
    if confirm is not None and not confirm(Plan(report.actions, report.kept)):
        raise Declined
    actions = preflight.check_actions(context, now, report.actions)  # only now: the user may confirm late
    return execute(context, writer, operation, report, now, actions)


def _prepare(
    context: Context, writer: StoreWriter | DryRunWriter, actions_of: Callable[[], Actions], op: str, aim: str, hint: str, *,
    everything: bool = False, unclear: Collection[bytes] = ()
) -> tuple[Restored, CapturedState]:
    """Returns (what reversed actions would do and keep, the current state). A path that was edited since is kept."""
    scan = capture.scan_now(context, writer)
    wanted = actions_of()  # after the scan, to limit memory
    wanted, stores = NestedStores(context.tree, context.policy.excluded).leave_alone(wanted)
    strangers: dict[bytes, str] = {}
    load = writer.load_tree
    read = scan.read
    unread = (path for path in _touched(wanted) if path not in read)
    tree = capture.add_paths(context, writer, scan.tree, unread, strangers=strangers)
    now = CapturedState(tree, scan, load)
    if everything and strangers:
        touched = frozenset(_touched(wanted))
        if obstacles := [why for path, why in strangers.items() if path in touched]:
            raise in_the_way(obstacles)
    kept = list(stores)
    finder, points = manifest.Finder(load, tree), context.tree.mounts.points
    actions = plans.pack(_choose(wanted, finder, strangers, points, kept, everything=everything, unclear=unclear))
    plan = preflight.checked_plan(context, now, plans.keep_paths(Plan(actions, ()), kept), hint=hint, benign=False)
    unchanged = len(wanted) - len(plan.actions) - len({item.path for item in plan.kept} - {item.path for item in stores})
    return Restored(op, aim, "", plan.actions, plan.kept, unchanged, dry_run=False), now


def _touched(wanted: Actions) -> Iterable[bytes]:
    if any(action.source != action.path for action in wanted):
        return sorted({path for action in wanted for path in (action.path, action.source)})
    return (action.path for action in wanted)


def _choose(
    wanted: Actions,
    finder: manifest.Finder,
    strangers: Mapping[bytes, str],
    mounts: frozenset[bytes],
    kept: list[Kept],
    *,
    everything: bool,
    unclear: Collection[bytes] = (),
) -> Iterator[Action]:
    """Yield the possible actions of a reversed plan, and add the paths that are kept to `kept`. `strangers` are paths
    that cannot be stored, `mounts` are mount points. Parents come first; a path without a directory to go into is kept
    absent."""
    will_be: dict[bytes, Entry | None] = {}
    for action in wanted:
        there = finder.find(action.source)
        stranger = _stranger(action.source, strangers) if strangers else None
        if stranger is not None and (stranger in mounts or stranger == action.source or action.after is not None):
            kept.append(Kept(action.path, f"edited since: {strangers[stranger]}", benign=False))
        elif manifest.same(there, action.after) and action.source == action.path:
            continue
        elif not (everything or manifest.same(there, action.before)):
            kept.append(Kept(action.path, _UNCLEAR if action.path in unclear else "edited since", benign=False))
        elif action.after is not None and not _has_parents(action.path, finder, will_be):
            kept.append(Kept(action.path, "its directory was replaced or removed since", benign=False))
        else:
            if DIR in (there and there.kind, action.after and action.after.kind):
                will_be[action.path] = action.after  # only directories affect other paths
            yield Action(action.path, there, action.after, action.source)


def _stranger(path: bytes, strangers: Mapping[bytes, str]) -> bytes | None:
    """The path at or above `path` that cannot be stored, or None."""
    return next((above for above in (*paths.parents(path), path) if above in strangers), None)


def _has_parents(path: bytes, finder: manifest.Finder, will_be: Mapping[bytes, Entry | None]) -> bool:
    """True if every parent of a path is, or will be, a directory."""
    above = (will_be[parent] if parent in will_be else finder.find(parent) for parent in paths.parents(path))
    return all(entry is not None and entry.kind == DIR for entry in above)
