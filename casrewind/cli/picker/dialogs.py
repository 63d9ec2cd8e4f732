"""What the picker asks and tells over its screen. Escape and ctrl-C are no, everywhere."""

import textwrap
from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..._typing import ClassVar
from .list_widget import LineList

_MOST = 100
"""Columns of a box, at most."""
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


class Dialog(ModalScreen[str]):
    """A headline and lines to read. With `answers`, each a key and what it means, it asks: the key that was chosen, or ""
    where the person would rather not."""

    CSS = "Dialog {" + _CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer('{key}')", show=False) for key in ("y", "c", "a")),
        Binding("n,escape,ctrl+c,q", "answer('')", show=False),
        Binding("enter", "enter", show=False),
    ]

    def __init__(self, headline: str, lines: Sequence[str], answers: Sequence[tuple[str, str]] = (), kept: str = "") -> None:
        """`lines` may be any number: they scroll. `kept` says what is not lost."""
        super().__init__()
        self._headline, self._lines, self._answers, self._kept = headline, list(lines), dict(answers), kept
        self._wrapped: list[str] = []

    def compose(self) -> ComposeResult:
        """The box."""
        with Vertical(id="box"):
            yield Static(id="headline")
            yield LineList(lambda index, _: _coloured(self._wrapped[index]), cursor=False, id="said")
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Fill the box."""
        self._fit()
        self.query_one("#said", LineList).focus()

    def on_resize(self) -> None:
        """Fill the box again."""
        self._fit()

    def _fit(self) -> None:
        """Share the rows of the terminal: first the keys, then the headline, then the list, which scrolls."""
        columns, rows = self.app.size.width * 96 // 100, self.app.size.height * 94 // 100 - 2  # without the box's border
        width = max(min(columns, _MOST) - 4, 10)  # without border and padding
        keys = Text(self._question(), style="bold")
        headline = Text(self._headline, style="bold")
        asked = len(keys.wrap(self.app.console, width))
        told = headline.wrap(self.app.console, width)
        wanted = [part for line in self._lines for part in textwrap.wrap(line, width - 2, subsequent_indent="    ") or [""]]
        self._wrapped = wanted
        listed = max(min(len(wanted), _MOST_ROWS), 1)
        margin = int(rows >= asked + len(told) + min(listed, _LEAST_ROWS) + 2)
        left = max(rows - asked - 2 * margin - min(listed, _LEAST_ROWS), 1)
        if len(told) > left:
            told[left - 1].truncate(width - 1)
            told[left - 1].append("…")
        self.query_one("#keys", Static).update(keys)
        self.query_one("#headline", Static).update(Text("\n", style="bold").join(told[:left]))
        said = self.query_one("#said", LineList)
        said.styles.margin = (margin, 0)
        self.query_one("#box").styles.height = min(asked + len(told[:left]) + listed + 2 * margin, rows) + 2
        said.fill(len(wanted))

    def _question(self) -> str:
        if not self._answers:
            return "enter or escape: back to the timeline"
        asked = " ".join(filter(None, ("Go on?" if "y" in self._answers else "", self._kept)))
        keys = "   ".join(f"{key} {means}" for key, means in self._answers.items())
        return f"{asked}  {keys}   n no".lstrip()

    def action_answer(self, key: str) -> None:
        """Close with an answer."""
        if not key or key in self._answers:
            self.dismiss(key)

    def action_enter(self) -> None:
        """Enter closes what only tells; to a question it is no answer, lest somebody types it twice."""
        if not self._answers:
            self.dismiss("")


class Question(ModalScreen[str | None]):
    """Asks for one line; None = the person would rather not."""

    CSS = "Question {" + _CSS + "}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", show=False, priority=True)]

    def __init__(self, headline: str, given: str) -> None:
        """`given` stands there already."""
        super().__init__()
        self._headline, self._given = headline, given

    def compose(self) -> ComposeResult:
        """The box."""
        with Vertical(id="box"):
            yield Static(Text(self._headline, style="bold"))
            yield Input(self._given, id="line")
            yield Static(Text("enter: go on   escape: leave it", style="bold"), id="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The line is typed."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Nothing is said."""
        self.dismiss(None)


def _coloured(line: str) -> Text:
    sign = line.strip()[:2].strip()
    colour = {"+": "green", "~": "yellow", "-": "red", "R": "cyan"}.get(sign, "")
    return Text(line, style="yellow" if line.lstrip().startswith("left alone") else colour)
