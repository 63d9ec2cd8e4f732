"""gc: forget what the limits do not hold on to, then give back the space that nothing has need of any more.

The danger prevented here: collecting what somebody needs. The limits are applied to what the ledger says at the moment
of forgetting; what is reachable is marked from everything that stays, open restores and undo steps included; and
nothing is swept before what was saved meanwhile is marked as well.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from .. import errors
from .._typing import NamedTuple
from ..agents import client_process
from ..model import checkpoint as checkpoints
from ..model import retention
from ..model.checkpoint import Checkpoint
from ..model.retention import Decision, Dropped, Limits
from ..store import quota
from ..store.agent_sessions import AgentSession
from ..store.maintenance import AFTER, BEFORE, Maintenance
from ..store.reachability import Marker
from . import turns
from .context import Context
from .references import is_named

_TRIES = 5
_UNSWEPT_PART = 32
"""One part in so many of a budget is left for garbage that is not worth sweeping, and for what is saved meanwhile."""
_TODAY_NS = 86400 * 1_000_000_000
_NOT_BEGUN = "a purge was interrupted before it removed anything: run it again"
UNSWEPT = (
    "a purge is unfinished, bytes of what it purged may be left: {} damaged packs could not be swept; casrewind verify "
    "--repair mends them, casrewind gc finishes the purge then"
)


class Collected(NamedTuple):
    """What gc did, or (dry) would do. `kept` counts checkpoints, `dropped` are those that were forgotten, newest first;
    `bytes_before` and `bytes_after` are the store's size on disk; `notes` say what was decided otherwise than asked,
    `damaged` names packs that were left alone; `floor`: bytes that a budget could not be kept to, because what has to stay
    takes so many, 0 = it is kept."""

    kept: int
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    damaged: tuple[str, ...]
    dry_run: bool
    floor: int = 0


class _Weighed(NamedTuple):
    """What weighing all checkpoints against a budget has led to: ids of those to be dropped, what to say of it, the floor."""

    heavy: frozenset[str]
    notes: tuple[str, ...]
    floor: int


def make_room(context: Context, needed: int) -> bool:
    """Forget the oldest checkpoints until a save of so many bytes fits into the site's budget; False when it cannot."""
    if context.budget is None:
        return True
    target = context.budget - quota.reserve(context.budget) - needed
    collect(context, Limits(None, None, max_size=context.budget), target=target)
    return context.store.size() <= target


def collect(context: Context, limits: Limits, *, dry_run: bool = False, target: int | None = None) -> Collected:
    """Forget and sweep. `target`: bytes to which the store is brought down where it is over its budget, or is to be.
    Raises StoreBusy (another gc, or a save that does not end), StoreDamaged, StoreFull."""
    began_ns = time.time_ns()
    maintenance = context.store.maintenance()
    before = context.store.size()
    if dry_run:
        with context.store.holding():
            decision, _ = _decide(context, limits, maintenance, target)
            reach = _mark(context, decision.kept, decision)
            found, _ = maintenance.sweep().usage(reach.marked)
            why = _why_not(decision.kept, reach) if found else ()
        freed = 0 if why else sum(usage.dead if usage.live else usage.size for usage in found)
        after = max(before - freed, 0)
        notes = (*decision.notes, *why)
        return Collected(len(decision.kept), decision.dropped, notes, before, after, (), dry_run=True, floor=decision.floor)
    with maintenance.only_one():
        unfinished = finish_interrupted_purge(context, maintenance)
        decision = _forget(context, maintenance, limits, target)
        seq = maintenance.position()
        points = maintenance.published_after(0)
        reach = _mark(context, points, None)
        why = _why_not(points, reach) if maintenance.sweep().usage(())[0] else ()
        most = quota.most_together(context.budget)
        damaged = () if why else sweep(context, maintenance, reach, seq, most=most)
        if not why:
            with maintenance.exclusively():
                maintenance.compact()
        maintenance.tidy()
        if limits.max_age is not None:
            context.store.sessions.prune(time.time_ns() - round(limits.max_age * 1e9))
        maintenance.note(began_ns, decision.floor)
    kept, notes = len(maintenance.published_after(0)), (*unfinished, *decision.notes, *why)
    after = context.store.size()
    return Collected(kept, decision.dropped, notes, before, after, damaged, dry_run=False, floor=decision.floor)


