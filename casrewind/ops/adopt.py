"""Adopt: a project was moved or renamed; its checkpoints become those of the root where it is now.

The danger prevented here: two projects in one timeline, and a store that neither the old nor the new root finds. Each
step is durable before the next: an empty store in the way goes, a record says that the old worktree is the new one, the
store gets the new root's name. Killed between any two, the same command again finds what is left to do: a store under the
old name whose checkpoints are the new worktree's has only the name to come, and every command finds that, too (moved.py).
"""

import os
from collections.abc import Sequence

from .. import errors, fsio
from ..model import checkpoint as checkpoints
from ..model import operation as operations
from ..model.checkpoint import Checkpoint
from ..store import ledger, shelf
from ..store.store import Store
from ..typed import NamedTuple
from ..worktree import root as roots
from ..worktree.root import Root


class Adopted(NamedTuple):
    """What was adopted: the old root and the new one, the store as it is called now, how many checkpoints came along
    (safety ones left out)."""

    old: str
    root: str
    store: str
    checkpoints: int


class Request(NamedTuple):
    """What is asked for: `root` is the new one, `old` the paths that the old one may have had. `data` is the directory
    under which stores are kept; `store` one that is used instead, or None. `force`: although the old root is there, or
    the new one has checkpoints in the same store. `deadline`: seconds that a lock is waited for."""

    root: Root
    old: Sequence[str]
    data: str
    store: str | None
    force: bool
    deadline: float


def adopt(request: Request) -> Adopted:
    """Make the checkpoints of the old root those of the new one.

    Raises WorkspaceNotFound, RootRefused (the old root is there), JournalOpen, StoreBusy, WorkspaceError and kin; then
    nothing was changed.
    """
    target = request.store or shelf.place(request.data, request.root.store_name)
    request = request._replace(old=[path for path in request.old if path != request.root.path])
    if not request.old:
        raise errors.UsageError(f"{fsio.show(request.root.path)} is where the project is: give the path that it had before")
    for old in request.old:
        if shelf.holds(target) and _has(target, roots.key_of(old), request.deadline):
            return _adopt_in_place(request, old, target)
    for old in request.old:
        source = shelf.place(request.data, roots.store_name_of(old))
        if request.store is None and source != target and shelf.holds(source):
            return _adopt_store(request, old, source, target)
    where = f"in {fsio.show(target)}" if request.store else f"under {fsio.show(request.data)}"
    raise errors.WorkspaceNotFound(
        f"no checkpoints of {fsio.show(request.old[0])} {where}: casrewind stores shows which roots have some; of a linked "
        f"worktree, run git worktree repair first, and adopt the main one before it"
    )


def _adopt_in_place(request: Request, old: str, store: str) -> Adopted:
    """The store has its name already: a linked worktree's, one given with --store, or what an older version left."""
    _refuse_present(request, old)
    _refuse_restore(request, old, store)
    with shelf.alone(store, request.deadline), Store(store, deadline=request.deadline) as opened:
        _refuse_journal(opened, old)
        points = [point for point, _ in opened.checkpoints()]
        if not request.force and any(point.worktree == request.root.key for point in points):
            raise errors.WorkspaceError(
                f"{fsio.show(request.root.path)} has checkpoints of its own beside those of {fsio.show(old)}: casrewind list "
                f"--all shows both, casrewind restore ID --to DIR writes one of them elsewhere; --force puts both in one list"
            )
        return _record(request, old, opened, points)


def _adopt_store(request: Request, old: str, source: str, target: str) -> Adopted:
    """The store is named after the old root."""
    _refuse_present(request, old)
    if request.root.owner != request.root.path:
        raise errors.WorkspaceError(
            f"{fsio.show(request.root.path)} is a linked worktree of {fsio.show(request.root.owner)} and has no store of its "
            f"own: run casrewind adopt there"
        )
    _refuse_restore(request, old, source)
    with shelf.alone(source, request.deadline):
        with Store(source, deadline=request.deadline) as opened:
            _refuse_journal(opened, old)
            points = [point for point, _ in opened.checkpoints()]
            if not points:
                raise errors.WorkspaceNotFound(f"no checkpoint was ever made of {fsio.show(old)}: there is nothing to adopt")
        if shelf.holds(target) and _has(target, None, request.deadline):
            raise errors.WorkspaceError(
                f"{fsio.show(request.root.path)} has checkpoints of its own in {fsio.show(target)}: casrewind --store "
                f"{fsio.show(source)} restore ID --to DIR writes one of {fsio.show(old)} elsewhere; to go on with those "
                f"instead, move {fsio.show(target)} away and adopt again"
            )
        shelf.remove_empty(target, request.deadline)
        with Store(source, deadline=request.deadline) as opened:
            adopted = _record(request, old, opened, points)
        shelf.move(source, target)
        return adopted._replace(store=target)


def finish(root: Root, source: str, target: str, deadline: float) -> None:
    """Give a store its name that an adoption was interrupted over. Raises StoreBusy, WorkspaceError when it is not one."""
    with shelf.alone(source, deadline):
        with Store(source, deadline=deadline) as opened:
            if any(point.worktree != root.key for point in shelf.newest_in(opened)):
                raise errors.WorkspaceError(f"the store {fsio.show(source)} has checkpoints of others, too")
        shelf.remove_empty(target, deadline)
        shelf.move(source, target)


def _record(request: Request, old: str, store: Store, points: Sequence[Checkpoint]) -> Adopted:
    key = roots.key_of(old)
    adoption = operations.Adoption(key, request.root.key, os.fsencode(request.root.path))
    done = not any(point.worktree == key for point in points) and any(point.worktree == request.root.key for point in points)
    if not done:  # an interrupted one has written it down already
        store.append(ledger.ADOPT, operations.encode_adoption(adoption))
    whose = {request.root.key} if done else {key}
    count = sum(point.worktree in whose and point.trigger != checkpoints.SAFETY for point in points)
    return Adopted(old, request.root.path, store.path, count)


def _has(store: str, worktree: bytes | None, deadline: float) -> bool:
    """Whether a store has checkpoints, of that worktree or (None) of any."""
    with Store(store, deadline=deadline) as opened:
        return any(worktree in (None, point.worktree) for point, _ in opened.checkpoints())


def _refuse_present(request: Request, old: str) -> None:
    if roots.is_there(old, unlike=request.root.path) and not request.force:
        raise errors.RootRefused(
            f"{fsio.show(old)} is still there: these are two projects, and its checkpoints are its own. Save here to begin "
            f"a history of this one, or say --force to take over that of the other"
        )


def _refuse_restore(request: Request, old: str, store: str) -> None:
    with Store(store, deadline=request.deadline) as opened:
        if opened.is_restoring(roots.key_of(old)):
            raise errors.StoreBusy(f"a restore of {fsio.show(old)} is running: wait for it, then adopt again")


def _refuse_journal(store: Store, old: str) -> None:
    if store.is_restore_open(roots.key_of(old)):
        raise errors.JournalOpen(
            f"a restore of {fsio.show(old)} was interrupted: move the project back there, finish it with casrewind restore "
            f"--continue or take it back with casrewind restore --abort, then move and adopt again"
        )
