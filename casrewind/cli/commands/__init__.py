"""The functions of the commands: options in, one call of the workspace, a report out. A module is imported when one of
its commands runs.
"""

from collections.abc import Callable

OK, REMARKS = 0, 3

Done = Callable[[], None]
"""Clears the progress display before something is printed."""
