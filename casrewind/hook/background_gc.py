"""gc in the background, started after a save when gc is due.

Three dangers are prevented here. A prompt could wait for gc: so gc runs in its own session with low priority. Several
gcs could queue: so a gc ends at once if another one runs. A failure could stay unseen: so the store's log records it.
The process may be killed at any time.
"""

import os
from contextlib import suppress

from .. import errors, launch
from ..store.budget import GcState, gc_target, gc_threshold
from ..store.failure_log import FailureLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..model.retention import Limits
    from ..settings import Settings

_NICER = 10


def start_gc(root: str, settings: "Settings") -> None:
    """Start a gc of the store of `root`. Raises nothing: the next save tries again."""
    import subprocess

    store = [] if settings.store is None else ["--store", os.path.abspath(settings.store)]
    force = ["--force"] if settings.force else []
    null = subprocess.DEVNULL
    with suppress(OSError):
        command = [*launch.own_command(), "-C", root, *store, *force, "gc", "--auto"]
        child = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/")
        child.returncode = 0  # the child continues; this stops the ResourceWarning


def run_gc(context: "Context", limits: "Limits") -> None:
    """Run the gc. A store at its budget is reduced until the next saves fit."""
    from ..upkeep import gc as collecting

    with suppress(OSError):
        os.nice(_NICER)
    if context.store.maintenance().is_running():
        return
    before = GcState.read(context.store.path)
    budget, target = limits.max_size, None
    if budget is not None and context.store.size() > gc_threshold(budget):
        target = gc_target(budget)
    log = FailureLog(context.store.path)
    try:
        found = collecting.collect(context, limits, target=target)
    except errors.StoreBusy:
        return  # another gc or a long save is running: the next save checks again
    except (errors.CasrewindError, OSError, MemoryError) as error:
        log.append_line(f"automatic gc: {error}")
        context.store.maintenance().record_failed_gc()
        return
    if found.floor and not before.floor:
        for note in found.notes:
            log.append_line(f"automatic gc: {note}")
    if found.damaged:
        log.append_line(f"automatic gc: {len(found.damaged)} damaged packs were left alone: run casrewind verify --repair")
