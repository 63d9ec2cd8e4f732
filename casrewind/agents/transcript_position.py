"""Cursors: positions in a transcript, recorded while a hook runs and looked up later."""

import os
import stat

from ..model.cursor import WINDOW, Cursor
from . import transcript
from .client import Client, ConversationClient
from .event import Event

_REACH = 1024 * 1024  # bytes at a transcript's end that are searched for the last id


def cursor_at(client: Client, source: str | bytes, event: Event) -> Cursor:
    """The cursor of an event. `source`: the transcript's path, or its bytes. Reads only the start and the end of the
    file. A missing, irregular or unreadable file leads to a cursor without offset and hashes. Follows no link, does not
    block, never raises."""
    known = Cursor(
        agent=client.name,
        session=event.session,
        transcript=os.fsencode(event.transcript),
        prompt_id=event.prompt_id,
        message_id=event.message_id,
        turn_id=event.turn_id,
        tool_use_id="" if event.name == client.events.before_tool else event.tool_use_id,
    )
    return moved_to_end(client, known, source)


def moved_to_end(client: Client, cursor: Cursor, source: str | bytes) -> Cursor:
    """A cursor with the present end of its transcript. See `cursor_at`."""
    start, tail, offset = _ends_of_bytes(source) if isinstance(source, bytes) else _ends_of_file(source)
    return cursor._replace(
        event_id=_id_of_last_line(client, tail),
        offset=offset,
        prefix=transcript.hash_for_cursor(start[:offset]),
        tail=transcript.hash_for_cursor(tail[-WINDOW:]),
    )


def _ends_of_bytes(data: bytes) -> tuple[bytes, bytes, int]:
    offset = transcript.end_of_complete_lines(data)
    return data[:WINDOW], data[max(0, offset - _REACH) : offset], offset


def _ends_of_file(path: str) -> tuple[bytes, bytes, int]:
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
        end = transcript.end_of_complete_lines(data)
        if not end and base:  # a longer last line is not searched while a client waits
            return b"", b"", 0
        return os.pread(fd, WINDOW, 0), data[:end], base + end
    except OSError:
        return b"", b"", 0
    finally:
        os.close(fd)


def _id_of_last_line(client: Client, tail: bytes) -> str:
    if not isinstance(client, ConversationClient) or not client.sessions.line_id:
        return ""
    names = (transcript.text_or_empty((line.value or {}).get(client.sessions.line_id)) for line in transcript.parse_lines_backwards(tail))
    return next((name for name in names if name), "")
