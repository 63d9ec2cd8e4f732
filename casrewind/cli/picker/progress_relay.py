"""Forwards the progress of an operation to the screen, once there is one."""

from collections.abc import Callable

from ...context import Progress


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
