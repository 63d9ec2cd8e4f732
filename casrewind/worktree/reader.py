"""Reading the user's files: never through a link, never from a fifo, never half of a write without saying so.

The danger prevented here: a torn read. A file is statted, read, and statted again on the same descriptor; if it moved
meanwhile the read is repeated, and a file that keeps moving is stored as it was last seen and named *unstable*. Every
path is reached by directory descriptors from the root, so a directory swapped for a link leads nowhere. A file that grows
is read to the size that it had when the reading began: else a log that runs away would be read for as long as it grows.
"""

import errno
import os
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from .. import errors, fsio
from .._typing import NamedTuple, Protocol, TypeVar
from ..model import digest as digests
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.manifest import Entry
from ..model.stamp import Stamp
from . import root as roots

TYPE_CHECKING = False
if TYPE_CHECKING:  # no save of small directories has need of it
    from ..model.tree_nodes import NodeList

_IMPOSSIBLE_NAME = (errno.ENAMETOOLONG, errno.EILSEQ)
_TRIES = 3
_PAUSE = 0.002
_READ = struct.Struct("<QqqQIQ32sI")  # a stamp, size, digest, length of the name
_Found = TypeVar("_Found")


class FileSource(Protocol):
    """Where the bytes of a large file come from."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its start; the number of bytes, 0 at the end."""


class Sink(Protocol):
    """Where captured content goes; digests come back."""

    def accepts(self, size: int) -> bool:
        """Told of a file's size before it is read; False: it is not to be read, only to be counted."""

    def put_file(self, data: bytes) -> bytes:
        """A whole small file; its digest."""

    def put_stream(self, source: FileSource, size: int) -> tuple[int, bytes, bytes]:
        """A large file of about `size` bytes: (bytes read, their digest, digest of the chunk list)."""

    def put_tree(self, data: bytes) -> bytes:
        """A directory, encoded as a whole (manifest.encode_tree); the digest of its tree."""

    def put_rules(self, data: bytes) -> bytes:
        """A rule file; its digest."""


class ScanSink(Sink, Protocol):
    """Where a scan's content goes, and where what was captured before comes from."""

    def load_tree(self, digest: bytes) -> "manifest.Tree | NodeList":
        """A directory's entries, or what of a large one is in this node (a manifest.Loader). Raises StoreDamaged."""

    def lacks(self, wanted: Collection[bytes]) -> bool:
        """True when one of these blobs can no longer be had."""


class HashSink:
    """A sink that keeps nothing: for comparing what is there with what is recorded."""

    def accepts(self, size: int) -> bool:  # noqa: ARG002 - as every sink
        """True: it is to be read."""
        return True

    def put_file(self, data: bytes) -> bytes:
        """The digest."""
        return digests.of(data)

    put_rules = put_file

    def put_tree(self, data: bytes) -> bytes:
        """The digest."""
        return manifest.store_tree(data, digests.of)

    def put_stream(self, source: FileSource, size: int) -> tuple[int, bytes, bytes]:  # noqa: ARG002 - a Sink's
        """(bytes read, their digest, nothing)."""
        hasher, total = digests.Hasher(), 0
        buffer = memoryview(bytearray(1 << 20))
        while count := source.readinto(buffer):
            hasher.update(buffer[:count])
            total += count
        return total, hasher.digest(), b""


class CapturedFile(NamedTuple):
    """What was read of one path: its entry, its stamp, whether it held still, and how many names it had."""

    entry: Entry
    stamp: Stamp
    stable: bool
    links: int = 1


class NotCapturable(Exception):
    """Something that is neither a regular file, nor a link, nor a directory stands at a path, or one that is too large."""


class TooLarge(NotCapturable):
    """A file that has more bytes than are captured."""


class _Descriptor:
    """A source that reads an open file, and at most `size` bytes of it."""

    __slots__ = ("_fd", "_left")

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._left = fd, size

    def readinto(self, buffer: memoryview, /) -> int:
        count = os.readv(self._fd, [buffer[: self._left]]) if self._left > 0 else 0
        self._left -= count
        return count


def read_stable(name: bytes, directory: int, sink: Sink, most: int = 1 << 63) -> CapturedFile:
    """Capture the regular file `name` in an open directory: each try reads at most the bytes that it has when that begins.
    Raises OSError, NotCapturable when it is no file, TooLarge when it has more than `most` bytes before it is read."""
    try:
        fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV):
            raise NotCapturable(name) from error  # it became a link, or is a socket or device without a driver
        raise
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise NotCapturable(name)
        if before.st_size > most:
            raise TooLarge(name)
        links = before.st_nlink
        if not sink.accepts(before.st_size):
            entry = manifest.file_entry(0, before.st_size, 0, bytes(digests.SIZE))
            return CapturedFile(entry, stamps.of(before), stable=True, links=links)
        attempt = 0
        while True:
            attempt += 1
            data = None
            if before.st_size < manifest.LARGE:
                data = _read_whole(fd, before.st_size)[:most]
                length, chunks, digest = len(data), b"", b""
            else:
                length, digest, chunks = sink.put_stream(_Descriptor(fd, before.st_size), before.st_size)
            after = os.fstat(fd)
            stamp = stamps.of(after)
            stable = (stamps.matches(stamp, before) or stamp == stamps.of(before)) and length == before.st_size
            if stable or attempt == _TRIES or after.st_size > most:  # of one that grew over the limit no more is read
                digest = digest if data is None else sink.put_file(data)
                break
            time.sleep(_PAUSE)
            os.lseek(fd, 0, os.SEEK_SET)
            before = os.fstat(fd)
        entry = manifest.file_entry(stat.S_IMODE(stamp.mode), length, stamp.mtime_ns, digest, chunks)
        return CapturedFile(entry, stamp, stable, links)
    finally:
        os.close(fd)


