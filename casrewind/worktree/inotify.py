"""Watches a worktree with Linux's inotify.

The kernel queues an event during each change, so reading the queue to its end reveals every earlier change. The dangers
prevented here: a queue overflow; a file system mounted over a directory; a renamed directory reported by its old name.
And a file open under a deleted or unwatched name: the kernel reports its changes only under that name.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import time
from collections.abc import Callable

from .. import locations
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
"""Created, moved or removed directories before a full comparison is cheaper."""
_MOST_CHANGED = 20_000
_MOST_STRANGE = 1_000
"""Names without events of their own, compared at every save; each costs an `lstat` of some microseconds."""
LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"})
"""File systems that only this kernel can change."""


def _find_c_function(name: str) -> Callable[..., int]:
    """A function of the C library that sets errno. Raises OSError if it is missing."""
    try:
        found = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError) as error:
        raise OSError(errno.ENOSYS, "this system has no inotify") from error
    found.restype = ctypes.c_int
    return found  # type: ignore[no-any-return]


class InotifyWatcher:
    """Watches a worktree and collects its changes. `full` is set until a scan has covered everything."""

    def __init__(self, root: bytes) -> None:
        """Watch only the root. Raises OSError."""
        self._init, self._add = _find_c_function("inotify_init1"), _find_c_function("inotify_add_watch")
        self._remove = _find_c_function("inotify_rm_watch")
        self._root = root
        self.mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.mounts, select.POLLPRI)
        self._paths: dict[int, tuple[bytes, ...]] = {}
        self.fd = -1
        """The event queue."""
        self.over = ""
        """Why the watch has ended; "" while it is active."""
        self._strange: dict[bytes, stamps.Stamp] = {}
        """Files that got a name without being written (by link, or rename from an unwatched directory), with their last
        compared stamps. A process may write to such a file by another name without an event here."""
        self._gone = (0, False)  # last renamed name: (cookie, was the file in _strange)
        self.forget_all_and_watch_root()

    def forget_all_and_watch_root(self) -> None:
        """Discard all known changes and watches, and watch only the root. Raises OSError."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = self._init(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot be used: " + os.strerror(ctypes.get_errno()))
        status = os.stat(self._root)
        self._identity = (status.st_dev, status.st_ino)
        self._known_mounts = self._read_mount_lines_below_root()
        self._paths = {}
        self.changed: set[bytes] = set()
        self.below: set[bytes] = set()
        self.full = True
        self._moves = 0
        self._paths[self.watch_directory(self._root)] = (b"",)

    def watch_directory(self, place: bytes, *, follow: bool = False) -> int:
        """Watch the directory at a path; with `follow`, follow a link there. Raises OSError."""
        flags = _MASK | _ONLY_DIRECTORIES | (0 if follow else _FOLLOW_NO_LINK)
        number = self._add(self.fd, ctypes.c_char_p(place), ctypes.c_uint32(flags))
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return number

    def close(self) -> None:
        """Stop watching."""
        os.close(self.fd)
        os.close(self.mounts)

    def note_changes_from_queued_events(self) -> None:
        """Process all queued events."""
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            if not self._note_changes_from_events(data):
                self.forget_all_and_watch_root()
                break
            while len(self._strange) > _MOST_STRANGE:
                del self._strange[next(iter(self._strange))]  # the oldest
        if len(self.changed) > _MOST_CHANGED or (self._poll.poll(0) and self._read_mount_lines_below_root() != self._known_mounts):
            self.forget_all_and_watch_root()

    def _read_mount_lines_below_root(self) -> list[bytes]:
        """The kernel's lines for mounts at or below the root. Containers elsewhere mount and unmount all the time."""
        os.lseek(self.mounts, 0, os.SEEK_SET)
        lines = b"".join(iter(lambda: os.read(self.mounts, 1 << 16), b"")).splitlines()
        places = ((mount.point, line) for line in lines for mount in locations.parse_mounts(line))
        return [line for place, line in places if locations.is_in(place, self._root)]

    def _note_changes_from_events(self, data: bytes) -> bool:
        """Process some events. False if the known state is lost."""
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
                    if mask & _NAMES and not self._forget_paths_below_moved_directory(path, gone=bool(mask & (_MOVED_FROM | _DELETE))):
                        return False
            elif length and mask & (_NAMES | _MODIFY | _CLOSE_WRITE):
                name = data[at - length : at].rstrip(b"\0")
                for place in places:
                    self._remember_or_forget_strange_name(place + b"/" + name if place else name, mask, cookie)
                if mask & (_CREATE | _MOVED_TO) and not self.full:
                    self.full = any(self._has_other_hard_links(place, name) for place in places)
        return True

    def _remember_or_forget_strange_name(self, path: bytes, mask: int, cookie: int) -> None:
        """Remember a name that appears. Forget it when it vanishes, or when an event reports a write under this name.

        The creation of a file causes such an event. The creation of a hard link does not."""
        if mask & (_CREATE | _MOVED_TO):
            self._strange.pop(path, None)
            if not (mask & _MOVED_TO and self._gone == (cookie, False)):
                self._strange[path] = stamps.NONE
        elif self._strange or mask & _MOVED_FROM:
            was_strange = self._strange.pop(path, None) is not None
            if mask & _MOVED_FROM:
                self._gone = (cookie, was_strange)

    def _note_changed_strange_files(self) -> None:
        """Find the files in `_strange` that have changed since the last comparison."""
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

    def _has_other_hard_links(self, place: bytes, name: bytes) -> bool:
        """True if a new name may be a second name of an unwatched file. A scan sees this too, except for ignored
        names."""
        try:
            return os.lstat(os.path.join(self._root, place, name)).st_nlink > 1
        except OSError:
            return False  # already gone

    def _forget_paths_below_moved_directory(self, path: bytes, *, gone: bool) -> bool:
        """Handle a directory that appeared or vanished: data known under its path is invalid."""
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

    def known_changes(self) -> ChangedDirectories:
        """The known changes, as a value for another process."""
        self._note_changed_strange_files()
        return ChangedDirectories(self._identity, frozenset(self.changed), frozenset(self.below), self.full)

    def make_change_set(self, changes: ChangedDirectories | None = None, memory: StatIndex | None = None) -> ChangeSet:
        """The change set for one save, here or in a fork: `changes` (default: all so far) relative to `memory`."""
        return ChangeSet(self.watch_directory, changes or self.known_changes(), memory)

    def take_over_scan_result(self, result: WatchResult) -> None:
        """Take over the result of a scan with `watch()`. Call it before the next reading of change events."""
        for number, path in result.entered:
            places = self._paths.get(number, ())
            if path not in places:
                self._paths[number] = (*places, path)
        if result.failed or self._poll.poll(0):
            self.forget_all_and_watch_root()  # the scan may have read files of a file system that was mounted during the scan
        elif result.is_known:
            self.changed, self.below, self._moves = set(result.rest), set(), 0
            self.full = False
