"""The keys that change nothing: moving, opening, choosing, filtering, copying."""

import os
import shlex
import subprocess

from textual.app import SuspendNotSupported
from textual.widgets import Input

from ... import programs
from ...messages import printable
from ...model.diff import Change
from ...model.turn_records import Turn
from ..plan.hunks import has_hunks
from . import picker_rows
from .read_jobs import TimelineReader
from .state import PickerState
from .timeline import TURN
from .view import PickerView
from .widgets import Dialog, HelpDialog


class PickerKeys:
    """Keys that only look. Each method is what one key does."""

    def __init__(self, state: PickerState, view: PickerView, reader: TimelineReader) -> None:
        """A key changes `state`, draws it with `view`, or asks `reader` for more."""
        self.state, self.view, self.reader = state, view, reader

    def help(self) -> None:
        """Show the keys."""
        self.view.app.push_screen(HelpDialog())

    def open(self) -> None:
        """Open the selected row, directory or file."""
        pane, line = self.view.focused_pane(), self.view.chosen_file()
        if pane == "timeline":
            if self.view.chosen() is not None:
                self._open_row()
        elif pane == "files" and line is not None and line.change is None:
            self._toggle_directory()
        elif pane == "files" and line is not None:
            self.view.show_and_focus("#patch")

    def _open_row(self) -> None:
        self.view.show_and_focus("#files")
        if self.state.preview is None:
            self.reader.start_preview_job()

    def escape(self) -> None:
        """Go one step back: from a file to the files, to the timeline. `q` exits."""
        self.state.said = ""
        pane, narrow, words = self.view.focused_pane(), self.view.app.query_one("#narrow", Input), self.view.app.query_one("#filter", Input)
        if words.has_focus:
            self._end_filter(words, "#timeline")
        elif pane == "patch":
            self._leave_file()
        elif pane == "files" and narrow.display:
            self._end_filter(narrow, "#files")
            self._refresh_choice()
        elif pane == "files" and (self.state.checked or self.state.parts):
            self.state.forget_choice()
            self._refresh_choice()
        elif self.state.is_opened:
            self.view.show_timeline_alone()
        elif self.state.base is not None:
            self.state.base = None
            self.view.list_widget("#timeline").refresh()
        elif words.display:
            self._end_filter(words, "#timeline")
        else:
            self.state.said = "q quits"
        self.view.update_lines()

    def _leave_file(self) -> None:
        """Go from an open file to the files. What is shown of it is its patch again."""
        self.view.show_and_focus("#files")
        if self.state.is_blamed:
            self.reader.start_patch_job()

    def _end_filter(self, words: Input, pane: str) -> None:
        words.value = ""
        words.display = False
        self.view.show_and_focus(pane)

    def unfold(self) -> None:
        """Unfold a turn or a directory; open what cannot be unfolded."""
        row, line, pane = self.view.chosen(), self.view.chosen_file(), self.view.focused_pane()
        if pane == "timeline" and row is not None and isinstance(row.item, Turn) and not self.state.is_unfolded(row):
            self.state.unfolded.add(row.key)
            self.reader.list_rows_keeping_cursor()
        elif pane == "files" and line is not None and line.change is None:
            if line.is_folded:
                self._toggle_directory()
        else:
            self.open()

    def fold(self) -> None:
        """Fold the turn or directory at the cursor, or go to the turn or directory above. In a patch, go to
        the files."""
        row, line, pane = self.view.chosen(), self.view.chosen_file(), self.view.focused_pane()
        if pane == "patch":
            self._leave_file()
        elif pane == "files" and line is not None:
            if line.change is None and not line.is_folded:
                self._toggle_directory()
            else:
                lines = self.view.list_widget("#files")
                lines.move_to(self.state.tree.line_of_directory_above(lines.cursor))
        elif row is not None and row.key in self.state.unfolded:
            self.state.unfolded.discard(row.key)
            self.reader.list_rows_keeping_cursor()
        elif row is not None and row.is_inside:
            lines = self.view.list_widget("#timeline")
            lines.move_to(self.state.turn_around(lines.cursor))

    def _toggle_directory(self) -> None:
        line, lines = self.view.chosen_file(), self.view.list_widget("#files")
        if line is not None and line.change is None:
            self.state.tree.toggle_directory(line)
            lines.set_count(len(self.state.tree), lines.cursor, stays=True)
            self.reader.start_patch_job()

    def turn(self, by: int) -> None:
        """Move to the next turn, an older or a newer one. What is open stays open, and shows that turn."""
        place = self.state.other_turn(self.view.list_widget("#timeline").cursor, by)
        self._move_to_row(place, "no newer turn" if by < 0 else "no older turn")

    def session(self, by: int) -> None:
        """Move to the next turn of another session; in the files to the next row, in an open file to the next hunk."""
        pane, lines = self.view.focused_pane(), self.view.list_widget("#timeline")
        if pane == "patch":
            self._move_hunk(by)
        elif pane == "files":
            lines.move_to(lines.cursor + by)
        else:
            self._move_to_row(self.state.other_session(lines.cursor, by), "no other session in this direction")

    def _move_to_row(self, place: int | None, why_not: str) -> None:
        found = self.state.timeline
        if place is not None:
            self.view.list_widget("#timeline").move_to(place)
        elif found is not None and found.total is not None:
            why_not = "not all turns are read yet"
        self.view.show_answer(why_not if place is None and found is not None else "")

    def _move_hunk(self, by: int) -> None:
        if self.state.is_blamed:
            self.view.show_answer("no hunks here: B shows the patch again")
            return
        lines = self.view.list_widget("#patch")
        lines.move_to(self.state.other_hunk(lines.cursor, by))

    def switch(self) -> None:
        """Show what the turn did, or what a restore of its start would change now."""
        line = self.view.chosen_file()
        if line is not None and line.change is not None:
            self.state.wanted = line.change.path
        self.state.switch_preview()
        self.state.said = ""
        self.view.list_widget("#timeline").refresh()
        if self.state.is_opened:
            self.reader.start_preview_job()
        self.view.update_lines()

    def compare(self) -> None:
        """Compare other rows with this row. A second call ends the comparison."""
        row = self.view.chosen()
        if row is None or not row.target or self.state.timeline is None:
            return
        begins = self.state.toggle_base(row)
        name = picker_rows.row_title(self.state.timeline, row)
        self.view.list_widget("#timeline").refresh()
        self.reader.start_preview_job()
        self.view.show_answer(f"comparing with {name}; d again ends it" if begins else "")

    def filter(self) -> None:
        """Focus the filter line of the pane."""
        line = self.view.app.query_one("#narrow" if self.view.focused_pane() in ("files", "patch") else "#filter", Input)
        line.display = True
        self.view.app.screen.set_focus(line, scroll_visible=False)  # at once: text after the slash must not be read as keys

    def everything(self) -> None:
        """Show every checkpoint, or only turns and what lies between them. In the files: choose all, or none."""
        pane, line = self.view.focused_pane(), self.view.chosen_file()
        if pane == "timeline":
            self.state.everything = not self.state.everything
            self.reader.list_rows_keeping_cursor()
            return
        if pane == "patch" and line is not None and line.change is not None:
            if self._may_choose_parts():
                parts = {one.part for one in self.state.patch if one.part >= 0}
                self._choose_parts(line.change.path, set() if self.state.parts.get(line.change.path) == parts else parts)
            return
        self.state.toggle_choice(self.state.tree.all_choosable_paths())
        self._refresh_choice()

    def check(self) -> None:
        """Choose a file, a directory or a hunk, or take it out of the choice. In the timeline, open the row first."""
        pane = self.view.focused_pane()
        if pane == "timeline":
            self._open_row()
        elif pane == "patch":
            self._check_hunk()
        else:
            self._check_file()
            self.view.list_widget("#files").action_move(1)

    def check_file_and_next(self, by: int) -> None:
        """In the files, choose the file at the cursor and the next file in this direction. In other panes, only
        move."""
        pane = self.view.focused_pane()
        lines = self.view.list_widget({"timeline": "#timeline", "patch": "#patch"}.get(pane, "#files"))
        if pane == "files":
            self._check_file(only_add=True)
        lines.action_move(by)
        if pane == "files":
            self._check_file(only_add=True)

    def _check_file(self, *, only_add: bool = False) -> None:
        line = self.view.chosen_file()
        if line is None:
            return
        paths = set(self.state.tree.choosable_paths_of(line))
        self.state.toggle_choice(paths, only_add=only_add)
        self._refresh_choice()
        if not paths:
            self.view.show_answer("the mode of a directory cannot be chosen: c without a choice restores it, too")

    def _may_choose_parts(self) -> bool:
        """True if hunks can be chosen: of a turn, or of a restore. For another row the view of a restore is shown first."""
        row, line = self.view.chosen(), self.view.chosen_file()
        if row is None or line is None or line.change is None:
            return False
        if self.state.is_blamed:
            self.view.show_answer("no hunks here: B shows the patch again")
            return False
        if not self.state.has_choice():
            self.state.what = TURN
            self.switch()
            self.view.show_answer("hunks are parts of a restore: this is what a restore to here changes")
            return False
        if not has_hunks(line.change):
            self.view.show_answer("this file has no parts to choose: space in the list of files chooses it")
            return False
        return True

    def _check_hunk(self) -> None:
        lines, line = self.view.list_widget("#patch"), self.view.chosen_file()
        if line is None or line.change is None or lines.cursor >= len(self.state.patch) or not self._may_choose_parts():
            return
        part = self.state.patch[lines.cursor].part
        if part < 0:
            self.view.show_answer("no hunk here: [ and ] move between hunks")
            return
        self._choose_parts(line.change.path, self.state.parts.get(line.change.path, set()) ^ {part})
        self._move_hunk(1)

    def _choose_parts(self, path: bytes, parts: set[int]) -> None:
        self.state.choose_parts(path, parts)
        self._refresh_choice()

    def _refresh_choice(self) -> None:
        self.view.list_widget("#files").refresh()
        self.view.list_widget("#patch").refresh()
        self.view.show_answer(self.state.choice_in_words())

    def blame(self) -> None:
        """Show who wrote each line of the selected file, or its patch again."""
        change = self._file_that_is_there("B shows who wrote its lines", "B shows files as they are now")
        if change is None:
            return
        self.view.show_and_focus("#patch")
        if self.state.is_blamed:
            self.reader.start_patch_job()
        else:
            self.state.is_blamed = True
            self.reader.start_blame_job(change)
        self.view.show_answer("")

    def _file_that_is_there(self, why_a_file: str, why_there: str) -> Change | None:
        """The change of the selected file, if the file is in the worktree now. Else the answer is what is missing, and why."""
        line = self.view.chosen_file()
        if not self.state.is_opened or line is None or line.change is None:
            self.view.show_answer(f"open a row and go to a file first: {why_a_file}")
            return None
        if not os.path.isfile(self.reader.model.absolute_path(line.change.path)):
            self.view.show_answer(f"{printable(line.change.path)} is not there now: {why_there}")
            return None
        return line.change

    def edit(self) -> None:
        """Open the selected file of the worktree in the editor, then look at the worktree again."""
        change = self._file_that_is_there("e edits that file", "there is nothing to edit")
        if change is None:
            return
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        place = self.reader.model.absolute_path(change.path)
        try:
            name, *words = shlex.split(editor)
            program = programs.find_program(name, os.environ)
            if program is None:
                raise FileNotFoundError("there is no such program in an absolute directory of PATH")
            with self.view.app.suspend():
                code = subprocess.call([program, *words, os.fsdecode(place)])
        except (SuspendNotSupported, OSError, ValueError) as error:
            self.view.show_answer(f"cannot start the editor {editor!r}: {error}")
            return
        self.view.show_answer(f"the editor ended with {code}" if code else "")
        self.state.wanted = change.path
        self.reader.scan_worktree()

    def copy(self) -> None:
        """Copy the path, the id or the prompt to the clipboard of the terminal."""
        row, line = self.view.chosen(), self.view.chosen_file()
        if row is None:
            return
        found: dict[str, tuple[str, str]] = {}
        if self.state.is_opened and line is not None:
            path = line.change.path if line.change is not None else line.key[1:]
            found["p"] = "path", printable(path)
        if row.target:
            found["i"] = "id", row.target
        prompt = self.state.preview.prompt if self.state.preview is not None else row.item.prompt if isinstance(row.item, Turn) else ""
        if prompt:
            found["t"] = "text of the prompt", prompt
        if not found:
            self.view.show_answer("there is nothing to copy here")
            return

        def take(key: str | None) -> None:
            if key:
                name, text = found[key]
                self.view.app.copy_to_clipboard(text)
                self.view.show_answer(f"copied the {name}, if the terminal allows it")

        lines = [f"{key}  {printable(' '.join(text.split()))}" for key, (_, text) in found.items()]
        self.view.app.push_screen(Dialog("Copy to the clipboard", lines, [(key, name) for key, (name, _) in found.items()]), take)
