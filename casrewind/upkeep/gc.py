"""gc: delete the checkpoints that the limits do not keep, then free the space that nothing references.

The danger prevented here: deleting data that is still needed. The limits are applied to the ledger as it is at the time
of the deletion. Marking starts from everything that is kept, including undo steps and open restores. Before each sweep,
checkpoints saved since the marking are marked too.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from .. import errors
from .._typing import NamedTuple
from ..agents import client_process
from ..context import Context
from ..history import turn_checkpoints
from ..history.checkpoint_names import is_kept_by_mark
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model import retention
from ..model.checkpoint import Checkpoint
from ..model.retention import Decision, Dropped, Limits
from ..model.undo_history import ABORT, CONTINUE
from ..store.agent_sessions import AgentSession
from ..store.budget import bytes_reserved_for_gc, copy_limit, has_any_room
from ..store.maintenance import AFTER, BEFORE, Maintenance
from ..store.reachability import Marker
from ..store.review_marks import ReviewMarks
from ..store.sweep import PackUsage, Sweep
from . import bisect_pins, directory_origins

_TRIES = 5
_UNSWEPT_PART = 32
"""1/32 of a budget is reserved for garbage not worth sweeping, and for concurrent saves."""
_TODAY_NS = 86400 * 1_000_000_000
NOT_BEGUN = "a purge was interrupted before it removed anything: run it again"
UNSWEPT = "a purge is unfinished, so purged bytes may remain: {} damaged packs could not be swept"
FINISH_PURGE = "casrewind verify --repair fixes them, then casrewind gc finishes the purge"


class Collected(NamedTuple):
    """The result of gc (with `dry_run`: what it would do). `kept` counts the remaining checkpoints; `dropped` are the
    deleted ones, newest first. `bytes_before` and `bytes_after`: the store's size on disk. `notes`: differences from
    the request. `damaged`: skipped packs. `floor`: minimum size of the store in bytes if that exceeds the budget, else
    0."""

    kept: int
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    damaged: tuple[str, ...]
    dry_run: bool
    floor: int = 0


class _Weighed(NamedTuple):
    """The result of weighing the checkpoints against a budget: ids to drop, notes for the user, the floor (see
    Collected)."""

    heavy: frozenset[str]
    notes: tuple[str, ...]
    floor: int


def make_room(context: Context, needed: int) -> bool:
    """Delete the oldest checkpoints until a save of `needed` bytes fits into the budget. False if that is
    impossible."""
    budget = context.limits.max_size
    if budget is None:
        return True
    target = budget - bytes_reserved_for_gc(budget) - needed
    collect(context, Limits(None, None, max_size=budget), target=target)
    return context.store.size() <= target


def collect(context: Context, limits: Limits | None = None, *, dry_run: bool = False, target: int | None = None) -> Collected:
    """Delete checkpoints and sweep. `limits`: by default those of the settings. `target`: size in bytes to shrink the
    store to; default: the budget. Raises StoreBusy (another gc, or a save that does not end), StoreDamaged, StoreFull."""
    limits = limits or context.limits
    maintenance = context.store.maintenance()
    before = context.store.size()
    if dry_run:
        with context.store.hold_shared_lock():
            decision, _ = _decide_what_to_forget(context, limits, maintenance, target)
            reach = _mark_needed(context, decision.kept)
            found, _ = maintenance.sweep().pack_usage(reach.marked)
            why = _why_nothing_may_go(decision.kept, reach) if found else ()
        freed = 0 if why else sum(usage.dead if usage.live else usage.size for usage in found)
        after = max(before - freed, 0)
        notes = (*decision.notes, *why)
        return Collected(len(decision.kept), decision.dropped, notes, before, after, (), dry_run=True, floor=decision.floor)
    forgotten: list[Dropped] = []
    try:
        return _forget_and_sweep(context, maintenance, limits, target, before, forgotten)
    except errors.StoreFull:
        pass  # once more, with the room of the ballast
    try:
        with maintenance.with_room_from_ballast(limits.max_size):
            done = _forget_and_sweep(context, maintenance, limits, target, before, forgotten)
    except errors.StoreFull as error:
        raise _no_room_error(context, before, forgotten, error) from error
    return done._replace(bytes_after=context.store.size())


def _no_room_error(context: Context, before: int, forgotten: Sequence[Dropped], error: errors.StoreFull) -> errors.StoreFull:
    """The error of a gc that had too little room: what it did, and what it needs."""
    freed = max(before - context.store.size(), 0)
    needed = error.needed or context.store.maintenance().sweep().room_to_forget()
    what = f"{needed:,} bytes of free space" if has_any_room(context.store.path) else "two free inodes"
    return errors.StoreFull(
        f"no space left for gc: it deleted {len(forgotten):,} checkpoints and freed {freed:,} bytes; for more it needs {what} on the "
        f"disk of the store {printable(context.store.path)}",
        "make room there and run casrewind gc again",
        needed,
    )


def _forget_and_sweep(
    context: Context, maintenance: Maintenance, limits: Limits, target: int | None, before: int, forgotten: list[Dropped]
) -> Collected:
    """Delete checkpoints and sweep, as `collect`. Adds deleted checkpoints to `forgotten`; those of an earlier try
    are in it. Raises StoreFull; it can then run again."""
    began_ns = time.time_ns()
    with maintenance.exclude_other_maintenance():
        unfinished = finish_interrupted_purge(context, maintenance)
        maintenance.remove_drafts()  # drafts of killed processes count as used space: they would cost a checkpoint
        maintenance.drop_large_ballast(limits.max_size)
        bisect_pins.drop_rows_of_dead(context)
        decision = _decide_and_forget(context, maintenance, limits, target)
        forgotten += decision.dropped
        directory_origins.drop_rows_of_gone(context)
        decision = decision._replace(kept=())  # all checkpoints are read again now, and memory is for one list of them
        seq, points, reach = _mark_everything(context, maintenance)
        why = _why_nothing_may_go(points, reach) if maintenance.sweep().pack_usage(())[0] else ()
        most = copy_limit(context.limits.max_size)
        damaged = () if why else sweep(context, maintenance, reach, seq, most=most)
        if not why:
            with suppress(errors.StoreFull), maintenance.hold_store_exclusively():  # without room the ledger stays longer, no more
                maintenance.compact_ledger_and_index()
        maintenance.remove_leftovers()
        if limits.max_age is not None:
            context.store.sessions.forget_old_and_dead(time.time_ns() - round(limits.max_age * 1e9), _is_live)
        maintenance.record_gc(began_ns, decision.floor)
    kept, notes = maintenance.count_checkpoints(), (*unfinished, *decision.notes, *why)
    after = context.store.size()
    return Collected(kept, tuple(forgotten), notes, before, after, damaged, dry_run=False, floor=decision.floor)


def _why_nothing_may_go(points: Sequence[Checkpoint], reach: Marker) -> tuple[str, ...]:
    """Why nothing may be swept: no checkpoint is restorable. gc always keeps the newest checkpoint. So the ledger was
    lost or replaced, and the packs may hold the data of lost checkpoints."""
    if not points:
        return ("no checkpoint at all: nothing is swept; if there were any, the ledger was lost",)
    if all(point.tree in reach.missing for point in points):
        return ("the trees of all checkpoints are missing: nothing is swept; casrewind verify --repair shows what is affected",)
    return ()


def _decide_what_to_forget(
    context: Context, limits: Limits, maintenance: Maintenance, target: int | None, weighed: _Weighed | None = None
) -> tuple[Decision, _Weighed]:
    """Decide what to drop. Weighing is slow, so a first result is reused through `weighed`."""
    everything = context.store.checkpoints()
    named = frozenset(point.id for point, marked in everything if is_kept_by_mark(point, marked))
    points, together = [point for point, _ in everything], turn_checkpoints.find_inseparable(everything)
    decision = retention.decide(points, limits, time.time_ns(), named, _what_needs_each_checkpoint(context), together)
    if limits.max_size is None:
        return decision, _Weighed(frozenset(), (), 0)
    if weighed is not None:
        decision = retention.without_heavy(decision, weighed.heavy, limits.max_size)
        return decision._replace(notes=(*decision.notes, *weighed.notes), floor=weighed.floor), weighed
    most = min(limits.max_size if target is None else target, limits.max_size)
    if context.store.size() <= most:
        return decision, _Weighed(frozenset(), (), 0)
    fitted = _drop_to_fit(context, maintenance, decision, limits.max_size, most)
    heavy = {item.checkpoint.id for item in fitted.dropped} - {item.checkpoint.id for item in decision.dropped}
    return fitted, _Weighed(frozenset(heavy), fitted.notes[len(decision.notes) :], fitted.floor)


def _drop_to_fit(context: Context, maintenance: Maintenance, decision: Decision, budget: int, most: int) -> Decision:
    """Drop checkpoints until the rest fits, weighing each by what it adds to the earlier ones."""
    reach = Marker(context.store.read_many, context.counter("weighing"))
    sweeping = maintenance.sweep()

    def weigh(add: Callable[[], None]) -> int:
        return sum(place.length for _, place in sweeping.places(reach.newly_marked(add)) if place is not None)

    beside = maintenance.other_bytes() + most // _UNSWEPT_PART + weigh(lambda: _mark_later_checkpoints(context, reach, ()))
    sizes = {point.id: weigh(partial(mark_points, reach, (point,), ())) for point in retention.kept_by_priority(decision)}
    return retention.fit_into_budget(decision, sizes, beside, budget, most)


def _what_needs_each_checkpoint(context: Context) -> dict[str, str]:
    """{checkpoint id: what needs it}: undo and redo steps, open restores, the state that a worktree equals, the newest
    checkpoint of each live session, what a directory was made from, what a running bisect looks at, and what was reviewed last."""
    needed = dict.fromkeys(directory_origins.needed_by_directories(context), "a directory made from it")
    needed.update(dict.fromkeys(bisect_pins.needed_by_bisects(context), "a running bisect"))
    needed.update(dict.fromkeys(ReviewMarks(context.store.path).states(), "the mark of a review"))
    for history in context.store.histories().values():
        for step in (*history.undo, *history.redo):
            needed.update(dict.fromkeys((step.target, step.before, step.safety), "undo"))
        needed[history.current] = "current"
    for journal in context.store.journals.read_all():
        needed.update(dict.fromkeys((journal.target, journal.safety, journal.current), "an open restore"))
    sessions = context.store.sessions
    live = {(found.agent, found.session) for found in (*sessions.all(), *sessions.running_commands()) if _is_live(found)}
    for point, _ in context.store.checkpoints() if live else ():  # newest first
        if point.session_key in live and not point.more.machine:
            needed[point.id] = "a live session"
            live.discard(point.session_key)
    return needed


def _is_live(session: AgentSession) -> bool:
    """True if the session's client runs or, when its process is unknown, if its last event was within a day."""
    if session.pid > 0:
        return client_process.is_alive_or_unknown(client_process.ClientProcess(session.pid, session.pid_start))
    return abs(time.time_ns() - session.updated_ns) < _TODAY_NS


