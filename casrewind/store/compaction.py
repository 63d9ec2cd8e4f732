"""What a rewrite of the ledger keeps: gc drops the records that nothing needs, and a purge changes some.

The danger prevented here: a checkpoint that is gone takes its statement along, and the chain of statements has a hole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..model import rewind_record as rewinds
from ..model import undo_history
from . import ledger, statements


def compacted_records(
    records: Iterable[ledger.Record], alive: Mapping[str, int], histories: Mapping[bytes, undo_history.History], seq: int,
    purged: Sequence[str] = (),
) -> Iterator[bytes]:  # fmt: skip
    """Yield encoded records equivalent to `records` for the checkpoints `alive` ({id: sequence number}). `histories`
    is the state after all records; `seq` is the newest sequence number. The statements of the other checkpoints are kept, in one
    record at the end. `purged`: the ids of the checkpoints that a purge changes; it becomes a statement."""
    numbers = frozenset(alive.values())
    said = statements.Collector()
    for record in records:
        is_kept = _is_kept_by_compaction(record, alive, numbers)
        said.add(record, is_kept=is_kept)
        if is_kept:
            yield ledger.encode(record.kind, record.seq, record.payload)
    for number, (worktree, history) in enumerate(sorted(histories.items()), start=seq + 1):
        yield ledger.encode(ledger.HISTORY, number, undo_history.encode_history_record(worktree, history))
    if purged:
        said.add_purge(purged)
    if said.texts:
        yield ledger.encode(ledger.STATEMENTS, seq + len(histories) + 1, said.payload())


def _is_kept_by_compaction(record: ledger.Record, alive: Mapping[str, int], numbers: frozenset[int]) -> bool:
    if record.kind == ledger.CHECKPOINT:
        return record.seq in numbers
    if record.kind in ledger.MARKS:
        return undo_history.decode_mark(record.payload).checkpoint in alive
    if record.kind == ledger.SESSION:
        checkpoint = rewinds.decode(record.payload).checkpoint
        return not checkpoint or checkpoint in alive
    if record.kind in ledger.OPERATIONS:  # undo does not read an operation: it is kept as long as its safety checkpoint
        return undo_history.decode_operation(record.payload).safety in alive
    return record.kind not in (ledger.FORGET, ledger.HISTORY, ledger.STATEMENTS)
