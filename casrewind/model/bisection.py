"""Finds the first bad state: which states are looked at, which one is next, and what is known then.

The danger prevented here: a turn that was taken back gets the blame. What lies between two equal states did not lead to the
newest one, so no candidate is there.
"""

from collections.abc import Iterable

from .._typing import NamedTuple
from .checkpoint import Checkpoint


class Candidate(NamedTuple):
    """A state that is looked at. `first`: the checkpoint in which it came up; `last`: the newest one that has it."""

    first: Checkpoint
    last: Checkpoint


def candidate_states(points: Iterable[Checkpoint]) -> list[Candidate]:
    """The states on the way to the newest checkpoint, one for each tree. `points`: oldest first."""
    found: list[Candidate] = []
    places: dict[bytes, int] = {}
    for point in points:
        at = places.setdefault(point.tree, len(found))
        if at == len(found):
            found.append(Candidate(point, point))
            continue
        for left in found[at + 1 :]:
            del places[left.first.tree]
        del found[at + 1 :]
        found[at] = found[at]._replace(last=point)
    return found


class Bisection:
    """The search among `count` states: the first one is good, the last one is bad."""

    def __init__(self, count: int) -> None:
        """`count` is 2 or more."""
        self.good, self.bad = 0, count - 1
        self._skipped: set[int] = set()

    @property
    def suspects(self) -> range:
        """The positions of the states that may be the first bad one."""
        return range(self.good + 1, self.bad + 1)

    @property
    def most_left(self) -> int:
        """How many states must still be looked at, at most, if none of them is skipped."""
        return (self.bad - self.good - 1).bit_length()

    def next_position(self) -> int | None:
        """The position of the state to look at, None if no other one can tell more."""
        left = [at for at in range(self.good + 1, self.bad) if at not in self._skipped]
        wanted = self.good + (self.bad - self.good) * _fraction_to_try_next(self.bad - self.good - 1 - len(left))
        return min(left, key=lambda at: (abs(at - wanted), at), default=None)

    def record(self, at: int, *, is_good: bool | None) -> None:
        """Note what a state is; None if that cannot be told."""
        if is_good is None:
            self._skipped.add(at)
        elif is_good:
            self.good = at
        else:
            self.bad = at


def _fraction_to_try_next(number: int) -> float:
    """1/2, 1/4, 3/4, 1/8, ...: the places to try one after the other, so that skipped neighbours are left soon."""
    found, part = 0.0, 0.5
    number += 1
    while number:
        found += part * (number & 1)
        number >>= 1
        part /= 2
    return found
