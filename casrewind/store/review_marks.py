"""How far a person has looked at what changed: one mark for each worktree, a small JSON file."""

import os

from .._typing import NamedTuple
from . import json_rows

_DIRECTORY = "reviews"


class ReviewMark(NamedTuple):
    """A state that was looked at."""

    checkpoint: str
    """The id of the checkpoint with that state."""
    order: int
    """What has a higher number is new: twice the number of the newest checkpoint then, and one more with the operations behind it
    (model/turn_records.py, Interval)."""
    at_ns: int
    """When it was marked, in nanoseconds since 1970."""


class ReviewMarks:
    """The marks of one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, worktree: bytes, mark: ReviewMark) -> None:
        """Put a mark in place of the worktree's last one. `worktree`: its key. Raises OSError."""
        json_rows.write_row(self._store, os.path.join(self._place, worktree.hex() + json_rows.END), mark)

    def states(self) -> set[str]:
        """The ids of the checkpoints that are marked."""
        return {mark.checkpoint for mark in self.all()}

    def all(self) -> list[ReviewMark]:
        """The marks of all worktrees, oldest first."""
        return sorted(json_rows.read_rows(self._place, ReviewMark), key=lambda mark: mark.at_ns)
