"""The rows of the turn view: what each prompt changed, and what changed outside of a turn.

The danger prevented here: a change is charged to the wrong prompt, to two prompts, or to no prompt. Every step between
two states belongs to the turns that run in it, or to one row outside of a turn. A step over forgotten checkpoints is unknown.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property

from .._typing import NamedTuple
from . import checkpoint as checkpoints
from .composed_changes import ComposedChanges
from .diff import Change, counted_changes
from .subagents import Divide, Subagent, Workers
from .turn_boundaries import Session, TurnPositions, find_boundaries, turns_running_in_each_step
from .turn_records import (
    BACKGROUND,
    EDITED,
    OPERATIONS,
    TYPED,
    UNKNOWN_STEP,
    Differ,
    Difference,
    Forgotten,
    Interval,
    Outside,
    PastOperation,
    Point,
    Reset,
    Reversed,
    Row,
    SavedRow,
    State,
    Turn,
    doubtful_paths,
    row_name,
    with_session,
)
from .undo_history import ABORT, CONTINUE

_ABOVE, _TURN, _BELOW, _LAST = range(4)  # the order of rows that stand at one position


class _Slot(NamedTuple):
    """A row without its changes. The step of the row is from `first` to `last`. `plan`: the plan of an operation.
    `turn`: the index of a turn."""

    row: Row
    first: int = -1
    last: int = -1
    plan: bytes = b""
    turn: int = -1


class Outline:
    """The rows of one worktree in their order, before any comparison. Changes are looked up only for requested rows."""

    def __init__(self, records: Iterable[Point | PastOperation], alive: Collection[Session], *, now: bool = False) -> None:
        """`records`: all checkpoints and operations of one worktree, oldest first. `alive`: see turn_boundaries.find_boundaries.
        `now`: the differ of `rows` can read the worktree."""
        self._now = now
        every = list(records)
        operations: dict[str, list[PastOperation]] = {}
        for record in every:
            if isinstance(record, PastOperation):
                operations.setdefault(record.safety, []).append(record)
        self._points = [with_session(one, operations.get(one.id, ())) for one in every if isinstance(one, Point)]
        self._operations = [operations.get(point.id, []) for point in self._points]
        self._finished_later = {done.target for record in self._operations for done in record if done.op == CONTINUE}
        """The safety checkpoints of operations that were interrupted, and finished behind a later checkpoint."""
        self._boundaries = find_boundaries(self._points, alive)
        turns = self._boundaries.turns
        self._runners = turns_running_in_each_step(turns, len(self._points))
        self._taken_back: dict[int, bytes] = {}
        self.reversed: dict[str, Reversed] = {}
        """{safety checkpoint of an undo or redo: what it reversed}."""
        if operations:
            from .taken_back import find_effects  # a project without a restore does not need it

            opened = [turn.opened for turn in turns]
            self._taken_back, self.reversed = find_effects(self._points, self._operations, opened, self._runners)
        self._workers = self._find_workers()
        self.turns = tuple(self._make_turn(len(turns) - number, turns[number]) for number in reversed(range(len(turns))))
        self._owners: dict[str, Turn] = {}
        self._positions: dict[str, int] = {}
        self._sides = self._known_sides()

    # -- what a caller asks for

    def rows(
        self, differ: Differ, most: int | None = None, wanted: Callable[[Row], bool] | None = None, part: slice = slice(None)
    ) -> Iterator[Row]:
        """Yield the rows, newest first. Stop before the turn that follows `most` turns. `part`: of all rows.

        `wanted` is called with each row before its changes are read. A row that it refuses is not counted or compared.
        """
        count = 0
        for slot in self._all_rows_without_changes[part]:
            if wanted is not None and not wanted(slot.row):
                continue
            if isinstance(slot.row, Turn):
                if count == most:
                    return
                count += 1
                yield self.with_its_changes(slot.row, differ)
            else:
                row = self._with_its_changes(slot, differ)
                if row is not None:
                    yield row

    def count_down_to(self, turns: int, saves: int) -> int:
        """How many rows there are down to this many turns, or down to this many saves by hand if these are more rows."""
        found, left = 0, {Turn: turns, SavedRow: saves}
        for at, slot in enumerate(self._all_rows_without_changes, 1):
            kind = type(slot.row)
            if left.get(kind, 0) > 0:
                left[kind] -= 1
                found = at
        return found

    def with_its_changes(self, turn: Turn, differ: Differ, *, is_so_far: bool = False) -> Turn:
        """A turn with its changes. `is_so_far`: of a turn without an end, those that the newest checkpoint has."""
        positions = self._boundaries.turns[-turn.n]
        if positions.before is None or positions.after is None or (turn.to_now and not (self._now or is_so_far)):
            return turn
        found, newest, index = ComposedChanges(), len(self._points) - is_so_far, len(self.turns) - turn.n
        divide = self._workers[index].divide_for(turn.subagent) if turn.subagent else None
        for span in (self._workers[index].rows[turn.subagent - 1].span,) if turn.subagent else positions.spans:
            self._compose_span_of_turn(span.first, min(span.last, newest), index, differ, found, divide)
            found.end_span()
        turn = found.turn_with_composed_changes(turn, len(self.turns))
        if turn.mixed:
            end = self._state_behind(positions.after) if positions.after < len(self._points) else None
            turn = turn._replace(doubtful=doubtful_paths(turn, differ.stop(end)))
        plan = None if turn.subagent else self._taken_back.get(index)
        if not plan or not turn.changes:
            return turn
        paths = {change.path for change in differ.plan(plan).changes or ()}
        return turn._replace(taken_back=all(change.path in paths for change in counted_changes(turn.changes)))

    def may_be_taken_back(self, turn: Turn) -> bool:
        """True if its changes are needed to know whether a turn is taken back."""
        return not turn.subagent and bool(self._taken_back.get(len(self.turns) - turn.n))

    def turn_of(self, identity: str) -> Turn | None:
        """The turn that a checkpoint belongs to. What is the before of a turn belongs to that turn, and a safety checkpoint at which
        one ended, as after Esc, to that one."""
        if not self._owners:
            safety = {point.id for point in self._points if point.trigger == checkpoints.SAFETY}
            self._owners.update({turn.after: turn for turn in self.turns if turn.after in safety and turn.after is not None})
            for turn in reversed(self.turns):
                self._owners.update(dict.fromkeys(turn.checkpoints, turn))
            self._owners.update({turn.before: turn for turn in self.turns if turn.before is not None})
        return self._owners.get(identity)

    def possible_makers(self, first: str, last: str) -> tuple[tuple[Turn, ...], tuple[PastOperation, ...]]:
        """Returns (the turns, the operations) that may have made the changes between two checkpoints."""
        if not self._positions:
            self._positions.update({point.id: at for at, point in enumerate(self._points)})
        start, end = self._positions[first], self._positions[last]
        numbers = sorted({number for at in range(start + 1, end + 1) for number in self._running_turns(at)})
        places = (at for at in range(start, end) if not self._is_of_agent_of_running_turn(at))
        done = tuple(whole for at in places for done in self._operations[at] for whole in self._whole_operations(done))
        return tuple(self.turns[number - 1] for number in numbers), done

    def background_turn(self, first: str, last: str) -> tuple[Turn, ...]:
        """The turn whose background work lies between two checkpoints that `possible_makers` knows no turn for, or ()."""
        start, end = self._positions[first], self._positions[last]
        found = (slot.row.of for slot in self._background if isinstance(slot.row, Outside) and slot.first <= start and end <= slot.last)
        return tuple(self.turns[number - 1] for number in found)

    @cached_property
    def _background(self) -> list[_Slot]:
        return [slot for slot in self._outside_slots if isinstance(slot.row, Outside) and slot.row.of]

    def _whole_operations(self, done: PastOperation) -> Sequence[PastOperation]:
        """The operation that a record is about: that of an interrupted one, if this is its end."""
        return self._operations[self._positions[done.target]] if done.op == CONTINUE and done.target in self._positions else (done,)

    def intervals(self, differ: Differ) -> Iterator[Interval]:
        """Yield what changed from each known state to the next one, newest first, up to the newest checkpoint and its operations. Where
        something was forgotten, or cannot be read, there is no interval."""
        outside = {at: slot.row for slot in self._outside_slots for at in range(slot.first + 1, slot.last + 1)}
        for at in reversed(range(len(self._points))):
            order = 2 * self._points[at].seq
            own = self._boundaries.own.get(at) if self._is_of_agent_of_running_turn(at) else None
            rows = {slot.plan: slot.row for slot in self._restores_at(at, self._points[at])} if own is None else {}
            for done in () if self._points[at].id in self._finished_later else reversed(self._operations[at]):
                by = () if own is None else (len(self.turns) - own,)
                yield Interval(order + 1, by, rows.get(done.plan), _whole_changes(differ.plan(done.plan)))
            if at == 0 or at in self._boundaries.gaps:
                continue
            found = _whole_changes(self._difference_between(at - 1, at, differ))
            if self._is_step_of_operation(at - 1):
                row = next((slot.row for slot in self._restores_at(at - 1, self._points[at - 1])), None)
                yield Interval(order, (), row, found)
            else:
                yield Interval(order, self._running_turns(at), outside.get(at), found)

    def changes_since_newest(self, differ: Differ) -> tuple[Change, ...]:
        """What changed since the newest checkpoint and its operations. The differ has to be able to read the worktree."""
        newest = len(self._points)
        return _whole_changes(self._difference_between(newest - 1, newest, differ)) if newest else ()

    def newest_state(self) -> State | None:
        """The state behind the newest checkpoint and its operations, None without a checkpoint."""
        return self._state_behind(len(self._points) - 1) if self._points else None

    # -- turns without their changes

    def _find_workers(self) -> dict[int, Workers]:
        """{index of a turn with subagents: who may have worked in it}."""
        ends: dict[str, list[int]] = {}
        for at, point in enumerate(self._points):
            if point.subagent and point.of_subagent:
                ends.setdefault(point.subagent, []).append(at)
        turns = enumerate(self._boundaries.turns)
        having = [(index, one) for index, one in turns if any(self._points[at].subagent for at in one.inside)]
        return {index: Workers(self._points, one, self._boundaries.typed, ends) for index, one in having}

    def _make_turn(self, number: int, positions: TurnPositions) -> Turn:
        points = self._points
        after = positions.after if positions.after is not None and positions.after < len(points) else None
        is_unsaved = self._is_unsaved(positions.before, after)
        turn = Turn(
            n=number,
            id=points[positions.opened].id,
            agent=positions.agent,
            session="" if positions.agent == checkpoints.RUN else positions.session,
            prompt=positions.prompt,
            prompt_id=positions.prompt_id,
            also=positions.also,
            started_ns=None if positions.before is None else points[positions.before].created_ns,
            ended_ns=None if after is None else points[after].created_ns,
            before=None if positions.before is None else points[positions.before].id,
            after=None if after is None else points[after].id,
            to_now=positions.after == len(points),
            running=positions.running,
            cut_short=positions.cut_short,
            end_unseen=positions.end_unseen,
            mixed=positions.mixed or is_unsaved,
            branch=points[positions.opened].branch,
            checkpoints=tuple(points[at].id for at in positions.inside),
            not_saved=is_unsaved,
            taken_back=self._taken_back.get(len(self._boundaries.turns) - number) == b"",
        )
        workers = self._workers.get(len(self._boundaries.turns) - number)
        if workers is None or positions.before is None:  # of a turn without its start nothing is known
            return turn
        return turn._replace(subagents=tuple(self._subagents_of(turn, workers.rows)))

    def _subagents_of(self, turn: Turn, rows: Sequence[Subagent]) -> Iterator[Turn]:
        """The subagents of a turn. One without an end may have worked until the turn's end."""
        for number, one in enumerate(rows, 1):
            begun = self._points[one.begun or 0]
            found = turn._replace(
                subagent=number, id=begun.id, before=begun.id, prompt=one.task, kind=one.kind, also=(), started_ns=begun.created_ns,
                cut_short=one.ended is None and not turn.running, place=one.place, taken_back=False,
            )  # fmt: skip
            if one.ended is not None:
                end = self._points[one.ended]
                found = found._replace(after=end.id, ended_ns=end.created_ns, to_now=False, running=False, mixed=turn.not_saved)
            yield found

    def _is_unsaved(self, before: int | None, after: int | None) -> bool:
        """True if a turn's change has edits of other turns. An event that was not saved has the state of a save that
        began later. So has the save itself, directly in front of it."""
        sides = [at for at in (before, after, None if after is None else after + 1) if at is not None]
        return any(not self._points[at].is_saved for at in sides if at < len(self._points))

    def _known_sides(self) -> dict[str, tuple[int, str]]:
        """{id of a checkpoint: the number of a turn, which side of it the checkpoint is}."""
        afters = {turn.after: (turn.n, "after") for turn in self.turns if turn.after is not None}
        return {**afters, **{turn.before: (turn.n, "before") for turn in self.turns if turn.before is not None}}

    def _running_turns(self, at: int) -> tuple[int, ...]:
        """The numbers of the turns that run in the step to this position, the lowest first."""
        return tuple(sorted(len(self.turns) - one for one in self._runners[at]))

    def _turns_beside(self, at: int) -> tuple[int, ...]:
        """The turns that ran when this checkpoint was made. A turn without an end had stopped at some time before the next checkpoint."""
        running = (self.turns[number - 1] for number in self._running_turns(at))
        return tuple(turn.n for turn in running if not (turn.mixed and turn.after == self._points[at].id))

    # -- the order of all rows

    @cached_property
    def _all_rows_without_changes(self) -> list[_Slot]:
        rows: list[tuple[int, int, _Slot]] = []
        for turn in self.turns:
            opened = len(self.turns) - turn.n
            rows.append((self._boundaries.turns[opened].opened, _TURN, _Slot(turn, turn=opened)))
        for at, point in enumerate(self._points):
            if point.trigger == checkpoints.MANUAL:
                row = SavedRow(point.id, point.label, point.files, point.created_ns, self._turns_beside(at))
                rows.append((at, _ABOVE, _Slot(row)))
            elif point.trigger == checkpoints.SAFETY and not self._is_of_agent_of_running_turn(at):
                rows += ((at, _ABOVE, slot) for slot in self._restores_at(at, point))
        rows += self._outside_edits
        # rows of one position: the newest operation of a safety checkpoint first; it was added last
        order = sorted(enumerate(rows), key=lambda item: (-item[1][0], item[1][1], -item[0]))
        return [slot for _, (_, _, slot) in order]

    def _is_of_agent_of_running_turn(self, at: int) -> bool:
        """True for the safety checkpoint of an operation that the agent of a running turn ran."""
        return at in self._boundaries.own and self._boundaries.own[at] in self._runners[at]

    def _has_no_record(self, at: int) -> bool:
        """True for a safety checkpoint without a record of its operation: the step behind it is the operation's."""
        return self._points[at].trigger == checkpoints.SAFETY and not self._operations[at] and not self._is_of_agent_of_running_turn(at)

    def _is_step_of_operation(self, at: int) -> bool:
        """True if the step behind a position is that of an operation: of one without a record, or of one that was interrupted."""
        return self._has_no_record(at) or self._points[at].id in self._finished_later

    def _restores_at(self, at: int, point: Point) -> Iterator[_Slot]:
        for done in self._operations[at]:
            number, side = self._sides.get(done.target, (0, ""))
            during = self._turns_beside(at)
            if done.op == CONTINUE:  # the row of the operation itself has all of it
                continue
            kind = row_name(done.op, point.op)
            step = self.reversed.get(done.safety, UNKNOWN_STEP)
            row = Reset(kind, done.target, point.id, point.created_ns, during, number, side, loose=False, reversed=step)
            yield _Slot(row, plan=done.plan)
        if self._has_no_record(at):
            begun = point
            if point.op in (ABORT, CONTINUE):  # an end that was interrupted, too: what was done is a part of what it should end
                begun = next((one for one in self._points[:at] if one.id == point.target), point)
            number, side = self._sides.get(begun.target, (0, ""))
            kind = OPERATIONS.get(begun.op, OPERATIONS["restore"])
            during = self._turns_beside(at)
            row = Reset(kind, begun.target, point.id, point.created_ns, during, number, side, loose=True)
            yield _Slot(row, first=at, last=-1 if at + 1 in self._boundaries.gaps else at + 1)

    @cached_property
    def _outside_edits(self) -> list[tuple[int, int, _Slot]]:
        return list(self._find_outside_edits())

    @property
    def _outside_slots(self) -> list[_Slot]:
        return [slot for _, _, slot in self._outside_edits if isinstance(slot.row, Outside)]

    def _find_outside_edits(self) -> Iterator[tuple[int, int, _Slot]]:
        """The steps in which no turn runs, and the positions where something was forgotten."""
        count = len(self._points)
        halves = {turn.opened for turn in self._boundaries.turns if turn.before is None}
        ends = {turn.spans[-1].last + 1 for turn in self._boundaries.turns if turn.after is None}
        first = -1
        if 0 in self._boundaries.gaps:
            yield 0, _LAST, _Slot(Forgotten(self._points[0].id))
        for at in range(1, count + self._now):
            is_free = not self._runners[at]
            is_gap = at in self._boundaries.gaps
            if is_free and is_gap and at not in halves and at not in ends:
                yield at, _LAST, _Slot(Forgotten(self._points[at].id))
            if not is_free or is_gap or at in halves or self._is_step_of_operation(at - 1):
                if first >= 0:  # rows end where a turn starts, except for turns without a start
                    yield at - 1, _BELOW, self._outside_row(first, at - 1)
                first = -1
            elif self._ends_outside_row(at):
                yield at, _BELOW, self._outside_row(at - 1 if first < 0 else first, at)
                first = -1
            elif first < 0:
                first = at - 1

    def _ends_outside_row(self, at: int) -> bool:
        count = len(self._points)
        if at >= count - 1 or at in self._boundaries.typed or at in self._boundaries.opened_again:
            return True
        return self._points[at].trigger in (checkpoints.MANUAL, checkpoints.SAFETY, checkpoints.PROMPT, checkpoints.WATCH)

    def _outside_row(self, first: int, last: int) -> _Slot:
        of = 0
        kind = TYPED if last in self._boundaries.typed else EDITED
        if last in self._boundaries.opened_again:
            kind, of = BACKGROUND, len(self.turns) - self._boundaries.opened_again[last]
        seen = self._points[last] if last < len(self._points) else None
        before = self._checkpoint_of_state_behind(first)
        by = seen.agent if seen is not None and seen.trigger == checkpoints.WATCH else ""
        row = Outside(kind, "" if seen is None else seen.id, None if seen is None else seen.created_ns, of, before=before, by=by)
        return _Slot(row, first=first, last=last)

    # -- changes

    def _state_behind(self, at: int) -> State:
        point = self._points[at]
        plans = () if point.id in self._finished_later else tuple(done.plan for done in self._operations[at])
        return State(point.tree, plans, point.domain, point.trigger == checkpoints.SAFETY)

    def _checkpoint_of_state_behind(self, at: int) -> str:
        """The checkpoint that has the state behind a position, "" = none has."""
        point, done = self._points[at], self._operations[at]
        if done:
            return done[-1].current
        return point.id if point.is_saved else ""

    def _difference_between(self, first: int, last: int, differ: Differ) -> Difference:
        """What differs between the state behind one position and the tree of another one."""
        state = self._state_behind(first)
        if last == len(self._points):
            return differ.between(state, None)
        target = self._state_behind(last)._replace(plans=())
        return Difference(()) if not state.plans and state.tree == target.tree else differ.between(state, target)

    def _with_its_changes(self, slot: _Slot, differ: Differ) -> Row | None:
        """A row that is no turn with its changes; None when it has none and is no row then."""
        row = slot.row
        if isinstance(row, Outside):
            composed = ComposedChanges()
            composed.add(self._difference_between(slot.first, slot.last, differ), ())
            found, purged, damaged = composed.changes_and_doubts()
            row = row._replace(changes=found, purged=purged, damaged=damaged, unclear=composed.unclear)
            is_safety = any(self._points[at].trigger == checkpoints.SAFETY for at in (slot.first, slot.last) if at < len(self._points))
            return row if found or damaged or (row.unclear and not is_safety) else None
        if isinstance(row, Reset) and not row.loose:
            return row._replace(**differ.plan(slot.plan)._asdict())
        if isinstance(row, Reset) and slot.last >= 0 and (slot.last < len(self._points) or self._now):
            step = self._difference_between(slot.first, slot.last, differ)
            return row._replace(**step._asdict()) if step != Difference(()) else None
        return row

    def _compose_span_of_turn(
        self, first: int, last: int, turn: int, differ: Differ, found: ComposedChanges, divide: Divide | None
    ) -> None:
        """Put together what one span of a turn changed. Steps in which it runs alone are compared in one go. `divide`: for a subagent of
        it, what divides each step (subagents.py)."""

        def add(at: int, step: Difference, others: tuple[int, ...]) -> None:
            parts = ((step, others),) if divide is None else divide(at, step, tuple(-1 - one for one in others))
            for part, possible in parts:
                found.add(part, possible)

        start = first
        for at in range(first + 1, last + 1):
            others = tuple(one for one in self._runners[at] if one != turn)
            is_loose = self._is_step_of_operation(at - 1)
            if others or is_loose or divide is not None:
                if start < at - 1:
                    found.add(self._difference_between(start, at - 1, differ), ())
                step = self._difference_between(at - 1, at, differ)
                if is_loose:
                    found.drop_changes(step)
                else:
                    add(at, step, others)
                start = at
            if at < last and self._operations[at]:
                if start < at:
                    found.add(self._difference_between(start, at, differ), ())
                start = at
                is_own = self._boundaries.own.get(at) == turn
                for done in self._operations[at]:
                    plan = differ.plan(done.plan)
                    if is_own:
                        add(at, plan, ())
                    else:
                        found.drop_changes(plan)
        if start < last:
            found.add(self._difference_between(start, last, differ), ())


def _whole_changes(found: Difference) -> tuple[Change, ...]:
    """The changes of a step, none if a part of it cannot be read: a directory that is damaged looks empty."""
    return () if found.damaged else found.changes or ()
