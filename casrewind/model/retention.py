"""Retention: which checkpoints may be forgotten, decided from values alone.

The danger prevented here: a clock that is wrong takes everybody's undo away. Sequence numbers order checkpoints; the
clock only tells ages, and it is believed only as far as the newest checkpoint agrees with it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from . import checkpoint as checkpoints
from .checkpoint import Checkpoint

_SECOND = 1_000_000_000
_SLACK = 3600.0
"""Seconds that clocks of several machines may differ."""
_QUIET = 86400.0
"""Seconds without a checkpoint after which a clock that makes all of them too old is doubted."""


class Limits(NamedTuple):
    """What may stay: `max_age` in seconds and `max_count` checkpoints of each worktree; None = no such limit. Pins, labels,
    what undo and redo have need of, and the newest of each worktree stay whatever the limits say.

    The newest `keep_last` of each worktree, safety ones not counted, are never forgotten for their age.
    """

    max_age: float | None
    max_count: int | None
    keep_last: int = 1


class Dropped(NamedTuple):
    """A checkpoint that goes, and why."""

    checkpoint: Checkpoint
    reason: str


class Decision(NamedTuple):
    """What stays and what goes, newest first; `notes` say what was decided otherwise than asked."""

    kept: tuple[Checkpoint, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]


def decide(
    points: Sequence[Checkpoint], limits: Limits, now_ns: int, named: frozenset[str], needed: Mapping[str, str]
) -> Decision:
    """Which of `points` (newest first, of all worktrees) go.

    `named` are the ids of those that a person pinned or labelled, `needed` maps ids to what has need of them: both stay.
    So do the newest of each worktree, and its newest safety checkpoint when nothing was saved since.
    """
    limits, notes = _doubt(points, limits, now_ns)
    seen: dict[bytes, int] = {}
    first: set[bytes] = set()
    full: set[bytes] = set()
    kept: list[Checkpoint] = []
    dropped: list[Dropped] = []
    for point in points:
        newest = point.worktree not in first
        first.add(point.worktree)
        safety = point.trigger == checkpoints.SAFETY
        rank = seen.get(point.worktree, 0) + (not safety)
        seen[point.worktree] = rank
        reason = _reason(point, limits, now_ns, rank, full=point.worktree in full)
        if newest or (not safety and rank == 1) or point.id in named or point.id in needed:
            reason = ""
        if reason:
            dropped.append(Dropped(point, reason))
        else:
            kept.append(point)
        if not safety and limits.max_count is not None and rank >= limits.max_count:
            full.add(point.worktree)
    return Decision(tuple(kept), tuple(dropped), notes)


def _reason(point: Checkpoint, limits: Limits, now_ns: int, rank: int, *, full: bool) -> str:
    """Why a checkpoint may go; "" = it may not. `rank` counts its worktree's, 1 = newest; `full` = enough came before."""
    if full:
        return f"more than {limits.max_count} newer ones"
    spared = rank <= limits.keep_last and point.trigger != checkpoints.SAFETY  # else they pile up where nobody saves
    if limits.max_age is not None and not spared and _age(point, now_ns) > limits.max_age:
        return f"older than {_days(limits.max_age)}"
    return ""


def _age(point: Checkpoint, now_ns: int) -> float:
    """Seconds since a checkpoint was made."""
    return (now_ns - point.created_ns) / _SECOND


def _doubt(points: Sequence[Checkpoint], limits: Limits, now_ns: int) -> tuple[Limits, tuple[str, ...]]:
    """The limits without that on age when the clock contradicts the newest checkpoint."""
    if not points or limits.max_age is None:
        return limits, ()
    age = min(_age(point, now_ns) for point in points)
    note = ""
    if age < -_SLACK:
        note = (
            f"a checkpoint was made {_days(-age)} in the future: is the clock right? Nothing is forgotten for its age"
        )
    elif age > max(limits.max_age, _QUIET):
        note = (
            f"the newest checkpoint is {_days(age)} old: either nothing was saved since, or the clock is wrong. Nothing "
            f"is forgotten for its age; casrewind save makes a new one to count from"
        )
    return (limits._replace(max_age=None), (note,)) if note else (limits, ())


def _days(seconds: float) -> str:
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.0f} days"
    return f"{seconds / 3600:.0f} hours" if seconds >= 7200 else f"{seconds:.0f} s"
