"""Save: scan the worktree, store what is new, publish a checkpoint, and remember for the next save what the scan found.

The danger prevented here: a stat index that names what is not stored. It is written only after the checkpoint that it stands for,
and only when the tree of its root is that checkpoint's.
"""

import os
import time
from collections.abc import Callable

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import domain as domains
from ..model import manifest
from ..model.checkpoint import Checkpoint, Circumstances
from ..model.diff import Counts
from ..model.domain import Domain, Skip
from ..model.manifest import Entry, Loader
from ..store import packs
from ..store.stat_file import Basis
from ..store.writer import DryRunWriter, StoreWriter
from ..worktree import scan as scans
from ..worktree.stat_index import StatIndex
from .context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:  # no save needs it where nothing is watched
    from ..worktree.change_set import ChangeSet

PROMPT = 200  # characters of a prompt that a checkpoint keeps; the whole of it is in the transcript
_MOST_NEWER = 16
"""Directories, besides one in 256, of which a helper has newer records than its stat index: each is scanned at every save."""


class Saved(NamedTuple):
    """What a save did. `created` is False when the state was the newest checkpoint's and nothing asked for another.

    `changes` are counted against the checkpoint before; `skipped` are the paths, sorted, that no rule ignores and
    that were not captured, or not in one piece; `ignored` counts those that a rule ignores.
    """

    checkpoint: Checkpoint
    created: bool
    changes: Counts
    skipped: tuple[Skip, ...]
    ignored: int
    elapsed_ms: int

    @property
    def faults(self) -> tuple[Skip, ...]:
        """The skips that mean that something asked for could not be had."""
        return tuple(skip for skip in self.skipped if domains.is_fault(skip.reason))