def _decide_and_forget(context: Context, maintenance: Maintenance, limits: Limits, target: int | None) -> Decision:
    """Decide and record it; decide again if anything but saves happened in between."""
    weighed = None
    for _ in range(_TRIES):
        seq = maintenance.newest_seq()
        decision, weighed = _decide_what_to_forget(context, limits, maintenance, target, weighed)
        if not decision.dropped:
            return decision
        with maintenance.hold_store_exclusively():  # no restore is between its target and its journal
            now = _seq_after_saves(maintenance, seq)
            rows = bisect_pins.needed_by_bisects(context) | ReviewMarks(context.store.path).states()
            if rows.intersection(item.checkpoint.id for item in decision.dropped):
                continue  # it was made in between; a row is no record of the ledger
            if now and maintenance.forget([item.checkpoint.id for item in decision.dropped], now):
                return decision
    with maintenance.hold_store_exclusively():
        decision, _ = _decide_what_to_forget(context, limits, maintenance, target, weighed)
        maintenance.forget([item.checkpoint.id for item in decision.dropped], maintenance.newest_seq())
    return decision


def _seq_after_saves(maintenance: Maintenance, seq: int) -> int:
    """The current sequence number if everything after `seq` was a save, else 0. A save adds nothing that a decision
    drops or that makes a dropped checkpoint necessary. A safety checkpoint belongs to a restore, which may."""
    now = maintenance.newest_seq()
    later = maintenance.published_after(seq)
    only_saves = len(later) == now - seq and not any(point.trigger == checkpoints.SAFETY for point in later)
    return now if only_saves else 0


