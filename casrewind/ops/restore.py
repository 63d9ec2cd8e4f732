"""Restore: make the worktree what it was at a checkpoint, or write the checkpoint somewhere else."""

import os
from collections.abc import Callable, Sequence

from .. import errors, fsio, private, storemark
from ..model import diff as diffs
from ..model import manifest, paths
from ..model import operation as operations
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..model.operation import Operation
from ..model.plan import Action, Kept, Plan
from ..store.session import DrySession, Session
from ..worktree.stores import Stores
from . import damage
from . import present as presents
from .carry import Restored, apply, carry_out, check_places, check_room, refuse_open_journal, settle_directories
from .known import Known
from .missing import missing
from .present import Present
from .refused import naming
from .site import Site
from .trees import Trees

_LATE = "it changed after the moment that the checkpoint was made for, and was stored as it was then"
_SKIP = "Say --skip-damaged to have all the rest, or name paths behind --"

Confirm = Callable[[Plan], bool]
"""Asks a person whether a plan may be carried out."""


class Declined(Exception):
    """The person said no. Nothing was changed."""


def restore(
    site: Site,
    target: Checkpoint,
    *,
    scope: Sequence[bytes] = (),
    dry_run: bool = False,
    skip_damaged: bool = False,
    confirm: Confirm | None = None,
) -> Restored:
    """Make the worktree (or the paths in `scope`) what it was at `target`.

    `dry_run` publishes and changes nothing. `confirm` is asked with the plan, before anything is published. With
    `skip_damaged`, paths whose content is damaged in the store are kept as they are. Raises JournalOpen, RootRefused,
    PathNotFound (no path in `scope` exists), ContentInTheWay, StoreFull, StoreDamaged and others; then nothing was changed.
    """
    if target.worktree != site.root.key:
        raise errors.RootRefused(
            f"checkpoint {target.id} belongs to {fsio.show(target.root)}, not to {fsio.show(site.root.path)}: restore it "
            f"there, or elsewhere with --to DIR"
        )
    refuse_open_journal(site)
    if dry_run:
        report = _plan_restore(site, DrySession(site.store.read), target, scope, skip_damaged=skip_damaged)[0]
        check_places(site, report.actions)
        return report
    with site.store.restoring(site.root.key), site.store.session() as session:
        refuse_open_journal(site)
        _check_there(site, target)
        report, now = _plan_restore(site, session, target, scope, skip_damaged=skip_damaged)
        if not report.actions:
            return report._replace(dry_run=False)
        if confirm is not None and not confirm(Plan(report.actions, report.kept)):
            raise Declined
        operation = Operation(operations.RESTORE, 0, site.root.key, target.id, "", b"", target.id if not scope else "")
        return carry_out(site, session, operation, report, now)


def _plan_restore(
    site: Site, session: Session | DrySession, target: Checkpoint, scope: Sequence[bytes], *, skip_damaged: bool
) -> tuple[Restored, Present]:
    if scope:
        missing(site, [target], scope)
    with naming(site.store):
        now = presents.capture_for(site, session, target.tree, scope)
    aim = now.target
    lost = list(aim.lost)
    unstable: tuple[bytes, ...] = ()
    late: tuple[bytes, ...] = ()
    why_not: Callable[[bytes, Entry], str | None] = _nothing_is_known
    try:
        domain = site.store.domain(target.domain)
        why_not, unstable, late = Known(site.store, domain).why_not, domain.unstable, domain.late
    except (errors.BlobMissing, errors.BlobCorrupt) as error:
        lost.append(Kept(b".", f"nothing is deleted: which paths it speaks for is damaged in the store: {error}", benign=False))
    plan = plans.build(diffs.diff(now.load, now.tree, aim.tree), why_not, scope)
    if site.tree.folds_names():
        plan = plans.fold(plan, aim.named or ())
    if late:
        then = frozenset(late)
        plan = damage.leave(plan, [Kept(action.path, _LATE, benign=False) for action in plan.actions if action.path in then])
    actions, stores = Stores(site.tree, site.options.excluded).spare(plan.actions)
    if stores:
        plan = plans.keep(Plan(actions, plan.kept), stores)
    check_room(site.root.path, plan.actions)
    places = paths.Places(scope)
    lost = [item for item in lost if item.path == b"." or places.cover(item.path)]
    unreadable = damage.unreadable(site, plan.actions)
    if not skip_damaged:
        damage.refuse([*lost, *unreadable], _SKIP)
    plan = damage.leave(plan, unreadable)
    plan = settle_directories(site, now.load, now.tree, plan, benign=True)
    kept = [*plan.kept, *lost, *now.kept]
    kept += [
        Kept(path, "was changing while it was saved: its stored bytes may be torn", benign=False)
        for path in unstable
        if plans.pack(plan.actions).get(path) is not None
    ]
    written = (action.path for action in plan.actions if action.after is not None)
    if scope:
        named = [path for path in aim.named or () if places.cover(path)]
        seen = {*named, *(action.path for action in plan.actions), *(item.path for item in kept)}
        kept += [
            Kept(place, "not in the checkpoint", benign=False)  # a misspelled path must not look like one that needs nothing
            for place in places.missed(seen)
        ]
        unchanged = len(named) - len(set(written).intersection(named))
    else:
        unchanged = now.paths - sum(1 for _ in written)
    report = Restored(operations.RESTORE, target.id, "", plan.actions, tuple(sorted(kept)), unchanged, dry_run=True)
    return report, now


