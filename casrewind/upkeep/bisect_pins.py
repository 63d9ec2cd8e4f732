"""What running bisects keep from gc: a pin without a label, with the process that owns it."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from .. import errors
from ..agents import client_process
from ..agents.client_process import ClientProcess
from ..context import Context
from ..messages import store_error
from ..model.checkpoint import Checkpoint
from ..store.bisect_rows import BisectRow


@contextmanager
def keep_from_gc(context: Context, points: Collection[Checkpoint]) -> Iterator[None]:
    """Keep these checkpoints of the worktree, and those between them, until the block or this process ends. A store that
    cannot be written keeps them anyway. Raises StoreFull, WorkspaceError, CheckpointNotFound if gc was faster."""
    process = client_process.client_process(os.getpid())
    numbers = [point.seq for point in points]
    row = BisectRow(os.getpid(), "" if process is None else process.start, context.root.key.hex(), min(numbers), max(numbers))
    try:
        context.store.bisects.record(row)
    except PermissionError:
        pass
    except OSError as error:
        if os.access(context.store.path, os.W_OK):
            raise store_error(error, "writing to", context.store.path) from error
    try:
        with context.store.hold_shared_lock():  # from here on gc sees the row
            left = {point.id for point, _ in context.store.checkpoints()}
        gone = next((point for point in points if point.id not in left), None)
        if gone is not None:
            raise errors.CheckpointNotFound(f"checkpoint {gone.id} was forgotten by gc just now", "run it again")
        yield
    finally:
        context.store.bisects.forget(row)


def needed_by_bisects(context: Context) -> set[str]:
    """The ids of the checkpoints that running bisects need."""
    rows = [row for row in context.store.bisects.all() if _is_alive(row)]
    if not rows:
        return set()
    found = (point for point, _ in context.store.checkpoints())
    return {point.id for point in found if any(row.first <= point.seq <= row.last and point.worktree.hex() == row.worktree for row in rows)}


def drop_rows_of_dead(context: Context) -> None:
    """Forget the rows of processes that are gone."""
    for row in context.store.bisects.all():
        if not _is_alive(row):
            context.store.bisects.forget(row)


def _is_alive(row: BisectRow) -> bool:
    return client_process.is_alive_or_unknown(ClientProcess(row.pid, row.pid_start))
