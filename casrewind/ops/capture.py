"""The present state of the worktree, captured so that a restore can touch it: every byte that will go is stored first.

The danger prevented here: "it has not changed" read off a stamp. Every path that a plan will touch is read and hashed
again, ignored paths that the target names included, and what cannot be read is in the way, not absent.
"""

from collections.abc import Iterable, Iterator, Sequence

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import manifest, paths
from ..model.diff import diff
from ..model.manifest import DIR, PURGED, Entry, Loader, same
from ..model.plan import Kept
from ..store.writer import DryRunWriter, StoreWriter
from ..worktree import scan as scans
from ..worktree.nested_stores import NestedStores
from ..worktree.reader import HashSink, NameSpelling, NotCapturable
from . import save
from .context import Context
from .prefetch import Trees
from .restorable import NOTHING, ReadableTarget, sound

_SHOWN = 10
_ADVICE = "Move it away, or restore only other paths with -- PATH"
_FORGET = 1000  # absent paths, after which those are forgotten that nothing comes below any more


class CapturedState(NamedTuple):
    """The manifest of everything that is there now, as far as the target has to do with it, and the scan behind it.

    `load` gives its trees, and those of the target. `target` is what can be had of the target, when there is one, `paths` how
    many paths that has. `kept`: directories of the target that something is mounted over, which stay as they are.
    """

    tree: bytes
    scan: scans.Scan
    load: Loader
    target: ReadableTarget = NOTHING
    paths: int = 0
    kept: tuple[Kept, ...] = ()


def scan_now(context: Context, session: StoreWriter | DryRunWriter) -> scans.Scan:
    """Scan the worktree with the help of what is remembered of it."""
    return scans.scan(context.tree, session, context.options, save.read_index(context), None, context.progress)


def add_paths(
    context: Context,
    session: StoreWriter | DryRunWriter,
    tree: bytes,
    wanted: Iterable[bytes],
    strangers: dict[bytes, str] | None = None,
    load: Loader | None = None,
) -> bytes:
    """The manifest `tree` with what stands at the paths `wanted` now, read afresh.

    `wanted` is sorted: parents come before children. What cannot be stored goes into `strangers`, {path: what it is};
    without that, it raises ContentInTheWay.
    """
    load = load or session.load_tree
    finder = manifest.Finder(load, tree)
    changes: dict[bytes, Entry | None] = {}
    obstacles: list[str] = []
    absent: set[bytes] = set()
    looked = 0
    spelling = NameSpelling(context.tree) if context.tree.folds_names() else None
    for path in _with_parents(wanted, finder):
        if absent and not absent.isdisjoint(paths.parents(path)):
            continue
        # on a file system that folds names, the same file under another name is another path: plan.fold joins the two
        respelled = spelling is not None and not spelling.is_exact(path)
        found: list[str] = []
        entry = None if respelled else _capture(context, session, path, found)
        if found and strangers is not None:
            strangers[path] = found[0]
        else:
            obstacles += (item for item in found if item not in obstacles)
        if entry is None:
            absent.add(path)
            looked += 1
            if looked % _FORGET == 0:  # only what may have something below it that comes later
                absent = {place for place in absent if place + b"0" > path}
        old = finder.find(path)
        if entry is not None and entry.kind == DIR and old is not None and old.kind == DIR:
            entry = entry._replace(digest=old.digest)
        if entry != old:
            changes[path] = entry
    if obstacles:
        raise in_the_way(obstacles)
    return manifest.patch(load, session.put_tree, tree, changes) if changes else tree


def _with_parents(wanted: Iterable[bytes], finder: manifest.Finder) -> Iterator[bytes]:
    """The sorted paths, each behind those directories above it that are not captured (ignored, say): these have to be, for
    what is in them to have a place."""
    above: set[bytes] = set()
    for path in wanted:
        parents = paths.parents(path)
        for parent in parents:
            if parent not in above and finder.find(parent) is None:
                yield parent
        above = {*parents, path}
        yield path


