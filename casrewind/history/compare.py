"""Compare two checkpoints, or a checkpoint with the worktree. Publishes nothing.

The danger prevented here: a mistyped path looks like an unchanged path. Requested paths that exist nowhere are
reported.
"""

import stat
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import printable
from ..model import diff as diffs
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.domain import Domain, Skip, all_skips
from ..model.manifest import DIR, FILE, Entry
from ..model.plan import Action, Merged
from ..store.dry_run_writer import DryRunWriter
from ..store.packs import ReadBlob
from ..store.reading import TreeCache
from ..worktree.reader import HashSink, NotCapturable
from .present_scan import scan_now
from .restorable import DomainComparer, JudgedChanges, has_safety, name_checkpoint_in_errors

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a large file needs it
    from ..store.chunker import ByteSource

_MISSING_NAMED = 3  # paths named in a message
_MOST_SEARCHED = 300
"""Maximum number of directories searched for a similar path."""

_Bytes = Callable[[bytes, Entry], bytes | None]


class Comparison(NamedTuple):
    """The `changes` from one state to another, sorted by path. `skipped`: worktree paths that could not be read.
    `old(path, entry)` and `new(path, entry)` return a file's bytes on each side while the workspace is open, None if
    not available. `missing`: the requested paths that exist nowhere, sorted. `unclear`: paths that one side did not
    capture (model/diff.py). Those are no changes."""

    changes: tuple[Change, ...]
    skipped: tuple[Skip, ...]
    old: Callable[[bytes, Entry], bytes | None]
    new: Callable[[bytes, Entry], bytes | None]
    missing: tuple[bytes, ...] = ()
    unclear: tuple[Change, ...] = ()


class ScannedWorktree(NamedTuple):
    """A scan of the worktree: the digest of its manifest, a loader for its trees and stored trees, the skipped paths, its
    domain, and a reader of its rule files and of stored blobs."""

    tree: bytes
    load: TreeCache
    skipped: tuple[Skip, ...]
    domain: Domain
    read: ReadBlob


def scan_worktree(context: Context) -> ScannedWorktree:
    """Scan the worktree once, for any number of comparisons."""
    writer = DryRunWriter(context.store.read, context.store.read_many)
    scan = scan_now(context, writer)
    return ScannedWorktree(scan.tree, writer.load_tree, all_skips(scan.domain), scan.domain, writer.read)


def worktree_as_saved(context: Context, point: Checkpoint) -> ScannedWorktree:
    """The worktree as it was saved just now, in place of a second scan."""
    writer, domain = DryRunWriter(context.store.read, context.store.read_many), context.store.domain(point.domain)
    return ScannedWorktree(point.tree, writer.load_tree, all_skips(domain), domain, writer.read)


def judge_now(
    context: Context, comparer: DomainComparer, changes: Iterable[Change], old: bytes, seen: ScannedWorktree,
    certain: Container[bytes] = frozenset(),
) -> JudgedChanges:  # fmt: skip
    """The known and the unclear changes from a checkpoint with the domain `old` to the scanned worktree. What the scan
    lacks and the disk has is not captured now."""

    def why_unclear(path: bytes, _entry: Entry) -> str | None:
        return "not captured now" if context.tree.may_exist(path) else None

    return comparer.judge(changes, old, seen.domain, present=why_unclear, certain=certain)


def compare(context: Context, old: Checkpoint, new: Checkpoint | None, scope: Sequence[bytes] = ()) -> Comparison:
    """What changed from `old` to `new`, or to the current worktree (None), limited to `scope`. Raises PathNotFound if
    no path in `scope` exists in a compared checkpoint or in the worktree."""
    absent = missing_paths(context, [old] if new is None else [old, new], scope) if scope else ()
    stored, _ = _readers_of_both_sides(context)
    if new is not None:
        with name_checkpoint_in_errors(context.store):
            changes = _sort_and_limit(diffs.diff(context.store.load_tree, old.tree, new.tree), ())
        told = DomainComparer(context.store.read).judge(changes, old.domain, new.domain, strict=has_safety(old, new))
        return Comparison(_sort_and_limit(told.changes, scope), (), stored, stored, absent, _sort_and_limit(told.unclear, scope))
    return compare_to_scan(context, old, scan_worktree(context), scope)._replace(missing=absent)


