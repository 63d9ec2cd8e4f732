"""Retention: which checkpoints may be forgotten, decided from values alone.

The danger prevented here: a clock that is wrong takes everybody's undo away. Sequence numbers order checkpoints; the
clock only tells ages, and it is believed only as far as the newest checkpoint agrees with it. A budget that was mistyped
takes nothing: it is applied only where what has to stay leaves room for it.
"""

from collections.abc import Collection, Mapping, Sequence

from .._typing import NamedTuple
from . import checkpoint as checkpoints
from .checkpoint import Checkpoint

_SECOND = 1_000_000_000
_SLACK = 3600.0
"""Seconds that clocks of several machines may differ."""
_QUIET = 86400.0
"""Seconds without a checkpoint after which a clock that makes all of them too old is doubted."""
FLOOR = 10
"""Checkpoints of each worktree that the budget takes only when no older ones of any worktree are left."""
_DAY, _HOUR, _WEEK = 86400, 3600, 7 * 86400


class Limits(NamedTuple):
    """What may stay: `max_age` in seconds and `max_count` checkpoints of each worktree; `max_size` in bytes of the whole
    store on disk; None = no such limit. Pins, labels, what undo and redo have need of, the newest of each live session and
    the newest of each worktree stay whatever the limits say.

    The newest `keep_last` of each worktree, safety ones not counted, are never forgotten for their age. With `thin`, of those
    older than a day the newest of each hour stays, of those older than a week the newest of each day.
    """

    max_age: float | None
    max_count: int | None
    keep_last: int = 1
    max_size: int | None = None
    thin: bool = False


class Dropped(NamedTuple):
    """A checkpoint that goes, and why."""

    checkpoint: Checkpoint
    reason: str


