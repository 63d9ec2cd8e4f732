"""Reads the user's files: never through a link, never from a fifo, and never a half-written file unnoticed.

The danger prevented here: a torn read. A file is statted before and after the read on the same descriptor. If it
changed, the read is repeated; a file that keeps changing is stored as last read and reported *unstable*. Paths are
reached through directory descriptors from the root, so a directory replaced by a link leads nowhere. A growing file is
read only to its size at the start of the read.
"""

import errno
import os
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from .. import errors, fsio
from .._typing import NamedTuple, Protocol, TypeVar
from ..messages import printable
from ..model import digest as digests
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.manifest import Entry
from ..model.stamp import Stamp
from . import root as roots

TYPE_CHECKING = False
if TYPE_CHECKING:  # a save of small directories does not import it
    from ..model.directory_nodes import NodeList

_IMPOSSIBLE_NAME = (errno.ENAMETOOLONG, errno.EILSEQ)
_TRIES = 3
_PAUSE = 0.002
_READ = struct.Struct("<QqqQIQ32sI")  # a stamp, size, digest, length of the name
_Found = TypeVar("_Found")


class FileSource(Protocol):
    """A source of a large file's bytes."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its start. Returns the number of bytes, 0 at the end."""


class Sink(Protocol):
    """Receives captured content and returns digests."""

    def accepts(self, size: int) -> bool:
        """False if a file of this size is to be counted, not read."""

    def put_file(self, data: bytes) -> bytes:
        """Add a whole small file. Returns its digest."""

    def put_stream(self, source: FileSource, size: int) -> tuple[int, bytes, bytes]:
        """Add a large file of about `size` bytes. Returns (bytes read, their digest, digest of the chunk list)."""

    def put_tree(self, data: bytes) -> bytes:
        """Add an encoded directory (manifest.encode_tree). Returns its tree's digest."""

    def put_rules(self, data: bytes) -> bytes:
        """Add a rule file. Returns its digest."""


class ScanSink(Sink, Protocol):
    """A sink that can also load earlier captured content."""

    def read_trees_ahead(self, digests: Collection[bytes]) -> None:
        """Read these trees at once, for `load_tree`. What cannot be read is no error yet."""

    def load_tree(self, digest: bytes) -> "manifest.Tree | NodeList":
        """A directory's entries, or a node of a large directory (a manifest.Loader). Raises StoreDamaged."""

    def lacks(self, wanted: Collection[bytes]) -> bool:
        """True if one of these blobs is no longer available."""


class HashSink:
    """A sink that only hashes, to compare the worktree with a checkpoint."""

    def accepts(self, size: int) -> bool:  # noqa: ARG002 - as every sink
        """True: read every file."""
        return True

    def put_file(self, data: bytes) -> bytes:
        """The digest."""
        return digests.of(data)

    put_rules = put_file

    def put_tree(self, data: bytes) -> bytes:
        """The digest."""
        return manifest.store_tree(data, digests.of)

    def put_stream(self, source: FileSource, size: int) -> tuple[int, bytes, bytes]:  # noqa: ARG002 - a Sink's
        """Returns (bytes read, their digest, b"")."""
        hasher, total = digests.Hasher(), 0
        buffer = memoryview(bytearray(1 << 20))
        while count := source.readinto(buffer):
            hasher.update(buffer[:count])
            total += count
        return total, hasher.digest(), b""


class CapturedFile(NamedTuple):
    """The result of reading a path. `stable`: unchanged during the read. `links`: its number of names."""

    entry: Entry
    stamp: Stamp
    stable: bool
    links: int = 1


class NotCapturable(Exception):
    """The path is not a regular file, link or directory, or the file is too large."""


class TooLarge(NotCapturable):
    """The file exceeds the size limit."""


class _Descriptor:
    """A source that reads at most `size` bytes of an open file."""

    __slots__ = ("_fd", "_left")

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._left = fd, size

    def readinto(self, buffer: memoryview, /) -> int:
        count = os.readv(self._fd, [buffer[: self._left]]) if self._left > 0 else 0
        self._left -= count
        return count


