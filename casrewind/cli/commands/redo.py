"""casrewind redo: the reverse of undo."""

from ..._typing import TYPE_CHECKING
from ..grammar.options import ASSUME_YES, DRY_RUN, JSON, OPEN_FILES, Command, flag
from . import Done
from .undo import list_or_take_step

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind redo",),
    options=(
        DRY_RUN,
        flag("--list", "list the undos that can be redone"),
        OPEN_FILES, ASSUME_YES, JSON,
    ),
    saves=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind redo."""
    return list_or_take_step(context, options, done)
