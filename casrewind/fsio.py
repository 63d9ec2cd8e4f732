"""File-system calls for both store and worktree.

Three dangers are prevented here. A file looks written but is not: it, or its directory entry, was not synced. A process
waits forever for a lock of a stopped process. A path leaves a directory through a symbolic link created a moment ago.
"""

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from . import errors
from ._typing import NamedTuple

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOSPC: "no space left", errno.EDQUOT: "your disk quota is used up: no space left",
    errno.EMFILE: "too many open files: allow this process more (ulimit -n), and try again",
    errno.ENFILE: "too many open files in the whole system: close some programs, and try again",
}  # fmt: skip
_POLL_FIRST, _POLL_LAST = 0.0005, 0.02
_DRAFT = "casrewind-draft-"
"""Start of the name of each temporary file: in a client's directory, files of others have similar random names."""
_FILE, _DIRECTORY = 0o600, 0o700
_UNMAPPED = 65534
"""The owner shown for files of users outside the user namespace, as in a container."""


def printable(path: bytes | str | os.PathLike[str]) -> str:
    """A path for a message. Escapes undecodable bytes and control characters; never raises."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if text.isprintable() else "".join(escaped)


def store_error(error: OSError, doing: str, path: bytes | str) -> errors.CasrewindError:
    """The casrewind error for an OSError on a store file, or for a full disk anywhere."""
    reason = reason_of(error)
    if error.errno in _NO_SPACE:
        return errors.StoreFull(f"{reason} while {doing} {printable(path)}: free some space and try again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return errors.StoreNotWritable(f"cannot finish {doing} {printable(path)}: {reason}; make it writable, or give --store DIR")
    if error.errno == errno.ENOENT:
        return errors.StoreDamaged(
            f"damaged store: something is missing in it, {doing} {printable(path)} failed ({reason}); casrewind verify --repair "
            f"puts back what can be put back"
        )
    return errors.StoreError(f"failed while {doing} {printable(path)}: {reason}")


@contextmanager
def store_errors(doing: str, path: bytes | str) -> Iterator[None]:
    """Convert an OSError to the casrewind error that names the action and the store file."""
    try:
        yield
    except OSError as error:
        raise store_error(error, doing, path) from error


def is_ours(error: OSError) -> bool:
    """True if an error is about this process's own limits (descriptors, memory), not about the file."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def reason_of(error: OSError) -> str:
    """The reason of a system error in words; for a limit, with advice."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


def is_full(error: OSError) -> bool:
    """True if disk space or quota ran out."""
    return error.errno in _NO_SPACE


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write every byte: continue after a short write."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_fd(fd: int) -> None:
    """Make an open file or directory durable. Never retry after an error: fsync may then succeed despite lost bytes."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
    os.fsync(fd)


def sync_directory(path: str | bytes) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def sync_tree(fd: int) -> None:
    """Make the whole file system of `fd` durable: one syncfs instead of one sync per file."""
    if sys.platform.startswith("linux"):
        import ctypes

        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    else:
        os.sync()
        sync_fd(fd)


def replace_file(directory: str, name: str, data: bytes, *, temporary: str | None = None) -> None:
    """Atomically and durably write `directory/name`, mode 0600. `temporary`: a directory on the same file system for
    the draft."""
    with drafted(temporary or directory) as (draft, fd):
        write_all(fd, data)
        sync_fd(fd)
        os.rename(draft, os.path.join(directory, name))
    sync_directory(directory)


@contextmanager
def drafted(directory: str) -> Iterator[tuple[str, int]]:
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
        if not is_taken and _is_at(fd, draft):
            undo_umask_fd(fd)
            return draft, fd
        os.close(fd)  # removed as an orphan just before the lock


def remove_orphans(directory: str) -> None:
    """Remove temporary files of dead processes. Errors are ignored. Only the lock tells: pids are meaningless across
    pid namespaces (a container that shares the store). Without locks on a file system, the files remain."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        if not name.startswith(_DRAFT):
            continue
        path = os.path.join(directory, name)
        with suppress(OSError):
            fd = os.open(path, READ_FLAGS)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(fd)


def open_regular(path: str) -> int:
    """Open a regular file for reading. Raises OSError at once for any other kind of file."""
    fd = os.open(path, READ_FLAGS)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def read_file(path: str, limit: int | None = None, *, start: int = 0) -> bytes:
    """The bytes of a regular file from an offset, at most `limit`. Never follows a link, never hangs on a fifo."""
    fd = open_regular(path)
    try:
        if start:
            os.lseek(fd, start, os.SEEK_SET)
        return read_fd(fd, limit)
    finally:
        os.close(fd)


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


@contextmanager
def locked(path: str, *, exclusive: bool, deadline: float, holder: str = "") -> Iterator[int]:
    """Hold the kernel lock of the file `path`, or raise StoreBusy after `deadline` seconds. A missing file is created.
    flock belongs to the open file: a killed process releases it, a stopped process does not. `holder` names the lock in
    the error."""
    while True:
        fd = open_lock(path)
        if fd is None:  # read-only file system: no process can change the store, so no lock is needed
            yield -1
            return
        try:
            acquire(fd, exclusive=exclusive, deadline=deadline, holder=holder or os.path.basename(path))
            if _is_at(fd, path):
                yield fd
                return
        finally:
            os.close(fd)  # if the store was moved during the wait, this lock protects the wrong file: try again


def _is_at(fd: int, path: str) -> bool:
    """True if `path` still names this open file."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def open_lock(path: str) -> int | None:
    """Open a lock file, or return None if it neither exists nor can be created. Raises StoreError, also for a lock that
    exists and may not be opened: its owner may hold it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        undo_umask_fd(fd)
        return fd
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise store_error(error, "opening the lock", path) from error
    try:
        return os.open(path, READ_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, "opening the lock", path) from error


def acquire(fd: int, *, exclusive: bool, deadline: float, holder: str) -> None:
    """Lock an open lock file, or raise StoreBusy after `deadline` seconds."""
    kind = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    end = time.monotonic() + deadline
    pause = _POLL_FIRST
    while True:
        try:
            fcntl.flock(fd, kind)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                raise
        else:
            return
        if time.monotonic() >= end:
            raise errors.StoreBusy(f"the store is busy: the {holder} lock was not free within {deadline:g} s; try again")
        time.sleep(pause)
        pause = min(pause * 2, _POLL_LAST)


def try_lock(fd: int) -> bool:
    """Lock an open lock file for this process alone. False if another process holds it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
            raise
        return False
    return True


