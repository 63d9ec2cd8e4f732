"""Adopt: a project was moved or renamed; its checkpoints are transferred to its new root.

The danger prevented here: two projects in one timeline, and a store that neither the old nor the new root finds. Each
step is durable before the next. First an empty store under the new name is removed. Then a ledger record maps the old
worktree to the new one. Last, the store is renamed after the new root. If the process is killed between two steps, the
next run of the command continues. Every other command (`adopt_moved_here`) also finishes a missing rename.
"""

import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model import manifest, undo_history
from ..model.checkpoint import Checkpoint
from ..store import ledger, registry
from ..store.store import Store
from ..worktree import root as roots
from ..worktree.reader import Worktree
from ..worktree.root import Root


class Adopted(NamedTuple):
    """The result of an adoption: the old root, the new `root`, the directory of the `store`, and the number of
    checkpoints (without safety checkpoints). `machine`: the name under which they are listed as those of another machine, "" = they are
    this root's. `problems`: sentences about what could not be taken."""

    old: str
    root: str
    store: str
    checkpoints: int
    machine: str = ""
    problems: tuple[str, ...] = ()


class HasOwnCheckpoints(errors.WorkspaceError):
    """The new root has checkpoints in a store of its own. `store`: the directory of the store of the old root, `old`."""

    def __init__(self, root: str, old: str, store: str) -> None:
        """`root`: the new root."""
        super().__init__(f"{printable(root)} has checkpoints of its own")
        self.old, self.store = old, store


class AdoptRequest(NamedTuple):
    """Arguments of `adopt`. `root` is the new root, `old` the possible paths of the old one. `data` is the directory of
    all stores; `store` is an explicit store instead, or None. `force` allows an old root that still exists, and a new
    root with checkpoints in the same store. `deadline`: seconds to wait for a lock."""

    root: Root
    old: Sequence[str]
    data: str
    store: str | None
    force: bool
    deadline: float


def adopt(request: AdoptRequest) -> Adopted:
    """Transfer the checkpoints of the old root to the new one. Raises WorkspaceNotFound, RootRefused (the old root still exists),
    HasOwnCheckpoints, JournalOpen, StoreBusy, WorkspaceError and others. After an error nothing is changed."""
    target = request.store or registry.store_directory(request.data, roots.store_name_of(request.root.owner))
    request = request._replace(old=[path for path in request.old if path != request.root.path])
    if not request.old:
        raise errors.UsageError(f"{printable(request.root.path)} is where the project is", "give the path that it had before")
    for old in request.old:
        if registry.has_store_or_remains(target) and _has_checkpoints(target, roots.key_of(old), request.deadline):
            return _adopt_in_place(request, old, target)
    for old in request.old:
        source = registry.store_directory(request.data, roots.store_name_of(old))
        if request.store is None and source != target and registry.has_store_or_remains(source):
            return _adopt_store(request, old, source, target)
    where = f"in {printable(target)}" if request.store else f"under {printable(request.data)}"
    raise errors.WorkspaceNotFound(
        f"no checkpoints of {printable(request.old[0])} {where}",
        "casrewind stores shows which roots have some; of a linked worktree, run git worktree repair first, and adopt the main one "
        "before it",
    )


def _adopt_in_place(request: AdoptRequest, old: str, store: str) -> Adopted:
    """Adopt in a store that needs no new name: a linked worktree's, an explicit --store, or one of an older version."""
    _refuse_existing_root(request, old)
    _refuse_while_restore_runs(request, old, store)
    with registry.hold_alone(store, request.deadline), Store(store, deadline=request.deadline) as opened:
        _refuse_interrupted_restore(opened, old)
        points = [point for point, _ in opened.checkpoints()]
        if not request.force and any(point.worktree == request.root.key for point in points):
            raise errors.WorkspaceError(
                f"{printable(request.root.path)} has checkpoints of its own beside those of {printable(old)}",
                "casrewind list --all shows both, casrewind restore ID --to DIR writes one of them elsewhere; --force puts both in "
                "one list",
            )
        return _record_adoption(request, old, opened, points)


def _adopt_store(request: AdoptRequest, old: str, source: str, target: str) -> Adopted:
    _refuse_existing_root(request, old)
    if request.root.owner != request.root.path:
        raise errors.WorkspaceError(
            f"{printable(request.root.path)} is a linked worktree of {printable(request.root.owner)} and has no store of its own",
            "run casrewind adopt there",
        )
    _refuse_while_restore_runs(request, old, source)
    with registry.hold_alone(source, request.deadline):
        with Store(source, deadline=request.deadline) as opened:
            _refuse_interrupted_restore(opened, old)
            points = [point for point, _ in opened.checkpoints()]
            if not points:
                raise errors.WorkspaceNotFound(f"no checkpoint was ever made of {printable(old)}: there is nothing to adopt")
        if registry.has_store_or_remains(target) and _has_checkpoints(target, None, request.deadline):
            raise HasOwnCheckpoints(request.root.path, old, source)
        registry.remove_store_if_empty(target, request.deadline)
        with Store(source, deadline=request.deadline) as opened:
            adopted = _record_adoption(request, old, opened, points)
        registry.rename_store(source, target)
        return adopted._replace(store=target)


