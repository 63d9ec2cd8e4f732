"""What a save remembers for the next one: the stat index, read before a scan and replaced after it.

The danger prevented here: a stat index that names what is not stored. It is written only after the checkpoint that it stands for,
and only when the tree of its root is that checkpoint's.
"""

from collections.abc import Callable

from ..model import diff as diffs
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..store.session import DrySession
from ..store.stat_file import Basis
from ..worktree import scan as scans
from ..worktree.scan import Scan
from ..worktree.stat_index import StatIndex
from .site import Site

TYPE_CHECKING = False
if TYPE_CHECKING:  # where nobody watches there is no need of it
    from ..worktree.watch import Watch

_MOST_NEWER = 16
"""Directories, besides one in 256, of which a helper has newer records than its stat index: each is scanned at every save."""


def read(site: Site) -> StatIndex:
    """What is remembered of the worktree: by the helper that watches it, or in the store. Raises StoreError and its kin."""
    site.tree.follow_root()
    key, life = site.root.key, site.tree.life
    memory = None if site.watch is None else site.watch.memory
    if memory is not None and memory.basis is not None and site.store.is_valid(key, Basis(*memory.basis), life):
        memory.begin()
        return memory
    if site.watch is not None:
        site.watch.doubt()
    basis = site.store.stat_basis(key, life)
    value = None if basis is None else site.store.stat_index(key, basis)
    return StatIndex(value or b"", basis if value else None)


def remember(site: Site, scan: Scan, point: Checkpoint) -> None:
    """Remember what a scan found, whose state is that of a checkpoint. Failing here loses nothing."""
    root = scan.records.get(b"") or scan.known.record(b"")
    if root is None or root.tree != point.tree or not scan.life:
        return
    basis, value, records = scan.known.basis, scan.known.value, scan.records
    if records or basis is None:
        basis = site.store.basis(point, scan.life)
        if site.watch is None or site.watch.full:
            value, records = scan.known.updated(records), {}
            site.store.remember(site.root.key, basis, value)
    if site.watch is not None:
        is_kept = scan.known is site.watch.memory and value == scan.known.value
        site.watch.keep(basis, b"" if is_kept else value, records)


def settle(site: Site, watch: "Watch") -> None:
    """After a save with a watch that has been answered: do what was put off. Raises CasrewindError, OSError."""
    try:
        with site.store.holding():
            renew(site, watch)
    finally:
        watch.proof = site.store.index.settle()


def renew(site: Site, watch: "Watch", *, wholly: bool = False) -> None:
    """Write what a helper has in memory, where scanning what is newer takes longer than all else;
    with `wholly`, whatever is newer. Raises StoreError and its kin."""
    memory = watch.result().memory(watch.memory)
    newer = 0 if memory is None else len(memory.newer)
    if memory is None or memory.basis is None or newer <= (0 if wholly else _MOST_NEWER + len(memory) // 256):
        return
    memory.begin()
    basis, value = Basis(*memory.basis), memory.updated({})
    site.store.remember(site.root.key, basis, value)
    watch.replace(basis, value)


def unnoticed(site: Site, watch: "Watch", is_quiet: Callable[[], bool]) -> list[bytes]:
    """The paths, sorted, at which there is something else than what is known by watching; none when nothing is known,
    or when `is_quiet` says that something has changed meanwhile. Publishes nothing; writes what is known for other processes.

    The danger prevented here: a change that is never reported (through a mapping of a file into memory, through a name of it that
    lies somewhere else), and a checkpoint that is wrong for ever because of it. Contents are compared, not stamps: a second name
    changes a file's stamp and no byte of it.
    """
    session = DrySession(site.store.read)
    site = site._replace(watch=watch)  # what has changed is counted from the helper's memory, not from what the store has
    index = read(site)
    if watch.full:
        return []
    told = scans.scan(site.tree, session, site.options, index, watch)
    if watch.full:
        return []
    index.begin()
    found = scans.scan(site.tree, session, site.options, index)
    if not is_quiet():
        return []
    changes = diffs.diff(session.load_tree, told.tree, found.tree)
    unseen = sorted(change.path for change in changes if _essence(change.old) != _essence(change.new))
    if not unseen:
        renew(site, watch, wholly=True)
    return unseen


def _essence(entry: Entry | None) -> tuple[object, ...] | None:
    # not the chunks: those of a file that was not stored are not known
    return None if entry is None else (entry.kind, entry.mode, entry.digest)
