"""The widgets of the picker: a list of any length, and dialogs (questions, messages, the help).

Two dangers are prevented here. A list of thousands of rows could delay every key: Textual's own lists make a widget or
a row of cells per item, so this one renders only its visible lines. A key could answer yes by mistake: Escape and
ctrl-C always mean no, and Enter answers no question.
"""

import textwrap
from collections.abc import Callable, Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from ..._typing import ClassVar
from .coloured_lines import parts_in_lines

Paint = Callable[[int, int], Text]
"""Maps (index of an item, columns) to the line of the item."""
_MARK = "▶"
"""Stands in front of the selected item, whichever list has the focus."""
_DIALOG_COLUMNS = 100
"""Maximum columns of a dialog."""
_MOST_ROWS = 16  # of the list
_LEAST_ROWS = 3
_CSS = """
    align: center middle; background: ansi_default;
    #box { width: 96%; max-width: 100; height: auto; max-height: 94%; border: round ansi_cyan; padding: 0 1;
           background: ansi_default; color: ansi_default; }
    #box Static { width: 100%; height: auto; background: ansi_default; color: ansi_default; }
    #box LineList { height: 1fr; margin: 1 0; }
    #box Input { background: ansi_default; color: ansi_default; border: none; height: 1; padding: 0; margin: 1 0; }
"""
YES = (("y", "yes"),)
HELP = (
    ("j k, arrows", "down, up; page up and down, ctrl-d ctrl-u: pages and half pages; g G: first, last"),
    ("n N", "the next older turn, the next newer one; an open turn stays open"),
    ("[ ]", "the next turn of another session; in the files: the next row; in an open file: the next hunk"),
    ("enter", "open: a turn, a directory, a file"),
    ("escape", "one step back"),
    ("tab", "the next pane"),
    ("right, left", "unfold a turn into its checkpoints, fold it; the same for directories"),
    ("v", "show what this turn did, or what a restore to here changes"),
    ("/", "filter: words of prompts, paths, sessions, labels; in the files: of paths"),
    ("a", "every checkpoint, those of other worktrees too; in the files: choose all"),
    ("space", "choose a file or a directory; in an open file: a hunk"),
    ("J K", "choose files while moving down or up"),
    ("c", "restore the files to before this: a prompt, an edit, a restore; or to this save"),
    ("t", "fork the conversation as it was then"),
    ("b", "both, files and conversation"),
    ("i", "cut the conversation in its own session"),
    ("x", "take back what this turn changed, and keep what was done since"),
    ("u U r", "undo, undo everything (later edits too), redo"),
    ("o", "finish or take back a restore that was interrupted"),
    ("p l", "pin, label"),
    ("m", "mark as looked at, up to this row: what casrewind review begins with, back or forward"),
    ("d", "compare with this row; escape ends it"),
    ("B", "in the files: who wrote each line of this one, as it is now; again: its patch"),
    ("e", "open the file in $VISUAL or $EDITOR"),
    ("y", "copy the path, the id or the prompt"),
    ("q", "quit"),
)
"""The keys and what they do."""


