"""The result of a bisect, as lines and as JSON."""

from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import age_in_words, plural
from ...model.checkpoint import Checkpoint
from ...model.turn_records import Turn
from . import shapes
from .comparison import STAT, Form, comparison_lines
from .restored import name_of, turn_name
from .rows import sides_of
from .text import BOLD, Line, styled

if TYPE_CHECKING:
    from ...change.bisect import FirstBad
    from ...history.compare import Comparison
    from ...history.turn_view import TurnView
    from .shapes import Shape


class SuspectChange(NamedTuple):
    """A step that may be the first bad one: from `old` to `new`. `title`: who made it. `by` and `turns`: see Maker."""

    old: Checkpoint
    new: Checkpoint
    title: str
    by: str
    turns: tuple[Turn, ...]

    @property
    def turn(self) -> Turn | None:
        """The only turn that made it."""
        return self.turns[0] if len(self.turns) == 1 else None


def state_name(view: "TurnView", point: Checkpoint) -> str:
    """A state in words: before or after a turn, else its label or id, and its age."""
    turn = sides_of(view.turns).get(point.id)
    if turn is None:
        name = name_of(point, view.marks[point.id])
        return f"{name} ({age_in_words(point.created_ns)}{'' if point.id in name else f', {point.id}'})"
    return f"{'before' if turn.before == point.id else 'after'} {turn_name(turn)}"


def bisect_lines(found: "FirstBad", changes: Sequence[SuspectChange], compared: "Comparison | None", columns: int) -> Iterator[Line]:
    """The result. `compared`: what the first bad step changed, if it is known."""
    if compared is None:
        yield Line(f"one of these {len(changes)} is the first bad one; the command skipped what lies between:")
        titles = list(dict.fromkeys(change.title for change in reversed(changes)))
        yield from (Line(f"  {title}") for title in titles)
    else:
        yield styled("first bad: ", (changes[0].title, BOLD))
        yield from comparison_lines(compared, Form(STAT), columns)
    yield Line(_what_next(changes))
    yield Line(f"{plural(len(found.runs), 'run')} in {plural(found.states, 'state')}")


def _what_next(changes: Sequence[SuspectChange]) -> str:
    turn = changes[0].turn
    if len(changes) == 1 and turn is not None and not turn.running and not turn.taken_back:
        return f"casrewind revert @{turn.n} takes it back"
    return f"casrewind diff {changes[0].old.id} {changes[-1].new.id} -p shows the change"


def bisect_json(found: "FirstBad", changes: Sequence[SuspectChange]) -> "Shape":
    """bisect --json. `first_bad` is a turn as in list --json. Else `row` says what it is. It is null if the command skipped
    states beside it."""
    first = _first_shape(changes[0]) if len(changes) == 1 else None
    return {
        "first_bad": first,
        "good": found.good.first.id,
        "bad": changes[-1].new.id,
        "runs": [{"checkpoint": run.checkpoint, "exit_code": run.exit_code} for run in found.runs],
        "skipped": [state.first.id for state in found.suspects[:-1]],
    }


def _first_shape(change: SuspectChange) -> "Shape":
    if change.turn is not None:
        return shapes.turn(change.turn)
    seen = {"seen_at": shapes.time_of(change.new.created_ns), "checkpoint": change.new.id}
    return {"row": "turns", "n": [turn.n for turn in change.turns], **seen} if change.turns else {"row": change.by, **seen}
