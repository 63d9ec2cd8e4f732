"""Shows the progress of a long operation on standard error."""

import sys
import time

from ..._typing import TYPE_CHECKING
from . import colour_decision

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE = 0.5
"""Seconds before progress is shown. rich is not imported before."""


class Reporter:
    """Shows the progress of a long operation. Operations call it; call `close` at the end."""

    def __init__(self) -> None:
        """Show nothing, and do not import rich, before the delay ends."""
        self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that `done` of `total` units are finished; `total` 0 means that the total is unknown."""
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            self._bar = self._start_display()
        if what != self._what or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._what = self._bar.add_task(what, total=total or None), what
        self._bar.update(self._task, completed=done, total=total or None)

    @staticmethod
    def _start_display() -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=Console(file=sys.stderr, color_system="auto" if colour_decision.has_colours(sys.stderr) else None), transient=True,
        )  # fmt: skip
        bar.start()
        return bar

    def close(self) -> None:
        """Clear the progress display."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._task, self._what = None, None, ""  # the progress may continue after a question
