"""The books: the ledger, and the index kept in step with it and with the packs on disk.

The danger prevented here: an answer from an index that is older, newer or other than the truth. Every query first
compares the index with the ledger's length and the names of the packs; what is behind follows, what contradicts is
thrown away and derived again. A pack that was cut keeps its name: whoever relies on what he does not read asks for
`sizes`; all others notice when they read it.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from .. import errors, fsio
from .._typing import Protocol, TypeVar
from ..model import history
from ..model import stamp as stamps
from . import catalog, ledger, packs
from .index import Index, Tables
from .index_check import IndexGone, IndexUnusable

Result = TypeVar("Result")
Convert = Callable[[int, int, bytes], bytes]
"""The payload that a record of the ledger (its kind, sequence number, payload) gets."""
_TRIES = 3
_PAUSE = 0.05  # seconds
_WORTHWHILE = 4096  # bytes that a new ledger must save at least


def is_of(known: Collection[str], disk: Collection[str]) -> bool:
    """True when an index that knows these packs is that of a store with those on disk, whatever its ledger says."""
    return sum(pack in disk for pack in known) * 2 > len(known)


class _Retries:
    """Decides how often a query of an unusable index is tried again: a few times, and longer while another process keeps removing
    the index (as long as for a lock)."""

    def __init__(self, deadline: float) -> None:
        """`deadline` in seconds from now, when it has failed for the first time."""
        self._left, self._end = _TRIES, time.monotonic() + deadline

    def failed(self, error: Exception) -> None:
        """Return when it is to be tried again. Raises StoreBusy, StoreDamaged."""
        if isinstance(error, IndexGone):
            if time.monotonic() < self._end:
                return
            raise errors.StoreBusy("the index is removed again and again while it is used; try again") from error
        self._left -= 1
        if self._left == 0:
            raise errors.StoreDamaged(f"the index cannot be rebuilt: {error}; run casrewind verify") from error


class StoreLock(Protocol):
    """Takes a lock of the store for the length of a with-block."""

    def __call__(self, *, exclusive: bool) -> AbstractContextManager[object]:
        """Raises StoreBusy."""


class LedgerIndex:
    """The ledger and the index of one store."""

    def __init__(self, path: str, ledger_file: ledger.Ledger, index: Index, pack_directory: str, lock: StoreLock) -> None:
        """`path` names the store in errors; `lock` takes the publish lock, exclusive or shared."""
        self._path, self.ledger, self._index, self._packs = path, ledger_file, index, pack_directory
        self._lock, self._is_publishing = lock, False
        self._agreed = stamps.NONE  # of the packs' directory, when it held the packs of the index and no others

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold the publish lock alone: for the moment of appending. Raises StoreBusy."""
        with self._lock(exclusive=True):
            self._is_publishing = True
            try:
                yield
            finally:
                self._is_publishing = False

    def check_ledger(self) -> None:
        """Check every record. Raises LedgerCorrupt."""
        state = self.query(catalog.read_state)
        deque(self.ledger.read(0, state.end), maxlen=0)

    def records(self, *kinds: int) -> list[ledger.Record]:
        """The ledger's records of these kinds, oldest first: for what is asked too rarely to be in the index."""
        state = self.query(catalog.read_state)
        return [record for record in self.ledger.read(0, state.end) if record.kind in kinds]

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()

    def query(self, work: Callable[[Tables], Result]) -> Result:
        """Run a reading `work` on an index that has followed every record and pack that is there now."""
        tries: _Retries | None = None
        while True:
            try:
                if self._is_behind():
                    self.follow()
                with self._index.view() as tables:
                    return work(tables)
            except (IndexUnusable, errors.ManifestCorrupt) as error:
                tries = tries or _Retries(self._index.deadline)
                tries.failed(error)
                self.rebuild()

    def _is_behind(self) -> bool:
        with self._index.view() as tables:  # gc changes packs, ledger and index only while it holds the index's lock
            state = catalog.read_state(tables)
            if state.ledger != self.ledger.identity():
                raise IndexUnusable("the ledger was replaced")
            return not self._knows_all_packs(tables) or state.end != self.ledger.size()

    def _knows_all_packs(self, tables: Tables) -> bool:
        """Whether the index knows the packs on disk. Raises IndexUnusable when it knows one that is gone.

        They are listed only when their directory has changed since they were found to be the same: what comes or goes
        changes its stamp, unless that was racy.
        """
        before = time.time_ns()
        stamp = stamps.of(os.stat(self._packs))
        if stamp == self._agreed:
            return True
        disk, known = packs.names(self._packs), catalog.pack_names(tables)
        if not known <= disk:
            raise IndexUnusable("a pack of the index is gone")
        if len(known) == len(disk) and not stamps.is_racy(stamp, before):
            self._agreed = stamp
        return len(known) == len(disk)

    def sizes(self) -> dict[str, int]:
        """{id: bytes} of the packs on disk. When one is gone or cut the index is made anew, and no stat file counts any more:
        nothing that is in there may be believed to be stored. Raises StoreDamaged."""
        before = time.time_ns()
        stamp, known, disk = self.view(
            lambda tables: (stamps.of(os.stat(self._packs)), catalog.pack_sizes(tables), packs.sizes(self._packs))
        )
        if any(disk.get(pack, -1) < size for pack, size in known.items()):
            self.rebuild()
        elif len(known) == len(disk) and not stamps.is_racy(stamp, before):
            self._agreed = stamp
        return disk

    def follow(self) -> catalog.CatalogState:
        """Bring the index up to the ledger's end and the packs on disk; the state it is in then.

        New records under the publish lock only: none is believed while it is being written.
        """
        try:
            if self._is_publishing or not self._is_ledger_ahead():
                return self._index.change(lambda tables: self._catch_up(tables, records=self._is_publishing))
            with self._lock(exclusive=False):
                return self._index.change(lambda tables: self._catch_up(tables, records=True))
        except OSError as error:
            raise fsio.store_error(error, "writing the index in", self._path) from error

    def _is_ledger_ahead(self) -> bool:
        try:
            with self._index.view() as tables:
                return catalog.read_state(tables).end != self.ledger.size()
        except IndexUnusable:
            return True

    def _catch_up(self, tables: Tables, *, records: bool) -> catalog.CatalogState:
        # What others wrote is made durable first: they may have been killed before they could, and an index that knows
        # more than the disk does after a power cut would make a sound ledger look cut.
        identity = self.ledger.identity()
        try:
            state = catalog.read_state(tables)
        except IndexUnusable:
            if not (records and catalog.is_empty(tables)):
                raise
            state = catalog.CatalogState(identity, ledger.HEAD.size, 0)
            catalog.begin_epoch(tables)
        if state.ledger != identity:
            raise IndexUnusable("the ledger was replaced")
        before = state
        disk, known = packs.names(self._packs), catalog.pack_names(tables)
        if not known <= disk:
            raise IndexUnusable("a pack of the index is gone")
        if len(known) < len(disk) and not self._index.is_private:
            fsio.sync_directory(self._packs)
        for pack in sorted(disk - known):
            rows = list(packs.records(self._packs, pack))
            size = os.stat(packs.path_of(self._packs, pack), follow_symlinks=False).st_size
            state = catalog.add_pack(tables, state, pack, size, rows)
        new = list(self.ledger.read(state.end, state.end)) if records else []
        if new and not self._index.is_private:
            self.ledger.sync()
        for record in new:
            state = catalog.apply(tables, state, record)
        if state != before or before.end == ledger.HEAD.size:
            catalog.write_state(tables, state)
        return state

    def read_unchecked(self, work: Callable[[Tables], Result]) -> Result | None:
        """Run a reading `work` on the index as it is; None when it is of no use. That is not believed at once: what only
        the index remembers is lost when it is taken for useless after a passing I/O error."""
        for _ in range(_TRIES):
            with suppress(IndexUnusable, errors.ManifestCorrupt), self._index.view() as tables:
                return work(tables)
        return None

    def replace_ledger(self, records: bytes, after: bytes) -> None:
        """Put a ledger of encoded records in the place of the one there is, as the successor of the one with the id
        `after` (b"" = of the one that is there). Raises OSError."""
        with self.publishing():
            self.ledger.replace(records, after)

    def rebuild(self, *, witness: bool = True) -> None:
        """Throw the index (and with it all stat files) away and derive it again from the ledger and the packs. As a
        `witness` that the ledger was longer once, or another one, it stays, and LedgerCorrupt is raised."""
        doubted = self._index.seen
        with suppress(IndexUnusable):  # what it followed was durable: a ledger that ends before it is cut, not torn
            with self._index.view() as tables:
                state, known = catalog.read_state(tables), catalog.pack_names(tables)
            if witness:
                self._testify(state, known)  # raises, and the index stays as a witness
        tries, pause = _Retries(self._index.deadline), _PAUSE
        while True:
            try:
                self._index.discard(doubted)
                self.follow()
            except IndexUnusable as error:
                tries.failed(error)
                if not isinstance(error, IndexGone):
                    time.sleep(pause)  # somebody moved a pack, or does the same
                    pause += _PAUSE
                doubted = self._index.seen
            except OSError as error:
                raise fsio.store_error(error, "rebuilding the index in", self._path) from error
            else:
                return

    def _testify(self, state: catalog.CatalogState, known: set[str]) -> None:
        """Raise LedgerCorrupt when the ledger is not what an index that knows these packs has followed."""
        identity = self.ledger.identity()
        if state.ledger == identity:
            deque(self.ledger.read(0, state.end), maxlen=0)
        elif is_of(known, packs.names(self._packs)) and not ledger.is_later(identity, state.ledger):
            raise errors.LedgerCorrupt(
                f"damaged ledger: the one in {fsio.printable(self._path)} is older than what was followed, or another store's; "
                f"run casrewind verify"
            )

    def view(self, work: Callable[[Tables], Result]) -> Result:
        """Run a reading `work` on the index as it is, unless it is unusable: cheaper than query, and possibly behind."""
        try:
            with self._index.view() as tables:
                return work(tables)
        except IndexUnusable:
            return self.query(work)

    def change(self, work: Callable[[Tables], None], afterwards: Callable[[], None]) -> None:
        """Change the index, then, while nobody else can look at it, what it was changed for. `work` may run again."""
        tries = _Retries(self._index.deadline)
        while True:
            try:
                self._index.change(work, afterwards)
            except IndexUnusable as error:
                tries.failed(error)
                self.rebuild()
            else:
                return

    def remove_stat_files(self) -> None:
        """Remove the stat files that no save will believe, and drafts of them. Failing here loses nothing."""
        from . import stat_file

        with suppress(errors.CasrewindError):
            self.query(lambda tables: stat_file.remove_invalid(self._index.directory, tables))

    def compact_index(self) -> None:
        """Give back the pages of the index that are free, if they are a third of it. It can be made anew: failing here is
        nobody's business."""
        with suppress(IndexUnusable, OSError):
            self._index.compact()

    def compact(self) -> None:
        """Write the ledger anew without what counts no more, if that makes it a good deal smaller. Raises OSError."""
        from . import ledger

        with self.publishing():
            state, _ = self.ledger_state(b"")
            histories = self.view(catalog.histories)
            alive = self.view(catalog.identities)
            records = b"".join(ledger.compact(self.ledger.read(0, state.end), alive, histories, state.seq))
            if len(records) + _WORTHWHILE > state.end * 0.9:
                return
            done: list[bool] = []

            def work(tables: Tables) -> None:
                if not done:  # the file first: an index of another ledger is made anew, a ledger is not
                    self.ledger.replace(records)
                    done.append(True)
                seq = state.seq + len(histories)
                now = catalog.read_state(tables)._replace(ledger=self.ledger.identity(), end=self.ledger.size(), seq=seq)
                catalog.write_state(tables, now)

            try:
                self._index.change(work)
            except IndexUnusable:
                self.rebuild()

    def rewrite(self, convert: Convert, histories: dict[bytes, history.History]) -> None:
        """Write the ledger anew without what counts no more, every record's payload as `convert` makes it and the undo
        histories as given; then make the index anew. Only with the store held alone. Raises OSError."""
        from . import ledger

        with self.publishing():
            state, _ = self.ledger_state(b"")
            alive = self.view(catalog.identities)
            found = self.ledger.read(0, state.end)
            made = (record._replace(payload=convert(record.kind, record.seq, record.payload)) for record in found)
            self.ledger.replace(b"".join(ledger.compact(made, alive, histories, state.seq)))
        self.recreate()

    def recreate(self) -> None:
        """Make the index from nothing: what was taken out of a table stays in LMDB's unused pages."""
        self._index.discard()
        self.rebuild(witness=False)

    def remove_old_indexes(self, *, wholly: bool = False) -> None:
        """Remove indexes that were thrown away by somebody who could not finish it. `wholly`: raises OSError when it fails."""
        self._index.remove_discarded(wholly=wholly)

    def ledger_state(self, worktree: bytes) -> tuple[catalog.CatalogState, str]:
        """Where the ledger ends and the id of the newest checkpoint of a worktree. Under the publish lock."""
        tries: _Retries | None = None
        while True:
            try:
                with self._index.view() as tables:
                    state, head = catalog.read_state(tables), catalog.heads(tables, worktree).newest
                if state.ledger != self.ledger.identity():
                    raise IndexUnusable("the ledger was replaced")
                if state.end == self.ledger.size():
                    return state, head
                if self.follow().end == state.end:
                    return state, head  # what lies behind is a torn tail; the append cuts it
            except IndexUnusable as error:
                tries = tries or _Retries(self._index.deadline)
                tries.failed(error)
                self.rebuild()

    def follow_published(self, end: int, finished: dict[str, packs.FinishedPack]) -> None:
        """Bring the index up to what was just made durable (the ledger up to offset `end`, the finished packs), in one
        commit. It is disposable: failing here loses nothing."""
        def work(tables: Tables) -> None:
            state = catalog.read_state(tables)
            for pack, (size, rows) in finished.items():
                state = catalog.add_pack(tables, state, pack, size, rows)
            for record in self.ledger.read(state.end, state.end) if state.end < end else ():
                if record.end > end:
                    break  # somebody else's, perhaps not synced yet
                state = catalog.apply(tables, state, record)
            catalog.write_state(tables, state)

        with suppress(IndexUnusable, errors.StoreError, OSError):
            self._index.change(work)
