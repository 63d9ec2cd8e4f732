"""Which checkpoint a directory was made from: what restore --to records, and what take and gc ask.

A row ends with its directory. gc drops it when the directory is gone, or when another one is at its path. gc keeps the
checkpoint of each other row. At most a hundred rows stay: beyond, recording drops the oldest.
"""

import os
import time

from .. import errors
from ..messages import printable
from ..model.checkpoint import Checkpoint
from ..store.directory_origin_rows import Origin
from ..worktree import root as roots
from .context import Context

MOST = 100
"""Rows in a store. Each keeps one checkpoint from gc."""


def origin_of(context: Context, directory: str) -> Origin | None:
    """What a directory was made from, by `restore --to` of any worktree of this store. None if it was not, or if
    another directory took its place since. Raises WorkspaceError if the directory cannot be looked at."""
    real = os.path.realpath(directory)
    row = context.store.origins.find(real)
    if row is None:
        return None
    try:
        return row if os.stat(real).st_ino == row.ino else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise errors.WorkspaceError(f"cannot look at {printable(directory)}: {error.strerror}") from error


def record_origin(context: Context, directory: str, point: Checkpoint) -> None:
    """Record what a directory was made from. Raises OSError."""
    real = os.path.realpath(directory)
    rows = context.store.origins
    rows.record(Origin(real, os.stat(real).st_ino, point.id, context.root.path, context.root.key.hex(), time.time_ns()))
    if len(rows.all()) > MOST:
        drop_rows_of_gone(context)
        for row in rows.all()[MOST:]:
            rows.forget(row.directory)


def drop_rows_of_gone(context: Context) -> None:
    """Forget the rows whose directory is gone."""
    for row in context.store.origins.all():
        if _is_gone(row):
            context.store.origins.forget(row.directory)


def needed_by_directories(context: Context) -> set[str]:
    """The ids of the checkpoints that a directory was made from, if the directory may still be there."""
    return {row.checkpoint for row in context.store.origins.all() if not _is_gone(row)}


def _is_gone(row: Origin) -> bool:
    """True if the directory was removed or replaced. A disk may only be unmounted: then it is not gone."""
    try:
        return os.stat(row.directory, follow_symlinks=False).st_ino != row.ino
    except (FileNotFoundError, NotADirectoryError):
        return not roots.why_maybe_unmounted(row.directory, row.written_ns)
    except OSError:
        return False
