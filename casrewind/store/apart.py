"""What another process reads for a session: there it is compressed and becomes records, here they are stored.

The danger prevented here: two writers. A fork that helps with a first save has copies of a session, of its packs and of the
index's map, and must touch none of them: what it has is a session over a writer that hands its records on, and that knows of
nothing that is stored. What is stored already is left out by the session that takes them.
"""

from collections.abc import Callable, Sequence

from .. import errors
from . import packs
from .packs import Place
from .session import Session

Records = list[tuple[bytes, bytes, int]]
"""(record as it stands in a pack, digest, length of the blob) triples."""
_BATCH_BYTES = 1 << 20
_MOST_KNOWN = 20_000  # digests that are remembered: what comes twice is left out where it is taken


class Apart:
    """The two ends, for one session."""

    def __init__(self, session: Session) -> None:
        """`session` takes what comes."""
        self.take = session.take

    def sink(self, send: Callable[[Records], None]) -> "_Passing":
        """For the other process: a sink that gives every record to `send`."""
        return _Passing("", _Sender(send), _nothing, _nowhere, {}, _refuse)  # type: ignore[arg-type]  # as much of a writer as it needs


class _Passing(Session):
    """A session that compresses when it is full, with nothing beside it, and is full soon: that stays in the processor's cache."""

    def put(self, kind: int, data: bytes) -> bytes:
        digest = super().put(kind, data)
        if self._pending_bytes >= _BATCH_BYTES:
            self._hand_over()
        return digest

    def _hand_over(self) -> None:
        self.flush()
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()


class _Sender:
    """As much of a PackWriter as a session needs to append to it."""

    def __init__(self, send: Callable[[Records], None]) -> None:
        self._send = send

    def append(self, kind: int, blobs: Sequence[tuple[bytes, bytes]], _: object) -> None:
        self._send(packs.records_of(kind, blobs, packs.compress_alone([data for _, data in blobs])))


def _nothing(digest: bytes) -> bytes:
    raise LookupError(f"blob {digest.hex()} was handed on")


def _nowhere(_: list[bytes]) -> dict[bytes, Place]:
    return {}


def _refuse(size: int) -> None:
    raise errors.StoreFull(f"a file of {size:,} bytes: only the process that writes knows whether it fits")
