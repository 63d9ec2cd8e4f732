"""Undo and redo: take the newest restore (or undo) back, path by path, and keep what was edited since."""

import time
from collections.abc import Iterable, Iterator, Mapping

from .. import errors, fsio
from ..model import checkpoint as checkpoints
from ..model import history as undo_history
from ..model import manifest, paths
from ..model import plan as plans
from ..model.history import Operation
from ..model.manifest import DIR, Entry, same
from ..model.plan import Action, Actions, Kept, Plan
from ..store import packs
from ..store.writer import StoreWriter
from ..worktree.apply import Applier, Outcome
from ..worktree.nested_stores import NestedStores
from ..worktree.recover import settle, unwind
from . import capture, preflight
from .capture import CapturedState, in_the_way
from .context import Context
from .execute import Restored, execute, finish, interrupted
from .prefetch import Trees
from .preflight import prove, under_mounts


def undo(site: Context, *, everything: bool = False) -> Restored:
    """Take the newest restore back: its paths, and only those. A path that is no longer as the restore left it is kept,
    unless `everything`. Raises NothingToUndo."""
    history = site.store.history(site.root.key)
    if not history.undo:
        raise errors.NothingToUndo("nothing to undo: no restore was made in this worktree, or all of them are undone")
    step = history.undo[-1]
    return _take_back(site, undo_history.UNDO, step, everything=everything)


def redo(site: Context) -> Restored:
    """Take the newest undo back, by the same rule. Raises NothingToUndo."""
    history = site.store.history(site.root.key)
    if not history.redo:
        raise errors.NothingToUndo("nothing to redo: no undo was made since the newest restore")
    return _take_back(site, undo_history.REDO, history.redo[-1], everything=False)


def _take_back(site: Context, op: str, step: undo_history.Step, *, everything: bool) -> Restored:
    preflight.refuse_open_journal(site)
    with site.store.restoring(site.root.key), site.store.session() as session:
        preflight.refuse_open_journal(site)
        report, now = _prepare(site, session, op, step, everything=everything)
        current = step.safety if op == undo_history.UNDO else step.before
        operation = Operation(op, 0, site.root.key, step.target, "", b"", current)
        if report.actions:
            actions = preflight.check_actions(site, now, report.actions)
            return execute(site, session, operation, report, now, actions)
        if not report.kept:  # else nothing was taken back, so the step stays
            empty = session.put(packs.PLAN, plans.encode(()))
            site.store.add_blobs(session)
            site.store.record_operation(operation._replace(plan=empty, created_ns=time.time_ns()))
        return report


def _prepare(site: Context, session: StoreWriter, op: str, step: undo_history.Step, *, everything: bool) -> tuple[Restored, CapturedState]:
    """(what taking a step back would do and leave alone, what is there now)."""
    scan = capture.scan_now(site, session)
    wanted = plans.reverse(site.store.plan(step.plan))  # not before: a scan takes memory enough
    wanted, stores = NestedStores(site.tree, site.options.excluded).spare(wanted)
    strangers: dict[bytes, str] = {}
    load = Trees(session.load_tree)
    read = scan.read
    unread = (path for path in _touched(wanted) if path not in read)
    tree = capture.add_paths(site, session, scan.tree, unread, strangers=strangers, load=load)
    now = CapturedState(tree, scan, load)
    if everything and strangers:
        touched = frozenset(_touched(wanted))
        if obstacles := [why for path, why in strangers.items() if path in touched]:
            raise capture.in_the_way(obstacles)
    kept = list(stores)
    actions = plans.pack(_choose(wanted, manifest.Finder(load, tree), strangers, site.tree.mounts.points, kept, everything=everything))
    hint = f"What is sound can be had with casrewind restore {step.safety or step.target} --skip-damaged"
    plan = preflight.check_plan(site, now, plans.keep(Plan(actions, ()), kept), hint=hint, benign=False)
    aim = step.safety if op == undo_history.UNDO else step.target
    unchanged = len(wanted) - len(plan.actions) - len({item.path for item in plan.kept} - {item.path for item in stores})
    return Restored(op, aim, "", plan.actions, plan.kept, unchanged, dry_run=False), now


def _touched(wanted: Actions) -> Iterable[bytes]:
    """Every path that the actions have to do with, sorted."""
    if any(action.source != action.path for action in wanted):
        return sorted({path for action in wanted for path in (action.path, action.source)})
    return (action.path for action in wanted)


