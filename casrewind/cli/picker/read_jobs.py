"""Starts the jobs that read, and takes their results into the state.

The danger prevented here: one row's changes shown beside another row's name. The result of an outdated job is
dropped.
"""

from collections.abc import Callable

from rich.text import Text

from ...messages import plural, printable
from ...model.diff import Change
from ...model.turn_records import Turn
from . import patch_lines, worker
from .patch_lines import PatchLine
from .picker_rows import PickerRow, PickerTimeline
from .state import PickerState, error_in_words
from .timeline import RowPreview, TimelineModel
from .view import PickerView
from .widgets import Dialog
from .worker import Worker

_VISIBLE = 8  # rows per job that reads changes
_COUNTED, _AT_ONCE = 200, 10  # files with a line count, and files per job


class TimelineReader:
    """What reads for the picker. Only `jobs`, the worker thread, uses `model`."""

    def __init__(self, state: PickerState, view: PickerView, model: TimelineModel, jobs: Worker) -> None:
        """`offer` is called when an interrupted restore may have to be told; `Picker` sets it."""
        self.state, self.view, self.model, self.jobs = state, view, model, jobs
        self.offer: Callable[[], object] = lambda: None

    def show_timeline(self, found: PickerTimeline | Exception) -> None:
        """Show the timeline, then read what is missing of it."""
        if isinstance(found, Exception):
            self.show_failure(found)
            return
        self.view.show_reading("")
        self.state.timeline, self.state.unfinished = found, found.unfinished
        if found.is_complete:
            self.state.known.clear()
        self.list_rows_keeping_cursor()
        self.offer()
        if self.state.stale:
            self.state.stale = False
            self.state.known.clear()
            self.scan_worktree()
        else:
            self.read_more()

    def scan_worktree(self) -> None:
        """Start a job that looks at the worktree."""
        self.view.show_reading("looking at the files")
        self.jobs.put_job(worker.LOOK, self.model.scan_worktree, self._show_scan)

    def _show_scan(self, found: PickerTimeline | Exception) -> None:
        """Show the timeline after a scan of the worktree, and compare again."""
        self.show_timeline(found)
        if not isinstance(found, Exception) and self.state.is_opened:
            self.start_preview_job()

    def read_more(self) -> None:
        """Start a job that reads the changes of visible turns, and a job that reads more rows."""
        if self.state.timeline is None:
            return
        lines = self.view.list_widget("#timeline")
        first = lines.first_visible()
        todo = [row for row in self.state.rows[first : first + lines.size.height + 1] if not row.is_final][:_VISIBLE]
        if todo:
            self.jobs.put_job(worker.FILL, lambda: self.model.turns_with_changes(todo), self._show_changes)
        if not self.state.timeline.is_complete:
            self.jobs.put_job(worker.MORE, self.model.timeline_with_more, self._show_more)

    def _show_changes(self, found: dict[str, PickerRow] | Exception) -> None:
        if not isinstance(found, Exception):
            self.state.put_filled_turns(found)
            self.view.list_widget("#timeline").refresh()
            self.read_more()

    def _show_more(self, found: PickerTimeline | Exception) -> None:
        if isinstance(found, Exception):
            self.show_failure(found)
        else:
            self.state.timeline = found
            self.list_rows_keeping_cursor()
            self.read_more()

    def list_rows_keeping_cursor(self) -> None:
        """Show the rows of the current view. The cursor keeps its row."""
        if self.state.timeline is None:
            return
        chosen, was_placed = self.view.chosen(), self.state.is_placed
        at = self.state.list_rows(chosen)
        self.view.list_widget("#timeline").set_count(len(self.state.rows), at, stays=was_placed)
        now = self.view.chosen()
        if chosen is None or now is None or now.key != chosen.key:
            self.start_preview_job()
        self.view.update_lines()

    def start_preview_job(self) -> None:
        """Start a job that compares for the row at the cursor, if files are shown."""
        if not self.state.is_opened:
            return
        row = self.view.chosen()
        self.state.forget_preview_and_choice(row, self.view.chosen_file())
        self.view.clear_row_lists()
        self.view.update_lines()
        if row is None or (not row.target and not isinstance(row.item, Turn)):
            self.view.show_text("#about", Text("" if row is None else "nothing is known of what was here"))
            return
        what, base = self.state.preview_kind(row), self.state.base
        self.view.show_text("#about", Text("comparing ...", style="dim"))
        self.state.asked += 1
        number = self.state.asked

        def answer(found: RowPreview | Exception) -> None:
            if number == self.state.asked:  # a later question makes an answer outdated
                self._show_preview(found)

        self.jobs.put_job(worker.SHOW, lambda: self.model.preview(row, what, base), answer)

    def _show_preview(self, found: RowPreview | Exception) -> None:
        if isinstance(found, Exception):
            self.view.show_text("#about", Text(printable(error_in_words(found)), style="red"))
            return
        row = self.view.chosen()
        if row is None or not self.state.set_preview(found, row, self.view.file_filter()):
            return  # the cursor moved, so this result is outdated
        width = max(self.view.list_widget("#files").size.width, 20)
        self.view.show_text("#about", Text(self.state.preview_heading(row, found, width), style="bold"))
        self.view.fit_prompt()
        self.view.list_widget("#files").set_count(len(self.state.tree), self.state.take_start_line())
        self.start_patch_job()
        self._start_line_counts(found)

    def _start_line_counts(self, preview: RowPreview) -> None:
        """Start jobs that count the lines of the first files, a few files per job."""
        todo = [change for change in self.state.tree.changes[:_COUNTED] if change.path not in self.state.lines_of][:_AT_ONCE]

        def answer(found: dict[bytes, str] | Exception) -> None:
            if preview is self.state.preview and not isinstance(found, Exception):
                self.state.lines_of.update(found)
                self.view.list_widget("#files").refresh()
                self._start_line_counts(preview)

        if todo:
            self.jobs.put_job(worker.LINES, lambda: patch_lines.line_counts(preview.found, todo), answer)

    def start_patch_job(self) -> None:
        """Start a job that makes the patch of the file at the cursor."""
        self.state.is_blamed = False
        preview, line = self.state.preview, self.view.chosen_file()
        if preview is None or line is None:
            self._show_patch([])
            return
        change = line.change
        if change is None:
            words = f"{plural(line.end - line.start, 'file')} below {line.name}: enter {'unfolds' if line.is_folded else 'folds'} it"
            self._show_patch([PatchLine(words, "", -1, [])])
            return

        self._start_job_of_file(change, lambda: patch_lines.change_as_lines(preview.found, change))

    def start_blame_job(self, change: Change) -> None:
        """Start a job that finds who wrote the lines of a file."""
        self._show_patch([PatchLine("looking who wrote each line ...", "", -1, [])])
        self._start_job_of_file(change, lambda: patch_lines.blame_as_lines(self.model.blame(change.path)))

    def _start_job_of_file(self, change: Change, work: Callable[[], list[PatchLine]]) -> None:
        """Start a job that makes the lines of the file at the cursor. They are dropped if the cursor has moved."""
        preview = self.state.preview

        def answer(found: list[PatchLine] | Exception) -> None:
            now = self.view.chosen_file()
            if preview is self.state.preview and now is not None and now.change is change:
                self._show_patch([PatchLine(printable(error_in_words(found)), "", -1, [])] if isinstance(found, Exception) else found)

        self.jobs.put_job(worker.PATCH, work, answer)

    def _show_patch(self, lines: list[PatchLine]) -> None:
        self.state.patch = lines
        first = next((at for at, line in enumerate(lines) if line.sign == "@"), 0)
        self.view.list_widget("#patch").set_count(len(lines), first)

    def show_failure(self, error: Exception) -> None:
        """Say what could not be done."""
        self.state.said = ""
        self.view.show_reading("")
        self.view.app.push_screen(Dialog("That could not be done", [printable(error_in_words(error))]), self.read_after_message)

    def read_after_message(self, _: str | None) -> None:
        """Continue after a message is closed."""
        self.offer()
