"""The picker: `casrewind` alone on a terminal. The timeline, what each way back changes, and the way back itself.

The danger prevented here: a person in a hurry who makes it worse. Nothing is changed before the plan was shown and agreed to,
every question takes escape, ctrl-C and the end of input for no, and what was done can be undone.

`rows` and `board` know checkpoints and no screen, `desk` is the one thread that may use the workspace, `lines`, `dialogs` and
`screen` are the screen (only they import textual), `plain` is what there is without one.
"""

import os
import sys
from collections.abc import Callable

from ...ops.context import Progress

LEAST_WIDTH = 40
"""Columns below which there is no room for a screen."""


class ProgressRelay:
    """What an operation tells of its progress goes to `listener`, whoever that is at the time."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self.listener: Progress | None = None
        self.done: Callable[[], None] = lambda: None

    def __call__(self, what: str, done: int, total: int) -> None:
        """So much of something is done; `total` 0 = its end is not known."""
        if self.listener is not None:
            self.listener(what, done, total)

    def close(self) -> None:
        """Take progress off the screen, where the listener shows any."""
        self.done()


def has_screen() -> bool:
    """Whether the terminal can show a full screen: it knows how to, and is wide enough. Standard error has to be one, too:
    it is there that textual draws."""
    try:
        columns = os.get_terminal_size().columns
        if not sys.stderr.isatty():
            return False
    except OSError:
        return False
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown") and columns >= LEAST_WIDTH
