"""Linux's inotify, and what its events say of a worktree.

The kernel queues an event inside the call that makes a change, so whoever reads until nothing is left knows of everything
that was done before: no waiting, no file to signal with. The dangers prevented here: a queue that ran over, a file system that
was mounted over a directory, a directory that was renamed and is told of by its old name, and a file that is open by a name
which is gone or not watched: the kernel tells of its changes where that name was.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import time
from collections.abc import Callable

from .. import fsio
from ..model import stamp as stamps
from .change_set import ChangedDirectories, ChangeSet, WatchResult
from .stat_index import StatIndex

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLY_DIRECTORIES, _FOLLOW_NO_LINK, _IS_DIRECTORY = 0x1000000, 0x2000000, 0x40000000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_NAMES = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO
_EVENT = struct.Struct("iIII")
_MOST_MOVES = 64
"""Directories that are made, moved or removed before it is cheaper to know nothing."""
_MOST_CHANGED = 20_000
_MOST_STRANGE = 1_000
"""Names without an event of their own that are compared at every save; an `lstat` of each takes some microseconds."""
LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"})
"""File systems on which nothing changes but by this kernel's doing."""


def _call(name: str) -> Callable[..., int]:
    """A function of the C library that sets errno. Raises OSError where there is none."""
    try:
        found = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError) as error:
        raise OSError(errno.ENOSYS, "this system has no inotify") from error
    found.restype = ctypes.c_int
    return found  # type: ignore[no-any-return]