def unlock(fd: int) -> None:
    """Release the lock of an open lock file."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def open_beneath(base: int, parts: Sequence[bytes]) -> int:
    """Open the directory `parts` below the open directory `base` without following links. The caller closes it. Opens
    each component with O_NOFOLLOW, which is portable and equals Linux's openat2(RESOLVE_NO_SYMLINKS)."""
    fd = os.dup(base)
    try:
        for part in parts:
            below = os.open(part, DIRECTORY_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


class Mount(NamedTuple):
    """A mount as the kernel lists it: its id, its parent mount's id, its mount point, and its file system type."""

    number: int
    parent: int
    place: bytes
    kind: str


def mounts() -> list[Mount]:
    """Every mount visible to this process. At the same path, a later mount hides an earlier one. Empty if unknown."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return parse_mounts(file.read())
    except OSError:
        return []


def parse_mounts(told: bytes) -> list[Mount]:
    """The mounts in the bytes of /proc/self/mountinfo."""
    found = []
    for line in told.splitlines():
        fields = line.split(b" ")
        try:
            place = fields[4]
            if b"\\" in place:  # space, tab, newline and backslash are written as octal numbers
                place = place.decode("unicode_escape").encode("latin-1")
            kind = fields[fields.index(b"-") + 1].decode()
            found.append(Mount(int(fields[0]), int(fields[1]), place, kind))
        except (ValueError, IndexError):
            continue
    return found


def is_below(path: str | bytes, directory: str | bytes) -> bool:
    """True if a path lies in a directory, at any depth, and is not the directory. Both as for `is_in`."""
    return is_in(path, directory) and not is_in(directory, path)


def is_in(path: str | bytes, directory: str | bytes) -> bool:
    """True if a path is a directory, or lies in it at any depth. Both are absolute; links are not followed."""
    return (os.fsencode(path) + b"/").startswith(os.fsencode(directory).rstrip(b"/") + b"/")


def file_system_type(path: str) -> str:
    """The file system type of a path ("ext4", "overlay", "nfs4"), or "" if unknown."""
    real = os.fsencode(os.path.realpath(path))
    best, kind = -1, ""
    for mount in mounts():
        if is_in(real, mount.place) and len(mount.place) >= best:
            best, kind = len(mount.place), mount.kind
    return kind


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
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(path, mode, dir_fd=dir_fd, follow_symlinks=False)
        return
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)  # O_PATH also opens an unreadable file
    try:
        if os.path.samestat(os.fstat(fd), status):
            os.chmod(f"/proc/self/fd/{fd}", mode)  # fchmod refuses such a descriptor
    finally:
        os.close(fd)


def make_file(path: str) -> None:
    """Create an empty file, mode 0600, unless it exists. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE)
    try:
        undo_umask_fd(fd)
    finally:
        os.close(fd)


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


def make_usual(path: str) -> None:
    """Create a directory and its missing parents. The umask decides the access of other users. Raises OSError."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_usual(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
        undo_umask(path)


def ownership_problem(directory: str) -> str:
    """Why other users control a directory (they own it or can write to it), or "" if they do not or it is missing.
    Directories of root are accepted: root can do anything anyway."""
    try:
        status = os.stat(directory)
    except OSError:
        return ""
    if status.st_uid not in (os.geteuid(), 0) and not (status.st_uid == _UNMAPPED and _is_user_namespace()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & stat.S_ISVTX:
        return ""
    is_open = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid))
    return "others may write to it" if is_open else ""


def exposed(path: str) -> tuple[str, str]:
    """The nearest parent in which other users could rename or remove the path. Returns (directory, reason) or ("",
    "")."""
    place = os.path.realpath(path)
    while place != (place := os.path.dirname(place)):
        if why := ownership_problem(place):
            return place, why
    return "", ""


def _is_user_namespace() -> bool:
    """True if some users of the system have no id here."""
    try:
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() != [b"0", b"0", b"4294967295"]
    except OSError:
        return False


def _is_own_group(group: int) -> bool:
    """True for root's group and for a private group: one with this user's name and no other member."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        found, name = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == name and not set(found.gr_mem) - {name}
