"""Retention: decides from values alone which checkpoints may be forgotten.

The danger prevented here: a wrong clock deletes the undo of all projects. Sequence numbers order checkpoints. The
clock only measures ages, and only as far as the newest checkpoint agrees with it. A mistyped budget deletes nothing:
a budget applies only if it exceeds the size of what must be kept.
"""

from collections.abc import Collection, Mapping, Sequence

from .._typing import NamedTuple
from . import checkpoint as checkpoints
from .checkpoint import Checkpoint

_SECOND = 1_000_000_000
_SLACK = 3600.0
"""Seconds by which clocks of several machines may differ."""
_QUIET = 86400.0
"""If the newest checkpoint is older than this (seconds) and too old to keep, the clock is doubted."""
FLOOR = 10
"""Newest checkpoints of each worktree that the budget drops only if no older ones of any worktree are left."""
_DAY, _HOUR = 86400, 3600
WHOLE, HOURLY = 7 * _DAY, 14 * _DAY
"""Thinning: seconds up to which every turn is kept, and then seconds up to which the newest of each hour is. Of what is
older, the newest of each day is kept."""


class Limits(NamedTuple):
    """Limits on what is kept (None = no limit).

    `max_age` is in seconds, `max_size` in bytes of the whole store on disk. `max_count` counts the turns of a worktree,
    and its saves outside of turns. Always kept: pins, labels, what undo and redo need, the newest of each live session
    and of each worktree. The size limit drops what came from other machines first, and all of it.

    The newest `keep_last` of each worktree, safety checkpoints not counted, are never dropped for age. `thin`: see
    `WHOLE` and `HOURLY`.
    """

    max_age: float | None
    max_count: int | None
    keep_last: int = 1
    max_size: int | None = None
    thin: bool = False


class Dropped(NamedTuple):
    """A checkpoint to forget, and the reason."""

    checkpoint: Checkpoint
    reason: str


class Decision(NamedTuple):
    """The checkpoints to keep and to forget, newest first. `notes` explain deviations from the limits. No limit drops
    checkpoints in `firm` (ids that something needs) and `pinned` (ids that the user wants kept). `floor`: bytes of
    firm and pinned checkpoints if they exceed the budget; 0 = the budget is met. `together`: see `decide`."""

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
    """Decide which of `points` (newest first, all worktrees) to forget. `fit_into_budget` then applies the size limit.

    `named` are the ids of pinned or labelled checkpoints; `needed` maps ids to the reason why each is needed. Both are
    kept, and so is the newest of each worktree. Its newest safety checkpoint is kept if no save followed it. The ids in
    each set of `together` are kept or forgotten as one and count as one, with the age of the newest. An id in two sets
    is kept if either is.
    """
    own = [point for point in points if not point.more.machine] or points  # the clocks of other machines say nothing here
    limits, notes = _drop_doubtful_age(own, limits, now_ns)
    last_ns = min(now_ns, max((point.created_ns for point in own), default=now_ns))
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
        is_first = newest or (not safety and rank == 1)
        if (is_first and not point.more.machine) or point.id in needed:
            firm.add(point.id)
        reason = ""
        if is_counted:
            reason = _why_forget(point, limits, now_ns, rank)
            thinned = _why_thin_out(point, last_ns, slots) if limits.thin and not reason else ""
            if thinned and (safety or rank > limits.keep_last):
                reason, rank = thinned, rank - (not safety)  # the checkpoints of a slot count as one
            seen[point.worktree] = rank
        reason = fates.reason_for(point.id, reason)
        if reason and point.id not in firm and point.id not in named:
            dropped.append(Dropped(point, reason))
        else:
            kept.append(point)
    pinned = frozenset(point.id for point in kept if point.id in named and point.id not in firm)
    return Decision(tuple(kept), tuple(dropped), notes, frozenset(firm), pinned, together=tuple(together))


class _Fates:
    """The decisions on sets that are kept or forgotten together. The newest checkpoint of a set decides for the set."""

    def __init__(self, together: Sequence[frozenset[str]]) -> None:
        self._sets = _sets_of(together)
        self._reasons: dict[int, str] = {}  # why a set is forgotten, "" = it is kept

    def is_open(self, identity: str) -> bool:
        """True if the checkpoint is in no set, or in a set that was not decided yet."""
        mine = self._sets.get(identity, ())
        return not mine or any(one not in self._reasons for one in mine)

    def reason_for(self, identity: str, reason: str) -> str:
        """Why a checkpoint is forgotten, "" = it is kept. `reason`: the reason for this checkpoint alone, or ""."""
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


def _why_forget(point: Checkpoint, limits: Limits, now_ns: int, rank: int) -> str:
    """The reason to forget a checkpoint, or "". `rank` counts within the worktree, 1 = newest."""
    safety = point.trigger == checkpoints.SAFETY
    if limits.max_count is not None and rank - (not safety) >= limits.max_count:
        return f"more than {limits.max_count} newer ones"
    spared = rank <= limits.keep_last and not safety  # safety checkpoints would pile up in a project without saves
    if limits.max_age is not None and not spared and _age_in_seconds(point, now_ns) > limits.max_age:
        return f"older than {_days_in_words(limits.max_age)}"
    return ""


