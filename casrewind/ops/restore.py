"""Restore: make the worktree what it was at a checkpoint."""

from collections.abc import Callable, Sequence

from .. import errors, fsio
from ..model import diff as diffs
from ..model import operation as operations
from ..model import paths
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..model.operation import Operation
from ..model.plan import Kept, Plan
from ..store.session import DrySession, Session
from ..worktree.stores import Stores
from . import damage
from . import present as presents
from .carry import Restored, carry_out, check_places, check_room, refuse_open_journal, settle_directories
from .known import Known
from .missing import missing
from .present import Present
from .refused import naming
from .site import Site

_LATE = "it changed after the moment that the checkpoint was made for, and was stored as it was then"
SKIP = "Say --skip-damaged to have all the rest, or name paths behind --"

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
        check_there(site, target)
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
        damage.refuse([*lost, *unreadable], SKIP)
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


def check_there(site: Site, target: Checkpoint) -> None:
    """Raise CheckpointNotFound when gc has forgotten the target since it was looked up. With the store held only."""
    if site.store.checkpoint(target.id) is None:
        raise errors.CheckpointNotFound(f"checkpoint {target.id} was forgotten by gc just now; casrewind list shows the others")


def _nothing_is_known(_path: bytes, _entry: Entry) -> str:
    return "not known to the checkpoint: what it speaks for is damaged in the store"
