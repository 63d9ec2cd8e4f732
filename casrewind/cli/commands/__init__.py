"""What each command does: options in, one call of the workspace, a report out. A module is imported when one of its
commands is run."""

from collections.abc import Callable

OK, REMARKS = 0, 3

Done = Callable[[], None]
"""Takes progress off the screen, before something is printed."""
