"""Scratch directories: temporary directories that do not outlive their process, even if it is killed.

The danger prevented here: leftovers of killed processes fill up the temporary directory. Its owner holds a lock on each
directory. gc, and each new scratch directory, remove those without a lock.
"""

import errno
import fcntl
import os
import shutil
import stat
from contextlib import suppress

from .. import fsio

KINDS = ("index", "doctor", "bisect")
_PREFIX = "casrewind-"
_TOKEN = 6  # random bytes in a name, written as hex digits
_held: dict[str, int] = {}


def make_scratch(kind: str) -> str:
    """A new directory of one of the KINDS, mode 0700, until `remove_scratch` or the end of this process. Raises OSError."""
    remove_dead_scratch()
    while True:
        path = os.path.join(_directory_of_scratches(), f"{_PREFIX}{kind}-{os.urandom(_TOKEN).hex()}")
        os.mkdir(path, 0o700)
        fd = os.open(path, fsio.DIRECTORY_FLAGS)
        is_taken = False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # a file system without locks: only the owner removes the directory
            is_taken = error.errno in (errno.EAGAIN, errno.EACCES)
        if not is_taken and os.path.isdir(path):
            _held[path] = fd
            return path
        os.close(fd)  # another process took it for an orphan before it was locked


def remove_scratch(path: str) -> None:
    """Remove a directory of `make_scratch` with its contents. Errors are ignored."""
    _delete_directory(path)
    fd = _held.pop(path, -1)
    if fd >= 0:
        os.close(fd)


def remove_dead_scratch() -> None:
    """Remove the directories of dead owners. Errors are ignored."""
    try:
        parent = _directory_of_scratches()
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        kind, _, token = name.removeprefix(_PREFIX).partition("-")
        if not name.startswith(_PREFIX) or kind not in KINDS or len(token) != 2 * _TOKEN or token.strip("0123456789abcdef"):
            continue
        path = os.path.join(parent, name)
        with suppress(OSError):
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            with fsio.closing(os.open(path, fsio.DIRECTORY_FLAGS)) as fd:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _delete_directory(path)


def _delete_directory(path: str) -> None:
    """Remove a directory, also what its owner may not change in it. Errors are ignored."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        for place, directories, _ in os.walk(path):
            for name in directories:
                with suppress(OSError):
                    if not os.path.islink(os.path.join(place, name)):
                        os.chmod(os.path.join(place, name), 0o700)
        shutil.rmtree(path, ignore_errors=True)


def _directory_of_scratches() -> str:
    import tempfile

    return tempfile.gettempdir()
