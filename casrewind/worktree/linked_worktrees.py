"""Linked worktrees inside a root: other checkouts of its repository, each a project of its own.

The danger prevented here: an agent works in `.claude/worktrees/NAME`, and going back in the checkout around it takes that
work back, too. So such a directory is no part of the checkout. The opposite danger: a `.git` file that somebody writes
into `src/` hides `src/` from every save. So a directory counts only if the repository lists it and it points back to
that very entry.

Where a repository has no checkout of its own, its worktrees are what people work in, and agents are started above them:
there all of them are parts of the root. git is never run: plain files are read, at the start of each scan, because
worktrees come and go while a project is open.
"""

import os
import stat
from contextlib import suppress

from .. import fsio, locations
from .._typing import NamedTuple
from ..gitignore import gitconfig
from .root import Root, read_path_after_prefix, root_at

_LIST, _POINTER, _GIT = "worktrees", "gitdir", ".git"
_WORKTREES_READ = 10_000
"""Entries of a repository's list that are read."""
_HEADER = 16  # bytes of git's index: signature, version, number of entries, and the name of a first extension


class LinkedWorktree(NamedTuple):
    """A linked worktree inside a root: its real path, its `path` below the root, its device and inode."""

    place: str
    path: bytes
    identity: tuple[int, int]


def find_inside(root: str) -> tuple[LinkedWorktree, ...]:
    """The linked worktrees inside the directory `root` (a real path) that its own repository lists, sorted by path. What
    cannot be read is not listed. Raises nothing."""
    outer = root_at(root)
    if outer.common_dir is None:
        return ()
    try:
        with os.scandir(os.path.join(outer.common_dir, _LIST)) as listing:
            entries = [entry.path for entry, _ in zip(listing, range(_WORKTREES_READ), strict=False)]
    except OSError:
        return ()
    found = [each for each in (_worktree_of_entry(outer, entry) for entry in entries) if each is not None]
    return tuple(sorted(found)) if found and _has_checkout(outer) else ()


def listed_place(root: Root) -> str:
    """The place that the repository's list has for the worktree that `root` was: it was moved without git. "" if there is none."""
    if root.git_dir is None or os.path.basename(os.path.dirname(root.git_dir)) != _LIST:
        return ""
    pointer = read_path_after_prefix(os.path.join(root.git_dir, _POINTER), b"")
    return "" if pointer is None else locations.real_path(os.path.dirname(os.path.join(root.git_dir, pointer)))


def _worktree_of_entry(outer: Root, entry: str) -> LinkedWorktree | None:
    """The worktree of one entry in the repository's list, if it lies inside the root and points back to the entry."""
    pointer = read_path_after_prefix(os.path.join(entry, _POINTER), b"")
    if pointer is None:
        return None
    target = os.path.join(entry, pointer)  # with worktree.useRelativePaths, from the entry on
    if not os.path.lexists(target):
        return None  # removed and not pruned: a repository may have hundreds of these
    above, name = os.path.split(target)
    place = locations.real_path(above)
    if name != _GIT or not locations.is_below(place, outer.path):
        return None
    inner = root_at(place)
    if inner.git_dir is None or inner.common_dir is None or inner.git_dir == inner.common_dir:
        return None
    if inner.git_dir != locations.real_path(entry) or inner.common_dir != locations.real_path(outer.common_dir or ""):
        return None
    try:
        status = os.lstat(place)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    path = os.fsencode(place)[len(os.fsencode(outer.path).rstrip(b"/")) + 1 :]
    return LinkedWorktree(place, path, (status.st_dev, status.st_ino))


def _has_checkout(root: Root) -> bool:
    """True if a root is a checkout itself: a linked worktree, or the main one of a repository that is not bare and has
    files in git's index."""
    if root.git_dir is None or root.common_dir is None or root.git_dir != root.common_dir:
        return root.git_dir is not None
    if gitconfig.is_bare(root.common_dir):
        return False
    with suppress(OSError):
        head = fsio.read_file(os.path.join(root.git_dir, "index"), _HEADER)
        return head.startswith(b"DIRC") and (head[8:12] != bytes(4) or head[12:16] == b"link")  # "link": a split index
    return False
