"""What is known of a watched worktree, against what is there.

The danger prevented here: a change that nobody was told of (through a mapping of a file into memory, through a name of it that
lies somewhere else), and a checkpoint that is wrong for ever because of it.
"""

from collections.abc import Callable

from ..model import diff as diffs
from ..model.manifest import Entry
from ..store.session import DrySession
from ..store.stamprows import News, Page
from ..worktree import scan as scans
from ..worktree import sheet as sheets
from ..worktree import sheetmaker
from ..worktree.watch import Watch
from .site import Site


def renew(site: Site, watch: Watch) -> None:
    """After a save that has `settled`, when nobody waits: make the sheet anew where looking at what has changed since it was made
    takes longer than anything else does. Raises StoreError and its kin.

    If somebody has saved meanwhile, the generation is another one than `watch` is told of here, and everything is looked at.
    """
    name = b"" if watch.kept is None else watch.kept[0]
    remembered = site.remembered(name)
    if watch.settled is None or remembered.generation != watch.settled:
        return
    found = remembered.sheet
    if found is not None:
        is_kept = watch.kept is not None and found.name == name
        sheet = watch.kept[1] if watch.kept is not None and is_kept else sheets.Sheet(found.data, ())
        if sheet.spares(len(found.stale)):
            return
    head = site.store.head(site.root.key)
    if head is None or head.files > sheets.MOST:
        return
    page = Page(sheetmaker.build(remembered.get))
    site.store.remember(site.root.key, News({}, page, remembered.life))
    watch.settled, watch.page = watch.settled + 1, page.data


def settle(site: Site, watch: Watch) -> None:
    """After a save with a watch, when nobody waits any more: do what was put off. Raises CasrewindError, OSError."""
    try:
        with site.store.holding():
            renew(site, watch)
    finally:
        watch.proof = site.store.index.settle()


def unnoticed(site: Site, watch: Watch, is_quiet: Callable[[], bool]) -> list[bytes]:
    """The paths, sorted, at which there is something else than what is known by watching; none when nothing is known,
    or when `is_quiet` says that something has changed meanwhile. Publishes nothing, writes nothing.

    Contents are compared, not stamps: a second name changes a file's stamp and no byte of it.
    """
    session = DrySession(site.store.read)
    remembered = site.remembered()
    watch.meet(remembered.generation)
    if watch.full or remembered.sheet is None:
        return []
    known = sheets.Sheet(remembered.sheet.data, remembered.sheet.stale)
    told = scans.scan(site.tree, session, session.load_tree, site.options, remembered.get, None, known, watch)
    if watch.full:
        return []
    known = sheets.Sheet(remembered.sheet.data, remembered.sheet.stale)
    found = scans.scan(site.tree, session, session.load_tree, site.options, remembered.get, None, known)
    if not is_quiet():
        return []
    changes = diffs.diff(session.load_tree, told.tree, found.tree)
    return sorted(change.path for change in changes if _essence(change.old) != _essence(change.new))


def _essence(entry: Entry | None) -> tuple[object, ...] | None:
    # not the chunks: those of a file that was not stored are not known
    return None if entry is None else (entry.kind, entry.mode, entry.digest)
