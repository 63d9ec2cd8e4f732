"""The budget of a store: what a save may write, when gc is due, and what is reserved for gc.

The danger prevented here: a disk that fills up unnoticed. The write quota is measured at the first write, from outside
as du does; a save without writes pays nothing. The gc state may be lost: then gc runs once too often, or a day late.
"""

import os
from collections.abc import Mapping
from contextlib import suppress

from .. import errors, fsio
from .._typing import NamedTuple
from ..messages import printable
from .layout import Layout
from .packs import MAX_SIZE

_NAME = "gc"
_VERSION = 1
_HOUR_NS = 3600 * 1_000_000_000
_DAY_NS = 24 * _HOUR_NS
MANY = 200
"""New packs after which merging is worthwhile."""
_LEAST_INODES = 2
_BLOCK = 4096
_SPARE = 32 << 20
"""Bytes of the disk that a save leaves free (a hundredth of a small disk): the user's work comes first."""
_SLACK = 8 << 20
"""Bytes that a save writes outside of packs: its record and rows of the index."""


class GcState(NamedTuple):
    """The store after the last gc. `at_ns`: its start, or the store's creation (nanoseconds since 1970). `size`: bytes of
    the store; `packs`: number of packs after the last gc or merge; `beside`: bytes outside of packs. `floor`: bytes that
    gc must keep, if they exceed the budget; 0 = the budget is met."""

    at_ns: int = 0
    size: int = 0
    packs: int = 0
    beside: int = 0
    floor: int = 0

    @classmethod
    def read(cls, store: str) -> "GcState":
        """The state of the store at that path."""
        with suppress(OSError, ValueError):
            version, *numbers = fsio.read_file(os.path.join(store, _NAME), 200).decode().split()
            if version == str(_VERSION) and len(numbers) == len(cls._fields):
                return cls(*(int(number[:20]) for number in numbers))
        with suppress(OSError):
            return cls(at_ns=os.lstat(Layout(store).format).st_mtime_ns)  # there was nothing to collect before that
        return cls()

    def write(self, layout: Layout) -> None:
        """Store the state. Errors are ignored."""
        with suppress(OSError):
            text = " ".join(map(str, (_VERSION, *self))) + "\n"
            fsio.replace_unsynced(os.path.join(layout.root, _NAME), text.encode(), layout.temporary)

    def reason_to_run_gc_again(self, now_ns: int, packs: int, packed: int, budget: int | None) -> str:
        """The reason to run gc again, or "". `packs`: number of packs; `packed`: their bytes; `budget`: in bytes."""
        size = packed + self.beside
        if not -_HOUR_NS <= now_ns - self.at_ns <= _DAY_NS:
            return "a day has passed"
        if packs > self.packs + MANY:
            return "there are many small packs"
        if budget is not None and size > gc_threshold(budget) and size > self.size + budget // 16:
            return "the store has grown to its budget"
        return ""


def free_bytes(store: str) -> int:
    """Bytes that may be written to the disk of the store at that path."""
    try:
        status = os.statvfs(store)
    except OSError:
        return 1 << 62
    if not status.f_blocks:  # ramfs and some others count none: that is not a full disk
        return 1 << 62
    return status.f_bavail * status.f_frsize - min(_SPARE, status.f_blocks * status.f_frsize // 100)


class WriteQuota:
    """The write quota of one writer: the budget and the free disk space, measured at the first write."""

    def __init__(self, layout: Layout, disk: Mapping[str, int], budget: int | None) -> None:
        """`disk` are the sizes of the present packs; without a `budget` only the disk is a limit."""
        self._layout, self._disk, self._budget = layout, disk, budget
        self._left: int | None = None
        self._free = 0

    def raise_unless_write_fits(self, written: int, more: int) -> None:
        """Check a write of `more` bytes after `written` bytes. Raises OverBudget, StoreFull."""
        if self._left is None:
            self._free = free_bytes(self._layout.root)
            self._left = 1 << 62
            if self._budget is not None:
                packs = sum(-(-size // _BLOCK) * _BLOCK for size in self._disk.values())
                self._left = self._budget - bytes_reserved_for_gc(self._budget) - packs - self._layout.size(packs=False)
                if self._left < self._budget // 2 and GcState.read(self._layout.root).floor:
                    self._left = 1 << 62  # gc has found that the budget cannot be kept: what has to stay is more than that
        if written + more > self._left and self._budget is not None:
            raise errors.OverBudget(written + more, max(self._left, 0))
        if written + more > self._free:
            raise errors.StoreFull(
                f"no space left for the store {printable(self._layout.root)}: more than the {max(self._free, 0):,} bytes "
                f"that may be written are needed (a hundredth of the disk, at most {_SPARE >> 20} MiB, is kept free); nothing was saved",
                "free some space and try again",
            )

    def raise_unless_file_fits(self, size: int) -> None:
        """Check the size of a file before reading it. Raises StoreFull if it cannot fit."""
        if size > (left := free_bytes(self._layout.root)):
            raise errors.StoreFull(
                f"no space left for a file of {size:,} bytes: {max(left, 0):,} bytes may be written to the disk of the store "
                f"{printable(self._layout.root)}; nothing was saved",
                "free some space, or lower capture.max_file_size",
            )


def has_any_room(store: str) -> bool:
    """True if the disk of the store at that path has room for a few more files."""
    try:
        status = os.statvfs(store)
    except OSError:
        return True
    return status.f_files == 0 or status.f_favail >= _LEAST_INODES  # some file systems count none


def bytes_reserved_for_gc(budget: int) -> int:
    """Bytes of a budget that saves leave free: gc needs them, for one pack at a time, to free others."""
    return min(MAX_SIZE + _SLACK, budget // 4)


def gc_threshold(budget: int) -> int:
    """Bytes of a store at which gc becomes due, so that the next save still fits."""
    return budget - bytes_reserved_for_gc(budget) - budget // 16


def gc_target(budget: int) -> int:
    """Bytes to which gc reduces a store that reached its budget, so that gc is not due at every save."""
    return gc_threshold(budget) - budget // 16


def copy_limit(budget: int | None) -> int:
    """Bytes that gc may copy before it removes the originals."""
    return MAX_SIZE if budget is None else min(MAX_SIZE, budget // 8)
