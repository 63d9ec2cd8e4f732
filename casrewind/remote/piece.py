"""Pieces: the immutable objects of a remote, with blobs, ledger records and a table of both.

The danger prevented here: a piece is taken for what its machine wrote, and is not. Storage may cut it, change it, swap
it with another one or answer for another name. All that is read is opened with the key of this very object, and every
length is checked before memory is used for it: even a holder of the key cannot make a reader trust a wrong table. The
byte table is in docs/internals/remote-format.md.
"""

import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby

from .. import errors
from .._typing import NamedTuple
from ..model import tlv
from ..store import ledger, packs
from . import seal

MAGIC = b"CRR1"
_END = struct.Struct("<32sI4s")  # MAC, length of the sealed table, magic
_FRAME = struct.Struct("<IIIB")  # bytes compressed, bytes plain, number of blobs, use
_RECORD = struct.Struct("<BQI")  # kind, sequence number, length of the payload
_LENGTH = struct.Struct("<I")
_DIGEST = 32
_PER_BLOB = _DIGEST + _LENGTH.size  # bytes of a blob in the table
_TABLE_NUMBER = (1 << 32) - 1
_FRAMES, _DIGESTS, _LENGTHS, _BEFORE, _PUSH, _MACHINE, _VERSION, _ROLLED_UP = range(1, 9)

CONTENT, CONTAINER, _RECORDS = range(3)
"""The uses of a frame and of its blobs. A container names other blobs, see store/reachability.py."""
_FULL = {CONTENT: 1 << 20, CONTAINER: 8 << 20, _RECORDS: 8 << 20}
"""Plain bytes of a frame, but for a longer blob or record in a frame of its own."""
MOST = {
    CONTENT: max(packs.MOST[kind] for kind in (packs.FILE, packs.CHUNK, packs.RULES)),
    CONTAINER: max(packs.MOST[kind] for kind in (packs.TREE, packs.CHUNK_LIST, packs.DOMAIN)),
    _RECORDS: _RECORD.size + ledger.MAX_PAYLOAD,
}
"""Maximum plain bytes of a frame, by use."""
MOST_TABLE = 32 << 20
MOST_RECORDS = 256 << 20
"""Maximum plain bytes of a table, and of all records of a piece."""
MOST_FRAMES = 1 << 16
TAIL = 1 << 16
"""Bytes at the end of a piece that are read first. They hold the table of nearly every piece."""
_READER = 4096
"""Bytes of a reader without the tail and the table of its piece, about."""
_NEAR = 1 << 20
"""Frames that are closer than this many bytes are read at once."""
_MOST_READ = 16 << 20
"""No more than this many bytes are read at once, but for a longer frame."""
FIRST = bytes(32)
"""The MAC before the first piece of a chain."""


class PieceDamaged(errors.RemoteError):
    """A piece does not have the bytes that its machine wrote, or cannot be read for another reason. `state` says which."""

    state = "is damaged or cut"


class PieceForeign(PieceDamaged):
    """What has the name of a piece neither begins nor ends as one: no piece of casrewind was put there."""


class PieceNewer(PieceDamaged):
    """A piece of a later format."""

    state = "was written by a newer casrewind: upgrade casrewind"


