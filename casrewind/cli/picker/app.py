"""The screen of the picker: its panes, its keys, and the messages of its widgets."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ..._typing import TYPE_CHECKING, ClassVar
from ..terminal.lines import BUG, INTERRUPTED
from . import worker
from .actions import PickerActions
from .keys import PickerKeys
from .picker_rows import PickerTimeline
from .progress_relay import ProgressRelay
from .read_jobs import TimelineReader
from .state import PickerState
from .timeline import TimelineModel
from .view import PickerView
from .widgets import LineList
from .worker import Worker

if TYPE_CHECKING:
    from ...context import Context

KEYS = (
    ("enter", "look('open')"),
    ("c", "change('restore', 'code')"),
    ("t", "change('restore', 'chat')"),
    ("b", "change('restore', 'both')"),
    ("i", "change('rewrite')"),
    ("o", "change('resume')"),
    ("space", "look('check')"),
    ("J,shift+down", "look('check_file_and_next', 1)"),
    ("K,shift+up", "look('check_file_and_next', -1)"),
    ("x", "change('take_back')"),
    ("u", "change('undo', False)"),
    ("U", "change('undo', True)"),
    ("r", "change('redo')"),
    ("p", "change('pin')"),
    ("l", "change('label')"),
    ("m", "change('mark_reviewed')"),
    ("d", "look('compare')"),
    ("v", "look('switch')"),
    ("B", "look('blame')"),
    ("e", "look('edit')"),
    ("y", "look('copy')"),
    ("slash", "look('filter')"),
    ("a", "look('everything')"),
    ("right", "look('unfold')"),
    ("left", "look('fold')"),
    ("n", "look('turn', 1)"),
    ("N", "look('turn', -1)"),
    ("left_square_bracket", "look('session', -1)"),
    ("right_square_bracket", "look('session', 1)"),
    ("question_mark", "look('help')"),
    ("q", "change('leave')"),
    ("escape", "look('escape')"),
    ("ctrl+c", "change('interrupt')"),
)
"""Keys and their actions."""
_OURS = frozenset({"look", "change"})


class Picker(App[int]):
    """The picker. Its parts share one `state`: `view` draws it, `reader` reads for it, `keys` and `actions` change it."""

    ENABLE_COMMAND_PALETTE = False
    # Textual gives the focus to the first widget that can have it, which is the hidden line of the filter. A key that was
    # typed before the screen was up became a word of a filter that nobody saw.
    AUTO_FOCUS = "#timeline"
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { background: ansi_default; color: ansi_default; height: auto; }
    #top, #status { text-wrap: nowrap; text-overflow: ellipsis; }
    #panes { height: 1fr; }
    #left { width: 100%; height: 100%; }
    #right { width: 58%; height: 100%; border-left: solid ansi_bright_black; padding-left: 1; display: none; }
    #timeline { height: 1fr; }
    #prompt { height: 1; }
    #files { height: 2fr; border-top: solid ansi_bright_black; }
    #patch { height: 3fr; border-top: solid ansi_bright_black; }
    #filter, #narrow { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; display: none; }
    .opened #left { width: 42%; }
    .small #right { width: 100%; border-left: none; padding-left: 0; }
    """

    # Each key is checked before the focused widget receives it. Otherwise fast typing after the slash, or after the
    # letter of a question, would wait in that widget and be read as text.
    BINDINGS: ClassVar[list[BindingType]] = [Binding(key, action, show=False, priority=True) for key, action in KEYS]

    def __init__(self, model: TimelineModel, jobs: Worker, relay: ProgressRelay, name: str) -> None:
        """Only `jobs`, the worker thread, uses `model`. `name` is the name of the project."""
        super().__init__(ansi_color=True)
        self._jobs, self._relay = jobs, relay
        self._deliver: Callable[[Callable[[], None]], None] = lambda _: None
        self.state = PickerState(name)
        self.view = PickerView(self, self.state)
        self.reader = TimelineReader(self.state, self.view, model, jobs)
        self.keys = PickerKeys(self.state, self.view, self.reader)
        self.actions = PickerActions(self.state, self.view, self.reader, self.deliver)
        self.reader.offer = self.actions.offer_to_resume

    def compose(self) -> ComposeResult:
        """The panes."""
        yield Static(id="top")
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield Input(placeholder="words of a prompt, a path or a session", id="filter")
                yield LineList(self.view.paint_row, id="timeline")
            with Vertical(id="right"):
                yield Static(id="about")
                yield LineList(self.view.paint_prompt, cursor=False, id="prompt")
                yield Input(placeholder="words of a path", id="narrow")
                yield LineList(self.view.paint_file, id="files")
                yield LineList(self.view.paint_patch, id="patch")
        yield Static(id="status")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Start the worker."""
        loop = asyncio.get_running_loop()

        def deliver(call: Callable[[], None]) -> None:
            try:
                loop.call_soon_threadsafe(self.call_later, self._run_unless_closing, call)
            except RuntimeError:  # the loop is closed: the screen is gone
                return

        self._deliver = deliver
        with suppress(ValueError, RuntimeError):  # not the main thread, which alone handles signals
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.exit, INTERRUPTED)
        self._relay.listener = self._show_progress
        self.view.update_lines()
        self._jobs.start(deliver)

    def on_resize(self) -> None:
        """Arrange the panes for the size of the terminal."""
        if self.state.is_opened and self.view.is_small() and self.view.focused_pane() == "timeline":
            self.view.show_and_focus("#files")
        self.view.arrange_panes()
        self.call_after_refresh(self.view.fit_prompt)
        self.view.update_lines()

    def on_descendant_focus(self) -> None:
        """The keys depend on the pane, and a low terminal shows one list only."""
        if len(self.screen_stack) == 1:
            self.view.arrange_panes()
            self.view.update_lines()

    def on_line_list_cursor_moved(self, event: LineList.CursorMoved) -> None:
        """Update after a move to another row, file or line."""
        if event.lines.id == "timeline":
            self.state.is_placed, self.state.wanted = True, None
            self._run_unless_closing(self.reader.start_preview_job)
        elif event.lines.id == "files":
            self._run_unless_closing(self.reader.start_patch_job)

    def on_line_list_scrolled(self, event: LineList.Scrolled) -> None:
        """Update after new rows become visible."""
        if event.lines.id == "timeline" and not self.state.stale:
            self._run_unless_closing(self.reader.read_more)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the timeline, or the files, by these words."""
        if event.input.id == "filter":
            self.state.words = event.value.strip()
            self.reader.list_rows_keeping_cursor()
        elif event.input.id == "narrow":
            self.state.tree.filter_by_path(event.value.strip())
            self.view.list_widget("#files").set_count(len(self.state.tree), self.state.take_start_line())
            self.reader.start_patch_job()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and focus its list."""
        if event.input.id in ("filter", "narrow"):
            event.input.display = bool(event.value.strip())
            self.view.show_and_focus("#timeline" if event.input.id == "filter" else "#files")

    def deliver(self, call: Callable[[], None]) -> None:
        """Run a function on the screen's thread. Called on the worker thread."""
        self._deliver(call)

    def fill(self, found: PickerTimeline | Exception) -> None:
        """Show the timeline."""
        self.reader.show_timeline(found)

    def refuse_questions(self) -> None:
        """Answer no to the open question and to all later questions."""
        self.actions.refuse_questions()

    def action_look(self, name: str, *given: object) -> None:
        """A key that only looks."""
        getattr(self.keys, name)(*given)

    def action_change(self, name: str, *given: object) -> None:
        """A key that changes something."""
        getattr(self.actions, name)(*given)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the timeline's keys while a question is open or a line is being typed."""
        if action in _OURS:
            if len(self.screen_stack) > 1:
                return False
            if isinstance(self.focused, Input) and parameters[0] not in ("escape", "interrupt"):
                return False
        return super().check_action(action, parameters)

    def _run_unless_closing(self, call: Callable[[], None]) -> None:
        """Run a callback, unless the screen closes: then there is nothing to draw on."""
        if self.screen_stack and self.screen_stack[0].query("#keys"):
            call()

    def _show_progress(self, what: str, done: int, total: int) -> None:
        """Show progress. Called on the worker thread."""
        self._jobs.raise_if_closing()
        words = f"{what} {done:,}" + (f" of {total:,}" if total else "")
        self._deliver(lambda: self.view.show_busy(words))


def run(context: "Context", relay: ProgressRelay, name: str, *, keep_edits: bool) -> tuple[int, list[str], bool]:
    """Show the picker until the person exits. Returns (exit code, report lines, True if some work was not done).

    The worker owns the open project during this call.
    """
    model = TimelineModel(context, keep_edits=keep_edits)
    jobs = Worker()
    picker = Picker(model, jobs, relay, name)
    try:
        jobs.put_job(worker.LIST, model.first_timeline, picker.fill)
        code = picker.run()
    finally:
        picker.refuse_questions()
        jobs.close()
        relay.listener = None
    return BUG if code is None else code, picker.state.outcome, picker.state.incomplete  # textual has printed the error
