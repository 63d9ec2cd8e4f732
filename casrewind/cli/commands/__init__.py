"""The functions of the commands: options in, one operation, a report out. A module is imported when one of
its commands runs.

A module has the names of its commands. `install` has uninstall, too; `remote` has every command about a remote. `words`
is what several commands share.
"""

from collections.abc import Callable

OK, REMARKS = 0, 3

Done = Callable[[], None]
"""Clears the progress display before something is printed."""
