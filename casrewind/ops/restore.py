"""Restore, undo, redo, and what to do when one was interrupted.

One road for all of them: capture the present, plan, refuse what cannot be done before the first change, publish the
safety checkpoint, open the journal, carry the plan out, close the journal with a record in the ledger. docs/format.md
derives the order; docs/durability.md states what it guarantees.
"""

import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .. import errors, fsio
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import domain as domains
from ..model import manifest, paths
from ..model import operation as operations
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, Entry
from ..model.operation import Operation
from ..model.plan import Action, Kept, Plan
from ..store import packs
from ..store.session import DrySession, Session
from ..worktree.apply import Applier, Outcome
from ..worktree.settle import settle, unwind
from . import present as presents
from .known import Known
from .present import Present
from .save import draft_checkpoint, publish
from .site import Site

_SPARE = 1 << 20  # bytes that must stay free beside what a restore writes


class Restored(NamedTuple):
    """What a restore, undo or redo did (or, dry, would do).

    `actions` were done; `kept` were left alone, and why; `target` is the id of the checkpoint aimed at, `safety` of the
    one made first ("" when nothing had to be done). `unchanged` counts the paths of the target that needed nothing.
    """

    op: str
    target: str
    safety: str
    actions: tuple[Action, ...]
    kept: tuple[Kept, ...]
    unchanged: int
    dry_run: bool

    @property
    def incomplete(self) -> bool:
        """True when something that was planned was left undone."""
        return any(not item.benign for item in self.kept)


Confirm = Callable[[Plan], bool]
"""Asks a person whether a plan may be carried out."""


class Declined(Exception):
    """The person said no. Nothing was changed."""


def restore(
    site: Site, target: Checkpoint, *, scope: Sequence[bytes] = (), dry_run: bool = False, confirm: Confirm | None = None
) -> Restored:
    """Make the worktree (or the paths in `scope`) what it was at `target`.

    `dry_run` publishes and changes nothing. `confirm` is asked with the plan, before anything is published. Raises
    JournalOpen, RootRefused, ContentInTheWay, StoreFull, StoreDamaged and others; then nothing was changed.
    """
    if target.worktree != site.root.key:
        raise errors.RootRefused(
            f"checkpoint {target.id} belongs to {fsio.show(target.root)}, not to {fsio.show(site.root.path)}: restore it "
            f"there, or elsewhere with --to DIR"
        )
    refuse_open_journal(site)
    if dry_run:
        return _plan_restore(site, DrySession(site.store.read), target, scope)[0]
    with site.store.restoring(site.root.key), site.store.session() as session:
        refuse_open_journal(site)
        report, now = _plan_restore(site, session, target, scope)
        if not report.actions:
            return report._replace(dry_run=False)
        if confirm is not None and not confirm(Plan(report.actions, report.kept)):
            raise Declined
        operation = Operation(operations.RESTORE, 0, site.root.key, target.id, "", b"", target.id if not scope else "")
        return _carry_out(site, session, operation, report, now)


def _plan_restore(
    site: Site, session: Session | DrySession, target: Checkpoint, scope: Sequence[bytes]
) -> tuple[Restored, Present]:
    now = presents.capture_for(site, session, target.tree, scope)
    domain = site.store.domain(target.domain)
    known = Known(site.store, domain)
    changes = list(diffs.diff(session.load_tree, now.tree, target.tree))
    plan = plans.build(changes, known.why_not, scope)
    if site.tree.folds_names():
        plan = plans.fold(plan, (path for path, _ in manifest.walk(session.load_tree, target.tree)))
    plan = _settle_directories(site, session, now.tree, plan, benign=True)
    kept = [*plan.kept]
    kept += [
        Kept(path, "was changing while it was saved: its stored bytes may be torn", benign=False)
        for path in domain.unstable
        if any(action.path == path for action in plan.actions)
    ]
    named = [path for path, _ in manifest.walk(session.load_tree, target.tree)]
    if scope:
        named = [path for path in named if any(paths.is_within(path, place) for place in scope)]
    unchanged = len(named) - len({action.path for action in plan.actions if action.after is not None}.intersection(named))
    report = Restored(operations.RESTORE, target.id, "", plan.actions, tuple(sorted(kept)), unchanged, dry_run=True)
    return report, now


