"""Stores and linked worktrees inside the worktree: a restore must not change them.

The danger prevented here: a restore replaces a live store with an older state, or takes back what another agent does in
a worktree of its own. Scans capture neither. But checkpoints of earlier versions may contain them, a plan may come from
the ledger or a journal, and what is ignored is never scanned.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress

from .. import fsio, store_detection
from ..model import paths
from ..model import plan as plans
from ..model.manifest import DIR
from ..model.plan import Action, Actions, Kept
from . import linked_worktrees
from .reader import Worktree

LEFT = "it is a casrewind store: nothing in it is restored or removed"
WORKTREE_LEFT = "another worktree, with its own root"
PROTECTED = frozenset({LEFT, WORKTREE_LEFT})
"""The reasons why something in a protected place is left alone."""
_MARK = b"/" + os.fsencode(store_detection.FORMAT)
_PLACES_REMEMBERED = 10_000  # remembered directories


class ProtectedPlaces:
    """Finds the store or linked worktree that contains a path. Query in path order: each directory is checked once."""

    def __init__(self, tree: Worktree, excluded: Collection[tuple[int, int]] = (), scope: Sequence[bytes] = ()) -> None:
        """`excluded`: directories (device, inode) that count as stores whatever their content. The linked worktrees are
        those of now. `scope`: the paths that a person named."""
        self._tree, self._excluded = tree, excluded
        self._worktrees = frozenset(each.path for each in linked_worktrees.find_inside(tree.root))
        self._above_worktrees = frozenset(above for path in self._worktrees for above in paths.parents(path))
        self._named = frozenset(path for path in scope if not self._worktrees.isdisjoint((path, *paths.parents(path))))
        self._above_named = frozenset(above for path in self._named for above in paths.parents(path))
        self._known: dict[bytes, bytes | None] = {b"": None}  # directory -> the place that contains it

    def place_around(self, path: bytes, *, itself: bool = True) -> bytes | None:
        """The store or worktree that contains the path or, with `itself`, is at the path; None outside of them."""
        parent = path.rpartition(b"/")[0]
        if parent not in self._known:
            if len(self._known) >= _PLACES_REMEMBERED:
                self._known = {b"": None}
            unknown = [parent]
            while (above := unknown[-1].rpartition(b"/")[0]) not in self._known:  # mostly few steps, even in deep trees
                unknown.append(above)
            for place in reversed(unknown):
                holder = self._known[place.rpartition(b"/")[0]]
                self._known[place] = holder if holder is not None else place if self._is_protected(place) else None
        found = self._known[parent]
        return path if found is None and itself and self._is_protected(path) else found

    def is_named_in_worktree(self, path: bytes) -> bool:
        """True for a path in a linked worktree that a person named by a path in that worktree, and for what is above it."""
        if not self._named:
            return False
        is_named = path in self._above_named or not self._named.isdisjoint((path, *paths.parents(path)))
        return is_named and self.place_around(path) in self._worktrees

    def _is_protected(self, place: bytes) -> bool:
        if place in self._worktrees:
            return True
        with suppress(OSError):
            if self._tree.place_in_cloud(place) is not None:
                return False  # what is below it must not be looked at
            if self._excluded:
                status = os.stat(place, dir_fd=self._tree.fd, follow_symlinks=False)
                if (status.st_dev, status.st_ino) in self._excluded:
                    return True
            os.stat(place + _MARK, dir_fd=self._tree.fd, follow_symlinks=False)
            with fsio.closing(self._tree.open_directory(place)) as fd:
                return store_detection.is_store(fd)
        return False

    def split_off_protected(self, actions: Sequence[Action]) -> tuple[Actions, tuple[Kept, ...]]:
        """Returns (actions that change no protected place, the places that the remaining actions would change). What a
        person named in a linked worktree is made where nothing is now. A directory with a linked worktree in it stays."""
        inside: dict[bytes, bytes] = {}
        needed: set[bytes] = set()
        for action in actions:
            if action.after is None and action.path in self._above_worktrees:
                needed.add(action.path)
                continue
            place = self.place_around(action.path, itself=action.before is None or _touches_directory(action))
            if place is not None and not (action.before is None and self.is_named_in_worktree(action.path)):
                inside[action.path] = place
        kept = tuple(Kept(place, self._why(place), benign=False) for place in sorted(set(inside.values())))
        return plans.without(actions, inside.keys() | needed), kept

    def what_changes_protected(self, actions: Sequence[Action], *, may_make: bool) -> tuple[Kept, ...]:
        """The paths of the actions that would change a protected place. `may_make`: what is only made in a linked
        worktree was named (`split_off_protected`)."""
        found = []
        for action in actions:
            place = self.place_around(action.path, itself=_touches_directory(action))
            if place is not None and not (may_make and action.before is None and place in self._worktrees):
                found.append(Kept(action.path, self._why(place), benign=False))
        return tuple(found)

    def _why(self, place: bytes) -> str:
        return WORKTREE_LEFT if place in self._worktrees else LEFT


def _touches_directory(action: Action) -> bool:
    return any(entry is not None and entry.kind == DIR for entry in (action.before, action.after))
