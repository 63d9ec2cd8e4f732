"""Recognises a store by its contents, at any path.

The danger prevented here: a store inside a project is captured as plain files. A restore then writes old files over
it, and acknowledged checkpoints are lost. Source code that merely looks like a store must not be skipped. So a store
needs all of these: our FORMAT line, a ledger with our header, a directory `packs/`, our own user, mode 0700.
"""

import os
import stat
from collections.abc import Collection

from . import fsio

FORMAT, LEDGER, PACKS = "FORMAT", "ledger", "packs"
_FORMAT_LINE, _LEDGER_HEAD = b"casrewind store ", b"CRLG"
_STORES = "stores"
_IN_DATA = frozenset({_STORES, "watch", "log", "log.old", "log.seen"})
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def is_store(directory: int) -> bool:
    """True when the open directory is a store of this user, of any version."""
    if not _is_private(directory):
        return False
    try:
        if not stat.S_ISDIR(os.stat(PACKS, dir_fd=directory, follow_symlinks=False).st_mode):
            return False
        line = _first_bytes(FORMAT, directory, 64)
        number = line[len(_FORMAT_LINE) :].removesuffix(b"\n")
        return line.startswith(_FORMAT_LINE) and number.isdigit() and _first_bytes(LEDGER, directory, 4) == _LEDGER_HEAD
    except OSError:
        return False


def may_be_data_directory(names: Collection[str]) -> bool:
    """True if a directory with only these names can be a data directory, which holds stores."""
    return len(names) <= len(_IN_DATA) and _STORES in names and _IN_DATA.issuperset(names)


def is_data_directory(directory: int) -> bool:
    """True when the open directory is this user's data directory: it holds a store, and only files of casrewind."""
    if not _is_private(directory):
        return False
    try:
        if not may_be_data_directory(os.listdir(directory)):
            return False
        stores = fsio.open_on_disk(_STORES, _FLAGS | os.O_DIRECTORY, directory)
    except OSError:
        return False
    try:
        return _is_private(stores) and any(_is_store_at(name, stores) for name in os.listdir(stores))
    except OSError:
        return False
    finally:
        os.close(stores)


def _is_store_at(path: str, directory: int | None = None) -> bool:
    """As is_store, for a path; a relative path begins at the open directory."""
    try:
        fd = fsio.open_on_disk(path, _FLAGS | os.O_DIRECTORY, directory)
    except OSError:
        return False
    with fsio.closing(fd):
        return is_store(fd)


def _is_private(directory: int) -> bool:
    status = os.fstat(directory)
    return status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700


def _first_bytes(name: str, directory: int, size: int) -> bytes:
    with fsio.closing(fsio.open_on_disk(name, _FLAGS, directory)) as fd:
        return os.read(fd, size) if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def find_store_around(path: str) -> str:
    """The store that contains a path, or "". `path` is absolute and need not exist."""
    place = os.path.realpath(path)
    while True:
        if os.path.lexists(os.path.join(place, FORMAT)) and _is_store_at(place):
            return place
        if (parent := os.path.dirname(place)) == place:
            return ""
        place = parent
