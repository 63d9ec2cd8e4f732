"""Which subagent of a turn made a change, or may have made it. The client's events that begin and end them decide.

The danger prevented here: the work of one subagent is taken back with another's, or with that of the agent that started them. A change
is of one alone if no other one can have worked at the time, or if only its tools named the path as written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from .._typing import NamedTuple
from .diff import Change
from .manifest import Entry, is_directory, same_for_restore
from .paths import parents
from .turn_boundaries import Span, TurnPositions
from .turn_records import Difference, Point

ITSELF = 0
"""In place of a subagent's number: the agent of the turn, which started them."""
_IN_TIME_NS = 5_000_000_000
"""A start that was recorded later than this after it happened: the client has not waited, and the subagent worked already."""


Divide = Callable[[int, Difference, tuple[int, ...]], Iterator[tuple[Difference, tuple[int, ...]]]]
"""Divides a step for a subagent: (its position, what changed, the other turns that ran, below 0) -> the parts that the subagent made, or
may have made, each with the others that may have made it instead."""


class Subagent(NamedTuple):
    """A subagent of a turn, as positions in the list of points. `task`: what it was started for, `kind`: its type.

    `begun` and `ended` are its events, None = not seen. It may have worked
    in the steps of `span`, also behind the turn. `place`: the worktree of its own in which it works, "" = it works here. `written`: the
    paths that its tools named as written; `above`: the directories above them."""

    task: str
    kind: str
    place: str
    begun: int | None
    ended: int | None
    span: Span
    written: frozenset[bytes]
    above: frozenset[bytes]

    def has_named(self, change: Change) -> bool:
        """True if its tools named the path of a change, or one in the directory that this is."""
        return change.path in (self.above if is_directory(change.new or change.old) else self.written)


class Workers:
    """Who may have worked in each step of a turn. A subagent has its place in `rows` as its number, counted from 1."""

    def __init__(self, points: Sequence[Point], turn: TurnPositions, typed: frozenset[int], ends: Mapping[str, Sequence[int]]) -> None:
        """`typed`: the positions of turn ends without a prompt, at which the agent may have worked, too. `ends`: those of the ends of each
        subagent, by its id."""
        self._points, self._turn = points, turn
        mine = (turn.agent, turn.session)
        self._ends = sorted({*turn.own_ends, *(at for at in typed if (points[at].agent, points[at].session) == mine)})
        self._woken = [at for at in turn.inside if points[at].is_notification]
        every = list(_find_subagents(points, turn, ends))
        self.rows = [one for one in every if one.begun is not None]
        self._unseen = [one.span for one in every if one.begun is None]

    def in_step(self, at: int, turns: tuple[int, ...] = ()) -> frozenset[int]:
        """The numbers of those who may have worked in the step to a position, with `turns`, other turns that ran. Where none ran, ITSELF
        stands for whoever it was."""
        found = {*turns, *(number for number, one in enumerate(self.rows, 1) if _is_in(one.span, at))}
        span = next((one for one in self._turn.spans if _is_in(one, at)), None)
        is_itself = not turns if span is None else self._works_itself(at, span) or any(_is_in(one, at) for one in self._unseen)
        return frozenset(found | {ITSELF} if is_itself else found)

    def _works_itself(self, at: int, span: Span) -> bool:
        """True if the agent of the turn may have worked in a step of a span: until it ends, again from the news of a subagent's end
        to its answer, and in a shell that it left."""
        woken = [one for one in self._woken if _is_in(span, one)]
        first, last = max([span.first, *(one for one in woken if one < at)]), min([span.last, *(one for one in woken if one >= at)])
        ends = [end for end in self._ends if first < end <= last]
        if not ends or at <= ends[-1] or not (ends[-1] < len(self._points) and self._points[ends[-1]].is_saved):
            return True
        told = [one for one in self._turn.inside if one < at and self._points[one].trigger == "turn_end"]
        return bool(told) and self._points[told[-1]].tasks > 0

    def divide_for(self, number: int) -> Divide:
        """What divides the steps of a subagent, to be called for them in their order."""
        known: dict[bytes, Entry | None] = {}
        others_at: dict[bytes, frozenset[int]] = {}

        def divide(at: int, step: Difference, turns: tuple[int, ...]) -> Iterator[tuple[Difference, tuple[int, ...]]]:
            parts: dict[tuple[int, ...], list[Change]] = {}
            workers = self.in_step(at, turns)
            for change in step.changes or ():
                makers = self._makers_of(change, workers)
                if number not in makers:
                    others_at[change.path] = makers
                    continue
                others = makers - {number}
                if change.path in known and not same_for_restore(known[change.path], change.old):
                    others |= others_at.get(change.path, frozenset({ITSELF}))  # it was changed in between
                known[change.path] = change.new
                parts.setdefault(tuple(sorted(others)), []).append(change)
            if step.changes is None or step.damaged or step.unclear:
                yield step._replace(changes=None if step.changes is None else ()), ()
            for others_of_part, changes in parts.items():
                yield Difference(tuple(changes)), others_of_part

        return divide

    def _makers_of(self, change: Change, workers: frozenset[int]) -> frozenset[int]:
        """Those among the workers of a step that may have made a change: the ones that named the path, else all."""
        named = frozenset(number for number in workers if number > ITSELF and self.rows[number - 1].has_named(change))
        return named or frozenset(number for number in workers if number <= ITSELF or not self.rows[number - 1].place)


def _find_subagents(points: Sequence[Point], turn: TurnPositions, ends: Mapping[str, Sequence[int]]) -> Iterator[Subagent]:
    """The subagents of a turn, in the order of their first events. One that is continued is the same. One that works on when the turn is
    over, as after Esc, ends with the session's turn of then."""
    events: dict[str, list[int]] = {}
    for at in turn.inside:
        if points[at].subagent:
            events.setdefault(points[at].subagent, []).append(at)
    for identity, places in events.items():
        starts = [at for at in places if not points[at].of_subagent]
        closing = [at for at in ends.get(identity, ()) if at > starts[-1]][:1] if starts else places[-1:]
        begun, ended = starts[0] if starts else None, closing[0] if closing else None
        is_in_time = begun is not None and points[begun].is_saved and points[begun].created_ns - points[begun].at_ns < _IN_TIME_NS
        first = begun if begun is not None and is_in_time else turn.spans[0].first
        end = ended if ended is not None and points[ended].is_saved else turn.spans[-1].last
        written = frozenset(path for at in (*places, *closing) for path in points[at].written)
        one = points[places[0]]
        above = frozenset(place for path in written for place in parents(path))
        task = next((points[at].subagent_task for at in (*places, *closing) if points[at].subagent_task), "")
        yield Subagent(task, one.subagent_type, one.subagent_root, begun, ended, Span(first, max(first, end)), written, above)


def _is_in(span: Span, at: int) -> bool:
    """True if the step to a position is in a span."""
    return span.first < at <= span.last
