"""Restore: make the worktree what it was at a checkpoint, or write the checkpoint somewhere else."""

import os
from collections.abc import Callable, Sequence

from .. import errors, fsio
from ..model import diff as diffs
from ..model import manifest, paths
from ..model import operation as operations
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..model.operation import Operation
from ..model.plan import Action, Kept, Plan
from ..store.session import DrySession, Session
from . import present as presents
from .carry import Restored, apply, carry_out, prove, refuse_open_journal, settle_directories
from .known import Known
from .present import Present
from .site import Site

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
        return carry_out(site, session, operation, report, now)


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
    plan = settle_directories(site, session, now.tree, plan, benign=True)
    kept = [*plan.kept]
    kept += [
        Kept(path, "was changing while it was saved: its stored bytes may be torn", benign=False)
        for path in domain.unstable
        if any(action.path == path for action in plan.actions)
    ]
    named = [path for path, _ in manifest.walk(session.load_tree, target.tree)]
    places = paths.Places(scope)
    named = [path for path in named if places.cover(path)]
    seen = {*named, *(action.path for action in plan.actions), *(item.path for item in kept)}
    kept += [
        Kept(place, "not in the checkpoint", benign=False)  # a misspelled path must not look like one that needs nothing
        for place in places.missed(seen)
    ]
    unchanged = len(named) - len({action.path for action in plan.actions if action.after is not None}.intersection(named))
    report = Restored(operations.RESTORE, target.id, "", plan.actions, tuple(sorted(kept)), unchanged, dry_run=True)
    return report, now


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
        prove(elsewhere, actions)
        outcome = apply(elsewhere, actions, target.id)
    return Restored("materialise", target.id, "", outcome.done, (*kept, *outcome.kept), 0, dry_run=False)
