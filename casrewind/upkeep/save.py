"""Save: scan the worktree, store new content, publish a checkpoint, and update the stat index for the next save.

The danger prevented here: a stat index that names blobs which are not stored. It is written only after its checkpoint,
and only if its root tree is that checkpoint's tree.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from .. import errors, fsio
from .._typing import NamedTuple
from ..context import Context
from ..history.present_scan import find_stop, read_stat_index
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import domain as domains
from ..model import manifest
from ..model.checkpoint import Checkpoint, Circumstances
from ..model.diff import Counts
from ..model.domain import Skip, all_skips
from ..model.manifest import Entry
from ..store import packs
from ..store.writer import StoreWriter
from ..worktree import scan as scans
from ..worktree.stat_index import StatIndex

_IN_TURN = ("tool_batch", "turn_end", "compact")  # a turn that has them was not stopped before
PROMPT = 200  # characters of a prompt stored in a checkpoint; the transcript has all of it


class Saved(NamedTuple):
    """The result of a save. `created` is False if nothing changed since the newest checkpoint and none was requested.
    `changes` counts the differences to the previous checkpoint. `skipped`: paths, sorted, that are not ignored and were
    not captured, or not consistently. `ignored` counts the ignored paths."""

    checkpoint: Checkpoint
    created: bool
    changes: Counts
    skipped: tuple[Skip, ...]
    ignored: int
    elapsed_ms: int

    @property
    def faults(self) -> tuple[Skip, ...]:
        """The skips that are failures: a path should have been captured and was not."""
        return tuple(skip for skip in self.skipped if domains.makes_save_incomplete(skip.reason))


class Moment(NamedTuple):
    """Why and when a checkpoint is made, and its metadata.

    `described`: the label is a generated description. `prompt`, `agent`, `session`, `cursor` (encoded, see
    model/cursor.py) and `transcript` (path, number of bytes) belong to a coding agent. `at_ns`: time of the event
    (nanoseconds since 1970; 0 = now); files that changed later are recorded as late. `why_changed` gives the description
    to use if anything differs from the previous checkpoint. It is called when that checkpoint is known. `needless`: make
    no checkpoint if nothing changed. `more`: further facts about the event. `opens_turn`: the checkpoint is the first of
    a turn.
    """

    trigger: str = checkpoints.MANUAL
    label: str = ""
    described: bool = False
    pin: bool = False
    prompt: str = ""
    agent: str = ""
    session: str = ""
    cursor: bytes = b""
    transcript: tuple[str, int] = ("", 0)
    at_ns: int = 0
    why_changed: Callable[[], str] = str
    needless: bool = False
    more: Circumstances = checkpoints.NOTHING_ELSE
    opens_turn: bool = False

    @property
    def may_be_nothing(self) -> bool:
        """True if no checkpoint is needed when nothing changed."""
        return not self.label and not self.pin and not self.more.meta and (self.needless or self.trigger == checkpoints.MANUAL)


def save_by_hand(
    context: Context, message: str = "", *, pin: bool = False, rehash: bool = False, described: bool = False,
    meta: Mapping[str, str] | None = None,
) -> Saved:  # fmt: skip
    """Make a checkpoint that no event asked for. `message` is its label; with `described`, it is a description. Raises
    UsageError for a label that reads as another reference and for `meta` that cannot be stored, else as `save`."""
    if message and not described:
        from ..history.checkpoint_names import refuse_ambiguous_label

        refuse_ambiguous_label(message)
    more = checkpoints.NOTHING_ELSE
    if meta is not None:
        from ..model.meta import checked_pairs

        more = Circumstances(meta=checked_pairs(meta))
    return save(context, Moment(label=message, pin=pin, described=described, more=more), rehash=rehash)


def save(context: Context, moment: Moment = Moment(), *, rehash: bool = False) -> Saved:  # noqa: B008 - a value, never changed
    """Make a checkpoint of the worktree. A manual save without a label, pin or meta publishes nothing if the
    newest checkpoint has the same state. `rehash` reads every file, whatever its stamp. If the store's budget is used up, gc
    frees space first. Raises StoreError and others."""
    budget = context.limits.max_size
    for again in (False, True):
        try:
            return _save_within_budget(context, moment, budget, rehash=rehash)
        except errors.OverBudget as over:
            if not _free_space_by_gc(context, over, again=again):
                break
    return _save_within_budget(context, moment, None, rehash=rehash)


def _free_space_by_gc(context: Context, over: errors.OverBudget, *, again: bool) -> bool:
    """Let gc free space for a save that would exceed the budget. Returns False if that fails.

    The first try estimates the need from the bytes already written; `again` assumes the whole size. The danger
    prevented here: a store fills the disk, or old checkpoints prevent a save. If the kept checkpoints alone exceed the
    budget, the save ignores it: a budget is no reason to lose work.
    """
    from ..store.dry_run_writer import SizeEstimator
    from . import gc

    if context.limits.max_size is None:
        return False
    counting = SizeEstimator(context.store.read)  # sums the sizes of the files to read; reads only directories
    scan = scans.scan(context.tree, counting, context.policy, read_stat_index(context))
    whole = min(counting.size, scan.size)  # a file with too recent a stamp was counted twice
    needed = whole if again else min(whole, 2 * over.written)
    try:
        return gc.make_room(context, max(needed, over.written))
    except errors.StoreBusy:
        return False  # another gc or a long restore: exceeding the budget is better than no checkpoint


def _save_within_budget(context: Context, moment: Moment, budget: int | None, *, rehash: bool) -> Saved:
    """Save within the budget, or raise OverBudget: scan, decide, publish, update the stat index."""
    started = time.monotonic()
    with context.store.writing(budget=budget, again=rehash) as writer:
        index = StatIndex() if rehash else read_stat_index(context)
        stop = None if moment.trigger in _IN_TURN else find_stop(context, moment.at_ns)
        policy = context.policy._replace(as_of=moment.at_ns, stop=stop)
        scan = scans.scan(context.tree, writer, policy, index, context.progress)
        head, newest = context.store.newest_and_newest_listed(context.root.key)
        counts = Counts(0, 0, 0)
        if head is None or head.tree != scan.tree:  # without an earlier checkpoint everything is new
            load = diffs.loader_with_damaged_trees_empty(writer.load_tree)
            counts = diffs.count(diffs.diff(load, head.tree if head else None, scan.tree))
        is_other = newest is head and any(counts)
        if newest is not None and not is_other and moment.may_be_nothing and _is_same_checkpoint(context, writer, newest, scan):
            if _replaces_lost_blob(writer, newest, scan):
                context.store.add_blobs(writer)
            point, created = newest, False
        else:
            draft = draft_checkpoint(context, writer, moment, scan, head, counts)
            draft = draft._replace(elapsed_ms=round((time.monotonic() - started) * 1000))
            point, created = context.store.publish(writer, draft, partial(redraft, context, writer, draft, moment)), True
        update_stat_index(context, scan, point)
    if context.store.lacks_ballast:
        context.store.make_ballast(context.limits.max_size)
    changes = point.changes if created else Counts(0, 0, 0)
    elapsed = round((time.monotonic() - started) * 1000)
    return Saved(point, created, changes, all_skips(scan.domain), scan.domain.ignored, elapsed)


def record_unsaved(context: Context, moment: Moment) -> None:
    """Record a moment at which nothing was saved, with the state of the newest checkpoint. A flag says so. Does nothing
    without a checkpoint. Raises StoreError and others."""
    with context.store.writing() as writer:
        head, _ = context.store.newest_and_newest_listed(context.root.key)
        if head is None:
            return
        identity, more = "c" + os.urandom(7).hex(), moment.more
        domain = context.store.domain(head.domain)._replace(late=(), stop=None)  # these are the files of that save, not of the event
        draft = head._replace(
            seq=0,
            domain=writer.put(packs.DOMAIN, domains.encode(domain)),
            skipped=len(all_skips(domain)),
            id=identity,
            created_ns=time.time_ns(),
            parent=head.id,
            trigger=moment.trigger,
            label="",
            prompt=moment.prompt[:PROMPT],
            agent=moment.agent,
            session=moment.session,
            changes=Counts(0, 0, 0),
            flags=checkpoints.NOT_SAVED,
            cursor=moment.cursor,
            transcript=None,
            more=more._replace(turn=identity) if moment.opens_turn else more,
        )
        context.store.publish(writer, draft, partial(redraft, context, writer, draft, None))


def draft_checkpoint(
    context: Context, writer: StoreWriter, moment: Moment, scan: scans.Scan, head: Checkpoint | None, counts: Counts
) -> Checkpoint:
    """The checkpoint of a moment, not yet in the ledger. `head` is the newest checkpoint, `counts` the changes since."""
    if not moment.label and head is not None and any(counts):
        label = moment.why_changed() if head.trigger != checkpoints.SAFETY else _why_state_differs(context, writer, moment, scan.tree)
        moment = moment._replace(label=label, described=True)
    identity, more = "c" + os.urandom(7).hex(), moment.more
    if context.root.git_dir is not None:
        from ..worktree import git_head

        branch, commit = git_head.branch_and_commit(context.root.git_dir, context.root.common_dir)
        more = more._replace(branch=branch, commit=commit)
    if context.shell[1] and moment.trigger in (checkpoints.MANUAL, checkpoints.SAFETY):
        more = more._replace(by_agent=context.shell[0], by_session=context.shell[1])
    if moment.opens_turn:
        more = more._replace(turn=identity)
    flags = checkpoints.DURING_RESTORE if context.store.is_restore_open(context.root.key) else 0
    flags |= (checkpoints.PINNED if moment.pin else 0) | (checkpoints.DESCRIBED if moment.described else 0)
    return Checkpoint(
        seq=0,
        id=identity,
        created_ns=time.time_ns(),
        worktree=context.root.key,
        root=os.fsencode(context.root.path),
        parent=head.id if head else "",
        trigger=moment.trigger,
        label=moment.label,
        prompt=moment.prompt[:PROMPT],
        agent=moment.agent,
        session=moment.session,
        tree=scan.tree,
        domain=writer.put(packs.DOMAIN, domains.encode(scan.domain)),
        files=scan.files,
        size=scan.size,
        changes=counts,
        skipped=len(all_skips(scan.domain)),
        flags=flags,
        cursor=moment.cursor,
        transcript=_put_transcript(writer, *moment.transcript) if moment.transcript[1] else None,
        more=more,
    )


def redraft(context: Context, writer: StoreWriter, draft: Checkpoint, moment: Moment | None, parent: str) -> Checkpoint:
    """The draft with the checkpoint `parent` before it: its changes are counted again. If `moment` has no label, its
    description is made again, too.

    The danger prevented here: another process publishes the prompt's checkpoint while the checkpoint of the turn's end is
    made. Then the description of the end says that a person made the agent's changes.
    """
    point = context.store.checkpoint(parent)
    counts = diffs.count(diffs.diff(diffs.loader_with_damaged_trees_empty(writer.load_tree), point.tree if point else None, draft.tree))
    draft = draft._replace(changes=counts)
    if moment is None or moment.label or point is None:
        return draft
    if not any(counts):
        return draft._replace(label="", flags=draft.flags & ~checkpoints.DESCRIBED)
    is_restored = point.trigger == checkpoints.SAFETY
    label = _why_state_differs(context, writer, moment, draft.tree) if is_restored else moment.why_changed()
    return draft._replace(label=label, flags=draft.flags | checkpoints.DESCRIBED)


def _why_state_differs(context: Context, writer: StoreWriter, moment: Moment, tree: bytes) -> str:
    """Why a tree differs from the newest checkpoint, which is a safety checkpoint; "" if unknown."""
    current = context.store.checkpoint(context.store.history(context.root.key).current)
    if current is None:
        return ""  # some paths were restored; the origin of other changes is unknown
    if any(diffs.diff(diffs.loader_with_damaged_trees_empty(writer.load_tree), current.tree, tree)):
        return moment.why_changed()
    return f"as restored from {current.id}"


def _put_transcript(writer: StoreWriter, path: str, size: int) -> Entry | None:
    """Store a transcript. The part stored before costs nothing. Returns None if it is no longer readable."""
    try:
        with open(os.open(path, fsio.READ_FLAGS), "rb", buffering=0) as file:
            count, digest, chunks = writer.put_append_only(file, size)
    except OSError:  # of the client's file; store errors have their own classes
        return None
    return manifest.Entry(manifest.FILE, 0o600, count, 0, digest, chunks=chunks) if count == size else None


def _is_same_checkpoint(context: Context, writer: StoreWriter, newest: Checkpoint, scan: scans.Scan) -> bool:
    """True if the scan equals the newest checkpoint. False if that is damaged, so that an intact one is made."""
    try:
        known = context.store.domain(newest.domain)
        if (sorted(known.rules), sorted(known.unstored)) != (sorted(scan.domain.rules), sorted(scan.domain.unstored)):
            return False
        return newest.tree == scan.tree or not any(diffs.diff(writer.load_tree, newest.tree, scan.tree))
    except (errors.BlobMissing, errors.BlobCorrupt):
        return False


def _replaces_lost_blob(writer: StoreWriter, newest: Checkpoint, scan: scans.Scan) -> bool:
    """True if the scan has re-read a blob that the newest checkpoint needs and the store had lost. It must then be
    stored even without a new checkpoint."""
    new = writer.unpublished()
    if not new:
        return False
    if new.difference(*map(writer.nodes_of, scan.trees.values())):
        return True  # content: unchanged content is already stored, unless it was lost
    finder = manifest.Finder(writer.load_tree, newest.tree)
    places = [(path, tree) for path, tree in scan.trees.items() if not new.isdisjoint(writer.nodes_of(tree))]
    named = ((finder.find(path) if path else None, tree) for path, tree in places)
    return newest.tree in new or any(entry is not None and entry.digest == tree for entry, tree in named)


def update_stat_index(context: Context, scan: scans.Scan, point: Checkpoint) -> None:
    """Update the stat index after a scan, if its state equals the checkpoint. An error here loses nothing."""
    root = scan.records.get(b"") or scan.known.record_of_directory(b"")
    if root is None or root.tree != point.tree or not scan.life:
        return
    if scan.records or scan.known.basis is None:
        basis = context.store.basis(point, scan.life)
        context.store.replace_stat_file(context.root.key, basis, scan.known.updated_value(scan.records))


