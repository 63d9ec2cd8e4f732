"""The commands, one module for each, with its name: `COMMAND` is its options and its help, `run` carries it out: options in, one
operation, a report out. A module is imported when its command is on the command line.

`pick` is the command that has no name. `remote_gc` is an action of `remote`. `words` is what several commands share.
"""

from collections.abc import Callable

OK, REMARKS = 0, 3

Done = Callable[[], None]
"""Clears the progress display before something is printed."""