class PieceGone(PieceDamaged):
    """A piece that was deleted since it was listed."""

    state = "was deleted just now: pull again"


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
    `rolled_up`: in a roll-up the MAC of the last piece that it replaces, in a piece that was emptied then the MAC of the roll-up."""

    frames: tuple[Frame, ...]
    blobs: BlobRows
    records: int
    before: bytes
    push: bytes
    machine: str
    version: str
    rolled_up: bytes = b""


class _FrameWriter:
    """The compressed frames of one use, and the parts of the next one."""

    def __init__(self, use: int) -> None:
        self._use = use
        self._parts: list[bytes] = []
        self._size = 0
        self.frames: list[bytes] = []
        self.rows = bytearray()

    def add(self, part: bytes) -> None:
        if len(part) > MOST[self._use]:
            raise errors.RemoteError(f"a part of {len(part):,} bytes is longer than a piece may have")
        if self._size + len(part) > _FULL[self._use]:
            self.close()
        self._parts.append(part)
        self._size += len(part)

    def close(self) -> None:
        if self._parts:
            self.frames.append(packs.compress_together(self._parts))
            count = 0 if self._use == _RECORDS else len(self._parts)
            self.rows += _FRAME.pack(len(self.frames[-1]), self._size, count, self._use)
            self._parts, self._size = [], 0


class PieceBuilder:
    """Collects one piece. Equal input gives equal bytes."""

    def __init__(self, keys: seal.Keys) -> None:
        """Starts empty."""
        self._keys = keys
        self._writers = {use: _FrameWriter(use) for use in _FULL}
        self._digests = {CONTENT: bytearray(), CONTAINER: bytearray()}
        self._lengths = {CONTENT: bytearray(), CONTAINER: bytearray()}
        self._records = 0
        self.size = 0
        """Bytes so far: plain, with those of the table."""

    def add(self, digest: bytes, use: int, data: bytes) -> None:
        """Add a blob."""
        self._writers[use].add(data)
        self._digests[use] += digest
        self._lengths[use] += _LENGTH.pack(len(data))
        self.size += len(data) + _PER_BLOB

    def add_records(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """Add ledger records: (kind, sequence number, payload)."""
        for kind, seq, payload in records:
            part = _RECORD.pack(kind, seq, len(payload)) + payload
            self._records += len(part)
            if self._records > MOST_RECORDS:
                raise errors.RemoteError("these are more records than a piece may have")
            self._writers[_RECORDS].add(part)
            self.size += len(part)

    def finish(self, name: str, before: bytes, push: bytes, machine: str, rolled_up: bytes = b"") -> tuple[bytes, bytes]:
        """The bytes of the object `name`, and its MAC. The others are those of `Table`. Nothing may be added afterwards."""
        if not _is_plain_text(machine):
            raise errors.RemoteError(f"{machine!r} is no name for a machine", "use letters, digits and - _ . /")
        parts: list[bytes] = []
        rows = b""
        for writer in self._writers.values():
            writer.close()
            parts += writer.frames
            rows += writer.rows
            writer.frames = []
        values: tuple[tlv.Value, ...] = (
            rows, b"".join(self._digests.values()), b"".join(self._lengths.values()), before, push, machine, _own_version(),
            *((rolled_up,) if rolled_up else ()),
        )  # fmt: skip
        parts.append(packs.compress_together([tlv.encode(enumerate(values, start=_FRAMES))]))
        mac = self._keys.mac(parts)
        box = self._keys.box(mac, name)
        for number, part in enumerate(parts[:-1]):
            parts[number] = box.seal(number, part)
        parts[-1] = box.seal(_TABLE_NUMBER, parts[-1])
        return b"".join((MAGIC, *parts, _END.pack(mac, len(parts[-1]), MAGIC))), mac


def _own_version() -> str:
    """The version of casrewind. An import of the package for it would make a circle: the package names every module."""
    return str(vars(sys.modules[__name__.partition(".")[0]])["__version__"])


def _is_plain_text(text: str) -> bool:
    """True if the text can be printed as it is."""
    return len(text) < 256 and text.isprintable()


def _decode_blob_rows(rows: Sequence[tuple[int, int, int, int]], digests: bytes, lengths: bytes) -> BlobRows:
    """The blobs of a table's frames. Raises ValueError if the lengths contradict each other."""
    counts = sum(count for _, _, count, _ in rows)
    if len(digests) != counts * _DIGEST or len(lengths) != counts * _LENGTH.size:
        raise ValueError("its table names other blobs than it counts")
    last, every = CONTENT, _LENGTH.iter_unpack(lengths)
    for _, plain, count, use in rows:
        if not last <= use <= _RECORDS or plain > MOST[use] or (count > 1 and plain > _FULL[use]) or (use == _RECORDS and count):
            raise ValueError("its table has a frame that no push makes")
        if use != _RECORDS and (not 1 <= count <= plain + 1 or sum(next(every)[0] for _ in range(count)) != plain):
            raise ValueError("the blobs of a frame do not fill it")
        last = use
    return BlobRows([(use, count) for _, _, count, use in rows], digests, lengths)


