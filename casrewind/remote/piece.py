"""Pieces: the immutable objects of a remote, with blobs, ledger records and a table of both.

The danger prevented here: a piece is taken for what its machine wrote, and is not. Storage may cut it, change it, swap
it with another one or answer for another name. All that is read is opened with the key of this very object, and every
length is checked before memory is used for it: even a holder of the key cannot make a reader trust a wrong table. The
byte table is in docs/internals/remote-format.md.
"""

import struct
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby

from .. import errors
from ..model import tlv
from ..store import ledger, packs
from . import seal
from .piece_errors import PieceDamaged, PieceForeign, PieceNewer, PieceOfNewerKey
from .piece_table import BlobRows, Frame, PieceBlob, Table

MAGIC = b"CRR2"
_BEGIN = struct.Struct("<4sI")  # magic, number of the master key
_KEY_NUMBER = 1
_END = struct.Struct("<32sI4s")  # MAC, length of the sealed table, magic
_FRAME = struct.Struct("<IIIB")  # bytes compressed, bytes plain, number of blobs, use
_RECORD = struct.Struct("<BQI")  # kind, sequence number, length of the payload
_LENGTH = struct.Struct("<I")
_DIGEST = 32
_PER_BLOB = _DIGEST + _LENGTH.size  # bytes of a blob in the table
_PADDING_NUMBER, _TABLE_NUMBER = (1 << 32) - 2, (1 << 32) - 1
_FRAMES, _DIGESTS, _LENGTHS, _BEFORE, _PUSH, _MACHINE, _VERSION, _ROLLED_UP, _END_REASON, _GONE = range(1, 11)
_TABLE_STEP = 256
GONE_SIZE = 16
"""Bytes of a digest in `Table.gone`."""

PURGED, REMOVED, ANEW = 1, 2, 3
"""Why a chain has ended."""

CONTENT, CONTAINER, _RECORDS = range(3)
"""The uses of a frame and of its blobs. A container names other blobs, see store/reachability.py."""
_FULL = {CONTENT: 1 << 20, CONTAINER: 8 << 20, _RECORDS: 8 << 20}
"""Plain bytes of a frame, but for a longer blob or record in a frame of its own."""
MOST = {
    CONTENT: max(packs.MOST[kind] for kind in (packs.FILE, packs.CHUNK, packs.RULES)),
    CONTAINER: 32 << 20,  # in a store a domain may be longer: it would name some 400,000 paths that were skipped
    _RECORDS: _RECORD.size + ledger.MAX_PAYLOAD,
}
"""Maximum plain bytes of a frame, by use."""
MOST_TABLE = 20 << 20
MOST_RECORDS = 32 << 20
"""Maximum plain bytes of a table, and of all records of a piece. A push ends a piece at 16 MiB."""
TABLE_RATIO, TABLE_FLOOR = 4, 4096
"""A table has at most so many plain bytes for each compressed one, and so many more. Digests do not compress: real ones have 1.2."""
MOST_FRAMES = 1024
"""A piece of 16 MiB has some 40."""
_LARGE_TABLE = 1 << 18
_one_large_table = threading.Lock()
"""Tables above this size are opened one at a time, however many threads read pieces."""
_PER_FRAME, _PER_GONE = 256, 128
"""Bytes of memory of a frame and of a purged digest in a table that was read, about."""
_SIZE_STEP, _STEPS_TO = 4096, 1 << 16
TAIL = 1 << 16
"""Bytes at the end of a piece that are read first. They hold the table of nearly every piece."""
_READER = 4096
"""Bytes of a reader without the tail and the table of its piece, about."""
_NEAR = 1 << 20
"""Frames that are closer than this many bytes are read at once."""
_MOST_READ = 16 << 20
"""No more than this many bytes are read at once, but for a longer frame."""
MOST_EMPTY = _SIZE_STEP - 1
"""More bytes than an emptied piece has, and fewer than any piece with frames."""
FIRST = bytes(32)
"""The MAC before the first piece of a chain."""


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

    def finish(
        self, name: str, before: bytes, push: bytes, machine: str, rolled_up: bytes = b"", end: int = 0, gone: Collection[bytes] = ()
    ) -> tuple[bytes, bytes]:
        """The bytes of the object `name`, and its MAC. The others are those of `Table`. Nothing may be added afterwards."""
        if not _is_plain_text(machine):
            raise errors.RemoteError(f"{machine!r} is not a name for a machine", "use letters, digits and - _ . /")
        parts: list[bytes] = []
        rows = b""
        for writer in self._writers.values():
            writer.close()
            parts += writer.frames
            rows += writer.rows
            writer.frames = []
        values: tuple[tlv.Value, ...] = (
            rows, b"".join(self._digests.values()), b"".join(self._lengths.values()), before, push, machine, _own_version(),
        )  # fmt: skip
        fields = [*enumerate(values, start=_FRAMES), *([(_ROLLED_UP, rolled_up)] if rolled_up else [])]
        fields += [(_END_REASON, end)] if end else []
        fields += [(_GONE, b"".join(sorted(gone)))] if gone else []
        table = packs.compress_together([tlv.encode(fields)])
        table = _LENGTH.pack(len(table)) + table
        table += bytes(-len(table) % _TABLE_STEP)
        frames = sum(len(part) + seal.OVERHEAD for part in parts)
        parts += [bytes(_padding_of(frames, len(table) + seal.OVERHEAD)), table]
        mac = self._keys.mac(parts)
        box = self._keys.box(mac, name)
        for number, part in enumerate(parts[:-2]):
            parts[number] = box.seal(number, part)
        parts[-2:] = box.seal(_PADDING_NUMBER, parts[-2]), box.seal(_TABLE_NUMBER, parts[-1])
        return b"".join((_BEGIN.pack(MAGIC, _KEY_NUMBER), *parts, _END.pack(mac, len(parts[-1]), MAGIC))), mac