def compare_to_scan(context: Context, old: Checkpoint, seen: ScannedWorktree, scope: Sequence[bytes] = ()) -> Comparison:
    """What changed from `old` to the scanned worktree, limited to `scope`."""
    stored, present = _readers_of_both_sides(context)
    with name_checkpoint_in_errors(context.store):
        seen.load.load_differing_trees(old.tree, seen.tree)
        changes = _sort_and_limit(diffs.diff(seen.load, old.tree, seen.tree), ())
    told = judge_now(context, DomainComparer(seen.read), changes, old.domain, seen)
    return Comparison(_sort_and_limit(told.changes, scope), seen.skipped, stored, present, (), _sort_and_limit(told.unclear, scope))


def comparison_of_changes(
    context: Context, changes: Iterable[Change], scope: Sequence[bytes] = (), *, to_now: bool = False, unclear: Iterable[Change] = ()
) -> Comparison:
    """A comparison of known and unclear changes, limited to `scope`. `to_now`: the new sides are those of the worktree."""
    stored, present = _readers_of_both_sides(context)
    return Comparison(_sort_and_limit(changes, scope), (), stored, present if to_now else stored, (), _sort_and_limit(unclear, scope))


def compare_with_parent(context: Context, point: Checkpoint) -> Comparison:
    """What changed from a checkpoint's parent to it; of the first checkpoint, everything that it holds.

    Raises CheckpointNotFound when the parent was forgotten.
    """
    tree, domain, strict = None, b"", False
    if point.parent:
        parent = next((other for other, _ in context.store.checkpoints() if other.id == point.parent), None)
        if parent is None:
            raise errors.CheckpointNotFound(
                f"the checkpoint before {point.id} was forgotten: what changed since is not known",
                f"casrewind show {point.id} lists what it holds"
            )
        tree, domain, strict = parent.tree, parent.domain, has_safety(parent, point)
    stored, _ = _readers_of_both_sides(context)
    with name_checkpoint_in_errors(context.store):
        changes = _sort_and_limit(diffs.diff(context.store.load_tree, tree, point.tree), ())
    told = DomainComparer(context.store.read).judge(changes, domain, point.domain, strict=strict)
    return Comparison(told.changes, (), stored, stored, (), told.unclear)


def compare_to_checkpoint(context: Context, seen: ScannedWorktree, point: Checkpoint, scope: Sequence[bytes] = ()) -> Comparison:
    """The changes from the scanned worktree `seen` to a checkpoint, limited to `scope`. A restore would make these
    changes, except on paths that it must keep. A path that is not captured now is read, as a restore does."""
    stored, present = _readers_of_both_sides(context)
    with name_checkpoint_in_errors(context.store):
        changes = _sort_and_limit(diffs.diff(seen.load, seen.tree, point.tree), ())
    changes = tuple(
        change if change.old is not None else change._replace(old=_entry_if_changed_uncaptured(context, change)) for change in changes
    )
    changes = tuple(change for change in changes if not manifest.same_for_restore(change.old, change.new))
    told = DomainComparer(seen.read).judge(changes, seen.domain, point.domain, certain=frozenset(change.path for change in changes))
    return Comparison(_sort_and_limit(told.changes, scope), seen.skipped, present, stored, (), _sort_and_limit(told.unclear, scope))


def comparison_of_plan(
    context: Context, actions: Iterable[Action], merged: Iterable[Merged] = (), chosen: Mapping[bytes, bytes] | None = None,
    read: _Bytes | None = None,
) -> Comparison:  # fmt: skip
    """What the actions of a plan change in the worktree. The store does not have the files that become a merge, nor those
    of chosen hunks (`chosen`: their bytes, by path). `read`: the plan's."""
    stored, present = _readers_of_both_sides(context)
    made = {**{item.path: item.data for item in merged}, **(chosen or {})}

    def planned_bytes(path: bytes, entry: Entry) -> bytes | None:
        return made[path] if path in made else (read or stored)(path, entry)

    changes = (Change(action.path, action.before, action.after) for action in actions if action.before != action.after)
    return Comparison(tuple(changes), (), present, planned_bytes)


def _readers_of_both_sides(context: Context) -> tuple[_Bytes, _Bytes]:
    """Returns (reader of stored files, reader of worktree files)."""

    def read_stored(_path: bytes, entry: Entry) -> bytes | None:
        return b"".join(context.store.content(entry))

    return read_stored, partial(read_present, context)


