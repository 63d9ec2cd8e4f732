"""casrewind attest: a proof of what was done, for somebody who does not trust this machine."""

from ..._typing import TYPE_CHECKING
from ...messages import plural
from ..grammar.options import Command, Option, flag
from ..terminal.lines import note, print_json, print_line
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind attest @1..@9 > proof.json", "casrewind attest --key > machine.pub"),
    options=(
        Option(("ref",), "the turns or checkpoints: one, or two with .. between them (default: all)", "REF", nargs="?"),
        flag("--key", "print the public key of this machine, which is made at first use"),
        flag("--files", "add a list of the files at the end, for casrewind verify --proof FILE DIR"),
        flag("--prompts", "add the prompts, and what proves that they are the stated ones"),
    ),
    more="Prints a proof that casrewind verify --proof checks without this store. Needs casrewind[proof]. docs/proof-format.md says what "
    "it does not prove.",
    stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind attest."""
    from ...history import machine_key, proof  # they need the extra, and the help does not

    if options.key:
        done()
        print_line(machine_key.public_pem(machine_key.find_or_make_key(context.data)).decode().rstrip("\n"))
        return OK
    first, _, last = (options.ref or "").partition("..")
    made = proof.attest(context, first, last, files=options.files, prompts=options.prompts)
    done()
    print_json(made.envelope)
    note(f"{plural(made.statements, 'statement')}; note this anchor elsewhere, for verify --expect: {made.anchor}")
    return OK
