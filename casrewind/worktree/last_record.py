"""What the newest checkpoint says of files that are not on the disk.

Two dangers are prevented here. A file that only a cloud has is downloaded by a save: a prompt waits for that, and the disk
fills up. Or it is left out, although nobody changed it: then no checkpoint from now on has it.

To move a file to the cloud changes its ctime, and a boot makes all stamps invalid. So size and mtime alone say that a file has not
changed. A directory has no such mark for what is in it: it is never known from before.
"""

import os
import stat
from collections.abc import Callable

from .. import errors
from ..model import manifest
from ..model.manifest import Entry
from .reader import ScanSink


class LastRecord:
    """The files of the newest checkpoint, for a scan that meets one that is not on the disk."""

    def __init__(self, sink: ScanSink, last_tree: Callable[[], bytes | None] | None) -> None:
        """`last_tree` is called when the first file is asked for."""
        self._sink, self._last_tree = sink, last_tree
        self._finder: manifest.Finder | None = None

    def entry_if_unchanged(self, path: bytes, status: os.stat_result) -> Entry | None:
        """The entry of a file with the mode that it has now; None if the checkpoint has no such file, or the store not its bytes."""
        if self._finder is None:
            tree = None if self._last_tree is None else self._last_tree()
            if tree is None:
                return None
            self._finder = manifest.Finder(self._sink.load_tree, tree)
        try:
            entry = self._finder.find(path)
        except errors.StoreDamaged:
            return None
        if entry is None or entry.kind != manifest.FILE or (entry.size, entry.mtime_ns) != (status.st_size, status.st_mtime_ns):
            return None
        return None if self._sink.lacks((entry.chunks or entry.digest,)) else entry._replace(mode=stat.S_IMODE(status.st_mode))
