"""Save: scan the worktree, store what is new, publish a checkpoint."""

import os
import secrets
import time
from typing import NamedTuple

from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import domain as domains
from ..model.checkpoint import Checkpoint
from ..model.diff import Counts
from ..model.domain import Domain, Skip
from ..model.manifest import Loader
from ..store import packs
from ..store.session import Session
from ..worktree import scan as scans
from .site import Site


class Saved(NamedTuple):
    """What a save did. `created` is False when the state was the newest checkpoint's and nothing asked for another."""

    checkpoint: Checkpoint
    created: bool
    changes: Counts
    skipped: tuple[Skip, ...]
    ignored: int
    elapsed_ms: int

    @property
    def faults(self) -> tuple[Skip, ...]:
        """The skips that mean that something asked for could not be had."""
        return tuple(skip for skip in self.skipped if skip.reason in domains.FAULTS)


def save(
    site: Site,
    *,
    label: str = "",
    trigger: str = checkpoints.MANUAL,
    pin: bool = False,
    rehash: bool = False,
    described: bool = False,
) -> Saved:
    """Make a checkpoint of the worktree. `described`: the label is a description that nobody chose.

    With neither `label` nor `pin`, a manual save of a state that the newest checkpoint of this worktree has already
    publishes nothing. `rehash` reads every file, whatever its stamp says. Raises StoreError and its kin.
    """
    started = time.monotonic()
    key = site.root.key
    with site.store.session() as session:
        remembered = site.store.stamps(key)
        remember = (lambda _: None) if rehash else remembered.get
        scan = scans.scan(site.tree, session, session.load_tree, site.options, remember, site.say("scanning"))
        newest = site.store.head(key, listed=True)
        if newest is not None and not label and not pin and trigger == checkpoints.MANUAL:
            again = _unchanged(site, session, newest, scan)
            if again is not None:
                return again._replace(elapsed_ms=_since(started))
        head = site.store.head(key)
        counts = diffs.count(diffs.diff(session.load_tree, head.tree if head else None, scan.tree))
        domain = session.put(packs.DOMAIN, domains.encode(scan.domain))
        draft = draft_checkpoint(site, trigger, label, scan, domain, counts)
        flags = (checkpoints.PINNED if pin else 0) | (checkpoints.DESCRIBED if described else 0)
        draft = draft._replace(flags=draft.flags | flags)
        point = publish(site, session, draft, head, stamps=scan.stamps)
    skipped = all_skips(scan.domain)
    return Saved(point, True, point.changes, skipped, scan.domain.ignored, _since(started))


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def all_skips(domain: Domain) -> tuple[Skip, ...]:
    """Everything that a domain has to say about paths that it does not (wholly) speak for, sorted by path."""
    return tuple(sorted((*domain.skipped, *(Skip(path, domains.UNSTABLE) for path in domain.unstable))))


def _unchanged(site: Site, session: Session, newest: Checkpoint, scan: scans.Scan) -> Saved | None:
    """The answer to a save of a state that is checkpointed already; None when something differs."""
    known = site.store.domain(newest.domain)
    if sorted(known.rules) != sorted(scan.domain.rules):
        return None
    if any(diffs.diff(session.load_tree, newest.tree, scan.tree)):
        return None
    # What is remembered may name only trees that are stored: those made just now (other mtimes) will not be.
    rows = {
        path: row
        for path, row in scan.stamps.items()
        if row is None or scan.trees.get(path, b"") not in session.unpublished()
    }
    if rows:
        site.store.remember(site.root.key, rows)
    return Saved(newest, False, Counts(0, 0, 0), all_skips(scan.domain), scan.domain.ignored, 0)


def draft_checkpoint(
    site: Site, trigger: str, label: str, scan: scans.Scan, domain: bytes, counts: Counts
) -> Checkpoint:
    """A checkpoint without its place in the ledger."""
    during = checkpoints.DURING_RESTORE if site.store.journals.exists(site.root.key) else 0
    return Checkpoint(
        seq=0,
        id="c" + secrets.token_hex(7),
        created_ns=time.time_ns(),
        worktree=site.root.key,
        root=os.fsencode(site.root.path),
        parent="",
        trigger=trigger,
        label=label,
        prompt="",
        agent="",
        session="",
        tree=scan.tree,
        domain=domain,
        files=scan.files,
        size=scan.size,
        changes=counts,
        skipped=len(scan.domain.skipped) + len(scan.domain.unstable),
        flags=during,
    )


def publish(
    site: Site,
    session: Session,
    draft: Checkpoint,
    head: Checkpoint | None,
    *,
    stamps: dict[bytes, bytes | None] | None = None,
) -> Checkpoint:
    """Publish a draft whose changes were counted against `head`; they are counted again if another one came first."""

    def finish(seq: int, parent: str) -> Checkpoint:
        counts = draft.changes
        if parent != (head.id if head else ""):
            counts = _recount(site, parent, draft, session.load_tree)
        return draft._replace(seq=seq, parent=parent, changes=counts)

    return site.store.publish(session, site.root.key, finish, stamps=stamps)


def _recount(site: Site, parent: str, draft: Checkpoint, load: Loader) -> Counts:
    point = site.store.checkpoint(parent)
    return diffs.count(diffs.diff(load, point.tree if point else None, draft.tree))
