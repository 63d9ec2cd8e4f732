"""Keeps the index in step with the ledger and with the packs on disk.

The danger prevented here: an answer from an index that does not match the store. Every query first compares the index
with the ledger's length and the names of the packs. An index that is behind is updated; an index that contradicts is
rebuilt. A cut pack keeps its name: callers that rely on unread packs use `sizes`; the rest notice on reading.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice

from .. import errors, fsio
from .._typing import NamedTuple, Protocol, TypeVar
from ..messages import printable, store_error
from ..model import stamp as stamps
from . import catalog, ledger, packs
from .index import Index, Tables
from .index_check import IndexGone, IndexUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:  # a save does not need it
    from ..model import undo_history

Result = TypeVar("Result")
Convert = Callable[[int, int, bytes], bytes]
"""Returns the new payload of a ledger record, given its kind, sequence number and payload."""
_TRIES = 3
_PAUSE = 0.05  # seconds
_LOOKS = 16  # known packs that each save of one object looks at again
_WORTHWHILE = 4096  # minimum bytes that a compacted ledger must save


def knows_packs_on_disk(known: Collection[str], disk: Collection[str]) -> bool:
    """True if an index that knows these packs belongs to a store with the packs on disk, regardless of its ledger."""
    return sum(pack in disk for pack in known) * 2 > len(known)


class _Retries:
    """Limits retries on an unusable index: a few, or up to the lock deadline while another process
    removes the index."""

    def __init__(self, deadline: float) -> None:
        """Created at the first failure; `deadline` is in seconds from then."""
        self._left, self._end = _TRIES, time.monotonic() + deadline

    def wait_or_raise_after_failure(self, error: Exception) -> None:
        """Return if the caller should retry. Raises StoreBusy, StoreDamaged."""
        if isinstance(error, IndexGone):
            if time.monotonic() < self._end:
                return
            raise errors.StoreBusy("the index is removed again and again while it is used", "try again") from error
        self._left -= 1
        if self._left == 0:
            raise errors.StoreDamaged(f"the index cannot be rebuilt: {error}", "run casrewind verify") from error


class StoreLock(Protocol):
    """Returns a context manager that holds a lock of the store."""

    def __call__(self, *, exclusive: bool) -> AbstractContextManager[object]:
        """Raises StoreBusy."""


class _Unindexed(NamedTuple):
    """What this object has made durable and the index lacks: the ledger up to offset `end`, where the record `seq` ends, and
    packs."""

    end: int
    seq: int
    packs: packs.FinishedPacks


class LedgerIndex:
    """The ledger and the index of one store."""

    def __init__(self, path: str, ledger_file: ledger.Ledger, index: Index, pack_directory: str, lock: StoreLock) -> None:
        """`path` names the store in errors; `lock` is the publish lock."""
        self._path, self.ledger, self._index, self._packs = path, ledger_file, index, pack_directory
        self._lock, self._is_publishing = lock, False
        self._agreed = stamps.NONE  # stamp of the packs' directory when its packs were exactly those of the index
        self._unindexed: _Unindexed | None = None
        self._sizes: dict[str, int] = {}  # of packs, in the order in which they were looked at

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold the publish lock exclusively, for an append. Raises StoreBusy."""
        with self._lock(exclusive=True):
            self._is_publishing = True
            try:
                yield
            finally:
                self._is_publishing = False

    def verify_records(self) -> None:
        """Verify every record. Raises LedgerCorrupt."""
        state = self.query(catalog.read_catalog_state)
        deque(self.ledger.read(0, state.end), maxlen=0)

    def records(self, *kinds: int) -> list[ledger.Record]:
        """The ledger's records of these kinds, oldest first: for kinds that are needed too rarely for the index."""
        state = self.query(catalog.read_catalog_state)
        return [record for record in self.ledger.read(0, state.end) if record.kind in kinds]

    def query(self, work: Callable[[Tables], Result]) -> Result:
        """Run a reading `work` on an index that includes all present records and packs."""
        tries: _Retries | None = None
        while True:
            try:
                with self._index.view() as tables:
                    if not self._is_behind_or_raise(tables):
                        return work(tables)
                self.update_index()
                with self._index.view() as tables:
                    return work(tables)
            except (IndexUnusable, errors.ManifestCorrupt) as error:
                tries = tries or _Retries(self._index.deadline)
                tries.wait_or_raise_after_failure(error)
                self.rebuild()

    def _is_behind_or_raise(self, tables: Tables) -> bool:
        """True if the index lacks packs on disk or records. Raises IndexUnusable if the ledger was replaced, or a known
        pack is gone. The directory is listed only if its stamp has changed since the last match, or was racy."""
        # gc changes packs, ledger and index only while it holds the index's lock
        state = catalog.read_catalog_state(tables)
        if state.ledger_id != self.ledger.identity():
            raise IndexUnusable("the ledger was replaced")
        before = time.time_ns()
        stamp = stamps.of(os.stat(self._packs))
        if stamp != self._agreed:
            disk, known = packs.pack_names(self._packs), catalog.pack_sizes(tables)
            if not known.keys() <= disk:
                raise IndexUnusable("a pack of the index is gone")
            if len(known) < len(disk):
                return True
            if not stamps.is_racy(stamp, before):
                self._agreed = stamp
        return state.end != self.ledger.size()

    def sizes(self, *, again: bool = True) -> dict[str, int]:
        """{id: bytes} of the packs on disk. Without `again`, only a few of those that this object has looked at are looked at
        again, in turn. If a pack is gone or cut, rebuilds the index, which also invalidates all stat files: nothing recorded
        there may be assumed to be stored. Raises StoreDamaged."""
        before, seen = time.time_ns(), {} if again else dict(islice(self._sizes.items(), _LOOKS, None))
        stamp, known, disk = self.query_as_it_is(
            lambda tables: (stamps.of(os.stat(self._packs)), catalog.pack_sizes(tables), packs.pack_sizes(self._packs, seen))
        )
        self._sizes = disk
        if any(disk.get(pack, -1) < size for pack, size in known.items()):
            self.rebuild()
        elif len(known) == len(disk) and not stamps.is_racy(stamp, before):
            self._agreed = stamp
        return disk

    def update_index(self) -> catalog.CatalogState:
        """Update the index to the ledger's end and the packs on disk. Returns the new state. Reads new records only
        under the publish lock: a record being written is not trusted."""
        try:
            if self._is_publishing or not self._is_ledger_ahead():
                return self._index.change(lambda tables: self._add_new_records_and_packs(tables, records=self._is_publishing))
            with self._lock(exclusive=False):
                return self._index.change(lambda tables: self._add_new_records_and_packs(tables, records=True))
        except OSError as error:
            raise store_error(error, "writing the index in", self._path) from error

    def _is_ledger_ahead(self) -> bool:
        try:
            with self._index.view() as tables:
                return catalog.read_catalog_state(tables).end != self.ledger.size()
        except IndexUnusable:
            return True

    def _add_new_records_and_packs(self, tables: Tables, *, records: bool) -> catalog.CatalogState:
        # Sync what other processes wrote: they may have been killed before they could. After a power cut, an index
        # ahead of the disk would make a sound ledger look cut.
        identity = self.ledger.identity()
        try:
            state = catalog.read_catalog_state(tables)
        except IndexUnusable:
            if not (records and catalog.is_empty(tables)):
                raise
            state = catalog.CatalogState(identity, ledger.HEAD.size, 0)
            catalog.begin_epoch(tables)
        if state.ledger_id != identity:
            raise IndexUnusable("the ledger was replaced")
        before = state
        disk, known = packs.pack_names(self._packs), catalog.pack_sizes(tables)
        if not known.keys() <= disk:
            raise IndexUnusable("a pack of the index is gone")
        if len(known) < len(disk) and not self._index.is_private:
            fsio.sync_directory(self._packs, is_followed=True)  # by the record of whatever uses them
        for pack in sorted(disk - known.keys()):
            rows = list(packs.records_of_pack(self._packs, pack))
            size = os.stat(packs.pack_path(self._packs, pack), follow_symlinks=False).st_size
            state = catalog.add_pack(tables, state, pack, size, rows)
        new = list(self.ledger.read(state.end, state.end)) if records else []
        if new and not self._index.is_private:
            self.ledger.sync()
        for record in new:
            state = catalog.apply_ledger_record(tables, state, record)
        if state != before or before.end == ledger.HEAD.size:
            catalog.write_state(tables, state)
        return state

    def read_index_as_it_is(self, work: Callable[[Tables], Result]) -> "Result | None":
        """Run a reading `work` on the index as it is; None if it is unusable. Retries first: after a passing I/O
        error, giving up would lose data that only the index has."""
        for _ in range(_TRIES):
            with suppress(IndexUnusable, errors.ManifestCorrupt), self._index.view() as tables:
                return work(tables)
        return None

    def replace_ledger(self, records: bytes, after: bytes) -> None:
        """Replace the ledger by encoded records, as successor of the id `after` (b"" = the present
        id). Raises OSError."""
        with self.publishing():
            self.ledger.replace(records, after)

    def rebuild(self, *, witness: bool = True) -> None:
        """Discard the index and all stat files, and derive the index again from the ledger and the packs. With
        `witness`, an index that proves the ledger was longer, or another one, is kept. Then LedgerCorrupt is raised."""
        doubted = self._index.seen
        with suppress(IndexUnusable):  # what it followed was durable: a ledger that ends earlier is cut, not torn
            with self._index.view() as tables:
                state, known = catalog.read_catalog_state(tables), catalog.pack_sizes(tables)
            if witness:
                self._raise_if_ledger_is_older(state, known)  # raises, and the index is kept as evidence
        tries, pause = _Retries(self._index.deadline), _PAUSE
        while True:
            try:
                self._index.discard(doubted)
                self.update_index()
            except IndexUnusable as error:
                tries.wait_or_raise_after_failure(error)
                if not isinstance(error, IndexGone):
                    time.sleep(pause)  # another process moved a pack, or is rebuilding too
                    pause += _PAUSE
                doubted = self._index.seen
            except OSError as error:
                raise store_error(error, "rebuilding the index in", self._path) from error
            else:
                return

    def _raise_if_ledger_is_older(self, state: catalog.CatalogState, known: Collection[str]) -> None:
        """Raise LedgerCorrupt if the ledger contradicts an index that knows these packs."""
        identity = self.ledger.identity()
        if state.ledger_id == identity:
            deque(self.ledger.read(0, state.end), maxlen=0)
        elif knows_packs_on_disk(known, packs.pack_names(self._packs)) and not ledger.is_rewrite_of(identity, state.ledger_id):
            raise errors.LedgerCorrupt(
                f"damaged ledger: the ledger in {printable(self._path)} is older than the index, or another store's",
                "run casrewind verify",
            )

    def query_as_it_is(self, work: Callable[[Tables], Result]) -> Result:
        """Run a reading `work` on the index as it is, rebuilt if unusable: cheaper than query, and possibly behind."""
        try:
            with self._index.view() as tables:
                return work(tables)
        except IndexUnusable:
            return self.query(work)

    def change(self, work: Callable[[Tables], None], afterwards: Callable[[], None]) -> None:
        """Change the index, then run `afterwards` before other processes can read the index. `work` may run again."""
        tries = _Retries(self._index.deadline)
        while True:
            try:
                self._index.change(work, afterwards)
            except IndexUnusable as error:
                tries.wait_or_raise_after_failure(error)
                self.rebuild()
            else:
                return

    def remove_stat_files(self) -> None:
        """Remove invalid stat files and their drafts. Errors are ignored."""
        from . import stat_file

        with suppress(errors.CasrewindError):
            self.query(lambda tables: stat_file.remove_invalid_stat_files(self._index.directory, tables))

    def index_bytes(self) -> int:
        """Bytes of the index file, 0 without one."""
        return self._index.size()

    def compact_index(self) -> None:
        """Shrink the index if a third of it is free pages. Errors are ignored: the index is disposable."""
        with suppress(IndexUnusable, OSError):
            self._index.rewrite_if_a_third_is_free()

    def compact_ledger(self) -> None:
        """Rewrite the ledger without obsolete records if that makes it substantially smaller. Raises OSError."""
        from . import compaction

        with self.publishing():
            state, _ = self.ledger_state(b"")
            histories = self.query_as_it_is(catalog.histories)
            alive = self.query_as_it_is(catalog.identities)
            made = list(compaction.compacted_records(self.ledger.read(0, state.end), alive, histories, state.seq))
            records, last = b"".join(made), max((ledger.RECORD.unpack_from(record)[4] for record in made), default=0)
            if len(records) + _WORTHWHILE > state.end * 0.9:
                return
            done: list[bool] = []

            def work(tables: Tables) -> None:
                if not done:  # the file first: an index of another ledger is rebuilt, a ledger is not
                    self.ledger.replace(records)
                    done.append(True)
                seq = max(state.seq, last)
                now = catalog.read_catalog_state(tables)._replace(ledger_id=self.ledger.identity(), end=self.ledger.size(), seq=seq)
                catalog.write_state(tables, now)

            try:
                self._index.change(work)
            except IndexUnusable:
                self.rebuild()

    def rewrite_ledger(self, convert: Convert, histories: "dict[bytes, undo_history.History]", purged: Sequence[str]) -> None:
        """Rewrite the ledger without obsolete records, with payloads from `convert`, the given undo histories, and a statement of the
        purge that changes the checkpoints `purged`; rebuild the index. Requires the exclusive store lock. Raises OSError."""
        from . import compaction

        with self.publishing():
            state, _ = self.ledger_state(b"")
            alive = self.query_as_it_is(catalog.identities)
            found = self.ledger.read(0, state.end)
            made = (record._replace(payload=convert(record.kind, record.seq, record.payload)) for record in found)
            self.ledger.replace(b"".join(compaction.compacted_records(made, alive, histories, state.seq, purged)))
        self.recreate_index()

    def recreate_index(self) -> None:
        """Build the index from scratch: removed rows remain in LMDB's unused pages."""
        self._index.discard()
        self.rebuild(witness=False)

    def remove_old_indexes(self, *, wholly: bool = False) -> None:
        """Remove indexes left by an interrupted discard. `wholly`: raises OSError on failure."""
        self._index.remove_discarded(wholly=wholly)

    def ledger_state(self, worktree: bytes) -> tuple[catalog.CatalogState, str]:
        """Returns (state at the ledger's end, id of the worktree's newest checkpoint; "" without a `worktree`). Call under the
        publish lock."""
        tries: _Retries | None = None
        while True:
            try:
                with self._index.view() as tables:
                    state, head = catalog.read_catalog_state(tables), catalog.worktree_row(tables, worktree).newest
                if state.ledger_id != self.ledger.identity():
                    raise IndexUnusable("the ledger was replaced")
                own, size = self._unindexed, self.ledger.size()
                if own is not None and not worktree and state.end < own.end == size:
                    return state._replace(end=own.end, seq=own.seq), ""
                if state.end == size:
                    return state, head
                if self.update_index().end == state.end:
                    return state, head  # the rest is a torn tail; the append cuts it
            except IndexUnusable as error:
                tries = tries or _Retries(self._index.deadline)
                tries.wait_or_raise_after_failure(error)
                self.rebuild()

    def leave_unindexed(self, end: int, seq: int, finished: packs.FinishedPacks) -> None:
        """Let the next `index_published` add what was just made durable: the ledger up to offset `end`, where the record `seq`
        ends, and the finished packs. The caller holds the store until then, so that gc removes none of these."""
        self._unindexed = _Unindexed(end, seq, finished)

    def forget_unindexed(self) -> None:
        """Leave what was left unindexed to the next command."""
        self._unindexed = None

    def index_published(self, end: int, finished: packs.FinishedPacks = packs.NO_PACKS) -> None:
        """Update the index, in one commit, with what was just made durable: the ledger up to offset `end`, and the
        finished packs, and what was left unindexed. Errors are ignored: the index is disposable."""
        before, self._unindexed = self._unindexed, None
        end = max(end, before.end) if before is not None else end

        def work(tables: Tables) -> None:
            state = catalog.read_catalog_state(tables)
            for group in (finished,) if before is None else (before.packs, finished):
                for pack, size in group.sizes.items():
                    state = catalog.add_pack(tables, state, pack, size, group.places.of_pack(pack))
            for record in self.ledger.read(state.end, state.end) if state.end < end else ():
                if record.end > end:
                    break  # another process's record, perhaps not synced yet
                state = catalog.apply_ledger_record(tables, state, record)
            catalog.write_state(tables, state)

        with suppress(IndexUnusable, errors.StoreError, OSError):
            self._index.change(work)
