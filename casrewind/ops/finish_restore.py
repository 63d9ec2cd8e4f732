"""An interrupted restore: finish it (`restore --continue`), or reverse it (`--abort`).

The danger prevented here: an interrupted restore that can be neither finished nor reversed. Obstacles are named before
the first change. A path that was edited since is kept.
"""

import time

from .. import errors
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model import history as undo_history
from ..model import plan as plans
from ..model.history import Operation
from ..model.manifest import same_for_restore
from ..model.plan import Kept
from ..store import packs
from ..worktree.apply import Applier, Outcome
from ..worktree.displaced import DisplacedFiles
from ..worktree.recover import move_or_remove_temporary_files, put_replaced_directories_back, with_narrowed_modes
from .capture_before_restore import obstacles_error
from .context import Context
from .execute import Restored, interruption_error, record_and_close_journal
from .preflight import check_and_read_blobs, find_actions_below_mounts

_CONTINUE = (
    "{} and run casrewind restore --continue again, or take the restore back with casrewind restore --abort"
)
_ABORT = "{} and run casrewind restore --abort again"
_INVERSE = {undo_history.RESTORE: undo_history.UNDO, undo_history.UNDO: undo_history.REDO, undo_history.REDO: undo_history.UNDO}


def finish_restore(context: Context, *, forward: bool) -> Restored:
    """Finish the interrupted restore, or reverse it. A path in neither its old nor its new state was edited since: it
    is kept and reported. Raises NothingToUndo if no restore was interrupted."""
    context.tree.reopen_root_if_replaced()
    with context.store.hold_restore_lock(context.root.key), context.store.writing() as writer:
        try:
            operation = context.store.journals.read(context.root.key)
            if operation is None:
                raise errors.NothingToUndo("no restore was interrupted here: there is nothing to continue or abort")
            actions = context.store.plan(operation.plan)
            actions, narrowed = with_narrowed_modes(DisplacedFiles(context.tree, actions, operation.safety), actions)
            back = plans.reverse(actions)
            first = Applier(context.tree, actions, context.store.content, operation.safety)
            second = Applier(context.tree, back, context.store.content, operation.safety + "r")
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
            left = (action for action in wanted if action.path not in hidden)
            left = (action for action in left if not same_for_restore(first.displaced.hash_entry(action.path), action.after))
            check_and_read_blobs(context, plans.sort_and_pack(left), _CONTINUE if forward else _ABORT)
            move_or_remove_temporary_files(first.displaced, actions)
            move_or_remove_temporary_files(second.displaced, back)
            if forward:
                put_replaced_directories_back(second.displaced, back)
                outcome = first.carry_out_plan()
            else:
                put_replaced_directories_back(first.displaced, actions)
                outcome = second.carry_out_plan()
            kept = tuple({**first.displaced.kept, **second.displaced.kept}.values())
            outcome = outcome._replace(narrowed=(*outcome.narrowed, *narrowed) if forward else outcome.narrowed)
        except OSError as error:
            raise interruption_error(error) from error
        report = Restored(
            operation.op, operation.target, operation.safety, actions if forward else back, kept, 0, dry_run=False
        )
        history = context.store.history(context.root.key)
        recorded = next((s for s in (*history.undo, *history.redo) if s.safety == operation.safety), None)
        if forward and recorded is None:
            return record_and_close_journal(context, writer, operation, report, actions, outcome)
        if not forward and recorded is not None:  # the restore is in the ledger already: record its reversal too
            plan = writer.put(packs.PLAN, plans.encode(outcome.done))
            context.store.add_blobs(writer)
            back_again = operation._replace(op=_INVERSE[operation.op], plan=plan, current=recorded.before)
            context.store.record_operation(back_again._replace(created_ns=time.time_ns()))
        return _remove_journal_and_report(context, operation, report, outcome)


def _set_journal_aside(context: Context, error: errors.CasrewindError) -> errors.StoreDamaged:
    """Set aside an unreadable journal. The error names the state before the restore."""
    head = context.store.head(context.root.key)
    while head is not None and head.trigger != checkpoints.SAFETY:
        head = context.store.checkpoint(head.parent) if head.parent else None
    aside = context.store.journals.rename_out_of_the_way(context.root.key)
    hint = error.hint if head is None else f"{error.hint}, and casrewind restore {head.id} goes to the newest state before a restore"
    return errors.StoreDamaged(
        f"{error.problem}. What was under way is unknown; it is left as it is, and its journal is now {printable(aside)}", hint
    )


def _remove_journal_and_report(context: Context, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    context.store.journals.remove(operation.worktree)
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept, *outcome.narrowed})))
