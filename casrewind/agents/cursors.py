"""Cursors: positions in a transcript, recorded while a hook runs and looked up later."""

import os
import stat

from ..model.cursor import WINDOW, Cursor
from . import transcript
from .event import Event
from .profiles import Profile

_REACH = 1024 * 1024  # bytes at a transcript's end that are searched for the last id


def cursor_at(profile: Profile, source: str | bytes, event: Event) -> Cursor:
    """The cursor of an event. `source`: the transcript's path, or its bytes. Reads only the start and the end of the
    file. A missing, irregular or unreadable file leads to a cursor without offset and hashes. Follows no link, does not
    block, never raises."""
    start, tail, offset = _in_bytes(source) if isinstance(source, bytes) else _in_file(source)
    return Cursor(
        agent=profile.name,
        session=event.session,
        transcript=os.fsencode(event.transcript),
        prompt_id=event.prompt_id,
        message_id=event.message_id,
        turn_id=event.turn_id,
        tool_use_id="" if event.name == profile.before_tool else event.tool_use_id,
        event_id=_last_id(profile, tail),
        offset=offset,
        prefix=_hash(start[:offset]),
        tail=_hash(tail[-WINDOW:]),
    )


def holds(cursor: Cursor, data: bytes) -> bool:
    """True if a transcript still has the bytes before the cursor (compared by the hashes of their start and end)."""
    if cursor.offset > len(data):
        return False
    return (
        _hash(data[: min(WINDOW, cursor.offset)]) == cursor.prefix
        and _hash(data[max(0, cursor.offset - WINDOW) : cursor.offset]) == cursor.tail
    )


def _in_bytes(data: bytes) -> tuple[bytes, bytes, int]:
    offset = transcript.whole(data)
    return data[:WINDOW], data[max(0, offset - _REACH) : offset], offset


def _in_file(path: str) -> tuple[bytes, bytes, int]:
    """Returns (first bytes, last bytes before the offset, offset) of a transcript."""
    from .. import fsio

    try:
        fd = os.open(path, fsio.READ_FLAGS)
    except (OSError, ValueError):
        return b"", b"", 0
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b"", b"", 0
        base = max(0, status.st_size - _REACH)
        data = os.pread(fd, status.st_size - base, base)
        end = transcript.whole(data)
        if not end and base:  # a longer last line is not searched while a client waits
            return b"", b"", 0
        return os.pread(fd, WINDOW, 0), data[:end], base + end
    except OSError:
        return b"", b"", 0
    finally:
        os.close(fd)


def _last_id(profile: Profile, tail: bytes) -> str:
    for line in transcript.backwards(tail):
        for field in profile.event_ids:
            if line.value is not None and (name := transcript.text(line.value.get(field))):
                return name
    return ""


def _hash(data: bytes) -> bytes:
    if not data:
        return b""
    from ..model import digest as digests  # late: the import of hashlib is slower than this module's work

    return digests.of(data)
