"""Maintenance of a store: gc, repair and purge. No other code removes or rewrites stored data.

The danger prevented here: maintenance that blocks saves. Maintenance requests the exclusive store lock at a gate, for a
short time. It releases the gate during a long save or restore.
"""

import os
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from .. import errors, fsio, locks
from ..messages import printable, store_errors
from ..model import digest as digests
from ..model import undo_history
from ..model.checkpoint import Checkpoint
from . import catalog, ledger, purged_digests
from .budget import GcState
from .index_sync import Convert, LedgerIndex
from .layout import Layout
from .packs import PackReader
from .salvage import Salvage
from .sweep import Sweep

_ASK = 0.2
"""Seconds for which the gate is closed while waiting for current holders of the store lock."""
_PATIENCE = 30.0
"""Seconds after which maintenance aborts if it never got the store lock."""
_MERGE_TIME = 10.0
"""Seconds for which maintenance waits for other maintenance: a save that merges packs on a busy disk needs some."""
_CURIOUS = 30 * 86400
"""Seconds for which cut or replaced files are kept."""
NO_PURGE, BEFORE, AFTER = "", "before", "after"


class Maintenance:
    """One process's maintenance of a store."""

    def __init__(self, layout: Layout, ledger_index: LedgerIndex, reader: PackReader) -> None:
        """All arguments belong to the store."""
        self._layout, self._ledger_index, self._reader = layout, ledger_index, reader
        self._purge_marker = PurgeMarker(layout.root, layout.temporary)

    @contextmanager
    def exclude_other_maintenance(self, patience: float | None = None) -> Iterator[None]:
        """Exclude maintenance by other processes; wait `patience` seconds for it, as long as a save needs to merge packs if
        None. Raises StoreBusy, StoreNotWritable."""
        if not self._layout.is_writable():
            raise errors.StoreNotWritable(f"the store {printable(self._layout.root)} cannot be written")
        deadline = _MERGE_TIME if patience is None else patience
        with locks.locked(self._layout.lock_path("gc"), exclusive=True, deadline=deadline, holder="gc"):
            yield

    def is_running(self) -> bool:
        """True while maintenance runs in some process."""
        try:
            with locks.locked(self._layout.lock_path("gc"), exclusive=True, deadline=0.0):
                return False
        except errors.StoreBusy:
            return True

    @contextmanager
    def hold_store_exclusively(self, patience: float | None = None) -> Iterator[None]:
        """Hold the store lock exclusively: no save or restore is in progress. Raises StoreBusy after `patience` seconds, by
        default those of a long save."""
        patience = _PATIENCE if patience is None else patience
        end = time.monotonic() + patience
        pause = 0.02
        while True:
            with ExitStack() as stack:
                try:
                    for name in ("gate", "store"):
                        lock = locks.locked(self._layout.lock_path(name), exclusive=True, deadline=min(_ASK, patience), holder=name)
                        stack.enter_context(lock)
                except errors.StoreBusy as error:
                    if time.monotonic() >= end:
                        raise errors.StoreBusy(
                            f"a save or a restore has kept the store busy for {patience:g} s: finished work is kept, "
                            f"run this again later"
                        ) from error
                else:
                    yield
                    return
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def newest_seq(self) -> int:
        """The newest sequence number."""
        return self._ledger_index.query(catalog.read_catalog_state).seq

    def count_checkpoints(self) -> int:
        """The number of all checkpoints of the store."""
        return self._ledger_index.query(catalog.read_catalog_state).points

    def published_after(self, seq: int) -> list[Checkpoint]:
        """The checkpoints with higher sequence numbers, oldest first."""
        return self._ledger_index.query(lambda tables: catalog.checkpoints_after_seq(tables, seq))

    def forget(self, identities: Iterable[str], seq: int) -> bool:
        """Forget checkpoints, durably. Returns False, without changes, if the ledger has records after `seq`."""
        with store_errors("writing the ledger of", self._layout.root), self._ledger_index.publishing():
            state, _ = self._ledger_index.ledger_state(b"")
            if state.seq != seq:
                return False
            record = ledger.encode(ledger.FORGET, seq + 1, undo_history.encode_forgotten(identities))
            end = self._ledger_index.ledger.append(state.end, record)
        self._ledger_index.index_published(end)
        return True

    def sweep(self) -> Sweep:
        """The operations that free space."""
        return Sweep(self._layout, self._ledger_index, self._reader)

    def salvage(self) -> Salvage:
        """The operations that repair a damaged store."""
        return Salvage(self._layout, self._ledger_index, self._reader)

    def compact_ledger_and_index(self) -> None:
        """Rewrite the ledger and the index if that saves space. Requires the exclusive store lock."""
        with store_errors("compacting the ledger of", self._layout.root):
            self._ledger_index.compact_ledger()
        self._ledger_index.compact_index()

    def other_bytes(self) -> int:
        """Bytes on disk outside of packs."""
        return self._layout.size(packs=False)

    def record_gc(self, began_ns: int, floor: int) -> None:
        """Record a finished gc by its start time. `floor`: size that it could not reduce, 0 = the budget is met."""
        disk = self._ledger_index.sizes()
        beside = self._layout.size(packs=False)
        GcState(began_ns, sum(disk.values()) + beside, len(disk), beside, floor).write(self._layout)

    def record_merge(self) -> None:
        """Record the number of packs after a merge. A gc is due at the same time as before."""
        GcState.read(self._layout.root)._replace(packs=len(self._ledger_index.sizes(again=False))).write(self._layout)

    def record_failed_gc(self) -> None:
        """Record a gc that failed now."""
        last = GcState.read(self._layout.root)
        with suppress(errors.CasrewindError):
            self.record_gc(time.time_ns(), last.floor)

    def drop_large_ballast(self, budget: int | None) -> None:
        """Remove the ballast if it is too large for the budget."""
        from . import ballast

        if ballast.is_budget_too_small_for_ballast(budget):
            ballast.remove_ballast(self._layout)

    @contextmanager
    def with_room_from_ballast(self, budget: int | None) -> Iterator[None]:
        """Free what needs no room to be freed, for maintenance that had too little: the ballast and leftovers. The
        ballast is made again at the end, if there is room for it."""
        from . import ballast

        ballast.remove_ballast(self._layout)
        self.remove_drafts()
        self.remove_leftovers()
        try:
            yield
        finally:
            ballast.make_ballast_whatever_is_free(self._layout, budget)

    def ballast_bytes(self) -> int:
        """Bytes on disk of the ballast."""
        from . import ballast

        return ballast.ballast_size(self._layout)

    def remove_drafts(self) -> None:
        """Remove the temporary files of dead processes. Errors are ignored."""
        fsio.remove_orphans(self._layout.temporary)

    def remove_leftovers(self) -> None:
        """Remove leftovers of interrupted processes, and old replaced files. Errors are ignored."""
        from . import scratch

        scratch.remove_dead_scratch()
        old = time.time() - _CURIOUS
        with suppress(OSError):
            for path in self._paths_of_leftovers():
                with suppress(OSError):
                    if os.lstat(path).st_mtime < old:
                        os.unlink(path)
        self._ledger_index.remove_old_indexes()
        self._ledger_index.remove_stat_files()

    def _paths_of_leftovers(self) -> Iterator[str]:
        root = self._layout.root
        aside = ((root, "ledger.cut-"), (root, "ledger.damaged-"), (self._layout.journals, ".damaged-"))
        for directory, mark in (*aside, (os.path.join(root, "damaged"), "")):
            with suppress(FileNotFoundError):
                yield from (os.path.join(directory, name) for name in os.listdir(directory) if mark in name)

    # -- a purge, in the order of these methods

    def unfinished_purge(self) -> str:
        """The state of an interrupted purge: NO_PURGE, BEFORE it took effect, or AFTER."""
        identity = self._purge_marker.read()
        if identity is None:
            return NO_PURGE
        now = self._read_ledger_id()
        return AFTER if not identity or now == identity or ledger.is_rewrite_of(now, identity) else BEFORE

    def _read_ledger_id(self) -> bytes:
        return ledger.Ledger(self._layout.ledger).identity()

    def remove_purge_marker(self) -> None:
        """Remove the purge marker."""
        with store_errors("ending a purge in", self._layout.root):
            self._purge_marker.remove()

    def rewrite_ledger_for_purge(
        self, convert: Convert, histories: dict[bytes, undo_history.History], gone: Collection[bytes], changed: Sequence[str]
    ) -> None:
        """Rewrite the ledger: from then on, and only then, nothing names the purged content. Requires the exclusive
        store lock, and all blobs that the new ledger names. `gone`: the digests of what is purged, `changed`: the ids
        of the checkpoints that lose something. Raises StoreError."""
        try:
            with store_errors("purging in", self._layout.root):
                self._purge_marker.write(ledger.id_of_next_rewrite(self._read_ledger_id()))
                self._mark_remote_chains(gone)
                self._ledger_index.rewrite_ledger(convert, histories, changed)
        except BaseException:
            with suppress(OSError, errors.CasrewindError):
                if self.unfinished_purge() == BEFORE:
                    self._purge_marker.remove()
            raise

    def _mark_remote_chains(self, gone: Collection[bytes]) -> None:
        """Mark what is known of each remote: the next push begins anew, and deletes what it pushed before the purge."""
        with suppress(FileNotFoundError):
            for name in os.listdir(self._layout.remotes):
                place = os.path.join(self._layout.remotes, name)
                before = b""
                with suppress(FileNotFoundError):
                    before = fsio.read_file(os.path.join(place, PURGED))
                fsio.replace_file(place, PURGED, purged_digests.encode(gone, before))
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, SENT))  # digests of purged content

    def remove_purged_bytes(self) -> None:
        """Remove everything that may still hold purged bytes, then the marker. Requires the exclusive store lock, and
        packs with reachable blobs only. Raises StoreError."""
        self._ledger_index.recreate_index()
        with store_errors("removing what was set aside in", self._layout.root):
            self._ledger_index.remove_old_indexes(wholly=True)
            fsio.remove_orphans(self._layout.temporary)
            for path in self._paths_of_leftovers():
                os.unlink(path)
            with fsio.closing(os.open(self._layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
                fsio.sync_tree(root)  # a power cut must not bring back a draft or an index
        self.remove_purge_marker()


MAGIC = b"CRX1"
_BODY = struct.Struct("<4s16s")  # magic, id of the ledger that completes the purge
_CHECK = 16
NAME = "purging"
PURGED, SENT = "purged", "sent"
"""Files in the directory of a remote: a purge happened since the last push, and the digests of what was pushed."""


def encode_purge_marker(identity: bytes) -> bytes:
    """A purge marker as bytes; `identity` is the id of the ledger that the purge writes."""
    body = _BODY.pack(MAGIC, identity)
    return body + digests.of(body)[:_CHECK]


def decode_purge_marker(data: bytes) -> bytes:
    """The ledger's id in a purge marker. Raises StoreDamaged."""
    if len(data) != _BODY.size + _CHECK or digests.of(data[:-_CHECK])[:_CHECK] != data[-_CHECK:]:
        raise errors.StoreDamaged("damaged purge marker: its bytes are not what was written", "run casrewind gc")
    magic, identity = _BODY.unpack_from(data)
    if magic != MAGIC:
        raise errors.StoreDamaged("damaged purge marker: wrong magic", "run casrewind gc")
    return bytes(identity)


class PurgeMarker:
    """The purge marker of one store: present while a purge is in progress."""

    def __init__(self, store: str, temporary: str) -> None:
        """`temporary` is the directory for unfinished files."""
        self._store, self._temporary = store, temporary
        self._path = os.path.join(store, NAME)

    def read(self) -> bytes | None:
        """The id of the ledger that the purge writes, None without a purge, b"" if the marker cannot be read."""
        try:
            return decode_purge_marker(fsio.read_file(self._path, 200))
        except FileNotFoundError:
            return None
        except (OSError, errors.StoreDamaged):
            return b""

    def write(self, identity: bytes) -> None:
        """Write the marker, durably. Raises OSError."""
        fsio.replace_file(self._store, NAME, encode_purge_marker(identity), temporary=self._temporary)

    def remove(self) -> None:
        """Remove the marker, durably. Raises OSError."""
        os.unlink(self._path)
        fsio.sync_directory(self._store)
