"""A cursor: a position in an agent's transcript, found by ids.

A byte offset read while a hook runs is often wrong, because the client is still writing. So the ids decide, and the
cut is located only when it is needed. Offset and hashes show if the file is still the same.
"""

from .._typing import NamedTuple
from . import tlv

MOST = 256 << 20
"""Bytes of a transcript that are stored. A longer transcript is not stored; the cursor still records the position."""
WINDOW = 64 * 1024
"""Bytes at the start of a transcript, and before `offset`, that `prefix` and `tail` are hashes of."""

# in the order of the fields
(_AGENT, _SESSION, _TRANSCRIPT, _PROMPT, _MESSAGE, _TURN, _TOOL, _EVENT, _OFFSET, _PREFIX, _TAIL) = range(1, 12)


class Cursor(NamedTuple):
    """A position in a transcript.

    `transcript` is the path (bytes) of the file. `prompt_id`, `message_id`, `turn_id` and `tool_use_id` are the
    client's ids at the time of the event, or "". `event_id` is the id of the last complete line that has an id.
    `offset` (bytes) is the end of the last complete line. `prefix` and `tail` are the SHA-256 (32 bytes) of the first
    and last WINDOW bytes before `offset`, or b"".
    """

    agent: str = ""
    session: str = ""
    transcript: bytes = b""
    prompt_id: str = ""
    message_id: str = ""
    turn_id: str = ""
    tool_use_id: str = ""
    event_id: str = ""
    offset: int = 0
    prefix: bytes = b""
    tail: bytes = b""


def encode(cursor: Cursor) -> bytes:
    """A cursor as bytes. Empty fields are left out."""
    values: tuple[tlv.Value, ...] = cursor
    return tlv.encode((tag, value) for tag, value in enumerate(values, 1) if value)


def decode(data: bytes) -> Cursor:
    """The cursor in these bytes. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "cursor")
    return Cursor(
        agent=got.text(_AGENT),
        session=got.text(_SESSION),
        transcript=got.bytes_or_empty(_TRANSCRIPT),
        prompt_id=got.text(_PROMPT),
        message_id=got.text(_MESSAGE),
        turn_id=got.text(_TURN),
        tool_use_id=got.text(_TOOL),
        event_id=got.text(_EVENT),
        offset=got.number(_OFFSET),
        prefix=got.bytes_or_empty(_PREFIX, 32),
        tail=got.bytes_or_empty(_TAIL, 32),
    )