def _mark_everything(context: Context, maintenance: Maintenance) -> tuple[int, list[Checkpoint], Marker]:
    """Returns (a sequence number, the checkpoints up to it, marks of what they need). Raises StoreDamaged."""
    seq = maintenance.newest_seq()
    points = maintenance.published_after(0)
    reach = _mark_needed(context, points)
    refuse_damaged_marking(reach)
    return seq, points, reach


def _mark_needed(context: Context, points: Iterable[Checkpoint]) -> Marker:
    reach = Marker(context.store.read_many, context.counter("marking"))
    _mark_later_checkpoints(context, reach, points)
    return reach


def refuse_damaged_marking(reach: Marker) -> None:
    """Raise StoreDamaged if marking met an unreadable blob: its references are unknown."""
    broken = next((error for error in reach.missing.values() if not isinstance(error, errors.BlobMissing)), None)
    if broken is not None:
        raise errors.StoreDamaged(
            f"nothing was swept, because the store is damaged: {broken.problem}",
            "casrewind verify --repair shows what is affected and repairs what it can; then run this again",
        )


def _mark_later_checkpoints(context: Context, reach: Marker, points: Iterable[Checkpoint]) -> None:
    plans = [journal.plan for journal in context.store.journals.read_all()]
    plans += kept_plans(context)
    mark_points(reach, points, plans)


