"""Saves when the files have been still for a moment after a burst of edits: for editors and agents that have no hooks.

The dangers prevented here: a state that was there for a minute is in no checkpoint, because nothing told of it; or a half-written one is
taken in the middle of a write. And a turn's own edits are cut in two: while the turn of a client with hooks runs, nothing is saved here.
"""

import os
import time
from collections.abc import Iterator

from .. import errors, locations
from .._typing import NamedTuple
from ..agents import client_process
from ..context import Context
from ..history.present_scan import read_stat_index
from ..history.turn_view import is_idle
from ..messages import printable
from ..model.checkpoint import RUN, WATCH, Circumstances
from ..worktree.directory_watch import DirectoryWatch, OutOfWatches, allowed_watches
from .save import Moment, Saved, save

LONGEST_BURST = 60.0
"""Seconds from the beginning of a burst after which it is saved, still or not."""
_QUIET_TURN_NS = 600 * 1_000_000_000
"""A turn without an event for so long does not count as running: its client may have been stopped by Esc, of which none tells."""
_TELLING = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay", "zfs", "bcachefs"})
"""File systems that only this kernel changes, so that it tells of each change."""


class WatchOptions(NamedTuple):
    """How to watch."""

    settle: float = 2.0
    """Seconds without a change after which a burst is over."""
    every: float = 30.0
    """Seconds between two looks where the system tells of no changes."""
    agent: str = ""
    """Who edits, as a person names it."""


class ProjectWatch:
    """One watch of a worktree. Only one process has it at a time."""

    def __init__(self, context: Context, options: WatchOptions = WatchOptions()) -> None:  # noqa: B008 - a value, never changed
        """Watch nothing yet."""
        self._context, self._options = context, options
        self._watch: DirectoryWatch | None = None
        self._failed = False
        status = os.stat(context.tree.fd)
        self._identity = status.st_dev, status.st_ino
        self.why_looking = ""
        """Why the files are looked at every so often instead of when the system tells of a change; "" if it tells."""
        self.directories = 0
        """How many directories are watched, or looked at."""
        self.every = options.every

    def bursts(self) -> Iterator[Saved | errors.CasrewindError]:
        """Save the files as they are, and then each burst of edits, for ever. Yields each save, also the first one, and the error of each
        that failed: it is tried again. Raises StoreBusy if another process watches the project, WorkspaceNotFound when its directory is
        gone."""
        with self._context.store.hold_lock(f"watch-{self._context.root.key.hex()}", "casrewind watch"):
            self._start_watch()
            try:
                first = self._save()
                has_new = self._follow_directories()
                yield first
                while True:
                    if not has_new:  # else something may have happened in a new directory before it was watched
                        self._wait_for_burst()
                    yield from self._save_if_changed()
                    has_new = self._follow_directories()
            finally:
                if self._watch is not None:
                    self._watch.close()

    def save_rest(self) -> Saved | None:
        """Save what changed since the newest save, None if nothing did. For the end of the watch."""
        found = self._save()
        return found if isinstance(found, Saved) and found.created else None

    # -- waiting

    def _start_watch(self) -> None:
        kind = locations.file_system_type(self._context.root.path)
        if kind not in _TELLING:
            self.why_looking = f"changes on {kind or 'this file system'} may come from elsewhere, unseen"
            return
        try:
            self._watch = DirectoryWatch(os.fsencode(self._context.root.path))
        except OSError as error:
            self.why_looking = error.strerror or str(error)

    def _follow_directories(self) -> bool:
        """Watch the directories that the newest save captured. True if some are new."""
        directories = read_stat_index(self._context).directories
        self.directories = len(directories)
        if self._watch is None:
            return False
        try:
            return self._watch.watch_only(directories)
        except OutOfWatches:
            self._watch.close()
            self._watch = None
            self.why_looking = (
                f"the project has {len(directories):,} directories, and this user may watch {allowed_watches():,}: "
                "raise fs.inotify.max_user_watches with sysctl, and start again"
            )
            return False

    def _wait_for_burst(self) -> None:
        """Wait for a change, until it was still, and until no turn runs."""
        if self._watch is None:
            time.sleep(self._options.every)
        else:
            self._watch.wait(self._options.every if self._failed else None)
            began = time.monotonic()
            while self._watch.wait(self._options.settle) and time.monotonic() - began < LONGEST_BURST:
                pass
        while _is_turn_running(self._context):
            time.sleep(self._options.settle)

    # -- saving

    def _save_if_changed(self) -> Iterator[Saved | errors.CasrewindError]:
        found = self._save()
        if isinstance(found, errors.CasrewindError) or found.created:
            yield found

    def _save(self) -> Saved | errors.CasrewindError:
        """Save if anything changed. Raises WorkspaceNotFound if the root is gone; any other error is the answer."""
        self._check_root()
        try:
            found = save(self._context, Moment(WATCH, needless=True, more=Circumstances(by_agent=self._options.agent)))
            self._failed = False
            return found
        except errors.WorkspaceNotFound:
            raise
        except errors.CasrewindError as error:
            self._failed = True
            return error

    def _check_root(self) -> None:
        """Raise WorkspaceNotFound if the root is gone, or if another directory is at its path: it has other files, and no watch."""
        place = printable(self._context.root.path)
        try:
            status = os.stat(self._context.root.path)
        except OSError as error:
            raise errors.WorkspaceNotFound(f"{place} is gone: nothing is watched any more") from error
        if (status.st_dev, status.st_ino) != self._identity:
            raise errors.WorkspaceNotFound(f"another directory is at {place} now: nothing is watched any more", "start it again")


def _is_turn_running(context: Context) -> bool:
    """True while a client with hooks works here: its turn makes its own checkpoints."""
    worktree, oldest = context.root.key.hex(), time.time_ns() - _QUIET_TURN_NS
    for one in (*context.store.sessions.all(), *context.store.sessions.running_commands()):
        if one.worktree != worktree or not one.running or one.pid <= 0 or (one.agent != RUN and one.updated_ns < oldest):
            continue
        if client_process.is_alive_or_unknown(client_process.ClientProcess(one.pid, one.pid_start)) and not is_idle(one):
            return True
    return False