def finish(root: Root, source: str, target: str, deadline: float) -> None:
    """Rename a store after an interrupted adoption. Raises StoreBusy; WorkspaceError if the store has other roots
    too."""
    with registry.hold_alone(source, deadline):
        with Store(source, deadline=deadline) as opened:
            if any(point.worktree != root.key for point in registry.newest_of_each_worktree(opened)):
                raise errors.WorkspaceError(f"the store {printable(source)} has checkpoints of others, too")
        registry.remove_store_if_empty(target, deadline)
        registry.rename_store(source, target)


def _record_adoption(request: AdoptRequest, old: str, store: Store, points: Sequence[Checkpoint]) -> Adopted:
    key = roots.key_of(old)
    adoption = undo_history.Adoption(key, request.root.key, os.fsencode(request.root.path))
    done = not any(point.worktree == key for point in points) and any(point.worktree == request.root.key for point in points)
    if not done:  # an interrupted adoption has already appended the record
        store.append(ledger.ADOPT, undo_history.encode_adoption(adoption))
    whose = {request.root.key} if done else {key}
    count = sum(point.worktree in whose and point.trigger != checkpoints.SAFETY for point in points)
    return Adopted(old, request.root.path, store.path, count)


def _has_checkpoints(store: str, worktree: bytes | None, deadline: float) -> bool:
    """True if a store has checkpoints of `worktree`, or any at all if `worktree` is None."""
    with Store(store, deadline=deadline) as opened:
        return any(worktree in (None, point.worktree) for point, _ in opened.checkpoints())


def _refuse_existing_root(request: AdoptRequest, old: str) -> None:
    """Raise RootRefused if the old root is still there: then these are two projects."""
    if roots.is_still_there(old, unlike=request.root.path) and not request.force:
        raise errors.RootRefused(
            f"{printable(old)} is still there: these are two projects, and its checkpoints are its own; save here to start "
            f"a history of this one, or use --force to take over the old one"
        )


def _refuse_while_restore_runs(request: AdoptRequest, old: str, store: str) -> None:
    with Store(store, deadline=request.deadline) as opened:
        if opened.is_restoring(roots.key_of(old)):
            raise errors.StoreBusy(f"a restore of {printable(old)} is running", "wait for it, then adopt again")


def _refuse_interrupted_restore(store: Store, old: str) -> None:
    if store.is_restore_open(roots.key_of(old)):
        raise errors.JournalOpen(
            f"a restore of {printable(old)} was interrupted. Move the project back there",
            "finish with casrewind restore --continue or undo with casrewind restore --abort. Then move and adopt again"
        )


_SAMPLE = 20
"""Number of files that are compared: the first in the manifest."""
_MOST_ENTRIES = 4000
"""Maximum number of manifest entries read to find these files."""
_MOST_STORES = 200
_MOST_SECONDS = 1.0
_WAIT = 0.2
"""Seconds to wait for the lock of a store that may belong to another project."""


class Moved(NamedTuple):
    """The result of `adopt_moved_here`. `adopted`: the adoption, or None. `candidates`: missing roots that may be the project's
    old path, the likeliest first; the user decides. `problem`: why a matching store could not be adopted, or None."""

    adopted: Adopted | None
    candidates: tuple[str, ...]
    problem: str | None


NOTHING = Moved(None, (), None)


def adopt_moved_here(root: Root, data: str, deadline: float, *, dry_run: bool = False) -> Moved:
    """Adopt the store that this project had at another path, unless `dry_run`. The root must have no store or an empty
    one. Raises StoreBusy if the matching store is in use, StoreError if the stores cannot be listed."""
    if root.owner != root.path:
        return NOTHING  # a linked worktree: its store is the main worktree's
    target = registry.store_directory(data, roots.store_name_of(root.owner))
    formers = _candidate_stores(root, data)
    unfinished = next((former.store for former in formers if former.old == root.path), None)
    if unfinished is not None and not dry_run:
        finish(root, unfinished, target, deadline)
        return Moved(Adopted(root.path, root.path, target, 0), (), None)
    sure = [former.old for former in formers if former.is_sure]
    candidates = (*sure, *(former.old for former in formers if not former.is_sure and former.old != root.path))
    if dry_run or len(sure) != 1 or _may_be_linked(root):
        return Moved(None, candidates, None)
    try:
        return Moved(adopt(AdoptRequest(root, sure, data, None, force=False, deadline=deadline)), (), None)
    except errors.StoreBusy:
        raise
    except errors.CasrewindError as error:
        if registry.has_store_or_remains(target) and not registry.is_untouched(target):
            return NOTHING  # another process adopted it first
        return Moved(None, candidates, str(error))


def _may_be_linked(root: Root) -> bool:
    """True for a linked worktree that git no longer finds: it has the same files as the main worktree."""
    entry = os.path.join(root.path, ".git")
    if root.git_dir is None or (root.git_dir == entry and os.path.isdir(entry)):
        return False
    return not os.path.isdir(root.git_dir) or os.path.lexists(os.path.join(root.git_dir, "commondir"))


