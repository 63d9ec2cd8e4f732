"""Revert: takes back what turns changed, path by path, and keeps everything that was done since.

The danger prevented here: work of a person or of another turn is lost, or a path is left in a state that never was. So a
path is merged or left alone, as a whole and for all turns at once: one conflict leaves it where it is. A path that
another turn may have changed at the same time, one that the turn may not have made, and one that changed before anybody
saw the turn's end are left alone, too. So is a file to which a turn moved what cannot go back to its own name.
"""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history.provenance import Makers, Provenance
from ..history.turn_view import TurnView
from ..messages import plural, printable
from ..model import digest as digests
from ..model import manifest, merge, paths
from ..model import plan as plans
from ..model.checkpoint import RUN
from ..model.diff import Change, topmost_unclear
from ..model.history import RESTORE, REVERT, Operation
from ..model.manifest import FILE, PURGED, Entry
from ..model.merge import LineMerge
from ..model.plan import UNSEEN_END, Action, Actions, Kept, Merged, Plan
from ..model.turn_records import NOT_SAVED, Turn
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.scan import Scan
from ..worktree.spelling import with_other_spellings
from . import preflight
from .chosen_edits import ChosenEdit, ChosenEdits, changed_error, chosen_actions, entry_of_stored_bytes
from .execute import Restored
from .moved_files import find_moved_files
from .path_contents import PathContents
from .safety_capture import CapturedState
from .undo import prepare_actions
from .worktree_change import ChangeRecord, WorktreeChange

ASIDE, THEIRS, MARKERS = "", "theirs", "markers"
"""What becomes of a file with conflicts: it is left alone, it gets the lines of before the turn, or markers."""
SHARED, DAMAGED = "shared", "damaged"
"""Words for why a path is left alone, besides those of model/merge.py."""
_BY_SHARED = "--shared takes it back"
_UNCLEAR = "not captured at the end of the turn, and not as it was before"
_SHOWN = 3  # ranges of lines


class RevertStep(NamedTuple):
    """What one turn did to a path. `is_unclear`: the path was not captured after the turn."""

    turn: int
    change: Change
    is_unclear: bool


