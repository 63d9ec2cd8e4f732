"""Reads a hook's payload from its pipe. A hook whose work the helper does imports this and no more of the agents."""

import os
import time

BUDGET = 20.0
"""Seconds that an event may take for which a profile says nothing else."""
LIMIT = 8 * 1024 * 1024
"""Bytes of a payload that are parsed as a whole. Of a longer one only the fields before its first long value are read:
clients put what identifies an event in front of what it carries."""
_PAUSE = 0.25
"""Seconds without a byte after which a whole payload is all there is, though the client keeps its end of the pipe open."""
_PATIENCE = 3.0
"""Seconds without a byte after which half a payload, or none, is not waited for any longer."""


def drain(fd: int) -> bytes:
    """Read a payload to its end, so that the client's write never fails; of a huge one only what `read` looks at is kept.

    A client that never closes its end is waited for as long as it takes to see that no more will come.
    """
    from select import select

    parts: list[bytes] = []
    size, idle, end = 0, 0.0, time.monotonic() + BUDGET
    while time.monotonic() < end:
        if not select((fd,), (), (), _PAUSE)[0]:
            idle += _PAUSE
            if idle >= _PATIENCE or (idle == _PAUSE and _is_whole(parts)):
                break
            continue
        part = os.read(fd, 1 << 20)
        if not part:
            break
        idle = 0.0
        if size <= LIMIT:
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _is_whole(parts: list[bytes]) -> bool:
    """Whether nothing is missing in a payload that can be parsed."""
    if not parts or not parts[-1].rstrip().endswith(b"}"):
        return False
    from ..fastjson import loads

    try:
        return isinstance(loads(b"".join(parts).decode("utf-8", "replace")), dict)
    except (ValueError, RecursionError):
        return False
