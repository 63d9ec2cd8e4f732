"""Stamps: the stat values of a file when its bytes were read, and when they can be trusted.

The danger prevented here: a file edited in the same clock tick as the scan, or with its mtime reset, that looks
unchanged. A stamp therefore contains ctime and inode besides size and mtime. A *racy* stamp, too close to the scan to
exclude a later change, is never stored.
"""

import os
import struct
from collections.abc import Sequence

from .._typing import NamedTuple

MARGIN_NS = 20_000_000
"""A stamp later than the scan's start minus this is racy."""
COARSE_MARGIN_NS = 2_000_000_000
"""The same for file systems with whole seconds only (FAT has two-second steps)."""
_SECOND = 1_000_000_000


class Stamp(NamedTuple):
    """Size in bytes, times in nanoseconds, inode number and full mode of one file or directory."""

    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    mode: int


PACKED = struct.Struct("<QqqQI")
"""A stamp as bytes."""
EARLIEST_NS, LATEST_NS = -(1 << 63), (1 << 63) - 1
"""Range of times that can be recorded (nanoseconds since 1970): 1677-09-21 to 2262-04-11. File systems exceed it."""

NONE = Stamp(0, 0, 0, 0, 0)
"""The stamp that matches no file: an entry with it is always read again."""


def of(status: os.stat_result) -> Stamp:
    """The stamp in a stat result. A time out of range becomes the nearest recordable time."""
    mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
    if not (EARLIEST_NS < mtime < LATEST_NS and EARLIEST_NS < ctime < LATEST_NS):
        mtime, ctime = (min(max(time, EARLIEST_NS), LATEST_NS) for time in (mtime, ctime))
    return Stamp(status.st_size, mtime, ctime, status.st_ino, status.st_mode)


def matches(stamp: Sequence[int], status: os.stat_result) -> bool:
    """True if a stat result has this stamp. A time out of range matches no stamp."""
    return stamp == (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


def positions_that_differ(names: bytes, packed: bytes, fd: int, device: int | None = None) -> list[int]:
    """The positions of the names (separated by NUL, relative to the directory open as `fd`) that do not have the stamps in
    `packed`. With a `device`, also positions of names on another device. Raises ValueError if there are not as many names
    as stamps. Where worktree/threaded_comparison.c was compiled, it does this for a whole worktree. Here `matches` is
    inlined, because the loop takes most of a save's time."""
    lstat, found = os.stat, []
    for number, (name, stamp) in enumerate(zip(names.split(b"\0") if names or packed else (), PACKED.iter_unpack(packed), strict=True)):
        try:
            now = lstat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            found.append(number)
            continue
        if (
            stamp != (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mode)
            or (device is not None and now.st_dev != device)
        ):
            found.append(number)
    return found


def is_racy(stamp: Stamp, scan_start_ns: int) -> bool:
    """True if a later change could leave this very stamp: its ctime or mtime is too close to the scan's start.

    `scan_start_ns` is the wall clock, in nanoseconds, before the first stat. A stamp in whole seconds means a file
    system without fractions: the margin is then two seconds. The method is git's "racy git" note, extended to ctime
    and to directories. The earliest and the latest recordable time represent all times beyond them: such a stamp is
    always racy.
    """
    if not (EARLIEST_NS < stamp.mtime_ns < LATEST_NS and EARLIEST_NS < stamp.ctime_ns < LATEST_NS):
        return True
    if stamp.ctime_ns <= scan_start_ns - COARSE_MARGIN_NS and stamp.mtime_ns <= scan_start_ns - COARSE_MARGIN_NS:
        return False  # safe at any resolution
    coarse = stamp.ctime_ns % _SECOND == 0 and stamp.mtime_ns % _SECOND == 0
    margin = COARSE_MARGIN_NS if coarse else MARGIN_NS
    latest = max(stamp.mtime_ns, stamp.ctime_ns)
    return latest > scan_start_ns - margin