def _decode_table(data: bytes, room: int) -> Table:
    """The table in these bytes. Raises ValueError if it is not one of a piece with `room` bytes for frames, ManifestCorrupt
    if it is not a record."""
    fields = tlv.Fields(data, "table")
    encoded = fields.required_bytes(_FRAMES)
    if len(encoded) % _FRAME.size or len(encoded) > MOST_FRAMES * _FRAME.size:
        raise ValueError("its table has frames that no push makes")
    if sum(stored + seal.OVERHEAD for stored, _, _, _ in _FRAME.iter_unpack(encoded)) != room:
        raise ValueError("its table names other bytes than it has")
    rows: list[tuple[int, int, int, int]] = list(_FRAME.iter_unpack(encoded))
    blobs = _decode_blob_rows(rows, fields.bytes_or_empty(_DIGESTS), fields.bytes_or_empty(_LENGTHS))
    machine, version = fields.text(_MACHINE), fields.text(_VERSION)
    if not _is_plain_text(machine) or not _is_plain_text(version):
        raise ValueError("its table has a name that no push makes")
    if sum(plain for _, plain, _, use in rows if use == _RECORDS) > MOST_RECORDS:
        raise ValueError("its records are too many")
    return Table(
        tuple(Frame(stored + seal.OVERHEAD, stored, plain) for stored, plain, _, _ in rows),
        blobs,
        next((number for number, row in enumerate(rows) if row[3] == _RECORDS), -1),
        fields.required_bytes(_BEFORE, len(FIRST)),
        fields.required_bytes(_PUSH, 16),
        machine,
        version,
        fields.bytes_or_empty(_ROLLED_UP, len(FIRST)),
    )


def reseal(keys: seal.Keys, data: bytes, name: str, other: str) -> bytes:
    """The bytes of the piece `name`, which this process made, as the piece `other`. Its MAC stays."""
    reader = PieceReader(keys, name, len(data), lambda start, end: data[start:end])
    old, new = keys.box(reader.mac, name), keys.box(reader.mac, other)
    sizes = [frame.sealed for frame in reader.table.frames]
    numbers = [*range(len(sizes)), _TABLE_NUMBER]
    sizes.append(len(data) - len(MAGIC) - _END.size - sum(sizes))
    parts, start = [MAGIC], len(MAGIC)
    for number, size in zip(numbers, sizes, strict=True):
        parts.append(new.seal(number, old.open(number, data[start : start + size])))
        start += size
    return b"".join((*parts, data[start:]))


