"""A restore that keeps edits: takes back what all turns since a checkpoint changed, and nothing else.

The danger prevented here: a person's lines go away with the work of an agent. So each turn's change is taken back on its
own, the newest first, as a revert does, at every path that one of these turns changed. One merge with the
newest turn's end as base would take back the edits between two turns, too. Only the paths in which the checkpoint and now
differ would leave out a file that a person made and a turn removed: it is in neither. A path that no turn changed is not
touched.
"""

from collections.abc import Container, Sequence
from contextlib import suppress

from .. import errors
from ..context import Context
from ..history.provenance import Provenance, turns_since
from ..history.turn_view import TurnView
from ..model import manifest, merge
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..model.plan import OUTSIDE, SHARED, UNSEEN_END, Action, Kept, Merged, Plan
from ..model.turn_records import BACKGROUND, Turn
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.protected_places import ProtectedPlaces
from .edits import edits_of_turns, left_alone, name_parts, reversed_action
from .moved_files import MOVED, keep_moved_files
from .path_merger import DAMAGED, PathMerger
from .possible_actions import possible_actions
from .preflight import SKIP_DAMAGED
from .safety_capture import CapturedState, Stranger, add_present_paths

_NOT_EDITS = frozenset({SHARED, BACKGROUND, DAMAGED, UNSEEN_END, merge.IS_PURGED})
"""Words for why a path is left alone that may have no edit of a person."""


