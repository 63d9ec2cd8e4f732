"""Captures the worktree's state before a restore: every byte that the restore will replace is stored first.

The danger prevented here: a stamp that wrongly means "unchanged". Every path that the plan will touch is read and
hashed again, including ignored paths in the target. An unreadable path is an obstacle, not an absent path.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from .. import errors, fsio
from .._typing import NamedTuple
from ..context import Context
from ..history import present_scan
from ..history.restorable import NOTHING, ReadableTarget, readable_part_of_target
from ..messages import is_process_limit, shell_quoted_path
from ..model import manifest, paths
from ..model.diff import diff
from ..model.manifest import DIR, PURGED, Entry, Loader, same_for_restore
from ..model.manifest_edits import with_changed_paths
from ..model.plan import Kept
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree import scan as scans
from ..worktree.protected_places import ProtectedPlaces
from ..worktree.reader import HashSink, NotCapturable
from ..worktree.spelling import NameSpelling, with_other_spellings

_OBSTACLES_NAMED = 10
_ADVICE = "{}, or restore only other paths with -- PATH"
_REMEDY = ")"  # ends the description of an obstacle that names what removes it
_FORGET = 1000  # after this many absent paths, drop those with no later path below them


class Stranger(NamedTuple):
    """What is at a path that cannot be captured, in words, and why an undo, a revert or a take leaves the path alone."""

    what: str
    why_left: str


class CapturedState(NamedTuple):
    """The manifest of the current state, as far as the target concerns it, and the scan behind it. `load` loads its
    trees and the target's trees. `target` is the readable part of the target, if there is one; `files` is its number of
    files and links. `kept`: directories of the target that are mount points now; they are not changed. `respelled`: see
    `add_present_paths`. `scope`: the paths that were asked for, in each spelling."""

    tree: bytes
    scan: scans.Scan
    load: Loader
    target: ReadableTarget = NOTHING
    files: int = 0
    kept: tuple[Kept, ...] = ()
    respelled: Mapping[bytes, bytes] = MappingProxyType({})
    scope: tuple[bytes, ...] = ()


def add_present_paths(
    context: Context,
    writer: StoreWriter | DryRunWriter,
    tree: bytes,
    wanted: Iterable[bytes],
    respelled: dict[bytes, bytes],
    strangers: dict[bytes, Stranger] | None = None,
) -> bytes:
    """The manifest `tree` with the current state of the paths `wanted`, read afresh. `wanted` must be sorted, parents
    first. Those that are files under another spelling are added to `respelled`, {path: path on disk}, and are absent; plans.fold_plan
    joins both. Paths that cannot be stored are added to `strangers`, or raise ContentInTheWay if that is
    None."""
    load = writer.load_tree
    finder = manifest.Finder(load, tree)
    changes: dict[bytes, Entry | None] = {}
    found = {} if strangers is None else strangers
    absent: set[bytes] = set()
    looked = 0
    spelling = NameSpelling(context.tree)
    for path in _with_parents(wanted, finder):
        if absent and not absent.isdisjoint(paths.parents(path)):
            if not respelled.keys().isdisjoint(paths.parents(path)) and context.tree.may_exist(path):
                _note_if_respelled(spelling, path, respelled)
            continue
        old, entry = finder.find(path), _capture_or_describe(context, writer, path)
        if old is None and entry is not None and _note_if_respelled(spelling, path, respelled):
            entry = None
        if isinstance(entry, Stranger):
            found[path], entry = entry, None
        if entry is None:
            absent.add(path)
            looked += 1
            if looked % _FORGET == 0:  # keep only paths that may have a later path below them
                absent = {place for place in absent if place + b"0" > path}
        if entry is not None and entry.kind == DIR and old is not None and old.kind == DIR:
            entry = entry._replace(digest=old.digest)
        if entry != old:
            changes[path] = entry
    if found and strangers is None:
        raise obstacles_error(list(dict.fromkeys(stranger.what for stranger in found.values())))
    return with_changed_paths(load, writer.put_tree, tree, changes) if changes else tree


def _note_if_respelled(spelling: NameSpelling, path: bytes, respelled: dict[bytes, bytes]) -> bool:
    """Add a path that exists to `respelled` if it has another spelling on disk."""
    spelled = spelling.find(path)
    if spelled != path:
        respelled[path] = spelled
    return spelled != path


def _with_parents(wanted: Iterable[bytes], finder: manifest.Finder) -> Iterator[bytes]:
    """The sorted paths. Each follows those of its parents that the manifest lacks, for example because they are
    ignored: a path needs its parents in the manifest."""
    above: set[bytes] = set()
    for path in wanted:
        parents = paths.parents(path)
        for parent in parents:
            if parent not in above and finder.find(parent) is None:
                yield parent
        above = {*parents, path}
        yield path


def _capture_or_describe(context: Context, writer: StoreWriter | DryRunWriter, path: bytes) -> Entry | Stranger | None:
    try:
        point = context.tree.other_file_system_above(path)
        if point is not None:
            return _edited_since(describe_mount(point))
        captured = context.tree.capture(path, writer)
    except NotCapturable:
        return _edited_since(f"{paths.lossy_text(path)} is a special file")
    except fsio.NotOnDisk:
        what = describe_in_cloud(context.tree.place_in_cloud(path) or path)
        return Stranger(what, what)  # nobody knows whether it was edited
    except OSError as error:
        if is_process_limit(error):
            raise
        return _edited_since(_describe_unreadable_path(context, path, error))
    # If a file kept changing, the last version read counts. If it has changed again at its turn, it is kept.
    return None if captured is None else captured.entry


def _edited_since(what: str) -> Stranger:
    return Stranger(what, f"edited since: {what}")


def _describe_unreadable_path(context: Context, path: bytes, error: OSError) -> str:
    """Describe a path that cannot be read. If a directory of this user is closed to him, that is the obstacle."""
    for place in (*paths.parents(path), path) if error.errno == errno.EACCES else ():
        try:
            status = context.tree.status_of(place)
        except OSError:
            break
        wanted = stat.S_IRWXU if status is not None and stat.S_ISDIR(status.st_mode) else stat.S_IRUSR
        if status is not None and status.st_mode & wanted & ~stat.S_IWUSR != wanted & ~stat.S_IWUSR:
            if remedy := command_to_open(paths.lossy_text(place), status):
                return f"{paths.lossy_text(place)} cannot be read{remedy}"
            break
    return f"{paths.lossy_text(path)} cannot be read: {error.strerror}"


def command_to_open(place: str, status: os.stat_result) -> str:
    """The command with which this user opens a file or directory of his own, in brackets; "" for another user's."""
    if status.st_uid != os.geteuid():
        return ""
    return f" (chmod u+rw{'x' if stat.S_ISDIR(status.st_mode) else ''} {shell_quoted_path(place)} allows it{_REMEDY}"