class Moment(NamedTuple):
    """What a checkpoint is made for.

    `described`: the label is a description that nobody chose. `prompt`, `agent`, `session`, `cursor` (encoded,
    model/cursor.py) and `transcript` (its path, and how many bytes of it) are those of a coding agent, if one is at work.
    `at_ns`: when it was (nanoseconds since 1970; 0 = now); files that changed later are recorded as late. `if_changed`: the
    description that it gets when anything differs from the checkpoint before it. `needless`: no checkpoint is needed where
    nothing has changed. `more`: what is known of the event besides. `opens_turn`: this checkpoint is the first one of a turn.
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
    if_changed: str = ""
    needless: bool = False
    more: Circumstances = checkpoints.NOTHING_ELSE
    opens_turn: bool = False

    @property
    def may_be_nothing(self) -> bool:
        """Whether no checkpoint is needed where nothing has changed."""
        return not self.label and not self.pin and (self.needless or self.trigger == checkpoints.MANUAL)


def save(context: Context, moment: Moment = Moment(), *, rehash: bool = False) -> Saved:  # noqa: B008 - a value, never changed
    """Make a checkpoint of the worktree.

    With neither a label nor a pin, a manual save of a state that the newest checkpoint of this worktree has already
    publishes nothing. `rehash` reads every file, whatever its stamp says. Where the store's budget is used up, gc makes room
    first. Raises StoreError and its kin.
    """
    budget = context.budget
    for again in (False, True):
        try:
            return _save(context, moment, budget, rehash=rehash)
        except errors.OverBudget as over:
            if not _make_room(context, over, again=again):
                break
    return _save(context, moment, None, rehash=rehash)


def _make_room(context: Context, over: errors.OverBudget, *, again: bool) -> bool:
    """Have gc forget what stands in the way of a save that would go over the budget; False when that cannot be had. The
    first time what it needs is guessed from what it wrote until it was stopped, `again` all of it is taken for granted.

    The danger prevented here: a store that eats the disk, and a save that is refused because old ones are in its way. Where gc
    cannot help, because what has to stay is more than the budget already, the save goes on: a budget is no reason to lose work.
    """
    from ..store.writer import SizeEstimator
    from . import gc

    if context.budget is None:
        return False
    counting = SizeEstimator(context.store.read)  # of the files that a save would have to read now; nothing is read but directories
    scan = scans.scan(context.tree, counting, context.options, read_index(context))
    whole = min(counting.size, scan.size)  # a file too young for its stamp to be believed was looked at twice
    needed = whole if again else min(whole, 2 * over.written)
    try:
        return gc.make_room(context, max(needed, over.written))
    except errors.StoreBusy:
        return False  # another gc, or a long restore: better over the budget than no checkpoint


def _save(context: Context, moment: Moment, budget: int | None, *, rehash: bool) -> Saved:
    """A save that takes the store over no budget, or raises OverBudget: scan, decide, publish, remember."""
    started = time.monotonic()
    with context.store.session(budget=budget) as session:
        index = StatIndex() if rehash else read_index(context)
        options = context.options._replace(as_of=moment.at_ns)
        scan = scans.scan(context.tree, session, options, index, context.watch, context.progress)
        head, newest = context.store.heads(context.root.key)
        counts = Counts(scan.entries, 0, 0)  # everything is new where there was nothing
        if head is not None and head.tree == scan.tree:
            counts = Counts(0, 0, 0)
        elif head is not None:
            counts = diffs.count(diffs.diff(diffs.lenient(session.load_tree), head.tree, scan.tree))
        is_other = newest is head and any(counts)
        if newest is not None and not is_other and moment.may_be_nothing and _is_unchanged(context, session, newest, scan):
            if _heals(session, newest, scan):
                context.store.add_blobs(session)
            point, created = newest, False
        else:
            point, created = publish(context, session, _draft(context, session, moment, scan, head, counts, started), head), True
        remember(context, scan, point)
    changes = point.changes if created else Counts(0, 0, 0)
    return Saved(point, created, changes, all_skips(scan.domain), scan.domain.ignored, _since(started))


def _draft(
    context: Context, session: StoreWriter, moment: Moment, scan: scans.Scan, head: Checkpoint | None, counts: Counts, started: float
) -> Checkpoint:
    """The checkpoint of a moment, without its place in the ledger. `counts` are its changes since `head`."""
    domain = session.put(packs.DOMAIN, domains.encode(scan.domain))
    if not moment.label and head is not None and any(counts):
        label = moment.if_changed if head.trigger != checkpoints.SAFETY else _story(context, session, moment, scan)
        moment = moment._replace(label=label, described=True)
    draft = draft_checkpoint(context, moment.trigger, moment.label, scan, domain, counts, moment.more)
    if moment.opens_turn:
        draft = draft._replace(more=draft.more._replace(turn=draft.id))
    return draft._replace(
        flags=draft.flags | (checkpoints.PINNED if moment.pin else 0) | (checkpoints.DESCRIBED if moment.described else 0),
        prompt=moment.prompt[:PROMPT],
        agent=moment.agent,
        session=moment.session,
        cursor=moment.cursor,
        transcript=_put_transcript(session, *moment.transcript) if moment.transcript[1] else None,
        elapsed_ms=_since(started),
    )


def _story(context: Context, session: StoreWriter, moment: Moment, scan: scans.Scan) -> str:
    """What is known of why a state differs from that of the newest checkpoint, a safety one; "" for nothing."""
    current = context.store.checkpoint(context.store.history(context.root.key).current)
    if current is None:
        return ""  # some paths were restored, who changed others is not to be told
    if any(diffs.diff(diffs.lenient(session.load_tree), current.tree, scan.tree)):
        return moment.if_changed
    return f"as restored from {current.id}"


def _put_transcript(session: StoreWriter, path: str, size: int) -> Entry | None:
    """Store a transcript: what was there last time costs nothing. None when it cannot be read any more."""
    try:
        with open(os.open(path, fsio.READ_FLAGS), "rb", buffering=0) as file:
            count, digest, chunks = session.put_growing(file, size)
    except OSError:  # the client's file; the store's own errors are told as such
        return None
    return manifest.file_entry(0o600, count, 0, digest, chunks) if count == size else None


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def all_skips(domain: Domain) -> tuple[Skip, ...]:
    """Everything that a domain has to say about paths that it does not (wholly) speak for, sorted by path."""
    unstable = (Skip(path, domains.UNSTABLE) for path in domain.unstable)
    return tuple(sorted((*domain.skipped, *unstable, *(Skip(path, domains.LATE) for path in domain.late))))


def _is_unchanged(context: Context, session: StoreWriter, newest: Checkpoint, scan: scans.Scan) -> bool:
    """True when a scan found what a checkpoint has; False also when that is damaged: it must not keep a sound one from being made."""
    try:
        known = context.store.domain(newest.domain)
        if (sorted(known.rules), sorted(known.unstored)) != (sorted(scan.domain.rules), sorted(scan.domain.unstored)):
            return False
        return newest.tree == scan.tree or not any(diffs.diff(session.load_tree, newest.tree, scan.tree))
    except (errors.BlobMissing, errors.BlobCorrupt):
        return False


def _heals(session: StoreWriter, newest: Checkpoint, scan: scans.Scan) -> bool:
    """True when something that the newest checkpoint names was lost from the store, and has been read from the worktree
    just now: to be kept although no checkpoint is made."""
    new = session.unpublished()
    if not new:
        return False
    if new.difference(*map(session.nodes_of, scan.trees.values())):
        return True  # content: what did not change is stored, unless it was lost
    finder = manifest.Finder(session.load_tree, newest.tree)
    places = [(path, tree) for path, tree in scan.trees.items() if not new.isdisjoint(session.nodes_of(tree))]
    named = ((finder.find(path) if path else None, tree) for path, tree in places)
    return newest.tree in new or any(entry is not None and entry.digest == tree for entry, tree in named)


def draft_checkpoint(
    context: Context,
    trigger: str,
    label: str,
    scan: scans.Scan,
    domain: bytes,
    counts: Counts,
    more: Circumstances = checkpoints.NOTHING_ELSE,
) -> Checkpoint:
    """A checkpoint without its place in the ledger."""
    if context.root.git_dir is not None:
        from ..worktree import git_head

        branch, commit = git_head.read(context.root.git_dir, context.root.common_dir)
        more = more._replace(branch=branch, commit=commit)
    if context.shell[1] and trigger in (checkpoints.MANUAL, checkpoints.SAFETY):
        more = more._replace(by_agent=context.shell[0], by_session=context.shell[1])
    during = checkpoints.DURING_RESTORE if context.store.is_restore_open(context.root.key) else 0
    return Checkpoint(
        seq=0,
        id="c" + fsio.token(7),
        created_ns=time.time_ns(),
        worktree=context.root.key,
        root=os.fsencode(context.root.path),
        parent="",
        trigger=trigger,
        label=label,
        prompt="",
        agent="",
        session="",
        tree=scan.tree,
        domain=domain,
        files=scan.files,
        size=scan.size,
        changes=counts,
        skipped=len(all_skips(scan.domain)),
        flags=during,
        more=more,
    )


def publish(context: Context, session: StoreWriter, draft: Checkpoint, head: Checkpoint | None) -> Checkpoint:
    """Publish a draft whose changes were counted against `head`; they are counted again if another one came first."""

    def finish(seq: int, parent: str) -> Checkpoint:
        counts = draft.changes
        if parent != (head.id if head else ""):
            counts = _recount(context, parent, draft, diffs.lenient(session.load_tree))
        return draft._replace(seq=seq, parent=parent, changes=counts)

    return context.store.publish(session, context.root.key, finish)


def _recount(context: Context, parent: str, draft: Checkpoint, load: Loader) -> Counts:
    point = context.store.checkpoint(parent)
    return diffs.count(diffs.diff(load, point.tree if point else None, draft.tree))


# -- what a save remembers for the next one: the stat index, read before a scan and replaced after it


def read_index(context: Context) -> StatIndex:
    """What is remembered of the worktree: by the helper that watches it, or in the store. Raises StoreError and its kin."""
    context.tree.follow_root()
    key, life = context.root.key, context.tree.life
    memory = None if context.watch is None else context.watch.memory
    if memory is not None and memory.basis is not None and context.store.is_valid(key, Basis(*memory.basis), life):
        memory.begin()
        return memory
    if context.watch is not None:
        context.watch.distrust()
    basis = context.store.stat_basis(key, life)
    value = None if basis is None else context.store.stat_index(key, basis)
    return StatIndex(value or b"", basis if value else None)


def remember(context: Context, scan: scans.Scan, point: Checkpoint) -> None:
    """Remember what a scan found, whose state is that of a checkpoint. Failing here loses nothing."""
    root = scan.records.get(b"") or scan.known.record(b"")
    if root is None or root.tree != point.tree or not scan.life:
        return
    basis, value, records = scan.known.basis, scan.known.value, scan.records
    if records or basis is None:
        basis = context.store.basis(point, scan.life)
        if context.watch is None or context.watch.full:
            value, records = scan.known.updated(records), {}
            context.store.remember(context.root.key, basis, value)
    if context.watch is not None:
        is_kept = scan.known is context.watch.memory and value == scan.known.value
        context.watch.set_remembered(basis, b"" if is_kept else value, records)


def finish_watch(context: Context, watch: "ChangeSet") -> None:
    """After a save with a watch that has been answered: do what was put off. Raises CasrewindError, OSError."""
    try:
        with context.store.holding():
            write_watched(context, watch)
    finally:
        watch.proof = context.store.index.settle()


def write_watched(context: Context, watch: "ChangeSet", *, wholly: bool = False) -> None:
    """Write what a helper has in memory, where scanning what is newer takes longer than all else;
    with `wholly`, whatever is newer. Raises StoreError and its kin."""
    memory = watch.result().memory(watch.memory)
    newer = 0 if memory is None else len(memory.newer)
    if memory is None or memory.basis is None or newer <= (0 if wholly else _MOST_NEWER + len(memory) // 256):
        return
    memory.begin()
    basis, value = Basis(*memory.basis), memory.updated({})
    context.store.remember(context.root.key, basis, value)
    watch.replace(basis, value)


def unnoticed(context: Context, watch: "ChangeSet", is_quiet: Callable[[], bool]) -> list[bytes]:
    """The paths, sorted, at which there is something else than what is known by watching; none when nothing is known,
    or when `is_quiet` says that something has changed meanwhile. Publishes nothing; writes what is known for other processes.

    The danger prevented here: a change that is never reported (through a mapping of a file into memory, through a name of it that
    lies somewhere else), and a checkpoint that is wrong for ever because of it. Contents are compared, not stamps: a second name
    changes a file's stamp and no byte of it.
    """
    session = DryRunWriter(context.store.read)
    context = context._replace(watch=watch)  # what has changed is counted from the helper's memory, not from what the store has
    index = read_index(context)
    if watch.full:
        return []
    told = scans.scan(context.tree, session, context.options, index, watch)
    if watch.full:
        return []
    index.begin()
    found = scans.scan(context.tree, session, context.options, index)
    if not is_quiet():
        return []
    changes = diffs.diff(session.load_tree, told.tree, found.tree)
    unseen = sorted(change.path for change in changes if _essence(change.old) != _essence(change.new))
    if not unseen:
        write_watched(context, watch, wholly=True)
    return unseen


def _essence(entry: Entry | None) -> tuple[object, ...] | None:
    # not the chunks: those of a file that was not stored are not known
    return None if entry is None else (entry.kind, entry.mode, entry.digest)
