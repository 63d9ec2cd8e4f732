"""The display of the screen: the timeline of turns, and on demand a row's prompt, files and patch."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ..._typing import Any
from ...messages import printable
from ...model.turn_records import SavedRow, Turn
from ..show.text import age, cut_to, plural
from ..terminal.lines import INTERRUPTED
from . import ProgressRelay, paint, patch_lines, picker_rows, timeline, worker
from .file_tree import FileTree, TreeLine
from .patch_lines import PatchLine
from .picker_rows import PickerRow, PickerTimeline
from .timeline import HERE, TURN, RowPreview, TimelineModel
from .widgets import Dialog, LineList
from .worker import Worker

_KEYS = {
    "timeline": ("enter open", "c code", "t chat", "b both", "u undo", "r redo", "v to here", "/ filter", "a all", "? help", "q quit"),
    "files": (
        "enter open", "space choose", "a all", "c restore", "v to here", "/ filter", "e edit", "y copy", "esc back", "? help", "q quit",
    ),
    "patch": ("space choose hunk", "[ ] hunks", "c restore", "v to here", "e edit", "y copy", "esc back", "? help", "q quit"),
}  # fmt: skip
"""The keys below the panes. `?` shows all keys."""
_VISIBLE = 8  # rows per job that reads changes
_COUNTED, _AT_ONCE = 200, 10  # files with a line count, and files per job
_WIDE, _HIGH = 110, 30
"""Columns for timeline and files side by side, and rows for files above an open patch."""


class TimelineView(App[int]):
    """Starts jobs that read, and shows their results. Actions that write are in app.py.

    The danger prevented here: one row's changes shown beside another row's name. The result of an outdated job is
    dropped.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { background: ansi_default; color: ansi_default; height: auto; }
    #top, #status { text-wrap: nowrap; text-overflow: ellipsis; }
    #panes { height: 1fr; }
    #left { width: 100%; height: 100%; }
    #right { width: 62%; height: 100%; border-left: solid ansi_bright_black; padding-left: 1; display: none; }
    #timeline { height: 1fr; }
    #prompt { height: 1; }
    #files { height: 2fr; border-top: solid ansi_bright_black; }
    #patch { height: 3fr; border-top: solid ansi_bright_black; }
    Input { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; display: none; }
    .opened #left { width: 38%; }
    .small #right { width: 100%; border-left: none; padding-left: 0; }
    """

    def __init__(self, model: TimelineModel, jobs: Worker, relay: ProgressRelay, name: str) -> None:
        """Only `jobs`, the worker thread, uses `model`. `name` is the name of the project."""
        super().__init__(ansi_color=True)
        self._model, self._jobs, self._relay, self._name = model, jobs, relay, name
        self._timeline: PickerTimeline | None = None
        self._rows: list[PickerRow] = []
        self._known: dict[str, PickerRow] = {}  # turns that were filled before their place was reached
        self._unfolded: set[str] = set()
        self._words, self._everything, self._is_placed = "", False, False
        self._what = TURN
        self._is_opened = False
        self._base: PickerRow | None = None
        self._wanted: bytes | None = None  # the file to select when the files are shown
        self._preview: RowPreview | None = None
        self._tree = FileTree(())
        self._lines_of: dict[bytes, str] = {}
        self._checked: set[bytes] = set()
        self._parts: dict[bytes, set[int]] = {}  # chosen hunks by file
        self._patch: list[PatchLine] = []
        self._prompt: list[Text] = []
        self._busy, self._said = "reading the timeline", ""
        self._acting = False  # a job that writes is running: only read jobs may start
        self._unfinished: list[str] = []  # details of an interrupted restore
        self._asked = 0  # the number of the newest question for a preview
        self._stale = True  # the worktree must be scanned before a comparison

    # -- the screen

    def compose(self) -> ComposeResult:
        """The panes."""
        yield Static(id="top")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield Input(placeholder="words of a prompt, a path or a session", id="filter")
                yield LineList(self._paint_row, id="timeline")
            with Vertical(id="right"):
                yield Static(id="about")
                yield LineList(lambda index, _: self._prompt[index].copy(), cursor=False, id="prompt")
                yield Input(placeholder="words of a path", id="narrow")
                yield LineList(self._paint_file, id="files")
                yield LineList(self._paint_patch, id="patch")
        yield Static(id="status")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Start the worker."""
        loop = asyncio.get_running_loop()

        def deliver(call: Callable[[], None]) -> None:
            try:
                loop.call_soon_threadsafe(self.call_later, self._take, call)
            except RuntimeError:  # the loop is closed: the screen is gone
                return

        self._deliver = deliver
        with suppress(ValueError, RuntimeError):  # not the main thread, which alone handles signals
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.exit, INTERRUPTED)
        self._relay.listener = self._progress
        self.query_one("#timeline", LineList).focus()
        self._tell()
        self._jobs.start(deliver)

    def _take(self, call: Callable[[], None]) -> None:
        """Run a callback, unless the screen closes: then there is nothing to draw on."""
        if self.screen_stack and self.screen_stack[0].query("#keys"):
            call()

    def on_resize(self) -> None:
        """Arrange the panes for the size of the terminal."""
        if self._is_opened and self.size.width < _WIDE and self._pane() == "timeline":
            self._focus("#files")
        self._arrange_panes()
        self.call_after_refresh(self._fit_prompt)
        self._tell()

    def on_descendant_focus(self) -> None:
        """The keys depend on the pane, and a low terminal shows one list only."""
        if len(self.screen_stack) == 1:
            self._arrange_panes()
            self._tell()

    def _focus(self, which: str) -> None:
        """Move to a pane, which is shown if it was not."""
        self._is_opened = self._is_opened or which != "#timeline"
        self._lines(which).display = True
        self.screen_stack[0].query_one("#left" if which == "#timeline" else "#right").display = True
        self.screen_stack[0].set_focus(self._lines(which))
        self._arrange_panes()

    def _close(self) -> None:
        self._is_opened = False
        self._focus("#timeline")
        self._preview = None

    def _arrange_panes(self) -> None:
        screen = self.screen_stack[0]
        is_small, pane = self.size.width < _WIDE, self._pane()
        screen.set_class(is_small, "small")
        screen.set_class(self._is_opened and not is_small, "opened")
        screen.query_one("#left").display = not (self._is_opened and is_small)
        screen.query_one("#right").display = self._is_opened
        self._lines("#files").display = pane != "patch" or self.size.height >= _HIGH

    def _pane(self) -> str:
        """The pane that has the focus."""
        focused = self.screen_stack[0].focused
        name = focused.id if focused is not None else None
        return {"files": "files", "narrow": "files", "prompt": "files", "patch": "patch"}.get(name or "", "timeline")

    def _progress(self, what: str, done: int, total: int) -> None:
        """Show progress. Called on the worker thread."""
        self._jobs.check()
        words = f"{what} {done:,}" + (f" of {total:,}" if total else "")
        self._deliver(lambda: self._show_busy(words))

    def _show_busy(self, words: str) -> None:
        if self._busy:
            self._busy = words
            self._tell()

    def _tell(self) -> None:
        """Update the lines above and below the panes."""
        self._put("#top", Text(f"casrewind · {self._name} · {self._numbers()}", style="bold"))
        words = self._said if not self._busy else f"{self._busy} ..."
        if self._unfinished and not self._busy:
            words = "a restore is half done: o to finish it or take it back"
        self._put("#status", Text(words, style="cyan"))
        other = f"v {TURN if self._what == HERE else HERE}"
        self._put("#keys", paint.footer([other if key.startswith("v ") else key for key in _KEYS[self._pane()]], self.size.width))

    def _numbers(self) -> str:
        found = self._timeline
        if found is None:
            return ""
        if self._words:
            return f"{plural(len(self._rows), 'row')} with {self._words!r}"
        shown = plural(found.turns, "turn") if found.turns else "no turns yet"
        sessions = f" of {plural(len(found.sessions), 'session')}" if len(found.sessions) > 1 else ""
        more = ", other worktrees' too" if self._everything and found.elsewhere else ""
        return f"{shown}{sessions}, {plural(len(found.points), 'checkpoint')}{more}"

    def _reads(self, words: str) -> None:
        """Show a description of the read job; "" clears it. During an action, the action is shown instead."""
        if not self._acting:
            self._busy = words
        self._tell()

    def _put(self, where: str, text: Text) -> None:
        for found in self.screen_stack[0].query(where).results(Static):
            found.update(text)

    def _lines(self, which: str) -> LineList:
        return self.screen_stack[0].query_one(which, LineList)

    def _paint_row(self, index: int, width: int) -> Text:
        assert self._timeline is not None
        row = self._rows[index]
        is_base = self._base is not None and row.key == self._base.key
        return paint.timeline_row(self._timeline, row, width, is_base=is_base, is_unfolded=self._is_unfolded(row))

    def _is_unfolded(self, row: PickerRow) -> bool:
        return isinstance(row.item, Turn) and (self._everything or row.key in self._unfolded)

    def _paint_file(self, index: int, _: int) -> Text:
        line = self._tree.lines[index]
        return paint.tree_line(line, self._tree.below(line), self._checked, self._parts, self._lines_of)

    def _paint_patch(self, index: int, _: int) -> Text:
        line = self._patch[index]
        change = self._file()
        chosen = self._parts.get(change.change.path, set()) if change is not None and change.change is not None else set()
        return paint.patch_line(line, is_choice=self._has_choice(), is_chosen=line.part in chosen)

    def _has_choice(self) -> bool:
        """True if the patch is that of a restore, so that parts of it can be chosen."""
        return self._preview is not None and self._preview.what == HERE and not self._preview.base

    # -- the timeline

    def fill(self, found: PickerTimeline | Exception) -> None:
        """Show the timeline, then read what is missing of it."""
        if isinstance(found, Exception):
            self._failed(found)
            return
        self._reads("")
        self._timeline, self._unfinished = found, found.unfinished
        if found.is_complete:
            self._known.clear()
        self._arrange()
        self._offer()
        if self._stale:
            self._stale = False
            self._known.clear()
            self._reads("looking at the files")
            self._jobs.put(worker.LOOK, self._model.look, self._looked)
        else:
            self._read_more()

    def _looked(self, found: PickerTimeline | Exception) -> None:
        self.fill(found)
        if not isinstance(found, Exception) and self._is_opened:
            self._ask_preview()

    def _read_more(self) -> None:
        """Start a job that reads the changes of visible turns, and a job that reads more rows."""
        if self._timeline is None:
            return
        lines = self._lines("#timeline")
        first = lines.first()
        todo = [row for row in self._rows[first : first + lines.size.height + 1] if not row.is_final][:_VISIBLE]
        if todo:
            self._jobs.put(worker.FILL, lambda: self._model.filled(todo), self._filled)
        if not self._timeline.is_complete:
            self._jobs.put(worker.MORE, self._model.more, self._more)

    def _filled(self, found: Any) -> None:
        if not isinstance(found, Exception):
            self._known.update(found)
            self._rows = [self._known.get(row.key, row) for row in self._rows]
            self._lines("#timeline").refresh()
            self._read_more()

    def _more(self, found: PickerTimeline | Exception) -> None:
        if isinstance(found, Exception):
            self._failed(found)
        else:
            self._timeline = found
            self._arrange()
            self._read_more()

    def _arrange(self) -> None:
        """Show the rows of the current view. The cursor keeps its row."""
        found = self._timeline
        if found is None:
            return
        chosen = self._chosen()
        rows = list(picker_rows.arranged(found, self._unfolded, everything=self._everything))
        rows = [row if row.is_final else self._known.get(row.key, row) for row in rows]
        self._rows = picker_rows.matching(found, rows, self._words) if self._words else rows
        places = {row.key: index for index, row in enumerate(self._rows)}
        at = places.get(chosen.key, 0) if chosen is not None else 0
        was_placed = self._is_placed
        if not was_placed:
            newest = next((index for index, row in enumerate(self._rows) if isinstance(row.item, Turn) and row.item.changes), None)
            at, self._is_placed = newest or 0, newest is not None or (found.is_complete and not self._stale)
        self._lines("#timeline").fill(len(self._rows), at, stays=was_placed)
        if not self._rows and not self._words:
            self._said = "no checkpoint yet: casrewind save makes one"
        now = self._chosen()
        if chosen is None or now is None or now.key != chosen.key:
            self._ask_preview()
        self._tell()

    def _chosen(self) -> PickerRow | None:
        lines = self._lines("#timeline")
        return self._rows[lines.cursor] if lines.cursor < len(self._rows) else None

    def on_line_list_cursor_moved(self, event: LineList.CursorMoved) -> None:
        """Update after a move to another row, file or line."""
        if event.lines.id == "timeline":
            self._is_placed, self._wanted = True, None
            self._take(self._ask_preview)
        elif event.lines.id == "files":
            self._take(self._ask_patch)

    def on_line_list_scrolled(self, event: LineList.Scrolled) -> None:
        """Update after new rows become visible."""
        if event.lines.id == "timeline" and not self._stale:
            self._take(self._read_more)

    # -- a row's prompt, files and patch

    def _shows(self, row: PickerRow) -> str:
        """What is shown of a row: a save is a state, so there is only what a restore of it would change."""
        return HERE if isinstance(row.item, SavedRow) else self._what

    def _ask_preview(self) -> None:
        if not self._is_opened:
            return
        row, line = self._chosen(), self._file()
        is_same_row = self._preview is not None and row is not None and self._preview.key == row.key
        if self._wanted is None and is_same_row and line is not None and line.change is not None:
            self._wanted = line.change.path  # a second comparison of the same row must select the same file
        self._preview, self._tree, self._patch, self._lines_of, self._prompt = None, FileTree(()), [], {}, []
        self._checked.clear()
        self._parts.clear()
        for name in ("#prompt", "#files", "#patch"):
            self._lines(name).fill(0)
        if row is None or (not row.target and not isinstance(row.item, Turn)):
            self._put("#about", Text("" if row is None else "nothing is known of what was here"))
            return
        what, base = self._shows(row), self._base
        self._put("#about", Text("comparing ...", style="dim"))
        self._asked += 1
        number = self._asked

        def answer(found: RowPreview | Exception) -> None:
            if number == self._asked:  # a later question makes an answer outdated
                self._shown(found)

        self._jobs.put(worker.SHOW, lambda: self._model.preview(row, what, base), answer)

    def _shown(self, found: RowPreview | Exception) -> None:
        if isinstance(found, Exception):
            self._put("#about", Text(printable(str(found)), style="red"))
            return
        row = self._chosen()
        if row is None or (found.key, found.what, found.base) != (row.key, self._shows(row), self._base.key if self._base else ""):
            return  # the cursor moved, so this result is outdated
        self._preview, self._tree = found, FileTree(timeline.files(found.found))
        self._tree.filter(self.screen_stack[0].query_one("#narrow", Input).value.strip())
        self._put("#about", Text(self._heading(row, found), style="bold"))
        self._fit_prompt()
        place = self._tree.place_of(self._wanted) if self._wanted is not None else None
        self._wanted = None
        self._lines("#files").fill(len(self._tree), self._first_file() if place is None else place)
        self._ask_patch()
        self._ask_lines(found)

    def _first_file(self) -> int:
        return next((at for at, line in enumerate(self._tree.lines) if line.change is not None), 0)

    def _heading(self, row: PickerRow, found: RowPreview) -> str:
        """The title of a preview: what it shows, its numbers and its row. A name longer than a line is cut."""
        assert self._timeline is not None
        when = picker_rows.time_of(self._timeline, row)
        ago = f", {age(when)}" if when is not None else ""
        counts, width = timeline.counts(found.found, found.what), max(self._lines("#files").size.width, 20)
        if found.base and self._base is not None:
            return f"from {cut_to(picker_rows.title(self._timeline, self._base), width)} to here: {counts}"
        what = found.what if isinstance(row.item, Turn) or found.what == HERE else "what changed"
        name = picker_rows.number(row) or picker_rows.title(self._timeline, row)
        return f"{what}: {counts} · {cut_to(name, width - len(ago) - 4)}{ago}"

    def _fit_prompt(self) -> None:
        """Wrap the prompt to the width of its pane. It has a fifth of the rows; more of it scrolls."""
        lines = self._lines("#prompt")
        text = self._preview.prompt if self._preview is not None else ""
        width = max((self._lines("#files").size.width or self.size.width) - 2, 10)
        self._prompt = paint.wrapped(text, width, self.console) if text.strip() else []
        lines.display = bool(self._prompt)
        lines.styles.height = max(min(len(self._prompt), self.size.height // 5), 1)
        lines.fill(len(self._prompt))

    def _ask_lines(self, preview: RowPreview) -> None:
        """Start jobs that count the lines of the first files, a few files per job."""
        todo = [change for change in self._tree.changes[:_COUNTED] if change.path not in self._lines_of][:_AT_ONCE]

        def answer(found: Any) -> None:
            if preview is self._preview and not isinstance(found, Exception):
                self._lines_of.update(found)
                self._lines("#files").refresh()
                self._ask_lines(preview)

        if todo:
            self._jobs.put(worker.LINES, lambda: patch_lines.line_counts(preview.found, todo), answer)

    def _file(self) -> TreeLine | None:
        """The line of the tree that is selected."""
        lines = self._lines("#files")
        return self._tree.lines[lines.cursor] if lines.cursor < len(self._tree) else None

    def _ask_patch(self) -> None:
        preview, line = self._preview, self._file()
        if preview is None or line is None:
            self._show_patch([])
            return
        change = line.change
        if change is None:
            words = f"{plural(line.end - line.start, 'file')} below {line.name}: enter {'unfolds' if line.is_folded else 'folds'} it"
            self._show_patch([PatchLine(words, "", -1, [])])
            return

        def answer(found: list[PatchLine] | Exception) -> None:
            now = self._file()
            if preview is self._preview and now is not None and now.change is change:
                self._show_patch([PatchLine(printable(str(found)), "", -1, [])] if isinstance(found, Exception) else found)

        self._jobs.put(worker.PATCH, lambda: patch_lines.patch_of(preview.found, change), answer)

    def _show_patch(self, lines: list[PatchLine]) -> None:
        self._patch = lines
        first = next((at for at, line in enumerate(lines) if line.sign == "@"), 0)
        self._lines("#patch").fill(len(lines), first)

    def _failed(self, error: Exception) -> None:
        self._said = ""
        self._reads("")
        self.push_screen(Dialog("That could not be done", [printable(str(error))]), self._read_it)

    def _read_it(self, _: str | None) -> None:
        """Continue after a message is closed."""
        self._offer()

    def _offer(self) -> bool:
        """Report an interrupted restore. A subclass overrides this to offer actions."""
        return bool(self._unfinished)
