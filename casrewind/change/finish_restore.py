"""An interrupted restore: finish it (`restore --continue`), or reverse it (`--abort`).

Two dangers are prevented here. An interrupted restore that can be neither finished nor reversed: obstacles are named before
the first change, and a path that was edited since is kept. And a turn that is charged with what is done here: an agent may
have begun to work since. So there is a safety checkpoint before it, and a record of what was done after it: turns are cut
there. Undo knows neither.
"""

from collections.abc import Iterable, Iterator

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history import present_scan
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model import manifest, undo_history
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import same_for_restore
from ..model.plan import Action, Actions, Kept
from ..model.undo_history import ABORT, CONTINUE, Operation
from ..store import packs
from ..store.writer import StoreWriter
from ..worktree.apply import Applier, Outcome
from ..worktree.displaced import DisplacedFiles
from ..worktree.recover import move_or_remove_temporary_files, put_replaced_directories_back, with_modes_that_took
from .execute import interruption_error, made_now, publish_safety_checkpoint, record_and_close_journal
from .preflight import check_and_read_blobs, find_actions_below_mounts, find_open_files, refuse_open_databases
from .result import Restored
from .safety_capture import CapturedState, add_present_paths, obstacles_error

_CONTINUE = (
    "{} and run casrewind restore --continue again, or take the restore back with casrewind restore --abort"
)
_ABORT = "{} and run casrewind restore --abort again"
_INVERSE = {undo_history.RESTORE: undo_history.UNDO, undo_history.UNDO: undo_history.REDO, undo_history.REDO: undo_history.UNDO}


def finish_restore(context: Context, *, forward: bool, open_files: bool = False) -> Restored:
    """Finish the interrupted restore, or reverse it. A path in neither its old nor its new state was edited since: it
    is kept and reported. Raises NothingToUndo if no restore was interrupted, and DatabaseOpen unless `open_files`."""
    context.tree.reopen_root_if_replaced()
    with context.store.hold_restore_lock(context.root.key), context.store.writing() as writer:
        try:
            operation = context.store.journals.read(context.root.key)
            if operation is None:
                raise errors.NothingToUndo("no restore was interrupted here: there is nothing to continue or abort")
            actions = context.store.plan(operation.plan)
            actions, incomplete = with_modes_that_took(DisplacedFiles(context.tree, actions, operation.safety), actions)
            back = plans.reverse(actions)
            first = Applier(context.tree, actions, context.store.content, operation.safety, context.progress)
            second = Applier(context.tree, back, context.store.content, operation.safety + "r", context.progress)
        except (errors.StoreDamaged, errors.UnsafePath) as error:
            if forward:
                raise
            raise _set_journal_aside(context, error) from error
        try:
            # a path that is already in place needs neither a blob nor space
            wanted = actions if forward else back
            hidden = find_actions_below_mounts(context, wanted)  # actions there, temporary files included, are not visible
            if hidden and forward:
                raise obstacles_error(list(dict.fromkeys(hidden.values())), _CONTINUE)
            where = f"checkpoint {operation.safety} has its state before the restore"
            left_alone = [Kept(path, f"{why}; {where}", benign=False) for path, why in hidden.items()]
            first.exclude_from_plan(left_alone)
            second.exclude_from_plan(left_alone)
            left = [
                action for action in wanted
                if action.path not in hidden and not same_for_restore(first.displaced.hash_entry(action.path), action.after)
            ]  # fmt: skip
            refuse_open_databases(() if open_files else find_open_files(context, left))
            missing = plans.sort_and_pack(left)
            check_and_read_blobs(context, missing, _CONTINUE if forward else _ABORT)
            cut = _safety_checkpoint(context, writer, operation, actions, forward=forward, is_needed=bool(missing))
            move_or_remove_temporary_files(first.displaced, actions)
            move_or_remove_temporary_files(second.displaced, back)
            if forward:
                put_replaced_directories_back(second.displaced, back)
                outcome = first.carry_out_plan()
            else:
                put_replaced_directories_back(first.displaced, actions)
                outcome = second.carry_out_plan()
            kept = tuple({**first.displaced.kept, **second.displaced.kept}.values())
            outcome = outcome._replace(incomplete=(*outcome.incomplete, *incomplete) if forward else outcome.incomplete)
        except OSError as error:
            raise interruption_error(error) from error
        before = operation.safety if forward else "" if cut is None else cut.point.id
        report = Restored(operation.op, operation.target, before, actions if forward else back, kept, 0, dry_run=False)
        is_recorded = _record_end(context, writer, operation, cut, outcome.done, forward=forward)
        if forward and not is_recorded:
            return record_and_close_journal(context, writer, operation, report, actions, outcome)
        if cut is not None and not forward:
            outcome = outcome._replace(done=plans.sort_and_pack(_changes_of(context, cut.point, outcome.done)))
        return _remove_journal_and_report(context, operation, report, outcome)


