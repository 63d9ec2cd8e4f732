"""Restore --to: write a checkpoint into a new or empty directory.

The danger prevented here: a partial checkpoint that looks complete. Content is verified as it is written. After damage
or a write error, everything written so far is removed.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from .. import errors, fsio, locations, store_detection
from ..messages import is_full, printable, reason_of
from ..model import manifest, paths
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.plan import Action, Actions, Kept, Plan
from ..store.reading import TreeCache
from ..worktree.apply import Applier, Outcome
from ..worktree.reader import Worktree
from . import origins, preflight
from .context import Context
from .execute import Contents, Restored
from .restorable import naming, survey


def materialise(
    context: Context, target: Checkpoint, directory: str, *, skip_damaged: bool = False, is_published: bool = True
) -> Restored:
    """Write a checkpoint's whole tree into a new or empty directory. Works with a read-only store. After an error
    everything written is removed. `is_published` is False for a checkpoint that has its blobs in the store, and no record yet.

    Raises ContentInTheWay if the directory is not empty, UnsafePath if it may not receive a checkpoint, StoreFull,
    StoreDamaged unless `skip_damaged`, WorkspaceError.
    """
    _refuse_directory(context, directory)
    refuse_contents(directory, "--to")
    with context.store.holding():
        if is_published:
            preflight.refuse_forgotten(context, target)
        lost: list[Kept] = []
        with naming(context.store):
            entries = list(survey(TreeCache(context.store.load_tree), target.tree, lost))
        kept = [Kept(path, "purged", benign=False) for path, entry in entries if entry.kind == manifest.PURGED]
        everything = plans.pack(Action(path, None, entry, path) for path, entry in sorted(entries) if entry.kind != manifest.PURGED)
        preflight.check_room(_nearest(directory), everything)
        if lost or skip_damaged:  # find what must be skipped before anything is written
            lost += preflight.unreadable(context, everything)
        if not skip_damaged:
            preflight.refuse(lost, preflight.SKIP_DAMAGED)
        actions = preflight.without_lost(Plan(everything, ()), [item for item in lost if item.path]).actions
        above = _nearest(directory)
        try:
            fsio.make_usual(directory)
            with Worktree(os.path.realpath(directory)) as tree:
                if tree.folds_names():
                    plans.fold(Plan(actions, ()), (action.path for action in actions))
                elsewhere = context._replace(tree=tree, root=context.root._replace(path=tree.root))
                preflight.check_possible(elsewhere, actions)
                outcome = _write(elsewhere, plans.pack(actions), target.id)
        except BaseException as error:
            _remove_empty(directory, above)
            if isinstance(error, (errors.StoreDamaged, OSError)):
                raise _why_not(context, directory, everything, error) from error
            raise
        if is_published:
            with suppress(OSError):  # a store that can only be read
                origins.record(context, directory, target)
    return Restored("materialise", target.id, "", outcome.done, (*kept, *lost, *outcome.kept, *outcome.narrowed), 0, dry_run=False)


def refuse_contents(directory: str, given_to: str) -> None:
    """Raise ContentInTheWay if a directory is not empty, WorkspaceError if it cannot be read. `given_to`: what names it."""
    try:
        if os.path.lexists(directory) and os.listdir(directory):
            raise errors.ContentInTheWay(f"{printable(directory)} is not empty", f"give {given_to} a new or an empty directory")
    except OSError as error:
        raise errors.WorkspaceError(f"cannot use {printable(directory)}: {error.strerror}") from error


def _write(context: Context, actions: Actions, tag: str) -> Outcome:
    """Apply the actions in an empty directory. After an error the directory is empty again."""
    try:
        return Applier(context.tree, actions, Contents(context.store, actions), tag, context.progress).run()
    except BaseException:
        with suppress(OSError):
            Applier(context.tree, plans.reverse(actions), context.store.content, tag + "r").run()
        raise


def _why_not(context: Context, directory: str, actions: Sequence[Action], error: errors.StoreDamaged | OSError) -> errors.CasrewindError:
    """The error for a directory that could not be written. It lists all damage, not only the first."""
    shown = printable(directory)
    if os.path.isdir(directory) and os.listdir(directory):
        return errors.WorkspaceError(f"{shown} holds only a part of the checkpoint, and that could not be removed: {error}")
    if isinstance(error, errors.StoreDamaged):
        preflight.refuse(preflight.unreadable(context, actions), preflight.SKIP_DAMAGED)
        return error
    path = f": {printable(error.filename)}" if error.filename else ""
    kind = errors.StoreFull if is_full(error) else errors.WorkspaceError
    return kind(f"cannot write to {shown}{path}: {reason_of(error)}; nothing of the checkpoint is there")


def _remove_empty(directory: str, above: str) -> None:
    """Remove the created directory and its created parents up to `above`, unless they have contents."""
    path = os.path.abspath(directory)
    with suppress(OSError):
        while path != above:
            os.rmdir(path)
            path = os.path.dirname(path)


def _refuse_directory(context: Context, directory: str) -> None:
    """Raise UnsafePath for a directory of version control or of the store, or behind a link inside the project. The
    project's author chose where such a link leads."""
    shown = printable(directory)
    real = os.path.realpath(directory)
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
    return locations.is_in(os.path.realpath(path), os.path.realpath(directory))


def _nearest(directory: str) -> str:
    """The directory, or its nearest existing parent."""
    path = os.path.abspath(directory)
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
