"""Review: what changed since a person last looked, as rows and as one difference.

The danger prevented here: a change that nobody saw counts as looked at. So the difference is from the state that was looked at to the
files now, whatever was restored, undone or reverted in between. What came after the mark, went, and came again is still new.
"""

from collections.abc import Mapping
from functools import partial

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..model.checkpoint import Checkpoint
from ..model.diff import counted_changes
from ..model.turn_records import Row, Turn
from . import compare
from .compare import Comparison, ScannedWorktree
from .provenance import Makers, Provenance
from .review_mark import find_mark, is_since
from .turn_view import TurnView
from .worktree_timeline import WorktreeTimeline


class Review(NamedTuple):
    """What changed since a person last looked."""

    marked_ns: int | None
    """When that was, in nanoseconds since 1970. None: never."""
    start: Checkpoint
    """The state that was looked at; without one, the oldest checkpoint."""
    rows: tuple[Row, ...]
    """What happened since, newest first."""
    difference: Comparison
    """From that state to the files now."""
    makers: Mapping[bytes, Makers]
    """Who made the difference, by path. Nobody: an operation alone did, or it is unknown."""


def review(context: Context, seen: ScannedWorktree | None = None) -> tuple[Review, TurnView]:
    """What changed since a person last looked, and the view with its rows. `seen`: the files now, if they were read. Raises
    CheckpointNotFound without a checkpoint."""
    with context.store.hold_shared_lock():
        found = find_mark(context)
        start = context.store.oldest(context.root.key) if found is None else found[1]
        if start is None:
            raise errors.CheckpointNotFound("there is no checkpoint here yet", "casrewind save makes one")
        order = 2 * start.seq if found is None else found[0].order
        seen = compare.scan_worktree(context) if seen is None else seen
        view = WorktreeTimeline(context, seen).since(order // 2)
        difference = compare.compare_to_scan(context, start, seen)
        differing = {change.path for change in difference.changes}
        rows = tuple(
            row for row in view.rows(wanted=partial(is_since, view, order))
            if not (isinstance(row, Turn) and 2 * view.points[row.id].seq < order) or _changed_one_of(row, differing)
        )  # fmt: skip
        provenance = Provenance(context, view, order // 2)
        makers = {change.path: provenance.makers_of(change.path, change.new) for change in counted_changes(difference.changes)}
    return Review(None if found is None else found[0].at_ns, start, rows, difference, makers), view


def _changed_one_of(turn: Turn, paths: set[bytes]) -> bool:
    """True if a turn changed one of these paths, or may change them yet."""
    return turn.running or turn.changes is None or any(change.path in paths for change in turn.changes)