def _check_there(site: Site, target: Checkpoint) -> None:
    """Raise CheckpointNotFound when gc has forgotten the target since it was looked up. With the store held only."""
    if site.store.checkpoint(target.id) is None:
        raise errors.CheckpointNotFound(f"checkpoint {target.id} was forgotten by gc just now; casrewind list shows the others")


def _nothing_is_known(_path: bytes, _entry: Entry) -> str:
    return "not known to the checkpoint: what it speaks for is damaged in the store"


def materialise(site: Site, target: Checkpoint, directory: str, *, skip_damaged: bool = False) -> Restored:
    """Write a checkpoint's whole tree into another, empty (or new) directory. Works with a store that cannot be written.

    Raises ContentInTheWay when the directory holds something, UnsafePath for one that no checkpoint may be written to,
    StoreFull when there is no room, StoreDamaged unless `skip_damaged`; then nothing was written.
    """
    from ..worktree.files import Worktree

    _refuse_place(site, directory)
    try:
        if os.path.lexists(directory) and os.listdir(directory):
            raise errors.ContentInTheWay(f"{fsio.show(directory)} is not empty: give --to a new or an empty directory")
    except OSError as error:
        raise errors.WorkspaceError(f"cannot use {fsio.show(directory)}: {error.strerror}") from error
    with site.store.holding():
        _check_there(site, target)
        lost: list[Kept] = []
        with naming(site.store):
            entries = list(damage.survey(Trees(site.store.load_tree), target.tree, lost))
        kept = [Kept(path, "purged", benign=False) for path, entry in entries if entry.kind == manifest.PURGED]
        everything = [Action(path, None, entry, path) for path, entry in sorted(entries) if entry.kind != manifest.PURGED]
        check_room(_nearest(directory), everything)
        lost += damage.unreadable(site, everything)
        if not skip_damaged:
            damage.refuse(lost, _SKIP)
        actions = damage.leave(Plan(tuple(everything), ()), [item for item in lost if item.path]).actions
        try:
            private.make_usual(directory)
        except OSError as error:
            raise errors.WorkspaceError(f"cannot use {fsio.show(directory)}: {error.strerror}") from error
        with Worktree(os.path.realpath(directory)) as tree:
            if tree.folds_names():
                plans.fold(Plan(actions, ()), (action.path for action in actions))
            elsewhere = site._replace(tree=tree, root=site.root._replace(path=tree.root))
            check_places(elsewhere, actions)
            outcome = apply(elsewhere, actions, target.id)
    return Restored("materialise", target.id, "", outcome.done, (*kept, *lost, *outcome.kept), 0, dry_run=False)


def _refuse_place(site: Site, directory: str) -> None:
    """Raise UnsafePath for a directory of version control or of the store, and for one behind a link that lies in the project:
    whoever wrote the project chose where that leads."""
    shown = fsio.show(directory)
    real = os.path.realpath(directory)
    kept = [place for place in (site.root.git_dir, site.root.common_dir) if place is not None]
    if any(map(paths.is_protected, os.fsencode(real).split(b"/"))) or any(_is_in(real, place) for place in kept):
        raise errors.UnsafePath(f"refused: {shown} lies in a directory of version control: give --to another directory")
    if _is_in(real, site.store.path) or storemark.around(directory):
        raise errors.UnsafePath(f"refused: {shown} lies in a casrewind store: give --to another directory")
    place = os.path.abspath(directory)
    while place != os.path.dirname(place):
        if os.path.islink(place) and _is_in(os.path.dirname(place), site.root.path):
            raise errors.UnsafePath(
                f"refused: {fsio.show(place)} is a link in the project and leads to {fsio.show(os.path.realpath(place))}: give --to "
                f"the directory itself"
            )
        place = os.path.dirname(place)


def _is_in(path: str, place: str) -> bool:
    return fsio.is_in(os.path.realpath(path), os.path.realpath(place))


def _nearest(directory: str) -> str:
    """The directory, or the nearest one above it that is there."""
    place = os.path.abspath(directory)
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return place
