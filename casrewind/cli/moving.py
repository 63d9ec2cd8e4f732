"""What the command does where it finds no store: perhaps the project was moved, and takes its checkpoints along.

Only the command does this, for a person reads what it says: a hook makes a store, whatever was somewhere else.
"""

import os
import shlex

from .. import door, errors, fsio, projects
from ..settings import Settings
from . import failures

_SHOWN = 3


def follow(directory: str, settings: Settings) -> str:
    """Adopt the store of a project that was moved, and say so. Else what to say to somebody who finds none here: which root
    that is gone it may be, and how it is adopted; "" when there is none."""
    if settings.store is not None or os.environ.get(door.INSIDE):
        return ""
    found = projects.adopt_moved(directory, settings)
    if found.adopted is not None:
        here, old = fsio.show(found.adopted.root), fsio.show(found.adopted.old)
        count = found.adopted.checkpoints
        what = f"its {count} checkpoint{'' if count == 1 else 's'}" if count else "its checkpoints"
        failures.say_error(f"note: {here} was moved{'' if old == here else f' from {old}'}: {what} came along")
        return ""
    hints = "".join(f"; if this project was at {fsio.show(old)} before: {adopt(old)}" for old in found.candidates[:_SHOWN])
    return hints + (f" ({found.problem})" if found.problem else "")


def adopt(old: str) -> str:
    """The command that adopts a root."""
    return f"casrewind adopt {shlex.quote(fsio.show(old))}"


def hint(directory: str, settings: Settings) -> str:
    """As `follow`, for commands that leave everything where it is: nothing is adopted."""
    try:
        found = projects.moved_from(directory, settings)
    except (errors.CasrewindError, OSError):
        return ""
    return "".join(f"; if this project was at {fsio.show(old)} before: {adopt(old)}" for old in found[:_SHOWN])
