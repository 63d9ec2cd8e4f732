"""Progress on the terminal, for what takes longer than half a second; nothing at all anywhere else."""

import sys
import time

from ..typed import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE = 0.5


class Reporter:
    """Shows what is going on, when it goes on for long. Call it as the operations do; `close` at the end."""

    def __init__(self) -> None:
        """Nothing is shown, and rich is not imported, before the patience ends."""
        self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """So much of something is done; `total` 0 = its end is not known."""
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            self._bar = self._start()
        if what != self._what or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._what = self._bar.add_task(what, total=total or None), what
        self._bar.update(self._task, completed=done, total=total or None)

    @staticmethod
    def _start() -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from .output import is_colourful

        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=Console(file=sys.stderr, color_system="auto" if is_colourful(sys.stderr) else None), transient=True,
        )  # fmt: skip
        bar.start()
        return bar

    def close(self) -> None:
        """Take the progress off the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._task, self._what = None, None, ""  # behind a question it may go on


def reporter(*, quiet: bool) -> Reporter | None:
    """A reporter when somebody looks at stderr, else None."""
    return Reporter() if sys.stderr.isatty() and not quiet else None
