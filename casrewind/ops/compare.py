"""Compare two checkpoints, or a checkpoint with the worktree. Publishes nothing.

The danger prevented here: a mistyped path looks like an unchanged path. Requested paths that exist nowhere are
reported.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import diff as diffs
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.domain import Skip
from ..model.manifest import DIR, Entry, Loader
from ..model.plan import Action
from ..store.writer import DryRunWriter
from ..worktree.reader import NotCapturable
from .capture import scan_now
from .context import Context
from .restorable import naming
from .save import all_skips

_SHOWN = 3  # paths named in a message
_MOST_SEARCHED = 300
"""Maximum number of directories searched for a similar path."""

_Bytes = Callable[[bytes, Entry], bytes | None]


class Comparison(NamedTuple):
    """The `changes` from one state to another, sorted by path. `skipped`: worktree paths that could not be read.
    `old(path, entry)` and `new(path, entry)` return a file's bytes on each side while the workspace is open, None if
    not available. `missing`: the requested paths that exist nowhere, sorted."""

    changes: tuple[Change, ...]
    skipped: tuple[Skip, ...]
    old: Callable[[bytes, Entry], bytes | None]
    new: Callable[[bytes, Entry], bytes | None]
    missing: tuple[bytes, ...] = ()


class ScannedWorktree(NamedTuple):
    """A scan of the worktree: the digest of its manifest, a loader for its trees and stored trees, and the skipped
    paths."""

    tree: bytes
    load: Loader
    skipped: tuple[Skip, ...]


def scan_worktree(context: Context) -> ScannedWorktree:
    """Scan the worktree once, for any number of comparisons."""
    session = DryRunWriter(context.store.read)
    scan = scan_now(context, session)
    return ScannedWorktree(scan.tree, session.load_tree, all_skips(scan.domain))


def compare(context: Context, old: Checkpoint, new: Checkpoint | None, scope: Sequence[bytes] = ()) -> Comparison:
    """What changed from `old` to `new`, or to the current worktree (None), limited to `scope`. Raises PathNotFound if
    no path in `scope` exists in a compared checkpoint or in the worktree."""
    absent = missing(context, [old] if new is None else [old, new], scope) if scope else ()
    stored, present = _readers(context)
    if new is not None:
        with naming(context.store):
            return Comparison(_sorted(diffs.diff(context.store.load_tree, old.tree, new.tree), scope), (), stored, stored, absent)
    seen = scan_worktree(context)
    with naming(context.store):
        found = _sorted(diffs.diff(seen.load, old.tree, seen.tree), scope)
    return Comparison(found, seen.skipped, stored, present, absent)


def of_changes(context: Context, changes: Iterable[Change], scope: Sequence[bytes] = (), *, to_now: bool = False) -> Comparison:
    """A comparison of known changes, limited to `scope`. `to_now`: the new sides are those of the worktree."""
    stored, present = _readers(context)
    return Comparison(_sorted(changes, scope), (), stored, present if to_now else stored)


def with_parent(context: Context, point: Checkpoint) -> Comparison:
    """What changed from a checkpoint's parent to it; of the first checkpoint, everything that it holds.

    Raises CheckpointNotFound when the parent was forgotten.
    """
    tree = None
    if point.parent:
        parent = next((other for other, _ in context.store.checkpoints() if other.id == point.parent), None)
        if parent is None:
            raise errors.CheckpointNotFound(
                f"the checkpoint before {point.id} was forgotten: what changed since is not known; casrewind show {point.id} lists "
                f"what it holds"
            )
        tree = parent.tree
    stored, _ = _readers(context)
    with naming(context.store):
        return Comparison(_sorted(diffs.diff(context.store.load_tree, tree, point.tree), ()), (), stored, stored)


def towards(context: Context, seen: ScannedWorktree, point: Checkpoint, scope: Sequence[bytes] = ()) -> Comparison:
    """The changes from the scanned worktree `seen` to a checkpoint, limited to `scope`. A restore would make these
    changes, except on paths that it must keep."""
    stored, present = _readers(context)
    with naming(context.store):
        return Comparison(_sorted(diffs.diff(seen.load, seen.tree, point.tree), scope), seen.skipped, present, stored)


def planned(context: Context, actions: Iterable[Action]) -> Comparison:
    """What the actions of a plan change in the worktree."""
    stored, present = _readers(context)
    changes = (Change(action.path, action.before, action.after) for action in actions if action.before != action.after)
    return Comparison(tuple(changes), (), present, stored)


def _readers(context: Context) -> tuple[_Bytes, _Bytes]:
    """Returns (reader of stored files, reader of worktree files)."""

    def stored(_path: bytes, entry: Entry) -> bytes | None:
        return b"".join(context.store.content(entry))

    def present(path: bytes, entry: Entry) -> bytes | None:
        keeper = _Keeper()
        try:
            captured = context.tree.capture(path, keeper)
        except (OSError, NotCapturable):
            return None
        return keeper.data if captured is not None and captured.entry.digest == entry.digest else None

    return stored, present


class _Keeper(DryRunWriter):
    def __init__(self) -> None:
        super().__init__(lambda *_: b"")
        self.data = b""

    def put_file(self, data: bytes) -> bytes:
        self.data = data
        return super().put_file(data)


def _sorted(changes: Iterable[Change], scope: Sequence[bytes]) -> tuple[Change, ...]:
    path_scope = paths.PathScope(scope)
    chosen = (change for change in changes if path_scope.cover(change.path))
    return tuple(sorted(chosen, key=lambda change: change.path))


def missing(context: Context, points: Sequence[Checkpoint], scope: Sequence[bytes]) -> tuple[bytes, ...]:
    """The paths in `scope`, sorted, that exist neither in a checkpoint of `points` nor in the worktree. Raises
    PathNotFound if that is every path in `scope`."""
    finders = [manifest.Finder(context.store.load_tree, point.tree) for point in points]
    found = [path for path in sorted(set(scope)) if path and not _exists(context, path)]
    found = [path for path in found if not any(_may_hold(finder, path) for finder in finders)]
    if found and len(found) == len(set(scope)):
        raise errors.PathNotFound(_message(context, points, found))
    return tuple(found)


def is_anywhere(context: Context, points: Sequence[Checkpoint], path: bytes) -> bool:
    """True if a checkpoint in `points` or the worktree has exactly this path."""
    return _exists(context, path) or any(_may_hold(manifest.Finder(context.store.load_tree, point.tree), path) for point in points)


def _exists(context: Context, path: bytes) -> bool:
    try:
        return context.tree.status_of(path) is not None
    except OSError:
        return True  # a parent directory is not searchable: the path may exist


def _may_hold(finder: manifest.Finder, path: bytes) -> bool:
    try:
        return finder.find(path) is not None
    except errors.StoreDamaged:
        return True  # the command itself reports the damage


def _message(context: Context, points: Sequence[Checkpoint], found: Sequence[bytes]) -> str:
    names = ", ".join(fsio.printable(path) for path in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    held = " nor ".join(dict.fromkeys(point.id for point in points))
    said = f"no such path: {names}: neither {held} nor the worktree has {'it' if len(found) == 1 else 'one of them'}"
    for point in points:
        near = nearest(manifest.Finder(diffs.lenient(context.store.load_tree), point.tree), found[0])
        if near is not None:
            return f"{said}; the nearest known name is {fsio.printable(near)}, in {point.id}"
    return f"{said}; casrewind show {points[-1].id} lists what that checkpoint holds"


def nearest(finder: manifest.Finder, path: bytes) -> bytes | None:
    """A similar path in this manifest: a similar name in the same directory, or the same name elsewhere."""
    here = b""
    for part in path.split(b"/"):
        names = finder.directory(here)
        if part not in names:
            import difflib

            text = {name.decode("utf-8", "surrogateescape"): name for name in names}
            near = difflib.get_close_matches(part.decode("utf-8", "surrogateescape"), text, 1)
            if near:
                return paths.join(here, text[near[0]])
            break
        here = paths.join(here, part)
    wanted, directories = path.rpartition(b"/")[2], [b""]
    for directory in directories:
        names = finder.directory(directory)
        if wanted in names:
            return paths.join(directory, wanted)
        below = (paths.join(directory, name) for name, entry in names.items() if entry.kind == DIR)
        directories.extend(islice(below, max(_MOST_SEARCHED - len(directories), 0)))
    return None
