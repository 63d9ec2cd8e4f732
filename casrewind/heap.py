"""Freed memory goes back to the system, where the allocator is that of glibc.

The danger prevented here: a clone takes the memory of all its steps together. By default glibc keeps freed blocks that are
as large as the largest one that was ever freed: that of a frame, or of a piece.
"""

import os
import sys
from contextlib import suppress

_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""
_LARGE = 1 << 20


def keep_no_large_blocks() -> None:
    """From now on, return each freed block of 1 MiB or more to the system at once."""
    _call_glibc("mallopt", _MMAP_THRESHOLD, _LARGE)


def return_freed_memory() -> None:
    """Return the freed blocks of any size, as far as whole pages are free."""
    _call_glibc("malloc_trim", 0)


def resident_bytes() -> int:
    """The memory that this process has now. 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _call_glibc(name: str, *numbers: int) -> None:
    """Call a function of glibc. Another C library has none of that name."""
    if sys.platform.startswith("linux"):
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            getattr(ctypes.CDLL(None), name)(*numbers)
