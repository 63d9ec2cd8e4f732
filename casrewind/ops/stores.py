"""Stores: every store under the data directory, whose it is, and whether its root is still there."""

import os
import time
from collections.abc import Callable

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import checkpoint as checkpoints
from ..store import registry
from ..worktree import root as roots
from .restore import Declined


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
    all_there = [found(registry.inspect(registry.store_directory(data, name))) for name in registry.names(data)]
    return sorted(all_there, key=lambda store: (-store.used_ns, store.path))


def found(seen: registry.StoreSummary) -> Found:
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


_DAY_NS = 86_400_000_000_000


class Spared(NamedTuple):
    """A store that stays although its root is not there, or although nobody can say whose it is; the reason.

    `fault`: it could not be looked at, or was to be removed and could not be."""

    store: Found
    reason: str
    fault: bool


class Pruned(NamedTuple):
    """What pruning did, or (dry) would do: the stores `removed`, those that were `kept` for a reason, the bytes on disk that
    the removed ones took. Stores whose root is there are in neither."""

    removed: tuple[Found, ...]
    kept: tuple[Spared, ...]
    freed: int
    dry_run: bool


class PruneRule(NamedTuple):
    """What may go: stores not used for `age` seconds; with `force` pinned ones too, and those of interrupted restores."""

    age: float
    force: bool


def prune(data: str, rule: PruneRule, confirm: Callable[[Pruned], bool] | None = None, *, dry_run: bool = False) -> Pruned:
    """Remove every store under the data directory whose worktrees' roots are all gone, if the rule lets it go.

    `confirm` is asked with what would be done, before anything is. Raises Declined, StoreError; then nothing was done but
    to finish what an interrupted one had begun.
    """
    if not dry_run:
        registry.clear(data)
    candidates, kept = [], []
    for store in stores(data):
        reason = _why_not(store, rule)
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
        reason = _remove(store, rule)
        if reason:
            kept.append(Spared(store, reason, fault=True))
        else:
            removed.append(store)
    registry.clear(data)
    return Pruned(tuple(removed), tuple(kept), sum(store.size for store in removed), dry_run=False)


def _remove(store: Found, rule: PruneRule) -> str:
    """Remove a store if that is right still; else why it stays."""
    try:
        with registry.hold_for_removal(store.path, registry.PATIENCE):
            reason = _why_not(found(registry.inspect(store.path)), rule)
            if reason == "":
                registry.remove(store.path)
                return ""
    except errors.StoreError as error:
        return str(error)
    return reason or "its root is there again"


def _why_not(store: Found, rule: PruneRule) -> str | None:
    """Why a store stays, "" when it may go; None when there is nothing to say: its root is there."""
    if store.exists:
        return None
    if store.problem is not None:
        return store.problem
    if not store.worktrees:
        return "it holds no checkpoint, and so nobody can say whose it is"
    there = next((line.root for line in store.worktrees if line.exists), None)
    if there is not None:
        return f"the worktree {fsio.printable(there)} has checkpoints in it, and is there"
    idle = time.time_ns() - store.used_ns
    if idle < rule.age * 1e9:
        days = max(idle, 0) // _DAY_NS + 1
        return f"it was used less than {days} day{'s' if days > 1 else ''} ago"
    for line in store.worktrees:
        doubt = roots.why_maybe_unmounted(line.root, line.newest_ns, store=store.path)
        if doubt:
            return f"{fsio.printable(line.root)} may exist: {doubt}; if it is gone for good, remove {fsio.printable(store.path)} by hand"
    if store.restores and not rule.force:
        return "a restore was interrupted, and can be finished when the root is back; --force removes it all the same"
    if store.pinned and not rule.force:
        return f"{store.pinned} of its checkpoints are pinned; --force removes it all the same"
    return ""
