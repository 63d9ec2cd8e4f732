"""How far a person has looked: the mark of a worktree, and its place among the rows of a list."""

from collections.abc import Callable, Iterable, Iterator

from .._typing import TYPE_CHECKING
from ..context import Context
from ..model.checkpoint import Checkpoint
from ..model.turn_records import LookedAt, Reset, Row, Turn
from ..store.review_marks import ReviewMark, ReviewMarks

if TYPE_CHECKING:
    from .turn_view import TurnView


def find_mark(context: Context) -> tuple[ReviewMark, Checkpoint] | None:
    """The mark of the worktree, with its state. A worktree that was moved keeps its mark, because its checkpoints moved with it."""
    for mark in reversed(ReviewMarks(context.store.path).all()):
        point = context.store.checkpoint(mark.checkpoint)
        if point is not None and point.worktree == context.root.key:
            return mark, point
    return None


def is_since(view: "TurnView", order: int, row: Row) -> bool:
    """True if a row, or its end, is new. `order`: that of the mark."""
    end_of_turn = (row.after or ("" if row.to_now else row.id)) if isinstance(row, Turn) else ""
    end = end_of_turn if isinstance(row, Turn) else row.safety if isinstance(row, Reset) else row.checkpoint
    return not end or 2 * view.points[end].seq + isinstance(row, Reset) > order


def rows_with_mark(
    context: Context, rows: Iterable[Row], view: "Callable[[], TurnView]", *, is_oldest_first: bool = False
) -> Iterator[Row | LookedAt]:
    """The rows, with one between what is new and what was looked at. `view`: that of the row which was read last."""
    found = find_mark(context)
    for row in rows:
        if found is not None and is_since(view(), found[0].order, row) == is_oldest_first:
            yield LookedAt(found[0].at_ns, found[0].order // 2)
            found = None
        yield row
    if found is not None and is_oldest_first:
        yield LookedAt(found[0].at_ns, found[0].order // 2)
