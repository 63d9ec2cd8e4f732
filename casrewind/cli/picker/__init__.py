"""The picker: `casrewind` without a command, on a terminal. It shows the timeline, previews each restore, and restores.

The danger prevented here: a person in a hurry increases the damage. Nothing changes before the person agrees to the
plan. Escape, ctrl-C and the end of input answer no to every question. Every change can be undone.

`timeline` reads checkpoints and `state` has what is shown and chosen; both know no screen. `worker` is the only thread
that may use the open project. `app`, `keys`, `view` and `widgets` are the screen; only they import textual.
`commands/pick.py` starts it, or asks at a plain prompt where there is no screen.
"""

from collections.abc import Callable

from ...ops.context import Progress


class ProgressRelay:
    """Forwards the progress of an operation to the current `listener`."""

    def __init__(self) -> None:
        """There is no listener at first."""
        self.listener: Progress | None = None
        self.done: Callable[[], None] = lambda: None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that `done` of `total` units are finished; `total` 0 means that the total is unknown."""
        if self.listener is not None:
            self.listener(what, done, total)

    def close(self) -> None:
        """Clear the progress, if the listener shows it."""
        self.done()
