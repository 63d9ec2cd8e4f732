"""The random id on a directory that restore --to wrote: it says which directory this is.

The danger prevented here: one directory is taken for another. ext4 gives the inode number of a removed directory to the next one,
so an empty directory passed for the one that was made, and a take removed the whole project. Numbers and times decide nothing.

The id is an extended attribute of the directory. It goes along with a rename, a copy that keeps attributes, and another mount. A
file system without such attributes gets a directory with the id, and with a `.gitignore` for it: git shows no change. No scan
captures that directory, and no checkpoint has its name (model/paths.py).
"""

import errno
import os
import re
import stat
import sys
from contextlib import suppress

from .. import fsio
from ..model import paths
from ..model.paths import ORIGIN

_ATTRIBUTE = "user.casrewind.origin"
_FILE, _RULES = b"id", b".gitignore"
_VALID = re.compile(rb"[0-9a-f]{32}")
_ID_BYTES = 64
_NO_ATTRIBUTE = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


def make_origin_id() -> str:
    """A new id: 32 hex digits."""
    return os.urandom(16).hex()


def read_origin_id(directory: str) -> str:
    """The id on a directory, "" if it has none. A link is followed. Raises OSError if that cannot be told."""
    with fsio.closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        found = _read_attribute(fd) or _read_file(fd)
    return found.decode() if _VALID.fullmatch(found) else ""


def _read_attribute(fd: int) -> bytes:
    if not sys.platform.startswith("linux"):  # macOS has other calls
        return b""
    try:
        return os.getxattr(fd, _ATTRIBUTE)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise
        return b""


def _read_file(fd: int) -> bytes:
    try:
        with fsio.closing(fsio.open_on_disk(ORIGIN, fsio.DIRECTORY_FLAGS, fd)) as inside, fsio.closing(
            fsio.open_on_disk(_FILE, directory=inside)
        ) as file:
            return os.read(file, _ID_BYTES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return b""


def set_attribute(fd: int, identity: str) -> bool:
    """Put an id on an open directory as an attribute. False if that is not possible here."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.setxattr(fd, _ATTRIBUTE, identity.encode())
    except OSError:
        return False
    return True


def files_with_id(identity: str) -> tuple[tuple[bytes, bytes], ...]:
    """The paths and bytes of the files that have the id where there are no attributes. The id is the last one."""
    return (paths.join(ORIGIN, _RULES), b"*\n"), (paths.join(ORIGIN, _FILE), identity.encode())


def remove_origin_id(fd: int) -> None:
    """Take the id off an open directory, durably. Raises OSError."""
    if not (_remove_attribute(fd) | _remove_files(fd)):
        return
    try:
        fsio.sync_fd(fd)
    except OSError as error:
        if error.errno not in fsio.CANNOT_SYNC:
            raise


def _remove_attribute(fd: int) -> bool:
    """False if there was none."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.removexattr(fd, _ATTRIBUTE)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise
        return False
    return True


def _remove_files(fd: int) -> bool:
    """False if there was no directory for them. Other files in it are not removed: then it stays, and ENOTEMPTY is raised."""
    try:
        inside = fsio.open_on_disk(ORIGIN, fsio.DIRECTORY_FLAGS, fd)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return False
    with fsio.closing(inside):
        for name in (_FILE, _RULES):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=inside)
    os.rmdir(ORIGIN, dir_fd=fd)
    return True
