"""The directories that restore --to wrote: which checkpoint is in each. One small JSON file each.

The danger prevented here: a change is taken over from a directory that was not made from the checkpoint it is compared
with. So a row counts only for the same directory at the same path. The rows may be lost: no checkpoint needs them.
"""

import os

from .._typing import NamedTuple
from ..model import digest as digests
from . import unsynced_json_rows

_DIRECTORY = "origins"


class Origin(NamedTuple):
    """A directory that has a checkpoint's files: its real path, its inode number, the id of the `checkpoint`, the path of
    the project (`root`) and the key of its worktree in hex, and when it was written (nanoseconds since 1970)."""

    directory: str
    ino: int
    checkpoint: str
    root: str
    worktree: str
    written_ns: int


class OriginRows:
    """The rows of one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, origin: Origin) -> None:
        """Record a directory, in place of what was recorded for its path. Raises OSError."""
        unsynced_json_rows.write_row(self._store, self._path_of_row(origin.directory), origin)

    def find(self, directory: str) -> Origin | None:
        """The row of a real path."""
        return unsynced_json_rows.read_row(self._path_of_row(directory), Origin)

    def all(self) -> list[Origin]:
        """All rows, newest first."""
        return sorted(unsynced_json_rows.read_rows(self._place, Origin), key=lambda row: row.written_ns, reverse=True)

    def forget(self, directory: str) -> None:
        """Remove the row of a real path. Errors are ignored."""
        unsynced_json_rows.remove_row(self._path_of_row(directory))

    def _path_of_row(self, directory: str) -> str:
        return os.path.join(self._place, digests.of(os.fsencode(directory))[:12].hex() + unsynced_json_rows.END)