class KeptEdits:
    """Makes the plan that keeps edits from the plan of an exact restore to `target`. `made`: the digests of contents that it
    made itself. `turns`: those that it takes back, newest first; of another machine none."""

    def __init__(self, context: Context, target: Checkpoint, scope: Sequence[bytes], *, skip_damaged: bool) -> None:
        """Finds the turns. Raises UsageError if none began after `target`, CheckpointNotFound if some were forgotten."""
        self._context = context
        view = TurnView(context)
        turns, has_forgotten = turns_since(view, target)
        hint = f"casrewind restore --exact {target.id} restores the state itself"
        if not turns:
            raise errors.UsageError("no agent did anything since then, so there is nothing to take back", hint)
        if has_forgotten:
            raise errors.CheckpointNotFound(
                f"turns between {target.id} and now were forgotten: what they changed cannot be told from your edits", hint
            )
        self._numbers = frozenset(turn.n for turn in turns)
        provenance = Provenance(context, view, target.seq, self._numbers)
        done = edits_of_turns(view, turns, scope, provenance, skip_damaged=skip_damaged)
        self.turns: tuple[Turn, ...] = tuple(turns)
        self._done = done
        self._left = {item.path: _with_option(item) for item in done.kept}
        self._provenance: Provenance | None = provenance
        self._files = PathMerger(context, done.by_path, provenance, is_one=False, skip_damaged=skip_damaged, hint=SKIP_DAMAGED)
        self._exact: Sequence[Action] = ()
        self.made = self._files.made

    def plan(self, writer: StoreWriter | DryRunWriter, now: CapturedState, exact: Plan) -> tuple[Plan, CapturedState]:
        """The plan that keeps edits, and the present state with every path that it touches. New contents go into `writer`."""
        self._files.set_writer_of_new_contents(writer)
        self._exact = exact.actions
        known = {path for action in exact.actions for path in (action.path, action.source)} | {item.path for item in exact.kept}
        others = plans.sort_and_pack(reversed_action(path, edits) for path, edits in self._done.by_path.items() if path not in known)
        others, protected = ProtectedPlaces(self._context.tree, self._context.policy.excluded).split_off_protected(others)
        strangers, respelled = dict[bytes, Stranger](), dict(now.respelled)
        unread = (action.path for action in others if action.path not in now.scan.read)
        tree = add_present_paths(self._context, writer, now.tree, unread, respelled, strangers)
        now = now._replace(tree=tree, respelled=respelled)
        left = [_with_option(item) for item in left_alone(self._done, now)]
        in_part = [item for item in left if item.path in self._done.by_path]
        kept = [*protected, *(item for item in left if item.path not in known and item.path not in self._done.by_path)]
        wanted, points = plans.sort_and_pack([*exact.actions, *others]), self._context.tree.mounts.points
        finder = manifest.Finder(now.load, now.tree)
        actions = plans.sort_and_pack(possible_actions(wanted, finder, strangers, points, kept, self._resolve))
        plan = plans.keep_paths(Plan(actions, exact.kept), kept)
        plan = name_parts(plan._replace(kept=(*plan.kept, *in_part)), self._done)
        versions = None if self._provenance is None else self._provenance.versions_of
        plan = keep_moved_files(plan, self._done, now, self._files.contents, versions)
        return self._without_paths_taken_back(plan, known, finder), now

    def _without_paths_taken_back(self, plan: Plan, known: Container[bytes], finder: manifest.Finder) -> Plan:
        """The plan without the conflicts of paths that are as before the turns and as in the checkpoint: a restore took them back,
        and nobody has to read of it. Where content was moved, each path tells a part of where it went."""
        if any(item.why == MOVED for item in plan.kept):
            return plan

        def is_taken_back(item: Kept) -> bool:
            edits = self._done.by_path.get(item.path, ())
            is_conflict = item.why == merge.CONFLICTS and item.path not in known and bool(edits)
            return is_conflict and manifest.same_for_restore(finder.find(item.path), edits[-1].change.old)

        return plan._replace(kept=tuple(item for item in plan.kept if not is_taken_back(item)))

    def _resolve(self, action: Action, there: Entry | None) -> Entry | Kept | None:
        path = action.path
        if path in self._done.by_path:
            return self._files.resolve(action, there)
        outside = Kept(path, "it was edited outside of turns", benign=True, why=OUTSIDE)
        return self._left_to_other_turn(path, there) or self._left.get(path, outside)

    def _left_to_other_turn(self, path: bytes, there: Entry | None) -> Kept | None:
        """The reason if another turn may have edited a path, else None: one that was running at the checkpoint, or the background work of
        one. Such an edit cannot be taken back alone."""
        with suppress(errors.StoreDamaged, errors.ManifestRefused):
            for edit in () if self._provenance is None else self._provenance.edits_of(path, there):
                if edit.is_background:
                    reason = f"background work of @{edit.makers.turns[0]} changed it"
                    return Kept(path, reason, benign=False, why=BACKGROUND, by=edit.makers.turns)
                others = [number for number in edit.makers.turns if number not in self._numbers]
                if others:
                    reason = f"@{others[0]} was running already then, and changed it"
                    return Kept(path, reason, benign=False, why=SHARED, by=(others[0],))
        return None

    def files_merged_by_lines(self, plan: Plan) -> tuple[Merged, ...]:
        """The files of the checked plan that are merged by lines."""
        return self._files.merged_by(plans.sort_and_pack(plan.actions))

    def read_planned(self, path: bytes, entry: Entry) -> bytes | None:
        """See Restored.read."""
        return self._files.contents.read_planned(path, entry)

    def paths_with_edits(self, plan: Plan) -> tuple[bytes, ...]:
        """The paths that are not as in the checkpoint afterwards, because they keep edits."""
        actions = plans.sort_and_pack(plan.actions)
        planned = plans.sort_and_pack(self._exact)
        others = {item.path for item in plan.kept if item.why in _NOT_EDITS} | {done.source for done in actions if done.source != done.path}
        found = []
        for wanted in self._exact:
            done = actions.get(wanted.path)
            becomes = wanted.before if done is None else done.after
            if plans.is_of_file(wanted) and wanted.path not in others and not manifest.same_for_restore(becomes, wanted.after):
                found.append(wanted.path)
        are_now_as_in_checkpoint = (done for done in actions if planned.get(done.path) is None and done.source == done.path)
        return tuple(sorted([*found, *(done.path for done in are_now_as_in_checkpoint if plans.is_of_file(done))]))


def _with_option(item: Kept) -> Kept:
    return item._replace(option="--exact" if item.why == UNSEEN_END else "")
