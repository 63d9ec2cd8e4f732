"""Restore --to: write a checkpoint into new or empty directories.

The danger prevented here: a partial checkpoint that looks complete. Content is verified as it is written. After damage
everything written so far is removed, and after a write error everything in that directory; the other ones are completed.
A kill leaves what was written. So what a directory was made from before is forgotten first, and the new origin is noted last,
when the contents are on the disk: a take from half of a checkpoint would remove the other half here.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from .. import errors, locations, store_detection
from ..context import Context
from ..history.restorable import name_checkpoint_in_errors, readable_entries
from ..messages import enumerated, is_disk_full, printable, reason_of
from ..model import paths
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, FILE, PURGED
from ..model.plan import Action, Kept, Plan
from ..store.reading import TreeCache, TreesAhead
from ..upkeep import directory_origins
from ..worktree.new_tree import GIT
from . import carried_files, preflight
from .new_directories import Destination, Row, Writing, rows_made
from .result import Materialised, WrittenDirectory
from .worktree_copies import WorktreeCopies

_REMEMBERED = 1000
"""Entries of trees: each directory is read once, but for equal ones."""


def materialise(
    context: Context, target: Checkpoint, directories: str | Sequence[str], *, skip_damaged: bool = False,
    from_worktree: bool = True, is_published: bool = True, is_synced: bool = True, dry_run: bool = False,
) -> Materialised:  # fmt: skip
    """Write a checkpoint's whole tree into new or empty directories, which may have a `.git`. Works with a read-only store.

    Each content is read once. With `from_worktree`, a file that has it and can share its blocks serves as well, and the
    files that `.worktreeinclude` lists are copied. After an error in one directory, everything written there is removed,
    the others are completed, and the error names them. A directory's origin is noted for `take`, unless `is_published` is False:
    for a checkpoint that has its blobs in the store, and no record yet. `is_synced`: sync the file systems at the end. With
    `dry_run` nothing is written.

    Raises ContentInTheWay if a directory is not empty, UnsafePath if it may not receive a checkpoint, UsageError if one
    lies in another, StoreFull, StoreDamaged unless `skip_damaged`, WorkspaceError.
    """
    given = [directories] if isinstance(directories, str) else list(directories)
    _refuse_unusable_directories(context, given)
    for directory in () if dry_run else given:
        directory_origins.remove_earlier_origin(context, directory)
    began = time.monotonic()
    with context.store.hold_shared_lock():
        if is_published:
            preflight.refuse_forgotten(context, target)
        lost: list[Kept] = []
        purged: list[Kept] = []
        with name_checkpoint_in_errors(context.store):
            load = TreeCache(TreesAhead(context.store.load_tree, context.store.read_many), _REMEMBERED)
            found = readable_entries(load, target.tree, lost, in_order=True)
            everything = plans.sort_and_pack(_make_actions_without_purged(found, purged))
        kinds = chain(((path, entry.kind) for path, entry in rows_made(everything)), ((item.path, PURGED) for item in purged))
        more = carried_files.find_within_limit(context, kinds) if from_worktree else carried_files.NOTHING
        if lost or skip_damaged:  # find what must be skipped before anything is written
            lost += preflight.unreadable_content(context, everything)
        if not skip_damaged:
            preflight.refuse_lost_content(lost, preflight.SKIP_DAMAGED)
        actions = preflight.without_lost_paths(Plan(everything, ()), [item for item in lost if item.path]).actions
        places = [Destination(directory) for directory in given]
        count, size = _count_files_and_bytes(actions)
        _refuse_without_room(places, more.size + size)
        if dry_run:
            return _report_of_plan(target, places, actions, [*purged, *lost, *more.kept], count, more)
        try:
            with WorktreeCopies(context) as copies:
                writing = Writing(context, places, copies if from_worktree else None)
                notes = writing.write_all(actions, more, is_synced=is_synced)
            written = [place for place in places if place.error is None]
            for place in written if is_published else ():
                place.origin_problem = directory_origins.record_origin(
                    context, place.directory, place.new, target, is_whole=not lost
                )
        except BaseException as error:
            for place in places:
                place.remove_made()
            if isinstance(error, errors.StoreDamaged):
                preflight.refuse_lost_content(preflight.unreadable_content(context, everything), preflight.SKIP_DAMAGED)
            raise
        finally:
            for place in places:
                place.close()
    if len(written) < len(places):
        raise _not_written_error([place for place in places if place.error is not None], written)
    seconds = time.monotonic() - began
    modes = {note.path: mode for place in written for note, mode in place.incomplete}
    kept = {*purged, *lost, *more.kept, *notes, *(note for place in written for note, _ in place.incomplete)}
    return Materialised(
        target.id, plans.with_modes(actions, modes) if modes else actions, tuple(sorted(kept)), dry_run=False, commit=target.more.commit,
        written=tuple(
            WrittenDirectory(place.directory, count, place.from_worktree, seconds, place.origin_problem) for place in written
        ),
        carried=tuple((file.path, file.status.st_size) for file in more.files),
    )  # fmt: skip


def _report_of_plan(
    target: Checkpoint, places: Sequence[Destination], actions: Sequence[Action], kept: Iterable[Kept], count: int,
    more: carried_files.Carried,
) -> Materialised:
    """What would be written."""
    return Materialised(
        target.id, actions, tuple(sorted(set(kept))), dry_run=True, commit=target.more.commit,
        written=tuple(WrittenDirectory(place.directory, count, 0, 0.0) for place in places),
        carried=tuple((file.path, file.status.st_size) for file in more.files),
    )  # fmt: skip


def _make_actions_without_purged(found: Iterable[Row], purged: list[Kept]) -> Iterator[Action]:
    """Yield the actions that make these rows. What was purged is added to `purged`."""
    for path, entry in found:
        if entry.kind == PURGED:
            purged.append(Kept(path, "purged", benign=False))
        else:
            yield Action(path, None, entry, path)


def _count_files_and_bytes(actions: Iterable[Action]) -> tuple[int, int]:
    """How many files and links the actions make, and the bytes of the files."""
    count = size = 0
    for _, entry in rows_made(actions):
        if entry.kind != DIR:
            count += 1
            size += entry.size if entry.kind == FILE else 0
    return count, size


def refuse_unless_empty(directory: str, given_to: str, *, but_git: bool = False) -> None:
    """Raise ContentInTheWay if a directory is not empty, WorkspaceError if it cannot be read. `given_to`: what names it. It may
    have an earlier id and, with `but_git`, a `.git`; each is no link."""
    try:
        names = set(os.listdir(directory)) if os.path.lexists(directory) else set[str]()
        for name in map(os.fsdecode, (paths.ORIGIN, GIT) if but_git else (paths.ORIGIN,)):
            if not os.path.islink(os.path.join(directory, name)):
                names -= {name}
    except OSError as error:
        raise errors.WorkspaceError(f"cannot use {printable(directory)}: {error.strerror}") from error
    if names:
        raise errors.ContentInTheWay(f"{printable(directory)} is not empty", f"give {given_to} a new or an empty directory")


def _not_written_error(failed: Sequence[Destination], written: Sequence[Destination]) -> errors.CasrewindError:
    """The error for directories that could not be written. It names the ones that were."""
    place, error = failed[0], failed[0].error
    shown = printable(place.directory)
    others = [f"so is {enumerated([printable(one.directory) for one in failed[1:]])}"] if failed[1:] else []
    others += [f"written: {enumerated([printable(one.directory) for one in written])}"] if written else []
    more = "".join(f"; {what}" for what in others)
    if not place.is_removed:
        return errors.WorkspaceError(f"{shown} holds only a part of the checkpoint, and that could not be removed: {error}{more}")
    if not isinstance(error, OSError):
        assert error is not None
        return type(error)(f"{shown}: {error.problem}{more}", error.hint)
    path = f": {printable(error.filename)}" if error.filename else ""
    kind = errors.StoreFull if is_disk_full(error) else errors.WorkspaceError
    return kind(f"cannot write to {shown}{path}: {reason_of(error)}; nothing of the checkpoint is there{more}")


def _refuse_unusable_directories(context: Context, directories: Sequence[str]) -> None:
    """Raise an error if one of the directories may not receive a checkpoint."""
    for directory in directories:
        _refuse_directory(context, directory)
        refuse_unless_empty(directory, "--to", but_git=True)
    _refuse_overlaps(directories)


def _refuse_overlaps(directories: Sequence[str]) -> None:
    """Raise UsageError if one of the directories is another, or lies in it."""
    real = [locations.real_path(directory) for directory in directories]
    for number, one in enumerate(real):
        for other in real[:number]:
            if locations.is_in(one, other) or locations.is_in(other, one):
                what = f"{printable(other)} and {printable(one)}: they are the same directory, or one lies in the other"
                raise errors.UsageError(what, "give --to directories beside each other")


def _refuse_without_room(places: Sequence[Destination], size: int) -> None:
    """Raise StoreFull if the file systems of the directories have too little room for all of them."""
    on_device = Counter(os.stat(place.above).st_dev for place in places)
    for place in places:
        number = on_device.pop(os.stat(place.above).st_dev, 0)
        if number:
            preflight.refuse_unless_room(place.above, (), copied=size * number)


def _refuse_directory(context: Context, directory: str) -> None:
    """Raise UnsafePath for a directory of version control or of the store, or behind a link inside the project. The
    project's author chose where such a link leads."""
    shown = printable(directory)
    real = locations.real_path(directory)
    kept = [path for path in (context.root.git_dir, context.root.common_dir) if path is not None]
    if any(map(paths.is_protected, os.fsencode(real).split(b"/"))) or any(_is_in(real, path) for path in kept):
        raise errors.UnsafePath(f"refused: {shown} lies in a directory of version control", "give --to another directory")
    if _is_in(real, context.store.path) or store_detection.find_store_around(directory):
        raise errors.UnsafePath(f"refused: {shown} lies in a casrewind store", "give --to another directory")
    path = os.path.abspath(directory)
    while path != os.path.dirname(path):
        if os.path.islink(path) and _is_in(os.path.dirname(path), context.root.path):
            raise errors.UnsafePath(
                f"refused: {printable(path)} is a link in the project and leads to {printable(os.path.realpath(path))}",
                "give --to the directory itself"
            )
        path = os.path.dirname(path)


def _is_in(path: str, directory: str) -> bool:
    return locations.is_in(locations.real_path(path), locations.real_path(directory))
