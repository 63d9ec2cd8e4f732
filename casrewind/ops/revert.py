"""Revert: take back what one turn changed, and nothing else.

The danger prevented here: a revert also removes work that the turn did not do. A path that was edited since is kept,
and so is a path that another turn may have changed at the same time.
"""

from collections.abc import Iterable, Sequence

from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.history import RESTORE, REVERT, Operation
from ..model.plan import Action, Actions, Kept, Plan
from ..store.writer import DryRunWriter
from . import preflight
from .context import Context
from .execute import Restored, execute
from .restore import Confirm, Declined
from .undo import prepare


def revert(
    context: Context,
    before: Checkpoint,
    changes: Sequence[Change],
    left: Iterable[Kept] = (),
    *,
    dry_run: bool = False,
    confirm: Confirm | None = None,
) -> Restored:
    """Take back the `changes` of the turn that the checkpoint `before` opened. `left`: paths that are kept, and why.

    `dry_run` changes nothing. `confirm` is asked with the plan; without its consent, Declined is raised. `undo` undoes
    a revert. Raises as a restore does.
    """
    kept = tuple(left)

    def reversed_actions() -> Actions:
        return plans.pack(Action(change.path, change.new, change.old, change.path) for change in changes)

    hint = f"casrewind restore {before.id} PATH takes back what is sound"
    preflight.refuse_open_journal(context)
    if dry_run:
        report, now = prepare(context, DryRunWriter(context.store.read), reversed_actions, REVERT, before.id, hint)
        preflight.check_actions(context, now, report.actions)
        return _with(report, kept)._replace(dry_run=True)
    with context.store.restoring(context.root.key), context.store.session() as session:
        preflight.refuse_open_journal(context)
        preflight.refuse_forgotten(context, before)
        report, now = prepare(context, session, reversed_actions, REVERT, before.id, hint)
        report = _with(report, kept)
        if not report.actions:
            return report
        if confirm is not None and not confirm(Plan(report.actions, report.kept)):
            raise Declined
        actions = preflight.check_actions(context, now, report.actions)
        return execute(context, session, Operation(RESTORE, 0, context.root.key, before.id, "", b"", ""), report, now, actions)


def _with(report: Restored, kept: tuple[Kept, ...]) -> Restored:
    return report._replace(kept=tuple(sorted((*report.kept, *kept))))
