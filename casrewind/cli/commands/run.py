"""casrewind run: a command as a turn of its own."""

import errno
import os
import signal
import subprocess

from ... import errors
from ..._typing import TYPE_CHECKING
from ...model.checkpoint import RUN
from ...upkeep.run import CommandTurn
from ...upkeep.save import Saved
from ..grammar.options import MESSAGE, Command, Option
from ..show.text import counts_in_words, skipped_lines
from ..terminal.lines import print_error, print_lines, remark
from . import Done

if TYPE_CHECKING:

    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind run -m 'new formatter' -- make format",),
    options=(
        MESSAGE._replace(help="a name for the turn, and a label for both checkpoints"),
        Option(("words",), "the command to run", "COMMAND ...", nargs="*"),
    ),
    usage=("[-m MESSAGE] [--] COMMAND ...",),
    more="The command counts as a turn, which casrewind list shows as @1. run exits with the exit code of the command.",
    behind="the command goes",
    takes_rest=True, creates=True, saves=True, tells_faults=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind run."""
    arguments = [*options.words, *(["--"] if options.words and options.dashed else []), *options.rest]
    if not arguments:
        raise errors.UsageError("run: missing COMMAND", "casrewind run -- make test, for example")
    turn = CommandTurn(context, arguments, options.message or "")
    before = turn.save_before()
    done()
    if not options.quiet:
        remark(f"saved {before.checkpoint.id} before the command")
    print_lines(skipped_lines(before.faults))
    # the child handles an interrupt from the terminal; this process still has to make the second checkpoint
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.Popen(arguments).wait()
    except OSError as error:
        is_missing = not _program_exists(arguments[0])
        print_error(f"cannot run {arguments[0]}: {os.strerror(errno.ENOENT) if is_missing else error.strerror}")
        return 127 if is_missing else 126
    finally:
        signal.signal(signal.SIGINT, handler)
        after = turn.save_after()
        done()
        if not options.quiet:
            _print_run(before, after)
        print_lines(skipped_lines(after.faults))
    return 128 - code if code < 0 else code


def _program_exists(program: str) -> bool:
    """Whether there is such a program. A directory of PATH that may not be searched has none, as a shell sees it."""
    places = ("",) if "/" in program else os.get_exec_path()
    return any(os.path.lexists(os.path.join(place, program)) for place in places)


def _print_run(before: Saved, after: Saved) -> None:
    """Print the result of `run` to standard error: standard output belongs to the command."""
    counts = after.checkpoint.changes
    if counts == (0, 0, 0):
        remark(f"saved {after.checkpoint.id} after the command: nothing changed")
        return
    remark(f"saved {after.checkpoint.id} after the command: {counts_in_words(counts)}")
    verb = "revert" if before.checkpoint.agent == RUN else "restore"  # in an agent's shell it is no turn of its own
    remark(f"  casrewind {verb} {before.checkpoint.id} takes it back")
