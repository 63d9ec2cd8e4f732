"""Reads, creates and durably writes files, for both store and worktree.

Four dangers are prevented here. A file looks written but is not: it, or its directory entry, was not synced. A path
leaves a directory through a symbolic link created a moment ago. Other users can read a new file before its mode is set.
A file that only a cloud has is downloaded because it is looked at, and a prompt waits for that.
"""

import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT = "casrewind-draft-"
"""Start of the name of each temporary file: in a client's directory, files of others have similar random names."""
_FILE, _DIRECTORY = 0o600, 0o700
_LOST = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""Answers to a sync after which bytes may be lost."""
CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOTTY})
"""What a network file system answers that cannot sync a directory. Then its server decides when a name is durable."""
_FULL, _BARRIER = 51, 85
"""F_FULLFSYNC and F_BARRIERFSYNC of macOS."""
_VOLUME_FULL, _VOLUME_WAIT = 1, 2
"""SYNC_VOLUME_FULLSYNC and SYNC_VOLUME_WAIT of macOS."""
HAS_FILE_FLAGS = hasattr(os.stat_result, "st_flags")
"""True on macOS and the BSDs. Elsewhere nothing asks whether a file is on the disk."""
_DATALESS = 0x40000000  # SF_DATALESS; the module stat has it from Python 3.13 on


class NotOnDisk(OSError):
    """The contents of a file or directory are only in a cloud, such as iCloud. Opening it would download them."""

    def __init__(self, name: str | bytes) -> None:
        """`name`: what was to be opened."""
        super().__init__(errno.EDEADLK, "it is not on this disk", name)  # macOS gives this number to who may not download


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close a file descriptor at the end of a with-statement."""
    try:
        yield fd
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write every byte: continue after a short write."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_fd(fd: int, *, is_followed: bool = False) -> None:
    """Make an open file or directory durable. Never retry after an error: fsync may then succeed despite lost bytes.

    `is_followed`: the caller syncs something else on the same disk before anybody relies on this one. Then macOS only keeps the
    order: what is durable later includes this. Its full sync empties the cache of the drive, which takes milliseconds."""
    if has_full_sync() and ((is_followed and _is_known(fcntl.fcntl, fd, _BARRIER)) or _is_known(fcntl.fcntl, fd, _FULL)):
        return
    os.fsync(fd)


def has_full_sync() -> bool:
    """True on macOS: fsync leaves bytes in the cache of the drive there, and a sync that does not is slow."""
    return sys.platform == "darwin"


def _is_known(sync: "Callable[[int, int], object]", fd: int, argument: int) -> bool:
    """Make a call that also empties the cache of the drive. False if the disk does not know it: exFAT, FUSE and WebDAV answer ENOTTY,
    others ENOTSUP or EINVAL. Raises OSError for what may have lost bytes."""
    try:
        sync(fd, argument)
    except OSError as error:
        if error.errno in _LOST:
            raise
        return False
    return True


def sync_directory(path: str | bytes, *, is_followed: bool = False) -> None:
    """Make the names in a directory durable. `is_followed`: see sync_fd."""
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        sync_fd(fd, is_followed=is_followed)


def sync_tree(fd: int) -> None:
    """Make the whole file system of `fd` durable: one syncfs instead of one sync per file."""
    if sys.platform.startswith("linux"):
        _sync_file_system(fd)
    elif not has_full_sync() or not any(_is_known(_sync_volume, fd, way) for way in (_VOLUME_FULL | _VOLUME_WAIT, _VOLUME_WAIT)):
        os.sync()
        sync_fd(fd)


def _sync_volume(fd: int, way: int) -> None:
    """macOS: write everything of a volume, and wait for it. sync(2) does not wait there, and a full sync of a directory waits for no
    other file's bytes. Raises OSError."""
    from . import libsystem

    libsystem.sync_volume(fd, way)


