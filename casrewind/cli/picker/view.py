"""Draws the state of the picker: the timeline of turns, and on demand a row's prompt, files and patch."""

from rich.text import Text
from textual.app import App
from textual.widgets import Input, Static

from . import coloured_lines
from .file_tree import TreeLine
from .picker_rows import PickerRow
from .state import PickerState
from .timeline import HERE, TURN
from .widgets import LineList

_KEYS = {
    "timeline": (
        "enter open", "c restore", "t chat", "b both", "x take back", "u undo", "r redo", "v to here", "n next turn", "m looked at",
        "/ filter", "a all", "? help", "q quit",
    ),
    "files": (
        "enter open", "space choose", "a all", "c restore", "x take back", "v to here", "n next turn", "/ filter", "B blame", "e edit",
        "y copy", "esc back", "? help", "q quit",
    ),
    "patch": (
        "space choose hunk", "[ ] hunks", "c restore", "x take back", "v to here", "n next turn", "B blame", "e edit", "y copy", "esc back",
        "? help", "q quit",
    ),
    "blame": ("B patch", "x take back", "v to here", "n next turn", "e edit", "y copy", "esc back", "? help", "q quit"),
}  # fmt: skip
"""The keys below the panes. `?` shows all keys."""
_WIDE, _HIGH = 110, 30
"""Columns for timeline and files side by side, and rows for files above an open patch."""


class PickerView:
    """The panes of the screen, drawn from the state."""

    def __init__(self, app: App[int], state: PickerState) -> None:
        """`app` has the widgets."""
        self.app, self.state = app, state
        self._prompt: list[Text] = []

    def show_and_focus(self, pane: str) -> None:
        """Move to a pane, which is shown if it was not."""
        self.state.is_opened = self.state.is_opened or pane != "#timeline"
        self.list_widget(pane).display = True
        self.app.screen_stack[0].query_one("#left" if pane == "#timeline" else "#right").display = True
        self.app.screen_stack[0].set_focus(self.list_widget(pane))
        self.arrange_panes()

    def show_timeline_alone(self) -> None:
        """Show the timeline alone."""
        self.state.is_opened = False
        self.show_and_focus("#timeline")
        self.state.preview = None
        self.state.forget_choice()

    def arrange_panes(self) -> None:
        """Show the panes that fit, for what is opened."""
        screen = self.app.screen_stack[0]
        is_small, pane = self.is_small(), self.focused_pane()
        screen.set_class(is_small, "small")
        screen.set_class(self.state.is_opened and not is_small, "opened")
        screen.query_one("#left").display = not (self.state.is_opened and is_small)
        screen.query_one("#right").display = self.state.is_opened
        self.list_widget("#files").display = pane != "patch" or self.app.size.height >= _HIGH

    def is_small(self) -> bool:
        """True if timeline and files do not fit side by side."""
        return self.app.size.width < _WIDE

    def focused_pane(self) -> str:
        """The pane that has the focus."""
        focused = self.app.screen_stack[0].focused
        name = focused.id if focused is not None else None
        return {"files": "files", "narrow": "files", "prompt": "files", "patch": "patch"}.get(name or "", "timeline")

    def show_busy(self, words: str) -> None:
        """Show how far a job is, if one runs."""
        if self.state.busy:
            self.state.busy = words
            self.update_lines()

    def update_lines(self) -> None:
        """Update the lines above and below the panes."""
        self.show_text("#top", Text(f"casrewind · {self.state.name} · {self.state.totals_in_words()}", style="bold"))
        self.show_text("#status", Text(self.state.status_line(), style="cyan"))
        other = f"v {TURN if self.state.what == HERE else HERE}"
        pane = self.focused_pane()
        shown = "blame" if pane == "patch" and self.state.is_blamed else pane
        keys = [other if key.startswith("v ") else key for key in _KEYS[shown]]
        self.show_text("#keys", coloured_lines.footer(keys, self.app.size.width))

    def show_reading(self, words: str) -> None:
        """Show a description of the read job; "" clears it. During an action, the action is shown instead."""
        if not self.state.acting:
            self.state.busy = words
        self.update_lines()

    def show_text(self, where: str, text: Text) -> None:
        """Show a text in a line above or below the lists."""
        for found in self.app.screen_stack[0].query(where).results(Static):
            found.update(text)

    def list_widget(self, pane: str) -> LineList:
        """One of the lists: #timeline, #prompt, #files or #patch."""
        return self.app.screen_stack[0].query_one(pane, LineList)

    def paint_row(self, index: int, width: int) -> Text:
        """A line of the timeline."""
        assert self.state.timeline is not None
        row = self.state.rows[index]
        is_base = self.state.base is not None and row.key == self.state.base.key
        return coloured_lines.timeline_row(self.state.timeline, row, width, is_base=is_base, is_unfolded=self.state.is_unfolded(row))

    def paint_prompt(self, index: int, _: int) -> Text:
        """A line of the prompt."""
        return self._prompt[index].copy()

    def paint_file(self, index: int, _: int) -> Text:
        """A line of the files."""
        line = self.state.tree.lines[index]
        return coloured_lines.tree_line(
            line, self.state.tree.choosable_paths_of(line), self.state.checked, self.state.parts, self.state.lines_of
        )

    def paint_patch(self, index: int, _: int) -> Text:
        """A line of the patch."""
        line = self.state.patch[index]
        change = self.chosen_file()
        chosen = self.state.parts.get(change.change.path, set()) if change is not None and change.change is not None else set()
        return coloured_lines.patch_line(line, is_choice=self.state.has_choice(), is_chosen=line.part in chosen)

    def chosen(self) -> PickerRow | None:
        """The row at the cursor."""
        return self.state.row_at(self.list_widget("#timeline").cursor)

    def fit_prompt(self) -> None:
        """Wrap the prompt to the width of its pane. It has a fifth of the rows; more of it scrolls."""
        lines = self.list_widget("#prompt")
        text = self.state.preview.prompt if self.state.preview is not None else ""
        width = max((self.list_widget("#files").size.width or self.app.size.width) - 2, 10)
        self._prompt = coloured_lines.wrapped(text, width, self.app.console) if text.strip() else []
        lines.display = bool(self._prompt)
        lines.styles.height = max(min(len(self._prompt), self.app.size.height // 5), 1)
        lines.set_count(len(self._prompt))

    def chosen_file(self) -> TreeLine | None:
        """The line of the files at the cursor."""
        return self.state.line_at(self.list_widget("#files").cursor)

    def file_filter(self) -> str:
        """The words that filter the files."""
        return self.app.screen_stack[0].query_one("#narrow", Input).value.strip()

    def clear_row_lists(self) -> None:
        """Empty the lists of a row."""
        self._prompt = []
        for name in ("#prompt", "#files", "#patch"):
            self.list_widget(name).set_count(0)

    def show_answer(self, words: str) -> None:
        """Answer a key."""
        self.state.said = words
        self.update_lines()
