"""After an interruption: finish the restore that was under way, or take it back."""

from .. import errors, fsio
from ..model import plan as plans
from ..model.operation import Operation
from ..worktree.apply import Applier, Outcome
from ..worktree.settle import settle, unwind
from .carry import Restored, finish, interrupted, prove
from .site import Site


def resume(site: Site, *, forward: bool) -> Restored:
    """Finish the interrupted restore, or take it back. A path that is neither as before it nor as it should become was
    edited since: it is kept and named. Raises NothingToUndo when there is none."""
    with site.store.restoring(site.root.key), site.store.session() as session:
        operation = site.store.journals.read(site.root.key)
        if operation is None:
            raise errors.NothingToUndo("no restore was interrupted in this worktree: there is nothing to continue or abort")
        actions = site.store.plan(operation.plan)
        back = plans.reverse(actions)
        prove(site, actions if forward else back)
        first = Applier(site.tree, actions, site.store.content, operation.safety)
        second = Applier(site.tree, back, site.store.content, operation.safety + "r")
        try:
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
        if not forward:
            return _finish_abort(site, operation, report, outcome)
        history = site.store.history(site.root.key)
        if any(step.safety == operation.safety for step in (*history.undo, *history.redo)):
            return _finish_abort(site, operation, report, outcome)  # its record was written before the interruption
        return finish(site, session, operation, report, actions, outcome)


def _finish_abort(site: Site, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    try:
        site.store.journals.remove(operation.worktree)
    except OSError as error:
        raise fsio.store_error(error, "closing the journal in", site.store.path) from error
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept})))