class PieceReader:
    """Reads one piece. Every method raises PieceDamaged for other bytes than its machine wrote, and what `read` raises."""

    def __init__(self, keys: seal.Keys, name: str, size: int, read: Callable[[int, int], bytes]) -> None:
        """`read` gives the bytes from an offset to another one. Reads the table. Raises PieceNewer, too."""
        self._name, self._read, self._size = name, read, size
        self._tail, self._tail_start = b"", size
        if size < len(MAGIC) + _END.size:
            raise self._damage_or_foreign_error("it is cut")
        start = max(0, size - TAIL)
        self._tail, self._tail_start = self._bytes_of_range(start, size), start
        self.mac: bytes
        self.mac, length, magic = _END.unpack(self._tail[-_END.size :])
        if MAGIC[:3] != magic[:3]:
            raise self._damage_or_foreign_error("it does not end as a piece")
        self._check_magic(magic)
        if not start:
            self._check_magic(self._tail[: len(MAGIC)])
        end = size - _END.size
        if length > min(MOST_TABLE, end - len(MAGIC)):
            raise self._damage_error("its table is longer than it may be")
        self._box = keys.box(self.mac, name)
        table = self._unseal(_TABLE_NUMBER, self._bytes_of_range(end - length, end), MOST_TABLE)
        try:
            self.table = _decode_table(table, end - length - len(MAGIC))
        except (errors.ManifestCorrupt, ValueError) as error:
            raise self._damage_error(str(error) if isinstance(error, ValueError) else "its table cannot be decoded") from error
        self._starts = [len(MAGIC)]
        for frame in self.table.frames:
            self._starts.append(self._starts[-1] + frame.sealed)
        self._tail = self._tail[: max(0, self._starts[-1] - self._tail_start)]  # the table is decoded

    def _damage_error(self, why: str) -> PieceDamaged:
        return PieceDamaged(f"the piece {self._name} of the remote is damaged: {why}")

    def _damage_or_foreign_error(self, why: str) -> PieceDamaged:
        """The error for an object that is no whole piece: half of one begins as one, or ends as one."""
        size = min(len(MAGIC), self._size)
        begin, end = self._read(0, size) if size else b"", self._read(self._size - size, self._size) if size else b""
        if MAGIC.startswith(begin[:3]) or end.startswith(MAGIC[:3]):
            return self._damage_error(why)
        return PieceForeign(self._damage_error(why).problem)

    def _check_magic(self, magic: bytes) -> None:
        if magic[:3] == MAGIC[:3] and magic[3:].isdigit() and magic > MAGIC:
            raise PieceNewer(f"the piece {self._name} of the remote was written by a newer casrewind", "upgrade casrewind")
        if magic != MAGIC:
            raise self._damage_error("it does not begin and end as a piece")

    def _bytes_of_range(self, start: int, end: int) -> bytes:
        """These bytes of the piece, without a request for those of its tail."""
        middle = max(start, self._tail_start)
        data = self._tail[middle - self._tail_start : max(middle, end) - self._tail_start]
        if start < self._tail_start:
            data = self._read(start, min(end, self._tail_start)) + data
        if len(data) != end - start:
            raise self._damage_error("it is cut")
        return data

    def _unseal(self, number: int, sealed: bytes, most: int, length: int | None = None) -> bytes:
        try:
            return packs.decompress(self._box.open(number, sealed), most, length)
        except seal.Unsealed:
            raise self._damage_error("the key does not open it") from None
        except errors.BlobCorrupt as error:
            raise self._damage_error(str(error)) from error

    def _read_frames(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield the plain bytes of these frames, in order. Close ones are read at once."""
        for group in self._groups_to_read_at_once(numbers):
            start = self._starts[group[0]] if group[0] else 0
            data = self._bytes_of_range(start, self._starts[group[-1] + 1])
            if not start:
                self._check_magic(data[: len(MAGIC)])
            for number in group:
                frame = self.table.frames[number]
                first = self._starts[number] - start
                yield number, self._unseal(number, data[first : first + frame.sealed], frame.plain, frame.plain)

    def _groups_to_read_at_once(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        group: list[int] = []
        for number in numbers:
            end = self._starts[number + 1]
            if group and (self._starts[number] - self._starts[group[-1] + 1] >= _NEAR or end - self._starts[group[0]] > _MOST_READ):
                yield group
                group = []
            group.append(number)
        if group:
            yield group

    def forget_read_bytes(self) -> None:
        """Give back the memory of the bytes that were read. They are read again if they are needed."""
        self._tail, self._tail_start = b"", self._size

    @property
    def bytes_held(self) -> int:
        """Bytes that the reader has in memory, about."""
        return len(self._tail) + self.table.blobs.table_bytes + _READER

    @property
    def is_end(self) -> bool:
        """True for a piece that holds nothing: its chain has ended, and its other pieces are emptied."""
        return not self.table.frames and self.table.before == FIRST and not self.table.rolled_up

    @property
    def is_replaced(self) -> bool:
        """True for a piece that was emptied, because a roll-up has what it had."""
        return not self.table.frames and bool(self.table.rolled_up)

    @property
    def mac_at_end(self) -> bytes:
        """The MAC that the piece behind this one names."""
        return self.table.rolled_up if self.table.frames and self.table.rolled_up else self.mac

    def frame(self, number: int) -> bytes:
        """The plain bytes of one frame."""
        return next(self._read_frames([number]))[1]

    def records(self) -> list[tuple[int, int, bytes]]:
        """The ledger records: (kind, sequence number, payload)."""
        found = []
        first = self.table.records
        for _, data in self._read_frames(range(first, len(self.table.frames)) if first >= 0 else ()):
            position = 0
            while position < len(data):
                start = position + _RECORD.size
                if start > len(data):
                    raise self._damage_error("a record is cut")
                kind, seq, length = _RECORD.unpack_from(data, position)
                position = start + length
                if position > len(data):
                    raise self._damage_error("a record is longer than its frame")
                found.append((kind, seq, data[start:position]))
        return found

    def every_blob(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield (digest, use, data) of every blob. They are not hashed here."""
        rows = groupby(self.table.blobs, lambda blob: blob.frame)  # each frame has one, but for those of records
        number = self.table.records if self.table.records >= 0 else len(self.table.frames)
        for (_, data), (_, blobs) in zip(self._read_frames(range(number)), rows, strict=True):
            for blob in blobs:
                yield blob.digest, blob.use, data[blob.offset : blob.offset + blob.length]

    def blobs(self, wanted: Collection[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield (digest, use, data) of these blobs, for each use that they have here. They are not hashed here."""
        wanted = frozenset(wanted)
        found: dict[int, list[PieceBlob]] = {}
        for blob in self.table.blobs:
            if blob.digest in wanted:
                found.setdefault(blob.frame, []).append(blob)
        for number, data in self._read_frames(found):
            for blob in found[number]:
                yield blob.digest, blob.use, data[blob.offset : blob.offset + blob.length]
