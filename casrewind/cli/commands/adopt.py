"""casrewind adopt: the checkpoints of a project that was moved."""

import os

from ..._typing import TYPE_CHECKING
from ...messages import plural, printable
from ...remote import take_over
from ..grammar.options import JSON, Command, Option, flag
from ..show.shapes import path
from ..terminal.lines import print_json, print_line, remark
from . import OK, REMARKS

if TYPE_CHECKING:
    from ...settings import Settings
    from ...upkeep.adopt import Adopted
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind adopt ../the-name-before",),
    options=(
        Option(("old",), "the path that the project had before", "OLD"),
        flag("--force", "adopt even if OLD still exists", inherits=True),
        JSON,
    ),
    more=(
        "If this project already has checkpoints, casrewind lists those of OLD as checkpoints of another machine, and undo does not use "
        "them."
    ),
    is_alone=True,
)


def run(settings: "Settings", options: "ParsedOptions") -> int:
    """casrewind adopt."""
    found = take_over.adopt(options.directory, options.old, settings)
    if options.json:
        places = {"old": found.old, "root": found.root, "store": found.store}
        shape = {key: value for name, place in places.items() for key, value in path(os.fsencode(place), name).items()}
        more = {"machine": found.machine or None, "problems": list(found.problems)}
        print_json({**shape, "checkpoints": found.checkpoints, **more})
    else:
        _print_adopted(found)
    for problem in found.problems:
        remark(f"casrewind: {problem}")
    return REMARKS if found.problems else OK


def _print_adopted(found: "Adopted") -> None:
    checkpoints, old = plural(found.checkpoints, "checkpoint"), printable(found.old)
    if not found.machine:
        print_line(f"adopted {checkpoints} of {old}: they are those of {printable(found.root)} now")
    elif not found.checkpoints:
        print_line(f"nothing new in the store of {old}")
    else:
        print_line(f"took over {checkpoints} of {old}: this project has its own, so casrewind lists these as those of {found.machine}")
        print_line(f"  casrewind list --remote lists them, casrewind restore {found.machine}:last restores the newest")
        print_line(f"  undo cannot undo restores that were made at {old}; the store of {old} stays")
