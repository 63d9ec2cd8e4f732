"""The actions of the screen that change something: restore, undo, redo, marks; and the exit."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence

from textual.binding import Binding, BindingType
from textual.widgets import Input

from ..._typing import TYPE_CHECKING, ClassVar
from ...ops.restore import Declined
from ...store.catalog import UNMARKED
from ..terminal.lines import BUG, INTERRUPTED
from ..terminal.questions import Proposal
from . import ProgressRelay, picker_rows, worker
from .browse import TimelineBrowser
from .timeline import BOTH, CHAT, CODE, ActionResult, ChosenParts, TimelineModel
from .widgets import YES, Dialog, PatchDialog, Question
from .worker import Worker

if TYPE_CHECKING:
    from ...ops.context import Context

_KEPT = "What was edited since is kept, and named."
_PATCH = ("d", "patch")
KEYS = (
    ("enter", "open"),
    ("c", "restore('code')"),
    ("t", "restore('chat')"),
    ("b", "restore('both')"),
    ("i", "rewrite"),
    ("o", "resume"),
    ("space", "check"),
    ("J,shift+down", "check_on(1)"),
    ("K,shift+up", "check_on(-1)"),
    ("u", "undo(False)"),
    ("U", "undo(True)"),
    ("r", "redo"),
    ("p", "pin"),
    ("l", "label"),
    ("d", "compare"),
    ("v", "switch"),
    ("e", "edit"),
    ("y", "copy"),
    ("slash", "filter"),
    ("a", "all"),
    ("right", "unfold"),
    ("left", "fold"),
    ("left_square_bracket", "session(-1)"),
    ("right_square_bracket", "session(1)"),
    ("question_mark", "help"),
    ("q", "leave"),
    ("escape", "escape"),
    ("ctrl+c", "interrupt"),
)
"""Keys and their actions."""
_OURS = frozenset(action.partition("(")[0] for _, action in KEYS)


class Picker(TimelineBrowser):
    """The picker with its actions.

    `outcome` contains lines to print after the screen closes. `incomplete` is True if some work was not done.
    """

    # Each key is checked before the focused widget receives it. Otherwise fast typing after the slash, or after the
    # letter of a question, would wait in that widget and be read as text.
    BINDINGS: ClassVar[list[BindingType]] = [Binding(key, action, show=False, priority=True) for key, action in KEYS]

    def __init__(self, model: TimelineModel, jobs: Worker, relay: ProgressRelay, name: str) -> None:
        """As TimelineView."""
        super().__init__(model, jobs, relay, name)
        self._release: Callable[[], object] = lambda: None
        self._gone = False
        self._writing = False  # a change is running that the person agreed to
        self.outcome: list[str] = []
        self.incomplete = False

    def _act(self, what: str, work: Callable[[], ActionResult]) -> None:
        """Start a job that writes. A second job is refused while it runs."""
        if self._acting:
            self.bell()
            return
        self._acting, self._busy, self._said = True, what, ""
        self._tell()

        self._jobs.put(worker.ACT, work, self._acted)

    def _acted(self, found: ActionResult | Exception) -> None:
        self._acting, self._busy, self._writing, self._unfinished = False, "", False, []
        if isinstance(found, Declined):
            self._said = "nothing was changed"
            self._tell()
            return
        if isinstance(found, Exception):
            self._stale = True  # the progress of the failed job is unknown
            self._failed(found)
        else:
            lines = [line.text for line in found.lines]
            self.outcome += lines
            self.incomplete = self.incomplete or found.is_incomplete
            self._said = lines[0] if lines else ""
            self._stale = not found.is_mark
            if self._stale:
                self.push_screen(Dialog("Done, not all of it" if found.is_incomplete else "Done", lines), self._read_it)
        self._reload()

    def _reload(self) -> None:
        self._tell()
        self._jobs.put(worker.LIST, self._model.timeline, self.fill)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the timeline's keys while a question is open or a line is being typed."""
        if action in _OURS:
            if len(self.screen_stack) > 1:
                return False
            if isinstance(self.focused, Input) and action not in ("escape", "interrupt"):
                return False
        return super().check_action(action, parameters)

    def ask(self, proposal: Proposal) -> bool:
        """Ask the person. Called on the worker thread, which waits. The answer is no if the screen closes."""
        headline, kept, patch = proposal.headline.text, proposal.kept, proposal.patch
        lines = [line.text for line in (*proposal.notes, *proposal.lines)]
        answers = (*YES, _PATCH) if patch is not None else YES
        while True:
            found = self._answer(lambda: Dialog(headline, lines, answers, kept), kept)
            if found != _PATCH[0] or patch is None:
                return bool(found)
            self._answer(functools.partial(PatchDialog, headline, [line.text for line in patch()]), "")

    def _answer(self, dialog: Callable[[], Dialog], kept: str) -> str:
        """Show a dialog and wait for its answer, "" = no."""
        answered, answers = threading.Event(), [""]

        def take(answer: str | None) -> None:
            answers[0] = answer or ""
            self._writing = bool(answer == "y" and kept)  # otherwise another question follows
            self._busy = "restoring"
            self._tell()
            answered.set()

        def show() -> None:
            self._busy = "waiting for your answer"
            self._tell()
            self.push_screen(dialog(), take)

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
        row, preview = self._chosen(), self._preview
        if row is None or self._offer():
            return
        if not row.target:
            self._say("the state before this was forgotten: nothing can be restored from here")
            return
        parts = {path: frozenset(chosen) for path, chosen in self._parts.items()}
        if parts and what == BOTH:
            self._say("parts of files are restored with c; b restores whole files and the conversation")
            return
        scope = sorted(self._checked) if what != CHAT else []
        given = ChosenParts(preview, parts) if preview is not None and parts and what == CODE else None
        self._act("planning", lambda: self._model.restore(row, what, scope, self.ask, given))

    def action_rewrite(self) -> None:
        """Rewind a conversation in its own session."""
        row = self._chosen()
        if row is not None:
            self._act("planning", lambda: self._model.rewrite(row, self.ask))

    def action_undo(self, everything: bool) -> None:  # noqa: FBT001 - textual's way to call it
        """Undo the newest restore."""
        if self._offer():
            return
        kept = "What was edited since is taken back, too; redo brings it back." if everything else _KEPT
        question = f"Undo{' all' if everything else ''}: take the newest restore back?"
        self._sure(question, [kept], "undoing", {"y": lambda: self._model.undo(everything=everything)}, YES)

    def action_redo(self) -> None:
        """Redo the newest undo."""
        if not self._offer():
            self._sure("Redo: take the newest undo back?", [_KEPT], "redoing", {"y": self._model.redo}, YES)

    def action_resume(self) -> None:
        """Continue or abort an interrupted restore."""
        if not self._offer():
            self._say("no restore was interrupted here: there is nothing to finish or take back")

    def _offer(self) -> bool:
        """Offer to continue or abort an interrupted restore, unless another question is open. Returns True if there is
        one.
        """
        if self._unfinished and len(self.screen_stack) == 1:
            ways = {key: functools.partial(self._model.resume, forward=key == "c") for key in "ca"}
            answers = (("c", "continue: finish it"), ("a", "abort: take it back"))
            self._sure("A restore was interrupted here.", self._unfinished, "resuming", ways, answers)
        return bool(self._unfinished)

    def _sure(
        self,
        question: str,
        lines: list[str],
        what: str,
        ways: Mapping[str, Callable[[], ActionResult]],
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
        if row is not None and row.target and self._timeline is not None:
            marked = self._timeline.marks.get(row.target, UNMARKED)
            self._act("marking", lambda: self._model.pin(row.target, marked))

    def action_label(self) -> None:
        """Label a checkpoint."""
        row = self._chosen()
        if row is None or not row.target or self._timeline is None or self._acting:
            return

        def take(label: str | None) -> None:
            if label:
                self._act("marking", lambda: self._model.label(row.target, label))

        point, marked = self._timeline.points.get(row.target), self._timeline.marks.get(row.target, UNMARKED)
        given = marked.label or (point.label if point is not None else "")
        name = picker_rows.title(self._timeline, row)
        self.push_screen(Question(f"Label for {row.target} ({name}), which is pinned by it:", given), take)

    def action_leave(self) -> None:
        """Exit, unless a restore is running: a letter must not leave it unfinished."""
        if self._writing:
            self.bell()
        else:
            self.exit(0)

    def action_interrupt(self) -> None:
        """Exit at once, as the commands do. A running restore can be continued or aborted later."""
        self.exit(INTERRUPTED)


def run(context: "Context", relay: ProgressRelay, name: str) -> tuple[int, list[str], bool]:
    """Show the picker until the person exits. Returns (exit code, report lines, True if some work was not done).

    The worker owns the open project during this call.
    """
    model = TimelineModel(context)
    jobs = Worker()
    picker = Picker(model, jobs, relay, name)
    try:
        jobs.put(worker.LIST, model.timeline, picker.fill)
        code = picker.run()
    finally:
        picker.release()
        jobs.close()
        relay.listener = None
    return BUG if code is None else code, picker.outcome, picker.incomplete  # textual has printed the error