def _choose(
    wanted: Actions,
    finder: manifest.Finder,
    strangers: Mapping[bytes, str],
    mounts: frozenset[bytes],
    kept: list[Kept],
    *,
    everything: bool,
) -> Iterator[Action]:
    """What of a reversed plan is to be done; the paths that stay as they are go into `kept`. `strangers` hold what cannot
    be stored, `mounts` what hides all below it.

    Parents come before children: what has no directory to go into any more is kept as it is, absent.
    """
    will_be: dict[bytes, Entry | None] = {}
    for action in wanted:
        there = finder.find(action.source)
        stranger = _stranger(action.source, strangers) if strangers else None
        if stranger is not None and (stranger in mounts or stranger == action.source or action.after is not None):
            kept.append(Kept(action.path, f"edited since: {strangers[stranger]}", benign=False))
        elif manifest.same(there, action.after) and action.source == action.path:
            continue
        elif not (everything or manifest.same(there, action.before)):
            kept.append(Kept(action.path, "edited since", benign=False))
        elif action.after is not None and not _has_place(action.path, finder, will_be):
            kept.append(Kept(action.path, "its directory was replaced or removed since", benign=False))
        else:
            if DIR in (there and there.kind, action.after and action.after.kind):
                will_be[action.path] = action.after  # of what is no directory before or after, nothing is asked
            yield Action(action.path, there, action.after, action.source)


def _stranger(path: bytes, strangers: Mapping[bytes, str]) -> bytes | None:
    """The path of what cannot be stored, at a path or above it; None where all can."""
    return next((place for place in (*paths.parents(path), path) if place in strangers), None)


def _has_place(path: bytes, finder: manifest.Finder, will_be: Mapping[bytes, Entry | None]) -> bool:
    """True when everything above a path is, or will have become, a directory."""
    above = (will_be[place] if place in will_be else finder.find(place) for place in paths.parents(path))
    return all(entry is not None and entry.kind == DIR for entry in above)


_CONTINUE = (
    "Move it away and say casrewind restore --continue again, or take the restore back with casrewind restore --abort"
)
_ABORT = "Move it away and say casrewind restore --abort again"
_INVERSE = {undo_history.RESTORE: undo_history.UNDO, undo_history.UNDO: undo_history.REDO, undo_history.REDO: undo_history.UNDO}


def resume(site: Context, *, forward: bool) -> Restored:
    """Finish the interrupted restore, or take it back. A path that is neither as before it nor as it should become was
    edited since: it is kept and named. Raises NothingToUndo when there is none."""
    site.tree.follow_root()
    with site.store.restoring(site.root.key), site.store.session() as session:
        try:
            operation = site.store.journals.read(site.root.key)
            if operation is None:
                raise errors.NothingToUndo("no restore was interrupted here: there is nothing to continue or abort")
            actions = site.store.plan(operation.plan)
            back = plans.reverse(actions)
            first = Applier(site.tree, actions, site.store.content, operation.safety)
            second = Applier(site.tree, back, site.store.content, operation.safety + "r")
        except (errors.StoreDamaged, errors.UnsafePath) as error:
            if forward:
                raise
            raise _give_up(site, error) from error
        try:
            # what is in its place already needs neither a blob nor space
            wanted = actions if forward else back
            hidden = under_mounts(site, wanted)  # of what was done there nothing can be seen, temporary files included
            if hidden and forward:
                raise in_the_way(list(dict.fromkeys(hidden.values())), _CONTINUE)
            where = f"checkpoint {operation.safety} has its state before the restore"
            left_alone = [Kept(path, f"{why}; {where}", benign=False) for path, why in hidden.items()]
            first.spare(left_alone)
            second.spare(left_alone)
            left = (action for action in wanted if action.path not in hidden)
            left = (action for action in left if not same(first.ground.present(action.path), action.after))
            prove(site, plans.pack(left), _CONTINUE if forward else _ABORT)
            settle(first.ground, actions)
            settle(second.ground, back)
            if forward:
                unwind(second.ground, back)
                outcome = first.run()
            else:
                unwind(first.ground, actions)
                outcome = second.run()
            kept = tuple({**first.ground.kept, **second.ground.kept}.values())
        except OSError as error:
            raise interrupted(error) from error
        report = Restored(
            operation.op, operation.target, operation.safety, actions if forward else back, kept, 0, dry_run=False
        )
        history = site.store.history(site.root.key)
        recorded = next((s for s in (*history.undo, *history.redo) if s.safety == operation.safety), None)
        if forward and recorded is None:
            return finish(site, session, operation, report, actions, outcome)
        if not forward and recorded is not None:  # the ledger tells of it already: now it tells that it was taken back
            plan = session.put(packs.PLAN, plans.encode(outcome.done))
            site.store.add_blobs(session)
            back_again = operation._replace(op=_INVERSE[operation.op], plan=plan, current=recorded.before)
            site.store.record_operation(back_again._replace(created_ns=time.time_ns()))
        return _close(site, operation, report, outcome)


def _give_up(site: Context, error: errors.CasrewindError) -> errors.StoreDamaged:
    """Nobody can say any more what the restore was about: let go of it, and say where the state before it is."""
    head = site.store.head(site.root.key)
    while head is not None and head.trigger != checkpoints.SAFETY:
        head = site.store.checkpoint(head.parent) if head.parent else None
    aside = site.store.journals.set_aside(site.root.key)
    where = f"; the newest state before a restore is {head.id}: casrewind restore {head.id}" if head is not None else ""
    return errors.StoreDamaged(
        f"{error}. What was under way is unknown; it is left as it is, and its journal is now {fsio.show(aside)}{where}"
    )


def _close(site: Context, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    site.store.journals.remove(operation.worktree)
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept})))
