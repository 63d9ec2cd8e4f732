"""The worktree's files that have a checkpoint's content, for copies that share their blocks.

The danger prevented here: a file that was edited since its save passes for the checkpoint's. The stat index says which bytes
a file had, and its stamp whether it still has them. The stamp is compared after the copy: every write changes it.
"""

import os
import stat

from .. import fsio
from ..context import Context
from ..history import present_scan
from ..model import manifest
from ..model import stamp as stamps
from ..model.manifest import Entry
from ..store.reading import TreeCache
from ..worktree.stat_index import StatIndex, split_names

_Known = dict[bytes, tuple[stamps.Stamp, bytes]]
"""By name in one directory: the stamp that was seen with these bytes, and their digest."""


class WorktreeCopies:
    """Reads the worktree of a context. Use it as a context manager."""

    def __init__(self, context: Context) -> None:
        """Reads nothing yet."""
        self._context = context
        self._load = TreeCache(context.store.load_tree)
        self._index: StatIndex | None = None
        self._place, self._fd = b"", -1
        self._known_place: bytes | None = None
        self._known: _Known = {}

    def __enter__(self) -> "WorktreeCopies":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _enter_parent(self, path: bytes) -> bytes:
        """Make the parent of a path the open directory. Returns the path's last component."""
        parent, _, name = path.rpartition(b"/")
        if self._fd < 0 or parent != self._place:
            self._close()
            self._fd, self._place = self._context.tree.open_directory(parent), parent
        return name

    def link_target(self, path: bytes) -> bytes:
        """The target of a link of the worktree. Raises OSError."""
        name = self._enter_parent(path)
        return os.readlink(name, dir_fd=self._fd)

    def open_file(self, path: bytes) -> int:
        """Open a regular file of the worktree for reading, following no link. Raises OSError."""
        name = self._enter_parent(path)
        fd = fsio.open_on_disk(name, directory=self._fd)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError("not a regular file")
        return fd

    def has_same_content(self, path: bytes, entry: Entry, fd: int) -> bool:
        """True if an open file of the worktree still has the content that a checkpoint has at its path."""
        parent, _, name = path.rpartition(b"/")
        if parent != self._known_place:
            self._known_place, self._known = parent, self._read_known_entries(parent)
        stamp, digest = self._known.get(name, (stamps.NONE, b""))
        status = os.fstat(fd)
        return digest == entry.digest and status.st_dev == self._context.tree.status.st_dev and stamps.matches(stamp, status)

    def is_useless(self) -> bool:
        """True if no file's content is known."""
        return not len(self._stat_index())

    def _stat_index(self) -> StatIndex:
        if self._index is None:
            self._index = present_scan.read_stat_index(self._context)
        return self._index

    def _read_known_entries(self, directory: bytes) -> _Known:
        record = self._stat_index().record_of_directory(directory)
        if record is None:
            return {}
        digests = {name: entry.digest for name, entry in manifest.directory_entries(self._load, record.tree) if entry.kind == manifest.FILE}
        seen = zip(split_names(record.names), map(stamps.Stamp._make, stamps.PACKED.iter_unpack(record.stamps)), strict=True)
        return {name: (stamp, digests[name]) for name, stamp in seen if name in digests}
