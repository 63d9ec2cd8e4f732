"""The events of a worktree that are still without a checkpoint: a project that is slower than its prompts.

The danger prevented here: each prompt leaves one more process that waits for the others. One works and one waits; any
other leaves its event here and ends. The one that waits records these events together with its own.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .. import fsio
from .layout import Layout

_PREFIX = "missed-"
_EVENTS_BYTES = 1 << 20
"""Bytes of all events that wait. A thousand prompts are less."""


class MissedEvents:
    """The events of one worktree, one line each, oldest first."""

    def __init__(self, store: str, worktree: str) -> None:
        """`store`: the store's directory. `worktree`: the key of the root in hex."""
        self._path = Layout(store).lock_path(_PREFIX + worktree)

    def add(self, line: bytes) -> bool:
        """Append an event. False if there are too many of them, or the disk is full."""
        with suppress(OSError), self._open_locked() as fd:
            size = os.fstat(fd).st_size
            if size + len(line) < _EVENTS_BYTES:
                os.lseek(fd, size, os.SEEK_SET)
                fsio.write_all(fd, line + b"\n")
                return True
        return False

    def read(self) -> list[bytes]:
        """All events that wait."""
        if not os.path.exists(self._path):
            return []
        with self._open_locked() as fd:
            return fsio.read_fd(fd, _EVENTS_BYTES).splitlines()

    def remove(self, lines: list[bytes]) -> None:
        """Remove events that `read` returned. Those that were added since are kept."""
        if lines:
            with self._open_locked() as fd:
                _replace_all_lines(fd, fsio.read_fd(fd, _EVENTS_BYTES).splitlines()[len(lines) :])

    def remove_where(self, holds: Callable[[bytes], bool]) -> None:
        """Remove the events for whose line `holds` is true. For a purge of a text."""
        with self._open_locked() as fd:
            _replace_all_lines(fd, [line for line in fsio.read_fd(fd, _EVENTS_BYTES).splitlines() if not holds(line)])

    @contextmanager
    def _open_locked(self) -> Iterator[int]:
        with fsio.closing(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as fd:
            fsio.undo_umask_fd(fd)
            with suppress(OSError):  # no locks on this file system
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd


def _replace_all_lines(fd: int, lines: list[bytes]) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    fsio.write_all(fd, b"".join(line + b"\n" for line in lines))


def missed_events_of_store(store: str) -> list[MissedEvents]:
    """The events of all worktrees of a store."""
    names = os.listdir(os.path.dirname(Layout(store).lock_path("")))
    return [MissedEvents(store, name.removeprefix(_PREFIX)) for name in names if name.startswith(_PREFIX)]
