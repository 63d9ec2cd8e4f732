"""casrewind rewrite-chat: cut a conversation in its own session."""

import sys

from ... import errors
from ..._typing import TYPE_CHECKING
from ...change import rewind
from ...context import Context
from ...history import lookup
from ...messages import printable
from ..grammar.options import JSON, REF, Command
from ..plan.rewind_report import print_rewound
from ..show.rewound import removed_prompts
from ..terminal.lines import print_lines, remark
from . import Done

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind rewrite-chat @2",),
    options=(
        REF._replace(help="a checkpoint that an agent's hook made"),
        JSON,
    ),
    more="Asks you to type REWRITE. Close the agent's client first.",
)

_WORD = "REWRITE"


def run(context: Context, options: "ParsedOptions", done: Done) -> int:
    """casrewind rewrite-chat."""
    point = lookup.checkpoint(context, options.ref or "")
    change = rewind.prepare_rewind(context, point, in_place=True)
    planned = change.plan()
    done()
    print_lines(removed_prompts(planned), sys.stderr)
    remark(f"The conversation of {point.id} will be shortened in its own session; casrewind keeps a copy of it as it is now:")
    remark(f"  {printable(planned.transcript)}")
    sys.stderr.write(f"Type {_WORD} to do it: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != _WORD:
        raise errors.UsageError(f"nothing was changed: to go ahead, type {_WORD} on standard input")
    return print_rewound(change.carry_out(), options)