def _padding_of(frames: int, table: int) -> int:
    """Bytes of the padding of a piece whose sealed frames and table have so many bytes. Without frames there is none.

    Steps below 64 KiB, above it Padme (Nikitin et al., Reducing Metadata Leakage from Encrypted Files and Communication with PURBs)."""
    size = _BEGIN.size + frames + seal.OVERHEAD + table + _END.size
    if not frames:
        return 0
    if size <= _STEPS_TO:
        return -size % _SIZE_STEP
    exponent = size.bit_length() - 1
    return -size % (1 << (exponent - exponent.bit_length()))


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


def _decode_table(data: bytes, room: int, table: int) -> Table:
    """The table in these bytes. Raises ValueError if it is not one of a piece with `room` bytes for frames and padding and `table` bytes
    for its sealed table, ManifestCorrupt if it is not a record."""
    fields = tlv.Fields(data, "table")
    encoded = fields.required_bytes(_FRAMES)
    if len(encoded) % _FRAME.size or len(encoded) > MOST_FRAMES * _FRAME.size:
        raise ValueError("its table has frames that no push makes")
    sealed = sum(stored + seal.OVERHEAD for stored, _, _, _ in _FRAME.iter_unpack(encoded))
    if sealed + _padding_of(sealed, table) + seal.OVERHEAD != room:
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
        fields.number(_END_REASON),
        _decode_gone(fields.bytes_or_empty(_GONE)),
    )


def _decode_gone(data: bytes) -> frozenset[bytes]:
    if len(data) % GONE_SIZE:
        raise ValueError("its table has other digests than a purge writes")
    return frozenset(data[at : at + GONE_SIZE] for at in range(0, len(data), GONE_SIZE))


