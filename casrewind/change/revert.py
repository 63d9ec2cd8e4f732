"""Revert: takes back what turns changed, path by path, and keeps everything that was done since.

The danger prevented here: work of a person or of another turn is lost. What is left alone says change/edits.py, and what a path
becomes change/path_merger.py.
"""

from collections.abc import Mapping, Sequence

from .. import errors
from ..context import Context
from ..history.provenance import Provenance
from ..history.turn_view import TurnView
from ..model import manifest
from ..model import plan as plans
from ..model.checkpoint import RUN
from ..model.plan import SHARED, UNSEEN_END, Actions, Plan
from ..model.turn_records import Turn
from ..model.undo_history import RESTORE, REVERT, Operation
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.scan import Scan
from .chosen_edits import ChosenEdit, ChosenEdits, changed_error, chosen_actions
from .edits import PathEdit, edits_of_turns, left_alone, name_parts, reversed_action
from .moved_files import keep_moved_files
from .path_merger import ASIDE, PathMerger
from .possible_actions import prepare_actions
from .result import Restored
from .safety_capture import CapturedState
from .worktree_change import ChangeRecord, WorktreeChange

ADD_RUNNING = "wait, or add --running to reverse what it did so far"
"""What a person does where a turn still runs."""


def prepare_revert(
    context: Context,
    view: TurnView,
    turns: Sequence[Turn],
    scope: Sequence[bytes] = (),
    *,
    shared: bool = False,
    running: bool = False,
    conflicts: str = ASIDE,
    skip_damaged: bool = False,
    edits: ChosenEdits | None = None,
    hunks: Mapping[bytes, ChosenEdit] | None = None,
) -> WorktreeChange:
    """The change that takes back what `turns` (of `view`, the newest first) changed, at the paths in `scope` or everywhere.

    `shared`: also where other turns may have changed a path at the same time, or a person behind a turn whose end nobody saw.
    `running`: also a turn that still runs; else
    StoreBusy is raised. `conflicts`: see ASIDE. `edits`: the chosen paths of the plan, and the chosen part of each. `hunks`: the chosen
    hunks of what a single turn changed in its files. `undo` undoes a revert. Raises ContentInTheWay if a chosen path has
    changed since it was shown, CheckpointNotFound if a turn's change is not known, PathNotFound if no turn changed a path
    in `scope`, StoreDamaged unless `skip_damaged`, else as a restore does.
    """
    still = next((turn for turn in turns if turn.running), None)
    if still is not None and not running:
        why = "its command still runs" if still.agent == RUN else "its agent still works, or was stopped with Esc"
        raise errors.StoreBusy(
            f"{still.name} has not ended: {why}",
            ADD_RUNNING
        )
    oldest = view.points.get(turns[-1].before or "")
    provenance = Provenance(context, view, 0 if oldest is None else oldest.seq, [turn.n for turn in turns])
    done = edits_of_turns(view, turns, scope, None if hunks else provenance, shared=shared, skip_damaged=skip_damaged)
    if hunks:
        done = done._replace(by_path={path: _with_chosen_hunks(made, hunks.get(path)) for path, made in done.by_path.items()})
    before = view.points[turns[-1].before or ""]
    hint = f"casrewind revert --skip-damaged takes back the rest, casrewind restore {before.id} PATH what is sound"
    parts = (hunks or {}).values()

    def actions(_scan: Scan) -> Actions:
        return plans.sort_and_pack(reversed_action(path, made) for path, made in done.by_path.items())

    def look(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        files = PathMerger(context, done.by_path, provenance, conflicts, is_one=len(turns) == 1, skip_damaged=skip_damaged, hint=hint)
        files.contents.chosen = {part.wanted.digest: part.data for part in parts if part.wanted is not None and part.data is not None}
        files.set_writer_of_new_contents(writer)
        report, now = prepare_actions(
            context, writer, actions, REVERT, before.id, hint, files.resolve, made=files.made, skip_damaged=skip_damaged
        )
        left = (item._replace(option="--shared" if item.why in (SHARED, UNSEEN_END) else "") for item in left_alone(done, now))
        plan = name_parts(Plan(report.actions, tuple(sorted((*report.kept, *left)))), done)
        plan = keep_moved_files(plan, done, now, files.contents, provenance.versions_of)
        planned = plans.sort_and_pack(plan.actions)
        if edits is not None:
            planned = chosen_actions(planned, edits, writer)
        merged = files.merged_by(planned)
        return report._replace(actions=planned, kept=plan.kept, merged=merged, read=files.contents.read_planned), now

    return WorktreeChange(context, look, ChangeRecord(Operation(RESTORE, 0, context.root.key, before.id, "", b"", ""), before))


def _with_chosen_hunks(edits: Sequence[PathEdit], chosen: ChosenEdit | None) -> Sequence[PathEdit]:
    """The edit of a single turn, with the chosen hunks of it."""
    if chosen is None:
        return edits
    (edit,) = edits
    if not (manifest.same_for_restore(edit.change.new, chosen.shown.old) and manifest.same_for_restore(edit.change.old, chosen.shown.new)):
        raise changed_error(edit.change.path)
    return [edit._replace(change=edit.change._replace(old=chosen.wanted))]
