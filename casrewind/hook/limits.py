"""Limits memory and processor time of a process that works for a hook.

The danger prevented here: a file in a project makes such a process use all memory, or run for ever. The user does not
see the process and does not wait for it. When it reaches a limit it ends, and writes a line into the log. The next
command shows that line.
"""

import resource
import signal
import sys
from contextlib import suppress

from .._typing import NoReturn
from ..store.layout import LEAST_MEMORY, address_space_needed_for

SECONDS = 30 * 60
"""Seconds of processor time. A first save of a million files needs some minutes."""
_GRACE = 60
"""Further seconds of processor time, after which the system ends a process that did not end itself."""


class CpuLimitReached(BaseException):
    """The processor time is used up. It is no Exception, so that no `except Exception` catches it."""


def limit_process() -> None:
    """Limit this process and its forks. A lower limit is kept."""
    _lower_limit(resource.RLIMIT_CPU, SECONDS, SECONDS + _GRACE)
    signal.signal(signal.SIGXCPU, _raise_limit_reached)
    if sys.platform.startswith("linux"):  # elsewhere the system maps address space into every process
        _lower_limit(resource.RLIMIT_AS, LEAST_MEMORY)


def raise_limit_for_index(store: str) -> None:
    """Raise the limit for the memory map of a large index."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == LEAST_MEMORY:
        with suppress(OSError):
            resource.setrlimit(resource.RLIMIT_AS, (_lower_of(address_space_needed_for(store), hard), hard))


def _lower_limit(kind: int, wanted: int, most: int = resource.RLIM_INFINITY) -> None:
    soft, hard = resource.getrlimit(kind)
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (_lower_of(wanted, soft), _lower_of(most, hard)))


def _lower_of(one: int, other: int) -> int:
    """The lower of two limits. RLIM_INFINITY means no limit."""
    return min((limit for limit in (one, other) if limit != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)


def _raise_limit_reached(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # the system repeats it every second
    seconds = resource.getrlimit(resource.RLIMIT_CPU)[0]
    raise CpuLimitReached(f"the save needed more than {seconds} s of processor time: the limit for a hook")
