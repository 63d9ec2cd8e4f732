"""The directories that restore --to wrote: which checkpoint is in each. One small JSON file each.

The danger prevented here: a change is taken over from a directory that was not made from the checkpoint it is compared
with. So a row counts only for a directory that has its id. The rows may be lost: no checkpoint needs them.
"""

import os

from .._typing import NamedTuple
from . import json_rows

_DIRECTORY = "origins"


class Origin(NamedTuple):
    """A directory that has a checkpoint's files: the random `id` that is on it, the real path at which it was made, the id of
    the `checkpoint`, and when it was written (nanoseconds since 1970). `is_whole`: no file was left out for damage in the store."""

    id: str
    directory: str
    checkpoint: str
    written_ns: int
    is_whole: bool


class OriginRows:
    """The rows of one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, origin: Origin) -> None:
        """Record a directory. Raises OSError."""
        json_rows.write_row(self._store, self._path_of_row(origin.id), origin)

    def find(self, identity: str) -> Origin | None:
        """The row of an id."""
        row = json_rows.read_row(self._path_of_row(identity), Origin)
        return row if row is not None and row.id == identity else None

    def all(self) -> list[Origin]:
        """All rows, newest first."""
        return sorted(json_rows.read_rows(self._place, Origin), key=lambda row: row.written_ns, reverse=True)

    def forget(self, identity: str) -> None:
        """Remove the row of an id. Errors are ignored."""
        json_rows.remove_row(self._path_of_row(identity))

    def _path_of_row(self, identity: str) -> str:
        """`identity`: hex digits, as worktree/origin_id.py reads them."""
        return os.path.join(self._place, identity + json_rows.END)
