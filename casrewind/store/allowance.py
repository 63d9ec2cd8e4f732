"""Allowance: how much one save may write, so that the store stays under its budget and the disk is never filled up.

The danger prevented here: a disk that is full before anybody looks. What there is is measured when a save writes its first
byte, from outside as du does it; a save that writes nothing pays nothing.
"""

import os
from collections.abc import Mapping

from .. import errors, fsio
from .lastgc import LastGc, reserve
from .layout import Layout

_BLOCK = 4096
_SPARE = 32 << 20
"""Bytes of the disk that a save leaves free, or a hundredth where that is less: its owner's work comes first."""


def free(store: str) -> int:
    """Bytes that may be written to the disk that the store at that path lies on."""
    try:
        status = os.statvfs(store)
    except OSError:
        return 1 << 62
    return status.f_bavail * status.f_frsize - min(_SPARE, status.f_blocks * status.f_frsize // 100)


class Allowance:
    """What one session may write."""

    def __init__(self, layout: Layout, disk: Mapping[str, int], budget: int | None) -> None:
        """`disk` are the sizes of the packs that there are; without a `budget` only the disk is a limit."""
        self._layout, self._disk, self._budget = layout, disk, budget
        self._left: int | None = None
        self._free = 0

    def ask(self, written: int, more: int) -> None:
        """May `more` bytes be written, `written` having been already? Raises OverBudget, StoreFull."""
        if self._left is None:
            self._left = self._measure()
        if written + more > self._left and self._budget is not None:
            raise errors.OverBudget(written + more, max(self._left, 0))
        if written + more > self._free:
            raise errors.StoreFull(
                f"no space left for the store {fsio.show(self._layout.root)}: more than the {max(self._free, 0):,} bytes "
                f"that may be written are needed (a hundredth of the disk, at most {_SPARE >> 20} MiB, stays free); nothing was "
                f"saved: free some space and try again"
            )

    def expect(self, size: int) -> None:
        """May a file of that size be read at all? Raises StoreFull when it cannot fit, before anything of it is written."""
        if size > (left := free(self._layout.root)):
            raise errors.StoreFull(
                f"no space left for a file of {size:,} bytes: {max(left, 0):,} bytes may be written to the disk of the store "
                f"{fsio.show(self._layout.root)}; nothing was saved: free some space, or lower capture.max_file_size"
            )

    def _measure(self) -> int:
        self._free = free(self._layout.root)
        if self._budget is None:
            return 1 << 62
        packs = sum(-(-size // _BLOCK) * _BLOCK for size in self._disk.values())
        left = self._budget - reserve(self._budget) - packs - self._layout.beside()
        if left < self._budget // 2 and LastGc.read(self._layout.root).floor:
            return 1 << 62  # gc has found that the budget cannot be kept: what has to stay is more than that
        return left
