"""Moved: a project whose root has no store of its own may have been somewhere else before.

The danger prevented here: the history of one project given to another. A root's path is all that it is known by: an inode is
no proof, since file systems give a new directory the one of the directory that went. So a store is taken over only when its
root is gone from where it was (and not only not mounted), and half of a sample of files of its newest manifest are here with
equal bytes; only when one single store agrees; and never in a hook, where nobody would read that it was done. Of a project
with fewer files than a sample has, equal bytes alone say little: what every new project begins with may be half of it. Then
one of them has to have the time that was recorded, too, or the root the name.

What may be looked at is bounded, in stores and in time, for this goes before the first save of every new project.
"""

import heapq
import os
import stat
import time
from itertools import islice

from .. import errors
from ..model import digest as digests
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..store import shelf
from ..store.store import Store
from ..typed import NamedTuple
from ..worktree import absence
from ..worktree import root as roots
from ..worktree.files import HashSink, NotCapturable, Worktree
from ..worktree.root import Root
from . import adopt as adopts
from .adopt import Adopted

_SAMPLE = 20
_MOST_STORES = 200
_MOST_SECONDS = 1.0
_MOST_ENTRIES = 4000
"""Of a manifest so many entries are looked at, to choose the sample from."""
_LARGEST = 1 << 20
_WAIT = 0.2
"""Seconds that a lock of a store is waited for which may have nothing to do with this project."""


class Moved(NamedTuple):
    """What came of it: what was `adopted`, or None. `candidates`: roots that are gone and may have been this one, the
    likeliest first, for a person to decide on. `problem`: why the one that agrees could not be adopted, or None."""

    adopted: Adopted | None
    candidates: tuple[str, ...]
    problem: str | None


NOTHING = Moved(None, (), None)


def follow(root: Root, data: str, deadline: float) -> Moved:
    """Adopt the store of this project if it was somewhere else before; the root is to have no store, or an empty one.

    Raises StoreBusy when the store that would be adopted is in use, StoreError when the shelf cannot be read.
    """
    if root.owner != root.path:
        return NOTHING  # a linked worktree: its store is the main one's
    target = shelf.place(data, root.store_name)
    agree: list[str] = []
    named: list[str] = []
    base = os.path.basename(root.path)
    for sighting in _sightings(root, data):
        if sighting.unfinished:
            adopts.finish(root, sighting.store, target, deadline)
            return Moved(Adopted(root.path, root.path, target, 0), (), None)
        if sighting.agrees and not sighting.doubt:
            agree.append(sighting.old)
        elif sighting.agrees or os.path.basename(sighting.old) == base:
            named.append(sighting.old)
    if len(agree) != 1 or _may_be_linked(root):
        return Moved(None, (*agree, *named), None)
    try:
        return Moved(adopts.adopt(adopts.Request(root, agree, data, None, force=False, deadline=deadline)), (), None)
    except errors.StoreBusy:
        raise
    except errors.CasrewindError as error:
        if shelf.holds(target) and not shelf.is_untouched(target):
            return NOTHING  # another process was faster
        return Moved(None, (*agree, *named), str(error))


def _may_be_linked(root: Root) -> bool:
    """True for a linked worktree that git does not find its way to any more: it has the files of the main one."""
    entry = os.path.join(root.path, ".git")
    if root.git_dir is None or (root.git_dir == entry and os.path.isdir(entry)):
        return False
    return not os.path.isdir(root.git_dir) or os.path.lexists(os.path.join(root.git_dir, "commondir"))


class _Sighting(NamedTuple):
    """A store whose root `old` is gone; `doubt` is why it may not be. `unfinished`: its checkpoints are this root's."""

    store: str
    old: str
    agrees: bool
    doubt: str
    unfinished: bool


def _sightings(root: Root, data: str) -> list[_Sighting]:
    end = time.monotonic() + _MOST_SECONDS
    stem = roots.store_stem(root.path) + "-"
    order = sorted(shelf.by_last_use(data), key=lambda name: not name.startswith(stem))  # stable
    found = []
    with Worktree(root.path) as tree:
        for name in [name for name in order if name != root.store_name][:_MOST_STORES]:
            if time.monotonic() > end:
                break
            try:
                sighting = _look(shelf.place(data, name), root, tree, thoroughly=name.startswith(stem))
            except (errors.CasrewindError, OSError):
                continue  # a broken or busy store is nobody's former one as far as can be seen
            if sighting is not None:
                found.append(sighting)
    return found


def _look(path: str, root: Root, tree: Worktree, *, thoroughly: bool) -> _Sighting | None:
    with Store(path, deadline=_WAIT) as store:
        quick = shelf.newest_in(store, quickly=True)
        if (not quick and not thoroughly) or (quick and _whose(path, root, quick) is None):
            return None
        found = _whose(path, root, shelf.newest_in(store))
        if found is None or found.worktree == root.key:
            return None if found is None else _Sighting(path, root.path, agrees=False, doubt="", unfinished=True)
        old = os.fsdecode(found.root)
        sample = _sample(store, found)
        here = [_is_here(tree, name, entry) for name, entry in sample]
        agrees = 2 * sum(equal for equal, _ in here) >= len(sample) > 0
        is_proof = len(sample) == _SAMPLE or any(dated for _, dated in here) or os.path.basename(old) == os.path.basename(root.path)
        doubt = absence.doubt(old, found.created_ns) if is_proof else "a few files that are the same prove nothing"
        return _Sighting(path, old, agrees, doubt, unfinished=False)


def _whose(path: str, root: Root, newest: list[Checkpoint]) -> Checkpoint | None:
    """The newest checkpoint of the root that a store is named after, if that is gone; one of `root` when all are."""
    if newest and all(point.worktree == root.key for point in newest):
        return newest[0]
    name = os.path.basename(path)
    point = next((point for point in newest if roots.store_name_of(os.fsdecode(point.root)) == name), None)
    return None if point is None or roots.is_there(os.fsdecode(point.root), unlike=root.path) else point


def _sample(store: Store, newest: Checkpoint) -> list[tuple[bytes, manifest.Entry]]:
    """Files that were in a worktree last, the same ones every time, each with bytes of its own."""
    current = store.history(newest.worktree).current
    point = (store.checkpoint(current) if current else None) or newest
    entries = islice(manifest.walk(store.load_tree, point.tree), _MOST_ENTRIES)
    files = {
        entry.digest: (path, entry) for path, entry in entries if entry.kind == manifest.FILE and 0 < entry.size <= _LARGEST
    }
    return heapq.nsmallest(_SAMPLE, files.values(), key=lambda item: digests.of(item[0]))


def _is_here(tree: Worktree, path: bytes, entry: manifest.Entry) -> tuple[bool, bool]:
    """Whether a file is here with equal bytes, and whether with the time that was recorded, too."""
    try:
        status = tree.status_of(path)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
            return False, False
        captured = tree.capture(path, HashSink())
    except (OSError, NotCapturable, errors.UnsafePath):
        return False, False
    equal = captured is not None and captured.entry.digest == entry.digest
    return equal, equal and status.st_mtime_ns == entry.mtime_ns
