"""A scrolling list of any length that renders only its visible lines.

Textual's own lists make a widget or a row of cells per item: seconds for five thousand items.
"""

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
"""Maps (index of an item, columns) to the line of the item."""
_MARK = "▶"
"""Stands in front of the selected item, whichever list has the focus."""


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

    def fill(self, count: int, cursor: int = 0, *, stays: bool = False) -> None:
        """Set the number of items and the cursor. With `stays` the cursor keeps its line on the
        screen if the list was scrolled."""
        line = self.cursor - self.scroll_offset.y
        self.count, self.cursor = count, max(min(cursor, count - 1), 0)
        self.virtual_size = Size(self.size.width, count)
        if stays and self._has_cursor and self.scroll_offset.y:
            self.scroll_to(y=max(self.cursor - line, 0), animate=False, force=True)
        self._show()
        self.refresh()

    def first(self) -> int:
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

    def _show(self) -> None:
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
            self._show()
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
            self._show()
        self.post_message(self.Scrolled(self))

    def on_focus(self) -> None:
        """Redraw: the cursor looks different."""
        self.refresh()

    def on_blur(self) -> None:
        """As on_focus."""
        self.refresh()