class _Cut(NamedTuple):
    """The safety checkpoint of a half-restored state. `is_recorded`: what was done from there is in the ledger already."""

    point: Checkpoint
    is_recorded: bool = False


def _safety_checkpoint(
    context: Context, writer: StoreWriter, operation: Operation, actions: Actions, *, forward: bool, is_needed: bool
) -> _Cut | None:
    """The checkpoint of the half-restored state, at which turns are cut. None if none is needed, or if the disk is full: to take
    a restore back must not have to wait for space.

    An abort always makes one: the state without it is no checkpoint's. To finish a restore needs one if something is left to do
    and a checkpoint was made since it began, because a turn may have begun there."""
    head = context.store.head(context.root.key)
    if head is None:
        return None
    way = CONTINUE if forward else ABORT
    if head.trigger == checkpoints.SAFETY and head.more.op in (ABORT, CONTINUE) and head.more.target == operation.safety:
        recorded = [done.op for done in context.store.operations() if done.safety == head.id]
        if recorded in ([], [way]):  # of this command, which was interrupted, too
            return _Cut(head, bool(recorded))
    if forward and (not is_needed or head.id == operation.safety):
        return None
    scan = present_scan.scan_now(context, writer)
    unread = (path for path in sorted({path for action in actions for path in (action.path, action.source)}) if path not in scan.read)
    tree = add_present_paths(context, writer, scan.tree, unread, {}, strangers={})
    end = operation._replace(target=operation.safety)
    report = Restored(way, end.target, "", (), (), 0, dry_run=False)
    try:
        return _Cut(publish_safety_checkpoint(context, writer, end, report, CapturedState(tree, scan, writer.load_tree)))
    except errors.StoreFull:
        if forward:
            raise
        return None


def _record_end(
    context: Context, writer: StoreWriter, operation: Operation, cut: _Cut | None, done: Actions, *, forward: bool
) -> bool:
    """Record what was done behind `cut`. Returns True if the interrupted operation itself is in the ledger already."""
    history = context.store.history(context.root.key)
    steps = {step.safety: step for step in (*history.undo, *history.redo)}
    recorded = steps.get(operation.safety)
    if not forward and recorded is not None:
        safety = operation.safety if cut is None else cut.point.id
        reversal = operation._replace(op=_INVERSE[operation.op], safety=safety, current=recorded.before)
        _record(context, writer, reversal, done)
    elif cut is not None and not cut.is_recorded and cut.point.id not in steps:
        end = Operation(CONTINUE if forward else ABORT, 0, context.root.key, operation.safety, cut.point.id, b"", "")
        _record(context, writer, end, _changes_of(context, cut.point, done))
    return recorded is not None


def _record(context: Context, writer: StoreWriter, operation: Operation, done: Iterable[Action]) -> None:
    """Append what was done to the ledger."""
    plan = writer.put(packs.PLAN, plans.encode(done))
    context.store.add_blobs(writer)
    context.store.record_operation(made_now(context, operation._replace(plan=plan)))


def _changes_of(context: Context, cut: Checkpoint, done: Actions) -> Iterator[Action]:
    """What these actions changed in the state of the checkpoint `cut`, which had some of their results already."""
    finder = manifest.Finder(context.store.load_tree, cut.tree)
    for action in done:
        source = action.source if action.source == action.path or finder.find(action.source) is not None else action.path
        there = finder.find(source)
        if not same_for_restore(there, action.after):
            yield Action(action.path, there, action.after, source)


def _set_journal_aside(context: Context, error: errors.CasrewindError) -> errors.StoreDamaged:
    """Set aside an unreadable journal. The error names the state before the restore."""
    head = context.store.head(context.root.key)
    while head is not None and head.trigger != checkpoints.SAFETY:
        head = context.store.checkpoint(head.parent) if head.parent else None
    aside = context.store.journals.set_journal_aside(context.root.key)
    hint = error.hint if head is None else f"{error.hint}, and casrewind restore {head.id} goes to the newest state before a restore"
    return errors.StoreDamaged(
        f"{error.problem}. What was under way is unknown; it is left as it is, and its journal is now {printable(aside)}", hint
    )


def _remove_journal_and_report(context: Context, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    context.store.journals.remove(operation.worktree)
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept, *outcome.incomplete})))
