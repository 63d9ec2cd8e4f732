"""The statements that outlive their checkpoints: a rewrite of the ledger keeps them in one record (model/statement.py)."""

from collections.abc import Iterable, Iterator, Sequence

from ..model import checkpoint as checkpoints
from ..model import digest as digests
from ..model import statement, tlv
from ..model.statement import Statements
from . import ledger, packs

MOST_STATEMENTS = 50_000
"""Statements of checkpoints that are gone which a store keeps: some 10 MB. A proof begins behind those that it drops, and says so."""
_MOST_STATED = 128 << 20
"""Bytes of all kept statements, without compression."""
_WHAT = "record of statements"


def texts_in(payload: bytes) -> list[bytes]:
    """The statements in a ledger record. Raises StoreDamaged."""
    return tlv.decode_list(packs.decompress(statement.decode_record(payload).texts, _MOST_STATED), _WHAT)


def encode_texts(newest: bytes, texts: Sequence[bytes]) -> bytes:
    """A ledger record of statements; `newest` is the digest of the store's newest one."""
    return statement.encode_record(Statements(newest, packs.compress_together([tlv.encode_list(texts)])))


def statements_in(records: Iterable[ledger.Record]) -> Iterator[bytes]:
    """Every statement in these records, whatever chain it belongs to."""
    for record in records:
        if record.kind == ledger.STATEMENTS:
            yield from texts_in(record.payload)
        elif record.kind == ledger.CHECKPOINT and (
            text := statement.text_of(checkpoints.decode(record.seq, record.payload))
        ):
            yield text


def newest_in(records: Iterable[ledger.Record]) -> bytes:
    """The digest of the newest statement of this store in its records, 32 zeros if there is none."""
    found = Collector()
    for record in records:
        found.add(record, is_kept=True)
    return found.newest


class Collector:
    """Collects, record by record, the statements that no other record has after a rewrite."""

    def __init__(self) -> None:
        """Starts empty."""
        self.texts: list[bytes] = []
        self.newest = statement.NONE

    def add(self, record: ledger.Record, *, is_kept: bool) -> None:
        """Take what a record says. `is_kept`: the record stays."""
        if record.kind == ledger.STATEMENTS:
            self.texts += texts_in(record.payload)
            self.newest = statement.decode_record(record.payload).newest
        elif record.kind == ledger.CHECKPOINT:
            point = checkpoints.decode(record.seq, record.payload)
            self.newest = statement.newest_after(self.newest, point)
            if not is_kept and not point.more.machine and (text := statement.text_of(point)):
                self.texts.append(text)

    def add_purge(self, identities: Sequence[str]) -> None:
        """Add the statement of a purge that changed these checkpoints."""
        self.texts.append(statement.text_of_purge(self.newest, identities))
        self.newest = digests.of(self.texts[-1])

    def payload(self) -> bytes:
        """The record."""
        return encode_texts(self.newest, self.texts[-MOST_STATEMENTS:])