def read_until_stable(name: bytes, directory: int, sink: Sink, most: int = 1 << 63) -> CapturedFile:
    """Capture the regular file `name` in an open directory. Each attempt reads at most the size at its start. Raises
    OSError, NotOnDisk if only a cloud has it, NotCapturable if it is not a file, TooLarge if it is larger than `most` bytes
    before the read."""
    try:
        fd = fsio.open_on_disk(name, directory=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV):
            raise NotCapturable(name) from error  # it became a link, or it is a socket or a device without driver
        raise
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise NotCapturable(name)
        if before.st_size > most:
            raise TooLarge(name)
        links = before.st_nlink
        if not sink.accepts(before.st_size):
            entry = manifest.Entry(manifest.FILE, 0, before.st_size, 0, bytes(digests.SIZE))
            return CapturedFile(entry, stamps.of(before), stable=True, links=links)
        attempt = 0
        while True:
            attempt += 1
            data = None
            if before.st_size < manifest.LARGE:
                data = os.read(fd, before.st_size + 1)
                if len(data) != before.st_size:  # it grew or shrank, or the system returned less than was asked for
                    data = (data + fsio.read_fd(fd, manifest.LARGE - len(data)))[:most]
                length, chunks, digest = len(data), b"", b""
            else:
                length, digest, chunks = sink.put_stream(_Descriptor(fd, before.st_size), before.st_size)
            after = os.fstat(fd)
            stamp = stamps.of(after)
            stable = (stamps.matches(stamp, before) or stamp == stamps.of(before)) and length == before.st_size
            if stable or attempt == _TRIES or after.st_size > most:  # a file that grew over the limit is not read again
                digest = digest if data is None else sink.put_file(data)
                break
            time.sleep(_PAUSE)
            os.lseek(fd, 0, os.SEEK_SET)
            before = os.fstat(fd)
        entry = manifest.Entry(manifest.FILE, stat.S_IMODE(stamp.mode), length, stamp.mtime_ns, digest, chunks=chunks)
        return CapturedFile(entry, stamp, stable, links)
    finally:
        os.close(fd)


def capture_in_directory(directory: int, name: bytes, sink: Sink) -> CapturedFile | None:
    """As Worktree.capture, for a name in an open directory."""
    try:
        status = _lstat_in(directory, name)
        if not fsio.is_on_disk(status):
            raise fsio.NotOnDisk(name)
        if stat.S_ISDIR(status.st_mode):
            entry = manifest.Entry(manifest.DIR, stat.S_IMODE(status.st_mode), digest=EMPTY_TREE)
            return CapturedFile(entry, stamps.of(status), stable=True)
        if stat.S_ISLNK(status.st_mode):
            return CapturedFile(read_link(name, directory), stamps.of(status), stable=True)
        if not stat.S_ISREG(status.st_mode):
            raise NotCapturable(name)
        return read_until_stable(name, directory, sink)
    except OSError as error:
        _raise_unless_absent(error)
        return None


def read_link(name: bytes, directory: int) -> Entry:
    """The entry of the symbolic link `name` in an open directory. Raises OSError."""
    return manifest.link_entry(os.readlink(name, dir_fd=directory))


def _lstat_in(directory: int, name: bytes) -> os.stat_result:
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


def _open_root_directory(root: str) -> tuple[int, os.stat_result]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise errors.WorkspaceNotFound(f"{printable(root)} cannot be opened: {error.strerror}") from error
    return fd, os.fstat(fd)