def _why_not(points: Sequence[Checkpoint], reach: Marker) -> tuple[str, ...]:
    """Why nothing may be swept, for there is no checkpoint that could be restored: nobody forgets the newest one, so the
    ledger is gone, or another store's, and what it told of is in the packs still."""
    if not points:
        return ("no checkpoint at all: nothing is swept; if there were any, the ledger was lost",)
    if all(point.tree in reach.missing for point in points):
        return ("of no checkpoint the tree is there: nothing is swept; casrewind verify --repair says what is affected",)
    return ()


def _decide(
    context: Context, limits: Limits, maintenance: Maintenance, target: int | None, weighed: _Weighed | None = None
) -> tuple[Decision, _Weighed]:
    """What goes now. Weighing takes long: what it has led to the first time is believed from then on."""
    everything = context.store.checkpoints()
    named = frozenset(point.id for point, marked in everything if is_named(point, marked))
    points, together = [point for point, _ in everything], turns.together(everything)
    decision = retention.decide(points, limits, time.time_ns(), named, _needed(context), together)
    if limits.max_size is None:
        return decision, _Weighed(frozenset(), (), 0)
    if weighed is not None:
        decision = retention.without(decision, weighed.heavy, limits.max_size)
        return decision._replace(notes=(*decision.notes, *weighed.notes), floor=weighed.floor), weighed
    most = min(limits.max_size if target is None else target, limits.max_size)
    if context.store.size() <= most:
        return decision, _Weighed(frozenset(), (), 0)
    fitted = _fit(context, maintenance, decision, limits.max_size, most)
    heavy = {item.checkpoint.id for item in fitted.dropped} - {item.checkpoint.id for item in decision.dropped}
    return fitted, _Weighed(frozenset(heavy), fitted.notes[len(decision.notes) :], fitted.floor)


def _fit(context: Context, maintenance: Maintenance, decision: Decision, budget: int, most: int) -> Decision:
    """Weigh what stays: each checkpoint by what it alone adds to those before it."""
    reach = Marker(context.store.read_many, context.counter("weighing"))
    sweeping = maintenance.sweep()

    def weigh(add: Callable[[], None]) -> int:
        return sum(place.length for _, place in sweeping.places(reach.fresh(add)) if place is not None)

    beside = maintenance.other_bytes() + most // _UNSWEPT_PART + weigh(lambda: _add(context, reach, ()))
    sizes = {point.id: weigh(partial(add_points, reach, (point,), ())) for point in retention.by_weight(decision)}
    return retention.fit(decision, sizes, beside, budget, most)


def _needed(context: Context) -> dict[str, str]:
    """{checkpoint id: what has need of it}: undo and redo steps, restores that are open, what a worktree equals, and the
    newest of each session whose client runs."""
    needed = {}
    for history in context.store.histories().values():
        for step in (*history.undo, *history.redo):
            needed.update(dict.fromkeys((step.target, step.before, step.safety), "undo"))
        needed[history.current] = "current"
    for journal in context.store.journals.open():
        needed.update(dict.fromkeys((journal.target, journal.safety, journal.current), "an open restore"))
    live = {(found.agent, found.session) for found in context.store.sessions.all() if _is_live(found)}
    for point, _ in context.store.checkpoints() if live else ():  # newest first
        if (point.agent, point.session) in live:
            needed[point.id] = "a live session"
            live.discard((point.agent, point.session))
    return needed


def _is_live(session: AgentSession) -> bool:
    """Whether a session goes on: its client runs; where nobody knows which process that is, it was heard of today."""
    if session.pid > 0:
        return client_process.is_alive(client_process.ClientProcess(session.pid, session.pid_start))
    return abs(time.time_ns() - session.updated_ns) < _TODAY_NS


def _forget(context: Context, maintenance: Maintenance, limits: Limits, target: int | None) -> Decision:
    """Decide and write it down; over again when something happened in between."""
    weighed = None
    for _ in range(_TRIES):
        seq = maintenance.position()
        decision, weighed = _decide(context, limits, maintenance, target, weighed)
        if not decision.dropped:
            return decision
        with maintenance.exclusively():  # so no restore is under way that has chosen its target and opened no journal yet
            now = _only_saved_since(maintenance, seq)
            if now and maintenance.forget([item.checkpoint.id for item in decision.dropped], now):
                return decision
    with maintenance.exclusively():
        decision, _ = _decide(context, limits, maintenance, target, weighed)
        maintenance.forget([item.checkpoint.id for item in decision.dropped], maintenance.position())
    return decision