def _read_whole(fd: int, size: int) -> bytes:
    """What is in a small file of so many bytes. That these are all is not asked twice: who calls looks at the size again."""
    data = os.read(fd, size + 1)
    return data if len(data) == size else data + fsio.read_fd(fd, manifest.LARGE - len(data))


def capture_at(directory: int, name: bytes, sink: Sink) -> CapturedFile | None:
    """As Worktree.capture, of a name in an open directory."""
    try:
        status = _status_at(directory, name)
        if stat.S_ISDIR(status.st_mode):
            entry = manifest.dir_entry(stat.S_IMODE(status.st_mode), EMPTY_TREE)
            return CapturedFile(entry, stamps.of(status), stable=True)
        if stat.S_ISLNK(status.st_mode):
            return CapturedFile(read_link(name, directory), stamps.of(status), stable=True)
        if not stat.S_ISREG(status.st_mode):
            raise NotCapturable(name)
        return read_stable(name, directory, sink)
    except OSError as error:
        _raise_unless_absent(error)
        return None


def read_link(name: bytes, directory: int) -> Entry:
    """The entry of the symbolic link `name` in an open directory. Raises OSError."""
    return manifest.link_entry(os.readlink(name, dir_fd=directory))


def _status_at(directory: int, name: bytes) -> os.stat_result:
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


def _open_root(root: str) -> tuple[int, os.stat_result]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.WorkspaceNotFound(f"{fsio.printable(root)} cannot be opened: {error.strerror}") from error
    return fd, os.fstat(fd)


class Worktree:
    """The user's files under one root, reached by directory descriptors only."""

    def __init__(self, root: str) -> None:
        """Open the root directory. Raises WorkspaceNotFound."""
        self.root = root
        self.fd, self.status = _open_root(root)
        self.mounts = roots.Mounts(self.status.st_dev)
        """Those that `look_for_mounts` has found."""
        self._life: bytes | None = None

    @property
    def life(self) -> bytes:
        """The life of the file system on which the open root lies (worktree/root.py): what stamps are good for. It cannot end
        before the root is closed. Raises OSError."""
        if self._life is None:
            from . import root as roots

            self._life = roots.life_of(self.fd)
        return self._life

    def look_for_mounts(self) -> None:
        """Find out what is mounted below the root now."""
        self.mounts = roots.mounts_below(self.root, self.fd)

    def elsewhere(self, path: bytes) -> bytes | None:
        """The path, at or above `path`, at which another file system begins; None where `path` lies on the root's own, or
        its directory does not exist. Raises OSError."""
        point = self.mounts.above(path)
        if point is not None:
            return point

        def look(parent: int, name: bytes) -> bytes | None:
            if os.fstat(parent).st_dev != self.mounts.device:
                return path.rpartition(b"/")[0]
            return path if self.mounts.begins(path, _status_at(parent, name)) else None

        return self._at(path, look)

    def follow_root(self) -> None:
        """Open the root again when another directory has its path by now (removed and cloned anew, say): what is open
        would be a directory that nobody sees any more, and look empty. Raises WorkspaceNotFound when nothing is there."""
        try:
            status = os.stat(self.root)
        except OSError as error:
            raise errors.WorkspaceNotFound(f"{fsio.printable(self.root)} is gone: {error.strerror}") from error
        if (status.st_dev, status.st_ino) != (self.status.st_dev, self.status.st_ino):
            os.close(self.fd)
            self.fd, self.status = _open_root(self.root)
            self._life = None

    def close(self) -> None:
        """Let go of the root; a second time does nothing, and closes nobody else's descriptor of that number."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> "Worktree":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_directory(self, path: bytes) -> int:
        """A descriptor of the directory `path` (b"" = the root); close it. Raises OSError when anything on the way is
        missing, no directory, or a link."""
        return fsio.open_beneath(self.fd, path.split(b"/") if path else ())

    def open_parent(self, path: bytes) -> tuple[int, bytes]:
        """(descriptor of the directory that `path` lies in, last component); close the descriptor. Raises OSError,
        UnsafePath."""
        paths.check(path)
        parent, _, name = path.rpartition(b"/")
        return self.open_directory(parent), name

    def status_of(self, path: bytes) -> os.stat_result | None:
        """lstat of a path, None when it does not exist (or lies behind something that is no directory)."""
        return self._at(path, _status_at)

    def capture(self, path: bytes, sink: Sink) -> CapturedFile | None:
        """What stands at a path now, None when nothing does. A directory is captured without what is in it (its tree is
        that of an empty one). Raises OSError (unreadable) and NotCapturable (a special file)."""
        return self._at(path, lambda parent, name: capture_at(parent, name, sink))

    def _at(self, path: bytes, look: Callable[[int, bytes], _Found | None]) -> _Found | None:
        """What `look` finds, given the open directory that a path lies in and its name there; None when nothing is there."""
        try:
            parent, name = self.open_parent(path)
            try:
                return look(parent, name)
            finally:
                os.close(parent)
        except OSError as error:
            _raise_unless_absent(error)
            return None

    def names(self, path: bytes) -> Sequence[bytes]:
        """The names in a directory, sorted. Raises OSError."""
        fd = self.open_directory(path)
        try:
            return sorted(os.fsencode(name) for name in os.listdir(fd))
        finally:
            os.close(fd)

    def may_change(self, path: bytes) -> bool:
        """True when names can be made and removed in the directory `path` (b"" = the root) by this process."""
        try:
            fd = self.open_directory(path)
        except OSError:
            return False
        try:
            return os.access(b".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=os.access in os.supports_effective_ids)
        finally:
            os.close(fd)

    def accepts_name(self, name: bytes) -> bool:
        """False when the root's file system cannot have a file of that name (too long there, or not UTF-8)."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError as error:
            return error.errno not in _IMPOSSIBLE_NAME
        return True

    def folds_names(self) -> bool:
        """True when the root's file system takes names that differ in case only for the same (found by stat of a
        respelled name; nothing is written)."""
        names = set(os.listdir(self.fd))
        for name in names:
            respelled = name.swapcase()
            if respelled != name and respelled not in names:
                return _is_same_file(name, respelled, self.fd)
        parent, base = os.path.split(self.root)
        respelled = os.path.join(parent, base.swapcase())
        return respelled != self.root and _is_same_file(self.root, respelled, None)


