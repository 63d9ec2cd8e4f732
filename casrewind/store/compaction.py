"""The ledger without what counts no more: forgotten checkpoints, their marks and rewinds, restores too old to be undone.

Replaying the result gives the same tables as replaying the original did: what stays keeps its number and its bytes, and
each worktree's history, which came about by records that go, is put at the end as it stands.
"""

from collections.abc import Iterable, Iterator, Mapping

from ..model import operation as operations
from ..model import rewind as rewinds
from . import ledger

_MARKS = {ledger.PIN, ledger.UNPIN, ledger.LABEL}
_TOLD_BY_HISTORY = {ledger.RESTORE, ledger.UNDO, ledger.REDO, ledger.HISTORY}


def compact(
    records: Iterable[ledger.Record], alive: Mapping[str, int], histories: Mapping[bytes, operations.History], seq: int
) -> Iterator[bytes]:
    """Encoded records that say the same of the checkpoints `alive` ({id: sequence number}) as `records` do. `histories`
    are as they stand after all of them, `seq` is the newest sequence number."""
    numbers = frozenset(alive.values())
    for record in records:
        if _counts(record, alive, numbers):
            yield ledger.encode(record.kind, record.seq, record.payload)
    for number, (worktree, history) in enumerate(sorted(histories.items()), start=seq + 1):
        yield ledger.encode(ledger.HISTORY, number, operations.encode_standing(worktree, history))


def _counts(record: ledger.Record, alive: Mapping[str, int], numbers: frozenset[int]) -> bool:
    if record.kind == ledger.CHECKPOINT:
        return record.seq in numbers
    if record.kind in _MARKS:
        return operations.decode_mark(record.payload).checkpoint in alive
    if record.kind == ledger.SESSION:
        checkpoint = rewinds.decode(record.payload).checkpoint
        return not checkpoint or checkpoint in alive
    return record.kind != ledger.FORGET and record.kind not in _TOLD_BY_HISTORY
