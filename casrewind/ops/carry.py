"""From a settled plan to the record in the ledger: the part that restore, undo and redo have in common.

The danger prevented here: a change to the worktree that cannot be taken back or finished. In this order: every blob is
proved, the safety checkpoint is published, the journal is durable, the plan is carried out, the ledger tells of it,
the journal goes. docs/format.md derives the order.
"""

import os
import stat
import time
from collections.abc import Sequence

from .. import errors, fsio
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import domain as domains
from ..model import manifest, paths
from ..model import operation as operations
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, Loader
from ..model.operation import Operation
from ..model.plan import Action, Actions, Kept, Plan
from ..store import packs
from ..store.session import Session
from ..store.stamprows import News
from ..typed import NamedTuple
from ..worktree.apply import Applier, Outcome
from . import present as presents
from .closed import closed, needs_copy
from .contents import Contents
from .damage import unreadable
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
    actions: Sequence[Action]
    kept: tuple[Kept, ...]
    unchanged: int
    dry_run: bool

    @property
    def incomplete(self) -> bool:
        """True when something that was planned was left undone."""
        return any(not item.benign for item in self.kept)


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


def settle_directories(site: Site, load: Loader, tree: bytes, plan: Plan, *, benign: bool) -> Plan:
    """Keep directories that something unplanned lives in; refuse where one would have to become a file."""
    while True:
        kept, obstacles = presents.holdouts(site, load, tree, plan.actions, benign=benign)
        if obstacles:
            raise presents.in_the_way(obstacles)
        if not kept:
            return plan
        plan = plans.keep(plan, kept)


def carry_out(site: Site, session: Session, operation: Operation, report: Restored, now: Present) -> Restored:
    """From a settled plan, whose content was found readable, to the record in the ledger."""
    actions = _with_closed_parents(now, report.actions)
    check_places(site, actions)
    digest = session.put(packs.PLAN, plans.encode(actions))
    safety = _publish_safety(site, session, operation, now)
    operation = operation._replace(safety=safety.id, plan=digest, created_ns=time.time_ns())
    site.store.journals.write(operation)
    outcome = apply(site, actions, safety.id)
    return finish(site, session, operation, report._replace(safety=safety.id), actions, outcome)


def _with_closed_parents(now: Present, given: Sequence[Action]) -> Actions:
    """The actions, and one for each directory that has to be opened for them because its owner may not write to it."""
    actions = plans.pack(given)
    if os.geteuid() == 0:
        return actions
    finder = manifest.Finder(now.load, now.tree)
    opened: dict[bytes, Action] = {}
    last = b""
    for action in actions:
        parent = action.path.rpartition(b"/")[0]
        if parent in (b"", last) or parent in opened:
            continue
        last = parent
        entry = finder.find(parent)
        if entry is not None and entry.kind == DIR and entry.mode & stat.S_IRWXU != stat.S_IRWXU and actions.get(parent) is None:
            opened[parent] = Action(parent, entry, entry, parent)
    return plans.pack([*actions, *opened.values()]) if opened else actions


def prove(site: Site, actions: Sequence[Action], advice: str) -> None:
    """Check that all of it may be done, and read every blob that will be written. `advice` says what to do about what is in the
    way. Raises ContentInTheWay, StoreDamaged and others."""
    check_places(site, actions, advice)
    for item in unreadable(site, actions):
        raise errors.BlobCorrupt(f"{paths.display(item.path)} is {item.reason}")


def check_places(site: Site, actions: Sequence[Action], advice: str = "") -> None:
    """Check that there is room for all that will be written and that all of it may be done. Raises ContentInTheWay, UnsafePath,
    StoreFull."""
    if obstacles := closed(site, actions):
        raise presents.in_the_way(obstacles, advice)
    copied = 0
    for action in actions:
        name = paths.check(action.path).rpartition(b"/")[2]
        if action.before is None and not site.tree.takes_name(name):
            raise errors.UnsafePath(
                f"this file system cannot hold the name of {paths.display(action.path)}: restore elsewhere with --to DIR, "
                f"or only other paths with -- PATH; nothing was changed"
            )
        after = action.after
        if after is not None and after.kind == manifest.FILE and not plans.content_differs(action):
            copied += after.size if needs_copy(action, site.tree.status_of(action.source)) else 0
    check_room(site.root.path, actions, copied)


def check_room(place: str, actions: Sequence[Action], copied: int = 0) -> None:
    """Check that a directory has room for all that will be written. `copied`: bytes of the files that will be copied.

    It comes before any content is read, because a manifest may give a false size.
    """
    needed = copied
    for action in actions:
        if plans.content_differs(action) and action.after is not None and action.after.kind == manifest.FILE:
            needed += action.after.size
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize
    if needed and needed + _SPARE > free:
        raise errors.StoreFull(
            f"not enough space in {fsio.show(place)}: the restore writes {needed} bytes and {free} are free; "
            f"nothing was changed"
        )


def _publish_safety(site: Site, session: Session, operation: Operation, now: Present) -> Checkpoint:
    """The checkpoint that undo goes back to."""
    head = site.store.head(site.root.key)
    counts = diffs.count(diffs.diff(diffs.lenient(now.load), head.tree if head else None, now.tree))
    domain = session.put(packs.DOMAIN, domains.encode(now.scan.domain))
    scan = now.scan._replace(tree=now.tree)
    what = {operations.RESTORE: "restore of", operations.UNDO: "undo of", operations.REDO: "redo of"}[operation.op]
    draft = draft_checkpoint(site, checkpoints.SAFETY, f"before {what} {operation.target}", scan, domain, counts)
    return publish(site, session, draft, head, News(scan.stamps, life=scan.life))


def apply(site: Site, actions: Sequence[Action], tag: str) -> Outcome:
    """Carry actions out; an error of the system says how to go on."""
    try:
        return Applier(site.tree, actions, Contents(site.store, actions), tag, site.say_of("restoring")).run()
    except OSError as error:
        raise interrupted(error) from error


def interrupted(error: OSError) -> errors.CasrewindError:
    """The error for a restore that could not go on: its journal stays open."""
    hint = "the restore is half done: casrewind restore --continue finishes it, casrewind restore --abort takes it back"
    path = f" at {fsio.show(error.filename)}" if error.filename else ""
    if fsio.is_full(error):
        return errors.StoreFull(f"{fsio.reason_of(error)} while restoring{path}: free some space; {hint}")
    return errors.WorkspaceError(f"cannot go on restoring{path}: {fsio.reason_of(error)}; {hint}")


def finish(
    site: Site, session: Session, operation: Operation, report: Restored, actions: Sequence[Action], outcome: Outcome
) -> Restored:
    """Write down what was really done, then close the journal."""
    if len(outcome.done) != len(actions):
        operation = operation._replace(plan=session.put(packs.PLAN, plans.encode(outcome.done)), current="")
        site.store.add_blobs(session)
    site.store.record_operation(operation)
    site.store.journals.remove(operation.worktree)
    left = {item.path for item in outcome.kept}
    return report._replace(
        actions=plans.without(report.actions, left), kept=tuple(sorted({*report.kept, *outcome.kept})), dry_run=False
    )
