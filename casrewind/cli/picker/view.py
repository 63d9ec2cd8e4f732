"""The screen as far as it shows: the timeline, what a restore of the chosen checkpoint would change, and the keys."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ... import fsio
from ..._typing import Any
from ...model.diff import Change
from ..output import INTERRUPTED, SIGNS, plural
from . import ProgressRelay, timeline, worker
from .dialogs import Dialog
from .list_widget import LineList
from .timeline import RestorePreview, TimelineModel, TimelineRow, TimelineRows
from .worker import Worker

_KEYS = (
    "c code", "t chat", "b both", "i chat in place", "space choose files", "u undo", "U undo all", "r redo", "p pin", "l label",
    "d compare", "/ filter", "a all", "tab panes", "q quit",
)  # fmt: skip
_SESSIONS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_PATCH = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}
_ROWS = 8  # rows that are counted in one job
_COUNTED, _AT_ONCE = 200, 10  # files of which lines are counted, and how many in one job
_PATHS = 100  # checkpoints whose paths are read in one job
_WIDE = 90


class TimelineView(App[int]):
    """Looks, asks the desk, and shows its answers; what changes anything is in app.py.

    The danger prevented here: one checkpoint's changes shown beside another's name. An answer to a question that the person
    has moved on from is dropped.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { background: ansi_default; color: ansi_default; height: auto; }
    #top, #status { text-wrap: nowrap; text-overflow: ellipsis; }
    #panes { height: 1fr; }
    #left { width: 45%; height: 100%; }
    #right { width: 55%; height: 100%; border-left: solid ansi_bright_black; padding-left: 1; }
    #timeline { height: 1fr; }
    #files { height: 2fr; }
    #patch { height: 3fr; border-top: solid ansi_bright_black; }
    #filter { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; display: none; }
    .narrow #panes { layout: vertical; }
    .narrow #left { width: 100%; height: 50%; }
    .narrow #right { width: 100%; height: 50%; border-left: none; padding-left: 0; border-top: solid ansi_bright_black; }
    """
    def __init__(self, work: TimelineModel, clerk: Worker, relay: ProgressRelay, name: str) -> None:
        """`clerk` is the only one who uses `work`; `name` is the project's."""
        super().__init__(ansi_color=True)
        self._board, self._desk, self._relay, self._name = work, clerk, relay, name
        self._all: list[TimelineRow] = []
        self._rows: list[TimelineRow] = []
        self._current = ""
        self._counts: dict[str, int] = {}
        self._paths: dict[str, list[str]] = {}
        self._words, self._everything = "", False
        self._base: TimelineRow | None = None
        self._changes: RestorePreview | None = None
        self._files: list[Change] = []
        self._lines_of: dict[bytes, str] = {}
        self._checked: set[bytes] = set()
        self._patch: list[str] = []
        self._busy, self._said = "reading the timeline", ""
        self._acting = False  # something that writes was begun: only what is looked at may go on beside it
        self._unfinished: list[str] = []  # what there is to know of a restore that was interrupted
        self._stale = True  # the worktree has to be looked at before anything is compared with it

    # -- the screen

    def compose(self) -> ComposeResult:
        """The panes."""
        yield Static(id="top")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield Input(placeholder="words of a prompt, a path or a session", id="filter")
                yield LineList(self._paint_row, step=2, id="timeline")
            with Vertical(id="right"):
                yield Static(id="about")
                yield LineList(self._paint_file, id="files")
                yield LineList(self._paint_patch, cursor=False, id="patch")
        yield Static(id="status")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Start to ask."""
        loop = asyncio.get_running_loop()

        def deliver(call: Callable[[], None]) -> None:
            try:
                loop.call_soon_threadsafe(self.call_later, self._take, call)
            except RuntimeError:  # the loop is closed: nobody looks any more
                return

        self._deliver = deliver
        with suppress(ValueError, RuntimeError):  # not in the main thread: then it is not ours to answer
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.exit, INTERRUPTED)
        self._relay.listener = self._progress
        self.query_one("#timeline", LineList).focus()
        self._tell()
        self._desk.start(deliver)

    def _take(self, call: Callable[[], None]) -> None:
        if self.screen_stack and self.screen_stack[0].query("#keys"):  # while the screen is taken down nobody looks any more
            call()

    def on_resize(self, event: events.Resize) -> None:
        """One pane above the other where two beside each other are too narrow."""
        self.screen.set_class(event.size.width < _WIDE, "narrow")
        self._tell()

    def _progress(self, what: str, done: int, total: int) -> None:
        """On the desk's thread."""
        self._desk.check()
        words = f"{what} {done:,}" + (f" of {total:,}" if total else "")
        self._deliver(lambda: self._show_busy(words))

    def _show_busy(self, words: str) -> None:
        if self._busy:
            self._busy = words
            self._tell()

    def _tell(self) -> None:
        """The lines above and below."""
        shown = plural(len(self._rows), "checkpoint") if self._rows or not self._busy else ""
        if self._words:
            shown += f" with {self._words!r}"
        if self._everything:
            shown += ", safety and other worktrees' too"
        self._put("#top", Text(f"casrewind · {self._name} · {shown}", style="bold"))
        words = self._said if not self._busy else f"{self._busy} ..."
        if self._unfinished and not self._busy:
            words = "a restore is half done: o to finish it or take it back"
        self._put("#status", Text(words, style="cyan"))
        self._put("#keys", _footer(self.size.width))

    def _reads(self, words: str) -> None:
        """Tell what is being read, nothing with ""; what is being done is told instead as long as it is."""
        if not self._acting:
            self._busy = words
        self._tell()

    def _put(self, where: str, text: Text) -> None:
        for found in self.screen_stack[0].query(where).results(Static):
            found.update(text)

    def _lines(self, which: str) -> LineList:
        return self.screen_stack[0].query_one(which, LineList)

    def _paint_row(self, index: int, part: int) -> Text:
        row = self._rows[index]
        bar = Text().append("▌" if row.session else " ", style=_SESSIONS[(row.session - 1) % len(_SESSIONS)] if row.session else "")
        if part == 0:
            mark = "◆" if self._base is not None and row.point.id == self._base.point.id else " "
            current = "bold" if row.point.id == self._current else ""
            return bar.append(f"{mark}{row.title}", style=current)
        return bar.append("   " + timeline.about(row, self._counts.get(row.point.id), self._current), style="dim")

    def _paint_file(self, index: int, _: int) -> Text:
        change = self._files[index]
        sign = SIGNS[change.status]
        box = "[x] " if change.path in self._checked else "[ ] "
        text = Text(box).append(sign, style=_COLOURS[sign]).append(f"  {fsio.printable(change.path)}")
        assert self._changes is not None
        return text.append(self._lines_of.get(change.path, "")).append(timeline.sizes(change), style="dim")

    def _paint_patch(self, index: int, _: int) -> Text:
        line = self._patch[index]
        return Text(line, style=_PATCH.get(line[:1], ""))

    # -- what is asked, what comes back

    def fill(self, found: TimelineRows | Exception) -> None:
        """The timeline was read."""
        if isinstance(found, Exception):
            self._failed(found)
            return
        self._reads("")
        chosen = self._chosen()
        self._all, self._current, self._unfinished = found
        self._filter(chosen)
        self._offer()
        if not self._stale:
            return
        self._stale = False
        self._reads("looking at the files")
        self._desk.put(worker.LOOK, self._board.look, self._looked)

    def _looked(self, found: object) -> None:
        self._counts.clear()
        self._reads("")
        if isinstance(found, Exception):
            self._failed(found)
            return
        self._ask_changes()
        self._count()

    def _count(self) -> None:
        """Have the rows counted that are seen; and, for a filter, have the paths of all read."""
        if self._words:
            wanted = timeline.unread(self._all, self._paths, _PATHS)
            if wanted:
                self._desk.put(worker.COUNT, lambda: self._board.paths(wanted), self._pathed)
                return
        lines = self._lines("#timeline")
        first = lines.first()
        todo = timeline.unknown(self._rows[first : first + lines.size.height // 2 + 1], self._counts)[:_ROWS]
        if todo:
            self._desk.put(worker.COUNT, lambda: self._board.counts(todo), self._counted)

    def _counted(self, found: Any) -> None:
        if not isinstance(found, Exception):
            self._counts.update(found)
            self._lines("#timeline").refresh()
            self._count()

    def _pathed(self, found: Any) -> None:
        if not isinstance(found, Exception):
            self._paths.update(found)
            if timeline.mentions(found, self._words):
                self._filter(self._chosen())
            self._count()

    def _filter(self, chosen: TimelineRow | None) -> None:
        self._rows = timeline.choose(self._all, self._words, self._paths, everything=self._everything)
        places = {row.point.id: index for index, row in enumerate(self._rows)}
        self._lines("#timeline").fill(len(self._rows), places.get(chosen.point.id, 0) if chosen is not None else 0)
        if not self._rows and not self._words:
            self._said = "no checkpoint yet: casrewind save makes one"
        now = self._chosen()
        if chosen is None or now is None or now.point.id != chosen.point.id:
            self._ask_changes()
        self._tell()

    def _chosen(self) -> TimelineRow | None:
        lines = self._lines("#timeline")
        return self._rows[lines.cursor] if lines.cursor < len(self._rows) else None

    def on_line_list_cursor_moved(self, event: LineList.CursorMoved) -> None:
        """Another checkpoint, or another file."""
        if event.lines.id == "timeline":
            self._ask_changes()
        elif event.lines.id == "files":
            self._ask_patch()

    def on_line_list_scrolled(self, event: LineList.Scrolled) -> None:
        """Rows that were not seen before."""
        if event.lines.id == "timeline" and not self._stale:
            self._count()

    def _ask_changes(self) -> None:
        row = self._chosen()
        self._changes, self._files, self._patch, self._lines_of = None, [], [], {}
        self._checked.clear()
        for name in ("#files", "#patch"):
            self._lines(name).fill(0)
        if row is None or (row.elsewhere and self._base is None):
            self._put("#about", Text("" if row is None else f"of worktree {row.elsewhere}: restore it there"))
            return
        base = None if self._base is None else self._base.point
        self._put("#about", Text("comparing ...", style="dim"))
        self._desk.put(worker.SHOW, lambda: self._board.changes(row.point, base), self._changed)

    def _changed(self, found: RestorePreview | Exception) -> None:
        if isinstance(found, Exception):
            self._put("#about", Text(str(found), style="red"))
            return
        row = self._chosen()
        if row is None or (found.point, found.base) != (row.point.id, self._base.point.id if self._base else ""):
            return  # the cursor has moved on, and so has the question
        self._changes, self._files = found, timeline.files(found.found)
        way = f"from {found.base} to {found.point}" if found.base else f"to {found.point}"
        self._put("#about", Text(f"{timeline.counts(found.found)} · {way}", style="bold"))
        self._lines("#files").fill(len(self._files))
        self._ask_patch()
        self._ask_lines(found)

    def _ask_lines(self, changes: RestorePreview) -> None:
        """Have the lines of the first files counted, a few at a time."""
        todo = [change for change in self._files[:_COUNTED] if change.path not in self._lines_of][:_AT_ONCE]

        def answer(found: Any) -> None:
            if changes is self._changes and not isinstance(found, Exception):
                self._lines_of.update(found)
                self._lines("#files").refresh()
                self._ask_lines(changes)

        if todo:
            self._desk.put(worker.LINES, lambda: timeline.line_counts(changes.found, todo), answer)

    def _ask_patch(self) -> None:
        changes, lines = self._changes, self._lines("#files")
        if changes is None or lines.cursor >= len(self._files):
            return
        change = self._files[lines.cursor]

        def answer(found: list[str] | Exception) -> None:
            if changes is self._changes and lines.cursor < len(self._files) and self._files[lines.cursor] is change:
                self._patch = [str(found)] if isinstance(found, Exception) else found
                self._lines("#patch").fill(len(self._patch))

        self._desk.put(worker.PATCH, lambda: timeline.patch_of(changes.found, change), answer)

    def _failed(self, error: Exception) -> None:
        self._said = ""
        self._reads("")
        self.push_screen(Dialog("That could not be done", [fsio.printable(str(error))]), self._read_it)

    def _read_it(self, _: str | None) -> None:
        """What was told is read."""
        self._offer()

    def _offer(self) -> bool:
        """Say that a restore was interrupted, if one was. Overridden by whoever can do something about it."""
        return bool(self._unfinished)


def _footer(width: int) -> Text:
    """The keys, in lines that break between two of them."""
    text, column = Text(), 0
    for key in _KEYS:
        name, _, what = key.partition(" ")
        gap = "" if not column else "  " if column + 2 + len(key) <= width else "\n"
        column = len(key) + (column + 2 if gap == "  " else 0)
        text.append(gap).append(name, style="bold").append(" " + what)
    return text