def _sync_file_system(fd: int) -> None:
    """Linux: write everything of a file system, and wait for it. Raises OSError."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def replace_file(directory: str, name: str, data: bytes, *, temporary: str | None = None) -> None:
    """Atomically and durably write `directory/name`, mode 0600. `temporary`: a directory on the same file system for
    the draft."""
    with draft_file(temporary or directory) as (draft, fd):
        write_all(fd, data)
        sync_fd(fd, is_followed=True)
        os.rename(draft, os.path.join(directory, name))
    sync_directory(directory)


def replace_unsynced(path: str, data: bytes, temporary: str) -> None:
    """Atomically write a file, mode 0600, that a power cut may take back. `temporary`: a directory on the same file system."""
    with draft_file(temporary) as (draft, fd):
        write_all(fd, data)
        os.rename(draft, path)


@contextmanager
def draft_file(directory: str) -> Iterator[tuple[str, int]]:
    """A temporary file (see `create_draft`) that the caller renames. It is deleted if the caller fails."""
    draft, fd = create_draft(directory)
    try:
        yield draft, fd
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    finally:
        os.close(fd)


def create_draft(directory: str, suffix: str = "") -> tuple[str, int]:
    """Create a temporary file, mode 0600, open for reading and writing. Returns (path, descriptor). The descriptor
    holds a lock, and remove_orphans keeps the file while it does."""
    while True:
        draft = os.path.join(directory, _DRAFT + os.urandom(6).hex() + suffix)
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        is_taken = False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # no locks on this file system, or remove_orphans locked it first
            is_taken = error.errno in (errno.EAGAIN, errno.EACCES)
        if not is_taken and still_names(draft, fd):
            undo_umask_fd(fd)
            return draft, fd
        os.close(fd)  # removed as an orphan just before the lock


def is_draft(name: str) -> bool:
    """True for the name of a temporary file."""
    return name.startswith(_DRAFT)


def remove_orphans(directory: str) -> None:
    """Remove temporary files of dead processes. Errors are ignored. Only the lock tells: pids are meaningless across
    pid namespaces (a container that shares the store). Without locks on a file system, the files remain."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        if not is_draft(name):
            continue
        path = os.path.join(directory, name)
        with suppress(OSError), closing(os.open(path, READ_FLAGS)) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)


def is_on_disk(status: os.stat_result) -> bool:
    """False if only a cloud has the contents of the file or directory with this status."""
    return not getattr(status, "st_flags", 0) & _DATALESS


def refuse_unless_on_disk(name: str | bytes, directory: int | None = None) -> None:
    """Raise NotOnDisk if the contents of a path, or of a name in an open directory, are only in a cloud. Raises OSError."""
    if HAS_FILE_FLAGS and not is_on_disk(os.stat(name, dir_fd=directory, follow_symlinks=False)):
        raise NotOnDisk(name)


def open_on_disk(name: str | bytes, flags: int = READ_FLAGS, directory: int | None = None) -> int:
    """As os.open, for a file or directory of the user. Raises NotOnDisk before the system would download it."""
    refuse_unless_on_disk(name, directory)
    return os.open(name, flags, dir_fd=directory)


def open_regular(path: str) -> int:
    """Open a regular file for reading. Raises OSError at once for any other kind of file."""
    fd = os.open(path, READ_FLAGS)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def read_file(path: str, limit: int | None = None, *, start: int = 0) -> bytes:
    """The bytes of a regular file from an offset, at most `limit`. Never follows a link, never hangs on a fifo."""
    with closing(open_regular(path)) as fd:
        if start:
            os.lseek(fd, start, os.SEEK_SET)
        return read_fd(fd, limit)