class WhatTurnsDid(NamedTuple):
    """What turns did to each path, the newest turn first, and the paths that are left alone whatever they are now. `left`: what
    turns did to those, and where they took away what may be of other turns."""

    steps: Mapping[bytes, Sequence[RevertStep]]
    kept: tuple[Kept, ...]
    left: Mapping[bytes, Sequence[RevertStep]]


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
            f"@{still.n} has not ended: {why}",
            "wait, or add --running to reverse what it did so far"
        )
    done = what_turns_did(view, turns, scope, shared=shared, skip_damaged=skip_damaged)
    if hunks:
        done = done._replace(steps={path: _with_chosen_hunks(steps, hunks.get(path)) for path, steps in done.steps.items()})
    before = view.points[turns[-1].before or ""]
    hint = f"casrewind revert --skip-damaged takes back the rest, casrewind restore {before.id} PATH what is sound"
    provenance = Provenance(context, view, before.seq, [turn.n for turn in turns])
    parts = (hunks or {}).values()

    def actions(_scan: Scan) -> Actions:
        return plans.sort_and_pack(reversed_action(path, steps) for path, steps in done.steps.items())

    def look(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        files = PathMerger(context, done.steps, provenance, conflicts, is_one=len(turns) == 1, skip_damaged=skip_damaged, hint=hint)
        files.contents.chosen = {part.wanted.digest: part.data for part in parts if part.wanted is not None and part.data is not None}
        files.set_writer_of_new_contents(writer)
        report, now = prepare_actions(
            context, writer, actions, REVERT, before.id, hint, files.resolve, made=files.made, skip_damaged=skip_damaged
        )
        left = (with_way_out(item, {SHARED: f"{_BY_SHARED} as well", UNSEEN_END: _BY_SHARED}) for item in left_alone(done, now))
        plan = keep_moved_files(Plan(report.actions, tuple(sorted((*report.kept, *left)))), done, now, files.contents)
        planned = plans.sort_and_pack(plan.actions)
        if edits is not None:
            planned = chosen_actions(planned, edits, writer)
        merged = files.merged_by(planned)
        return report._replace(actions=planned, kept=plan.kept, merged=merged, read=files.contents.read_planned), now

    return WorktreeChange(context, look, ChangeRecord(Operation(RESTORE, 0, context.root.key, before.id, "", b"", ""), before))


def _with_chosen_hunks(steps: Sequence[RevertStep], edit: ChosenEdit | None) -> Sequence[RevertStep]:
    """The step of a single turn, with the chosen hunks of it."""
    if edit is None:
        return steps
    (step,) = steps
    if not (manifest.same_for_restore(step.change.new, edit.shown.old) and manifest.same_for_restore(step.change.old, edit.shown.new)):
        raise changed_error(step.change.path)
    return [step._replace(change=step.change._replace(old=edit.wanted))]


def what_turns_did(
    view: TurnView, turns: Sequence[Turn], scope: Sequence[bytes] = (), *, shared: bool = False, skip_damaged: bool = False
) -> WhatTurnsDid:
    """What these turns, the newest first, changed at the paths in `scope`. Raises as `prepare_revert`."""
    steps: dict[bytes, list[RevertStep]] = {}
    kept: dict[bytes, Kept] = {}
    taken, filled = frozenset(turn.n for turn in turns), list[Turn]()
    for turn in turns:
        if turn.not_saved:
            raise errors.CheckpointNotFound(
                f"what @{turn.n} changed cannot be told from the edits of the turns beside it: {NOT_SAVED}",
                "casrewind diff shows them together, and casrewind restore takes a state back"
            )
        if turn.to_now and turn.before is not None:
            view.scan_worktree()
        filled.append(view.with_changes(turn))
    scope = with_other_spellings(view.tree, scope, (change.path for turn in filled for change in turn.changes or ()))
    places = paths.PathScope(scope)
    for turn in filled:
        found = view.comparison(turn, scope)
        if turn.damaged and not skip_damaged:
            raise errors.StoreDamaged(f"a part of what @{turn.n} changed cannot be read", "casrewind verify shows what is damaged")
        known = {change.path for change in found.changes}
        unclear = [change for change in found.unclear if change.path not in known]
        gone = [change for change in unclear if change.new is None]
        left = [*_paths_left_alone(turn, taken, is_shared=shared), *_paths_that_turn_may_not_have_made(unclear)]
        for item in left:
            if places.covers(item.path):
                names_turn = len(turns) == 1 or item.why == UNSEEN_END
                kept.setdefault(item.path, item if names_turn else item._replace(reason=f"@{turn.n}: {item.reason}"))
        for change in found.changes:
            steps.setdefault(change.path, []).append(RevertStep(turn.n, change, is_unclear=False))
        for change in gone:
            steps.setdefault(change.path, []).append(RevertStep(turn.n, change, is_unclear=True))
    if scope and not steps and not kept:
        names, what = ", ".join(map(printable, scope)), f"@{turns[0].n}" if len(turns) == 1 else "these turns"
        raise errors.PathNotFound(f"{what} changed nothing at {names}", f"casrewind show @{turns[0].n} lists what it changed")
    taken_back = {path: found for path, found in steps.items() if path not in kept}
    untouched = {path: found for path, found in steps.items() if path in kept}
    for step in () if shared else _steps_that_displaced(filled, taken, places):
        untouched[step.change.path] = [*untouched.get(step.change.path, ()), step]
    return WhatTurnsDid(taken_back, tuple(kept.values()), untouched)


def _steps_that_displaced(turns: Iterable[Turn], taken: frozenset[int], places: paths.PathScope) -> Iterator[RevertStep]:
    """The steps that took away what may be of other turns than those that are taken back."""
    for turn in turns:
        for change, numbers in turn.displaced:
            if places.covers(change.path) and not taken.issuperset(numbers):
                yield RevertStep(turn.n, change, is_unclear=False)


def left_alone(done: WhatTurnsDid, now: CapturedState) -> Iterator[Kept]:
    """The paths that are left alone, without those where nothing is to do: one turn changed them, and they are as before it."""
    finder = manifest.Finder(now.load, now.tree)
    for item in done.kept:
        steps = done.left.get(item.path, ())
        if item.why != UNSEEN_END or len(steps) != 1 or not manifest.same_for_restore(finder.find(item.path), steps[0].change.old):
            yield item


def keep_moved_files(
    plan: Plan, done: WhatTurnsDid, now: CapturedState, contents: PathContents, *, only_removed: bool = False
) -> Plan:
    """The plan without the files to which a turn moved what a path had that is left alone (change/moved_files.py). `only_removed`: what
    is written over may go."""
    finder = manifest.Finder(now.load, now.tree)
    left = {path: finder.find(path) for path in (*done.left, *(item.path for item in plan.kept if item.path in done.steps))}
    if not left:
        return plan

    def changes(path: bytes) -> list[Change]:
        return [step.change for steps in (done.steps, done.left) for step in steps.get(path, ())]

    going = (each for each in plan.actions if each.after is None) if only_removed else plan.actions
    return plans.keep_paths(plan, find_moved_files(contents, changes, left, going))


def reversed_action(path: bytes, steps: Sequence[RevertStep]) -> Action:
    """What the turns did to a path, reversed. A plan holds nothing that was purged."""
    before, after = (None if one is None or one.kind == PURGED else one for one in (steps[0].change.new, steps[-1].change.old))
    return Action(path, before, after, path)


def _paths_left_alone(turn: Turn, taken: Container[int], *, is_shared: bool) -> Iterator[Kept]:
    """The paths of a turn that are left alone whatever they are now. `taken`: the turns that are taken back, too."""
    for path, every in () if is_shared else turn.shared:
        numbers = tuple(number for number in every if number not in taken)
        if not numbers:
            continue
        yield Kept(path, _why_shared_with(numbers), benign=False, why=SHARED, by=numbers)
    for path in turn.purged:
        yield Kept(path, "its content was purged", benign=False, why=merge.IS_PURGED)
    for path in () if is_shared else turn.doubtful:
        yield Kept(path, f"may be yours: @{turn.n} ended unseen", benign=False, why=UNSEEN_END)


def _why_shared_with(numbers: Sequence[int]) -> str:
    """Why a path is left alone that these turns may have changed, too."""
    return f"changed while {' and '.join(f'@{number}' for number in numbers)} ran, too"


def with_way_out(item: Kept, options: Mapping[str, str]) -> Kept:
    """A path that is left alone, and what takes it back all the same. `options`: that by why it is left alone."""
    way = options.get(item.why)
    return item if way is None else item._replace(reason=f"{item.reason}; {way}")


def _paths_that_turn_may_not_have_made(unclear: Sequence[Change]) -> Iterator[Kept]:
    """The paths that the turn may not have made. As in a restore, they stay; a directory stands for what is in it."""
    for change in topmost_unclear([change for change in unclear if change.old is None]):
        yield Kept(change.path, "not captured before the turn, so it may be older", benign=True)


class PathMerger:
    """Decides for each path what it becomes. `contents`: where the bytes of a file are. `merged`: the files that
    were merged by lines. `made`: the digests of contents that the operation itself has made."""

    def __init__(
        self, context: Context, steps: Mapping[bytes, Sequence[RevertStep]], provenance: Provenance | None, conflicts: str = ASIDE, *,
        is_one: bool, skip_damaged: bool, hint: str,
    ) -> None:  # fmt: skip
        """`provenance`: None if all edits here are a person's. `is_one`: there is one turn, which no reason names.
        `hint`: the hint of the error for damaged content."""
        self._context, self._steps, self._provenance, self._conflicts = context, steps, provenance, conflicts
        self._is_one, self._skip_damaged, self._hint = is_one, skip_damaged, hint
        self._writer: StoreWriter | DryRunWriter = DryRunWriter(context.store.read)
        self.contents = PathContents(context, self._writer)
        self.merged: list[Merged] = []
        self.made: set[bytes] = set()

    def set_writer_of_new_contents(self, writer: StoreWriter | DryRunWriter) -> None:
        """New contents go into this writer."""
        self._writer = writer
        self.contents.use_writer(writer)

    def resolve(self, action: Action, there: Entry | None) -> Entry | Kept | None:
        """What a path becomes, given its present entry, or why it is left alone."""
        path, entry = action.path, there
        result: Merged | None = None
        contents: dict[bytes, bytes] = {}

        def read(wanted: Entry) -> bytes:
            if wanted.digest not in contents:
                contents[wanted.digest] = self.contents.read(path, wanted)
            return contents[wanted.digest]

        for step in self._steps[path]:
            try:
                found = merge.merge(step.change.new, entry, step.change.old, read)
            except merge.FileMovedOn:
                return self._note_kept_path(path, step, plans.CHANGED_NOW, merge.CONFLICTS)
            except (errors.BlobMissing, errors.BlobCorrupt) as error:
                damaged = self._note_kept_path(path, step, f"damaged in the store: {error}", DAMAGED)
                preflight.refuse_lost_content([] if self._skip_damaged else [damaged], self._hint)
                return damaged
            if found.why:
                return self._note_kept_path(path, step, _UNCLEAR if step.is_unclear else found.reason, found.why)
            if found.lines is None:
                entry = found.entry
                continue
            if found.lines.conflicts and self._conflicts == ASIDE:
                return self._note_conflict(path, step, found.lines, there if entry is there else None, read)
            result = self._merge_one_turn_more(path, step.turn, found.lines, result)
            digest = digests.of(result.data)
            contents[digest] = result.data
            entry = Entry(FILE, found.mode, len(result.data), 0 if there is None else there.mtime_ns, digest)
        if result is None and entry is not None and entry.digest in self.contents.chosen:
            self.made.add(entry.digest)
            return entry_of_stored_bytes(entry._replace(mtime_ns=time.time_ns()), self.contents.chosen[entry.digest], self._writer)
        if result is None or entry is None or manifest.same_for_restore(entry, there) or entry.digest != digests.of(result.data):
            return entry
        by = self.makers_of(path, there)
        self.merged.append(result._replace(by=by.turns, is_yours=by.is_person))
        self.contents.merged[entry.digest] = result.data
        self.made.add(entry.digest)
        return entry_of_stored_bytes(entry, result.data, self._writer)

    def makers_of(self, path: bytes, there: Entry | None) -> Makers:
        """Who made edits that the present entry of a path has."""
        return Makers(is_person=True) if self._provenance is None else self._provenance.makers_of(path, there)

    def merged_by(self, actions: Actions) -> tuple[Merged, ...]:
        """The merged files that these actions write."""
        found = ((item, actions.get(item.path)) for item in self.merged)
        return tuple(
            item for item, action in found
            if action is not None and action.after is not None and action.after.digest == digests.of(item.data)
        )  # fmt: skip

    def _merge_one_turn_more(self, path: bytes, turn: int, lines: LineMerge, before: Merged | None) -> Merged:
        """The file after one more turn was taken back."""
        if self._conflicts == MARKERS:
            data = lines.with_conflict_markers(b"now", b"after @%d" % turn, b"before @%d" % turn)
        else:
            data = lines.ours_with_theirs_in([*lines.clean, *lines.conflicts])
        marks = len(lines.conflicts) if self._conflicts == MARKERS else 0
        taken = len(lines.clean) + len(lines.conflicts) - marks
        kept = sum(max(group.ours.size, group.base.size) for group in lines.groups if group.side == merge.OURS)
        if before is None:
            return Merged(path, data, taken, kept, marks)
        return Merged(path, data, before.taken + taken, max(before.kept, kept), before.conflicts + marks)

    def _note_kept_path(self, path: bytes, step: RevertStep, reason: str, why: str) -> Kept:
        return Kept(path, reason if self._is_one else f"@{step.turn}: {reason}", benign=False, why=why)

    def _note_conflict(self, path: bytes, step: RevertStep, lines: LineMerge, present: Entry | None, read: merge.Reader) -> Kept:
        """Why a file with conflicts is left alone. Its lines are named if they are those of the file `present`."""
        if present is None:
            return self._note_kept_path(path, step, plans.EDITED, merge.CONFLICTS)
        found = tuple((group.ours.start + 1, max(group.ours.end, group.ours.start + 1)) for group in lines.conflicts)
        by = Makers() if self._provenance is None else self._provenance.makers_of_lines(path, present, lines.ours, found, read)
        were = "was" if len(found) == 1 and found[0][0] == found[0][1] else "were"
        reason = f"{lines_in_words(found)} {were} edited since{f' by {by}' if str(by) else ''}"
        return self._note_kept_path(path, step, reason, merge.CONFLICTS)._replace(lines=found, by=by.turns)


def lines_in_words(found: Sequence[tuple[int, int]]) -> str:
    """Ranges of lines: "lines 3-5, 9"."""
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found[:_SHOWN])
    more = f" and {plural(len(found) - _SHOWN, 'more place')}" if len(found) > _SHOWN else ""
    return f"line{'' if shown.isdigit() else 's'} {shown}{more}"
