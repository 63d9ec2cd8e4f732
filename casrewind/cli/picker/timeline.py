"""The picker's access to the open project. Only one thread at a time may call it. It is independent of the screen.

The danger prevented here: a picker that waits until thousands of turns are compared. The first rows are read at once
and shown; further rows follow in steps, each a job of its own.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from ... import errors
from ..._typing import TYPE_CHECKING, Any, NamedTuple
from ...change import restore as restores
from ...change import revert as reverts
from ...change import rewind
from ...change import undo as undos
from ...change.chosen_edits import ChosenEdit, ChosenEdits, changed_error
from ...change.finish_restore import finish_restore
from ...change.machine_merge import edit_keeper
from ...change.worktree_change import WorktreeChange, ask_and_carry_out
from ...errors import Declined
from ...history import compare, conversation, lookup
from ...history.checkpoint_names import is_kept_by_mark
from ...history.inner_projects import find_inner_turns
from ...history.provenance import edited_outside
from ...history.turn_view import TurnView
from ...history.worktree_timeline import Part, WorktreeTimeline
from ...messages import age_in_words, plural, printable
from ...model import diff as diffs
from ...model.at_risk import NO_EDITS
from ...model.checkpoint import MANUAL, SAFETY, Checkpoint
from ...model.diff import Change
from ...model.history import History, Step
from ...model.plan import Plan
from ...model.turn_records import Outside, Reset, Row, SavedRow, Turn
from ...store.catalog import Marked
from ...upkeep import pins
from ...upkeep import status as statuses
from ..plan.facts import branches_in_words, notes_above_plan, step_in_words, target_of, turn_title
from ..plan.hunks import edit_with_hunks, edit_without_hunks
from ..show.changes import unclear_notes
from ..show.pinned import marking_lines
from ..show.restored import (
    NO_TARGET,
    REDO_KEEPS,
    UNDO_KEEPS,
    RestoreTarget,
    foreign_lines,
    headline,
    inner_lines,
    outside_lines,
    plan_lines,
    really_changes,
    restored_lines,
    what_stays_lines,
    written_and_removed,
)
from ..show.rewound import removed_prompts, rewound_lines
from ..show.rows import is_shown, sides_of
from ..show.text import Line
from ..terminal.questions import KEEP_EDITS, Ask, Proposal
from . import picker_rows
from .patch_lines import MOST_LINES, change_as_lines
from .picker_rows import PickerRow, PickerTimeline

if TYPE_CHECKING:
    from ...change.execute import Restored
    from ...context import Context
    from ...history.compare import Comparison, ScannedWorktree
    from ...upkeep.pins import Marking

CODE, CHAT, BOTH = "code", "chat", "both"
TURN, HERE = "this turn", "to here"
"""What is shown of a row: what happened then, or what a restore of it would change now."""
_FIRST, _STEP, _MOST_STEP = 30, 100, 3200
"""Rows that are read at once: at first, then, and at most."""
_PATHS = 10
"""Changed paths for each of these rows: rows with many more take as long as many rows."""
_WHOLE = 200  # characters of a prompt that a checkpoint holds


class ActionResult(NamedTuple):
    """What a change did. `is_incomplete`: a part of it was not done. `is_mark`: no file and no conversation changed."""

    lines: tuple[Line, ...]
    is_incomplete: bool = False
    is_mark: bool = False


class RowPreview(NamedTuple):
    """The preview of a row. `key`: the row, `is_turn`: whether it is a turn. `what`: the kind of comparison, TURN or HERE.
    `base`: the key of the row to compare with, or "". `found`: the result of the comparison. `prompt`: the whole prompt."""

    key: str
    what: str
    base: str
    found: "Comparison"
    prompt: str
    is_turn: bool = False


class ChosenParts(NamedTuple):
    """Hunks that are chosen, by file, and the preview that they are hunks of."""

    preview: RowPreview
    hunks: Mapping[bytes, AbstractSet[int]]


class TimelineModel:
    """An open project, its timeline, and the worktree at its last scan."""

    def __init__(self, context: "Context", *, keep_edits: bool = False) -> None:
        """Reads nothing yet. `keep_edits`: a restore keeps what was edited outside of turns."""
        self._context, self._keep_edits = context, keep_edits
        self._seen: ScannedWorktree | None = None
        self._waiting: Iterator[Row] = iter(())
        self._read: list[PickerRow] = []
        self._inside: dict[str, list[PickerRow]] = {}
        self._part: Part | None = None
        self._step = _STEP
        self._elsewhere: list[PickerRow] = []

    # -- the timeline

    def first_timeline(self) -> PickerTimeline:
        """The first rows with their changes, and all further turns that are known without changes."""
        self._waiting, self._read = filter(is_shown, self._read_all_rows()), []
        self._inside, self._elsewhere, self._step = {}, [], _STEP
        return self._read_more(_FIRST)

    def _read_all_rows(self) -> Iterator[Row]:
        """Yield all rows. Those that the newest checkpoints are enough for come before the others are read."""
        timeline = WorktreeTimeline(self._context, self._seen)
        for self._part, rows in timeline.parts_from(timeline.newest()):
            yield from self._part.view.rows(part=rows)

    def timeline_with_more(self) -> PickerTimeline:
        """The timeline with some more rows. Each time there are twice as many, because all of them are arranged again."""
        found = self._read_more(self._step)
        self._step = min(2 * self._step, _MOST_STEP)
        return found

    def scan_worktree(self) -> PickerTimeline:
        """Scan the worktree. Later comparisons are with this scan; the timeline shows what was edited since."""
        self._seen = compare.scan_worktree(self._context)
        return self.first_timeline()

    def turns_with_changes(self, wanted: Sequence[PickerRow]) -> dict[str, PickerRow]:
        """Turns with their changes, by key."""
        assert self._part is not None
        view = self._part.view
        return {row.key: row._replace(item=view.with_changes(row.item), is_final=True) for row in wanted if isinstance(row.item, Turn)}

    def _read_more(self, most: int) -> PickerTimeline:
        before = len(self._read)
        items, is_complete = self._next_rows(most)
        part = self._part
        assert part is not None
        view = part.view
        newest = max(view.points.values(), key=lambda point: point.seq, default=None)
        for item in items:
            row = picker_rows.row_of(item, view.points, newest.id if newest is not None else "")
            self._read.append(row._replace(is_final=True))
        turns = view.turns[: part.turns]
        known = next((row.item.n for row in reversed(self._read) if isinstance(row.item, Turn)), 0)
        rest = () if is_complete else (picker_rows.row_of(turn, view.points, "") for turn in turns[known:])
        if part.is_all and (is_complete or (before and not self._inside)):  # the first rows do not wait for it
            shown = {row.target for row in self._read if isinstance(row.item, SavedRow | Reset)}
            shown |= set() if is_complete else {one.id for one in view.points.values() if one.trigger in (MANUAL, SAFETY)}
            self._inside = picker_rows.rows_inside_turns(view.turns, view.points, shown)
            self._elsewhere = [picker_rows.point_row(one) for one in self._checkpoints_elsewhere()]
        sessions: dict[str, int] = {}
        for turn in turns:
            sessions.setdefault(turn.session, len(sessions))
        return PickerTimeline(
            rows=[*self._read, *rest],
            points=view.points,
            named=view.named,
            marks=view.marks,
            inside=self._inside,
            sides=sides_of(view.turns),
            sessions=sessions,
            turns=len(turns),
            elsewhere=self._elsewhere,
            unfinished=interrupted_restore_details(self._context),
            is_complete=is_complete,
            total=None if part.is_all else self._context.store.count_listed_checkpoints(self._context.root.key),
        )

    def _next_rows(self, most: int) -> tuple[list[Row], bool]:
        """At most so many rows, or as few as have enough changed paths, and whether these are the last ones."""
        found: list[Row] = []
        paths = 0
        while len(found) < most and paths < most * _PATHS:
            row = next(self._waiting, None)
            if row is None:
                return found, True
            found.append(row)
            paths += len(row.changes or ()) if isinstance(row, Turn | Outside | Reset) else 0
        return found, False

    def _checkpoints_elsewhere(self) -> list[Checkpoint]:
        """The checkpoints of other worktrees of this machine, newest first."""
        own, store = self._context.root.key, self._context.store
        if all(one.worktree == own for one in store.listed_heads()):
            return []
        return [one for one, _ in store.checkpoints() if one.worktree != own and not one.more.machine]

    # -- what a row shows

    def preview(self, row: PickerRow, turn_or_here: str, base: PickerRow | None) -> RowPreview:
        """The changes of a row, or of a restore of it; those from `base`, if it is given."""
        prompt = self._whole_prompt(row)
        if base is not None:
            found = compare.compare(self._context, self._point_of(base), self._point_of(row))
            return RowPreview(row.key, turn_or_here, base.key, found, prompt)
        found = self._what_restore_changes(row) if turn_or_here == HERE else self._change_of_row(row)
        return RowPreview(row.key, turn_or_here, "", found, prompt, is_turn=isinstance(row.item, Turn))

    def _point_of(self, row: PickerRow) -> Checkpoint:
        if not row.target:
            raise errors.CheckpointNotFound("the state before this was forgotten")
        return lookup.checkpoint(self._context, row.target)

    def _what_restore_changes(self, row: PickerRow) -> "Comparison":
        point = self._point_of(row)
        if point.worktree != self._context.root.key:
            raise errors.RootRefused(f"it belongs to the worktree {printable(point.root)}", "restore it there")
        if self._seen is None:
            self._seen = compare.scan_worktree(self._context)
        return compare.compare_to_checkpoint(self._context, self._seen, point)

    def _change_of_row(self, row: PickerRow) -> "Comparison":
        """The change of a row: of a turn, an outside edit or a restore, or since the checkpoint before."""
        context = self._context
        item = row.item
        if isinstance(item, Checkpoint):
            return compare.compare_with_parent(context, item)
        to_now = (isinstance(item, Turn) and item.to_now) or (isinstance(item, Outside) and not item.checkpoint)
        if isinstance(item, Turn) and item.changes is None:
            if item.to_now and self._seen is None:
                self.scan_worktree()
            assert self._part is not None
            item = self._part.view.with_changes(item)
        changes, unclear = (item.changes, item.unclear) if isinstance(item, Turn | Outside | Reset) else ((), ())
        if changes is None:
            raise errors.CheckpointNotFound("what this turn changed is not known: its start or its end was forgotten, or is damaged")
        return compare.comparison_of_changes(context, changes, to_now=to_now, unclear=unclear)

    def _whole_prompt(self, row: PickerRow) -> str:
        """The whole prompt. A checkpoint holds its start only; the transcript has the rest."""
        item = row.item
        if not isinstance(item, Turn):
            return item.own_prompt if isinstance(item, Checkpoint) else ""
        point = self._part.view.points.get(item.before or "") if self._part is not None else None
        text = item.prompt
        if point is not None and len(text) >= _WHOLE:
            text = conversation.full_prompt(self._context, point) or text
        return "\n".join((text, *(f"+ {more}" for more in item.also)))

    # -- what changes something

    def continue_or_abort(self, *, forward: bool) -> ActionResult:
        """Continue an interrupted restore, or abort it."""
        done = finish_restore(self._context, forward=forward)
        return ActionResult(tuple(restored_lines(done if forward else done._replace(op="abort"), is_inside=True)), done.incomplete)

    def restore(
        self, row: PickerRow, code_chat_or_both: str, scope: Sequence[bytes], ask: Ask, parts: "ChosenParts | None" = None
    ) -> ActionResult:
        """Restore files, conversation or both after `ask` returns YES. `parts`: hunks of files that are chosen beside
        `scope`. Raises Declined and others."""
        edits = {**dict.fromkeys(scope), **_edits_of_chosen_hunks(parts, edit_with_hunks)} if parts is not None else None
        scope = scope if edits is None else [*edits]
        keep_edits, skip_damaged = self._keep_edits and edits is None, False
        while True:
            try:
                return self._plan_ask_and_restore(
                    row, code_chat_or_both, scope, ask, edits, skip_damaged=skip_damaged, keep_edits=keep_edits
                )
            except restores.EditsKept:
                keep_edits = True
            except errors.StoreDamaged as error:
                if skip_damaged or code_chat_or_both == CHAT or self._context.store.is_interrupted(self._context.root.key):
                    raise
                question = "Damaged in the store. Leave alone what is damaged, and plan all the rest?"
                _decline_unless_yes(ask(Proposal(Line(question), [Line(printable(str(error)))])))
                skip_damaged = True

    def _plan_ask_and_restore(
        self, row: PickerRow, code_chat_or_both: str, scope: Sequence[bytes], ask: Ask, edits: ChosenEdits | None, *,
        skip_damaged: bool, keep_edits: bool,
    ) -> ActionResult:
        context = self._context
        parts = {} if edits is None else {path: edit for path, edit in edits.items() if edit is not None}
        made = {path: edit.data for path, edit in parts.items() if edit.data is not None}
        point = self._point_of(row)
        target = target_of(context, point)
        name = target.name.removeprefix("to ")
        taken: list[Line] = []
        keepers: list[restores.EditKeeper] = []

        def keep(context: "Context", target: Checkpoint, paths: Sequence[bytes], skip_damaged: bool) -> restores.EditKeeper:  # noqa: FBT001
            keepers.append(edit_keeper(context, target, paths, skip_damaged))
            return keepers[-1]

        def confirm(plan: Plan, strange: tuple[bytes, ...] = ()) -> bool:
            some = f", parts of {plural(len(parts), 'file')} only" if parts else ", keeping your edits" if keep_edits else ""
            headline = f"Restore {'chat and files' if code_chat_or_both == BOTH else 'files'} to {name}: {plan_totals(plan)}{some}"
            outside = NO_EDITS if keep_edits else edited_outside(context, point, plan.actions)
            may_keep = bool(outside.proved) and outside.can_stay and edits is None
            stays = what_stays_lines(point.more.machine, keepers[-1].turns) if keepers else ()
            planned = [*stays, *plan_lines(plan), *outside_lines(outside, KEEP_EDITS if may_keep else ""), *foreign_lines(strange)]
            planned += [*inner_lines(find_inner_turns(context, point.created_ns, plan.actions)), *taken]
            notes = self._plan_notes(point, plan)
            answer = ask(Proposal(Line(headline), planned, notes, UNDO_KEEPS, lambda: self._plan_patch(plan, made), may_keep))
            if answer == KEEP_EDITS:
                raise restores.EditsKept
            return bool(answer)

        keeper = keep if keep_edits else None
        if code_chat_or_both == CODE:
            prepare = partial(restores.prepare_restore, context, point, scope=scope, skip_damaged=skip_damaged, keeper=keeper, edits=edits)
            report = ask_and_carry_out(prepare, confirm)
            return _restore_result(report, target)
        before = self._rewind_to(point, dry_run=True)
        taken = [*map(Line, before.notes), *removed_prompts(before)]
        if code_chat_or_both == BOTH:
            options = {"skip_damaged": skip_damaged, "keeper": keeper}
            return _rewind_result(self._rewind_to(point, both=True, scope=scope, confirm=confirm, **options), target)
        taken_back = f"{plural(len(before.prompts), 'prompt')} taken back, no file changed"
        headline = Line(f"Fork the conversation as it was {name}: {taken_back}")
        _decline_unless_yes(ask(Proposal(headline, taken, kept="The conversation itself stays as it is.")))
        return _rewind_result(self._rewind_to(point), target)

    def take_back(self, turn: Turn, scope: Sequence[bytes], ask: Ask, parts: "ChosenParts | None" = None) -> ActionResult:
        """Take back what a turn changed, after `ask` returns YES. `parts`: hunks of it that are chosen beside the files in
        `scope`. Raises Declined and others."""
        view = TurnView(self._context)
        turn = view.find_turn(turn.id)
        name = turn_title(turn)
        hunks = _edits_of_chosen_hunks(parts, edit_without_hunks) if parts is not None else {}
        some = f", parts of {plural(len(hunks), 'file')} only" if hunks else ""

        def confirm(plan: Plan) -> bool:
            notes = notes_above_plan(self._context, plan)
            inner = find_inner_turns(self._context, turn.started_ns or 0, plan.actions)
            title, planned = headline(f"Take back {name}{some}", plan), [*plan_lines(plan), *inner_lines(inner)]
            merged = {item.path for item in plan.merged}
            made = {path: edit.data for path, edit in hunks.items() if edit.data is not None and path not in merged}
            return bool(ask(Proposal(title, planned, notes, UNDO_KEEPS, lambda: self._plan_patch(plan, made))))

        report = ask_and_carry_out(
            lambda: reverts.prepare_revert(self._context, view, [turn], [*scope, *hunks], hunks=hunks), confirm
        )
        return _restore_result(report, RestoreTarget(f"{name}{some}", turn.n, turn.started_ns))

    def _plan_notes(self, point: Checkpoint, plan: Plan) -> list[Line]:
        """The lines above a plan: the rules that it takes back, and the branches if git is on another one now."""
        context = self._context
        branches = branches_in_words(context, point).removeprefix(", ")
        return [*notes_above_plan(context, plan), *([Line(f"NOTE: {branches}")] if branches else [])]

    def _plan_patch(self, plan: Plan, made: Mapping[bytes, bytes]) -> Iterator[Line]:
        """The patch of a plan. `made`: contents that the store does not have."""
        found = compare.comparison_of_plan(self._context, really_changes(plan.actions), plan.merged, made, plan.read)
        count = 0
        for change in sorted(found.changes, key=lambda change: change.new is not None):
            for line in change_as_lines(found, change, is_plain=True):
                if count == MOST_LINES:
                    yield Line(f"... more than {MOST_LINES} lines; casrewind diff --patch shows them all")
                    return
                count += 1
                yield Line(line.text)

    def rewrite(self, row: PickerRow, ask: Ask) -> ActionResult:
        """Rewind the conversation in its own session if `ask` returns True. Raises Declined and the errors of
        a rewind."""
        point = self._point_of(row)
        before = self._rewind_to(point, in_place=True, dry_run=True)
        taken_back = f"{plural(len(before.prompts), 'prompt')} taken back, no file changed"
        target = target_of(self._context, point)
        name = target.name.removeprefix("to ")
        headline = Line(f"Cut the conversation in its own session, {name}: {taken_back}")
        details = [Line(printable(before.transcript)), *map(Line, before.notes), *removed_prompts(before)]
        _decline_unless_yes(ask(Proposal(headline, details, kept="As it is now it is kept beside.")))
        return _rewind_result(self._rewind_to(point, in_place=True), target)

    def _rewind_to(self, point: Checkpoint, **options: Any) -> rewind.Rewound:  # those of rewind_to_checkpoint
        return rewind.rewind_to_checkpoint(self._context, point, **options)

    def undo(self, ask: Ask, *, everything: bool = False) -> ActionResult:
        """Undo the newest restore after `ask` returns YES. `everything` also undoes later edits. Raises Declined and others."""
        title = "Undo all:" if everything else "Undo"

        def prepare() -> WorktreeChange:
            return undos.prepare_undo(self._context, everything=everything)

        return self._do_step(lambda history: history.undo, prepare, title, REDO_KEEPS, ask, everything=everything)

    def redo(self, ask: Ask) -> ActionResult:
        """Redo the newest undo after `ask` returns YES. Raises Declined and others."""
        return self._do_step(lambda history: history.redo, lambda: undos.prepare_redo(self._context), "Redo", UNDO_KEEPS, ask)

    def _do_step(
        self, steps_of: Callable[[History], Sequence[Step]], prepare: Callable[[], WorktreeChange], title: str, kept: str, ask: Ask, *,
        everything: bool = False,
    ) -> ActionResult:  # fmt: skip
        """Undo or redo the newest step, after the plan that the terminal shows."""
        names = [""]

        def confirm(plan: Plan) -> bool:
            newest = steps_of(self._context.store.history(self._context.root.key))[-1]  # as it is now: a person is asked again
            names.append(step_in_words(self._context, newest))
            notes = notes_above_plan(self._context, plan)
            later = undos.edited_since(self._context, newest, plan.actions) if everything else NO_EDITS
            lines = [*plan_lines(plan), *outside_lines(later)]
            return bool(ask(Proposal(headline(f"{title} {names[-1]}", plan), lines, notes, kept, lambda: self._plan_patch(plan, {}))))

        return _restore_result(ask_and_carry_out(prepare, confirm), RestoreTarget(names[-1], None, None))

    def pin(self, point: str, marked: Marked) -> ActionResult:
        """Pin the checkpoint, or unpin it."""
        found = lookup.checkpoint(self._context, point)
        return _mark_result(pins.unpin(self._context, found) if is_kept_by_mark(found, marked) else pins.pin(self._context, found))

    def label(self, point: str, label: str) -> ActionResult:
        """Pin a checkpoint, and label it."""
        return _mark_result(pins.pin(self._context, lookup.checkpoint(self._context, point), label))

    def absolute_path(self, path: bytes) -> bytes:
        """The absolute path of a file of the worktree."""
        return os.path.join(os.fsencode(self._context.root.path), path)


def _edits_of_chosen_hunks(
    parts: ChosenParts, edit_of_file: "Callable[[Comparison, Change, AbstractSet[int]], ChosenEdit | None]"
) -> dict[bytes, ChosenEdit]:
    """What the chosen hunks of each file make of it. Raises ContentInTheWay if a side of its change is no longer there."""
    changes = {change.path: change for change in parts.preview.found.changes}
    found: dict[bytes, ChosenEdit] = {}
    for path, chosen in parts.hunks.items():
        edit = edit_of_file(parts.preview.found, changes[path], chosen)
        if edit is None:
            raise changed_error(path)
        found[path] = edit
    return found


def interrupted_restore_details(context: "Context") -> list[str]:
    """Details of an interrupted restore, [] if no restore was interrupted."""
    if not context.store.is_interrupted(context.root.key):
        return []
    journal = statuses.status(context).journal
    if journal is None:
        return ["What it was is damaged: taking it back sets it aside."]
    begun = age_in_words(journal.created_ns)
    return [
        f"The {journal.op} of {journal.target}, begun {begun}, is half done: some paths are as before, some as they should become.",
        f"The state before is {journal.safety}. What was edited since is kept, and named, whichever way it goes.",
    ]


def plan_totals(plan: Plan) -> str:
    """The totals of a plan."""
    written, removed = written_and_removed(plan.actions)
    left = f", {len(plan.kept)} left alone" if plan.kept else ""
    lost = f", {removed:,} REMOVED" if removed else ""
    return f"{plural(written, 'path')} written{lost}{left}"


def _decline_unless_yes(answer: str) -> None:
    if not answer:
        raise Declined


def _restore_result(report: "Restored", target: RestoreTarget = NO_TARGET) -> ActionResult:
    return ActionResult(tuple(restored_lines(report, target.name, state=target.state)), report.incomplete)


def _rewind_result(report: rewind.Rewound, target: RestoreTarget) -> ActionResult:
    incomplete = report.restored is not None and report.restored.incomplete
    return ActionResult(tuple(rewound_lines(report, target)), incomplete)


def _mark_result(report: "Marking") -> ActionResult:
    return ActionResult(tuple(marking_lines(report)), is_mark=True)


def counts_by_kind(found: "Comparison", turn_or_here: str) -> str:
    """The number of files for each kind of change. `turn_or_here`: TURN or HERE."""
    counted = diffs.count(found.changes)
    notes = unclear_notes(found.unclear)
    if counted == (0, 0, 0):
        return ", ".join(["no file differs" if turn_or_here == HERE else "no file changed", *notes])
    names = ("go", "change", "come back") if turn_or_here == HERE else ("removed", "changed", "added")
    numbers = (counted.removed, counted.modified, counted.added)
    return ", ".join([*(f"{number:,} {name}" for number, name in zip(numbers, names, strict=True) if number), *notes])
