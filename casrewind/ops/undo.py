"""Undo and redo: take the newest restore (or undo) back, path by path, and keep what was edited since."""

import time

from .. import errors
from ..model import manifest
from ..model import operation as operations
from ..model import plan as plans
from ..model.operation import Operation
from ..model.plan import Kept, Plan
from ..store import packs
from . import present as presents
from .carry import Restored, carry_out, refuse_open_journal, settle_directories
from .present import Present
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
    refuse_open_journal(site)
    with site.store.restoring(site.root.key), site.store.session() as session:
        refuse_open_journal(site)
        wanted = plans.reverse(site.store.plan(step.plan))
        scan = presents.scan_now(site, session)
        touched = {path for action in wanted for path in (action.path, action.source)}
        tree = presents.add_paths(site, session, scan.tree, touched)
        actions, kept = [], []
        finder = manifest.Finder(session.load_tree, tree)
        for action in wanted:
            there = finder.find(action.source)
            if manifest.same(there, action.after) and action.source == action.path:
                continue
            if everything or manifest.same(there, action.before):
                actions.append(action._replace(before=there))
            else:
                kept.append(Kept(action.path, "edited since", benign=False))
        plan = plans.keep(Plan(tuple(actions), ()), kept)
        plan = settle_directories(site, session, tree, plan, benign=False)
        aim = step.safety if op == operations.UNDO else step.target
        report = Restored(op, aim, "", plan.actions, plan.kept, len(wanted) - len(plan.actions), dry_run=False)
        current = step.safety if op == operations.UNDO else step.before
        operation = Operation(op, 0, site.root.key, step.target, "", b"", current)
        if not plan.actions and plan.kept:
            return report  # nothing was taken back, so the step stays
        if not plan.actions:
            empty = session.put(packs.PLAN, plans.encode(()))
            site.store.add_blobs(session)
            site.store.record_operation(operation._replace(plan=empty, created_ns=time.time_ns()))
            return report
        return carry_out(site, session, operation, report, Present(tree, scan))
