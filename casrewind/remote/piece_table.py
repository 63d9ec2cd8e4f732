"""What the table of a piece says."""

import struct
from collections.abc import Iterator, Sequence

from .._typing import NamedTuple

_LENGTH = struct.Struct("<I")
_DIGEST = 32


class PieceBlob(NamedTuple):
    """A blob of a piece: its use, the number of its frame, its place in the plain bytes of the frame."""

    digest: bytes
    use: int
    frame: int
    offset: int
    length: int


class Frame(NamedTuple):
    """Bytes of a frame in three states: in the piece, compressed, plain."""

    sealed: int
    stored: int
    plain: int


class BlobRows:
    """The blobs in a table, in order. They are decoded one at a time, because there may be half a million."""

    def __init__(self, frames: Sequence[tuple[int, int]], digests: bytes, lengths: bytes) -> None:
        """`frames` are (use, number of blobs)."""
        self._frames, self._digests, self._lengths = frames, digests, lengths

    def __len__(self) -> int:
        return len(self._lengths) // _LENGTH.size

    @property
    def table_bytes(self) -> int:
        """Bytes that the blobs take in the table."""
        return len(self._digests) + len(self._lengths)

    def digests_of(self, use: int) -> bytes:
        """The digests of the blobs with one use, 32 bytes each. Frames are in the order of their uses."""
        start, end = (sum(count for other, count in self._frames if other < most) for most in (use, use + 1))
        return self._digests[start * _DIGEST : end * _DIGEST]

    def __iter__(self) -> Iterator[PieceBlob]:
        lengths = _LENGTH.iter_unpack(self._lengths)
        position = 0
        for frame, (use, count) in enumerate(self._frames):
            offset = 0
            for _ in range(count):
                (length,) = next(lengths)
                yield PieceBlob(self._digests[position : position + _DIGEST], use, frame, offset, length)
                offset += length
                position += _DIGEST


class Table(NamedTuple):
    """The table of a piece. `records` is the number of the first frame with records, -1 without any: all frames from
    there on have records. `before` is the MAC of the piece before, `push` the id of the push, `version` casrewind's.
    `rolled_up`: in a roll-up the MAC of the last piece that it replaces, in a piece that was emptied then the MAC of the roll-up.
    `end`: why the chain has ended, 0 = it has not; `gone`: of a purge, what `Keys.digest_of_purged` gives for each purged blob."""

    frames: tuple[Frame, ...]
    blobs: BlobRows
    records: int
    before: bytes
    push: bytes
    machine: str
    version: str
    rolled_up: bytes = b""
    end: int = 0
    gone: frozenset[bytes] = frozenset()
