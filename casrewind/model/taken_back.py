"""Which turns are taken back: a restore to an earlier state, or a revert, removed their change.

The danger prevented here: a list in which a turn's change seems to be in the files, though a restore took it out. Only
what the records prove counts: a restore of some paths takes no turn back, and neither does one that left a path alone.
"""

from collections.abc import Collection, Sequence

from .._typing import NamedTuple
from .history import ABORT, CONTINUE, REDO, RESTORE, REVERT, UNDO
from .turn_records import PastOperation, Point

_Taken = frozenset[tuple[int, bytes]]
"""Turns by their index, the oldest is 0. Each with the plan of the revert that took it back, b"" = a restore did."""


class _Done(NamedTuple):
    """An operation that an undo can reverse: its target, and what it took back or brought again."""

    target: str
    taken: _Taken
    again: _Taken


def find_taken_back(
    points: Sequence[Point], operations: Sequence[Sequence[PastOperation]], opened: Sequence[int], runners: Sequence[Collection[int]]
) -> dict[int, bytes]:
    """{index of a turn that is taken back: b"", or the plan of the revert that may have taken all of it back}.

    `operations`: those behind each point. `opened`: the position where each turn was opened. `runners`: the turns that
    run in the step to each position. A turn that goes on behind a restore is not taken back by it.
    """
    positions = {point.id: at for at, point in enumerate(points)}
    turns = {points[at].id: index for index, at in enumerate(opened)}
    states: list[_Taken] = []  # what was taken back at each point
    taken: _Taken = frozenset()
    done: list[_Done] = []
    undone: list[_Done] = []
    for at, point in enumerate(points):
        states.append(taken)
        for operation in operations[at]:
            if operation.op in (ABORT, CONTINUE):  # ends of an operation that has a record of its own, or no effect
                continue
            before = taken
            if operation.op == RESTORE and point.op == REVERT:
                index = turns.get(operation.target)
                taken |= frozenset() if index is None else {(index, operation.plan)}
            elif operation.op == RESTORE and operation.current and operation.target in positions:
                start = positions[operation.target]
                going_on = set(runners[at]).intersection(runners[at + 1]) if at + 1 < len(runners) else set()
                later = (index for index, place in enumerate(opened) if start <= place <= at and index not in going_on)
                taken = states[start].union((index, b"") for index in later)
            step, other = (done, undone) if operation.op == UNDO else (undone, done)
            if operation.op in (UNDO, REDO):
                if step and step[-1].target == operation.target:
                    last = step.pop()
                    other.append(last._replace(taken=last.again, again=last.taken))
                    taken = taken - last.taken | last.again
                continue
            done.append(_Done(operation.target, taken - before, before - taken))
            undone.clear()
    return dict(sorted(taken, reverse=True))
