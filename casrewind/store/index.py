"""The index: one LMDB environment behind the store's own kernel locks. The only importer of lmdb.

The danger prevented here: LMDB's writer lock cannot time out, hangs behind a stopped process and fails across pid
namespaces. A cut data file kills the reader with SIGBUS. So LMDB locks nothing (`lock=False`), and every access
happens inside a flock with a deadline. Before the file is mapped, it is compared with the digest noted after our last
write (store/index_check.py). LMDB has no checksums either, so each value has its own. The index holds only what can
be derived from the packs and the ledger: on any doubt it raises IndexUnusable and is rebuilt.

On macOS LMDB syncs nothing. It knows a full sync alone there, and fails at each commit on a disk without one. After a power cut the data
file may be any mixture of its pages, so it counts only with the digest of all its bytes.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import lmdb

from .. import errors, fsio, locks
from .._typing import Any, TypeVar
from ..messages import is_disk_full, is_process_limit, store_error
from ..model import digest as digests
from . import index_check
from .index_check import IndexGone, IndexUnusable

NAMES = (b"meta", b"packs", b"blobs", b"points", b"ids", b"marks", b"worktrees")
"""The tables, described in store/catalog.py."""
_UNSEALED = b"blobs"
"""The table without checksums: it has a row for each blob, and a blob is verified when it is read."""
_FIRST_MAP = 1 << 30
_SMALL_MAP = 1 << 22  # for processes with a memory limit below _FIRST_MAP
_NOTE = 96  # bytes of the note about the data file
_SEAL = 8  # bytes of the checksum after each value
_WORTHWHILE = 1 << 20  # data files below this size (bytes) are not compacted

Result = TypeVar("Result")


class CheckedTable:
    """One table inside one transaction, bytes to bytes. Each value has a checksum: LMDB has none, and a flipped bit
    must cause a rebuild, not a wrong answer. Those of the table `_UNSEALED` have none."""

    __slots__ = ("_handle", "_is_sealed", "_transaction")

    def __init__(self, transaction: Any, name: bytes, handle: Any) -> None:  # lmdb has no types
        """`transaction` and `handle` are LMDB's. With `buffers`, values point into LMDB's memory until the transaction
        ends, so they are copied."""
        self._transaction, self._handle, self._is_sealed = transaction, handle, name != _UNSEALED

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises IndexUnusable if its checksum is wrong."""
        value = self._transaction.get(key, db=self._handle)
        if value is None:
            return None
        return _checked_body(key, bytes(value)) if self._is_sealed else bytes(value)

    def overwrite(self, key: bytes, value: bytes) -> bool:
        """Set the value of a key. Returns True if the key is new."""
        sealed = value + _checksum_of(key, value)
        is_new = self._transaction.put(key, sealed, overwrite=False, db=self._handle)
        return bool(is_new) or not self._transaction.put(key, sealed, db=self._handle)

    def delete(self, key: bytes) -> bool:
        """Remove a key. Returns True if it was present."""
        return bool(self._transaction.delete(key, db=self._handle))

    def is_empty(self) -> bool:
        """True if the table has no rows."""
        with self._transaction.cursor(db=self._handle) as cursor:
            return not cursor.first()

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) in key order, from the first key not below `start`."""
        with self._transaction.cursor(db=self._handle) as cursor:
            if not cursor.set_range(start):
                return
            for key, value in cursor:
                yield bytes(key), _checked_body(bytes(key), bytes(value))

    def count_and_items_from_last(self) -> tuple[int, Iterator[tuple[bytes, bytes]]]:
        """Returns (number of rows, iterator of (key, value) from the last key), which verifies each checksum. It reads the rows
        that are asked for, and no others."""

        def rows() -> Iterator[tuple[bytes, bytes]]:
            with self._transaction.cursor(db=self._handle) as cursor:
                if cursor.last():
                    for key, value in cursor.iterprev():
                        yield bytes(key), _checked_body(bytes(key), bytes(value))

        return int(self._transaction.stat(self._handle)["entries"]), rows()

    def unchecked_items_from(self, start: bytes) -> list[tuple[bytes, bytes]]:
        """As items, as a list without verifying checksums: for many rows where damage does no harm."""
        with self._transaction.cursor(db=self._handle) as cursor:
            return [(bytes(key), bytes(value)) for key, value in cursor] if cursor.set_range(start) else []

    def put_many(self, items: list[tuple[bytes, bytes]]) -> None:
        """Set many values of an unsealed table."""
        with self._transaction.cursor(db=self._handle) as cursor:
            cursor.putmulti(sorted(items))


def _checksum_of(key: bytes, value: bytes) -> bytes:
    return digests.of(len(key).to_bytes(2, "little") + key + value)[:_SEAL]


def _checked_body(key: bytes, value: bytes) -> bytes:
    body = value[:-_SEAL]
    if _checksum_of(key, body) != value[-_SEAL:]:
        raise IndexUnusable("a row of the index is damaged")
    return body


Tables = dict[bytes, CheckedTable]


class _Shared:
    """An open environment. LMDB allows one per file and process, so all users in this process share it."""

    __slots__ = ("environment", "handles", "inode", "users")

    def __init__(
        self, environment: lmdb.Environment, handles: dict[bytes, "lmdb._Database"], inode: tuple[int, int, int]
    ) -> None:
        self.environment, self.handles, self.inode, self.users = environment, handles, inode, 0


_OPEN: dict[tuple[int, int, int], _Shared] = {}


Version = tuple[int, ...]
"""A version of the data file: device, inode, size, mtime, ctime (inode numbers are reused); () = no file."""


def _version_in_status(status: os.stat_result) -> Version:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Index:
    """The LMDB environment of one store, opened on first use."""

    def __init__(self, directory: str, lock: str, deadline: float, *, sealed_off: bool = False) -> None:
        """`directory` holds the environment, `lock` is its lock file; `deadline` is in seconds. `sealed_off`: the
        directory belongs to this process alone (a temporary index of a store that cannot be written)."""
        self._directory, self._lock, self.deadline, self._private = directory, lock, deadline, sealed_off
        self._file = os.path.join(directory, "data.mdb")
        self._shared: _Shared | None = None
        self.seen: Version | None = None

    @property
    def directory(self) -> str:
        """The directory that holds the index and the files beside it."""
        return self._directory

    def size(self) -> int:
        """Bytes of the data file, 0 without one."""
        try:
            return os.lstat(self._file).st_size
        except OSError:
            return 0

    @property
    def is_private(self) -> bool:
        """True if the index is removed with this process."""
        return self._private

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[None]:
        if self._private:
            yield
            return
        with locks.locked(self._lock, exclusive=exclusive, deadline=self.deadline, holder="index"):
            yield

    @contextmanager
    def view(self) -> Iterator[Tables]:
        """Read the index. Raises IndexUnusable if there is no sound index. Values must not be used after the block."""
        with self._locked(exclusive=False), _lmdb_errors():
            shared = self._open_present(create=False)
            with shared.environment.begin(buffers=True) as transaction:
                yield {name: CheckedTable(transaction, name, handle) for name, handle in shared.handles.items()}

    def change(self, work: Callable[[Tables], Result], afterwards: Callable[[], None] = lambda: None) -> Result:
        """Run `work` in one durable transaction. It runs again from the start if the map had to grow. `afterwards`
        runs once the transaction is durable (on macOS: written), before other processes can read the index."""
        with self._locked(exclusive=True), _lmdb_errors():
            while True:
                shared = self._open_present(create=True)
                self._record_fingerprint("")
                is_written = False
                try:
                    with shared.environment.begin(write=True, buffers=True) as transaction:
                        result = work({name: CheckedTable(transaction, name, handle) for name, handle in shared.handles.items()})
                        is_written = True
                    self._record_fingerprint(index_check.fingerprint(self._file))
                    afterwards()
                    return result
                except lmdb.MapFullError:
                    self._enlarge_map_or_close(shared, shared.environment.info()["map_size"] * 2)
                except BaseException:
                    if not is_written:  # else macOS distrusts this index from now on, and nothing shows that a ledger was cut
                        self._record_fingerprint(index_check.fingerprint(self._file))
                    raise
                finally:  # the write changed ctime: if the index proves unusable, this version is meant
                    with suppress(OSError):
                        self.seen = _version_in_status(os.lstat(self._file))

    def _record_fingerprint(self, written: str) -> None:
        """Record the fingerprint of the data file after our own write; "" during a write. Overwrites the note, padded
        to the same length: truncating a file just written waits for the disk. Starts its writeback before returning,
        because a power cut must not leave the note of another data file."""
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with fsio.closing(os.open(os.path.join(self._directory, "written"), flags, 0o600)) as fd:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    return  # the next user of the index finds it and rebuilds the index
                fsio.undo_umask_fd(fd)
                fsio.write_all(fd, written.ljust(_NOTE).encode())
                if sys.platform.startswith("linux"):
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # starts writeback without waiting

    def _refuse_unless_as_last_written(self) -> None:
        """Raise IndexUnusable if the data file differs from our last write: a wrong page pointer kills the process.
        Without a note of that write, the file must at least have all its pages, and LMDB must have synced it."""
        noted = ""
        try:
            noted = fsio.read_file(os.path.join(self._directory, "written"), 200).decode("ascii", "replace").strip()
        except OSError as error:
            found = index_check.index_error_for(error, "written")
            if found is not None and not isinstance(found, IndexGone):
                raise found from error
        status = os.lstat(self._file)
        if not noted:
            if fsio.has_full_sync():
                raise IndexUnusable("the last write to the index was interrupted")
            if status.st_size < (needed := index_check.bytes_needed(self._file)):
                raise IndexUnusable(f"the index has {status.st_size} bytes of {needed}")
        elif noted.split(" ")[0] != str(status.st_size) or noted != index_check.fingerprint(self._file):
            raise IndexUnusable("the index has other bytes than were written")

    def _open_present(self, *, create: bool) -> "_Shared":
        """Open the environment on the present data file. Raises IndexUnusable, OSError. The index is disposable, and
        users may remove it at any time: that is not damage of the store."""
        try:
            self.seen = ()
            try:
                status = os.lstat(self._file)
            except (FileNotFoundError, NotADirectoryError):
                self.close()
                if not create:
                    raise IndexGone("there is no index") from None
                self._create_empty_data_file()
                status = os.lstat(self._file)
            self.seen = _version_in_status(status)
            if not stat.S_ISREG(status.st_mode):
                self.close()
                raise IndexUnusable(index_check.NOT_A_FILE.format("data.mdb"))
            inode = (status.st_dev, status.st_ino, os.getpid())
            if self._shared is not None and self._shared.inode != inode:
                self.close()  # another process has rebuilt the index
            if self._shared is not None and status.st_size > self._shared.environment.info()["map_size"]:
                self._enlarge_map_or_close(self._shared, status.st_size * 2)  # another process has grown it
            if self._shared is None:
                self._shared = _OPEN.get(inode)
                if self._shared is None:
                    self._shared = _OPEN[inode] = self._open_and_check_environment(inode, status.st_size, writable=create)
                self._shared.users += 1
            return self._shared
        except OSError as error:
            if error.errno in index_check.GONE:
                self.close()
                raise IndexGone("the index was removed while it was used") from error
            raise

    def _enlarge_map_or_close(self, shared: _Shared, size: int) -> None:
        """Map more. On failure the environment is closed; its file may still be sound."""
        try:
            shared.environment.set_mapsize(size)
        except lmdb.MemoryError:
            _OPEN.pop(shared.inode, None)
            self._shared = None
            shared.environment.close()
            raise

    def _create_empty_data_file(self) -> None:
        with suppress(FileExistsError):
            fsio.make_directory(self._directory)
        fsio.make_empty_file(self._file)  # LMDB opens it twice
        environment = self._environment_at(self._directory, _FIRST_MAP, 0, readonly=False)
        try:
            with environment.begin(write=True) as transaction:  # one transaction is one commit
                for name in NAMES:
                    environment.open_db(name, txn=transaction)
        finally:
            environment.close()
        self._record_fingerprint(index_check.fingerprint(self._file))

    def _open_and_check_environment(self, inode: tuple[int, int, int], size: int, *, writable: bool) -> "_Shared":
        self._refuse_unless_as_last_written()
        map_size = _FIRST_MAP
        while map_size < size * 2:
            map_size *= 2
        readonly = not writable and not os.access(self._file, os.W_OK)
        environment = self._environment_at(self._directory, map_size, size, readonly=readonly)
        try:
            handles = {name: environment.open_db(name, create=False) for name in NAMES}
        except BaseException:
            environment.close()
            raise
        return _Shared(environment, handles, inode)

    @staticmethod
    def _environment_at(directory: str, map_size: int, size: int, *, readonly: bool) -> lmdb.Environment:
        """Open a data file of `size` bytes. Under a memory limit (ulimit -v), maps a small size
        that grows on demand."""
        attempt = partial(
            lmdb.open, directory, lock=False, sync=not fsio.has_full_sync(), metasync=True, writemap=False, mode=0o600,
            max_dbs=len(NAMES), readonly=readonly, create=not readonly, max_spare_txns=0,
        )  # fmt: skip
        try:
            try:
                return attempt(map_size=map_size)
            except lmdb.MemoryError:
                return attempt(map_size=size + (-size % _SMALL_MAP or _SMALL_MAP))
        except lmdb.Error:
            raise
        except OSError as error:  # LMDB raises both kinds
            if is_disk_full(error) or is_process_limit(error):
                raise store_error(error, "opening the index in", directory) from error
            raise IndexUnusable(str(error)) from error

    def rewrite_if_a_third_is_free(self) -> None:
        """Rewrite the data file if a third of it is free pages: LMDB reuses free pages but never returns them."""
        with self._locked(exclusive=True), _lmdb_errors():
            shared = self._open_present(create=True)
            size = os.stat(self._file).st_size
            if size < _WORTHWHILE or _bytes_in_use(shared) * 3 > size * 2:
                return
            self._record_fingerprint("")
            index_check.replace_by_compact_copy(self._file, shared.environment)  # processes with the old file notice the change
            self.close()
            self._record_fingerprint(index_check.fingerprint(self._file))

    def discard(self, doubted: Version | None = None) -> None:
        """Delete the index. With `doubted` (`seen` when it proved unusable) only if no other process has rebuilt it
        since. The lock files remain: they are outside the directory."""
        import shutil

        with self._locked(exclusive=True):
            self.close()
            with suppress(FileNotFoundError, NotADirectoryError):
                if doubted is not None and _version_in_status(os.lstat(self._file)) != doubted:
                    return
            if self._private:  # the directory remains: its lock protects it from other processes (store/scratch.py)
                for name in os.listdir(self._directory):
                    os.unlink(os.path.join(self._directory, name))
                return
            doomed = f"{self._directory}.old-{os.urandom(4).hex()}"
            try:
                os.rename(self._directory, doomed)
            except FileNotFoundError:
                return
            if os.path.isdir(doomed) and not os.path.islink(doomed):
                shutil.rmtree(doomed, ignore_errors=True)
            else:
                os.unlink(doomed)

    def remove_discarded(self, *, wholly: bool = False) -> None:
        """Remove leftovers of an interrupted `discard`. Ignores errors, unless `wholly`: then raises OSError."""
        import shutil

        parent, name = os.path.split(self._directory)
        with suppress(FileNotFoundError if wholly else OSError):
            for found in os.listdir(parent):
                if found.startswith(name + ".old-"):
                    shutil.rmtree(os.path.join(parent, found), ignore_errors=not wholly)

    def close(self) -> None:
        """Close the environment if it is open."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.users -= 1
            if shared.users == 0:
                _OPEN.pop(shared.inode, None)
                if shared.inode[2] == os.getpid():  # an environment inherited by a fork is not closed here
                    shared.environment.close()


