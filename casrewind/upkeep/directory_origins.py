"""Which checkpoint a directory was made from: what restore --to records, and what take and gc ask.

The danger prevented here: a take from a directory that is not, or not wholly, what the record says removes what the directory
lacks. So a directory counts by a random id alone, which is on it (worktree/origin_id.py) and in a row of the store. The id goes
before the first byte of a checkpoint is written, and a new one comes when all of them are on the disk.

gc keeps the checkpoint of each row whose directory is where it was made. A row ends with its directory and its checkpoint: a
directory that was moved is still known while the checkpoint is there. At most a hundred rows stay.
"""

import os
import time
from collections.abc import Sequence

from .. import errors, fsio
from .._typing import TYPE_CHECKING
from ..context import Context
from ..messages import printable, reason_of
from ..model.checkpoint import Checkpoint
from ..store.directory_origin_rows import Origin
from ..worktree import root as roots
from ..worktree.origin_id import make_origin_id, read_origin_id, remove_origin_id

if TYPE_CHECKING:  # it is imported with ctypes, which status and gc have no use for
    from ..worktree.new_tree import NewTree

MOST = 100
"""Rows in a store. Each keeps one checkpoint from gc."""


def origin_of(context: Context, directory: str) -> Origin | None:
    """What a directory was made from, by `restore --to` of any worktree of this store. None if it was not, or if that was not
    finished. A copy with the same id has the same origin: its contents came from there. Raises WorkspaceError if the directory
    cannot be looked at."""
    identity = _read_id(directory)
    return context.store.origins.find(identity) if identity else None


def has_strange_id(context: Context, directory: str) -> bool:
    """True if a directory has an id that this store does not know."""
    return bool(_read_id(directory)) and origin_of(context, directory) is None


def _read_id(directory: str) -> str:
    """The id on a directory; "" also if there is no directory. Raises WorkspaceError."""
    try:
        return read_origin_id(directory)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise errors.WorkspaceError(f"cannot look at {printable(directory)}: {error.strerror}") from error


def remove_earlier_origin(context: Context, directory: str) -> None:
    """Forget what a directory was made from, before it is written anew. Raises WorkspaceError if its id cannot be taken off."""
    identity = _read_id(directory)
    if not identity:
        return
    context.store.origins.forget(identity)
    try:
        with fsio.closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
            remove_origin_id(fd)
    except OSError as error:
        raise errors.WorkspaceError(f"cannot write to {printable(directory)}: {reason_of(error)}") from error


def record_origin(context: Context, directory: str, new: "NewTree", point: Checkpoint, *, is_whole: bool) -> str:
    """Record what a directory was made from: everything in it is on the disk. `is_whole`: no file was left out for damage.
    Returns why that was not possible, or ""."""
    identity, rows = make_origin_id(), context.store.origins
    try:
        rows.record(Origin(identity, os.path.realpath(directory), point.id, time.time_ns(), is_whole))
        new.set_origin_id(identity)
    except OSError as error:
        rows.forget(identity)
        return reason_of(error)
    if len(rows.all()) > MOST:
        for row in _rows_to_drop(rows.all()):
            rows.forget(row.id)
    return ""


def _rows_to_drop(rows: Sequence[Origin]) -> Sequence[Origin]:
    """The rows above the limit, of these, newest first: those of directories that are gone, then the oldest ones."""
    return sorted(rows, key=_is_gone)[MOST:]


def drop_rows_of_gone(context: Context) -> None:
    """Forget the rows whose directory and whose checkpoint are gone."""
    for row in context.store.origins.all():
        if context.store.checkpoint(row.checkpoint) is None and _is_gone(row):
            context.store.origins.forget(row.id)


def needed_by_directories(context: Context) -> set[str]:
    """The ids of the checkpoints that a directory was made from, if the directory may still be where it was made."""
    return {row.checkpoint for row in context.store.origins.all() if not _is_gone(row)}


def _is_gone(row: Origin) -> bool:
    """True if the directory was removed, moved or replaced. A disk may only be unmounted: then it is not gone."""
    try:
        if read_origin_id(row.directory) == row.id:
            return False
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return False
    return not roots.why_maybe_unmounted(row.directory, row.written_ns)
