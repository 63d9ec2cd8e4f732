"""Finds the store of a project that was moved: a root without a store of its own may have had one at another path.

The danger prevented here: the history of one project is given to another. A store is adopted only if its root is gone, and
not merely unmounted, and half of a sample of its newest files are here with the recorded sizes and times; only if exactly one
store agrees; and never in a hook, whose output no person reads. `mv` and `cp -a` keep times to the nanosecond, while a
clone or a copied template has times of its own. Other likely stores are named, and a person decides.

The number of stores and the time are bounded, because this runs before the first save of every new project.
"""

import os
import stat
import time
from contextlib import suppress
from itertools import islice

from .. import errors
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..store import shelf
from ..store.store import Store
from ..typed import NamedTuple
from ..worktree import root as roots
from ..worktree.files import Worktree
from ..worktree.root import Root
from . import adopt as adopts
from .adopt import Adopted

_SAMPLE = 20
"""Files of a manifest that are compared, the first that it lists."""
_MOST_ENTRIES = 4000
"""Entries of a manifest that are read to find these files."""
_MOST_STORES = 200
_MOST_SECONDS = 1.0
_WAIT = 0.2
"""Seconds to wait for a lock of a store that may have nothing to do with this project."""


class Moved(NamedTuple):
    """What was `adopted`, or None. `candidates`: roots that are gone and may have been this one, the likeliest first, for a
    person to decide on. `problem`: why the store that agrees could not be adopted, or None."""

    adopted: Adopted | None
    candidates: tuple[str, ...]
    problem: str | None


NOTHING = Moved(None, (), None)


def follow(root: Root, data: str, deadline: float, *, dry_run: bool = False) -> Moved:
    """Adopt the store that this project had at another path, unless `dry_run`. The root must have no store, or an empty one.

    Raises StoreBusy when the store to adopt is in use, StoreError when the stores cannot be listed.
    """
    if root.owner != root.path:
        return NOTHING  # a linked worktree: its store is the main worktree's
    target = shelf.place(data, root.store_name)
    formers = _formers(root, data)
    unfinished = next((former.store for former in formers if former.old == root.path), None)
    if unfinished is not None and not dry_run:
        adopts.finish(root, unfinished, target, deadline)
        return Moved(Adopted(root.path, root.path, target, 0), (), None)
    sure = [former.old for former in formers if former.is_sure]
    candidates = (*sure, *(former.old for former in formers if not former.is_sure and former.old != root.path))
    if dry_run or len(sure) != 1 or _may_be_linked(root):
        return Moved(None, candidates, None)
    try:
        return Moved(adopts.adopt(adopts.Request(root, sure, data, None, force=False, deadline=deadline)), (), None)
    except errors.StoreBusy:
        raise
    except errors.CasrewindError as error:
        if shelf.holds(target) and not shelf.is_untouched(target):
            return NOTHING  # another process adopted it first
        return Moved(None, candidates, str(error))


def _may_be_linked(root: Root) -> bool:
    """True for a linked worktree that git does not find its way to any more: it has the files of the main one."""
    entry = os.path.join(root.path, ".git")
    if root.git_dir is None or (root.git_dir == entry and os.path.isdir(entry)):
        return False
    return not os.path.isdir(root.git_dir) or os.path.lexists(os.path.join(root.git_dir, "commondir"))


class _Former(NamedTuple):
    """A store whose root `old` is gone and may have been this one; `is_sure`: it was. `old` is this root itself where an
    adoption was interrupted."""

    store: str
    old: str
    is_sure: bool


def _formers(root: Root, data: str) -> list[_Former]:
    """The stores of the same name first, then those that were used last."""
    end = time.monotonic() + _MOST_SECONDS
    stem = roots.store_stem(root.path) + "-"
    names = sorted(shelf.by_last_use(data), key=lambda name: not name.startswith(stem))  # stable
    found: list[_Former | None] = []
    with Worktree(root.path) as tree:
        for name in [name for name in names if name != root.store_name][:_MOST_STORES]:
            if time.monotonic() > end:
                break
            with suppress(errors.CasrewindError, OSError):  # a broken or busy store is not adopted
                found.append(_look(shelf.place(data, name), root, tree, is_namesake=name.startswith(stem)))
    return [former for former in found if former is not None]


def _look(path: str, root: Root, tree: Worktree, *, is_namesake: bool) -> _Former | None:
    with Store(path, deadline=_WAIT) as store:
        listed = shelf.newest_in(store, quickly=True)  # without a sound index, only a store of the same name is read as a whole
        if (listed and _of_gone_root(path, root, listed) is None) or not (listed or is_namesake):
            return None
        newest = _of_gone_root(path, root, shelf.newest_in(store))
        if newest is None or newest.worktree == root.key:
            return newest and _Former(path, root.path, is_sure=False)
        old = os.fsdecode(newest.root)
        same_size, same_time = _compare(store, newest, tree)
        if same_time and not roots.why_in_doubt(old, newest.created_ns):
            return _Former(path, old, is_sure=True)
        return _Former(path, old, is_sure=False) if same_size or os.path.basename(old) == os.path.basename(root.path) else None


def _of_gone_root(path: str, root: Root, newest: list[Checkpoint]) -> Checkpoint | None:
    """The newest checkpoint of the root that a store is named after, if that root is gone; one of `root` if all are."""
    if newest and all(point.worktree == root.key for point in newest):
        return newest[0]
    name = os.path.basename(path)
    point = next((point for point in newest if roots.store_name_of(os.fsdecode(point.root)) == name), None)
    return None if point is None or roots.is_there(os.fsdecode(point.root), unlike=root.path) else point


def _compare(store: Store, newest: Checkpoint, tree: Worktree) -> tuple[bool, bool]:
    """(half of a sample of files is here with the recorded sizes, half is here with the recorded times as well)."""
    current = store.history(newest.worktree).current  # after a restore, the files are as in this checkpoint
    point = (store.checkpoint(current) if current else None) or newest
    entries = islice(manifest.walk(store.load_tree, point.tree), _MOST_ENTRIES)
    sample = list(islice((item for item in entries if item[1].kind == manifest.FILE and item[1].size), _SAMPLE))
    sizes = times = 0
    for path, entry in sample:
        with suppress(OSError, errors.UnsafePath):  # a link or a file stands in place of a directory
            status = tree.status_of(path)
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_size == entry.size:
                sizes += 1
                times += status.st_mtime_ns == entry.mtime_ns
    return 2 * sizes >= len(sample) > 0, 2 * times >= len(sample) > 0