class InotifyWatcher:
    """What is known of a worktree by watching it. Nothing, at first: `full` until a scan has seen all of it."""

    def __init__(self, root: bytes) -> None:
        """Watch nothing yet. Raises OSError."""
        self._init, self._add = _call("inotify_init1"), _call("inotify_add_watch")
        self._remove = _call("inotify_rm_watch")
        self._root = root
        self.mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.mounts, select.POLLPRI)
        self._paths: dict[int, tuple[bytes, ...]] = {}
        self.fd = -1
        """The queue of events."""
        self.over = ""
        """Why the watch has ended, "" while it goes on."""
        self._strange: dict[bytes, stamps.Stamp] = {}
        """Files that got a name without being written (by a link, or a rename from an unwatched directory), and their stamps when they
        were compared last. A process may write to such a file by another name, and the system does not report that."""
        self._gone = (0, False)  # of the name that was renamed last: the rename's number, whether the file was strange
        self._new()

    def _new(self) -> None:
        """Know nothing, and have nothing watched but the root."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = self._init(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot be used: " + os.strerror(ctypes.get_errno()))
        status = os.stat(self._root)
        self._identity = (status.st_dev, status.st_ino)
        self._known_mounts = self._mounted()
        self._paths = {}
        self.changed: set[bytes] = set()
        self.below: set[bytes] = set()
        self.full = True
        self._moves = 0
        self._paths[self.add(self._root)] = (b"",)

    def add(self, place: bytes, *, follow: bool = False) -> int:
        """Watch the directory at a path, following a link there if told so. Raises OSError."""
        flags = _MASK | _ONLY_DIRECTORIES | (0 if follow else _FOLLOW_NO_LINK)
        number = self._add(self.fd, ctypes.c_char_p(place), ctypes.c_uint32(flags))
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return number

    def close(self) -> None:
        """Stop watching."""
        os.close(self.fd)
        os.close(self.mounts)

    def forget_all(self) -> None:
        """Know nothing any more."""
        self._new()

    def drain(self) -> None:
        """Take in every event there is."""
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            if not self._take(data):
                self._new()
                break
            while len(self._strange) > _MOST_STRANGE:
                del self._strange[next(iter(self._strange))]  # the oldest
        if len(self.changed) > _MOST_CHANGED or (self._poll.poll(0) and self._mounted() != self._known_mounts):
            self._new()

    def _mounted(self) -> list[bytes]:
        """What the system says of each mount at the root or below: elsewhere, where there are containers, they come and go."""
        os.lseek(self.mounts, 0, os.SEEK_SET)
        told = b"".join(iter(lambda: os.read(self.mounts, 1 << 16), b"")).splitlines()
        places = ((mount.place, line) for line in told for mount in fsio.parse_mounts(line))
        return [line for place, line in places if fsio.is_in(place, self._root)]

    def _take(self, data: bytes) -> bool:
        """Take in some events; False when nothing is known any more."""
        at = 0
        while at < len(data):
            number, mask, cookie, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & (_OVERFLOW | _UNMOUNT):
                return False
            places = self._paths.get(number, ())
            if mask & _IGNORED:
                self._paths.pop(number, None)
                continue
            if mask & (_DELETE_SELF | _MOVE_SELF) and b"" in places:
                self.over = "the root was moved or removed"
            self.changed.update(places)
            if mask & _IS_DIRECTORY and length and mask & (_NAMES | _ATTRIB):
                name = data[at - length : at].rstrip(b"\0")
                for place in places:
                    path = place + b"/" + name if place else name
                    self.changed.add(path)
                    if mask & _NAMES and not self._move(path, gone=bool(mask & (_MOVED_FROM | _DELETE))):
                        return False
            elif length and mask & (_NAMES | _MODIFY | _CLOSE_WRITE):
                name = data[at - length : at].rstrip(b"\0")
                for place in places:
                    self._note_name(place + b"/" + name if place else name, mask, cookie)
                if mask & (_CREATE | _MOVED_TO) and not self.full:
                    self.full = any(self._has_others(place, name) for place in places)
        return True

    def _note_name(self, path: bytes, mask: int, cookie: int) -> None:
        """Remember a file name that came. Forget it when it goes, or when the file is written by this name.

        A file that is made by its name is written and closed by that name; a link is not.
        """
        if mask & (_CREATE | _MOVED_TO):
            self._strange.pop(path, None)
            if not (mask & _MOVED_TO and self._gone == (cookie, False)):
                self._strange[path] = stamps.NONE
        elif self._strange or mask & _MOVED_FROM:
            was_strange = self._strange.pop(path, None) is not None
            if mask & _MOVED_FROM:
                self._gone = (cookie, was_strange)

    def _compare_strange(self) -> None:
        """Find out which of the files in `_strange` changed since the last time."""
        now = time.time_ns()
        for path, known in list(self._strange.items()):
            try:
                status = os.lstat(os.path.join(self._root, path))
            except OSError:
                status = None
            if status is None or not stat.S_ISREG(status.st_mode):
                del self._strange[path]
                found = stamps.NONE
            else:
                found = stamps.of(status)
                self._strange[path] = stamps.NONE if stamps.is_racy(found, now) else found
            if found != known or found == stamps.NONE:
                self.changed.add(path.rpartition(b"/")[0])

    def _has_others(self, place: bytes, name: bytes) -> bool:
        """Whether what came is another name of a file: of one in a directory that nothing is told of, it may be. A scan sees that
        too, but not where it ignores the name."""
        try:
            return os.lstat(os.path.join(self._root, place, name)).st_nlink > 1
        except OSError:
            return False  # gone again

    def _move(self, path: bytes, *, gone: bool) -> bool:
        """A directory came or went: what is known by its name is not of the one that is there."""
        self._moves += 1
        if self._moves > _MOST_MOVES:
            return False
        self.below.add(path)
        if not gone:
            return True
        inside = path + b"/"
        for number, places in list(self._paths.items()):
            stay = tuple(place for place in places if place != path and not place.startswith(inside))
            if stay == places:
                continue
            if stay:
                self._paths[number] = stay
            else:
                del self._paths[number]
                self._remove(self.fd, number)
        return True

    def changes(self) -> ChangedDirectories:
        """What is known, as a value that another process can be told."""
        self._compare_strange()
        return ChangedDirectories(self._identity, frozenset(self.changed), frozenset(self.below), self.full)

    def watch(self, changes: ChangedDirectories | None = None, memory: StatIndex | None = None) -> ChangeSet:
        """For one save, in this process or in a fork of it: these changes (by default all until now) since what the memory has."""
        return ChangeSet(self.add, changes or self.changes(), memory)

    def adopt_result(self, result: WatchResult) -> None:
        """Take over what a scan found that was given `watch()`. Before anything else is drained."""
        for number, path in result.entered:
            places = self._paths.get(number, ())
            if path not in places:
                self._paths[number] = (*places, path)
        if result.failed or self._poll.poll(0):
            self._new()  # what was mounted while it looked, and maybe is no more, it may have taken for the project's
        elif result.is_known:
            self.changed, self.below, self._moves = set(result.rest), set(), 0
            self.full = False
