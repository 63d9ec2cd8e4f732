"""What a process that works on a hook's behalf may take: memory and processor time.

The danger prevented here: a file in a project that takes all memory of the machine, or is never done with, in a process that
is not waited for and not seen. A limit that is reached ends the work; the log has a line of it, which the next command shows.
"""

import os
import resource
import signal
import sys
from contextlib import suppress

from ..typed import NoReturn

MEMORY = 4 << 30
"""Bytes of address space beside the map of the index."""
SECONDS = 30 * 60
"""Seconds of processor time. A first save of a million files takes some minutes."""
_GRACE = 60
"""Seconds of processor time behind that until the system ends a process that does not notice."""
_MAP = 2 << 30
"""Bytes that the smallest map of an index takes when it has grown once."""


class TooMuch(BaseException):
    """The processor time is used up. No Exception: nothing on the way may take it for an error of its own."""


def begin() -> None:
    """Limit this process and those that it forks. What was limited more tightly stays so."""
    _lower(resource.RLIMIT_CPU, SECONDS, SECONDS + _GRACE)
    signal.signal(signal.SIGXCPU, _stop)
    if sys.platform.startswith("linux"):  # elsewhere the system has address space of its own in every process
        _lower(resource.RLIMIT_AS, MEMORY + _MAP)


def allow_index(store: str) -> None:
    """Allow for the map of a store's index, where that is large: twice its file or up to four times, and the double when it grows."""
    with suppress(OSError):
        needed = 8 * os.stat(os.path.join(store, "index", "data.mdb")).st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == MEMORY + _MAP and needed > _MAP:
            resource.setrlimit(resource.RLIMIT_AS, (_least(MEMORY + needed, hard), hard))


def _lower(kind: int, wanted: int, most: int = resource.RLIM_INFINITY) -> None:
    soft, hard = resource.getrlimit(kind)
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (_least(wanted, soft), _least(most, hard)))


def _least(one: int, other: int) -> int:
    """The lesser of two limits, of which each may be none."""
    return min((limit for limit in (one, other) if limit != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)


def _stop(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # it comes every second from now on
    raise TooMuch(f"more than {resource.getrlimit(resource.RLIMIT_CPU)[0]} s of processor time were needed: the limit for a hook")
