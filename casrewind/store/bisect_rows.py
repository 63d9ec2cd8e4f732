"""The running bisects: which checkpoints each of them needs. One small JSON file each.

The danger prevented here: gc forgets a state that is looked at next. A row names its process, so that the row of one that was
killed holds nothing.
"""

import os

from .._typing import NamedTuple
from ..model import digest as digests
from . import json_rows

_DIRECTORY = "bisects"


class BisectRow(NamedTuple):
    """A running bisect: the `pid` of its process and when that began (an opaque word, "" if unknown), the key of the worktree
    in hex, and the first and last number (`Checkpoint.seq`) of the checkpoints that it needs."""

    pid: int
    pid_start: str
    worktree: str
    first: int
    last: int


class BisectRows:
    """The rows of one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, row: BisectRow) -> None:
        """Record a bisect, in place of what was recorded for its process. Raises OSError."""
        json_rows.write_row(self._store, self._path_of_row(row), row)

    def all(self) -> list[BisectRow]:
        """All rows."""
        return json_rows.read_rows(self._place, BisectRow)

    def forget(self, row: BisectRow) -> None:
        """Remove a row. Errors are ignored: once its process is gone, the row holds nothing."""
        json_rows.remove_row(self._path_of_row(row))

    def _path_of_row(self, row: BisectRow) -> str:
        name = digests.of(f"{row.pid} {row.pid_start}".encode("utf-8", "surrogatepass"))
        return os.path.join(self._place, name[:12].hex() + json_rows.END)
