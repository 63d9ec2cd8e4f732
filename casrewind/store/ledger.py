"""The ledger: the append-only log of a store. A checkpoint exists once its record here is synced.

The danger prevented here: losing an acknowledged checkpoint, or trusting a half-written record. Every record has a
sequence number and a checksum. An invalid tail is a *torn* append only if nothing sound follows it and it was never
acknowledged. The next writer cuts a torn tail. Everything else is damage and raises an error.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress

from .. import errors, fsio
from .._typing import NamedTuple
from ..messages import printable
from ..model import digest as digests

MAGIC = b"CRLG"
VERSION = 2
HEAD = struct.Struct("<4sI16s")  # magic, version, id of this ledger file
_MOST_SUCCESSORS = 10_000
"""Maximum number of rewrites of a ledger between two updates of an index."""
RECORD_MAGIC = b"CRE1"
RECORD = struct.Struct("<4sBBHQI")  # magic, kind, zero, zero, sequence number, payload length
CHECK = 16
MAX_PAYLOAD = 1 << 24
LONGEST = RECORD.size + MAX_PAYLOAD + CHECK
"""Bytes of the longest record. More bytes than these at the end are no torn append: every append is one record."""
_WINDOW = 1 << 20
"""Bytes that are read at once: a ledger may be, or may have been made, larger than the memory."""

CHECKPOINT, PIN, UNPIN, LABEL, FORGET, RESTORE, UNDO, REDO, SESSION, HISTORY, ADOPT, FINISH, STATEMENTS = range(1, 14)


class Record(NamedTuple):
    """One record: its kind, its sequence number in the ledger, its payload, the offset of its end."""

    kind: int
    seq: int
    payload: bytes
    end: int


def encode(kind: int, seq: int, payload: bytes) -> bytes:
    """A record as bytes."""
    if len(payload) > MAX_PAYLOAD:
        raise errors.StoreError("a ledger record would be larger than 16 MiB", "shorten the label or the prompt")
    body = RECORD.pack(RECORD_MAGIC, kind, 0, 0, seq, len(payload)) + payload
    return body + digests.of(body)[:CHECK]


def decode(data: bytes, position: int) -> Record | None:
    """The record at `position`, or None if there is no complete and sound record."""
    if position + RECORD.size + CHECK > len(data):
        return None
    magic, kind, _, _, seq, length = RECORD.unpack_from(data, position)
    end = position + RECORD.size + length + CHECK
    if magic != RECORD_MAGIC or length > MAX_PAYLOAD or end > len(data):
        return None
    body = data[position : end - CHECK]
    if digests.of(body)[:CHECK] != data[end - CHECK : end]:
        return None
    return Record(kind, seq, body[RECORD.size :], end)


def id_of_next_rewrite(identity: bytes) -> bytes:
    """The id of the ledger's next rewrite."""
    return digests.of(b"the ledger after " + identity)[:16]


def is_rewrite_of(identity: bytes, earlier: bytes) -> bool:
    """True if the ledger `identity` results from rewriting the ledger `earlier`, once or repeatedly."""
    for _ in range(_MOST_SUCCESSORS):
        earlier = id_of_next_rewrite(earlier)
        if earlier == identity:
            return True
    return False


def _has_later_record(data: bytes) -> bool:
    """True if a sound record begins after the first byte."""
    left = LONGEST  # bytes to hash: many false heads could need hours
    found = data.find(RECORD_MAGIC, 1)
    while found >= 0 and left > 0:
        if decode(data, found) is not None:
            return True
        left -= _length_claimed_by_head(data, found)
        found = data.find(RECORD_MAGIC, found + 1)
    return left <= 0


def _length_claimed_by_head(data: bytes, position: int) -> int:
    """The length that a record's head claims, if the bytes have as many; else that of a head."""
    if position + RECORD.size > len(data):
        return RECORD.size
    length = int(RECORD.unpack_from(data, position)[5])
    return RECORD.size + (length if position + length <= len(data) else 0)