def read_present(context: Context, path: bytes, entry: Entry) -> bytes | None:
    """The bytes of a file in the worktree, None if they are not those of this entry."""
    keeper = _Keeper()
    try:
        captured = context.tree.capture(path, keeper)
    except (OSError, NotCapturable):
        return None
    return keeper.data if captured is not None and captured.entry.digest == entry.digest else None


class _Keeper(DryRunWriter):
    def __init__(self) -> None:
        super().__init__(lambda *_: b"")
        self.data = b""

    def put_file(self, data: bytes) -> bytes:
        self.data = data
        return super().put_file(data)

    def put_stream(self, source: "ByteSource", size: int) -> tuple[int, bytes, bytes]:
        data, buffer = bytearray(), memoryview(bytearray(size + 1))
        while count := source.readinto(buffer):
            data += buffer[:count]
        return len(data), self.put_file(bytes(data)), b""


def _sort_and_limit(changes: Iterable[Change], scope: Sequence[bytes]) -> tuple[Change, ...]:
    path_scope = paths.PathScope(scope)
    chosen = (change for change in changes if path_scope.covers(change.path))
    return tuple(sorted(chosen, key=lambda change: change.path))


def _entry_if_changed_uncaptured(context: Context, change: Change) -> Entry | None:
    """The entry of a path that the scan did not capture; None if it is not on disk, or cannot be read. A file with the
    size, the mode and the time of the new side is not read: a preview of many ignored files should be quick."""
    new = change.new
    try:
        status = context.tree.status_of(change.path)
        if status is None:
            return None
        present = (status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode)) if stat.S_ISREG(status.st_mode) else None
        if new is not None and new.kind == FILE and present == (new.size, new.mtime_ns, new.mode):
            return new
        captured = context.tree.capture(change.path, HashSink())
    except (OSError, NotCapturable):
        return None
    return captured.entry if captured is not None else None


def missing_paths(context: Context, points: Sequence[Checkpoint], scope: Sequence[bytes]) -> tuple[bytes, ...]:
    """The paths in `scope`, sorted, that exist neither in a checkpoint of `points` nor in the worktree. Raises
    PathNotFound if that is every path in `scope`."""
    finders = [manifest.Finder(context.store.load_tree, point.tree) for point in points]
    found = [path for path in sorted(set(scope)) if path and not context.tree.may_exist(path)]
    found = [path for path in found if not any(_may_hold_path(finder, path) for finder in finders)]
    if found and len(found) == len(set(scope)):
        raise _not_found_error(context, points, found)
    return tuple(found)


def is_anywhere(context: Context, points: Iterable[Checkpoint], path: bytes) -> bool:
    """True if a checkpoint in `points` or the worktree has exactly this path."""
    finders = (manifest.Finder(context.store.load_tree, point.tree) for point in points)
    return context.tree.may_exist(path) or any(_may_hold_path(finder, path) for finder in finders)


def _may_hold_path(finder: manifest.Finder, path: bytes) -> bool:
    try:
        return finder.find(path) is not None
    except errors.StoreDamaged:
        return True  # the command itself reports the damage


def _not_found_error(context: Context, points: Sequence[Checkpoint], found: Sequence[bytes]) -> errors.PathNotFound:
    names = ", ".join(printable(path) for path in found[:_MISSING_NAMED]) + (", ..." if len(found) > _MISSING_NAMED else "")
    held = " nor ".join(dict.fromkeys(point.id for point in points))
    said = f"no such path: {names}: neither {held} nor the worktree has {'it' if len(found) == 1 else 'one of them'}"
    for point in points:
        near = nearest_path(manifest.Finder(diffs.loader_with_damaged_trees_empty(context.store.load_tree), point.tree), found[0])
        if near is not None:
            return errors.PathNotFound(f"{said}; the nearest known name is {printable(near)}, in {point.id}")
    return errors.PathNotFound(said, f"casrewind show {points[-1].id} lists what that checkpoint holds")


def nearest_path(finder: manifest.Finder, path: bytes) -> bytes | None:
    """A similar path in this manifest: a similar name in the same directory, or the same name elsewhere."""
    here = b""
    for part in path.split(b"/"):
        names = finder.entries_of_directory(here)
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
        names = finder.entries_of_directory(directory)
        if wanted in names:
            return paths.join(directory, wanted)
        below = (paths.join(directory, name) for name, entry in names.items() if entry.kind == DIR)
        directories.extend(islice(below, max(_MOST_SEARCHED - len(directories), 0)))
    return None