def step_plans(context: Context) -> list[bytes]:
    """The digests of the plans that undo and redo need, each once."""
    histories = context.store.histories().values()
    return list(dict.fromkeys(step.plan for history in histories for step in (*history.undo, *history.redo)))


def kept_plans(context: Context) -> list[bytes]:
    """The digests of the plans that gc keeps, each once: those of the steps, and those of the ends of interrupted operations,
    without which a turn is charged with them. Reads the whole ledger."""
    ends = [one.plan for one in context.store.operations() if one.op in (ABORT, CONTINUE)]
    there = context.store.lengths(ends)  # an older version knows no such end, and its gc may have removed the plan
    return list(dict.fromkeys([*step_plans(context), *(plan for plan in ends if plan in there)]))


def mark_points(reach: Marker, points: Iterable[Checkpoint], plans: Iterable[bytes]) -> None:
    """Mark everything that checkpoints and plans need."""
    found = list(points)
    transcripts = [point.transcript for point in found if point.transcript is not None]
    reach.mark_with_references([point.tree for point in found], [point.domain for point in found], plans, transcripts)


def sweep(
    context: Context, maintenance: Maintenance, reach: Marker, seq: int, *, thorough: bool = False, most: int | None = None
) -> tuple[str, ...]:
    """Free the space of unreachable blobs. `reach` must contain what all records up to sequence number `seq` need.
    Returns the damaged packs, which were skipped. `thorough` removes every byte of garbage from all other packs."""
    sweeping = maintenance.sweep()
    found, _ = sweeping.pack_usage(reach.marked)
    waiting = deque(sweeping.groups_worth_rewriting(found, thorough=thorough, most=most))
    done, report = 0, context.progress_bar("sweeping")
    while waiting:
        group = waiting.popleft()
        try:
            seq = _copy_and_sweep_group(context, maintenance, sweeping, group, reach, seq)
        except errors.StoreFull as error:
            if sweeping.is_switch_begun_in_index(group):
                raise  # the old packs are garbage now: another run finds them
            if len(group) == 1:
                needed = sweeping.room_to_sweep_pack(group[0])
                raise errors.StoreFull(f"{error.problem}: {needed:,} bytes are needed", error.hint, needed) from error
            # one after the other needs less room, and each makes room for the next; merging alone makes none
            waiting.extendleft([usage] for usage in sorted(group, key=lambda u: u.live, reverse=True) if usage.dead)
            continue
        done += 1
        if report is not None:
            report(done, done + len(waiting))
    return tuple(sweeping.damaged)