def _why_thin_out(point: Checkpoint, last_ns: int, slots: set[tuple[bytes, bool, int, int]]) -> str:
    """The reason to thin out a checkpoint; "" if its hour or day has no newer checkpoint. Adds its slot to `slots`.
    Ages are relative to the newest checkpoint, so idle weeks do not age checkpoints."""
    step = _period_at_age(_age_in_seconds(point, last_ns))
    slot = (point.worktree, point.trigger == checkpoints.SAFETY, step, point.created_ns // max(step * _SECOND, 1))
    if step and slot in slots:
        return f"a newer one of the same {'hour' if step == _HOUR else 'day'} is kept"
    slots.add(slot)
    return ""


def _period_at_age(age: float) -> int:
    """Length in seconds of the period that keeps one checkpoint at this age; 0 = all are kept."""
    return 0 if age <= WHOLE else _HOUR if age <= HOURLY else _DAY


def kept_by_priority(decision: Decision) -> list[Checkpoint]:
    """The kept checkpoints by priority: firm, pinned, the newest `FLOOR` of each worktree, the rest, newest first, and
    those of other machines. The newest of all worktrees alternate, so a busy worktree first pushes out its own checkpoints."""
    ranks: dict[bytes, int] = {}
    order: dict[str, tuple[int, int]] = {}
    for point in decision.kept:
        rank = ranks[point.worktree] = ranks.get(point.worktree, 0) + 1
        if point.id in decision.firm or point.id in decision.pinned:
            order[point.id] = (int(point.id in decision.pinned), 0)
        else:
            order[point.id] = (4, 0) if point.more.machine else (2, rank) if rank <= FLOOR else (3, 0)
    return sorted(decision.kept, key=lambda point: order[point.id])


def fit_into_budget(decision: Decision, sizes: Mapping[str, int], beside: int, budget: int, most: int | None = None) -> Decision:
    """Drop the oldest kept checkpoints until the rest fits into `budget` bytes, or into `most` if that is less.

    `sizes`: the bytes that forgetting each checkpoint frees, in the order of `kept_by_priority`. `beside`: the bytes that no
    forgetting frees. A budget below the protected size is no reason to drop all else. If firm checkpoints
    exceed it, nothing is dropped. If firm and pinned ones do, the rest has a quarter of the budget.
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
    space = left if most is None else max(most - firm - pins, left // 2)
    if left < 0:
        floor, space = firm + pins, budget // 4
        note = (
            f"pinned and labelled checkpoints take {pins:,} bytes, more than the budget of {budget:,}: unpin "
            f"some, or raise retention.max_size"
        )
        notes = (*notes, note)
    heavy: set[str] = set()
    for point in kept_by_priority(decision):
        if point.id in decision.firm or point.id in decision.pinned:
            continue
        space -= sizes[point.id]
        if space < 0:
            heavy.add(point.id)
    return without_heavy(decision, heavy, budget)._replace(notes=notes, floor=floor)


def without_heavy(decision: Decision, heavy: Collection[str], budget: int) -> Decision:
    """The decision without the `heavy` checkpoints, which exceed the budget. Firm and pinned ones are kept."""
    going = set(heavy)
    broken = {number for number, one in enumerate(decision.together) if not one.isdisjoint(heavy)}
    going.update(identity for identity, mine in _sets_of(decision.together).items() if broken.issuperset(mine))
    going -= decision.firm | decision.pinned
    kept = tuple(point for point in decision.kept if point.id not in going)
    dropped = [Dropped(point, f"no room in the budget of {budget:,} bytes") for point in decision.kept if point.id in going]
    together = sorted((*decision.dropped, *dropped), key=lambda item: item.checkpoint.seq, reverse=True)
    return decision._replace(kept=kept, dropped=tuple(together))


def _age_in_seconds(point: Checkpoint, now_ns: int) -> float:
    return (now_ns - point.created_ns) / _SECOND


def _drop_doubtful_age(points: Sequence[Checkpoint], limits: Limits, now_ns: int) -> tuple[Limits, tuple[str, ...]]:
    """The limits, without `max_age` if the clock contradicts the newest checkpoint."""
    if not points or limits.max_age is None:
        return limits, ()
    age = min(_age_in_seconds(point, now_ns) for point in points)
    note = ""
    if age < -_SLACK:
        note = (
            f"a checkpoint was made {_days_in_words(-age)} in the future: is the clock right? Nothing is forgotten for its age"
        )
    elif age > max(limits.max_age, _QUIET):
        note = (
            f"the newest checkpoint is {_days_in_words(age)} old: either nothing was saved since, or the clock is wrong. Nothing "
            f"is forgotten for its age; casrewind save makes a new one to count from"
        )
    return (limits._replace(max_age=None), (note,)) if note else (limits, ())


def _days_in_words(seconds: float) -> str:
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.0f} days"
    return f"{seconds / 3600:.0f} hours" if seconds >= 7200 else f"{seconds:.0f} s"