class _FormerRoot(NamedTuple):
    """A store with a missing root `old` that may be the project's former path. `newest`: the id of its newest checkpoint. `is_alike`: the
    files of a sample have their sizes; `is_sure`: their times, too. After an interrupted adoption, `old` is the current root."""

    store: str
    old: str
    newest: str
    is_alike: bool
    is_sure: bool


def _candidate_stores(root: Root, data: str) -> list[_FormerRoot]:
    """Candidate stores: those with the same base name first, then by last use."""
    end = time.monotonic() + _MOST_SECONDS
    stem = roots.store_name_stem(root.path) + "-"
    names = sorted(registry.names_by_last_write(data), key=lambda name: not name.startswith(stem))  # stable
    found: list[_FormerRoot | None] = []
    with Worktree(root.path) as tree:
        for name in [name for name in names if name != roots.store_name_of(root.owner)][:_MOST_STORES]:
            if time.monotonic() > end:
                break
            with suppress(errors.CasrewindError, OSError):  # broken and busy stores are skipped
                found.append(_inspect_if_former_root(registry.store_directory(data, name), root, tree, is_namesake=name.startswith(stem)))
    return [former for former in found if former is not None]


def _inspect_if_former_root(path: str, root: Root, tree: Worktree, *, is_namesake: bool) -> _FormerRoot | None:
    with Store(path, deadline=_WAIT) as store:
        listed = registry.newest_of_each_worktree(store, quickly=True)  # without an index, fully read only namesakes
        if (listed and _newest_of_missing_root(path, root, listed) is None) or not (listed or is_namesake):
            return None
        newest = _newest_of_missing_root(path, root, registry.newest_of_each_worktree(store))
        if newest is None or newest.worktree == root.key:
            return newest and _FormerRoot(path, root.path, newest.id, is_alike=False, is_sure=False)
        old = os.fsdecode(newest.root)
        if roots.is_other_spelling(old, root.path):
            return _FormerRoot(path, old, newest.id, is_alike=True, is_sure=True)
        same_size, same_time = _compare_sample(store, newest, tree)
        # a directory that is mounted at two places is in use at both
        is_gone = not roots.is_still_there(old) or os.path.realpath(old) != old
        is_sure = is_gone and same_time and not roots.why_maybe_unmounted(old, newest.created_ns, store=path, removes=False)
        found = _FormerRoot(path, old, newest.id, same_size, is_sure)
        return found if same_size or os.path.basename(old) == os.path.basename(root.path) else None


def find_former_roots(context: Context) -> list[str]:
    """The missing roots at which a project with checkpoints may have been before: those with files of the same sizes, whose checkpoints
    are not here. Opens up to 200 stores, and takes half a millisecond for each."""
    root = context.root
    if context.store.path != registry.store_directory(context.data, roots.store_name_of(root.path)):
        return []  # a linked worktree, or --store
    formers = _candidate_stores(root, context.data)
    return [former.old for former in formers if former.is_alike and context.store.checkpoint(former.newest) is None]


def _newest_of_missing_root(path: str, root: Root, newest: list[Checkpoint]) -> Checkpoint | None:
    """The newest checkpoint of the root that the store is named after, if that root is missing. If all checkpoints
    belong to `root`, returns the newest of them."""
    if newest and all(point.worktree == root.key for point in newest):
        return newest[0]
    name = os.path.basename(path)
    point = next((point for point in newest if roots.store_name_of(os.fsdecode(point.root)) == name), None)
    return None if point is None or roots.is_still_there(os.fsdecode(point.root), unlike=root.path) else point


def _compare_sample(store: Store, newest: Checkpoint, tree: Worktree) -> tuple[bool, bool]:
    """Compare a sample of files. Returns (half or more have the recorded size, half or more also the recorded
    mtime)."""
    current = store.history(newest.worktree).current  # after a restore, the files have the content of this checkpoint
    point = store.checkpoint(current) if current else None
    found = [_compare_sample_with(store, one, tree) for one in (point, newest) if one is not None]  # and times of either
    return any(size for size, _ in found), any(time for _, time in found)


def _compare_sample_with(store: Store, point: Checkpoint, tree: Worktree) -> tuple[bool, bool]:
    entries = islice(manifest.walk(store.load_tree, point.tree), _MOST_ENTRIES)
    sample = list(islice((item for item in entries if item[1].kind == manifest.FILE and item[1].size), _SAMPLE))
    sizes = times = 0
    for path, entry in sample:
        with suppress(OSError, errors.UnsafePath):  # a symlink or a file is in place of a directory
            status = tree.status_of(path)
            if status is not None and stat.S_ISREG(status.st_mode) and status.st_size == entry.size:
                sizes += 1
                times += status.st_mtime_ns == entry.mtime_ns
    return 2 * sizes >= len(sample) > 0, 2 * times >= len(sample) > 0
