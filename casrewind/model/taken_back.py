"""Which turns are taken back: a restore to an earlier state, or a revert, removed their change. And what an undo reversed: a list
says both in one row.

The danger prevented here: a list in which a turn's change seems to be in the files, though a restore took it out. Only
what the records prove counts. A restore that kept edits, or of some paths, takes a turn back if its plan has all that the turn changed.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from .._typing import NamedTuple
from .manifest import same_for_restore
from .turn_records import OPERATIONS, LookedAt, PastOperation, Point, Reset, Reversed, Row
from .undo_history import ABORT, CONTINUE, REDO, RESTORE, REVERT, TAKE, UNDO

_REVERSES = frozenset({OPERATIONS[UNDO], OPERATIONS[REDO]})
_NAMED_PAIRS = 2
"""Undone operations behind each other that a list names."""
_Taken = frozenset[tuple[int, bytes]]
"""Turns by their index, the oldest is 0. Each with the plan that may have taken all of it back, b"" = a restore did."""


class _Done(NamedTuple):
    """An operation that an undo can reverse: its target and its safety checkpoint, that of the restore or revert in the beginning, and
    what it took back or brought again."""

    target: str
    safety: str
    origin: str
    taken: _Taken
    again: _Taken


class Effects(NamedTuple):
    """What the operations of a worktree did. `taken_back`: {index of a turn that is taken back: b"", or the plan that may have taken
    all of it back}. `reversed`: {safety checkpoint of an undo or redo: what it reversed}."""

    taken_back: dict[int, bytes]
    reversed: dict[str, Reversed]


def find_effects(
    points: Sequence[Point], operations: Sequence[Sequence[PastOperation]], opened: Sequence[int], runners: Sequence[Collection[int]]
) -> Effects:
    """`operations`: those behind each point. `opened`: the position where each turn was opened. `runners`: the turns that
    run in the step to each position. A turn that goes on behind a restore is not taken back by it.
    """
    positions = {point.id: at for at, point in enumerate(points)}
    turns = {points[at].id: index for index, at in enumerate(opened)}
    states: list[_Taken] = []  # what was taken back at each point
    taken: _Taken = frozenset()
    done: list[_Done] = []
    undone: list[_Done] = []
    reversed_by: dict[str, Reversed] = {}
    for at, point in enumerate(points):
        states.append(taken)
        for operation in operations[at]:
            if operation.op in (ABORT, CONTINUE):  # ends of an operation that has a record of its own, or no effect
                continue
            before = taken
            if operation.op == RESTORE and point.op == REVERT:
                index = turns.get(operation.target)
                taken |= frozenset() if index is None else {(index, operation.plan)}
            elif operation.op == RESTORE and point.op != TAKE and operation.target in positions:
                start = positions[operation.target]
                going_on = set(runners[at]).intersection(runners[at + 1]) if at + 1 < len(runners) else set()
                later = [index for index, place in enumerate(opened) if start <= place <= at and index not in going_on]
                if operation.current:
                    taken = states[start].union((index, b"") for index in later)
                else:  # of the turns that its target has, some of the change may be there again
                    sure = frozenset(one for one in taken if one in states[start] or opened[one[0]] >= start)
                    taken = sure.union((index, operation.plan) for index in later)
            step, other = (done, undone) if operation.op == UNDO else (undone, done)
            if operation.op in (UNDO, REDO):
                if step and step[-1].target == operation.target:
                    last = step.pop()
                    reversed_by[operation.safety] = Reversed(last.safety, last.origin)
                    other.append(last._replace(safety=operation.safety, taken=last.again, again=last.taken))
                    taken = taken - last.taken | last.again
                continue
            done.append(_Done(operation.target, operation.safety, operation.safety, taken - before, before - taken))
            undone.clear()
    return Effects(dict(sorted(taken, reverse=True)), reversed_by)


class UndonePair(NamedTuple):
    """An operation and the undo that took all of it back, or an undo and its redo, with nothing between them: a list has one row for
    both."""

    done: Reset

    @property
    def safety(self) -> str:
        """The safety checkpoint of the operation."""
        return self.done.safety

    @property
    def ending(self) -> str:
        """What every list says behind the title of the operation."""
        return f" ({'redone' if self.done.kind == OPERATIONS[UNDO] else 'undone'})"


class FoldedPairs(NamedTuple):
    """How many older pairs have no row of their own."""

    number: int


ListRow = Row | LookedAt | UndonePair | FoldedPairs


def fold_undone(rows: Iterable[Row | LookedAt], *, is_oldest_first: bool = False) -> Iterator[ListRow]:
    """The rows of `pair_undone`. Of pairs behind each other, the newest two have rows."""
    if is_oldest_first:
        yield from reversed([*fold_undone(reversed([*rows]))])
        return
    pairs = 0  # behind each other
    for row in pair_undone(rows):
        if isinstance(row, UndonePair):
            pairs += 1
            if pairs <= _NAMED_PAIRS:
                yield row
            continue
        if pairs > _NAMED_PAIRS:
            yield FoldedPairs(pairs - _NAMED_PAIRS)
        pairs = 0
        yield row
    if pairs > _NAMED_PAIRS:
        yield FoldedPairs(pairs - _NAMED_PAIRS)


def pair_undone(rows: Iterable[Row | LookedAt]) -> Iterator[Row | LookedAt | UndonePair]:
    """The rows with one for an operation and its undo, or an undo and its redo."""
    waiting: list[Reset | UndonePair] = []  # undos and redos whose operation is still to come, and the pairs between
    for row in rows:
        undo = next((one for one in reversed(waiting) if isinstance(one, Reset)), None)
        if isinstance(row, Reset) and undo is not None and undo.reversed.operation == row.safety and _cancels(undo, row):
            waiting.remove(undo)
            waiting.append(UndonePair(row))
        elif isinstance(row, Reset) and row.kind in _REVERSES and row.reversed.operation:
            waiting.append(row)
        else:
            yield from waiting
            yield row
            waiting.clear()
        if not any(isinstance(one, Reset) for one in waiting):
            yield from waiting
            waiting.clear()
    yield from waiting


def _cancels(undo: Reset, done: Reset) -> bool:
    """True if an undo or redo took back all that an operation changed."""
    if undo.changes is None or done.changes is None or undo.damaged or done.damaged:
        return False
    back = {change.path: change for change in undo.changes}
    return len(back) == len(done.changes) and all(
        (other := back.get(change.path)) is not None and same_for_restore(change.old, other.new) and same_for_restore(change.new, other.old)
        for change in done.changes
    )
