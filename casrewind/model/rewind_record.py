"""A rewind of a conversation, as a ledger record: the sessions involved and the files written."""

from .._typing import NamedTuple
from . import tlv

FORK, IN_PLACE = "fork", "in_place"
CHAT_ONLY = "-"
"""`Rewind.safety` of a rewind that changed no file."""

# in the order of the fields
_CREATED, _WORKTREE, _AGENT, _MODE, _SESSION, _PARENT, _TRANSCRIPT, _ORIGINAL, _CHECKPOINT, _SAFETY = range(1, 11)


class Rewind(NamedTuple):
    """A conversation that was rewound.

    `created_ns`: nanoseconds since 1970. `mode` is FORK or IN_PLACE. `session` is the id of the session with the
    earlier turns, `parent` its source (the same session if in place). `transcript` is the path (bytes) that was
    written. `original` is the path of the conversation before: the parent's file, or the backup if in place (b"" = no
    backup). `checkpoint` is the id of the checkpoint rewound to, or "". `safety` is the id of the safety checkpoint of
    the restore that was done with it, CHAT_ONLY = no file changed, "" = not recorded by an older version.
    """

    created_ns: int
    worktree: bytes
    agent: str
    mode: str
    session: str
    parent: str
    transcript: bytes
    original: bytes
    checkpoint: str
    safety: str = ""


def encode(rewind: Rewind) -> bytes:
    """A rewind as a record's payload."""
    values: tuple[tlv.Value, ...] = rewind
    return tlv.encode((tag, value) for tag, value in enumerate(values, 1) if value)


def decode(data: bytes) -> Rewind:
    """The rewind in a record's payload. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "session record")
    return Rewind(
        created_ns=got.number(_CREATED),
        worktree=got.required_bytes(_WORKTREE, 16),
        agent=got.text(_AGENT),
        mode=got.text(_MODE),
        session=got.text(_SESSION),
        parent=got.text(_PARENT),
        transcript=got.bytes_or_empty(_TRANSCRIPT),
        original=got.bytes_or_empty(_ORIGINAL),
        checkpoint=got.text(_CHECKPOINT),
        safety=got.text(_SAFETY),
    )