def _only_saved_since(maintenance: Maintenance, seq: int) -> int:
    """The newest sequence number when all that happened after `seq` were saves, else 0. What they made is not among what
    a decision drops, and gives nobody a need of it; a safety checkpoint comes with a restore, which may."""
    now = maintenance.position()
    later = maintenance.published_after(seq)
    only_saves = len(later) == now - seq and not any(point.trigger == checkpoints.SAFETY for point in later)
    return now if only_saves else 0


def _mark(context: Context, points: tuple[Checkpoint, ...] | list[Checkpoint], dry: Decision | None) -> Marker:
    reach = Marker(context.store.read_many, context.counter("marking"))
    _add(context, reach, points)
    if dry is None:
        refuse_damage(reach)
    return reach


def refuse_damage(reach: Marker) -> None:
    """Raise StoreDamaged when something could not be read while marking: what it names is unknown."""
    broken = next((error for error in reach.missing.values() if not isinstance(error, errors.BlobMissing)), None)
    if broken is not None:
        raise errors.StoreDamaged(
            f"nothing was swept, because the store is damaged: {broken}. casrewind verify --repair says what is affected "
            f"and mends what can be mended; then run this again"
        )


def _add(context: Context, reach: Marker, points: tuple[Checkpoint, ...] | list[Checkpoint]) -> None:
    plans = [journal.plan for journal in context.store.journals.open()]
    for history in context.store.histories().values():
        plans += [step.plan for step in (*history.undo, *history.redo)]
    add_points(reach, points, plans)


def add_points(reach: Marker, points: Iterable[Checkpoint], plans: Iterable[bytes]) -> None:
    """Mark all that checkpoints and plans have need of."""
    found = list(points)
    transcripts = [point.transcript for point in found if point.transcript is not None]
    reach.add([point.tree for point in found], [point.domain for point in found], plans, transcripts)


def sweep(
    context: Context, maintenance: Maintenance, reach: Marker, seq: int, *, thorough: bool = False, most: int | None = None
) -> tuple[str, ...]:
    """Give back the space of what is not reachable, `reach` being marked from everything up to `seq`; the packs that were left
    alone because they are damaged. `thorough`: not a byte of garbage stays in the others."""
    sweeping = maintenance.sweep()
    found, _ = sweeping.usage(reach.marked)
    groups = sweeping.groups(found, thorough=thorough, most=most)
    report = context.progress_bar("sweeping")
    for number, group in enumerate(groups):
        copied = sweeping.copy(group, reach.marked)
        if copied is None:
            continue
        try:
            with maintenance.exclusively():
                latest = maintenance.position()
                _add(context, reach, maintenance.published_after(seq))
                seq = latest
                sweeping.switch(copied, reach.marked)
        finally:
            copied.writer.abort()
        if report is not None:
            report(number + 1, len(groups))
    return tuple(sweeping.damaged)


def finish_purge(context: Context, maintenance: Maintenance, reach: Marker, seq: int) -> tuple[str, ...]:
    """What is left to do of a purge when the ledger names nothing of it any more: sweep all garbage, whatever it was, and
    remove all that nothing reads. The damaged packs that could not be swept: then the purge is still unfinished."""
    damaged = sweep(context, maintenance, reach, seq, thorough=True)
    if not damaged:
        with maintenance.exclusively():
            maintenance.end_purge()
    return damaged


def finish_interrupted_purge(context: Context, maintenance: Maintenance) -> tuple[str, ...]:
    """Finish a purge that was interrupted; what to say of it."""
    how = maintenance.unfinished_purge()
    if how == BEFORE:
        maintenance.forget_purge()
    if how != AFTER:
        return (_NOT_BEGUN,) if how else ()
    seq = maintenance.position()
    points = maintenance.published_after(0)
    reach = _mark(context, points, None)
    why = _why_not(points, reach)
    if not why and (damaged := finish_purge(context, maintenance, reach, seq)):
        why = (UNSWEPT.format(len(damaged)),)
    return why or ("a purge that was interrupted is finished now",)


def unfinished_purge(context: Context) -> str:
    """What to say of a purge that was interrupted, "" when there is none or when it runs."""
    maintenance = context.store.maintenance()
    how = maintenance.unfinished_purge()
    if not how or maintenance.is_busy():
        return ""
    if how == BEFORE:
        return _NOT_BEGUN
    return "a purge was interrupted, and bytes of what it purged may be in the store still: casrewind gc finishes it"
