"""The index's plumbing: one LMDB environment behind the store's own kernel locks. The only importer of lmdb.

The danger prevented here: LMDB's own writer lock cannot time out, hangs behind a stopped process and fails across pid
namespaces, and a cut data file kills the reader with SIGBUS. So LMDB locks nothing (`lock=False`), every access
happens inside a flock with a deadline, and before the file is mapped it is read and compared with the digest that was
noted after our own last write (store/index_check.py). LMDB has no checksums
either, so each value has a seal. The index holds nothing that the packs and the ledger do not: on any doubt it raises
IndexUnusable, is thrown away and rebuilt.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import lmdb

from .. import errors, fsio
from .._typing import Any, TypeVar
from ..model import digest as digests
from . import index_check
from .index_check import IndexGone, IndexUnusable

NAMES = (b"meta", b"packs", b"blobs", b"points", b"ids", b"marks", b"heads", b"history")
"""The tables: store/catalog.py says what is in them."""
_FIRST_MAP = 1 << 30
_SMALL_MAP = 1 << 22  # where a limit on memory leaves no room for the first one
_NOTE = 96  # bytes of the note of how the data file looks
_SEAL = 8  # bytes of a digest behind each value
_WORTHWHILE = 1 << 20  # bytes of a data file from which it is looked at for free pages

Result = TypeVar("Result")


class CheckedTable:
    """One table inside one transaction: bytes to bytes. Values are sealed unless asked for raw: LMDB has no checksums,
    and a flipped bit would otherwise be a wrong answer instead of a rebuild."""

    __slots__ = ("_handle", "_transaction")

    def __init__(self, transaction: Any, handle: Any) -> None:
        """Of LMDB, both; inside a transaction only, which gives its own memory (`buffers`): it is copied here."""
        self._transaction, self._handle = transaction, handle

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises IndexUnusable when its seal is broken."""
        value = self._transaction.get(key, db=self._handle)
        return None if value is None else _unseal(key, bytes(value))

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._transaction.put(key, value + _seal(key, value), db=self._handle)

    def delete(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        self._transaction.delete(key, db=self._handle)

    def is_empty(self) -> bool:
        """True when there is no row."""
        with self._transaction.cursor(db=self._handle) as cursor:
            return not cursor.first()

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in the order of keys, from the first key not below `start`."""
        with self._transaction.cursor(db=self._handle) as cursor:
            if not cursor.set_range(start):
                return
            for key, value in cursor:
                yield bytes(key), _unseal(bytes(key), bytes(value))

    def backwards(self) -> tuple[int, Iterator[tuple[bytes, bytes]]]:
        """(how many rows there are; (key, value) from the last key to the first, each seal looked at when it is its turn)."""
        rows = self.items_raw(b"")
        return len(rows), ((key, _unseal(key, value)) for key, value in reversed(rows))

    def get_raw(self, key: bytes) -> bytes | None:
        """As get, for values without a seal."""
        value = self._transaction.get(key, db=self._handle)
        return None if value is None else bytes(value)

    def items_raw(self, start: bytes) -> list[tuple[bytes, bytes]]:
        """As items, at once and with seals that nobody looked at: for many rows whose damage would do no harm."""
        with self._transaction.cursor(db=self._handle) as cursor:
            return [(bytes(key), bytes(value)) for key, value in cursor] if cursor.set_range(start) else []

    def put_many_raw(self, items: list[tuple[bytes, bytes]]) -> None:
        """Set many values without a seal."""
        with self._transaction.cursor(db=self._handle) as cursor:
            cursor.putmulti(sorted(items))


def _seal(key: bytes, value: bytes) -> bytes:
    return digests.of(len(key).to_bytes(2, "little") + key + value)[:_SEAL]


def _unseal(key: bytes, value: bytes) -> bytes:
    body = value[:-_SEAL]
    if _seal(key, body) != value[-_SEAL:]:
        raise IndexUnusable("a row of the index is damaged")
    return body


Tables = dict[bytes, CheckedTable]


class _Shared:
    """An open environment. LMDB allows one per file and process, so everybody in this process who needs it shares it."""

    __slots__ = ("environment", "handles", "inode", "users")

    def __init__(
        self, environment: lmdb.Environment, handles: dict[bytes, "lmdb._Database"], inode: tuple[int, int, int]
    ) -> None:
        self.environment, self.handles, self.inode, self.users = environment, handles, inode, 0


_OPEN: dict[tuple[int, int, int], _Shared] = {}


Seen = tuple[int, int, int]
"""Which data file was looked at last: device, inode, ctime (numbers of inodes are used again); zeros = there was none."""


Proof = tuple[tuple[int, ...], str]
"""That a data file was what is noted of it, as long as its stamps stay the same: (device, inode, size, mtime, ctime), the note."""
_LARGE = 1 << 20  # bytes of a data file from which a proof is worth waiting for
_OLD_NS = 20_000_000
"""Nanoseconds after which no change can have the stamps of the one before it."""


def _stamps(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _identity(status: os.stat_result) -> Seen:
    return status.st_dev, status.st_ino, status.st_ctime_ns


class Index:
    """The LMDB environment of one store, opened when it is first needed."""

    def __init__(self, directory: str, lock: str, deadline: float, *, sealed_off: bool = False) -> None:
        """`directory` holds the environment, `lock` is the lock file for it; `deadline` in seconds.

        `sealed_off`: the directory belongs to this process alone (a temporary index of a store that cannot be written).
        """
        self._directory, self._lock, self.deadline, self._private = directory, lock, deadline, sealed_off
        self._file = os.path.join(directory, "data.mdb")
        self._shared: _Shared | None = None
        self.seen: Seen | None = None
        self._proof: Proof | None = None
        self._puts_off = self._owes = False

    @property
    def directory(self) -> str:
        """Where the index lies, and what is beside it."""
        return self._directory

    @property
    def is_private(self) -> bool:
        """True when the index goes away with this process."""
        return self._private

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[None]:
        if self._private:
            yield
            return
        with fsio.locked(self._lock, exclusive=exclusive, deadline=self.deadline, holder="index"):
            yield

    @contextmanager
    def view(self) -> Iterator[Tables]:
        """Read. Raises IndexUnusable when there is no sound index. Nothing read may be used after the block."""
        with self._locked(exclusive=False), _lmdb_errors():
            shared = self._ready(create=False)
            with shared.environment.begin(buffers=True) as transaction:
                yield {name: CheckedTable(transaction, shared.handles[name]) for name in NAMES}

    def change(self, work: Callable[[Tables], Result], afterwards: Callable[[], None] = lambda: None) -> Result:
        """Run `work` in one durable transaction. It runs again from the start when the map had to grow.

        `afterwards` runs when it is durable, while nobody else can look at the index.
        """
        with self._locked(exclusive=True), _lmdb_errors():
            while True:
                shared = self._ready(create=True)
                self._note("")
                try:
                    with shared.environment.begin(write=True, buffers=True) as transaction:
                        result = work({name: CheckedTable(transaction, shared.handles[name]) for name in NAMES})
                    self._owes = self._puts_off
                    if not self._owes:
                        self._note(index_check.fingerprint(self._file))
                    afterwards()
                    return result
                except lmdb.MapFullError:
                    self._grow(shared, shared.environment.info()["map_size"] * 2)
                finally:  # the writing changed its ctime: if it turns out to be of no use, it is this one that is meant
                    with suppress(OSError):
                        self.seen = _identity(os.lstat(self._file))

    def rely_on(self, proof: Proof | None) -> None:
        """For a process that is told by another, which lives on, how the data file was: believe that, and leave it to `settle` to
        look how it is after a change."""
        self._proof, self._puts_off = proof, True

    def settle(self) -> Proof | None:
        """Note how the data file looks after what was changed since `rely_on`; the proof that it is so, None where stamps
        are no proof yet. Raises StoreBusy, OSError."""
        if not self._owes:
            return self._proof
        try:
            return self._settle()
        except (IndexUnusable, FileNotFoundError, NotADirectoryError):
            self._owes = False  # it was removed, or is to be made anew by whoever opens it next
            return None

    def _settle(self) -> Proof | None:
        status = os.stat(self._file)
        if status.st_size > _LARGE:  # a smaller one is read again in less time
            time.sleep(min(max(status.st_ctime_ns + _OLD_NS - time.time_ns(), 0), _OLD_NS) / 1e9)
        with self._locked(exclusive=True):
            before, now = _stamps(os.stat(self._file)), time.time_ns()
            written = index_check.fingerprint(self._file)
            self._note(written)
            self._owes = False
            is_proof = before == _stamps(os.stat(self._file)) and before[-1] + _OLD_NS <= now
            return (before, written) if is_proof else None

    def _note(self, written: str) -> None:
        """Write down how the data file looks after our own last write; "" while one is under way.

        Over what stands there, with spaces to the same length: to cut a file that was just written waits for the disk.
        It is on its way to it when this returns: else a power cut would leave the note of another data file.
        """
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(os.path.join(self._directory, "written"), flags, 0o600)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    return  # whoever opens the index next finds it, and makes all of it anew
                fsio.apply_umask_fd(fd)
                fsio.write_all(fd, written.ljust(_NOTE).encode())
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # starts it, and waits for nothing
            finally:
                os.close(fd)

    def _check_written(self) -> None:
        """Refuse a data file with other bytes than were written: a page with a changed pointer kills the process."""
        try:
            noted = fsio.read_file(os.path.join(self._directory, "written"), 200).decode("ascii", "replace").strip()
        except OSError as error:
            found = index_check.unusable(error, "written")
            if found is not None and not isinstance(found, IndexGone):
                raise found from error
            return
        with suppress(OSError):
            status = os.lstat(self._file)
            if self._proof == (_stamps(status), noted):
                return
            if noted and (noted.split(" ")[0] != str(status.st_size) or noted != index_check.fingerprint(self._file)):
                raise IndexUnusable("the index has other bytes than were written")

    def _ready(self, *, create: bool) -> "_Shared":
        """The environment, open on the file that is there now. Raises IndexUnusable, OSError.

        The index is disposable, and people remove it while it is used: that is no damage of the store.
        """
        try:
            self.seen = (0, 0, 0)
            try:
                status = os.lstat(self._file)
            except (FileNotFoundError, NotADirectoryError):
                self.close()
                if not create:
                    raise IndexGone("there is no index") from None
                self._make()
                status = os.lstat(self._file)
            self.seen = _identity(status)
            if not stat.S_ISREG(status.st_mode):
                self.close()
                raise IndexUnusable(index_check.NOT_A_FILE.format("data.mdb"))
            inode = (status.st_dev, status.st_ino, os.getpid())
            if self._shared is not None and self._shared.inode != inode:
                self.close()  # another process has rebuilt the index since
            if self._shared is not None and status.st_size > self._shared.environment.info()["map_size"]:
                self._grow(self._shared, status.st_size * 2)  # another process has let it grow
            if self._shared is None:
                self._shared = _OPEN.get(inode)
                if self._shared is None:
                    self._shared = _OPEN[inode] = self._open(inode, status.st_size, writable=create)
                self._shared.users += 1
            return self._shared
        except OSError as error:
            if error.errno in index_check.GONE:
                self.close()
                raise IndexGone("the index was removed while it was used") from error
            raise

    def _grow(self, shared: _Shared, size: int) -> None:
        """Map more. An environment that cannot is of no use any more, which says nothing about its file."""
        try:
            shared.environment.set_mapsize(size)
        except lmdb.MemoryError:
            _OPEN.pop(shared.inode, None)
            self._shared = None
            shared.environment.close()
            raise

    def _make(self) -> None:
        with suppress(FileExistsError):
            fsio.make_directory(self._directory)
        fsio.make_file(self._file)  # LMDB opens it twice
        environment = self._environment_at(self._directory, _FIRST_MAP, 0, readonly=False)
        try:
            with environment.begin(write=True) as transaction:  # one, which is one commit
                for name in NAMES:
                    environment.open_db(name, txn=transaction)
        finally:
            environment.close()

    def _open(self, inode: tuple[int, int, int], size: int, *, writable: bool) -> "_Shared":
        self._check_written()
        needed = index_check.bytes_needed(self._file)
        if size < needed:
            raise IndexUnusable(f"the index has {size} bytes of {needed}")
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
        """Open a data file of `size` bytes. Where a map of `map_size` is more than a limit on memory (ulimit -v) lets
        through, a smaller one does, which grows when it has to."""
        attempt = partial(
            lmdb.open, directory, lock=False, sync=True, metasync=True, writemap=False, mode=0o600,
            max_dbs=len(NAMES), readonly=readonly, create=not readonly, max_spare_txns=0,
        )  # fmt: skip
        try:
            try:
                return attempt(map_size=map_size)
            except lmdb.MemoryError:
                return attempt(map_size=size + (-size % _SMALL_MAP or _SMALL_MAP))
        except lmdb.Error:
            raise
        except OSError as error:  # it raises both kinds
            if fsio.is_full(error) or fsio.is_ours(error):
                raise fsio.store_error(error, "opening the index in", directory) from error
            raise IndexUnusable(str(error)) from error

    def compact(self) -> None:
        """Write the data file anew when a third of it is free pages: LMDB uses them again, and never gives them back."""
        with self._locked(exclusive=True), _lmdb_errors():
            shared = self._ready(create=True)
            size = os.stat(self._file).st_size
            if size < _WORTHWHILE or _used(shared) * 3 > size * 2:
                return
            self._note("")
            index_check.replace(self._file, shared.environment)  # whoever has the old one open sees that it is another now
            self.close()
            self._note(index_check.fingerprint(self._file))

    def discard(self, doubted: Seen | None = None) -> None:
        """Throw the index away; with `doubted` (what `seen` was when it turned out to be of no use) only if it is that
        one still, and not one that another process has made since. The lock files stay: they live outside."""
        import shutil

        with self._locked(exclusive=True):
            self.close()
            with suppress(FileNotFoundError, NotADirectoryError):
                if doubted is not None and _identity(os.lstat(self._file)) != doubted:
                    return
            if self._private:  # the directory stays: others leave it alone for the lock on it (store/scratch.py)
                for name in os.listdir(self._directory):
                    os.unlink(os.path.join(self._directory, name))
                return
            doomed = f"{self._directory}.old-{fsio.token(4)}"
            try:
                os.rename(self._directory, doomed)
            except FileNotFoundError:
                return
            if os.path.isdir(doomed) and not os.path.islink(doomed):
                shutil.rmtree(doomed, ignore_errors=True)
            else:
                os.unlink(doomed)

    def remove_discarded(self, *, wholly: bool = False) -> None:
        """Remove what `discard` put aside and was interrupted over. Failing here is nobody's business, unless it has to be
        gone `wholly`: then OSError is raised."""
        import shutil

        parent, name = os.path.split(self._directory)
        with suppress(FileNotFoundError if wholly else OSError):
            for found in os.listdir(parent):
                if found.startswith(name + ".old-"):
                    shutil.rmtree(os.path.join(parent, found), ignore_errors=not wholly)

    def close(self) -> None:
        """Let go of the environment, if it is open."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.users -= 1
            if shared.users == 0:
                _OPEN.pop(shared.inode, None)
                if shared.inode[2] == os.getpid():  # an environment that came over a fork is not ours to touch
                    shared.environment.close()


def _used(shared: _Shared) -> int:
    """Bytes of the pages that are in use."""
    with shared.environment.begin(buffers=True) as transaction:
        stats = [shared.environment.stat(), *(transaction.stat(handle) for handle in shared.handles.values())]
    pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
    return int(pages * stats[0]["psize"])


@contextmanager
def _lmdb_errors() -> Iterator[None]:
    """Any error of LMDB means that the index is of no use, except that this process lacks something, or the disk is full."""
    try:
        yield
    except lmdb.MemoryError as error:
        raise errors.StoreError(
            "not enough memory to map the index: allow this process more (ulimit -v), and try again"
        ) from error
    except lmdb.DiskError as error:
        if (full := _full(error)) is not None:
            raise full from error
        raise IndexUnusable(str(error)) from error
    except lmdb.Error as error:
        if os.strerror(errno.ENOENT) in str(error):
            raise IndexGone(str(error)) from error
        if os.strerror(errno.EMFILE) in str(error):
            raise fsio.store_error(OSError(errno.EMFILE, ""), "opening", "the index") from error
        if (full := _full(error)) is not None:
            raise full from error
        raise IndexUnusable(str(error)) from error


def _full(error: lmdb.Error) -> errors.CasrewindError | None:
    """The casrewind error when it was space or quota that LMDB lacked: it gives only the system's words."""
    lacking = next((number for number in (errno.ENOSPC, errno.EDQUOT) if os.strerror(number) in str(error)), 0)
    return fsio.store_error(OSError(lacking, ""), "writing", "the index") if lacking else None
