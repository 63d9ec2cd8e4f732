"""What is known of a watched worktree, against what is there.

The danger prevented here: a change that nobody was told of (through a mapping of a file into memory, through a name of it that
lies somewhere else), and a checkpoint that is wrong for ever because of it.
"""

from collections.abc import Callable

from ..model import diff as diffs
from ..model.manifest import Entry
from ..store.session import DrySession
from ..worktree import scan as scans
from ..worktree import sheet as sheets
from ..worktree.watch import Watch
from .site import Site


def unnoticed(site: Site, watch: Watch, is_quiet: Callable[[], bool]) -> list[bytes]:
    """The paths, sorted, at which there is something else than what is known by watching; none when nothing is known,
    or when `is_quiet` says that something has changed meanwhile. Publishes nothing, writes nothing.

    Contents are compared, not stamps: a second name changes a file's stamp and no byte of it.
    """
    session = DrySession(site.store.read)
    remembered = site.store.stamps(site.root.key)
    watch.meet(remembered.generation)
    if watch.full or remembered.sheet is None:
        return []
    known = sheets.Sheet(*remembered.sheet)
    told = scans.scan(site.tree, session, session.load_tree, site.options, remembered.get, None, known, watch)
    if watch.full:
        return []
    found = scans.scan(
        site.tree, session, session.load_tree, site.options, remembered.get, None, sheets.Sheet(*remembered.sheet)
    )
    if not is_quiet():
        return []
    changes = diffs.diff(session.load_tree, told.tree, found.tree)
    return sorted(change.path for change in changes if _essence(change.old) != _essence(change.new))


def _essence(entry: Entry | None) -> tuple[object, ...] | None:
    # not the chunks: those of a file that was not stored are not known
    return None if entry is None else (entry.kind, entry.mode, entry.digest)
