"""A list of any length on the screen: only the lines that are seen are made. Textual's own lists make a widget or a row of
cells for each item, and five thousand of those take seconds."""

from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..._typing import ClassVar

Paint = Callable[[int, int], Text]
"""(index of an item, which of its lines) -> what stands there."""


class LineList(ScrollView, can_focus=True):
    """Items of `step` lines each. With a cursor one of them is chosen; without, it only scrolls."""

    # Looked for before the key comes here, as the picker's own are: the letter that is typed behind these must not get ahead of
    # them, and restore another row than the one that they led to.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False, priority=True),
        Binding("down,j", "move(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("home,g", "end(0)", show=False, priority=True),
        Binding("end,G", "end(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    LineList { background: ansi_default; color: ansi_default; overflow-x: hidden; overflow-y: auto;
            scrollbar-size-vertical: 1; scrollbar-background: ansi_default; scrollbar-color: ansi_bright_black;
            scrollbar-background-hover: ansi_default; scrollbar-color-hover: ansi_white;
            scrollbar-background-active: ansi_default; scrollbar-color-active: ansi_white; }
    """

    class _Told(Message):
        """Something about this widget."""

        def __init__(self, lines: "LineList") -> None:
            """`lines` is the widget."""
            super().__init__()
            self.lines = lines

        @property
        def control(self) -> "LineList":
            """The widget."""
            return self.lines

    class CursorMoved(_Told):
        """The cursor stands on another item."""

    class Scrolled(_Told):
        """Other items are seen."""

    def __init__(self, paint: Paint, *, step: int = 1, cursor: bool = True, id: str) -> None:  # noqa: A002 - textual's word
        """An empty list."""
        super().__init__(id=id)
        self._paint, self._step, self._has_cursor = paint, step, cursor
        self.count, self.cursor = 0, 0

    def fill(self, count: int, cursor: int = 0) -> None:
        """There are `count` items now."""
        self.count, self.cursor = count, max(min(cursor, count - 1), 0)
        self.virtual_size = Size(self.size.width, count * self._step)
        self._show()
        self.refresh()

    def first(self) -> int:
        """The index of the first item that is seen."""
        return min(self.scroll_offset.y // self._step, max(self.count - 1, 0))

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        index, part = divmod(self.scroll_offset.y + y, self._step)
        width = self.scrollable_content_region.width
        if index >= self.count:
            return Strip.blank(width)
        text = self._paint(index, part)
        text.truncate(width, overflow="ellipsis", pad=True)
        text.stylize_before(text.style)  # what a text without spans is drawn without
        if self._has_cursor and index == self.cursor:
            text.stylize("reverse" if self.has_focus else "underline" if part == 0 else "")
        return Strip(text.render(self.app.console)).adjust_cell_length(width)

    def _show(self) -> None:
        if self._has_cursor:
            self.scroll_to_region(Region(0, self.cursor * self._step, 1, self._step), animate=False, force=True)
        else:
            self.scroll_to(y=0, animate=False, force=True)

    def move_to(self, index: int) -> None:
        """Put the cursor on an item."""
        index = max(min(index, self.count - 1), 0)
        if index != self.cursor:
            self.cursor = index
            self._show()
            self.refresh()
            self.post_message(self.CursorMoved(self))

    def action_move(self, by: int) -> None:
        """So many items down."""
        if self._has_cursor:
            self.move_to(self.cursor + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """So many screens down."""
        rows = max(self.size.height // self._step - 1, 1)
        self.action_move(by * rows)

    def action_end(self, last: int) -> None:
        """To the first or the last item."""
        if self._has_cursor:
            self.move_to(self.count if last else 0)
        else:
            self.scroll_to(y=self.virtual_size.height if last else 0, animate=False)

    def on_click(self, event: events.Click) -> None:
        """To the item that was clicked."""
        if self._has_cursor:
            self.move_to((self.scroll_offset.y + event.y) // self._step)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other items are seen."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled(self))

    def on_resize(self) -> None:
        """The cursor stays in sight."""
        if self._has_cursor:
            self._show()
        self.post_message(self.Scrolled(self))

    def on_focus(self) -> None:
        """The cursor looks different."""
        self.refresh()

    def on_blur(self) -> None:
        """As on_focus."""
        self.refresh()
