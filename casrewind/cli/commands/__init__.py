"""The functions of the commands: options in, one operation, a report out. A module is imported when one of
its commands runs.

`checkpoints` has save, run, pin, unpin and cat; `client` has what an agent's client runs; `maintenance` has gc, verify
and du. Any other module has the name of its first command.
"""

from collections.abc import Callable

OK, REMARKS = 0, 3

Done = Callable[[], None]
"""Clears the progress display before something is printed."""
