"""The actions of the screen: restore, undo, redo, marks, filters and exit."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence

from textual.binding import Binding, BindingType
from textual.widgets import Input

from ..._typing import TYPE_CHECKING, Any, ClassVar
from ...ops.restore import Declined
from ..output import BUG, INTERRUPTED
from . import ProgressRelay, timeline, worker
from .dialogs import YES, Dialog, Question
from .timeline import CHAT, TimelineModel
from .view import TimelineView
from .worker import Worker

if TYPE_CHECKING:
    from ...workspace import Workspace

_KEPT = "What was edited since is kept, and named."
_OURS = frozenset(
    "restore rewrite resume check undo redo pin label compare filter all pane leave escape interrupt".split()  # noqa: SIM905 - a table
)


class Picker(TimelineView):
    """The picker with its actions.

    `outcome` contains lines to print after the screen closes. `incomplete` is True if some work was not done.
    """

    # Each key is checked before the focused widget receives it. Otherwise fast typing after the slash, or after the
    # letter of a question, would wait in that widget and be read as text.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action, show=False, priority=True)
        for key, action in (
            ("c,enter", "restore('code')"),
            ("t", "restore('chat')"),
            ("b", "restore('both')"),
            ("i", "rewrite"),
            ("o", "resume"),
            ("space", "check"),
            ("u", "undo(False)"),
            ("U", "undo(True)"),
            ("r", "redo"),
            ("p", "pin"),
            ("l", "label"),
            ("d", "compare"),
            ("slash", "filter"),
            ("a", "all"),
            ("right", "pane(1)"),
            ("left", "pane(-1)"),
            ("q", "leave"),
            ("escape", "escape"),
            ("ctrl+c", "interrupt"),
        )
    ]

    def __init__(self, work: TimelineModel, clerk: Worker, relay: ProgressRelay, name: str) -> None:
        """As TimelineView."""
        super().__init__(work, clerk, relay, name)
        self._release: Callable[[], object] = lambda: None
        self._gone = False
        self._writing = False  # a change is running that the person agreed to
        self.outcome: list[str] = []
        self.incomplete = False

    def _act(self, what: str, work: Callable[[], Any]) -> None:
        """Start a job that writes. A second job is refused while it runs."""
        if self._acting:
            self.bell()
            return
        self._acting, self._busy, self._said = True, what, ""
        self._tell()

        def whole() -> tuple[Any, list[str]]:
            done = work()
            return done, timeline.report(done)

        self._desk.put(worker.ACT, whole, self._acted)

    def _acted(self, found: Any) -> None:
        self._acting, self._busy, self._writing, self._unfinished = False, "", False, []
        if isinstance(found, Declined):
            self._said = "nothing was changed"
            self._tell()
            return
        if isinstance(found, Exception):
            self._stale = True  # the progress of the failed job is unknown
            self._failed(found)
        else:
            done, lines = found
            self.outcome += lines
            self.incomplete = self.incomplete or timeline.incomplete(done)
            self._said = lines[0] if lines else ""
            self._stale = not hasattr(done, "marked")
            if self._stale:
                self.push_screen(Dialog("Done" if not timeline.incomplete(done) else "Done, not all of it", lines), self._read_it)
        self._reload()

    def _reload(self) -> None:
        self._tell()
        self._desk.put(worker.LIST, self._board.timeline, self.fill)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the timeline's keys while a question is open or a line is being typed."""
        if action in _OURS:
            if len(self.screen_stack) > 1:
                return False
            if isinstance(self.focused, Input) and action not in ("escape", "interrupt"):
                return False
        return super().check_action(action, parameters)

    def ask(self, headline: str, lines: list[str], kept: str) -> bool:
        """Ask the person. Called on the worker thread, which waits. The answer is no if the screen closes."""
        answered, answers = threading.Event(), [False]

        def take(answer: str | None) -> None:
            answers[0] = bool(answer)
            self._writing = bool(answer and kept)  # otherwise another question follows
            self._busy = "restoring"
            self._tell()
            answered.set()

        def show() -> None:
            self._busy = "waiting for your answer"
            self._tell()
            self.push_screen(Dialog(headline, lines, YES, kept), take)

        self._release = answered.set
        self._deliver(show)
        if self._gone:
            answered.set()
        answered.wait()
        return answers[0]

    def release(self) -> None:
        """Answer no to the open question and to all later questions."""
        self._gone = True
        self._release()

    def action_restore(self, what: str) -> None:
        """Restore code, chat or both."""
        row = self._chosen()
        if row is not None and not self._offer():
            scope = sorted(self._checked) if what != CHAT else []
            self._act("planning", lambda: self._board.restore(row, what, scope, self.ask))

    def action_rewrite(self) -> None:
        """Rewind a conversation in its own session."""
        row = self._chosen()
        if row is not None:
            self._act("planning", lambda: self._board.rewrite(row, self.ask))

    def action_undo(self, everything: bool) -> None:  # noqa: FBT001 - textual's way to call it
        """Undo the newest restore."""
        if self._offer():
            return
        kept = "What was edited since is taken back, too; redo brings it back." if everything else _KEPT
        question = f"Undo{' all' if everything else ''}: take the newest restore back?"
        self._sure(question, [kept], "undoing", {"y": lambda: self._board.undo(everything=everything)}, YES)

    def action_redo(self) -> None:
        """Redo the newest undo."""
        if not self._offer():
            self._sure("Redo: take the newest undo back?", [_KEPT], "redoing", {"y": self._board.redo}, YES)

    def action_resume(self) -> None:
        """Continue or abort an interrupted restore."""
        if not self._offer():
            self._said = "no restore was interrupted here: there is nothing to finish or take back"
            self._tell()

    def _offer(self) -> bool:
        """Offer to continue or abort an interrupted restore, unless another question is open. Returns True if there is
        one.
        """
        if self._unfinished and len(self.screen_stack) == 1:
            ways = {key: functools.partial(self._board.resume, forward=key == "c") for key in "ca"}
            answers = (("c", "continue: finish it"), ("a", "abort: take it back"))
            self._sure("A restore was interrupted here.", self._unfinished, "resuming", ways, answers)
        return bool(self._unfinished)

    def _sure(
        self,
        question: str,
        lines: list[str],
        what: str,
        ways: Mapping[str, Callable[[], Any]],
        answers: Sequence[tuple[str, str]],
    ) -> None:
        """Ask, then run the function in `ways` for the answer's key. A letter alone is easily typed by mistake."""

        def take(answer: str | None) -> None:
            if answer:
                self._writing = not self._acting
                self._act(what, ways[answer])

        if self._acting:
            self.bell()
        else:
            self.push_screen(Dialog(question, lines, answers), take)

    def action_pin(self) -> None:
        """Pin the checkpoint, or unpin it."""
        row = self._chosen()
        if row is not None:
            self._act("marking", lambda: self._board.pin(row.point, row.marked))

    def action_label(self) -> None:
        """Label a checkpoint."""
        row = self._chosen()
        if row is None or self._acting:
            return

        def take(label: str | None) -> None:
            if label:
                self._act("marking", lambda: self._board.label(row.point, label))

        self.push_screen(Question(f"Label for {row.point.id}, which is pinned by it:", row.marked.label or row.point.label), take)

    # -- views

    def action_check(self) -> None:
        """Select or deselect a file. In the timeline, move to the files first."""
        lines = self._lines("#files")
        if not lines.has_focus or lines.cursor >= len(self._files):
            lines.focus()
            return
        self._checked ^= {self._files[lines.cursor].path}
        lines.refresh()
        lines.action_move(1)
        self._said = f"{len(self._checked)} chosen: only these are restored" if self._checked else ""
        self._tell()

    def action_compare(self) -> None:
        """Compare with this checkpoint instead of the worktree. A second call compares with the worktree again."""
        row = self._chosen()
        if row is None:
            return
        same = self._base is not None and self._base.point.id == row.point.id
        self._base = None if same else row
        self._said = "" if same else f"comparing with {row.point.id}; escape compares with the files as they are now"
        self._lines("#timeline").refresh()
        self._ask_changes()
        self._tell()

    def action_filter(self) -> None:
        """Focus the filter line."""
        line = self.query_one("#filter", Input)
        line.display = True
        self.screen.set_focus(line, scroll_visible=False)  # at once: text after the slash must not be read as keys

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the timeline by these words."""
        if event.input.id == "filter":
            self._words = event.value.strip()
            self._filter(self._chosen())
            self._count()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and focus the timeline."""
        if event.input.id == "filter":
            event.input.display = bool(event.value.strip())
            self._lines("#timeline").focus()

    def action_all(self) -> None:
        """Show or hide safety checkpoints and checkpoints of other worktrees."""
        self._everything = not self._everything
        self._filter(self._chosen())
        self._count()

    def action_escape(self) -> None:
        """Cancel the file selection, the comparison or the filter. Without any of them, exit."""
        line = self.query_one("#filter", Input)
        if self._checked:
            self._checked.clear()
            self._said = ""
            self._lines("#files").refresh()
            self._tell()
        elif self._base is not None:
            self._base, self._said = None, ""
            self._ask_changes()
            self._lines("#timeline").refresh()
            self._tell()
        elif line.display:
            line.value = ""
            line.display = False
            self._lines("#timeline").focus()
        else:
            self.action_leave()

    def action_pane(self, by: int) -> None:
        """Move to the next or previous pane."""
        if by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def action_leave(self) -> None:
        """Exit, unless a restore is running: a letter must not leave it unfinished."""
        if self._writing:
            self.bell()
        else:
            self.exit(0)

    def action_interrupt(self) -> None:
        """Exit at once, as the commands do. A running restore can be continued or aborted later."""
        self.exit(INTERRUPTED)


def run(workspace: "Workspace", relay: ProgressRelay, name: str) -> tuple[int, list[str], bool]:
    """Show the picker until the person exits. Returns (exit code, report lines, True if some work was not done).

    The worker owns the workspace during this call.
    """
    work = TimelineModel(workspace)
    clerk = Worker(relay)
    picker = Picker(work, clerk, relay, name)
    try:
        clerk.put(worker.LIST, work.timeline, picker.fill)
        code = picker.run()
    finally:
        picker.release()
        clerk.close()
        relay.listener = None
    return BUG if code is None else code, picker.outcome, picker.incomplete  # textual has printed the error