class Ledger:
    """The ledger file of one store."""

    def __init__(self, path: str, temporary: str | None = None) -> None:
        """`path` is the ledger file, `temporary` a directory for unfinished files. Opens nothing yet."""
        self.path, self._temporary = path, temporary

    def create(self) -> None:
        """Create an empty ledger, durably."""
        self.replace(b"")

    def replace(self, records: bytes, after: bytes = b"") -> None:
        """Replace the ledger by encoded records, durably. The new id is the successor of `after`, by default of the
        present ledger's id. So an index can distinguish a rewritten ledger from an older one, or from another
        store's."""
        directory, name = os.path.split(self.path)
        with suppress(errors.CasrewindError, OSError):
            after = after or self.identity()
        head = HEAD.pack(MAGIC, VERSION, id_of_next_rewrite(after) if after else os.urandom(16))
        fsio.replace_file(directory, name, head + records, temporary=self._temporary)

    def size(self) -> int:
        """Bytes in the file."""
        return os.stat(self.path).st_size

    def sync(self) -> None:
        """Sync the file."""
        with fsio.closing(os.open(self.path, fsio.READ_FLAGS)) as fd:
            fsio.sync_fd(fd)

    def identity(self) -> bytes:
        """The 16-byte id of this ledger file; a rewrite changes it to its successor. Raises LedgerCorrupt."""
        try:
            head = fsio.read_file(self.path, HEAD.size)
        except FileNotFoundError:
            raise errors.LedgerCorrupt(f"damaged store: {printable(self.path)} is gone", "run casrewind verify") from None
        if len(head) != HEAD.size or head[:4] != MAGIC:
            raise errors.LedgerCorrupt(f"damaged ledger: {printable(self.path)} has no ledger header", "run casrewind verify")
        version, identity = HEAD.unpack(head)[1:]
        if version != VERSION:
            raise errors.FormatUnsupported(f"the ledger has version {version}, this casrewind knows version {VERSION}", "upgrade casrewind")
        return bytes(identity)

    def read(self, start: int, acknowledged: int) -> Iterator[Record]:
        """Yield every sound record from offset `start` (0 = the first). `acknowledged` is an offset up to which all
        records are known to be complete. Raises LedgerCorrupt for an invalid record before it, or before a sound
        record."""
        base = max(start, HEAD.size)  # read only what is new: the index has followed the rest
        least = max(acknowledged, HEAD.size)
        with fsio.closing(fsio.open_regular(self.path)) as fd:
            size = os.fstat(fd).st_size
            if size < least:
                raise errors.LedgerCorrupt(
                    f"damaged ledger: {printable(self.path)} has {size} bytes of at least {least} that were written",
                    "run casrewind verify"
                )
            position, data, first = base, b"", base  # `data`: the bytes from offset `first` that were read last
            while position < size:
                record = decode(data, position - first)
                for length in (_WINDOW, LONGEST) if record is None else ():  # the record may go on behind these bytes
                    data, first = os.pread(fd, min(length, size - position), position), position
                    record = decode(data, 0)
                    if record is not None or len(data) < length:
                        break
                if record is None:
                    self._raise_unless_torn_append(data, position, size, acknowledged)
                    return
                position = first + record.end
                yield record._replace(end=position)

    def _raise_unless_torn_append(self, data: bytes, position: int, size: int, acknowledged: int) -> None:
        """Raise LedgerCorrupt if the bytes from offset `position` to the end (`size`) are no torn append. `data` are
        these bytes, at least as many as a record can have."""
        if position >= acknowledged and size - position > LONGEST:
            raise errors.LedgerCorrupt(
                f"damaged ledger: the {size - position:,} bytes at the end of {printable(self.path)} are not a record",
                "run casrewind verify --repair, which keeps all checkpoints and sets the damaged file aside"
            )
        if position < acknowledged or _has_later_record(data):
            raise errors.LedgerCorrupt(
                f"damaged ledger: the record at byte {position} of {printable(self.path)} is not what was written",
                "run casrewind verify"
            )

    def append(self, end: int, records: bytes) -> int:
        """Write encoded records at offset `end` (the end of the last sound record) and sync them. Returns the new
        end. First cuts a torn tail after `end`; its bytes are kept in a file beside the ledger. The caller holds the
        publish lock. After a failure none of the new records count, and the file is truncated again."""
        with fsio.closing(os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)) as fd:
            size = os.fstat(fd).st_size
            if size > end:
                self._cut_torn_end(fd, end, size)
            os.lseek(fd, end, os.SEEK_SET)
            try:
                fsio.write_all(fd, records)
                fsio.sync_fd(fd)
            except BaseException:
                with suppress(OSError):  # an uncut rest is a torn tail, or counts without acknowledgement
                    os.ftruncate(fd, end)
                raise
        return end + len(records)

    def _cut_torn_end(self, fd: int, end: int, size: int) -> None:
        """Cut off a record that was not written to its end. Keeps its bytes in a file beside the ledger."""
        if size - end > LONGEST:  # it has grown since it was read
            self._raise_unless_torn_append(b"", end, size, 0)
        torn = os.pread(fd, size - end, end)
        name = f"ledger.cut-{end}-{os.urandom(4).hex()}"
        fsio.replace_file(os.path.dirname(self.path), name, torn, temporary=self._temporary)
        os.ftruncate(fd, end)
        fsio.sync_fd(fd)


MARKS = frozenset((PIN, UNPIN, LABEL))
OPERATIONS = frozenset((RESTORE, UNDO, REDO, FINISH))
