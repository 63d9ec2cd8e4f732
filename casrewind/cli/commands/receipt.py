"""casrewind receipt: what came from another machine last, and what is lacking here."""

from ..._typing import TYPE_CHECKING
from ...change.receipt import find_receipt
from ..grammar.options import JSON, STRICT, Command
from ..show.received import receipt_lines, receipt_shape
from ..terminal.lines import print_json, print_line, print_lines
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind receipt",),
    options=(STRICT, JSON),
    more="Compares your current files with what came from the other machine. Files that you have changed since then count as different.",
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind receipt."""
    receipt = find_receipt(context)
    done()
    if options.json:
        print_json(receipt_shape(receipt))
    elif receipt is None:
        print_line("nothing came from another machine with its conversation; casrewind clone URL and restore MACHINE:last --both bring it")
    else:
        print_lines(receipt_lines(receipt))
    return OK if receipt is None or receipt.is_enough(strict=options.strict) else REMARKS