def _capture(context: Context, session: StoreWriter | DryRunWriter, path: bytes, obstacles: list[str]) -> Entry | None:
    name = paths.display(path)
    try:
        point = context.tree.elsewhere(path)
        if point is not None:
            obstacles.append(mounted(point))
            return None
        captured = context.tree.capture(path, session)
    except NotCapturable:
        obstacles.append(f"{name} is a special file")
        return None
    except OSError as error:
        if fsio.is_ours(error):
            raise
        obstacles.append(f"{name} cannot be read: {error.strerror}")
        return None
    if captured is None:
        return None
    # One that never held still is taken as it was seen last: if it is not that any more when its turn comes, it is kept.
    return captured.entry


def mounted(point: bytes) -> str:
    """How a mount point is named where it is in the way."""
    return f"{paths.display(point)} is a mount point, or another file system"


def in_the_way(obstacles: list[str], advice: str = "") -> errors.ContentInTheWay:
    """The refusal that names what is in the way. `advice` says what to do, where that is something else than at the beginning
    of a restore."""
    shown = "; ".join(obstacles[:_SHOWN])
    more = f"; and {len(obstacles) - _SHOWN} more" if len(obstacles) > _SHOWN else ""
    return errors.ContentInTheWay(f"content in the way, nothing was changed: {shown}{more}. {advice or _ADVICE}")


def capture_for(context: Context, session: StoreWriter | DryRunWriter, target: bytes, scope: Sequence[bytes]) -> CapturedState:
    """The present state for a restore to the manifest `target`, limited to `scope`.

    The scan, plus every path that only the target names (ignored now, or really absent), plus a fresh look at every
    path that would change and whose bytes were not read by the scan itself. What stands above a path of the scope counts
    only where the target has that path (add_paths sees to it): else it is nobody's business.
    """
    scan = scan_now(context, session)
    read = scan.read
    places = paths.PathScope(scope)
    load = Trees(session.load_tree)
    aim = sound(load, session.put_tree, target, scan.tree, names=bool(scope) or context.tree.folds_names())
    is_dry = isinstance(session, DryRunWriter)
    stores = NestedStores(context.tree, context.options.excluded)
    gained = 0
    covered: dict[bytes, Entry] = {}
    kept: list[Kept] = []

    def wanted() -> Iterator[bytes]:
        """The paths that the scan did not see, and those that it knew by their stamps and that will change."""
        nonlocal gained
        for path, old, new in diff(load, scan.tree, aim.tree):
            if old is None and stores.around(path) is not None:
                continue  # nothing is read there, for nothing will be written
            gained += (old is None) - (new is None)
            if not places.cover(path):
                continue
            if old is not None:
                if not is_dry and old.kind != DIR and path not in read:
                    yield path
            # what is purged in the target is left alone: storing it now would bring back what somebody wanted gone
            elif new is not None and new.kind != PURGED:
                if _is_covered(context, path, new, kept):
                    covered[path] = new
                else:
                    yield path

    tree = add_paths(context, session, scan.tree, wanted(), load=load)
    if covered:
        tree = manifest.patch(load, session.put_tree, tree, covered)
    return CapturedState(tree, scan, load, aim, scan.entries + gained if aim.named is None else len(aim.named), tuple(kept))


def _is_covered(context: Context, path: bytes, new: Entry, kept: list[Kept]) -> bool:
    """True for a path of the target that is on another file system now and asks for no change there: what can be seen is what
    the target has. A directory that something is mounted over counts as that, and is `kept`. Nothing of it is stored."""
    try:
        point = context.tree.elsewhere(path)
        captured = None if point is None else context.tree.capture(path, HashSink())
    except (NotCapturable, OSError) as error:
        if isinstance(error, OSError) and fsio.is_ours(error):
            raise
        return False
    if captured is None:
        return False
    if point == path and captured.entry.kind == new.kind == DIR:
        kept.append(Kept(path, mounted(path), benign=True))
        return True
    return same(captured.entry, new)
