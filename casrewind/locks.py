"""Kernel locks of files, with a deadline.

The danger prevented here: a process waits forever for a lock of a stopped process. Or it locks a file that was moved
away during the wait, so that two processes change one store.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from . import errors, fsio
from .messages import store_error

_POLL_FIRST, _POLL_LAST = 0.0005, 0.02


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
            if fsio.still_names(path, fd):
                yield fd
                return
        finally:
            os.close(fd)  # if the store was moved during the wait, this lock protects the wrong file: try again


def open_lock(path: str) -> int | None:
    """Open a lock file, or return None if it neither exists nor can be created. Raises StoreError, also for a lock that
    exists and may not be opened: its owner may hold it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fsio.undo_umask_fd(fd)
        return fd
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise store_error(error, "opening the lock", path) from error
    try:
        return os.open(path, fsio.READ_FLAGS)
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
            by = _pid_of_holder(fd)
            what = f"the store is busy: the {holder} lock was not free within {deadline:g} s"
            if by:
                raise errors.StoreBusy(f"{what}: process {by} holds it", "answer its question, if it asks one, or try again")
            raise errors.StoreBusy(what, "try again")
        time.sleep(pause)
        pause = min(pause * 2, _POLL_LAST)


def _pid_of_holder(fd: int) -> str:
    """The id of the process that holds a lock, "" if that is not known: outside of Linux, or in another container."""
    try:
        status = os.fstat(fd)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open("/proc/locks", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except (OSError, ValueError):
        return ""
    holders = (row[4] for row in rows if len(row) > 5 and (row[1], row[5]) == ("FLOCK", place))
    return next((process for process in holders if process.isdigit() and process != "0"), "")


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
