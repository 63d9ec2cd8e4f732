"""Stores: every store under the data directory, whose it is, and whether its root is still there."""

import os

from ..model import checkpoint as checkpoints
from ..store import shelf
from ..typed import NamedTuple
from ..worktree import root as roots


class Timeline(NamedTuple):
    """The checkpoints of one root in a store: how many (safety ones left out), whether the root is still there, and when
    the newest one was made (safety ones counted; nanoseconds since 1970): then it was there."""

    root: str
    checkpoints: int
    exists: bool
    newest_ns: int


class Found(NamedTuple):
    """One store.

    `root` is the one that it is named after, as far as its checkpoints tell (else one of theirs, else None);
    `worktrees` are all that have checkpoints in it, `checkpoints` counts as there. `size` in bytes on disk. `used_ns` is
    when it was last written to (nanoseconds since 1970; 0: unknown). `pinned` checkpoints and `restores` that are open.
    `problem` is why it cannot be used, or None.
    """

    path: str
    root: str | None
    exists: bool
    worktrees: tuple[Timeline, ...]
    checkpoints: int
    size: int
    used_ns: int
    pinned: int
    restores: int
    problem: str | None


def stores(data: str) -> list[Found]:
    """Every store under the data directory, the one used last first; one that is broken has a `problem`."""
    all_there = [found(shelf.look(shelf.place(data, name))) for name in shelf.names(data)]
    return sorted(all_there, key=lambda store: (-store.used_ns, store.path))


def found(seen: shelf.Seen) -> Found:
    """What is to be said of a store that was looked at."""
    counts: dict[str, int] = {}
    newest_of: dict[str, int] = {}
    for point in seen.checkpoints:  # newest first
        root = os.fsdecode(point.root)
        newest_of.setdefault(root, point.created_ns)
        counts[root] = counts.get(root, 0) + (point.trigger != checkpoints.SAFETY)
    worktrees = tuple(Timeline(root, count, roots.is_there(root), newest_of[root]) for root, count in counts.items())
    name = os.path.basename(seen.path)
    owner = next((line for line in worktrees if roots.store_name_of(line.root) == name), None)
    owner = owner or (worktrees[0] if worktrees else None)
    newest = seen.checkpoints[0].created_ns if seen.checkpoints else 0
    return Found(
        path=seen.path,
        root=owner.root if owner else None,
        exists=owner is not None and owner.exists,
        worktrees=worktrees,
        checkpoints=sum(counts.values()),
        size=seen.size,
        used_ns=max(newest, seen.written_ns),
        pinned=seen.pinned,
        restores=seen.restores,
        problem=str(seen.problem) if seen.problem is not None else None,
    )
