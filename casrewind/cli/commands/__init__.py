"""The commands, one module for each, with its name: `COMMAND` is its options and its help, `run` carries it out: options in, one
operation, a report out. A module is imported when its command is on the command line.

`pick` is the command that has no name. `remote_gc` is an action of `remote`. `words` is what several commands share.
"""

from ..terminal.lines import OK as OK
from ..terminal.lines import REMARKS as REMARKS
from ..terminal.lines import Done as Done