def _settle_directories(site: Site, session: Session | DrySession, tree: bytes, plan: Plan, *, benign: bool) -> Plan:
    """Keep directories that something unplanned lives in; refuse where one would have to become a file."""
    while True:
        kept, obstacles = presents.holdouts(site, session.load_tree, tree, plan.actions, benign=benign)
        if obstacles:
            raise presents.in_the_way(obstacles)
        if not kept:
            return plan
        plan = plans.keep(plan, kept)


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
        plan = _settle_directories(site, session, tree, plan, benign=False)
        aim = step.safety if op == operations.UNDO else step.target
        report = Restored(op, aim, "", plan.actions, plan.kept, len(wanted) - len(plan.actions), dry_run=False)
        current = step.safety if op == operations.UNDO else step.before
        operation = Operation(op, 0, site.root.key, step.target, "", b"", current)
        if not plan.actions and plan.kept:
            return report  # nothing was taken back, so the step stays
        if not plan.actions:
            empty = session.put(packs.PLAN, plans.encode(()))
            site.store.add_blobs(session)
            site.store.record_operation(operation._replace(plan=empty, created_ns=_clock()))
            return report
        return _carry_out(site, session, operation, report, Present(tree, scan))


def _carry_out(site: Site, session: Session, operation: Operation, report: Restored, now: Present) -> Restored:
    """From a settled plan to the record in the ledger."""
    actions = _with_closed_parents(site, session, now.tree, report.actions)
    _prove(site, actions)
    digest = session.put(packs.PLAN, plans.encode(actions))
    safety = _publish_safety(site, session, operation, now)
    operation = operation._replace(safety=safety.id, plan=digest, created_ns=_clock())
    try:
        site.store.journals.write(operation)
    except OSError as error:
        raise fsio.store_error(error, "writing the journal in", site.store.path) from error
    outcome = _apply(site, actions, safety.id)
    return _finish(site, session, operation, report._replace(safety=safety.id), actions, outcome)


def _with_closed_parents(site: Site, session: Session, tree: bytes, actions: Sequence[Action]) -> tuple[Action, ...]:
    """The actions, and one for each directory that has to be opened for them because its owner may not write to it."""
    planned = {action.path: action for action in actions}
    finder = manifest.Finder(session.load_tree, tree)
    if os.geteuid() == 0:
        return tuple(actions)
    for action in actions:
        parent = action.path.rpartition(b"/")[0]
        if not parent or parent in planned:
            continue
        entry = finder.find(parent)
        if entry is not None and entry.kind == DIR and entry.mode & stat.S_IRWXU != stat.S_IRWXU:
            planned[parent] = Action(parent, entry, entry, parent)
    return tuple(sorted(planned.values(), key=lambda action: action.path))


def _prove(site: Site, actions: Sequence[Action]) -> None:
    """Read every blob that will be written and check its digest; check that there is room for all of it."""
    needed = 0
    report = site.say_of("checking stored content")
    for number, action in enumerate(actions):
        paths.check(action.path)
        if plans.content_differs(action) and action.after is not None and action.after.kind == manifest.FILE:
            for _ in site.store.content(action.after):
                pass
            needed += action.after.size
        if report is not None:
            report(number, len(actions))
    space = os.statvfs(site.root.path)
    free = space.f_bavail * space.f_frsize
    if needed and needed + _SPARE > free:
        raise errors.StoreFull(
            f"not enough space in {fsio.show(site.root.path)}: the restore writes {needed} bytes and {free} are free; "
            f"nothing was changed"
        )


def _publish_safety(site: Site, session: Session, operation: Operation, now: Present) -> Checkpoint:
    """The checkpoint that undo goes back to."""
    head = site.store.head(site.root.key)
    counts = diffs.count(diffs.diff(session.load_tree, head.tree if head else None, now.tree))
    domain = session.put(packs.DOMAIN, domains.encode(now.scan.domain))
    scan = now.scan._replace(tree=now.tree)
    what = {operations.RESTORE: "restore of", operations.UNDO: "undo of", operations.REDO: "redo of"}[operation.op]
    draft = draft_checkpoint(site, checkpoints.SAFETY, f"before {what} {operation.target}", scan, domain, counts)
    return publish(site, session, draft, head, stamps=now.scan.stamps)


def _clock() -> int:
    import time

    return time.time_ns()


def _apply(site: Site, actions: Sequence[Action], tag: str) -> Outcome:
    try:
        return Applier(site.tree, actions, site.store.content, tag, site.say_of("restoring")).run()
    except OSError as error:
        raise _interrupted(error) from error


def _interrupted(error: OSError) -> errors.CasrewindError:
    hint = "the restore is half done: casrewind restore --continue finishes it, casrewind restore --abort takes it back"
    path = f" at {fsio.show(error.filename)}" if error.filename else ""
    if fsio.is_full(error):
        return errors.StoreFull(f"no space left while restoring{path}: free some space; {hint}")
    return errors.WorkspaceError(f"cannot go on restoring{path}: {error.strerror}; {hint}")


