"""casrewind pull, and how what was pulled is printed."""


from ..._typing import TYPE_CHECKING
from ...messages import plural
from ...remote import pull as pulls
from ...remote import remote_config as configs
from ..grammar.options import JSON, Command, flag
from ..show.text import human_size
from ..terminal.lines import print_json, print_line, remark
from . import OK, REMARKS, Done
from .remote import join_by_variables, remark_on_strangers

if TYPE_CHECKING:
    from ...context import Context
    from ...remote.pull import Pulled
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind pull", "casrewind pull --newest"),
    options=(
        flag("--newest", "fetch only the newest checkpoint of each machine"),
        flag("--all", "look through everything on the remote, as pull does every seven days anyway"),
        JSON,
    ),
    more="Changes no file of the project. To restore what you pulled, type casrewind restore remote:last --both.",
    stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind pull."""
    join_by_variables(context, options)
    opened = configs.open_remote(context.store)
    found = pulls.pull(context, opened, newest=options.newest, everything=options.all)
    done()
    return print_pulled(found, options, opened.config.url)


def print_pulled(found: "Pulled", options: "ParsedOptions", url: str) -> int:
    """Print what a pull or an import took, as text or JSON. Returns the exit code."""
    if options.json:
        problems = list(found.problems)
        numbers = {"size": found.size, "requests": found.requests, "strangers": found.strangers}
        print_json({"checkpoints": dict(found.checkpoints), **numbers, "problems": problems, "notes": list(found.notes)})
    else:
        for line in found.notes:
            print_line(line)
        for machine, number in found.checkpoints.items():
            print_line(f"pulled {plural(number, 'checkpoint')} of {machine} ({human_size(found.size)})")
        if found.checkpoints:
            first = "remote" if len(found.checkpoints) == 1 else next(iter(found.checkpoints))
            print_line(f"casrewind list --remote lists them, casrewind restore {first}:last restores the newest")
        elif not found.problems:
            print_line(f"nothing new on {url}")
    for problem in found.problems:
        remark(f"casrewind: {problem}")
    remark_on_strangers(found.strangers, url)
    return REMARKS if found.problems else OK
