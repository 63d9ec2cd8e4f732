"""Prune: whole stores go whose projects are gone and that nobody has used for a while.

The danger prevented here: a store that goes although somebody has need of it. Its roots are looked at once more, and what it
holds, while everybody else is kept out of it; what is in doubt stays, and is named with the reason. Killed anywhere there
is the store as it was, or something that nobody takes for one and that the next time removes (store/shelf.py).
"""

import time
from collections.abc import Callable

from .. import errors, fsio
from ..store import shelf
from ..typed import NamedTuple
from ..worktree import root as roots
from .restore import Declined
from .stores import Found, found, stores

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


class Rule(NamedTuple):
    """What may go: stores not used for `age` seconds; with `force` pinned ones too, and those of interrupted restores."""

    age: float
    force: bool


def prune(data: str, rule: Rule, confirm: Callable[[Pruned], bool] | None = None, *, dry_run: bool = False) -> Pruned:
    """Remove every store under the data directory whose worktrees' roots are all gone, if the rule lets it go.

    `confirm` is asked with what would be done, before anything is. Raises Declined, StoreError; then nothing was done but
    to finish what an interrupted one had begun.
    """
    if not dry_run:
        shelf.clear(data)
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
    shelf.clear(data)
    return Pruned(tuple(removed), tuple(kept), sum(store.size for store in removed), dry_run=False)


def _remove(store: Found, rule: Rule) -> str:
    """Remove a store if that is right still; else why it stays."""
    try:
        with shelf.to_be_removed(store.path, shelf.PATIENCE):
            reason = _why_not(found(shelf.look(store.path)), rule)
            if reason == "":
                shelf.remove(store.path)
                return ""
    except errors.StoreError as error:
        return str(error)
    return reason or "its root is there again"


def _why_not(store: Found, rule: Rule) -> str | None:
    """Why a store stays, "" when it may go; None when there is nothing to say: its root is there."""
    if store.exists:
        return None
    if store.problem is not None:
        return store.problem
    if not store.worktrees:
        return "it holds no checkpoint, and so nobody can say whose it is"
    there = next((line.root for line in store.worktrees if line.exists), None)
    if there is not None:
        return f"the worktree {fsio.show(there)} has checkpoints in it, and is there"
    idle = time.time_ns() - store.used_ns
    if idle < rule.age * 1e9:
        days = max(idle, 0) // _DAY_NS + 1
        return f"it was used less than {days} day{'s' if days > 1 else ''} ago"
    for line in store.worktrees:
        doubt = roots.why_in_doubt(line.root, line.newest_ns, store=store.path)
        if doubt:
            return f"{fsio.show(line.root)} may exist: {doubt}; if it is gone for good, remove {fsio.show(store.path)} by hand"
    if store.restores and not rule.force:
        return "a restore was interrupted, and can be finished when the root is back; --force removes it all the same"
    if store.pinned and not rule.force:
        return f"{store.pinned} of its checkpoints are pinned; --force removes it all the same"
    return ""

