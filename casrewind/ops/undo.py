"""Undo and redo: take the newest restore (or undo) back, path by path, and keep what was edited since."""

import time
from collections.abc import Iterable, Iterator, Mapping

from .. import errors
from ..model import manifest, paths
from ..model import operation as operations
from ..model import plan as plans
from ..model.manifest import DIR, Entry
from ..model.operation import Operation
from ..model.plan import Action, Actions, Kept, Plan
from ..store import packs
from ..store.session import Session
from ..worktree.stores import Stores
from . import capture, preflight
from .capture import Present
from .execute import Restored, execute
from .prefetch import Trees
from .site import Site


def undo(site: Site, *, everything: bool = False) -> Restored:
    """Take the newest restore back: its paths, and only those. A path that is no longer as the restore left it is kept,
    unless `everything`. Raises NothingToUndo."""
    history = site.store.history(site.root.key)
    if not history.undo:
        raise errors.NothingToUndo("nothing to undo: no restore was made in this worktree, or all of them are undone")
    step = history.undo[-1]
    return _take_back(site, operations.UNDO, step, everything=everything)


def redo(site: Site) -> Restored:
    """Take the newest undo back, by the same rule. Raises NothingToUndo."""
    history = site.store.history(site.root.key)
    if not history.redo:
        raise errors.NothingToUndo("nothing to redo: no undo was made since the newest restore")
    return _take_back(site, operations.REDO, history.redo[-1], everything=False)


def _take_back(site: Site, op: str, step: operations.Step, *, everything: bool) -> Restored:
    preflight.refuse_open_journal(site)
    with site.store.restoring(site.root.key), site.store.session() as session:
        preflight.refuse_open_journal(site)
        report, now = _prepare(site, session, op, step, everything=everything)
        current = step.safety if op == operations.UNDO else step.before
        operation = Operation(op, 0, site.root.key, step.target, "", b"", current)
        if report.actions:
            actions = preflight.check_actions(site, now, report.actions)
            return execute(site, session, operation, report, now, actions)
        if not report.kept:  # else nothing was taken back, so the step stays
            empty = session.put(packs.PLAN, plans.encode(()))
            site.store.add_blobs(session)
            site.store.record_operation(operation._replace(plan=empty, created_ns=time.time_ns()))
        return report


def _prepare(site: Site, session: Session, op: str, step: operations.Step, *, everything: bool) -> tuple[Restored, Present]:
    """(what taking a step back would do and leave alone, what is there now)."""
    scan = capture.scan_now(site, session)
    wanted = plans.reverse(site.store.plan(step.plan))  # not before: a scan takes memory enough
    wanted, stores = Stores(site.tree, site.options.excluded).spare(wanted)
    strangers: dict[bytes, str] = {}
    load = Trees(session.load_tree)
    read = scan.read
    unread = (path for path in _touched(wanted) if path not in read)
    tree = capture.add_paths(site, session, scan.tree, unread, strangers=strangers, load=load)
    now = Present(tree, scan, load)
    if everything and strangers:
        touched = frozenset(_touched(wanted))
        if obstacles := [why for path, why in strangers.items() if path in touched]:
            raise capture.in_the_way(obstacles)
    kept = list(stores)
    actions = plans.pack(_choose(wanted, manifest.Finder(load, tree), strangers, site.tree.mounts.points, kept, everything=everything))
    hint = f"What is sound can be had with casrewind restore {step.safety or step.target} --skip-damaged"
    plan = preflight.check_plan(site, now, plans.keep(Plan(actions, ()), kept), hint=hint, benign=False)
    aim = step.safety if op == operations.UNDO else step.target
    unchanged = len(wanted) - len(plan.actions) - len({item.path for item in plan.kept} - {item.path for item in stores})
    return Restored(op, aim, "", plan.actions, plan.kept, unchanged, dry_run=False), now


def _touched(wanted: Actions) -> Iterable[bytes]:
    """Every path that the actions have to do with, sorted."""
    if any(action.source != action.path for action in wanted):
        return sorted({path for action in wanted for path in (action.path, action.source)})
    return (action.path for action in wanted)


def _choose(
    wanted: Actions,
    finder: manifest.Finder,
    strangers: Mapping[bytes, str],
    mounts: frozenset[bytes],
    kept: list[Kept],
    *,
    everything: bool,
) -> Iterator[Action]:
    """What of a reversed plan is to be done; the paths that stay as they are go into `kept`. `strangers` hold what cannot
    be stored, `mounts` what hides all below it.

    Parents come before children: what has no directory to go into any more is kept as it is, absent.
    """
    will_be: dict[bytes, Entry | None] = {}
    for action in wanted:
        there = finder.find(action.source)
        stranger = _stranger(action.source, strangers) if strangers else None
        if stranger is not None and (stranger in mounts or stranger == action.source or action.after is not None):
            kept.append(Kept(action.path, f"edited since: {strangers[stranger]}", benign=False))
        elif manifest.same(there, action.after) and action.source == action.path:
            continue
        elif not (everything or manifest.same(there, action.before)):
            kept.append(Kept(action.path, "edited since", benign=False))
        elif action.after is not None and not _has_place(action.path, finder, will_be):
            kept.append(Kept(action.path, "its directory was replaced or removed since", benign=False))
        else:
            if DIR in (there and there.kind, action.after and action.after.kind):
                will_be[action.path] = action.after  # of what is no directory before or after, nothing is asked
            yield Action(action.path, there, action.after, action.source)


def _stranger(path: bytes, strangers: Mapping[bytes, str]) -> bytes | None:
    """The path of what cannot be stored, at a path or above it; None where all can."""
    return next((place for place in (*paths.parents(path), path) if place in strangers), None)


def _has_place(path: bytes, finder: manifest.Finder, will_be: Mapping[bytes, Entry | None]) -> bool:
    """True when everything above a path is, or will have become, a directory."""
    above = (will_be[place] if place in will_be else finder.find(place) for place in paths.parents(path))
    return all(entry is not None and entry.kind == DIR for entry in above)
