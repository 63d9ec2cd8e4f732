"""The ledger: the append-only record of what happened. A checkpoint exists when its record here is synced.

The danger prevented here: an acknowledged checkpoint that is gone, or a half-written record that is believed. Every
record carries its sequence number and a checksum. A tail that does not check is a *torn* append, and is cut by the
next writer, only if nothing sound follows it and it was never acknowledged; everything else is damage and is said.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import digest as digests
from ..model import history as undo_history
from ..model import rewind as rewinds

MAGIC = b"CRLG"
VERSION = 2
HEAD = struct.Struct("<4sI16s")  # magic, version, id of this ledger file
_MOST_SUCCESSORS = 10_000
"""How many times a ledger may have been rewritten since an index followed it last."""
RECORD_MAGIC = b"CRE1"
RECORD = struct.Struct("<4sBBHQI")  # magic, kind, zero, zero, sequence number, payload length
CHECK = 16
MAX_PAYLOAD = 1 << 24

CHECKPOINT, PIN, UNPIN, LABEL, FORGET, RESTORE, UNDO, REDO, SESSION, HISTORY, ADOPT = range(1, 12)


class Record(NamedTuple):
    """One record: what kind, its place in the order of everything, its payload, the offset behind it."""

    kind: int
    seq: int
    payload: bytes
    end: int


def encode(kind: int, seq: int, payload: bytes) -> bytes:
    """A record's bytes."""
    if len(payload) > MAX_PAYLOAD:
        raise errors.StoreError("a ledger record would be larger than 16 MiB; shorten the label or the prompt")
    body = RECORD.pack(RECORD_MAGIC, kind, 0, 0, seq, len(payload)) + payload
    return body + digests.of(body)[:CHECK]


def decode(data: bytes, position: int) -> Record | None:
    """The record at `position`, or None when there is no whole and sound one."""
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


def successor(identity: bytes) -> bytes:
    """The id of the ledger that a ledger is rewritten as."""
    return digests.of(b"the ledger after " + identity)[:16]


def is_later(identity: bytes, earlier: bytes) -> bool:
    """True when the ledger `identity` came about by rewriting the ledger `earlier`, perhaps many times."""
    for _ in range(_MOST_SUCCESSORS):
        earlier = successor(earlier)
        if earlier == identity:
            return True
    return False