def describe_in_cloud(place: bytes) -> str:
    """Describe a file or directory that is an obstacle because only a cloud has its contents."""
    shown = paths.lossy_text(place)
    return f"{shown} is not on this disk, but in a cloud (brctl download {shell_quoted_path(shown)}, or Finder, brings it here{_REMEDY}"


def describe_mount(point: bytes) -> str:
    """Describe a mount point that is an obstacle."""
    return f"{paths.lossy_text(point)} is a mount point, or another file system"


def obstacles_error(obstacles: list[str], advice: str = "") -> errors.ContentInTheWay:
    """The error that lists the obstacles. `advice` replaces the default advice, which suits the start of a restore; {} in
    it is what to do about the obstacles."""
    shown = "; ".join(obstacles[:_OBSTACLES_NAMED])
    more = f"; and {len(obstacles) - _OBSTACLES_NAMED} more" if len(obstacles) > _OBSTACLES_NAMED else ""
    deed = "do that" if all(obstacle.endswith(_REMEDY) for obstacle in obstacles) else "move it away"
    return errors.ContentInTheWay(f"content in the way, nothing was changed: {shown}{more}", (advice or _ADVICE).format(deed))


def capture_for(context: Context, writer: StoreWriter | DryRunWriter, target: bytes, scope: Sequence[bytes]) -> CapturedState:
    """The current state for a restore to the manifest `target`, limited to `scope`.

    It is the scan, plus every path that only the target has. Every path that would change is read again, unless the
    scan read it. A parent of a path in `scope` counts only if the target has that path (see add_present_paths).
    """
    scan = present_scan.scan_now(context, writer)
    read = scan.read
    load = writer.load_tree
    load.load_differing_trees(scan.tree, target)
    aim = readable_part_of_target(load, writer.put_tree, target, scan.tree, names=bool(scope) or context.tree.ignores_case_in_names())
    scope = with_other_spellings(context.tree, scope, aim.named or ())
    places = paths.PathScope(scope)
    is_dry = isinstance(writer, DryRunWriter)
    protected = ProtectedPlaces(context.tree, context.policy.excluded, scope)
    gained = 0
    covered: dict[bytes, Entry] = {}
    kept: list[Kept] = []

    def wanted() -> Iterator[bytes]:
        """Paths that the scan did not find, and changing paths that it knew only by their stamps."""
        nonlocal gained
        for path, old, new in diff(load, scan.tree, aim.tree):
            if old is None and protected.place_around(path) is not None and not protected.is_named_in_worktree(path):
                continue  # nothing is read there, because nothing will be written
            gained += _is_file(new) - _is_file(old)
            if not places.covers(path):
                continue
            if old is not None:
                if not is_dry and old.kind != DIR and path not in read:
                    yield path
            # Skip what is purged in the target: storing it now would bring back what the user removed
            elif new is not None and new.kind != PURGED:
                if _is_covered(context, path, new, kept):
                    covered[path] = new
                else:
                    yield path

    respelled: dict[bytes, bytes] = {}
    tree = add_present_paths(context, writer, scan.tree, wanted(), respelled)
    if covered:
        tree = with_changed_paths(load, writer.put_tree, tree, covered)
    files = scan.entries + gained if aim.named is None else sum(kind != DIR for kind in aim.named.values())
    return CapturedState(tree, scan, load, aim, files, tuple(kept), respelled, scope)


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry.kind != DIR


def _is_covered(context: Context, path: bytes, new: Entry, kept: list[Kept]) -> bool:
    """True if a path of the target is on another file system now and already matches the target. A directory that is a
    mount point now also matches, and is added to `kept`. Nothing of it is stored."""
    try:
        point = context.tree.other_file_system_above(path)
        captured = None if point is None else context.tree.capture(path, HashSink())
    except (NotCapturable, OSError) as error:
        if isinstance(error, OSError) and is_process_limit(error):
            raise
        return False
    if captured is None:
        return False
    if point == path and captured.entry.kind == new.kind == DIR:
        kept.append(Kept(path, describe_mount(path), benign=True))
        return True
    return same_for_restore(captured.entry, new)