def merge_packs(context: Context) -> None:
    """Merge a group of small packs with all their blobs: nothing is marked and nothing freed. For saves, so it waits for no
    other process and raises nothing of the store: the next save tries again."""
    maintenance = context.store.maintenance()
    with suppress(errors.CasrewindError), maintenance.exclude_other_maintenance(patience=0.0):
        if maintenance.unfinished_purge():
            return  # gc finishes it first
        with maintenance.hold_store_exclusively(patience=0.0):
            pass  # else the copy would be in vain
        sweeping = maintenance.sweep()
        groups = sweeping.groups_of_small_packs(copy_limit(context.limits.max_size))
        for group in groups[:1]:  # the next save takes the next group: none waits for long, and no gc for a save
            kept = sweeping.blobs_of_packs(group)
            copied = sweeping.copy_reachable(group, kept)
            if copied is None:
                continue
            try:
                with maintenance.hold_store_exclusively(patience=0.0):
                    sweeping.switch_to_copies_and_remove_packs(copied, kept)
            finally:
                copied.writer.remove_unfinished()
        if len(groups) < 2 or sweeping.damaged:
            maintenance.record_merge()


def _copy_and_sweep_group(
    context: Context, maintenance: Maintenance, sweeping: Sweep, group: list[PackUsage], reach: Marker, seq: int
) -> int:
    """Sweep a group of packs. Returns the sequence number up to which `reach` is complete now."""
    copied = sweeping.copy_reachable(group, reach.marked)
    if copied is None:
        return seq
    try:
        with maintenance.hold_store_exclusively():
            latest = maintenance.newest_seq()
            _mark_later_checkpoints(context, reach, maintenance.published_after(seq))
            sweeping.switch_to_copies_and_remove_packs(copied, reach.marked)
    finally:
        copied.writer.remove_unfinished()
    return latest


def finish_purge(context: Context, maintenance: Maintenance, reach: Marker, seq: int) -> tuple[str, ...]:
    """Finish a purge after the ledger no longer names the purged data: sweep all garbage and remove unused files.
    Returns the damaged packs that could not be swept; if there are any, the purge is still unfinished."""
    damaged = sweep(context, maintenance, reach, seq, thorough=True)
    if not damaged:
        with maintenance.hold_store_exclusively():
            maintenance.remove_purged_bytes()
    return damaged


def finish_interrupted_purge(context: Context, maintenance: Maintenance) -> tuple[str, ...]:
    """Finish an interrupted purge. Returns notes for the user."""
    how = maintenance.unfinished_purge()
    if how == BEFORE:
        maintenance.remove_purge_marker()
    if how != AFTER:
        return (NOT_BEGUN,) if how else ()
    seq, points, reach = _mark_everything(context, maintenance)
    why = _why_nothing_may_go(points, reach)
    if not why and (damaged := finish_purge(context, maintenance, reach, seq)):
        why = (f"{UNSWEPT.format(len(damaged))}; {FINISH_PURGE}",)
    return why or ("a purge that was interrupted is finished now",)


def unfinished_purge(context: Context) -> str:
    """A note about an interrupted purge; "" without one, or if a purge is running."""
    maintenance = context.store.maintenance()
    how = maintenance.unfinished_purge()
    if not how or maintenance.is_running():
        return ""
    if how == BEFORE:
        return NOT_BEGUN
    return "a purge was interrupted, so purged bytes may remain in the store: casrewind gc finishes it"
