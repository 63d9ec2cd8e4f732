"""Restore: reset the worktree to a checkpoint.

The danger prevented here: a restore overwrites or deletes bytes that no checkpoint holds. So it looks first: it
captures the current state, plans the changes, and checks everything that could refuse them. `worktree_change` does the rest.
"""

from collections.abc import Sequence

from .. import errors
from .._typing import TYPE_CHECKING
from ..context import Context
from ..history.restorable import RecordedPaths, name_checkpoint_in_errors, recorded_coverage
from ..messages import printable
from ..model import diff as diffs
from ..model import paths, undo_history
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR
from ..model.plan import Kept, Plan
from ..model.respelled import refuse_paths_with_one_name
from ..model.undo_history import Operation
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.protected_places import PROTECTED, ProtectedPlaces
from . import preflight, safety_capture
from .result import Restored
from .safety_capture import CapturedState
from .worktree_change import ChangeRecord, WorktreeChange

if TYPE_CHECKING:  # few restores have chosen edits, or go with a conversation
    from ..history.provenance import OtherSessions
    from .chosen_edits import ChosenEdits

_LATE = "it changed after the checkpoint's time, and was stored as changed"
_TORN = "was changing while it was saved: its stored bytes may be torn"


def prepare_restore(
    context: Context,
    target: Checkpoint,
    *,
    scope: Sequence[bytes] = (),
    skip_damaged: bool = False,
    keep_edits: bool = False,
    edits: "ChosenEdits | None" = None,
    others: "OtherSessions | None" = None,
) -> WorktreeChange:
    """The change that resets the worktree (or the paths in `scope`) to `target`.

    `skip_damaged` keeps paths with damaged content in the store as they are. With `keep_edits`, only what turns did since is
    taken back; of another machine, only what it changed is taken over. `edits`: the paths in `scope` that are chosen, and what
    of each. `others`: the plan names what they may have changed. Raises JournalOpen, RootRefused,
    PathNotFound (no path in `scope` exists), ContentInTheWay, StoreFull, StoreDamaged and others; then nothing was changed.
    """
    if target.worktree != context.root.key and not target.more.machine:
        raise errors.RootRefused(
            f"checkpoint {target.id} belongs to {printable(target.root)}, not to {printable(context.root.path)}",
            f"restore it there, or elsewhere: casrewind restore {target.id} --to DIR"
        )
    current = "" if scope or keep_edits or edits is not None else target.id
    record = ChangeRecord(Operation(undo_history.RESTORE, 0, context.root.key, target.id, "", b"", current), target, others=others)

    def look(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        return _plan_from_target(context, writer, target, scope, edits, skip_damaged=skip_damaged, keep_edits=keep_edits)

    return WorktreeChange(context, look, record)


def _plan_from_target(
    context: Context, writer: StoreWriter | DryRunWriter, target: Checkpoint, scope: Sequence[bytes], edits: "ChosenEdits | None", *,
    skip_damaged: bool, keep_edits: bool,
) -> tuple[Restored, CapturedState]:  # fmt: skip
    """Returns (what a restore would do and keep, the current state)."""
    keeping = None
    if keep_edits:
        from .machine_merge import edit_keeper

        keeping = edit_keeper(context, target, scope, skip_damaged=skip_damaged)
    if scope:
        from ..history.compare import missing_paths

        missing_paths(context, [target], scope)
    with name_checkpoint_in_errors(context.store):
        now = safety_capture.capture_for(context, writer, target.tree, scope)
    scope = now.scope
    record = recorded_coverage(context.store, target)
    places = paths.PathScope(scope)
    lost = [*(item for item in now.target.lost if places.covers(item.path)), *record.lost]
    plan = _plan_for_target(context, now, record, scope)
    if keeping is not None:
        plan, now = keeping.plan(writer, now, plan)
    plan = preflight.checked_plan(
        context, now, plan, hint=preflight.SKIP_DAMAGED, lost=lost, made=() if keeping is None else keeping.made,
        skip_damaged=skip_damaged, benign=True,
    )  # fmt: skip
    if edits is not None:
        from .chosen_edits import chosen_actions

        plan = plan._replace(actions=chosen_actions(plans.sort_and_pack(plan.actions), edits, writer))
    report = _report_of_restore(target, now, plan, [*plan.kept, *lost, *now.kept, *_torn_paths(plan, record)], scope)
    if keeping is not None:
        report = report._replace(
            merged=keeping.files_merged_by_lines(plan), edited=keeping.paths_with_edits(plan), read=keeping.read_planned,
            turns=keeping.turns,
        )  # fmt: skip
    return report, now


def _plan_for_target(context: Context, now: CapturedState, record: RecordedPaths, scope: Sequence[bytes]) -> Plan:
    plan = plans.build_plan(diffs.diff(now.load, now.tree, now.target.tree), record.why_not_captured, scope)
    if context.tree.ignores_case_in_names():
        refuse_paths_with_one_name(now.target.named or ())
    if record.late:
        late = frozenset(record.late)
        left = [Kept(action.path, _LATE, benign=False) for action in plan.actions if action.path in late]
        plan = preflight.without_lost_paths(plan, left)
    actions, protected = ProtectedPlaces(context.tree, context.policy.excluded, scope).split_off_protected(plan.actions)
    plan = Plan(actions, plan.kept)
    return plans.keep_paths(plan, protected) if protected else plan


def _torn_paths(plan: Plan, record: RecordedPaths) -> list[Kept]:
    """The restored paths with possibly torn content: it was changing during the save."""
    actions = plans.sort_and_pack(plan.actions)
    return [Kept(path, _TORN, benign=False) for path in record.unstable if actions.get(path) is not None]


def _report_of_restore(target: Checkpoint, now: CapturedState, plan: Plan, kept: list[Kept], scope: Sequence[bytes]) -> Restored:
    written = (action.path for action in plan.actions if action.after is not None and action.after.kind != DIR)
    if scope:
        places = paths.PathScope(scope)
        named = {path: kind for path, kind in (now.target.named or {}).items() if places.covers(path)}
        seen = {*named, *(path for action in plan.actions for path in (action.path, action.source)), *(item.path for item in kept)}
        kept += [
            Kept(place, "not in the checkpoint", benign=False)  # so that a misspelled path does not look unchanged
            for place in places.paths_without_any(seen)
        ]
        left = {item.path for item in kept if item.reason in PROTECTED}
        files = (path for path, kind in named.items() if kind != DIR)
        unchanged = len({path for path in files if left.isdisjoint((path, *paths.parents(path)))}.difference(written))
    else:
        unchanged = now.files - sum(1 for _ in written)
    return Restored(undo_history.RESTORE, target.id, "", plan.actions, tuple(sorted(kept)), unchanged, dry_run=True)
