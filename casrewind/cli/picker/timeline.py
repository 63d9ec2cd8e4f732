"""The picker's access to the open project. Only one thread at a time may call it. It is independent of the screen.

The danger prevented here: a picker that waits until thousands of turns are compared. The first rows are read at once
and shown; further rows follow in steps, each a job of its own.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from itertools import islice

from ... import errors
from ..._typing import TYPE_CHECKING, NamedTuple
from ...change import restore as restores
from ...change import revert as reverts
from ...change import rewind
from ...change import undo as undos
from ...change.chosen_edits import ChosenEdit, ChosenEdits, changed_error
from ...change.finish_restore import finish_restore
from ...change.worktree_change import AGAIN, WorktreeChange, ask_and_carry_out
from ...errors import Declined
from ...history import blame as blames
from ...history import compare, lookup
from ...history.checkpoint_names import is_kept_by_mark
from ...history.inner_projects import find_inner_turns
from ...history.provenance import edited_outside
from ...history.review_mark import rows_with_mark
from ...history.turn_view import TurnView
from ...history.worktree_timeline import Part, WorktreeTimeline
from ...messages import plural, printable
from ...model.at_risk import NO_EDITS
from ...model.checkpoint import MANUAL, SAFETY, Checkpoint
from ...model.diff import Change
from ...model.plan import Plan, without_options
from ...model.taken_back import UndonePair, pair_undone
from ...model.turn_records import LookedAt, Outside, Reset, Row, SavedRow, Turn
from ...model.undo_history import REDO, UNDO
from ...store.catalog import Marked
from ...upkeep import pins, reviewed_state
from ...upkeep import status as statuses
from ..plan.facts import (
    branches_in_words,
    interrupted_restore_details,
    notes_above_plan,
    step_in_words,
    target_of,
    turn_title,
    unsaved_in_words,
    whole_prompt,
)
from ..plan.hunks import edit_with_hunks, edit_without_hunks
from ..show.blamed import number_sessions
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
)
from ..show.rewound import removed_prompts, rewound_lines
from ..show.rows import is_shown, reviewed_lines, sides_of
from ..show.text import Line
from ..terminal.questions import KEEP_EDITS, Ask, Proposal
from . import picker_rows
from .patch_lines import MOST_LINES, change_as_lines
from .picker_rows import PickerRow, PickerTimeline

if TYPE_CHECKING:
    from ...change.result import Restored
    from ...context import Context
    from ...history.compare import Comparison, ScannedWorktree
    from ...upkeep.pins import Marking

CODE, CHAT, BOTH = "code", "chat", "both"
TURN, HERE = "this turn", "to here"
"""What is shown of a row: what happened then, or what a restore of it would change now."""
_FIRST_ROWS, _NEXT_ROWS, _MOST_ROWS = 30, 100, 3200
"""Rows that are read at once: at first, then, and at most."""
_PATHS = 10
"""Changed paths for each of these rows: rows with many more take as long as many rows."""


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
        self._waiting: Iterator[Row | LookedAt | UndonePair] = iter(())
        self._read: list[PickerRow] = []
        self._inside: dict[str, list[PickerRow]] = {}
        self._part: Part | None = None
        self._step = _NEXT_ROWS
        self._elsewhere: list[PickerRow] = []
        self._unsaved = ""

    # -- the timeline

    def first_timeline(self, unsaved: str = "") -> PickerTimeline:
        """The first rows with their changes, and all further turns that are known without changes. `unsaved`: see PickerTimeline."""
        self._unsaved = unsaved
        self._waiting = pair_undone(filter(is_shown, rows_with_mark(self._context, self._read_all_rows(), lambda: self._view)))
        self._read, self._inside, self._elsewhere, self._step = [], {}, [], _NEXT_ROWS
        return self._read_more(_FIRST_ROWS)

    def _read_all_rows(self) -> Iterator[Row]:
        """Yield all rows. Those that the newest checkpoints are enough for come before the others are read."""
        timeline = WorktreeTimeline(self._context, self._seen)
        for self._part, rows in timeline.parts_from(timeline.newest()):
            yield from self._part.view.rows(part=rows)

    def timeline_with_more(self) -> PickerTimeline:
        """The timeline with some more rows. Each time there are twice as many, because all of them are arranged again."""
        found = self._read_more(self._step)
        self._step = min(2 * self._step, _MOST_ROWS)
        return found

    def scan_worktree(self) -> PickerTimeline:
        """Scan the worktree. Later comparisons are with this scan; the timeline shows what was edited since."""
        self._seen = compare.scan_worktree(self._context)
        unsaved = ""
        with suppress(errors.CasrewindError):  # then the screen does not say it
            unsaved, _ = unsaved_in_words(statuses.find_unsaved(self._context, self._seen))
        return self.first_timeline(unsaved)

    def turns_with_changes(self, wanted: Sequence[PickerRow]) -> dict[str, PickerRow]:
        """Turns with their changes, by key."""
        fill = self._view.with_changes
        return {row.key: row._replace(item=fill(row.item), is_final=True) for row in wanted if isinstance(row.item, Turn)}

    @property
    def _view(self) -> TurnView:
        assert self._part is not None
        return self._part.view

    def _read_more(self, most: int) -> PickerTimeline:
        before = len(self._read)
        items, is_complete = self._next_rows(most)
        part, view = self._part, self._view
        assert part is not None
        newest = max(view.points.values(), key=lambda point: point.seq, default=None)
        found = (picker_rows.row_of(item, view.points, newest.id if newest is not None else "") for item in items)
        self._read += [row._replace(is_final=True) for row in found]
        turns = view.turns[: part.turns]
        known = next((row.item.n for row in reversed(self._read) if isinstance(row.item, Turn)), 0)
        rest = () if is_complete else (picker_rows.row_of(turn, view.points, "") for turn in turns[known:])
        if part.is_all and (is_complete or (before and not self._inside)):  # the first rows do not wait for it
            shown = {row.target for row in self._read if isinstance(row.item, SavedRow | Reset)}
            shown |= set() if is_complete else {one.id for one in view.points.values() if one.trigger in (MANUAL, SAFETY)}
            self._inside = picker_rows.rows_inside_turns(view.turns, view.points, shown)
            self._elsewhere = [picker_rows.point_row(one) for one in self._checkpoints_elsewhere()]
        return PickerTimeline(
            rows=[*self._read, *rest],
            points=view.points,
            named=view.named,
            marks=view.marks,
            inside=self._inside,
            sides=sides_of(view.turns),
            sessions=number_sessions(turns),
            turns=len(turns),
            elsewhere=self._elsewhere,
            unfinished=interrupted_restore_details(self._context),
            is_complete=is_complete,
            total=None if part.is_all else self._context.store.count_listed_checkpoints(self._context.root.key),
            origin_of=view.origin_of,
            unsaved=self._unsaved,
        )

    def _next_rows(self, most: int) -> tuple[list[Row | LookedAt | UndonePair], bool]:
        """At most so many rows, or as few as have enough changed paths, and whether these are the last ones."""
        found: list[Row | LookedAt | UndonePair] = []
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

    def blame(self, path: bytes) -> blames.Blame:
        """Who wrote each line of a file, as it is now. Raises PathNotFound if it is not there."""
        return blames.blame(self._context, path)

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
        if isinstance(item, Turn):
            if item.changes is None and item.to_now and self._seen is None:
                self.scan_worktree()
            return self._view.comparison(self._view.with_changes(item) if item.changes is None else item)
        found = compare.comparison_of_changes(context, ()) if isinstance(item, LookedAt) else self._view.comparison_of_row(item)
        if found is None:
            raise errors.StoreDamaged("what changed then cannot be read", "casrewind verify shows what is damaged")
        return found

    def _whole_prompt(self, row: PickerRow) -> str:
        """The whole prompt. A checkpoint holds its start only; the transcript has the rest."""
        if isinstance(row.item, Turn):
            return whole_prompt(self._context, self._view, row.item)
        return row.item.own_prompt if isinstance(row.item, Checkpoint) else ""

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
        wishes = _Wishes(keep_edits=self._keep_edits and edits is None)
        while True:
            try:
                return self._plan_ask_and_restore(row, code_chat_or_both, scope, ask, edits, wishes)
            except errors.PathNotFound as error:
                raise errors.PathNotFound(
                    "nothing to restore: the chosen files were not there before this, and are not there now", "v shows what c would change"
                ) from error
            except errors.StoreDamaged as error:
                if wishes.skip_damaged or code_chat_or_both == CHAT or self._context.store.is_interrupted(self._context.root.key):
                    raise
                question = "Damaged in the store. Leave the damaged files alone, and plan everything else?"
                _decline_unless_yes(ask(Proposal(Line(question), [Line(printable(error.problem))])))
                wishes.skip_damaged = True

    def _plan_ask_and_restore(
        self, row: PickerRow, code_chat_or_both: str, scope: Sequence[bytes], ask: Ask, edits: ChosenEdits | None,
        wishes: "_Wishes",
    ) -> ActionResult:  # fmt: skip
        context, point = self._context, self._point_of(row)
        target = target_of(context, point)
        chat = None if code_chat_or_both == CODE else rewind.prepare_rewind(context, point)
        before = None if chat is None else chat.plan()
        if chat is not None and code_chat_or_both == CHAT:
            title, kept = "Fork the conversation as it was", "The conversation itself stays as it is."
            return _ask_and_rewind(chat, title, (), kept, ask, target)
        what = "files" if before is None else "chat and files"

        def confirm(plan: Plan) -> bool | str:
            some = ", keeping your edits" if wishes.keep_edits else _parts_in_words(edits)
            outside = NO_EDITS if wishes.keep_edits else edited_outside(context, point, plan.actions)
            may_keep = bool(outside.proved) and outside.can_stay and edits is None
            stays = what_stays_lines(point.more.machine, plan.turns) if wishes.keep_edits else ()
            below = [*outside_lines(outside, KEEP_EDITS if may_keep else ""), *foreign_lines(plan.foreign)]
            asked = self._plan_to_ask(f"Restore {what} {target.name}{some}", plan, point.created_ns, stays, below, edits)
            branches = branches_in_words(context, point).removeprefix(", ")
            notes = [*asked.notes, *([Line(f"NOTE: {branches}")] if branches else [])]
            taken = () if before is None else _taken_back_lines(before)
            answer = ask(asked._replace(lines=[*asked.lines, *taken], notes=notes, may_keep=may_keep))
            if answer == KEEP_EDITS:
                wishes.keep_edits = True
                return AGAIN
            return bool(answer)

        if before is None:
            prepare = partial(restores.prepare_restore, context, point, scope=scope, edits=edits)
            return _restore_result(ask_and_carry_out(lambda: prepare(**vars(wishes)), confirm), target)
        both = partial(rewind.prepare_rewind, context, point, both=True, scope=scope)
        return _rewind_result(ask_and_carry_out(lambda: both(**vars(wishes)), confirm), target)

    def take_back(self, turn: Turn, scope: Sequence[bytes], ask: Ask, parts: "ChosenParts | None" = None) -> ActionResult:
        """Take back what a turn changed, after `ask` returns YES. `parts`: hunks of it that are chosen beside the files in
        `scope`. Raises Declined and others."""
        view = TurnView(self._context)
        turn = view.find_turn(turn.id)
        hunks = _edits_of_chosen_hunks(parts, edit_without_hunks) if parts is not None else {}
        name = f"{turn_title(turn)}{_parts_in_words(hunks)}"

        def confirm(plan: Plan) -> bool:
            return bool(ask(self._plan_to_ask(f"Take back {name}", plan, turn.started_ns or 0, edits=hunks)))

        prepare = partial(reverts.prepare_revert, self._context, view, [turn], [*scope, *hunks], hunks=hunks)
        return _restore_result(ask_and_carry_out(prepare, confirm), RestoreTarget(name, turn.n, turn.started_ns))

    def _plan_to_ask(
        self, title: str, plan: Plan, since_ns: int, above: Iterable[Line] = (), below: Iterable[Line] = (),
        edits: "ChosenEdits | None" = None, kept: str = UNDO_KEEPS,
    ) -> Proposal:  # fmt: skip
        """A plan as the terminal shows it. `since_ns`: when what it goes back to was, in nanoseconds since 1970. `above` and `below`:
        further lines around the paths. `edits`: chosen hunks of files. `kept`: what a yes preserves."""
        inner = inner_lines(find_inner_turns(self._context, since_ns, plan.actions))
        notes = notes_above_plan(self._context, plan)
        told = plan._replace(kept=without_options(plan.kept))
        lines = [*above, *plan_lines(told), *below, *inner]
        return Proposal(headline(title, plan), lines, notes, kept, lambda: self._plan_patch(plan, edits or {}))

    def _plan_patch(self, plan: Plan, edits: ChosenEdits) -> Iterator[Line]:
        """The patch of a plan. `edits`: chosen hunks, whose contents the store does not have."""
        merged = {item.path for item in plan.merged}
        made = {path: edit.data for path, edit in edits.items() if edit is not None and edit.data is not None and path not in merged}
        found = compare.comparison_of_plan(self._context, really_changes(plan.actions), plan.merged, made, plan.read)
        removed_first = sorted(found.changes, key=lambda change: change.new is not None)
        lines = (Line(line.text) for change in removed_first for line in change_as_lines(found, change, is_plain=True))
        yield from islice(lines, MOST_LINES)
        if next(lines, None) is not None:
            yield Line(f"... more than {MOST_LINES} lines; casrewind diff --patch shows them all")

    def rewrite(self, row: PickerRow, ask: Ask) -> ActionResult:
        """Rewind the conversation in its own session if `ask` returns True. Raises Declined and the errors of
        a rewind."""
        point = self._point_of(row)
        change = rewind.prepare_rewind(self._context, point, in_place=True)
        title, target = "Cut the conversation in its own session,", target_of(self._context, point)
        where = [Line(printable(change.plan().transcript))]
        return _ask_and_rewind(change, title, where, "A copy of it as it is now is kept beside it.", ask, target)

    def undo(self, ask: Ask, *, everything: bool = False) -> ActionResult:
        """Undo the newest restore after `ask` returns YES. `everything` also undoes later edits. Raises Declined and others."""
        undos.refuse_behind_rewind(self._context, partial(step_in_words, self._context))
        return self._do_step(UNDO, partial(undos.prepare_undo, self._context, everything=everything), ask, everything=everything)

    def redo(self, ask: Ask) -> ActionResult:
        """Redo the newest undo after `ask` returns YES. Raises Declined and others."""
        return self._do_step(REDO, partial(undos.prepare_redo, self._context), ask)

    def _do_step(self, kind: str, prepare: Callable[[], WorktreeChange], ask: Ask, *, everything: bool = False) -> ActionResult:
        """Undo or redo the newest step, after the plan that the terminal shows."""
        context, names = self._context, [""]

        def confirm(plan: Plan) -> bool:
            history = context.store.history(context.root.key)  # as it is now: a person is asked again
            newest = (history.undo if kind == UNDO else history.redo)[-1]
            names.append(step_in_words(context, newest))
            later = outside_lines(undos.edited_since(context, newest, plan.actions) if everything else NO_EDITS)
            made = context.store.checkpoint(newest.safety)
            title, kept = f"{kind.capitalize()}{' all:' if everything else ''} {names[-1]}", REDO_KEEPS if kind == UNDO else UNDO_KEEPS
            return bool(ask(self._plan_to_ask(title, plan, 0 if made is None else made.created_ns, below=later, kept=kept)))

        return _restore_result(ask_and_carry_out(prepare, confirm), RestoreTarget(names[-1], None, None))

    def pin(self, point: str, marked: Marked) -> ActionResult:
        """Pin the checkpoint, or unpin it."""
        found = lookup.checkpoint(self._context, point)
        return _mark_result(pins.unpin(self._context, found) if is_kept_by_mark(found, marked) else pins.pin(self._context, found))

    def label(self, point: str, label: str) -> ActionResult:
        """Pin a checkpoint, and label it."""
        return _mark_result(pins.pin(self._context, lookup.checkpoint(self._context, point), label))

    def mark_reviewed(self, row: PickerRow, name: str) -> ActionResult:
        """Mark what was there behind a row as looked at. `name`: that of the row."""
        if isinstance(row.item, Turn):
            _, point = self._view.find_state(f"after:@{row.item.n}")
        elif isinstance(row.item, Outside):  # its target is the state before the edit
            point = lookup.checkpoint(self._context, row.item.checkpoint) if row.item.checkpoint else None
        elif isinstance(row.item, SavedRow | Checkpoint):
            point = self._point_of(row)
        else:
            raise errors.CheckpointNotFound("m marks the state behind a turn, an edit or a save: this row is none of them")
        found = reviewed_state.mark_and_review(self._context, point)
        lines = reviewed_lines(f"up to {name}", found.before, found.left, names_old=False)
        return ActionResult((Line("; ".join(line.text for line in lines)),), is_mark=True)

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


def _parts_in_words(edits: ChosenEdits | None) -> str:
    """What the title of a plan says of chosen hunks."""
    parts = sum(edit is not None for edit in (edits or {}).values())
    return f", parts of {plural(parts, 'file')} only" if parts else ""


def _taken_back_lines(before: rewind.Rewound) -> list[Line]:
    """What a rewind says of the conversation before it is made."""
    return [*map(Line, before.notes), *removed_prompts(before)]


def _decline_unless_yes(answer: str) -> None:
    if not answer:
        raise Declined


def _restore_result(report: "Restored", target: RestoreTarget = NO_TARGET) -> ActionResult:
    report = report._replace(kept=without_options(report.kept))
    return ActionResult(tuple(restored_lines(report, target.name, state=target.state)), report.incomplete)


class _Wishes:
    """What a person asks for while plans of one restore are shown."""

    def __init__(self, *, keep_edits: bool) -> None:
        """At first, no damaged path is left alone."""
        self.keep_edits, self.skip_damaged = keep_edits, False


def _ask_and_rewind(
    change: rewind.RewindChange, title: str, where: Iterable[Line], kept: str, ask: Ask, target: RestoreTarget
) -> ActionResult:
    """Rewind a conversation alone, after a question with the prompts that are taken back. `where`: what is cut, if it is the session."""
    before = change.plan()
    named = Line(f"{title} {target.name.removeprefix('to ')}: {plural(len(before.prompts), 'prompt')} taken back, no file changed")
    _decline_unless_yes(ask(Proposal(named, [*where, *_taken_back_lines(before)], kept=kept)))
    return _rewind_result(change.carry_out(), target)


def _rewind_result(report: rewind.Rewound, target: RestoreTarget) -> ActionResult:
    incomplete = report.restored is not None and report.restored.incomplete
    return ActionResult(tuple(rewound_lines(report, target)), incomplete)


def _mark_result(report: "Marking") -> ActionResult:
    return ActionResult((Line(str(report)),), is_mark=True)
