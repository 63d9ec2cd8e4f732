"""Saves the linked worktrees inside a project, after the hook of an event in the project.

The danger prevented here: a subagent works in a worktree of its own, its hooks name the project around it, and the
worktree is removed by force. Then nobody has the files that it never committed. So each event of the project saves these
worktrees, too, each as a checkpoint of its own root. A hook starts a process for that. The client waits for it only
before a tool, which may be what removes the worktree, and no longer than the event's budget.
"""

import os
import time
from contextlib import suppress

from .. import errors, launch
from .._typing import TYPE_CHECKING
from ..messages import printable
from ..model import digest as digests
from ..worktree import linked_worktrees

if TYPE_CHECKING:
    from ..settings import Settings

OPTION = "--worktrees"
"""`casrewind hook --worktrees ROOT`: what the process runs."""
_PAUSE = 0.01
_WHY = "changed since the last checkpoint; saved with the project around it"


def start_saves(root: str, seconds: float | None) -> None:
    """Start a process that saves the linked worktrees inside the directory `root`. With `seconds`, wait at most so long for
    its end. Raises nothing."""
    if os.environ.get(launch.TRIAL):
        return
    with suppress(OSError):
        process = launch.spawn_in_background([*launch.own_command(), "hook", OPTION, root])
        end = time.monotonic() + (seconds or 0.0)
        while seconds is not None and not os.waitpid(process, os.WNOHANG)[0] and time.monotonic() < end:
            time.sleep(_PAUSE)


def save_all(root: str, settings: "Settings") -> None:
    """Save each linked worktree inside the directory `root` in which something changed. A failure is a line in the log of the
    root's store. Of several processes with this task one works, one waits, and the others end: the one that waits sees what
    they were started for."""
    from ..settings import find_root, store_path
    from ..store.failure_log import FailureLog
    from ..upkeep import agent_event
    from . import limits

    limits.limit_process()
    outer = find_root(root, settings)
    store = store_path(outer, settings)
    limits.raise_limit_for_index(store)
    key = digests.of(b"worktrees of " + os.fsencode(outer.path))[:16]
    with agent_event.queued_turn_lock(store, key, limits.SECONDS, bytes) as turn:
        for each in linked_worktrees.find_inside(outer.path) if turn is not None else ():
            try:
                _save(each.place, settings)
            except (errors.CasrewindError, OSError) as error:
                FailureLog(store).append_line(f"saving the worktree {printable(each.place)}: {error}")


def _save(place: str, settings: "Settings") -> None:
    from ..settings import open_until_end
    from ..upkeep.save import Moment, save

    with open_until_end(place, settings, create=True) as context:
        own = context._replace(shell=("", ""))  # noqa: S604 - no process. Its agent works in the project around
        save(own, Moment(needless=True, why_changed=lambda: _WHY))
