"""Scratch directories: a process's own in the system's temporary directory, which go when it goes, however it goes.

The danger prevented here: a temporary directory that fills up with what killed processes left. Each is named after its owner
and held by a lock on it for as long as that lives; whoever makes the next one, and gc, removes those that nobody holds.
"""

import errno
import fcntl
import os
import shutil
import stat
from contextlib import suppress

from .. import fsio

KINDS = ("index", "doctor")
_PREFIX = "casrewind-"
_held: dict[str, int] = {}


def make(kind: str) -> str:
    """A new directory of one of the KINDS, mode 0700, until `remove` or the end of this process. Raises OSError."""
    clear()
    while True:
        path = os.path.join(_parent(), f"{_PREFIX}{kind}-{fsio.temporary_name()}")
        os.mkdir(path, 0o700)
        fd = os.open(path, fsio.DIRECTORY_FLAGS)
        is_taken = False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # a file system without locks: then nobody removes it but its owner
            is_taken = error.errno in (errno.EAGAIN, errno.EACCES)
        if not is_taken and os.path.isdir(path):
            _held[path] = fd
            return path
        os.close(fd)  # taken for an orphan in the instant before it was locked


def remove(path: str) -> None:
    """Remove a directory that `make` made, with all that is in it. Failing here is nobody's business."""
    shutil.rmtree(path, ignore_errors=True)
    fd = _held.pop(path, -1)
    if fd >= 0:
        os.close(fd)


def clear() -> None:
    """Remove the directories whose owners are gone. Failing here is nobody's business."""
    try:
        parent = _parent()
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        kind, _, owner = name.removeprefix(_PREFIX).partition("-")
        if not name.startswith(_PREFIX) or kind not in KINDS or fsio.is_owner_alive(owner):
            continue
        path = os.path.join(parent, name)
        with suppress(OSError):
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            fd = os.open(path, fsio.DIRECTORY_FLAGS)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)


def _parent() -> str:
    import tempfile

    return tempfile.gettempdir()
