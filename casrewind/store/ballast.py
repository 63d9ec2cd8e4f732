"""The ballast: a file of 1 MiB in a store that holds nothing. gc removes it when the disk is full, so that it has room.

The danger prevented here: gc cannot free space because it has none. Before a pack is removed, what is still needed of
it is copied, and the index is written. The first save with enough free space makes the file, and gc makes it again.
"""

import errno
import os
import sys
from contextlib import suppress

from .. import fsio
from .layout import Layout

SIZE = 1 << 20
_LEAST_FREE = 4 * SIZE
"""A save makes no ballast on a disk with less free space: the user's files come first."""
_LEAST_BUDGET = 64 * SIZE
"""A store with a smaller budget has no ballast: checkpoints would be forgotten for it."""


def make_ballast(layout: Layout, budget: int | None) -> None:
    """Make the ballast if the disk and the store's `budget` (bytes) have enough room. Errors are ignored."""
    with suppress(OSError):
        status = os.statvfs(layout.root)
        if status.f_bavail * status.f_frsize >= _LEAST_FREE:
            make_ballast_whatever_is_free(layout, budget)


def make_ballast_whatever_is_free(layout: Layout, budget: int | None) -> None:
    """Make the ballast in whatever room the disk has. Errors are ignored."""
    if is_budget_too_small_for_ballast(budget):
        return
    with suppress(OSError), fsio.draft_file(layout.temporary) as (draft, fd):
        _allocate_blocks(fd)
        os.rename(draft, layout.ballast)


def is_budget_too_small_for_ballast(budget: int | None) -> bool:
    """True if a store with this budget has no ballast."""
    return budget is not None and budget < _LEAST_BUDGET


def ballast_size(layout: Layout) -> int:
    """Bytes on disk of the ballast, 0 without one."""
    try:
        return os.lstat(layout.ballast).st_blocks * 512
    except OSError:
        return 0


def remove_ballast(layout: Layout) -> None:
    """Remove the ballast if there is one. Errors are ignored."""
    with suppress(OSError):
        os.unlink(layout.ballast)


def _allocate_blocks(fd: int) -> None:
    if sys.platform.startswith("linux"):  # macOS does not have the call
        try:
            os.posix_fallocate(fd, 0, SIZE)
            return
        except OSError as error:  # some file systems do not support it
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
    fsio.write_all(fd, bytes(SIZE))