def reseal(keys: seal.Keys, data: bytes, name: str, other: str) -> bytes:
    """The bytes of the piece `name`, which this process made, as the piece `other`. Its MAC stays."""
    reader = PieceReader(keys, name, len(data), lambda start, end: data[start:end])
    old, new = keys.box(reader.mac, name), keys.box(reader.mac, other)
    sizes = [frame.sealed for frame in reader.table.frames]
    numbers = [*range(len(sizes)), _PADDING_NUMBER, _TABLE_NUMBER]
    _, table, _ = _END.unpack(data[-_END.size :])
    sizes += [len(data) - _BEGIN.size - _END.size - table - sum(sizes), table]
    parts, start = [data[: _BEGIN.size]], _BEGIN.size
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
        if size < _BEGIN.size + _END.size:
            raise self._damage_or_foreign_error("it is cut")
        start = max(0, size - TAIL)
        self._tail, self._tail_start = self._bytes_of_range(start, size), start
        self.mac: bytes
        self.mac, length, magic = _END.unpack(self._tail[-_END.size :])
        if MAGIC[:3] != magic[:3]:
            raise self._damage_or_foreign_error("it does not end as a piece")
        self._check_magic(magic)
        if not start:
            self._check_begin(self._tail)
        end = size - _END.size
        if length > min(MOST_TABLE, end - _BEGIN.size):
            raise self._damage_error("its table is longer than it may be")
        self._box = keys.box(self.mac, name)
        self._table_size = length
        with _one_large_table if length > _LARGE_TABLE else nullcontext():
            table = self._open_table(end - length, end)
            try:
                self.table = _decode_table(table, end - length - _BEGIN.size, length)
            except (errors.ManifestCorrupt, ValueError) as error:
                raise self._damage_error(str(error) if isinstance(error, ValueError) else "its table cannot be decoded") from error
            del table
        self._starts = [_BEGIN.size]
        for frame in self.table.frames:
            self._starts.append(self._starts[-1] + frame.sealed)
        self._is_padding_sound = False
        if self._starts[-1] >= self._tail_start:
            self.check_padding()
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

    def _check_begin(self, data: bytes) -> None:
        """Check the first bytes of the piece."""
        magic, key = _BEGIN.unpack_from(data)
        self._check_magic(magic)
        if key != _KEY_NUMBER:
            raise PieceOfNewerKey(f"the piece {self._name} of the remote is sealed with a newer key", "ask for that key")

    def _open_table(self, start: int, end: int) -> bytes:
        """The plain bytes of the table between these places."""
        try:
            part = self._box.open(_TABLE_NUMBER, self._bytes_of_range(start, end))
        except seal.Unsealed:
            if self._tail_start:  # another key may be named at the beginning
                self._check_begin(self._bytes_of_range(0, _BEGIN.size))
            raise self._damage_error("the key does not open it") from None
        length = _LENGTH.unpack_from(part)[0] if len(part) >= _LENGTH.size else 0
        if length > len(part) - _LENGTH.size:
            raise self._damage_error("its table is cut")
        try:
            return packs.decompress(part[_LENGTH.size : _LENGTH.size + length], min(MOST_TABLE, TABLE_FLOOR + TABLE_RATIO * length))
        except errors.BlobCorrupt as error:
            raise self._damage_error(str(error)) from error

    def _bytes_of_range(self, start: int, end: int) -> bytes:
        """These bytes of the piece, without a request for those of its tail."""
        middle = max(start, self._tail_start)
        data = self._tail[middle - self._tail_start : max(middle, end) - self._tail_start]
        if start < self._tail_start:
            data = self._read(start, min(end, self._tail_start)) + data
        if len(data) != end - start:
            raise self._damage_error("it is cut")
        return data

    def _unseal_part(self, number: int, sealed: bytes) -> bytes:
        try:
            return self._box.open(number, sealed)
        except seal.Unsealed:
            raise self._damage_error("the key does not open it") from None

    def _unseal(self, number: int, sealed: bytes, length: int) -> bytes:
        try:
            return packs.decompress(self._unseal_part(number, sealed), length, length)
        except errors.BlobCorrupt as error:
            raise self._damage_error(str(error)) from error

    def _read_frames(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield the plain bytes of these frames, in order. Close ones are read at once."""
        for group in self._reading_groups(numbers):
            start = self._starts[group[0]] if group[0] else 0
            data = self._bytes_of_range(start, self._starts[group[-1] + 1])
            if not start:
                self._check_begin(data)
            for number in group:
                frame = self.table.frames[number]
                first = self._starts[number] - start
                yield number, self._unseal(number, data[first : first + frame.sealed], frame.plain)

    def _reading_groups(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Groups of records that lie so close together that one request reads them."""
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
        frames, gone = len(self.table.frames) * _PER_FRAME, len(self.table.gone) * _PER_GONE
        return len(self._tail) + self.table.blobs.table_bytes + frames + gone + _READER

    @property
    def is_end(self) -> bool:
        """True for the end of a chain, and for the pieces that were emptied then."""
        return not self.table.frames and self.table.end > 0

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
        return list(self.each_record())

    def each_record(self, kinds: Collection[int] | None = None) -> Iterator[tuple[int, int, bytes]]:
        """Yield the ledger records, all or those of these kinds."""
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
                if kinds is None or kind in kinds:
                    yield kind, seq, data[start:position]

    def check_padding(self) -> None:
        """Check the bytes that hold nothing. Those among the first bytes that are read are checked at once. Raises PieceDamaged."""
        if not self._is_padding_sound:
            start, end = self._starts[-1], self._size - _END.size - self._table_size
            data = self._bytes_of_range(start, end) if start >= self._tail_start else self._read(start, end)
            if any(self._unseal_part(_PADDING_NUMBER, data)):
                raise self._damage_error("its padding holds something")
            self._is_padding_sound = True

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
