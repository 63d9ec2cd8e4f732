"""A cursor: a position in an agent's transcript, by identity first.

A byte offset taken while a hook runs is wrong as often as not, because the client is still writing: what counts are the
ids, and where the cut is gets decided when it is needed. Offset and hashes tell whether the file is still the same one.
"""

from .._typing import NamedTuple
from . import tlv

MOST = 256 << 20
"""Bytes of a transcript that are stored. A longer one is left where it is; the cursor still names its place."""
WINDOW = 64 * 1024
"""Bytes at the start, and up to `offset`, of a transcript that `prefix` and `tail` are the hashes of."""

# in the order of the fields
(_AGENT, _SESSION, _TRANSCRIPT, _PROMPT, _MESSAGE, _TURN, _TOOL, _EVENT, _OFFSET, _PREFIX, _TAIL) = range(1, 12)


class Cursor(NamedTuple):
    """A position in a transcript.

    `transcript` is the path (bytes) of the file. `prompt_id`, `message_id`, `turn_id` and `tool_use_id` are the client's
    names for what was going on, "" where it has none; `event_id` is the id of the last whole line that has one.
    `offset` (bytes) is the end of the last whole line; `prefix` and `tail` are the SHA-256 (32 bytes) of the first and
    last WINDOW bytes before it, b"" when there were none.
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
    """A cursor as bytes; what is empty takes no place."""
    values: tuple[tlv.Value, ...] = cursor
    return tlv.encode((tag, value) for tag, value in enumerate(values, 1) if value)


def decode(data: bytes) -> Cursor:
    """The cursor in these bytes; raises ManifestCorrupt."""
    got = tlv.Fields(data, "cursor")
    return Cursor(
        agent=got.text(_AGENT),
        session=got.text(_SESSION),
        transcript=got.raw(_TRANSCRIPT),
        prompt_id=got.text(_PROMPT),
        message_id=got.text(_MESSAGE),
        turn_id=got.text(_TURN),
        tool_use_id=got.text(_TOOL),
        event_id=got.text(_EVENT),
        offset=got.number(_OFFSET),
        prefix=got.raw(_PREFIX, 32),
        tail=got.raw(_TAIL, 32),
    )
