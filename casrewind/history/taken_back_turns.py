"""The turns that a rewind without a number skips, because they are taken back already.

The danger prevented here: a person goes back three turns, and types `back` once more. To before the newest turn is forward then:
what had just come back would be removed again.
"""

from collections.abc import Sequence

from .. import errors
from ..messages import enumerated
from ..model.checkpoint import Checkpoint
from .turn_view import TurnView


class AllTakenBack(errors.AgentError):
    """All turns of a conversation are taken back already."""

    def __init__(self, conversation: str) -> None:
        """`conversation`: in words."""
        super().__init__(f"all prompts of {conversation} are taken back already; nothing was changed", "casrewind list shows the turns")


def newest_not_taken_back(
    view: TurnView, points: Sequence[Checkpoint | None], opening: Sequence[int], conversation: str
) -> tuple[int, tuple[int, ...]]:
    """Returns (the index of the newest prompt whose turn is not taken back, the numbers of the turns above it). `points`: the
    checkpoints of the prompts, `opening`: the indices of those that opened a turn. Raises AllTakenBack."""
    skipped: list[int] = []
    for index in reversed(opening):
        point = points[index]
        turn = None if point is None else view.turn_of(point.id)
        if turn is None or not view.with_changes(turn).taken_back:
            return index, tuple(skipped)
        skipped.append(turn.n)
    raise AllTakenBack(conversation)


def taken_back_error(turn: int) -> errors.AgentError:
    """The error for a turn that is taken back already."""
    return errors.AgentError(f"@{turn} is taken back already; nothing was changed", "casrewind list shows which turns are not")


def skipped_in_words(skipped: Sequence[int], turn: int) -> str:
    """The turns above `turn` that were skipped; "" = none. `turn` 0: it is not in the list."""
    if not skipped:
        return ""
    is_row = len(skipped) > 2 and tuple(skipped) == tuple(range(skipped[0], skipped[0] + len(skipped)))
    names = f"@{skipped[0]}..@{skipped[-1]}" if is_row else enumerated([f"@{number}" for number in skipped])
    newest = f"@{turn}" if turn else "not in the list"
    return f"{names} {'is' if len(skipped) == 1 else 'are'} taken back already; the newest that is not is {newest}"