def _finish(
    site: Site, session: Session, operation: Operation, report: Restored, actions: Sequence[Action], outcome: Outcome
) -> Restored:
    """Write down what was really done, then close the journal."""
    if len(outcome.done) != len(actions):
        operation = operation._replace(plan=session.put(packs.PLAN, plans.encode(outcome.done)), current="")
        site.store.add_blobs(session)
    site.store.record_operation(operation)
    try:
        site.store.journals.remove(operation.worktree)
    except OSError as error:
        raise fsio.store_error(error, "closing the journal in", site.store.path) from error
    left = {item.path for item in outcome.kept}
    done = tuple(action for action in report.actions if action.path not in left)
    return report._replace(
        actions=done, kept=tuple(sorted({*report.kept, *outcome.kept})), dry_run=False
    )


# -- a restore that was interrupted


def refuse_open_journal(site: Site) -> None:
    """Raise JournalOpen when a restore of this worktree is unfinished."""
    if not site.store.journals.exists(site.root.key):
        return
    if site.store.is_restoring(site.root.key):
        raise errors.StoreBusy("another restore of this worktree is running: wait for it")
    raise errors.JournalOpen(
        "a restore was interrupted: finish it with casrewind restore --continue, or take it back with "
        "casrewind restore --abort"
    )


def resume(site: Site, *, forward: bool) -> Restored:
    """Finish the interrupted restore, or take it back. A path that is neither as before it nor as it should become was
    edited since: it is kept and named. Raises NothingToUndo when there is none."""
    with site.store.restoring(site.root.key), site.store.session() as session:
        operation = site.store.journals.read(site.root.key)
        if operation is None:
            raise errors.NothingToUndo("no restore was interrupted in this worktree: there is nothing to continue or abort")
        actions = site.store.plan(operation.plan)
        back = plans.reverse(actions)
        _prove(site, actions if forward else back)
        first = Applier(site.tree, actions, site.store.content, operation.safety)
        second = Applier(site.tree, back, site.store.content, operation.safety + "r")
        try:
            settle(first.ground, actions)
            settle(second.ground, back)
            if forward:
                unwind(second.ground, back)
                outcome = first.run()
            else:
                unwind(first.ground, actions)
                outcome = second.run()
            kept = tuple({**first.ground.kept, **second.ground.kept}.values())
        except OSError as error:
            raise _interrupted(error) from error
        report = Restored(
            operation.op, operation.target, operation.safety, actions if forward else back, kept, 0, dry_run=False
        )
        if not forward:
            return _finish_abort(site, operation, report, outcome)
        history = site.store.history(site.root.key)
        if any(step.safety == operation.safety for step in (*history.undo, *history.redo)):
            return _finish_abort(site, operation, report, outcome)  # its record was written before the interruption
        return _finish(site, session, operation, report, actions, outcome)


def _finish_abort(site: Site, operation: Operation, report: Restored, outcome: Outcome) -> Restored:
    try:
        site.store.journals.remove(operation.worktree)
    except OSError as error:
        raise fsio.store_error(error, "closing the journal in", site.store.path) from error
    return report._replace(actions=outcome.done, kept=tuple(sorted({*report.kept, *outcome.kept})))


def materialise(site: Site, target: Checkpoint, directory: str) -> Restored:
    """Write a checkpoint's whole tree into another, empty (or new) directory. Works with a store that cannot be written.

    Raises ContentInTheWay when the directory holds something.
    """
    from ..worktree.files import Worktree

    try:
        os.makedirs(directory, exist_ok=True)
        if os.listdir(directory):
            raise errors.ContentInTheWay(f"{fsio.show(directory)} is not empty: give --to a new or an empty directory")
    except OSError as error:
        raise errors.WorkspaceError(f"cannot use {fsio.show(directory)}: {error.strerror}") from error
    entries: list[tuple[bytes, Entry]] = list(manifest.walk(site.store.load_tree, target.tree))
    kept = [Kept(path, "purged", benign=False) for path, entry in entries if entry.kind == manifest.PURGED]
    actions = tuple(
        Action(path, None, entry, path) for path, entry in sorted(entries) if entry.kind != manifest.PURGED
    )
    with Worktree(os.path.realpath(directory)) as tree:
        if tree.folds_names():
            plans.fold(Plan(actions, ()), (action.path for action in actions))
        elsewhere = site._replace(tree=tree, root=site.root._replace(path=tree.root))
        _prove(elsewhere, actions)
        outcome = _apply(elsewhere, actions, target.id)
    return Restored("materialise", target.id, "", outcome.done, (*kept, *outcome.kept), 0, dry_run=False)
