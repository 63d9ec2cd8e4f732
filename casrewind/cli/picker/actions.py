"""The keys that change something: restore, undo, redo, marks; and the exit."""

import functools
import threading
from collections.abc import Callable

from ...errors import ContentInTheWay, Declined, JournalOpen
from ...model.turn_records import Turn
from ...store.catalog import UNMARKED
from ..terminal.lines import INTERRUPTED
from ..terminal.questions import KEEP_EDITS, Proposal
from . import picker_rows, worker
from .read_jobs import TimelineReader
from .state import PickerState, hint_with_keys
from .timeline import BOTH, CHAT, CODE, ActionResult, ChosenParts
from .view import PickerView
from .widgets import YES, Dialog, PatchDialog, Question

_KEEP = (KEEP_EDITS, "keep my edits")
_PATCH = ("d", "patch")
_SHOWN_IS_OLD = (ContentInTheWay, JournalOpen)
"""Errors of a plan after which the files or the store may not be as they are shown."""


class PickerActions:
    """Keys that change something, after a question. Each public method is what one key does, but `ask`, `offer_to_resume` and
    `refuse_questions`."""

    def __init__(
        self, state: PickerState, view: PickerView, reader: TimelineReader, deliver: Callable[[Callable[[], None]], None]
    ) -> None:
        """`deliver` runs a function on the screen's thread."""
        self.state, self.view, self.reader, self._deliver = state, view, reader, deliver
        self._refuse: Callable[[], object] = lambda: None
        self._gone = False

    def _start_action(self, words: str, work: Callable[[], ActionResult]) -> None:
        """Start a job that writes. A second job is refused while it runs."""
        if self.state.acting:
            self.view.app.bell()
            return
        self.state.acting, self.state.busy, self.state.said = True, words, ""
        self.view.update_lines()
        self.reader.jobs.put_job(worker.ACT, work, self._show_result_and_reload)

    def _show_result_and_reload(self, found: ActionResult | Exception) -> None:
        was_writing = self.state.writing
        self.state.acting, self.state.busy, self.state.writing = False, "", False
        if isinstance(found, Declined):
            self.state.said = "nothing was changed"
            self.view.update_lines()
            return
        if isinstance(found, Exception):
            self.reader.show_failure(found)
            if not was_writing and not isinstance(found, _SHOWN_IS_OLD):
                return  # nothing was changed, so what is chosen stays
            self.state.stale = True  # the progress of the failed job is unknown
        else:
            lines = [line.text for line in found.lines]
            self.state.outcome += lines
            self.state.incomplete = self.state.incomplete or found.is_incomplete
            self.state.said = lines[0] if lines else ""
            self.state.stale = not found.is_mark
            if self.state.stale:
                self.state.forget_choice()
                title, with_keys = "Not all of it was done" if found.is_incomplete else "Done", [hint_with_keys(line) for line in lines]
                self.view.app.push_screen(Dialog(title, with_keys), self.reader.read_after_message)
        self._reload_timeline()

    def _reload_timeline(self) -> None:
        self.state.unfinished = []
        self.view.update_lines()
        self.reader.jobs.put_job(worker.LIST, self.reader.model.first_timeline, self.reader.show_timeline)

    def ask(self, proposal: Proposal) -> str:
        """Ask the person. Called on the worker thread, which waits. The answer is NO if the screen closes."""
        headline, kept, patch = proposal.headline.text, proposal.kept, proposal.patch
        lines = [hint_with_keys(line.text) for line in (*proposal.notes, *proposal.lines)]
        answers = (*((_KEEP,) if proposal.may_keep else ()), *YES, *((_PATCH,) if patch is not None else ()))
        while True:
            found = self._show_and_wait(lambda: Dialog(headline, lines, answers, kept), kept)
            if found != _PATCH[0] or patch is None:
                return found
            self._show_and_wait(functools.partial(PatchDialog, headline, [line.text for line in patch()]), "")

    def _show_and_wait(self, dialog: Callable[[], Dialog], kept: str) -> str:
        """Show a dialog and wait for its answer, "" = no."""
        answered, answers = threading.Event(), [""]

        def take(answer: str | None) -> None:
            answers[0] = answer or ""
            self.state.writing = bool(answer == "y" and kept)  # otherwise another question follows
            self.state.busy = "restoring"
            self.view.update_lines()
            answered.set()

        def show() -> None:
            self.state.busy = "waiting for your answer"
            self.view.update_lines()
            self.view.app.push_screen(dialog(), take)

        self._refuse = answered.set
        self._deliver(show)
        if self._gone:
            answered.set()
        answered.wait()
        return answers[0]

    def refuse_questions(self) -> None:
        """Answer no to the open question and to all later questions."""
        self._gone = True
        self._refuse()

    def restore(self, code_chat_or_both: str) -> None:
        """Restore code, chat or both."""
        row, preview = self.view.chosen(), self.state.preview
        if row is None or self.offer_to_resume():
            return
        if not row.target:
            self.view.show_answer("the state before this was forgotten: nothing can be restored from here")
            return
        if code_chat_or_both != CHAT and (why_not := self.state.why_not_all(row, self.view.focused_pane())):
            self.view.show_answer(why_not)
            return
        parts = {path: frozenset(chosen) for path, chosen in self.state.parts.items()}
        if parts and code_chat_or_both != CHAT and self.state.is_of_turn():
            self.view.show_answer("hunks of this turn are taken back with x; v shows what c restores")
            return
        if parts and code_chat_or_both == BOTH:
            self.view.show_answer("parts of files are restored with c; b restores whole files and the conversation")
            return
        scope = sorted(self.state.checked) if code_chat_or_both != CHAT else []
        given = ChosenParts(preview, parts) if preview is not None and parts and code_chat_or_both == CODE else None
        self._start_action("planning", lambda: self.reader.model.restore(row, code_chat_or_both, scope, self.ask, given))

    def take_back(self) -> None:
        """Take back what the turn changed: all of it, the chosen files and hunks of it, or the open file."""
        row, pane, line, preview = self.view.chosen(), self.view.focused_pane(), self.view.chosen_file(), self.state.preview
        if row is None or self.offer_to_resume():
            return
        turn = row.item
        if not isinstance(turn, Turn):
            self.view.show_answer("x takes back what a turn changed: go to a turn first")
            return
        if self.state.parts and not self.state.is_of_turn():
            self.view.show_answer("the chosen hunks are parts of a restore: c restores them, escape chooses none")
            return
        is_chosen = bool(self.state.checked or self.state.parts)
        is_open = pane == "patch" and line is not None and line.change is not None and not is_chosen
        if not is_open and (why_not := self.state.why_not_all(row, pane)):
            self.view.show_answer(why_not)
            return
        scope = [line.change.path] if is_open and line is not None and line.change is not None else sorted(self.state.checked)
        parts = {path: frozenset(chosen) for path, chosen in self.state.parts.items()}
        given = ChosenParts(preview, parts) if preview is not None and parts else None
        self._start_action("planning", lambda: self.reader.model.take_back(turn, scope, self.ask, given))

    def rewrite(self) -> None:
        """Rewind a conversation in its own session."""
        row = self.view.chosen()
        if row is not None:
            self._start_action("planning", lambda: self.reader.model.rewrite(row, self.ask))

    def undo(self, everything: bool) -> None:  # noqa: FBT001 - textual's way to call it
        """Undo the newest restore."""
        if not self.offer_to_resume():
            self._start_action("planning", lambda: self.reader.model.undo(self.ask, everything=everything))

    def redo(self) -> None:
        """Redo the newest undo."""
        if not self.offer_to_resume():
            self._start_action("planning", lambda: self.reader.model.redo(self.ask))

    def resume(self) -> None:
        """Continue or abort an interrupted restore."""
        if not self.offer_to_resume():
            self.view.show_answer("no restore was interrupted here: there is nothing to finish or take back")

    def offer_to_resume(self) -> bool:
        """Offer to continue or abort an interrupted restore, unless another question is open. Returns True if there is
        one.
        """
        if not self.state.unfinished or len(self.view.app.screen_stack) > 1:
            return bool(self.state.unfinished)

        def take(answer: str | None) -> None:
            if answer:
                self.state.writing = not self.state.acting
                self._start_action("resuming", functools.partial(self.reader.model.continue_or_abort, forward=answer == "c"))

        if self.state.acting:
            self.view.app.bell()
        else:
            answers = (("c", "continue: finish it"), ("a", "abort: take it back"))
            self.view.app.push_screen(Dialog("A restore was interrupted here.", self.state.unfinished, answers), take)
        return True

    def pin(self) -> None:
        """Pin the checkpoint, or unpin it."""
        row = self.view.chosen()
        if row is not None and row.target and self.state.timeline is not None:
            marked = self.state.timeline.marks.get(row.target, UNMARKED)
            self._start_action("marking", lambda: self.reader.model.pin(row.target, marked))

    def mark_reviewed(self) -> None:
        """Mark as looked at, up to this row."""
        row, found = self.view.chosen(), self.state.timeline
        if row is not None and found is not None:
            name = picker_rows.number_of_turn(row) or picker_rows.row_title(found, row)
            self._start_action("marking", lambda: self.reader.model.mark_reviewed(row, name))

    def label(self) -> None:
        """Label a checkpoint."""
        row = self.view.chosen()
        if row is None or not row.target or self.state.timeline is None or self.state.acting:
            return

        def take(label: str | None) -> None:
            if label:
                self._start_action("marking", lambda: self.reader.model.label(row.target, label))

        point, marked = self.state.timeline.points.get(row.target), self.state.timeline.marks.get(row.target, UNMARKED)
        given = marked.label or (point.label if point is not None else "")
        name = picker_rows.row_title(self.state.timeline, row)
        self.view.app.push_screen(Question(f"Label for {row.target} ({name}); a label also pins it:", given), take)

    def leave(self) -> None:
        """Exit, unless a restore is running: a letter must not leave it unfinished."""
        if self.state.writing:
            self.view.app.bell()
        else:
            self.view.app.exit(0)

    def interrupt(self) -> None:
        """Exit at once, as the commands do. A running restore can be continued or aborted later."""
        self.view.app.exit(INTERRUPTED)
