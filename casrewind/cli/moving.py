"""Where a command finds no store, the project may have been moved: then its checkpoints come along.

Only a command does this, because a person reads its output. A hook makes a store, whatever stands elsewhere.
"""

import os
import shlex

from .. import door, fsio, projects
from ..settings import Settings
from . import failures

_SHOWN = 3


def follow(directory: str, settings: Settings, *, dry_run: bool) -> str:
    """Adopt the store of a moved project, unless `dry_run`, and say so. Otherwise returns what an error adds: which gone roots
    the project may have had, and how they are adopted; "" for none."""
    if settings.store is not None or os.environ.get(door.INSIDE):
        return ""
    found = projects.adopt_moved(directory, settings, dry_run=dry_run)
    if found.adopted is not None:
        here, old = fsio.show(found.adopted.root), fsio.show(found.adopted.old)
        count = found.adopted.checkpoints
        what = f"its {count} checkpoint{'' if count == 1 else 's'}" if count else "its checkpoints"
        failures.say_error(f"note: {here} was moved{'' if old == here else f' from {old}'}: {what} came along")
        return ""
    likely = [fsio.show(old) for old in found.candidates[:_SHOWN]]
    hints = "".join(f"; if this project was at {old} before: casrewind adopt {shlex.quote(old)}" for old in likely)
    return hints + (f" ({found.problem})" if found.problem else "")

