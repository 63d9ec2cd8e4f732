"""The actions of the screen that change nothing: moving, opening, choosing, filtering, copying."""

import os
import shlex
import subprocess

from textual.app import SuspendNotSupported
from textual.widgets import Input

from ...messages import printable
from ...model.turn_records import Turn
from . import picker_rows, worker
from .patch_lines import has_parts
from .timeline import HERE, TURN
from .view import TimelineView
from .widgets import Dialog, HelpDialog


class TimelineBrowser(TimelineView):
    """The timeline with all keys that only look."""

    def _say(self, words: str) -> None:
        self._said = words
        self._tell()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpDialog())

    # -- one step in, one step back

    def action_open(self) -> None:
        """Open the selected row, directory or file."""
        pane, line = self._pane(), self._file()
        if pane == "timeline":
            if self._chosen() is not None:
                self._open()
        elif pane == "files" and line is not None and line.change is None:
            self._toggle_directory()
        elif pane == "files" and line is not None:
            self._focus("#patch")

    def _open(self) -> None:
        self._focus("#files")
        if self._preview is None:
            self._ask_preview()

    def action_escape(self) -> None:
        """Go one step back: from a file to the files, to the timeline. `q` exits."""
        self._said = ""
        pane, narrow, words = self._pane(), self.query_one("#narrow", Input), self.query_one("#filter", Input)
        if pane == "patch":
            self._focus("#files")
        elif pane == "files" and narrow.display:
            narrow.value = ""
            narrow.display = False
            self._focus("#files")
            self._refresh_choice()
        elif pane == "files" and (self._checked or self._parts):
            self._checked.clear()
            self._parts.clear()
            self._refresh_choice()
        elif self._is_opened:
            self._close()
        elif self._base is not None:
            self._base = None
            self._lines("#timeline").refresh()
        elif words.display:
            words.value = ""
            words.display = False
            self._lines("#timeline").focus()
        else:
            self._said = "q quits"
        self._tell()

    def action_unfold(self) -> None:
        """Unfold a turn or a directory; open what cannot be unfolded."""
        row, line, pane = self._chosen(), self._file(), self._pane()
        if pane == "timeline" and row is not None and isinstance(row.item, Turn) and not self._is_unfolded(row):
            self._unfolded.add(row.key)
            self._arrange()
        elif pane == "files" and line is not None and line.change is None:
            if line.is_folded:
                self._toggle_directory()
        else:
            self.action_open()

    def action_fold(self) -> None:
        """Fold the turn or directory at the cursor, or go to the turn or directory above. In a patch, go to
        the files."""
        row, line, pane = self._chosen(), self._file(), self._pane()
        if pane == "patch":
            self._focus("#files")
        elif pane == "files" and line is not None:
            if line.change is None and not line.is_folded:
                self._toggle_directory()
            else:
                lines = self._lines("#files")
                lines.move_to(self._tree.above(lines.cursor))
        elif row is not None and row.key in self._unfolded:
            self._unfolded.discard(row.key)
            self._arrange()
        elif row is not None and row.is_inside:
            lines = self._lines("#timeline")
            around = (at for at in range(lines.cursor, -1, -1) if isinstance(self._rows[at].item, Turn))
            lines.move_to(next(around, lines.cursor))

    def _toggle_directory(self) -> None:
        line, lines = self._file(), self._lines("#files")
        if line is not None and line.change is None:
            self._tree.toggle(line)
            lines.fill(len(self._tree), lines.cursor, stays=True)
            self._ask_patch()

    def action_session(self, by: int) -> None:
        """Move to the next turn of another session; in the files to the next row, in an open file to the next hunk."""
        pane, lines, row = self._pane(), self._lines("#timeline"), self._chosen()
        if pane == "patch":
            self._move_hunk(by)
            return
        if pane == "files":
            lines.move_to(lines.cursor + by)
            return
        session = picker_rows.session_of(row) if row is not None else ""
        places = range(lines.cursor + by, len(self._rows) if by > 0 else -1, by)
        others = (at for at in places if picker_rows.session_of(self._rows[at]) not in ("", session))
        found = next(others, None)
        if found is None:
            self._say("no other session in this direction")
        else:
            lines.move_to(found)

    def _move_hunk(self, by: int) -> None:
        lines = self._lines("#patch")
        places = range(lines.cursor + by, len(self._patch) if by > 0 else -1, by)
        lines.move_to(next((at for at in places if self._patch[at].sign == "@"), lines.cursor))

    # -- what is shown

    def action_switch(self) -> None:
        """Show what the turn did, or what a restore of its start would change now."""
        line = self._file()
        if line is not None and line.change is not None:
            self._wanted = line.change.path
        self._what = HERE if self._what == TURN else TURN
        self._base = None
        self._lines("#timeline").refresh()
        if self._is_opened:
            self._ask_preview()
        self._say("")

    def action_compare(self) -> None:
        """Compare other rows with this row. A second call ends the comparison."""
        row = self._chosen()
        if row is None or not row.target or self._timeline is None:
            return
        is_same = self._base is not None and self._base.key == row.key
        self._base = None if is_same else row
        name = picker_rows.title(self._timeline, row)
        self._lines("#timeline").refresh()
        self._ask_preview()
        self._say("" if is_same else f"comparing with {name}; d again ends it")

    def action_filter(self) -> None:
        """Focus the filter line of the pane."""
        line = self.query_one("#narrow" if self._pane() in ("files", "patch") else "#filter", Input)
        line.display = True
        self.screen.set_focus(line, scroll_visible=False)  # at once: text after the slash must not be read as keys

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the timeline, or the files, by these words."""
        if event.input.id == "filter":
            self._words = event.value.strip()
            self._arrange()
        elif event.input.id == "narrow":
            self._tree.filter(event.value.strip())
            self._lines("#files").fill(len(self._tree), self._first_file())
            self._ask_patch()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and focus its list."""
        if event.input.id in ("filter", "narrow"):
            event.input.display = bool(event.value.strip())
            self._focus("#timeline" if event.input.id == "filter" else "#files")

    def action_all(self) -> None:
        """Show every checkpoint, or only turns and what lies between them. In the files: choose all, or none."""
        pane, line = self._pane(), self._file()
        if pane == "timeline":
            self._everything = not self._everything
            self._arrange()
            return
        if pane == "patch" and line is not None and line.change is not None:
            if self._may_choose_parts():
                parts = {one.part for one in self._patch if one.part >= 0}
                self._choose_parts(line.change.path, set() if self._parts.get(line.change.path) == parts else parts)
            return
        paths = {change.path for change in self._tree.changes}
        self._checked = self._checked - paths if paths <= self._checked else self._checked | paths
        self._refresh_choice()

    # -- choosing files and hunks

    def action_check(self) -> None:
        """Choose a file, a directory or a hunk, or take it out of the choice. In the timeline, open the row first."""
        pane = self._pane()
        if pane == "timeline":
            self._open()
        elif pane == "patch":
            self._check_hunk()
        else:
            self._check_file()
            self._lines("#files").action_move(1)

    def action_check_on(self, by: int) -> None:
        """In the files, choose the file at the cursor and the next file in this direction. In other panes, only
        move."""
        pane = self._pane()
        lines = self._lines({"timeline": "#timeline", "patch": "#patch"}.get(pane, "#files"))
        if pane == "files":
            self._check_file(only_add=True)
        lines.action_move(by)
        if pane == "files":
            self._check_file(only_add=True)

    def _check_file(self, *, only_add: bool = False) -> None:
        line = self._file()
        if line is None:
            return
        paths = set(self._tree.below(line))
        self._checked = self._checked - paths if paths <= self._checked and not only_add else self._checked | paths
        for path in paths:
            self._parts.pop(path, None)
        self._refresh_choice()

    def _may_choose_parts(self) -> bool:
        """True if hunks can be chosen. Only a restore has hunks to choose, so the view of a restore is shown first."""
        row, line = self._chosen(), self._file()
        if row is None or line is None or line.change is None:
            return False
        if not self._has_choice():
            self._what = TURN
            self.action_switch()
            self._say("hunks are parts of a restore: this is what a restore to here changes")
            return False
        if not has_parts(line.change):
            self._say("this file can only be restored as a whole: space in the list of files chooses it")
            return False
        return True

    def _check_hunk(self) -> None:
        lines, line = self._lines("#patch"), self._file()
        if line is None or line.change is None or lines.cursor >= len(self._patch) or not self._may_choose_parts():
            return
        part = self._patch[lines.cursor].part
        if part < 0:
            self._say("no hunk here: [ and ] move between hunks")
            return
        self._choose_parts(line.change.path, self._parts.get(line.change.path, set()) ^ {part})
        self._move_hunk(1)

    def _choose_parts(self, path: bytes, parts: set[int]) -> None:
        self._checked.discard(path)
        self._parts[path] = parts
        if not parts:
            del self._parts[path]
        self._refresh_choice()

    def _refresh_choice(self) -> None:
        hunks = sum(map(len, self._parts.values()))
        words = [f"{len(self._checked):,} chosen"] if self._checked else []
        words += [f"{hunks} hunk{'s' if hunks != 1 else ''} chosen"] if hunks else []
        self._lines("#files").refresh()
        self._lines("#patch").refresh()
        self._say(f"{', '.join(words)}: only these are restored" if words else "")

    # -- what leaves the picker

    def action_edit(self) -> None:
        """Open the selected file of the worktree in the editor, then look at the worktree again."""
        line = self._file()
        if not self._is_opened or line is None or line.change is None:
            self._say("open a row and go to a file first: e edits that file")
            return
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        place = self._model.place_of(line.change.path)
        if not os.path.isfile(place):
            self._say(f"{printable(line.change.path)} is not there now: there is nothing to edit")
            return
        try:
            with self.suspend():
                code = subprocess.call([*shlex.split(editor), os.fsdecode(place)])
        except (SuspendNotSupported, OSError, ValueError) as error:
            self._say(f"cannot start the editor {editor!r}: {error}")
            return
        self._say(f"the editor ended with {code}" if code else "")
        self._wanted = line.change.path
        self._reads("looking at the files")
        self._jobs.put(worker.LOOK, self._model.look, self._looked)

    def action_copy(self) -> None:
        """Copy the path, the id or the prompt to the clipboard of the terminal."""
        row, line = self._chosen(), self._file()
        if row is None:
            return
        found: dict[str, tuple[str, str]] = {}
        if self._is_opened and line is not None:
            path = line.change.path if line.change is not None else line.key[1:]
            found["p"] = "path", printable(path)
        if row.target:
            found["i"] = "id", row.target
        prompt = self._preview.prompt if self._preview is not None else row.item.prompt if isinstance(row.item, Turn) else ""
        if prompt:
            found["t"] = "text of the prompt", prompt
        if not found:
            self._say("there is nothing to copy here")
            return

        def take(key: str | None) -> None:
            if key:
                name, text = found[key]
                self.copy_to_clipboard(text)
                self._say(f"copied the {name}, if the terminal allows it")

        lines = [f"{key}  {printable(' '.join(text.split()))}" for key, (_, text) in found.items()]
        self.push_screen(Dialog("Copy to the clipboard", lines, [(key, name) for key, (name, _) in found.items()]), take)
