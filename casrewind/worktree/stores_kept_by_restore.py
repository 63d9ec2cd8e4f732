"""Stores inside the worktree: a restore must not change them.

The danger prevented here: a restore replaces a live store with an older state. Scans never capture a store. But
checkpoints of earlier versions may contain one, a plan may come from a journal, and ignored stores are never scanned.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress

from .. import fsio, store_detection
from ..model import plan as plans
from ..model.manifest import DIR
from ..model.plan import Action, Actions, Kept
from .reader import Worktree

LEFT = "it is a casrewind store: nothing in it is restored or removed"
_MARK = b"/" + os.fsencode(store_detection.FORMAT)
_MOST = 10_000  # remembered directories


class ProtectedStores:
    """Finds the store that contains a path. Query in path order: each directory is checked once."""

    def __init__(self, tree: Worktree, excluded: Collection[tuple[int, int]] = ()) -> None:
        """`excluded`: directories (device, inode) that count as stores whatever their content."""
        self._tree, self._excluded = tree, excluded
        self._known: dict[bytes, bytes | None] = {b"": None}  # directory -> the store that contains it

    def store_around(self, path: bytes, *, itself: bool = True) -> bytes | None:
        """The store that contains the path or, with `itself`, is at the path; None outside of stores."""
        parent = path.rpartition(b"/")[0]
        if parent not in self._known:
            if len(self._known) >= _MOST:
                self._known = {b"": None}
            unknown = [parent]
            while (above := unknown[-1].rpartition(b"/")[0]) not in self._known:  # mostly few steps, even in deep trees
                unknown.append(above)
            for place in reversed(unknown):
                holder = self._known[place.rpartition(b"/")[0]]
                self._known[place] = holder if holder is not None else place if self._is_known_store(place) else None
        found = self._known[parent]
        return path if found is None and itself and self._is_known_store(path) else found

    def _is_known_store(self, place: bytes) -> bool:
        with suppress(OSError):
            if self._excluded:
                status = os.stat(place, dir_fd=self._tree.fd, follow_symlinks=False)
                if (status.st_dev, status.st_ino) in self._excluded:
                    return True
            os.stat(place + _MARK, dir_fd=self._tree.fd, follow_symlinks=False)
            with fsio.closing(self._tree.open_directory(place)) as fd:
                return store_detection.is_store(fd)
        return False

    def split_off_protected(self, actions: Sequence[Action]) -> tuple[Actions, tuple[Kept, ...]]:
        """Returns (actions that change no store, the stores that the remaining actions would change)."""
        inside: dict[bytes, bytes] = {}
        for action in actions:
            place = self.store_around(action.path, itself=action.before is None or _touches_directory(action))
            if place is not None:
                inside[action.path] = place
        kept = tuple(Kept(place, LEFT, benign=False) for place in sorted(set(inside.values())))
        return plans.without(actions, inside), kept

    def stores_changed_by(self, actions: Sequence[Action]) -> tuple[Kept, ...]:
        """The paths of the actions that would change a store."""
        inside = (each.path for each in actions if self.store_around(each.path, itself=_touches_directory(each)) is not None)
        return tuple(Kept(path, LEFT, benign=False) for path in inside)


def _touches_directory(action: Action) -> bool:
    return any(entry is not None and entry.kind == DIR for entry in (action.before, action.after))