def read_fd(fd: int, limit: int | None = None) -> bytes:
    """Read an open file from its position to its end, at most `limit` bytes."""
    size = os.fstat(fd).st_size
    parts = []
    left = limit if limit is not None else -1
    step = min(max(size, 4096) + 1, 1 << 20)
    while left != 0:
        part = os.read(fd, step if left < 0 else min(step, left))
        if not part:
            break
        parts.append(part)
        if left > 0:
            left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def still_names(path: str, fd: int) -> bool:
    """True if `path` still names this open file."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def open_beneath(base: int, path: bytes) -> int:
    """Open the directory `path` (b"" = `base` itself) below the open directory `base` without following links. The caller
    closes it. Opens each component with O_NOFOLLOW, or all of them by one openat2 that refuses links. Raises NotOnDisk for a
    component that only a cloud has."""
    fd = _open_at_once(base, path) if path.count(b"/") >= _DEEP and not HAS_FILE_FLAGS else -1
    if fd >= 0:
        return fd
    fd = os.dup(base)
    try:
        for part in path.split(b"/") if path else ():
            below = open_on_disk(part, DIRECTORY_FLAGS, fd)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


_DEEP = 2
_OPENAT2 = 437  # the number of the system call on all machines
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 4, 8
_HOW = struct.pack("=QQQ", DIRECTORY_FLAGS, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)  # flags, mode, resolve


def _open_at_once(base: int, path: bytes) -> int:
    """As open_beneath; -1 if that fails or is not possible here."""
    # a save opens few directories by a path: loading ctypes for these would take longer
    if "ctypes" not in sys.modules or (call := _find_openat2()) is None or b"\0" in path:
        return -1
    return call(base, path, _HOW, len(_HOW))


@cache
def _find_openat2() -> "Callable[..., int] | None":
    """The system call, or None if the kernel does not have it."""
    import ctypes

    if not sys.platform.startswith("linux"):
        return None
    call = find_system_call(_OPENAT2, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    with suppress(OSError), closing(os.open("/", DIRECTORY_FLAGS)) as root:
        fd = call(root, b".", _HOW, len(_HOW))
        if fd >= 0:
            os.close(fd)
            return call
    return None


def find_system_call(number: int, *kinds: "type") -> "Callable[..., int]":
    """A system call of Linux for which the C library may have no function. `kinds`: the ctypes types of its arguments. It answers
    -1 where the kernel does not have it, and ctypes.get_errno() is ENOSYS then."""
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes, call.restype = [ctypes.c_long, *kinds], ctypes.c_long
    return partial(call, number)


# New files and directories have exactly the modes 0600 and 0700, whatever the umask. With a umask of 0777, a process
# could not open its own new lock file, and the store would look like one on a read-only file system.


def undo_umask_fd(fd: int) -> None:
    """Restore the mode bits that the umask removed from a new file, created with mode 0600 and open as `fd`."""
    if os.fstat(fd).st_mode & _FILE != _FILE:
        os.fchmod(fd, _FILE)


def undo_umask(path: str | bytes, *, dir_fd: int | None = None) -> None:
    """The same by path, for a file or a directory. A link is not followed."""
    status = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    mode = _DIRECTORY if stat.S_ISDIR(status.st_mode) else _FILE
    if stat.S_ISLNK(status.st_mode) or status.st_mode & mode == mode:
        return
    if sys.platform == "darwin" or os.chmod in os.supports_follow_symlinks:
        os.chmod(path, mode, dir_fd=dir_fd, follow_symlinks=False)
        return
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)  # O_PATH also opens an unreadable file
    with closing(fd):
        if os.path.samestat(os.fstat(fd), status):
            os.chmod(f"/proc/self/fd/{fd}", mode)  # fchmod refuses such a descriptor


def make_empty_file(path: str) -> None:
    """Create an empty file, mode 0600, unless it exists. Raises OSError."""
    with closing(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE)) as fd:
        undo_umask_fd(fd)


def make_directory(path: str | bytes, *, dir_fd: int | None = None) -> None:
    """Create a directory, mode 0700. Raises OSError as os.mkdir does."""
    os.mkdir(path, _DIRECTORY, dir_fd=dir_fd)
    undo_umask(path, dir_fd=dir_fd)


def make_directories(path: str, mode: int = _DIRECTORY) -> None:
    """Create a directory and its missing parents, each with `mode`. The umask may take away the access of other users,
    never of the owner. Existing directories do not change. Raises OSError.

    os.makedirs gives its mode to the last directory alone: under umask 000 anybody could write to its parents.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_directories(parent, mode)
    with suppress(FileExistsError):
        os.mkdir(path, mode)
        undo_umask(path)


def make_directories_by_umask(path: str) -> None:
    """Create a directory and its missing parents. The umask decides the access of other users. Raises OSError."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_directories_by_umask(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
        undo_umask(path)