class Ledger:
    """The ledger file of one store."""

    def __init__(self, path: str, temporary: str | None = None) -> None:
        """`path` is the file's, `temporary` a directory for unfinished files; nothing is opened yet."""
        self.path, self._temporary = path, temporary

    def create(self) -> None:
        """Make an empty ledger, durable."""
        self.replace(b"")

    def replace(self, records: bytes, after: bytes = b"") -> None:
        """Make a ledger of encoded records, durable; it takes the place of the one there was.

        Its id tells that it came `after` that of another one, by default of the one that it replaces: so an index can
        tell a ledger that was rewritten from one that is older, or another store's.
        """
        directory, name = os.path.split(self.path)
        with suppress(errors.CasrewindError, OSError):
            after = after or self.identity()
        head = HEAD.pack(MAGIC, VERSION, successor(after) if after else bytes.fromhex(fsio.token(16)))
        fsio.replace_file(directory, name, head + records, temporary=self._temporary)

    def size(self) -> int:
        """Bytes in the file."""
        return os.stat(self.path).st_size

    def sync(self) -> None:
        """Make everything durable that is in the file."""
        fd = os.open(self.path, fsio.READ_FLAGS)
        try:
            fsio.sync_fd(fd)
        finally:
            os.close(fd)

    def identity(self) -> bytes:
        """The 16-byte id of this ledger file; its successor after it was rewritten. Raises LedgerCorrupt."""
        try:
            head = fsio.read_file(self.path, HEAD.size)
        except FileNotFoundError:
            raise errors.LedgerCorrupt(f"damaged store: {fsio.printable(self.path)} is gone; run casrewind verify") from None
        if len(head) != HEAD.size or head[:4] != MAGIC:
            raise errors.LedgerCorrupt(f"damaged ledger: {fsio.printable(self.path)} does not start like one; run casrewind verify")
        version, identity = HEAD.unpack(head)[1:]
        if version != VERSION:
            raise errors.FormatUnsupported(f"the ledger has version {version}, this casrewind knows version {VERSION}: upgrade casrewind")
        return bytes(identity)

    def read(self, start: int, acknowledged: int) -> Iterator[Record]:
        """Every sound record from offset `start` (0 = the first) on.

        `acknowledged` is an offset up to which everything is known to have been written whole. Raises LedgerCorrupt
        when a record before it is not sound, or one after which a sound one follows.
        """
        base = max(start, HEAD.size)  # only what is new is read: the rest of the file was followed long ago
        least = max(acknowledged, HEAD.size)
        size = self.size()
        if size < least:
            raise errors.LedgerCorrupt(
                f"damaged ledger: {fsio.printable(self.path)} has {size} bytes of at least {least} that were written; run "
                f"casrewind verify"
            )
        data = fsio.read_from(self.path, base)
        position = 0
        while position < len(data):
            record = decode(data, position)
            if record is None:
                if base + position < acknowledged or self._sound_after(data, position + 1):
                    raise errors.LedgerCorrupt(
                        f"damaged ledger: the record at byte {base + position} of {fsio.printable(self.path)} is not what was "
                        f"written; run casrewind verify"
                    )
                return
            position = record.end
            yield record._replace(end=base + record.end)

    @staticmethod
    def _sound_after(data: bytes, position: int) -> bool:
        found = data.find(RECORD_MAGIC, position)
        while found >= 0:
            if decode(data, found) is not None:
                return True
            found = data.find(RECORD_MAGIC, found + 1)
        return False

    def append(self, end: int, records: bytes) -> int:
        """Write encoded records behind offset `end` (where the last sound record ends) and make them durable.

        A torn tail behind `end` is cut first; its bytes are kept in a file beside the ledger. The new end. The caller
        holds the publish lock. After a failure nothing of the new records counts, and the file is cut back.
        """
        fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size > end:
                self._cut(fd, end, size)
            os.lseek(fd, end, os.SEEK_SET)
            try:
                fsio.write_all(fd, records)
                fsio.sync_fd(fd)
            except BaseException:
                with suppress(OSError):  # what could not be cut now is a torn tail, or counts although nobody was told
                    os.ftruncate(fd, end)
                raise
        finally:
            os.close(fd)
        return end + len(records)

    def _cut(self, fd: int, end: int, size: int) -> None:
        torn = os.pread(fd, size - end, end)
        name = f"ledger.cut-{end}-{fsio.token(4)}"
        fsio.replace_file(os.path.dirname(self.path), name, torn, temporary=self._temporary)
        os.ftruncate(fd, end)
        fsio.sync_fd(fd)


_MARKS = {PIN, UNPIN, LABEL}
OPERATIONS = frozenset((RESTORE, UNDO, REDO))


def compact(
    records: Iterable[Record], alive: Mapping[str, int], histories: Mapping[bytes, undo_history.History], seq: int
) -> Iterator[bytes]:
    """Encoded records that say the same of the checkpoints `alive` ({id: sequence number}) as `records` do. `histories`
    are as they stand after all of them, `seq` is the newest sequence number."""
    numbers = frozenset(alive.values())
    for record in records:
        if _counts(record, alive, numbers):
            yield encode(record.kind, record.seq, record.payload)
    for number, (worktree, history) in enumerate(sorted(histories.items()), start=seq + 1):
        yield encode(HISTORY, number, undo_history.encode_standing(worktree, history))


def _counts(record: Record, alive: Mapping[str, int], numbers: frozenset[int]) -> bool:
    if record.kind == CHECKPOINT:
        return record.seq in numbers
    if record.kind in _MARKS:
        return undo_history.decode_mark(record.payload).checkpoint in alive
    if record.kind == SESSION:
        checkpoint = rewinds.decode(record.payload).checkpoint
        return not checkpoint or checkpoint in alive
    if record.kind in OPERATIONS:  # undo goes by the histories; this says what was restored while the state before it is left
        return undo_history.decode_operation(record.payload).safety in alive
    return record.kind not in (FORGET, HISTORY)
