"""casrewind unpin: the reverse of pin."""


from ..._typing import TYPE_CHECKING
from ...history import lookup
from ...upkeep import pins
from ..grammar.options import JSON, REF, Command
from . import Done
from .pin import print_marking

if TYPE_CHECKING:

    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind unpin 'it works'",),
    options=(
        REF, JSON,
    ),
    more="The checkpoint keeps its label, but gc may delete it.",
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind unpin."""
    return print_marking(context, options, pins.unpin(context, lookup.checkpoint(context, options.ref or "")), done)