class Worktree:
    """The user's files under one root, accessed only through directory descriptors."""

    def __init__(self, root: str) -> None:
        """Open the root directory. Raises WorkspaceNotFound."""
        self.root = root
        self.fd, self.status = _open_root_directory(root)
        self.mounts = roots.Mounts(self.status.st_dev)
        """The mounts that `update_mounts` found."""
        self._life: bytes | None = None

    @property
    def life(self) -> bytes:
        """The life of the root's file system (worktree/root.py): stamps are valid within it. It outlasts the open root.
        Raises OSError."""
        if self._life is None:
            from . import root as roots

            self._life = roots.life_of_file_system(self.fd)
        return self._life

    def update_mounts(self) -> None:
        """Update the list of mounts below the root."""
        self.mounts = roots.mounts_below(self.root, self.fd)

    def other_file_system_above(self, path: bytes) -> bytes | None:
        """The path at or above `path` where another file system begins, or None. Raises OSError."""
        point = self.mounts.mount_point_at_or_above(path)
        if point is not None:
            return point

        def begin_of(parent: int, name: bytes) -> bytes | None:
            if os.fstat(parent).st_dev != self.mounts.device:
                return path.rpartition(b"/")[0]
            return path if self.mounts.is_mount_point(path, _lstat_in(parent, name)) else None

        return self._call_with_open_parent(path, begin_of)

    def reopen_root_if_replaced(self) -> None:
        """Reopen the root if another directory is at its path, as after a new clone: the old, deleted directory would
        look empty. Raises WorkspaceNotFound if the path is missing."""
        try:
            status = os.stat(self.root)
        except OSError as error:
            raise errors.WorkspaceNotFound(f"{printable(self.root)} is gone: {error.strerror}") from error
        if (status.st_dev, status.st_ino) != (self.status.st_dev, self.status.st_ino):
            os.close(self.fd)
            self.fd, self.status = _open_root_directory(self.root)
            self._life = None

    def close(self) -> None:
        """Close the root. A second call does nothing, even if the descriptor's number was reused."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> "Worktree":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_directory(self, path: bytes) -> int:
        """Open the directory `path` (b"" = the root), following no link; the caller closes it. Raises OSError."""
        return fsio.open_beneath(self.fd, path)

    def open_parent(self, path: bytes) -> tuple[int, bytes]:
        """Open a path's parent, for the caller to close. Returns (descriptor, last component). Raises OSError,
        UnsafePath."""
        paths.check_path(path)
        parent, _, name = path.rpartition(b"/")
        return self.open_directory(parent), name

    def status_of(self, path: bytes) -> os.stat_result | None:
        """lstat of a path; None if it does not exist or a parent is not a directory."""
        return self._call_with_open_parent(path, _lstat_in)

    def may_exist(self, path: bytes) -> bool:
        """False if nothing is at a path. True also if a parent directory cannot be searched: the path may exist."""
        try:
            return self.status_of(path) is not None
        except OSError:
            return True

    def place_in_cloud(self, path: bytes) -> bytes | None:
        """The first path at or above `path` of which only a cloud has the contents, or None. Raises OSError."""
        for place in (*paths.parents(path), path) if fsio.HAS_FILE_FLAGS else ():
            status = self.status_of(place)
            if status is None:
                return None
            if not fsio.is_on_disk(status):
                return place
        return None

    def capture(self, path: bytes, sink: Sink) -> CapturedFile | None:
        """The current content of a path, or None. A directory counts as empty. Raises OSError, NotOnDisk (only a cloud has it),
        NotCapturable (special file)."""
        return self._call_with_open_parent(path, lambda parent, name: capture_in_directory(parent, name, sink))

    def _call_with_open_parent(self, path: bytes, read: "Callable[[int, bytes], _Found | None]") -> "_Found | None":
        """Call `read` with the open parent directory and the name of a path. None if the path does not exist."""
        try:
            parent, name = self.open_parent(path)
            try:
                return read(parent, name)
            finally:
                os.close(parent)
        except OSError as error:
            _raise_unless_absent(error)
            return None

    def names(self, path: bytes) -> Sequence[bytes]:
        """The names in a directory, sorted. Raises OSError."""
        with fsio.closing(self.open_directory(path)) as fd:
            return sorted(os.fsencode(name) for name in os.listdir(fd))

    def may_change_names(self, path: bytes) -> bool:
        """True if this process can create and remove names in the directory `path` (b"" = the root)."""
        try:
            fd = self.open_directory(path)
        except OSError:
            return False
        with fsio.closing(fd):
            return os.access(b".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=os.access in os.supports_effective_ids)

    def allows_name(self, name: bytes) -> bool:
        """False if the root's file system does not allow this name (too long, not UTF-8)."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError as error:
            return error.errno not in _IMPOSSIBLE_NAME
        return True

    def ignores_case_in_names(self) -> bool:
        """True if the root's file system ignores case in names (found by stat of a respelled name; writes nothing)."""
        names = set(os.listdir(self.fd))
        for name in names:
            respelled = name.swapcase()
            if respelled != name and respelled not in names:
                return _is_same_file(name, respelled, self.fd)
        parent, base = os.path.split(self.root)
        respelled = os.path.join(parent, base.swapcase())
        return respelled != self.root and _is_same_file(self.root, respelled, None)


def _is_same_file(one: str, other: str, directory: int | None) -> bool:
    try:
        first = os.stat(one, dir_fd=directory, follow_symlinks=False)
        second = os.stat(other, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


EMPTY_TREE = digests.of(manifest.EMPTY)
"""The digest of an empty directory's tree."""


def _raise_unless_absent(error: OSError) -> None:
    """Raise the error unless it means that the path does not exist."""
    if not means_absent_path(error):
        raise error


def means_absent_path(error: OSError) -> bool:
    """True if the error means that a path does not exist or a parent is not a directory."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, *_IMPOSSIBLE_NAME)


class ReadFile(NamedTuple):
    """A file read in this scan. `stamp` is NONE if the file changed during the read."""

    place: bytes
    name: bytes
    stamp: Stamp
    size: int
    digest: bytes


class ReadFiles:
    """All files read in a scan, in order. Stored compactly: there may be a million."""

    def __init__(self) -> None:
        """Start empty."""
        self._directories: list[tuple[bytes, bytearray, bytearray]] = []

    def add(self, place: bytes, name: bytes, stamp: Stamp, size: int, digest: bytes) -> None:
        """Add a file. All files of a directory must be added in sequence."""
        if not self._directories or self._directories[-1][0] != place:
            self._directories.append((place, bytearray(), bytearray()))
        _, rows, names = self._directories[-1]
        rows += _READ.pack(*stamp, size, digest, len(name))
        names += name

    def __iter__(self) -> Iterator[ReadFile]:
        for place, rows, names in self._directories:
            at = 0
            for *stamp, size, digest, length in _READ.iter_unpack(rows):
                yield ReadFile(place, bytes(names[at : at + length]), Stamp(*stamp), size, digest)
                at += length

    def stat_again_for_changes(self, root: int, start: int) -> Iterator[ReadFile]:
        """The files below the directory open as `root` that may have changed after their reads.

        They have another stamp now, or a stamp too close to the `start` of the scan. Links on the way are followed:
        they lead to another stamp."""
        for fresh in self:
            try:
                now = os.stat(paths.join(fresh.place, fresh.name), dir_fd=root, follow_symlinks=False)
            except OSError:
                yield fresh
                continue
            if not stamps.matches(fresh.stamp, now) or stamps.is_racy(fresh.stamp, start):
                yield fresh
