"""Undo and redo: reverse the newest restore (or undo) path by path. Continue or abort an interrupted restore
(`resume`).

The danger prevented here: work done after a restore is lost when the restore is undone. Paths edited since are kept.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from .. import errors, fsio
from .._typing import TYPE_CHECKING
from ..model import checkpoint as checkpoints
from ..model import history as undo_history
from ..model import manifest, paths
from ..model import plan as plans
from ..model.history import Operation
from ..model.manifest import DIR, Entry, same
from ..model.plan import Action, Actions, Kept, Plan
from ..store import packs
from ..store.writer import DryRunWriter, StoreWriter
from ..worktree.apply import Applier, Outcome
from ..worktree.nested_stores import NestedStores
from ..worktree.recover import recover_files, unwind
from . import capture, preflight
from .capture import CapturedState, in_the_way
from .context import Context
from .execute import Restored, execute, finish, interrupted
from .preflight import prove, under_mounts

if TYPE_CHECKING:
    from .restore import Confirm


def undo(context: Context, *, everything: bool = False, dry_run: bool = False, confirm: "Confirm | None" = None) -> Restored:
    """Undo the newest restore: its paths, and only those. A path that was edited since is kept, unless `everything`.

    `dry_run` changes and publishes nothing. `confirm` is asked with the plan. Raises NothingToUndo, Declined.
    """
    history = context.store.history(context.root.key)
    if not history.undo:
        raise errors.NothingToUndo("nothing to undo: no restore was made in this worktree, or all of them are undone")
    return _take_back(context, undo_history.UNDO, history.undo[-1], everything=everything, dry_run=dry_run, confirm=confirm)


def redo(context: Context, *, dry_run: bool = False, confirm: "Confirm | None" = None) -> Restored:
    """Redo the newest undo, by the same rules. Raises NothingToUndo, Declined."""
    history = context.store.history(context.root.key)
    if not history.redo:
        raise errors.NothingToUndo("nothing to redo: no undo was made since the newest restore")
    return _take_back(context, undo_history.REDO, history.redo[-1], everything=False, dry_run=dry_run, confirm=confirm)


def _take_back(
    context: Context, op: str, step: undo_history.Step, *, everything: bool, dry_run: bool, confirm: "Confirm | None"
) -> Restored:
    preflight.refuse_open_journal(context)
    if dry_run:
        report, now = _prepare_step(context, DryRunWriter(context.store.read), op, step, everything=everything)
        preflight.check_actions(context, now, report.actions)
        return report._replace(dry_run=True)
    with context.store.restoring(context.root.key), context.store.session() as session:
        preflight.refuse_open_journal(context)
        report, now = _prepare_step(context, session, op, step, everything=everything)
        current = step.safety if op == undo_history.UNDO else step.before
        operation = Operation(op, 0, context.root.key, step.target, "", b"", current)
        if report.actions:
            if confirm is not None and not confirm(Plan(report.actions, report.kept)):
                from .restore import Declined

                raise Declined
            actions = preflight.check_actions(context, now, report.actions)
            return execute(context, session, operation, report, now, actions)
        if not report.kept:  # otherwise nothing was reversed, so the step remains
            empty = session.put(packs.PLAN, plans.encode(()))
            context.store.add_blobs(session)
            context.store.record_operation(operation._replace(plan=empty, created_ns=time.time_ns()))
        return report


def _prepare_step(
    context: Context, session: StoreWriter | DryRunWriter, op: str, step: undo_history.Step, *, everything: bool
) -> tuple[Restored, CapturedState]:
    hint = f"What is sound can be had with casrewind restore {step.safety or step.target} --skip-damaged"
    aim = step.safety if op == undo_history.UNDO else step.target
    return prepare(context, session, lambda: plans.reverse(context.store.plan(step.plan)), op, aim, hint, everything=everything)


def prepare(
    context: Context, session: StoreWriter | DryRunWriter, actions_of: Callable[[], Actions], op: str, aim: str, hint: str, *,
    everything: bool = False
) -> tuple[Restored, CapturedState]:
    """Returns (what reversed actions would do and keep, the current state). A path that was edited since is kept."""
    scan = capture.scan_now(context, session)
    wanted = actions_of()  # after the scan, to limit memory
    wanted, stores = NestedStores(context.tree, context.options.excluded).leave_alone(wanted)
    strangers: dict[bytes, str] = {}
    load = session.load_tree
    read = scan.read
    unread = (path for path in _touched(wanted) if path not in read)
    tree = capture.add_paths(context, session, scan.tree, unread, strangers=strangers)
    now = CapturedState(tree, scan, load)
    if everything and strangers:
        touched = frozenset(_touched(wanted))
        if obstacles := [why for path, why in strangers.items() if path in touched]:
            raise capture.in_the_way(obstacles)
    kept = list(stores)
    actions = plans.pack(_choose(wanted, manifest.Finder(load, tree), strangers, context.tree.mounts.points, kept, everything=everything))
    plan = preflight.check_plan(context, now, plans.keep_paths(Plan(actions, ()), kept), hint=hint, benign=False)
    unchanged = len(wanted) - len(plan.actions) - len({item.path for item in plan.kept} - {item.path for item in stores})
    return Restored(op, aim, "", plan.actions, plan.kept, unchanged, dry_run=False), now


def _touched(wanted: Actions) -> Iterable[bytes]:
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
    """Yield the possible actions of a reversed plan, and add the paths that are kept to `kept`. `strangers` are paths
    that cannot be stored, `mounts` are mount points. Parents come first; a path without a directory to go into is kept
    absent."""
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
                will_be[action.path] = action.after  # only directories affect other paths
            yield Action(action.path, there, action.after, action.source)


def _stranger(path: bytes, strangers: Mapping[bytes, str]) -> bytes | None:
    """The path at or above `path` that cannot be stored, or None."""
    return next((place for place in (*paths.parents(path), path) if place in strangers), None)


def _has_place(path: bytes, finder: manifest.Finder, will_be: Mapping[bytes, Entry | None]) -> bool:
    """True if every parent of a path is, or will be, a directory."""
    above = (will_be[place] if place in will_be else finder.find(place) for place in paths.parents(path))
    return all(entry is not None and entry.kind == DIR for entry in above)


_CONTINUE = (
    "Move it away and run casrewind restore --continue again, or take the restore back with casrewind restore --abort"
)
_ABORT = "Move it away and run casrewind restore --abort again"
_INVERSE = {undo_history.RESTORE: undo_history.UNDO, undo_history.UNDO: undo_history.REDO, undo_history.REDO: undo_history.UNDO}


def resume(context: Context, *, forward: bool) -> Restored:
    """Finish the interrupted restore, or reverse it. A path in neither its old nor its new state was edited since: it
    is kept and reported. Raises NothingToUndo if no restore was interrupted."""
    context.tree.follow_root()
    with context.store.restoring(context.root.key), context.store.session() as session:
        try:
            operation = context.store.journals.read(context.root.key)
            if operation is None:
                raise errors.NothingToUndo("no restore was interrupted here: there is nothing to continue or abort")
            actions = context.store.plan(operation.plan)
            back = plans.reverse(actions)
            first = Applier(context.tree, actions, context.store.content, operation.safety)
            second = Applier(context.tree, back, context.store.content, operation.safety + "r")
        except (errors.StoreDamaged, errors.UnsafePath) as error:
            if forward:
                raise
            raise _give_up(context, error) from error
        try:
            # a path that is already in place needs neither a blob nor space
            wanted = actions if forward else back
            hidden = under_mounts(context, wanted)  # actions there, temporary files included, are not visible
            if hidden and forward:
                raise in_the_way(list(dict.fromkeys(hidden.values())), _CONTINUE)
            where = f"checkpoint {operation.safety} has its state before the restore"
            left_alone = [Kept(path, f"{why}; {where}", benign=False) for path, why in hidden.items()]
            first.leave_alone(left_alone)
            second.leave_alone(left_alone)
            left = (action for action in wanted if action.path not in hidden)
            left = (action for action in left if not same(first.displaced.present(action.path), action.after))
            prove(context, plans.pack(left), _CONTINUE if forward else _ABORT)
            recover_files(first.displaced, actions)
            recover_files(second.displaced, back)
            if forward:
                unwind(second.displaced, back)
                outcome = first.run()
            else:
                unwind(first.displaced, actions)
                outcome = second.run()
            kept = tuple({**first.displaced.kept, **second.displaced.kept}.values())
        except OSError as error:
            raise interrupted(error) from error
        report = Restored(
            operation.op, operation.target, operation.safety, actions if forward else back, kept, 0, dry_run=False
        )
        history = context.store.history(context.root.key)
        recorded = next((s for s in (*history.undo, *history.redo) if s.safety == operation.safety), None)
        if forward and recorded is None:
            return finish(context, session, operation, report, actions, outcome)
        if not forward and recorded is not None:  # the restore is in the ledger already: record its reversal too
            plan = session.put(packs.PLAN, plans.encode(outcome.done))
            context.store.add_blobs(session)
            back_again = operation._replace(op=_INVERSE[operation.op], plan=plan, current=recorded.before)
            context.store.record_operation(back_again._replace(created_ns=time.time_ns()))
        return _close(context, operation, report, outcome)


def _give_up(context: Context, error: errors.CasrewindError) -> errors.StoreDamaged:
    """Set aside an unreadable journal. The error names the state before the restore."""
    head = context.store.head(context.root.key)
    while head is not None and head.trigger != checkpoints.SAFETY:
        head = context.store.checkpoint(head.parent) if head.parent else None
    aside = context.store.journals.set_aside(context.root.key)
    where = f"; the newest state before a restore is {head.id}: casrewind restore {head.id}" if head is not None else ""
    return errors.StoreDamaged(
        f"{error}. What was under way is unknown; it is left as it is, and its journal is now {fsio.printable(aside)}{where}"
    )


def _close(context: Context, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    context.store.journals.remove(operation.worktree)
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept})))
