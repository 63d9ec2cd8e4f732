"""casrewind pin."""

from ..._typing import TYPE_CHECKING
from ...history import lookup
from ...upkeep import pins
from ..grammar.options import JSON, REF, Command, Option
from ..show import shapes
from ..terminal.lines import print_json, print_line
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ...upkeep.pins import Marking
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind pin last 'it works'",),
    options=(
        REF,
        Option(("label",), "a new label, which must not be another kind of REF, nor the label of a newer checkpoint", "LABEL", nargs="?"),
        JSON,
    ),
    stray="a label of several words needs quotes: casrewind pin last 'it works'",
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind pin."""
    return print_marking(context, options, pins.pin(context, lookup.checkpoint(context, options.ref or ""), options.label), done)


def print_marking(context: "Context", options: "ParsedOptions", report: "Marking", done: Done) -> int:
    """Print what was marked, as text or JSON. Returns the exit code."""
    done()
    if options.json:
        print_json({"checkpoint": shapes.checkpoint(report.checkpoint, report.marked, lookup.current_id(context))})
    else:
        print_line(str(report))
    return OK