class LineList(ScrollView, can_focus=True):
    """Items of one line each. With a cursor an item is selected; without a cursor the list only scrolls."""

    # Checked before the focused widget receives the key, as the picker's own keys are. Otherwise a letter typed after a
    # cursor key would be handled first, and restore the wrong row.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False, priority=True),
        Binding("down,j", "move(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("home,g", "end(0)", show=False, priority=True),
        Binding("end,G", "end(1)", show=False, priority=True),
        Binding("ctrl+d", "half(1)", show=False, priority=True),
        Binding("ctrl+u", "half(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    LineList { background: ansi_default; color: ansi_default; overflow-x: hidden; overflow-y: auto;
            scrollbar-size-vertical: 1; scrollbar-background: ansi_default; scrollbar-color: ansi_bright_black;
            scrollbar-background-hover: ansi_default; scrollbar-color-hover: ansi_white;
            scrollbar-background-active: ansi_default; scrollbar-color-active: ansi_white; }
    """

    class _Told(Message):
        """A message from this widget."""

        def __init__(self, lines: "LineList") -> None:
            """`lines` is the widget that sends the message."""
            super().__init__()
            self.lines = lines

        @property
        def control(self) -> "LineList":
            """The widget that sends the message."""
            return self.lines

    class CursorMoved(_Told):
        """The cursor moved to another item."""

    class Scrolled(_Told):
        """The visible items changed."""

    def __init__(self, paint: Paint, *, cursor: bool = True, id: str) -> None:  # noqa: A002 - textual's word
        """An empty list."""
        super().__init__(id=id)
        self._paint, self._has_cursor = paint, cursor
        self.count, self.cursor = 0, 0

    def set_count(self, count: int, cursor: int = 0, *, stays: bool = False) -> None:
        """Set the number of items and the cursor. With `stays` the cursor keeps its line on the
        screen if the list was scrolled."""
        line = self.cursor - self.scroll_offset.y
        self.count, self.cursor = count, max(min(cursor, count - 1), 0)
        self.virtual_size = Size(self.size.width, count)
        if stays and self._has_cursor and self.scroll_offset.y:
            self.scroll_to(y=max(self.cursor - line, 0), animate=False, force=True)
        self._scroll_to_cursor()
        self.refresh()

    def first_visible(self) -> int:
        """The index of the first visible item."""
        return min(self.scroll_offset.y, max(self.count - 1, 0))

    def render_line(self, y: int) -> Strip:
        """Render one line of the screen."""
        index = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if index >= self.count:
            return Strip.blank(width)
        is_chosen = self._has_cursor and index == self.cursor
        text = self._paint(index, width - self._has_cursor)
        text.stylize_before(text.style)  # the base style of a text without spans
        if self._has_cursor:
            text = Text().append(_MARK if is_chosen else " ", style="bold").append_text(text)
        text.truncate(width, overflow="ellipsis", pad=True)
        if is_chosen:
            text.stylize("reverse" if self.has_focus else "bold")
        return Strip(text.render(self.app.console)).adjust_cell_length(width)

    def _scroll_to_cursor(self) -> None:
        if not self.size.height:  # before the first layout, a place to scroll to is unknown
            return
        if self._has_cursor:
            self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        else:
            self.scroll_to(y=0, animate=False, force=True)

    def move_to(self, index: int) -> None:
        """Move the cursor to an item."""
        index = max(min(index, self.count - 1), 0)
        if index != self.cursor:
            self.cursor = index
            self._scroll_to_cursor()
            self.refresh()
            self.post_message(self.CursorMoved(self))

    def action_move(self, by: int) -> None:
        """Move down by this number of items."""
        if self._has_cursor:
            self.move_to(self.cursor + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Move down by this number of screens."""
        self.action_move(by * max(self.size.height - 1, 1))

    def action_half(self, by: int) -> None:
        """Move down by this number of half screens."""
        self.action_move(by * max(self.size.height // 2, 1))

    def action_end(self, last: int) -> None:
        """Move to the first or the last item."""
        if self._has_cursor:
            self.move_to(self.count if last else 0)
        else:
            self.scroll_to(y=self.virtual_size.height if last else 0, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Move to the clicked item."""
        if self._has_cursor:
            self.move_to(self.scroll_offset.y + event.y)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that the visible items changed."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled(self))

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        if self._has_cursor:
            self._scroll_to_cursor()
        self.post_message(self.Scrolled(self))

    def on_focus(self) -> None:
        """Redraw: the cursor looks different."""
        self.refresh()

    def on_blur(self) -> None:
        """As on_focus."""
        self.refresh()

# -- dialogs


class Dialog(ModalScreen[str]):
    """A headline and lines to read. With `answers` (pairs of key and text) it is a question.

    It returns the chosen key, or "" if the person declines.
    """

    AUTO_FOCUS = "#said"
    CSS = "Dialog {" + _CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer('{key}')", show=False, priority=True) for key in "yaciptde"),
        Binding("n,escape,ctrl+c,q", "answer('')", show=False),
        Binding("enter,question_mark", "enter", show=False),
    ]

    def __init__(self, headline: str, lines: Sequence[str], answers: Sequence[tuple[str, str]] = (), kept: str = "") -> None:
        """`lines` scroll, so any number fits. `kept` describes the data that is preserved."""
        super().__init__()
        self._headline, self._lines, self._answers, self._kept = headline, list(lines), dict(answers), kept
        self._wrapped: list[str] = []

    def compose(self) -> ComposeResult:
        """The widgets of the dialog."""
        with Vertical(id="box"):
            yield Static(id="headline")
            yield LineList(lambda index, _: self._painted(self._wrapped[index]), cursor=False, id="said")
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Fit the contents."""
        self._divide_rows()

    def on_resize(self) -> None:
        """Fit the contents again."""
        self._divide_rows()

    def _divide_rows(self) -> None:
        """Divide the rows of the terminal: first the keys, then the headline, then the list, which scrolls."""
        columns, rows = self.app.size.width * 96 // 100, self.app.size.height * 94 // 100 - 2  # without the box's border
        width = max(min(columns, _DIALOG_COLUMNS) - 4, 10)  # without border and padding
        first, *answers = self._question()
        *above, last = textwrap.wrap(first, width)
        keys = Text("\n".join([*above, *map("   ".join, parts_in_lines([last, *answers], width, 3))]), style="bold")
        asked = len(keys.wrap(self.app.console, width))
        wanted = [part for line in self._lines for part in self._folded(line, width - 2)]
        self._wrapped = wanted
        listed = max(min(len(wanted), _MOST_ROWS), 1) if wanted else 0
        told = headline_lines(self, self._headline, width, rows - asked - min(listed, _LEAST_ROWS))
        margin = int(rows >= asked + len(told) + min(listed, _LEAST_ROWS) + 2)
        self.query_one("#keys", Static).update(keys)
        self.query_one("#headline", Static).update(Text("\n", style="bold").join(told))
        said = self.query_one("#said", LineList)
        said.styles.margin = (margin, 0)
        self.query_one("#box").styles.height = min(asked + len(told) + listed + 2 * margin, rows) + 2
        said.set_count(len(wanted))

    def _folded(self, line: str, width: int) -> list[str]:
        indent = len(line) - len(line.lstrip())
        return textwrap.wrap(line, width, subsequent_indent=" " * (indent + 2)) or [""]

    def _painted(self, line: str) -> Text:
        return _with_coloured_signs(line)

    def _question(self) -> list[str]:
        """What is asked, or the first key, and the other keys that answer."""
        if not self._answers:
            return ["enter or escape: close"]
        asked = " ".join(filter(None, ("Go on?" if "y" in self._answers else "", self._kept)))
        return [*([asked] if asked else []), *(f"{key} {means}" for key, means in self._answers.items()), "n no"]

    def action_answer(self, key: str) -> None:
        """Close with an answer."""
        if not key or key in self._answers:
            self.dismiss(key)

    def action_enter(self) -> None:
        """Enter closes a message. It does not answer a question: a person may press Enter twice."""
        if not self._answers:
            self.dismiss("")


class HelpDialog(Dialog):
    """The keys. Wide terminals show them in two columns; narrow terminals wrap a text below its keys."""

    CSS = "HelpDialog {" + _CSS + "}"

    def __init__(self) -> None:
        """All keys."""
        super().__init__("Keys", [f"{keys:<12} {what}" for keys, what in HELP])

    def _folded(self, line: str, width: int) -> list[str]:
        return textwrap.wrap(line, width, subsequent_indent=" " * (13 if width > 60 else 4))


class PatchDialog(Dialog):
    """The patch of a plan."""

    CSS = "PatchDialog {" + _CSS + "}"

    def _folded(self, line: str, width: int) -> list[str]:  # noqa: ARG002 - a line of a patch is cut, not folded
        return [line]

    def _painted(self, line: str) -> Text:
        return Text(line, style={"+": "green", "-": "red", "@": "cyan", "d": "bold"}.get(line[:1], ""))

    def _question(self) -> list[str]:
        return ["enter or escape: back to the question"]


class Question(ModalScreen[str | None]):
    """Asks for one line. None means that the person declines."""

    AUTO_FOCUS = "#line"
    CSS = "Question {" + _CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", show=False, priority=True)]

    def __init__(self, headline: str, given: str) -> None:
        """`given` is the initial text."""
        super().__init__()
        self._headline, self._given = headline, given

    def compose(self) -> ComposeResult:
        """The widgets of the dialog."""
        with Vertical(id="box"):
            yield Static(id="headline")
            yield Input(self._given, id="line")
            yield Static(Text("enter: go on   escape: leave it", style="bold"), id="keys")

    def on_mount(self) -> None:
        """Fit the headline."""
        self.on_resize()

    def on_resize(self) -> None:
        """Fit the headline again: what is typed and the keys come first."""
        columns, rows = self.app.size.width * 96 // 100, self.app.size.height * 94 // 100 - 2
        told = headline_lines(self, self._headline, max(min(columns, _DIALOG_COLUMNS) - 4, 10), rows - 4)
        self.query_one("#headline", Static).update(Text("\n", style="bold").join(told))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the typed line."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Close without a line."""
        self.dismiss(None)


def headline_lines(screen: "ModalScreen[str] | ModalScreen[str | None]", headline: str, width: int, most: int) -> list[Text]:
    """A headline in at most `most` lines; the number of removed files is bold red."""
    kept_together = Text(headline.replace(" REMOVED", "\0REMOVED"))
    told = [Text(line.plain.replace("\0", " "), style="bold") for line in kept_together.wrap(screen.app.console, width - 1)]
    for line in told:
        line.highlight_regex(r"[\d,]+ REMOVED", "bold red")
    most = max(most, 1)
    if len(told) > most:
        told[most - 1].truncate(width - 1)
        told[most - 1].append("…")
    return told[:most]


def _with_coloured_signs(line: str) -> Text:
    sign = line.strip()[:2]
    colour = {"+ ": "green", "~ ": "yellow", "- ": "red", "R ": "cyan"}.get(sign, "")
    return Text(line, style="yellow" if line.lstrip().startswith(("left alone", "NOTE:")) else colour)
