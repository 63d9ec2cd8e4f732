"""gc in the background: started after a save when it is time, by itself, in a process that nobody waits for.

The dangers prevented here: a prompt that waits for somebody else's housekeeping, one gc behind the other, and a gc whose
failure nobody hears of. The process has a session of its own and low priority, ends at once when another gc is at work, may
be killed at any instant, and writes into the store's log what it could not do.
"""

import os
from contextlib import suppress

from ... import errors, launch
from ...store.failure_log import FailureLog
from ...store.quota import GcState, high_water, low_water

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...model.retention import Limits
    from ...settings import Settings
    from ...workspace import Workspace

_NICER = 10


def start(root: str, settings: "Settings") -> None:
    """Start a gc of the store of `root`. Raises nothing: the next save tries again."""
    import subprocess

    store = [] if settings.store is None else ["--store", os.path.abspath(settings.store)]
    force = ["--force"] if settings.force else []
    null = subprocess.DEVNULL
    with suppress(OSError):
        command = [*launch.argv(), "-C", root, *store, *force, "gc", "--auto"]
        child = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/")
        child.returncode = 0  # it goes on without us; nobody is to warn that it was not waited for


def run(workspace: "Workspace", limits: "Limits") -> None:
    """Be that gc. A store that has grown to its budget is brought down to where the next saves fit again."""
    from ...ops import gc as collecting
    from ...workspace import context_of

    with suppress(OSError):
        os.nice(_NICER)
    context = context_of(workspace)
    before = GcState.read(workspace.store_path)
    budget, target = limits.max_size, None
    if budget is not None and context.store.size() > high_water(budget):
        target = low_water(budget)
    log = FailureLog(workspace.store_path)
    try:
        found = collecting.collect(context, limits, target=target)
    except errors.StoreBusy:
        return  # another gc, or a save that takes long: the next save asks again
    except (errors.CasrewindError, OSError, MemoryError) as error:
        log.add(f"gc by itself: {error}")
        context.store.maintenance().note_failed()
        return
    if found.floor and not before.floor:
        for note in found.notes:
            log.add(f"gc by itself: {note}")
    if found.damaged:
        log.add(f"gc by itself: {len(found.damaged)} damaged packs were left alone: run casrewind verify --repair")
