"""After an interruption: finish the restore that was under way, or take it back."""

import time

from .. import errors, fsio
from ..model import checkpoint as checkpoints
from ..model import operation as operations
from ..model import plan as plans
from ..model.manifest import same
from ..model.operation import Operation
from ..model.plan import Kept
from ..store import packs
from ..worktree.apply import Applier, Outcome
from ..worktree.settle import settle, unwind
from .capture import in_the_way
from .execute import Restored, finish, interrupted
from .preflight import prove, under_mounts
from .site import Site

_CONTINUE = (
    "Move it away and say casrewind restore --continue again, or take the restore back with casrewind restore --abort"
)
_ABORT = "Move it away and say casrewind restore --abort again"
_INVERSE = {operations.RESTORE: operations.UNDO, operations.UNDO: operations.REDO, operations.REDO: operations.UNDO}


def resume(site: Site, *, forward: bool) -> Restored:
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


def _give_up(site: Site, error: errors.CasrewindError) -> errors.StoreDamaged:
    """Nobody can say any more what the restore was about: let go of it, and say where the state before it is."""
    head = site.store.head(site.root.key)
    while head is not None and head.trigger != checkpoints.SAFETY:
        head = site.store.checkpoint(head.parent) if head.parent else None
    aside = site.store.journals.set_aside(site.root.key)
    where = f"; the newest state before a restore is {head.id}: casrewind restore {head.id}" if head is not None else ""
    return errors.StoreDamaged(
        f"{error}. What was under way is unknown; it is left as it is, and its journal is now {fsio.show(aside)}{where}"
    )


def _close(site: Site, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    site.store.journals.remove(operation.worktree)
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept})))
