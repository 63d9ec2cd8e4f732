"""The store: packs, ledger and index, and the order in which they are written.

The danger prevented here: an acknowledged checkpoint names bytes that a crash or a sweep has removed. Packs and
ledger are the data; the index is derived. A save writes blobs, syncs its packs, and only then appends a checkpoint
record to the ledger. The checkpoint exists once that record is synced (publish). The index is updated afterwards, and
may be lost at any time. docs/internals/format.md states the invariants and derives the orders.

Locks (kernel locks with deadlines, docs/internals/format.md):

- `gate` and `store`: shared by savers and restorers, exclusive for removing packs.
- `publish`: for appends. `index`: around every use of LMDB.
- `restore-<worktree>`: one restore per worktree.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from .. import errors, fsio, locks
from .._typing import NamedTuple
from ..messages import printable, store_error
from ..model import domain as domains
from ..model import manifest, statement
from ..model.checkpoint import Checkpoint
from ..model.checkpoint import encode as encode_checkpoint
from . import catalog, ledger, packs, stat_file
from .budget import MANY, GcState, WriteQuota
from .index import Index
from .index_sync import LedgerIndex
from .layout import Layout
from .stat_file import Basis
from .writer import StoreWriter

TYPE_CHECKING = False
if TYPE_CHECKING:  # a save does not need it
    from contextlib import AbstractContextManager

    from ..model import plan as plans
    from ..model import rewind_record as rewinds
    from ..model import undo_history
    from ..model.directory_nodes import NodeList
    from .agent_sessions import AgentSessions
    from .bisect_rows import BisectRows
    from .directory_origin_rows import OriginRows
    from .journal import Journals
    from .maintenance import Maintenance

Redraft = Callable[[str], Checkpoint]
"""Gives a draft anew, with what changed since the checkpoint of this id, or since nothing ("")."""


class LedgerPosition(NamedTuple):
    """A position in a ledger: the id of its file, the offset, and the number of the last record before it, which a rewrite keeps."""

    ledger_id: bytes = b""
    end: int = 0
    seq: int = 0


_NOWHERE = packs.BlobLocation("", 0, 0, 0)
DEADLINE = 10.0
"""Seconds to wait for a lock."""


class Store:
    """One open store directory."""

    def __init__(self, path: str, *, create: bool = False, repair: bool = False, deadline: float = DEADLINE) -> None:
        """Open the store at `path`. With `create`, creates a missing store. With `repair`, first restores missing
        structure and lists the repairs in `repaired`. Raises WorkspaceNotFound, StoreForeign, FormatUnsupported,
        StoreDamaged, StoreNotWritable, StoreFull. Raises UsageError for a directory with other contents."""
        self.path = os.path.abspath(path)
        self.deadline = deadline
        self._layout = Layout(self.path)
        if create and not os.path.lexists(self._layout.format):
            self._layout.create()
        if not self._layout.exists():
            if os.path.isdir(self.path):
                self._layout.raise_unless_owned()  # another user's store looks like an empty directory
            raise errors.WorkspaceNotFound(f"no checkpoints yet (no store at {printable(self.path)})", "casrewind save makes the first")
        self.repaired = self._layout.restore_format_and_directories() if repair else []
        self._layout.raise_unless_sound()
        self._reader = packs.PackReader(self._layout.packs)
        self._index_directory, self._private = self._layout.choose_index_directory()
        self.index = Index(self._index_directory, self._layout.lock_path("index"), deadline, sealed_off=self._private)
        ledger_file = ledger.Ledger(self._layout.ledger, self._layout.temporary)
        publish_lock = partial(locks.locked, self._layout.lock_path("publish"), deadline=deadline)
        self._ledger_index = LedgerIndex(self.path, ledger_file, self.index, self._layout.packs, publish_lock)
        self._rebuilt = False
        self.lacks_ballast = False
        """True if this object has written, and the store has no ballast (store/ballast.py)."""
        self._packs_seen, self._wrote = (0, 0), False  # number and bytes of packs, as of the last writer

    def close(self) -> None:
        """Close packs and index."""
        self._reader.close()
        self.index.close()
        if self._private:
            from . import scratch

            scratch.remove_scratch(self._index_directory)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_untouched(self) -> bool:
        """True if this store has no record yet."""
        return self._layout.is_untouched()

    # -- reading

    def read(self, digest: bytes, kind: int | None = None) -> bytes:
        """A blob, for a use of that kind (store/packs.py; None: the kind in its record). Raises BlobMissing,
        BlobCorrupt. A wrong location in the index causes one rebuild."""
        place = self._locations_of([digest]).get(digest)
        try:
            if place is None:
                raise errors.BlobMissing(f"blob {digest.hex()[:16]} is in no pack", "run casrewind verify")
            return self._reader.read(place, digest, kind)
        except (errors.BlobMissing, errors.BlobCorrupt):
            now = self._ledger_index.query(lambda tables: catalog.find_blob(tables, digest))  # the index lagged, or gc moved it
            if now is not None and now != place:
                self._reader.close()
                return self._reader.read(now, digest, kind)
            if self._rebuilt:
                raise
            self._rebuilt = True
            self._reader.close()
            with suppress(errors.LedgerCorrupt):  # keep the index; the caller needs the blob's own error
                self._ledger_index.rebuild()
            return self.read(digest, kind)

    def read_many(
        self, digests: list[bytes], kind: int | None = None
    ) -> Iterator[tuple[bytes, bytes | errors.StoreDamaged]]:
        """Yield (digest, blob or error) in the order of the packs, for a use of that kind."""
        places = self._locations_of(digests)
        for digest in sorted(digests, key=lambda digest: places.get(digest, _NOWHERE)):
            try:
                place = places.get(digest)
                yield digest, self.read(digest, kind) if place is None else self._reader.read(place, digest, kind)
            except (errors.BlobMissing, errors.BlobCorrupt):
                try:
                    yield digest, self.read(digest, kind)
                except errors.StoreDamaged as error:
                    yield digest, error

    def _locations_of(self, wanted: list[bytes]) -> dict[bytes, packs.BlobLocation]:
        return self._ledger_index.query_as_it_is(lambda tables: catalog.find_blobs(tables, wanted))

    def lengths(self, digests: list[bytes]) -> dict[bytes, int]:
        """{digest: bytes} of the blobs that are in a pack of sufficient length."""
        self._ledger_index.sizes()
        return {digest: place.raw for digest, place in self._locations_of(digests).items()}

    def load_tree(self, digest: bytes) -> "manifest.Tree | NodeList":
        """The entries of a directory, or one node of a large directory (a manifest.Loader)."""
        return manifest.decode_node(self.read(digest, packs.TREE))

    def domain(self, digest: bytes) -> domains.Domain:
        """A checkpoint's domain."""
        return domains.decode(self.read(digest, packs.DOMAIN))

    def plan(self, digest: bytes) -> "plans.Actions":
        """The actions of an executed plan."""
        from ..model import plan as plans

        return plans.decode(self.read(digest, packs.PLAN))

    def content(self, entry: manifest.Entry) -> Iterator[bytes]:
        """Yield a file's bytes in pieces, verified."""
        from .reading import read_content

        return read_content(self.read, entry)

    def verify_records(self) -> None:
        """Read every record of the ledger, including old ones. Raises LedgerCorrupt."""
        self._ledger_index.verify_records()

    @property
    def journals(self) -> "Journals":
        """The journals of open restores."""
        from .journal import Journals

        return Journals(self._layout)

    def is_restore_open(self, worktree: bytes) -> bool:
        """True if a restore of the worktree was begun and not finished, running or not."""
        return os.path.lexists(self._layout.journal_path(worktree))

    def is_interrupted(self, worktree: bytes) -> bool:
        """True if a restore of the worktree is unfinished and no process is working on it."""
        return self.is_restore_open(worktree) and not self.is_restoring(worktree)

    @property
    def sessions(self) -> "AgentSessions":
        """The last known state of each agent session."""
        from .agent_sessions import AgentSessions

        return AgentSessions(self.path)

    @property
    def origins(self) -> "OriginRows":
        """What directories were made from."""
        from .directory_origin_rows import OriginRows

        return OriginRows(self.path)

    @property
    def bisects(self) -> "BisectRows":
        """The running bisects."""
        from .bisect_rows import BisectRows

        return BisectRows(self.path)

    def maintenance(self) -> "Maintenance":
        """The operations for gc, repair and purge."""
        from .maintenance import Maintenance

        return Maintenance(self._layout, self._ledger_index, self._reader)

    @property
    def remotes(self) -> str:
        """The directory with what is known of remotes (casrewind/remote)."""
        return self._layout.remotes

    def hold_lock(self, name: str, holder: str) -> "AbstractContextManager[int]":
        """Hold a lock that one process has at a time. `holder` is what such a process does, in words. Raises StoreBusy."""
        return locks.locked(self._layout.lock_path(name), exclusive=True, deadline=self.deadline, holder=holder)

    def size(self) -> int:
        """Bytes on disk."""
        return self._layout.size()

    # -- queries of the ledger's contents

    def checkpoints(
        self, most: int | None = None, wanted: Callable[[Checkpoint], bool] = lambda _: True, farthest: int | None = None,
        before: int | None = None,
    ) -> list[tuple[Checkpoint, catalog.Marked]]:  # fmt: skip
        """All checkpoints with their marks, newest first; with `most`, up to and including that many `wanted`; with
        `farthest`, at most that many in all; with `before`, those in front of that record."""
        return self._ledger_index.query(lambda tables: catalog.checkpoints_with_marks(tables, most, wanted, farthest, before))

    def checkpoints_after(self, seq: int) -> list[Checkpoint]:
        """Every checkpoint after the record `seq`, oldest first."""
        return self._ledger_index.query(lambda tables: catalog.checkpoints_after_seq(tables, seq))

    def checkpoint(self, identity: str) -> Checkpoint | None:
        """A checkpoint by its full id."""
        return self._ledger_index.query(lambda tables: catalog.point(tables, identity))

    def newest_and_newest_listed(self, worktree: bytes) -> tuple[Checkpoint | None, Checkpoint | None]:
        """Returns (the newest checkpoint of a worktree, its newest that is not a safety checkpoint)."""
        return self._ledger_index.query(lambda tables: catalog.newest_and_newest_listed(tables, worktree))

    def head(self, worktree: bytes, *, listed: bool = False) -> Checkpoint | None:
        """The newest checkpoint of a worktree; with `listed`, the newest that is not a safety checkpoint."""
        return self.newest_and_newest_listed(worktree)[listed]

    def has_agents(self, worktree: bytes) -> bool:
        """True if a worktree has a checkpoint of an agent's event, or of `casrewind run`."""
        return bool(self._ledger_index.query(lambda tables: catalog.worktree_row(tables, worktree)).agents)

    def listed_heads(self) -> list[Checkpoint]:
        """The newest checkpoint of each worktree that is not a safety checkpoint."""
        return self._ledger_index.query(catalog.newest_listed)

    def oldest(self, worktree: bytes) -> Checkpoint | None:
        """The oldest checkpoint of a worktree."""
        return self._ledger_index.query(lambda tables: catalog.oldest_checkpoint(tables, worktree))

    def count_listed_checkpoints(self, worktree: bytes) -> int:
        """The number of a worktree's checkpoints, without safety checkpoints."""
        return self._ledger_index.query(lambda tables: catalog.worktree_row(tables, worktree)).number

    def newest_of_agents(self, worktree: bytes) -> dict[str, Checkpoint]:
        """The newest checkpoint of each agent in a worktree, by the agent's name."""
        return self._ledger_index.query(lambda tables: catalog.newest_of_agents(tables, worktree))

    def marks(self, identity: str) -> catalog.Marked:
        """The pin and label of one checkpoint."""
        return self._ledger_index.query(lambda tables: catalog.marks_of(tables, identity))

    def histories(self) -> "dict[bytes, undo_history.History]":
        """{worktree key: undo history}."""
        return self._ledger_index.query(catalog.histories)

    def history(self, worktree: bytes) -> "undo_history.History":
        """The undo history of a worktree."""
        return self._ledger_index.query(lambda tables: catalog.worktree_row(tables, worktree).history())

    def has_finished_restore(self, worktree: bytes) -> bool:
        """True if a restore of the worktree was ever finished, or an interrupted one was taken back. Does not decode the history."""
        return bool(self._ledger_index.query(lambda tables: catalog.worktree_row(tables, worktree).steps))

    # -- stat files (store/stat_file.py)

    def basis(self, point: Checkpoint, life: bytes) -> Basis:
        """The basis for a stat index made with a checkpoint, in this life of the file system."""
        return Basis(point.id, point.tree, self._ledger_index.query(catalog.epoch), life)

    def is_basis_valid(self, worktree: bytes, basis: Basis, life: bytes) -> bool:
        """True if a stat index with this basis is valid in this life of the file system."""
        return self._ledger_index.query(lambda tables: stat_file.is_valid(tables, worktree, basis, life))

    def has_stat_file(self, worktree: bytes, life: bytes) -> bool:
        """True if a worktree has a valid stat file. Its checksum is not verified."""
        basis = stat_file.read_basis(self._index_directory, worktree)
        return basis is not None and self.is_basis_valid(worktree, basis, life)

    def stat_index(self, worktree: bytes, life: bytes) -> tuple[Basis, bytes] | None:
        """The basis and the value in a worktree's stat file; None if there is no valid, sound stat file."""
        found = stat_file.read_stat_file(self._index_directory, worktree)
        if found is None or not self._ledger_index.query(lambda tables: stat_file.is_valid(tables, worktree, found[0], life)):
            return None
        return found

    def replace_stat_file(self, worktree: bytes, basis: Basis, value: bytes) -> None:
        """Replace the stat file of a worktree. Errors are ignored."""
        if not self._private:
            stat_file.replace_stat_file(self._index_directory, worktree, basis, value)

    # -- writing

    @contextmanager
    def writing(self, *, held: bool = False, budget: int | None = None, again: bool = True) -> Iterator[StoreWriter]:
        """Write to the store under the shared store lock (`held`: the caller has it exclusively). Removes unpublished
        data at the end. The gate is passed first, so that a stream of savers cannot starve maintenance. A write over
        `budget` bytes raises OverBudget. `again`: as in LedgerIndex.sizes."""
        with nullcontext() if held else self.hold_shared_lock():
            disk = self._ledger_index.sizes(again=again)
            quota = WriteQuota(self._layout, disk, budget)
            pack_writer = packs.PackWriter(self._layout.packs, self._layout.temporary, quota.raise_unless_write_fits)
            writer = StoreWriter(self.path, pack_writer, self.read, self._locations_of, disk, quota.raise_unless_file_fits, self.read_many)
            try:
                fsio.remove_orphans(self._layout.temporary)
                yield writer
            finally:
                writer.drop_pending_and_wait()  # a thread may still write
                self._wrote |= pack_writer.written > 0
                self.lacks_ballast = pack_writer.written > 0 and not os.access(self._layout.ballast, os.F_OK)
                self._packs_seen = (len(disk) + (pack_writer.written > 0), sum(disk.values()) + pack_writer.written)
                pack_writer.remove_unfinished()

    def make_ballast(self, budget: int | None) -> None:
        """Make the file that gives gc room on a full disk, if there is enough space. Errors are ignored."""
        from . import ballast

        ballast.make_ballast(self._layout, budget)

    def has_many_packs(self) -> bool:
        """True if the writes of this object have left many packs that are not merged."""
        return self._wrote and self._packs_seen[0] > GcState.read(self.path).packs + MANY

    def why_gc(self, budget: int | None) -> str:
        """The reason to run gc after the writes of this object, or ""."""
        if not self._wrote:
            return ""
        return GcState.read(self.path).reason_to_run_gc_again(time.time_ns(), *self._packs_seen, budget)

    @contextmanager
    def hold_shared_lock(self) -> Iterator[None]:
        """Hold the store lock shared: nothing is swept in the block."""
        with locks.locked(self._layout.lock_path("gate"), exclusive=False, deadline=self.deadline):
            lock = locks.open_lock(self._layout.lock_path("store"))
            try:
                if lock is not None:
                    locks.acquire(lock, exclusive=False, deadline=self.deadline, holder="store")
            except BaseException:
                if lock is not None:
                    os.close(lock)
                raise
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)

    def publish(self, writer: StoreWriter, draft: Checkpoint, redraft: Redraft, *, index_later: bool = False) -> Checkpoint:
        """Make everything that the writer wrote durable, then the checkpoint. It exists when this returns. If another
        checkpoint was published since the draft, `redraft` gives the draft anew, by the id of that one. `index_later`: the caller
        appends another record before it stops writing, and the index gets both then. Raises StoreFull, StoreBusy, StoreError;
        then nothing is published."""
        try:
            finished = writer.write_and_sync_packs(is_followed=True)  # by the ledger, without which nothing names them
            with self._ledger_index.publishing():
                state, parent = self._ledger_index.ledger_state(draft.worktree)
                current = draft if parent == draft.parent else redraft(parent)
                point = statement.linked(current._replace(seq=state.seq + 1, parent=parent), state.statement)
                record = ledger.encode(ledger.CHECKPOINT, point.seq, encode_checkpoint(point))
                end = self._ledger_index.ledger.append(state.end, record)
        except OSError as error:
            raise store_error(error, "publishing to", self.path) from error
        if index_later:
            self._ledger_index.leave_unindexed(end, point.seq, finished)
        else:
            self._ledger_index.index_published(end, finished)
        return point

    def add_blobs(self, writer: StoreWriter) -> None:
        """Make the writer's blobs durable without a checkpoint. A plan needs this, because only the ledger names it."""
        try:
            finished = writer.write_and_sync_packs()
        except OSError as error:
            raise store_error(error, "writing to the store", self.path) from error
        self._ledger_index.index_published(0, finished)

    def append(self, kind: int, payload: bytes) -> None:
        """Append a record to the ledger, durably."""
        self.append_all([(kind, payload)])

    def append_all(self, records: Iterable[tuple[int, bytes]]) -> None:
        """As append. Each is synced before the next: of two concurrent ones, a power cut could keep the second and lose the first."""
        end = 0
        try:
            with self._ledger_index.publishing():
                state, _ = self._ledger_index.ledger_state(b"")
                for number, (kind, payload) in enumerate(records, state.seq + 1):
                    end = self._ledger_index.ledger.append(end or state.end, ledger.encode(kind, number, payload))
        except OSError as error:
            raise store_error(error, "writing the ledger of", self.path) from error
        finally:
            if end:
                self._ledger_index.index_published(end)

    def identities(self) -> dict[str, int]:
        """{id: sequence number} of every checkpoint."""
        return self._ledger_index.query(catalog.identities)

    def records_after(self, position: LedgerPosition, *kinds: int) -> tuple[list[ledger.Record], LedgerPosition]:
        """Returns (the records of these kinds after a position, oldest first; the position behind them). After a rewrite
        of the ledger the whole ledger is read."""
        state = self._ledger_index.query(catalog.read_catalog_state)
        start = position.end if position.ledger_id == state.ledger_id else 0
        found = [one for one in self._ledger_index.ledger.read(start, state.end) if position.seq < one.seq <= state.seq]
        return [one for one in found if one.kind in kinds], LedgerPosition(state.ledger_id, state.end, state.seq)

    def record_operation(self, operation: "undo_history.Operation") -> None:
        """Append a finished restore, undo or redo to the ledger, or the end of an interrupted one."""
        from ..model import undo_history

        kinds = {undo_history.RESTORE: ledger.RESTORE, undo_history.UNDO: ledger.UNDO, undo_history.REDO: ledger.REDO}
        self.append(kinds.get(operation.op, ledger.FINISH), undo_history.encode_operation(operation))

    def operations(self, since: int = 0) -> "list[undo_history.Operation]":
        """Every restore, undo and redo in the ledger after the record `since`, and every end of an interrupted one, oldest
        first. Reads the whole ledger."""
        from ..model import undo_history

        found = self._ledger_index.records(*ledger.OPERATIONS)
        return [undo_history.decode_operation(record.payload) for record in found if record.seq > since]

    def adoptions(self) -> "list[undo_history.Adoption]":
        """Every move of a project that the ledger contains, oldest first. Reads the whole ledger."""
        from ..model import undo_history

        return [undo_history.decode_adoption(record.payload) for record in self._ledger_index.records(ledger.ADOPT)]

    def record_rewind(self, rewind: "rewinds.Rewind") -> None:
        """Append a rewind of a conversation to the ledger."""
        from ..model import rewind_record as rewinds

        self.append(ledger.SESSION, rewinds.encode(rewind))

    def rewinds(self, since: int = 0) -> "list[rewinds.Rewind]":
        """All rewinds of conversations in the ledger after the record `since`, oldest first. Reads the whole ledger."""
        from ..model import rewind_record as rewinds

        return [rewinds.decode(record.payload) for record in self._ledger_index.records(ledger.SESSION) if record.seq > since]

    def seq_of_rewind(self, worktree: bytes, session: str) -> int | None:
        """The number of the newest record of a rewind that made or cut a session in a worktree, or None. Reads the whole ledger."""
        from ..model import rewind_record as rewinds

        made = ((record.seq, rewinds.decode(record.payload)) for record in self._ledger_index.records(ledger.SESSION))
        return max((seq for seq, one in made if one.session == session and one.worktree == worktree), default=None)

    @contextmanager
    def hold_restore_lock(self, worktree: bytes) -> Iterator[None]:
        """Hold the lock that limits restores to one per worktree. Raises StoreBusy at once if another restore runs."""
        lock = self._layout.lock_path("restore-" + worktree.hex())
        with locks.locked(lock, exclusive=True, deadline=0.2, holder="restore"):
            try:
                yield
            finally:
                self._ledger_index.forget_unindexed()

    def is_restoring(self, worktree: bytes) -> bool:
        """True while a restore of this worktree runs in some process."""
        try:
            with self.hold_restore_lock(worktree):
                return False
        except errors.StoreBusy:
            return True
