"""Stores: every store under the data directory, with its owner and whether its root still exists."""

import os
import time
from collections.abc import Callable

from .. import errors
from .._typing import NamedTuple
from ..errors import Declined
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..store import registry
from ..worktree import root as roots


class Timeline(NamedTuple):
    """One root's checkpoints in a store: their number (without safety ones), and whether the root `exists`.
    `newest_ns`: time of the newest checkpoint, safety ones included (nanoseconds since 1970); the root existed then."""

    root: str
    checkpoints: int
    exists: bool
    newest_ns: int


class Found(NamedTuple):
    """One store. `root` is the root that it is named after, as far as its checkpoints show; else one of their roots,
    else None. `worktrees` are all roots with checkpoints in it; `checkpoints` is their sum. `size` is in bytes on disk.
    `used_ns`: time of the last write (nanoseconds since 1970; 0 = unknown). `pinned` and `restores` count pinned
    checkpoints and open restores. `problem`: why the store is unusable, or None."""

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


def list_stores(data: str) -> list[Found]:
    """Every store under the data directory, the last used first. An unusable store has a `problem`."""
    all_there = [report_on_store(registry.inspect(registry.store_directory(data, name))) for name in registry.store_names(data)]
    return sorted(all_there, key=lambda store: (-store.used_ns, store.path))


def report_on_store(seen: registry.StoreSummary) -> Found:
    """The report on an inspected store."""
    counts: dict[str, int] = {}
    newest_of: dict[str, int] = {}
    for point in seen.checkpoints:  # newest first
        if point.more.machine:
            continue  # its root is a path of that machine
        root = os.fsdecode(point.root)
        newest_of.setdefault(root, point.created_ns)
        counts[root] = counts.get(root, 0) + (point.trigger != checkpoints.SAFETY)
    worktrees = tuple(Timeline(root, count, roots.is_still_there(root), newest_of[root]) for root, count in counts.items())
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


_DAY_NS = 86_400_000_000_000


class Spared(NamedTuple):
    """A store that prune keeps although its root is missing or unknown, and the reason. `fault`: inspecting or removing
    it failed."""

    store: Found
    reason: str
    fault: bool


class Pruned(NamedTuple):
    """The result of pruning (with `dry_run`: what it would do): `removed` stores, stores `kept` for a reason, and the
    bytes on disk `freed`. Stores with an existing root are in neither list."""

    removed: tuple[Found, ...]
    kept: tuple[Spared, ...]
    freed: int
    dry_run: bool


def prune_missing(
    data: str, age: float, confirm: Callable[[Pruned], bool] | None = None, *, force: bool, dry_run: bool = False
) -> Pruned:
    """Remove every store under the data directory without an existing root that was unused for `age` seconds. `force`
    includes stores with pinned checkpoints or interrupted restores. `confirm` is called with the plan before any
    change. Raises Declined, StoreError; then nothing was removed, except what an interrupted prune had begun to remove.
    """
    if not dry_run:
        registry.free_removed_stores(data)
    candidates, kept = [], []
    for store in list_stores(data):
        reason = _why_kept(store, age, force=force)
        if reason == "":
            candidates.append(store)
        elif reason is not None:
            kept.append(Spared(store, reason, fault=store.problem is not None))
    plan = Pruned(tuple(candidates), tuple(kept), sum(store.size for store in candidates), dry_run)
    if dry_run or not candidates:
        return plan
    if confirm is not None and not confirm(plan):
        raise Declined
    removed = []
    for store in candidates:
        reason = _check_again_and_remove(store, age, force=force)
        if reason:
            kept.append(Spared(store, reason, fault=True))
        else:
            removed.append(store)
    registry.free_removed_stores(data)
    return Pruned(tuple(removed), tuple(kept), sum(store.size for store in removed), dry_run=False)


def _check_again_and_remove(store: Found, age: float, *, force: bool) -> str:
    """Remove a store after checking it again. Returns why it is kept, or ""."""
    try:
        with registry.hold_for_removal(store.path, registry.PATIENCE):
            reason = _why_kept(report_on_store(registry.inspect(store.path)), age, force=force)
            if reason == "":
                registry.rename_out_of_registry(store.path)
                return ""
    except errors.StoreError as error:
        return str(error)
    return reason or "its root is there again"


def _why_kept(store: Found, age: float, *, force: bool) -> str | None:
    """Why a store is kept; "" if it may be removed; None if its root exists."""
    if store.exists:
        return None
    if store.problem is not None:
        return store.problem
    if not store.worktrees:
        return "it has no checkpoint, so its project is unknown"
    there = next((line.root for line in store.worktrees if line.exists), None)
    if there is not None:
        return f"the worktree {printable(there)} has checkpoints in it, and is there"
    idle = time.time_ns() - store.used_ns
    if idle < age * 1e9:
        days = max(idle, 0) // _DAY_NS + 1
        return f"it was used less than {days} day{'s' if days > 1 else ''} ago"
    for line in store.worktrees:
        doubt = roots.why_maybe_unmounted(line.root, line.newest_ns, store=store.path)
        if doubt:
            return f"{printable(line.root)} may exist: {doubt}; if it is gone for good, remove {printable(store.path)} by hand"
    if store.restores and not force:
        return "a restore was interrupted, and can be finished when the root is back; --force removes it anyway"
    if store.pinned and not force:
        return f"{store.pinned} of its checkpoints are pinned; --force removes it anyway"
    return ""