class Decision(NamedTuple):
    """What stays and what goes, newest first; `notes` say what was decided otherwise than asked. Of what stays, no limit
    takes what is in `firm` (ids of what something has need of) and in `pinned` (ids of what a person wants kept). `floor`:
    bytes that a budget could not be kept to, because so many are firm and pinned; 0 = it is kept. `together`: as `decide` was given."""

    kept: tuple[Checkpoint, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    firm: frozenset[str] = frozenset()
    pinned: frozenset[str] = frozenset()
    floor: int = 0
    together: tuple[frozenset[str], ...] = ()


def decide(
    points: Sequence[Checkpoint],
    limits: Limits,
    now_ns: int,
    named: frozenset[str],
    needed: Mapping[str, str],
    together: Sequence[frozenset[str]] = (),
) -> Decision:
    """Which of `points` (newest first, of all worktrees) go, whatever they weigh: `fit` looks at that.

    `named` are the ids of those that a person pinned or labelled, `needed` maps ids to what has need of them: both stay.
    So do the newest of each worktree, and its newest safety checkpoint when nothing was saved since. The ids in each set of
    `together` stay or go as one, and count as one: as the newest of them. One that is in two sets stays when either does.
    """
    limits, notes = _without_doubtful_age(points, limits, now_ns)
    last_ns = min(now_ns, max((point.created_ns for point in points), default=now_ns))
    firm: set[str] = set()
    seen: dict[bytes, int] = {}
    first: set[bytes] = set()
    slots: set[tuple[bytes, bool, int, int]] = set()
    kept: list[Checkpoint] = []
    dropped: list[Dropped] = []
    fates = _Fates(together)
    for point in points:
        newest = point.worktree not in first
        first.add(point.worktree)
        safety = point.trigger == checkpoints.SAFETY
        rank = seen.get(point.worktree, 0) + (not safety)
        is_counted = fates.is_open(point.id)
        if newest or (not safety and rank == 1) or point.id in needed:
            firm.add(point.id)
        reason = ""
        if is_counted:
            reason = _reason(point, limits, now_ns, rank)
            thinned = _thinned(point, last_ns, slots) if limits.thin and not reason else ""
            if thinned and (safety or rank > limits.keep_last):
                reason, rank = thinned, rank - (not safety)  # what stands for a whole hour counts as one
            seen[point.worktree] = rank
        reason = fates.of(point.id, reason)
        if reason and point.id not in firm and point.id not in named:
            dropped.append(Dropped(point, reason))
        else:
            kept.append(point)
    pinned = frozenset(point.id for point in kept if point.id in named and point.id not in firm)
    return Decision(tuple(kept), tuple(dropped), notes, frozenset(firm), pinned, together=tuple(together))


class _Fates:
    """What was decided of sets of checkpoints that stay or go as one. Each is decided with the newest one of it."""

    def __init__(self, together: Sequence[frozenset[str]]) -> None:
        self._sets = _sets_of(together)
        self._reasons: dict[int, str] = {}  # why a set goes, "" = it stays

    def is_open(self, identity: str) -> bool:
        """True when something is to be decided: the checkpoint is in no set, or in one that was not decided yet."""
        mine = self._sets.get(identity, ())
        return not mine or any(one not in self._reasons for one in mine)

    def of(self, identity: str, reason: str) -> str:
        """Why a checkpoint goes, "" when it stays. `reason`: what was decided of it now, if anything was."""
        mine = self._sets.get(identity, ())
        for one in mine:
            self._reasons.setdefault(one, reason)
        reasons = [self._reasons[one] for one in mine] or [reason]
        return reasons[0] if all(reasons) else ""


def _sets_of(together: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    """{id: the sets that it is in}."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(together):
        for identity in one:
            found.setdefault(identity, []).append(number)
    return found


def _reason(point: Checkpoint, limits: Limits, now_ns: int, rank: int) -> str:
    """Why a checkpoint may go; "" = it may not. `rank` counts its worktree's, 1 = newest."""
    safety = point.trigger == checkpoints.SAFETY
    if limits.max_count is not None and rank - (not safety) >= limits.max_count:
        return f"more than {limits.max_count} newer ones"
    spared = rank <= limits.keep_last and not safety  # else they pile up where nobody saves
    if limits.max_age is not None and not spared and _age(point, now_ns) > limits.max_age:
        return f"older than {_days(limits.max_age)}"
    return ""


def _thinned(point: Checkpoint, last_ns: int, slots: set[tuple[bytes, bool, int, int]]) -> str:
    """Why a checkpoint is one too many of its hour or day, "" when it is not: `slots` are those that a newer one stands for,
    and gets its own. Its age is counted from when the newest one was made: holidays make nothing old."""
    step = _step(_age(point, last_ns))
    slot = (point.worktree, point.trigger == checkpoints.SAFETY, step, point.created_ns // max(step * _SECOND, 1))
    if step and slot in slots:
        return f"a newer one of the same {'hour' if step == _HOUR else 'day'} is kept"
    slots.add(slot)
    return ""


def _step(age: float) -> int:
    """Seconds of which one checkpoint is enough, at that age; 0 = all are wanted."""
    return 0 if age <= _DAY else _HOUR if age <= _WEEK else _DAY


def by_weight(decision: Decision) -> list[Checkpoint]:
    """What stays, in the order in which it is weighed: first what no limit takes, then the newest `FLOOR` of each worktree, then
    the rest, newest first. The newest of all worktrees come in turn: one that saves much pushes out what is its own first."""
    ranks: dict[bytes, int] = {}
    order: dict[str, tuple[int, int]] = {}
    for point in decision.kept:
        rank = ranks[point.worktree] = ranks.get(point.worktree, 0) + 1
        if point.id in decision.firm or point.id in decision.pinned:
            order[point.id] = (int(point.id in decision.pinned), 0)
        else:
            order[point.id] = (2, rank) if rank <= FLOOR else (3, 0)
    return sorted(decision.kept, key=lambda point: order[point.id])


def fit(decision: Decision, sizes: Mapping[str, int], beside: int, budget: int, most: int | None = None) -> Decision:
    """The decision, with the oldest of what stays dropped until the rest fits into `budget` bytes, or into the fewer of `most`.

    `sizes` are the bytes that each checkpoint adds to those before it in the order of `by_weight`; `beside` are those that no
    forgetting frees. A budget that is too small for what nobody may take is no reason to take all else: where the newest and
    what undo needs exceed it already, nothing goes; where pinned ones do, a quarter of the budget is left for the others.
    """
    firm = beside + sum(sizes[point.id] for point in decision.kept if point.id in decision.firm)
    pins = sum(sizes[point.id] for point in decision.kept if point.id in decision.pinned)
    if firm > budget:
        note = (
            f"the budget of {budget:,} bytes is smaller than what the newest checkpoint and undo need ({firm:,}): nothing is "
            f"forgotten for its size; raise retention.max_size"
        )
        return decision._replace(notes=(*decision.notes, note), floor=firm)
    notes, floor, left = decision.notes, 0, budget - firm - pins
    room = left if most is None else max(most - firm - pins, left // 2)
    if left < 0:
        floor, room = firm + pins, budget // 4
        note = (
            f"pinned and labelled checkpoints take {pins:,} bytes, more than the budget of {budget:,} has room for: unpin "
            f"some, or raise retention.max_size"
        )
        notes = (*notes, note)
    heavy: set[str] = set()
    for point in by_weight(decision):
        if point.id in decision.firm or point.id in decision.pinned:
            continue
        room -= sizes[point.id]
        if room < 0:
            heavy.add(point.id)
    return without(decision, heavy, budget)._replace(notes=notes, floor=floor)


def without(decision: Decision, heavy: Collection[str], budget: int) -> Decision:
    """The decision with some more dropped, because they do not fit into the budget. What nobody may take stays."""
    going = set(heavy)
    broken = {number for number, one in enumerate(decision.together) if not one.isdisjoint(heavy)}
    going.update(identity for identity, mine in _sets_of(decision.together).items() if broken.issuperset(mine))
    going -= decision.firm | decision.pinned
    kept = tuple(point for point in decision.kept if point.id not in going)
    dropped = [Dropped(point, f"no room in the budget of {budget:,} bytes") for point in decision.kept if point.id in going]
    together = sorted((*decision.dropped, *dropped), key=lambda item: item.checkpoint.seq, reverse=True)
    return decision._replace(kept=kept, dropped=tuple(together))


def _age(point: Checkpoint, now_ns: int) -> float:
    """Seconds since a checkpoint was made."""
    return (now_ns - point.created_ns) / _SECOND


def _without_doubtful_age(points: Sequence[Checkpoint], limits: Limits, now_ns: int) -> tuple[Limits, tuple[str, ...]]:
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
