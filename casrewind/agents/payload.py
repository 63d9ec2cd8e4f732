"""Reads a hook's payload from its pipe."""

import os
import time

BUDGET = 20.0
"""Default time limit for handling an event, in seconds."""
LIMIT = 8 * 1024 * 1024
"""Maximum size in bytes of a payload that is parsed as a whole. In a longer one, only the fields before its first long
value are read: clients put identifying fields first."""
_PAUSE = 0.25
"""Seconds of silence after which a complete payload is accepted although the client keeps the pipe open."""
_PATIENCE = 3.0
"""Seconds of silence after which reading stops with an incomplete payload."""


def read_to_end(fd: int) -> bytes:
    """Read a payload to its end, so that the client's write never fails. Keep only what `event.read_event` needs of a huge
    payload. If the client never closes the pipe, reading stops after a pause without data."""
    from select import select

    parts: list[bytes] = []
    size, idle, end = 0, 0.0, time.monotonic() + BUDGET
    while time.monotonic() < end:
        if not select((fd,), (), (), _PAUSE)[0]:
            idle += _PAUSE
            if idle >= _PATIENCE or (idle == _PAUSE and _is_complete_and_parsable(parts)):
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


def _is_complete_and_parsable(parts: list[bytes]) -> bool:
    """True if the payload is complete and can be parsed."""
    if not parts or not parts[-1].rstrip().endswith(b"}"):
        return False
    from ..fastjson import loads

    try:
        return isinstance(loads(b"".join(parts).decode("utf-8", "replace")), dict)
    except (ValueError, RecursionError):
        return False
