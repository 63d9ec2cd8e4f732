"""casrewind version."""

from ... import __version__
from ..._typing import TYPE_CHECKING
from ..grammar.options import Command
from ..terminal.lines import print_line
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(examples=("casrewind version",), options=())


def run(_options: "ParsedOptions") -> int:
    """casrewind version and --version. It needs no settings, which may be unreadable."""
    print_line(f"casrewind {__version__}")
    return OK
