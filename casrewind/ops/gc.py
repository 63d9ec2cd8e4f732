"""gc: forget what the limits do not hold on to, then give back the space that nothing has need of any more.

The danger prevented here: collecting what somebody needs. The limits are applied to what the ledger says at the moment
of forgetting; what is reachable is marked from everything that stays, open restores and undo steps included; and
nothing is swept before what was saved meanwhile is marked as well.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from .. import errors
from ..model import checkpoint as checkpoints
from ..model import retention
from ..model.checkpoint import Checkpoint
from ..model.retention import Decision, Dropped, Limits
from ..store.reach import Reach
from ..store.upkeep import Upkeep
from ..worktree import statcache
from .references import is_named
from .site import Site

_TRIES = 5


class Collected(NamedTuple):
    """What gc did, or (dry) would do. `kept` counts checkpoints, `dropped` are those that were forgotten, newest first;
    `bytes_before` and `bytes_after` are the store's size on disk; `notes` say what was decided otherwise than asked,
    `damaged` names packs that were left alone."""

    kept: int
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    damaged: tuple[str, ...]
    dry_run: bool


def collect(site: Site, limits: Limits, *, dry_run: bool = False) -> Collected:
    """Forget and sweep. Raises StoreBusy (another gc, or a save that does not end), StoreDamaged, StoreFull."""
    upkeep = site.store.upkeep()
    before = site.store.size()
    if dry_run:
        with site.store.holding():
            decision = _decide(site, limits)
            reach = _mark(site, decision.kept, decision)
            found, _ = upkeep.sweep().usage(reach.marked)
            why = _why_not(decision.kept, reach) if found else ()
        freed = 0 if why else sum(usage.dead if usage.live else usage.size for usage in found)
        after = max(before - freed, 0)
        return Collected(len(decision.kept), decision.dropped, (*decision.notes, *why), before, after, (), dry_run=True)
    with upkeep.only_one():
        decision = _forget(site, upkeep, limits)
        seq = upkeep.position()
        points = upkeep.published_after(0)
        reach = _mark(site, points, None)
        why = _why_not(points, reach) if upkeep.sweep().usage(())[0] else ()
        damaged = () if why else _sweep(site, upkeep, reach, seq)
        if not why:
            with upkeep.alone():
                upkeep.compact()
        upkeep.tidy()
        if limits.max_age is not None:
            site.store.sessions.prune(time.time_ns() - round(limits.max_age * 1e9))
    kept, notes = len(upkeep.published_after(0)), (*decision.notes, *why)
    return Collected(kept, decision.dropped, notes, before, site.store.size(), damaged, dry_run=False)


def _why_not(points: Sequence[Checkpoint], reach: Reach) -> tuple[str, ...]:
    """Why nothing may be swept, for there is no checkpoint that could be restored: nobody forgets the newest one, so the
    ledger is gone, or another store's, and what it told of is in the packs still."""
    if not points:
        return ("no checkpoint at all: nothing is swept; if there were any, the ledger was lost",)
    if all(point.tree in reach.missing for point in points):
        return ("of no checkpoint the tree is there: nothing is swept; casrewind verify --repair says what is affected",)
    return ()


def _decide(site: Site, limits: Limits) -> Decision:
    everything = site.store.checkpoints()
    named = frozenset(point.id for point, marked in everything if is_named(point, marked))
    return retention.decide([point for point, _ in everything], limits, time.time_ns(), named, _needed(site))


def _needed(site: Site) -> dict[str, str]:
    """{checkpoint id: what has need of it}: undo and redo steps, restores that are open, what a worktree equals."""
    needed = {}
    for history in site.store.histories().values():
        for step in (*history.undo, *history.redo):
            needed.update(dict.fromkeys((step.target, step.before, step.safety), "undo"))
        needed[history.current] = "current"
    for journal in site.store.journals.open():
        needed.update(dict.fromkeys((journal.target, journal.safety, journal.current), "an open restore"))
    return needed


def _forget(site: Site, upkeep: Upkeep, limits: Limits) -> Decision:
    """Decide and write it down; over again when something happened in between."""
    for _ in range(_TRIES):
        seq = upkeep.position()
        decision = _decide(site, limits)
        if not decision.dropped:
            return decision
        with upkeep.alone():  # so no restore is under way that has chosen its target and opened no journal yet
            now = _only_saved_since(upkeep, seq)
            if now and upkeep.forget([item.checkpoint.id for item in decision.dropped], now):
                return decision
    with upkeep.alone():
        decision = _decide(site, limits)
        upkeep.forget([item.checkpoint.id for item in decision.dropped], upkeep.position())
    return decision


def _only_saved_since(upkeep: Upkeep, seq: int) -> int:
    """The newest sequence number when all that happened after `seq` were saves, else 0. What they made is not among what
    a decision drops, and gives nobody a need of it; a safety checkpoint comes with a restore, which may."""
    now = upkeep.position()
    later = upkeep.published_after(seq)
    only_saves = len(later) == now - seq and not any(point.trigger == checkpoints.SAFETY for point in later)
    return now if only_saves else 0


def _mark(site: Site, points: tuple[Checkpoint, ...] | list[Checkpoint], dry: Decision | None) -> Reach:
    reach = Reach(site.store.read_many, site.say("marking"))
    _add(site, reach, points)
    broken = next((error for error in reach.missing.values() if not isinstance(error, errors.BlobMissing)), None)
    if broken is not None and dry is None:
        raise errors.StoreDamaged(
            f"nothing was swept, because the store is damaged: {broken}. casrewind verify --repair says what is affected "
            f"and mends what can be mended; then run gc again"
        )
    return reach


def _add(site: Site, reach: Reach, points: tuple[Checkpoint, ...] | list[Checkpoint]) -> None:
    plans = [journal.plan for journal in site.store.journals.open()]
    for history in site.store.histories().values():
        plans += [step.plan for step in (*history.undo, *history.redo)]
    transcripts = [point.transcript for point in points if point.transcript is not None]
    reach.add([point.tree for point in points], [point.domain for point in points], plans, transcripts)


def _sweep(site: Site, upkeep: Upkeep, reach: Reach, seq: int) -> tuple[str, ...]:
    sweep = upkeep.sweep()
    found, _ = sweep.usage(reach.marked)
    groups = sweep.groups(found)
    report = site.say_of("sweeping")
    for number, group in enumerate(groups):
        copied = sweep.copy(group, reach.marked)
        if copied is None:
            continue
        try:
            with upkeep.alone():
                latest = upkeep.position()
                _add(site, reach, upkeep.published_after(seq))
                seq = latest
                sweep.switch(copied, reach.marked, lambda row: reach.is_tree(statcache.tree_of(row)))
        finally:
            copied.writer.abort()
        if report is not None:
            report(number + 1, len(groups))
    return tuple(sweep.damaged)
