"""Adopt: a moved project gets the checkpoints that it had at another path, also if it has checkpoints of its own since.

The danger prevented here: two histories of undo become one, and an undo takes back what the other one did. So where both have
checkpoints, the others come as those of another machine do (arriving.py, fetch.py). They can be restored, and undo does not know
them. The other store stays as it is.
"""

import os
from collections.abc import Iterator, Mapping

from ..context import Context
from ..messages import plural, printable, shell_quoted
from ..model import checkpoint as checkpoints
from ..model import digest as digests
from ..settings import Settings, default_settings, find_root, open_until_end, store_path
from ..store import ledger, push_notes
from ..store.store import LedgerPosition, Store
from ..upkeep import adopt as adopts
from ..upkeep.adopt import Adopted, AdoptRequest, HasOwnCheckpoints
from ..upkeep.verify import find_unsound
from ..worktree import root as roots
from .arriving import KINDS, Here, Item, own_records, records_to_store
from .fetch import Fetcher
from .piece_errors import PieceDamaged
from .piece_names import PieceInfo
from .pull import ORIGIN, name_of_machine, records_as_here


def adopt(path: str | os.PathLike[str], old: str | os.PathLike[str], settings: Settings | None = None) -> Adopted:
    """Transfer the checkpoints of `old`, a root that was moved, to the root that contains `path`. If that root has a store with
    checkpoints of its own, take the others over as those of another machine (`Adopted.machine`); the store of `old` stays as it is.

    `old` is relative to `path`. Raises UsageError (both are the same root), WorkspaceNotFound (`old` has no checkpoints), RootRefused
    (`old` still exists), WorkspaceError (both have checkpoints in one store), JournalOpen, StoreBusy, StoreFull. Nothing is changed then.
    """
    given = settings or default_settings()
    root = find_root(os.fspath(path), given)
    former = roots.former_paths(os.path.join(os.path.abspath(path), old))
    store = None if given.store is None else store_path(root, given)
    try:
        return adopts.adopt(AdoptRequest(root, former, given.data, store, given.force, given.deadline))
    except HasOwnCheckpoints as error:
        with open_until_end(root.path, given, create=False) as context, Store(error.store, deadline=given.deadline) as source:
            return _take_over(context, error.old, source)


def _take_over(context: Context, old: str, source: Store) -> Adopted:
    chain = digests.of(b"casrewind adopt " + os.fsencode(old))[:16].hex()
    with context.store.hold_lock(*push_notes.PUSH_OR_PULL), source.hold_shared_lock():
        machine = _name_of_root(context, chain, old)
        arriving = records_as_here(chain, machine, own_records(_records_of(source)), context.store.checkpoint)
        with context.store.writing() as writer:
            fetcher = Fetcher(context, writer, _StoreSource(source))
            kept = fetcher.fetch_and_find_complete([point for _, point in arriving.points])
            fetcher.make_durable()
            bad = find_unsound(context, [point for _, point in arriving.points if point.id in kept])
            whole = [one for one in arriving.points if one[1].id in kept and one[1].id not in bad]
            records, left = records_to_store(Here(context), chain, machine, arriving._replace(points=whole))
            context.store.append_all(records)
    problems = [*arriving.problems, *left]
    if lost := len(arriving.points) - len(whole):
        verify = f"casrewind --store {shell_quoted(source.path)} verify"
        problems.append(f"{plural(lost, 'checkpoint')} of {printable(old)} cannot be read: {verify}")
    count = sum(point.trigger != checkpoints.SAFETY for _, point in whole)
    return Adopted(old, context.root.path, context.store.path, count, machine, tuple(problems))


def _records_of(source: Store) -> list[Item]:
    """The records of a store that a push would send."""
    points: list[Item] = [(ledger.CHECKPOINT, point.seq, checkpoints.encode(point)) for point in source.checkpoints_after(0)]
    records, _ = source.records_after(LedgerPosition(), *(KINDS - {ledger.CHECKPOINT}))
    return points + [(record.kind, record.seq, record.payload) for record in records]


def _name_of_root(context: Context, chain: str, old: str) -> str:
    """The name under which the checkpoints of a root are listed: that of an earlier time, else one that no machine has here."""
    given = {point.more.machine.partition("/")[0]: point.more.origin for point, _ in context.store.checkpoints() if point.more.machine}
    known = next((name for name, origin in given.items() if origin == chain[:ORIGIN]), None)
    return known or name_of_machine(set(given), chain, os.path.basename(old))


class _StoreSource:
    """The blobs of another store, as a Fetcher asks for them."""

    damaged: Mapping[PieceInfo, PieceDamaged] = {}

    def __init__(self, source: Store) -> None:
        self._source = source

    def fetch(self, wanted: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
        """Yields (digest, bytes) of those that can be read."""
        for digest, data in self._source.read_many(list(wanted)):
            if isinstance(data, bytes):
                yield digest, data

    def list_again(self) -> bool:
        """Nothing else can be found."""
        return False