class NameSpelling:
    """Which names stand in their directories exactly as they are spelled. Asked where a file system folds names: there,
    a path that was renamed from `README` to `readme` is found under both."""

    def __init__(self, tree: Worktree) -> None:
        """Directories are listed when they are first asked for."""
        self._tree = tree
        self._listed: dict[bytes, frozenset[bytes]] = {}

    def is_exact(self, path: bytes) -> bool:
        """True when every component of a path is a name that its directory lists."""
        parts = path.split(b"/")
        return all(part in self._names(b"/".join(parts[:depth])) for depth, part in enumerate(parts))

    def _names(self, place: bytes) -> frozenset[bytes]:
        names = self._listed.get(place)
        if names is None:
            try:
                names = frozenset(self._tree.names(place))
            except OSError:
                names = frozenset()
            self._listed[place] = names
        return names


def _is_same_file(one: str, other: str, directory: int | None) -> bool:
    try:
        first = os.stat(one, dir_fd=directory, follow_symlinks=False)
        second = os.stat(other, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


EMPTY_TREE = digests.of(manifest.encode_tree(()))
"""The digest of the tree of an empty directory."""


def _raise_unless_absent(error: OSError) -> None:
    """Raise the error again unless it says that the path does not exist."""
    if not is_absence(error):
        raise error


def is_absence(error: OSError) -> bool:
    """True when an error says that a path does not exist, or lies behind something that is no directory."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, *_IMPOSSIBLE_NAME)


class ReadFile(NamedTuple):
    """A file whose bytes were read in this scan: where, its stamp then (NONE: it did not hold still), its size, its
    digest."""

    place: bytes
    name: bytes
    stamp: Stamp
    size: int
    digest: bytes


class ReadFiles:
    """All files that were read in a scan, in order, in as little memory as that takes: there may be a million of them."""

    def __init__(self) -> None:
        """None yet."""
        self._directories: list[tuple[bytes, bytearray, bytearray]] = []

    def add(self, place: bytes, name: bytes, stamp: Stamp, size: int, digest: bytes) -> None:
        """Add a file of a directory: they come one directory after the other."""
        if not self._directories or self._directories[-1][0] != place:
            self._directories.append((place, bytearray(), bytearray()))
        _, rows, names = self._directories[-1]
        rows += _READ.pack(*stamp, size, digest, len(name))
        names += name

    def __iter__(self) -> Iterator[ReadFile]:
        return self.other_than(lambda _, __: False)

    def other_than(self, is_as_read: Callable[[bytes, tuple[int, ...]], bool]) -> Iterator[ReadFile]:
        """Those of which that is not so, asked of every path and stamp."""
        for place, rows, names in self._directories:
            at, before = 0, place + b"/" if place else b""
            for row in _READ.iter_unpack(rows):
                stamp, (size, digest, length) = row[:5], row[5:]
                name = bytes(names[at : at + length])
                at += length
                if not is_as_read(before + name, stamp):
                    yield ReadFile(place, name, Stamp(*stamp), size, digest)
