"""How many files a restore to before a turn would change, for each turn of a list. The worktree is scanned once for all of them."""

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..model.diff import count
from ..model.turn_records import Turn
from . import compare, lookup


class CountedPaths(NamedTuple):
    """Paths that a restore would write, and those that it would remove."""

    written: int
    removed: int


class ChangesBack:
    """Counts the changes from the files of now to the state before a turn."""

    def __init__(self, context: Context, seen: compare.ScannedWorktree | None = None) -> None:
        """`seen`: the worktree as it was scanned just now; None = scan it."""
        self._context = context
        self._seen = compare.scan_worktree(context) if seen is None else seen

    def count(self, turn: Turn) -> CountedPaths | None:
        """What a restore to before a turn would change; None if that state is not here, or cannot be read."""
        try:
            point = lookup.checkpoint(self._context, turn.before or "")
            counts = count(compare.compare_to_checkpoint(self._context, self._seen, point).changes)
        except errors.CasrewindError:
            return None
        return CountedPaths(counts.added + counts.modified, counts.removed)
