"""Mark how far a person has looked at what changed, and keep that state from gc."""

import time

from .. import errors
from ..context import Context
from ..messages import printable, store_errors
from ..model.checkpoint import Checkpoint
from ..store.review_marks import ReviewMark, ReviewMarks
from . import save as saves


def mark_reviewed(context: Context, point: Checkpoint | None = None) -> Checkpoint:
    """Mark a state of this worktree as looked at; None: the files as they are now, which are saved first. Returns its checkpoint.
    Raises CheckpointNotFound if gc was faster, RootRefused for a state of another worktree, StoreError and others."""
    if point is not None and point.worktree != context.root.key:
        raise errors.RootRefused(f"{point.id} is a state of {printable(point.root)}: what was looked at is marked there")
    chosen = saves.save_by_hand(context).checkpoint if point is None else point
    with context.store.hold_shared_lock():  # from here on gc sees the mark
        newest = context.store.head(context.root.key)
        if newest is None or context.store.checkpoint(chosen.id) is None:
            raise errors.CheckpointNotFound(f"checkpoint {chosen.id} was forgotten by gc just now", "run it again")
        mark = ReviewMark(chosen.id, 2 * newest.seq + 1 if point is None else 2 * chosen.seq, time.time_ns())
        with store_errors("writing to", context.store.path):
            ReviewMarks(context.store.path).record(context.root.key, mark)
    return chosen