def _bytes_in_use(shared: _Shared) -> int:
    with shared.environment.begin(buffers=True) as transaction:
        stats = [shared.environment.stat(), *(transaction.stat(handle) for handle in shared.handles.values())]
    pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
    return int(pages * stats[0]["psize"])


@contextmanager
def _lmdb_errors() -> Iterator[None]:
    """Convert LMDB's errors: the index is unusable, unless memory, descriptors or disk space ran out."""
    try:
        yield
    except lmdb.MemoryError as error:
        raise errors.StoreError(
            "not enough memory to map the index",
            "allow this process more (ulimit -v), and try again"
        ) from error
    except lmdb.Error as error:
        if os.strerror(errno.ENOENT) in str(error):
            raise IndexGone(str(error)) from error
        if os.strerror(errno.EMFILE) in str(error):
            raise store_error(OSError(errno.EMFILE, ""), "opening", "the index") from error
        if (full := _error_if_no_space(error)) is not None:
            raise full from error
        raise IndexUnusable(str(error)) from error


def _error_if_no_space(error: lmdb.Error) -> errors.CasrewindError | None:
    """The casrewind error if LMDB lacked space or quota, which only the system's message shows."""
    lacking = next((number for number in (errno.ENOSPC, errno.EDQUOT) if os.strerror(number) in str(error)), 0)
    return store_error(OSError(lacking, ""), "writing", "the index") if lacking else None
