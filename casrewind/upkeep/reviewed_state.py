"""Mark how far a person has looked at what changed, and keep that state from gc."""

import time

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history import compare
from ..history.review import review
from ..messages import printable, store_errors
from ..model.checkpoint import Checkpoint
from ..model.turn_records import Row
from ..store.review_marks import ReviewMark, ReviewMarks
from . import save as saves


class Reviewed(NamedTuple):
    """A state that was marked as looked at."""

    checkpoint: Checkpoint
    """The checkpoint with that state."""
    before: tuple[Row, ...]
    """What was new before, newest first."""
    left: tuple[Row, ...]
    """What is new now."""


def mark_and_review(context: Context, point: Checkpoint | None = None) -> Reviewed:
    """As `mark_reviewed`, with what was new before and what is new now. The files are read once."""
    _raise_unless_here(context, point)
    chosen = saves.save_by_hand(context).checkpoint if point is None else point
    before, view = review(context, compare.worktree_as_saved(context, chosen) if point is None else None)
    _mark(context, chosen, is_now=point is None)
    return Reviewed(chosen, before.rows, review(context, view.seen)[0].rows)


def mark_reviewed(context: Context, point: Checkpoint | None = None) -> Checkpoint:
    """Mark a state of this worktree as looked at; None: the files as they are now, which are saved first. Returns its checkpoint.
    Raises CheckpointNotFound if gc was faster, RootRefused for a state of another worktree, StoreError and others."""
    _raise_unless_here(context, point)
    return _mark(context, saves.save_by_hand(context).checkpoint if point is None else point, is_now=point is None)


def _raise_unless_here(context: Context, point: Checkpoint | None) -> None:
    if point is not None and point.worktree != context.root.key:
        raise errors.RootRefused(f"{point.id} is a state of {printable(point.root)}: what was looked at is marked there")


def _mark(context: Context, chosen: Checkpoint, *, is_now: bool) -> Checkpoint:
    """Mark a state. `is_now`: it has the files as they are now, so what was restored before is looked at, too."""
    with context.store.hold_shared_lock():  # from here on gc sees the mark
        newest = context.store.head(context.root.key)
        if newest is None or context.store.checkpoint(chosen.id) is None:
            raise errors.CheckpointNotFound(f"checkpoint {chosen.id} was forgotten by gc just now", "run it again")
        mark = ReviewMark(chosen.id, 2 * newest.seq + 1 if is_now else 2 * chosen.seq, time.time_ns())
        with store_errors("writing to", context.store.path):
            ReviewMarks(context.store.path).record(context.root.key, mark)
    return chosen
