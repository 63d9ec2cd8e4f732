"""Waits for changes in directories with Linux's inotify: one watch for each directory, and none below it.

The dangers prevented here: a link to the whole disk, or an ignored directory with a million files, is watched because it lies below. Only
directories that are given are watched, and no link is followed. And a change is lost without a word: a full queue counts as a change.
"""

import ctypes
import errno
import os
import select
import struct
from collections.abc import Callable, Iterable

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_WATCH_ENDED, _ONLY_DIRECTORIES, _FOLLOW_NO_LINK = 0x8000, 0x1000000, 0x2000000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_LIMIT = "/proc/sys/fs/inotify/max_user_watches"


class OutOfWatches(Exception):
    """The system allows this user no more watches."""


def allowed_watches() -> int:
    """How many directories this user may watch at a time, 0 = unknown."""
    try:
        with open(_LIMIT, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


class DirectoryWatch:
    """Watches directories of one root. Paths are relative to it, b"" is the root."""

    def __init__(self, root: bytes) -> None:
        """Watch nothing yet. Raises OSError where there is no inotify."""
        self._root = root
        self._add, self._remove = _find_c_function("inotify_add_watch"), _find_c_function("inotify_rm_watch")
        self._fd = _find_c_function("inotify_init1")(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._numbers: dict[bytes, int] = {}
        self._paths: dict[int, bytes] = {}

    def __len__(self) -> int:
        """How many directories are watched."""
        return len(self._numbers)

    def watch_only(self, directories: Iterable[bytes]) -> bool:
        """Watch these directories and no others. True if some were not watched before: what changed in them until now is unknown. One that
        is gone is left out: its parent tells. Raises OutOfWatches."""
        wanted = set(directories)
        for path in self._numbers.keys() - wanted:
            number = self._numbers.pop(path)
            del self._paths[number]
            self._remove(self._fd, number)
        new = sorted(wanted - self._numbers.keys())
        for path in new:
            self._watch(path)
        return bool(new)

    def _watch(self, path: bytes) -> None:
        flags = ctypes.c_uint32(_MASK | _ONLY_DIRECTORIES | _FOLLOW_NO_LINK)
        number = self._add(self._fd, ctypes.c_char_p(os.path.join(self._root, path)), flags)
        if number >= 0:
            if (moved := self._paths.get(number)) is not None:  # renamed: it has one watch, whatever its name is
                del self._numbers[moved]
            self._numbers[path], self._paths[number] = number, path
        elif ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
            raise OutOfWatches

    def wait(self, seconds: float | None) -> bool:
        """Wait until something changes, at most so long (None: without an end). True if something did."""
        if not self._poll.poll(None if seconds is None else seconds * 1000):
            return False
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return True
            self._forget_dead_watches(data)

    def _forget_dead_watches(self, data: bytes) -> None:
        """A directory that was removed, or whose file system was, has no watch any more. One of its name that comes later needs its own."""
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _WATCH_ENDED and number in self._paths:
                del self._numbers[self._paths.pop(number)]

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)


def _find_c_function(name: str) -> Callable[..., int]:
    """A function of the C library that sets errno. Raises OSError if it is missing."""
    try:
        found = getattr(ctypes.CDLL(None, use_errno=True), name)
    except AttributeError as error:
        raise OSError(errno.ENOSYS, "this system has no inotify") from error
    found.restype = ctypes.c_int
    return found  # type: ignore[no-any-return]
