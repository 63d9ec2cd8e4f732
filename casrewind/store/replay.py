"""What a record of the ledger does to the index's tables: the only derivation there is.

The danger prevented here: an index that has been there all along and one made anew that tell different stories. Both
come about by `apply`, record after record, and by nothing else.
"""

from ..model import checkpoint as checkpoints
from ..model import operation as operations
from . import catalog, ledger
from .catalog import NO_HEADS, Heads, State
from .table import Tables

_OPERATIONS = {ledger.RESTORE, ledger.UNDO, ledger.REDO}


def apply(tables: Tables, state: State, record: ledger.Record) -> State:
    """Follow one record of the ledger. Kinds that this version does not know change nothing."""
    state = state._replace(end=record.end, seq=record.seq)
    if record.kind == ledger.CHECKPOINT:
        return _checkpoint(tables, state, record)
    if record.kind in (ledger.PIN, ledger.UNPIN, ledger.LABEL):
        return _mark(tables, state, record)
    if record.kind in _OPERATIONS:
        operation = operations.decode_operation(record.payload)
        old = _history_of(tables, operation.worktree)
        return _set_history(tables, state, operation.worktree, operations.advance(old, operation))
    if record.kind == ledger.FORGET:
        return _forget(tables, state, operations.decode_forgotten(record.payload))
    if record.kind == ledger.HISTORY:
        return _set_history(tables, state, *operations.decode_standing(record.payload))
    if record.kind == ledger.ADOPT:
        return _adopt(tables, state, operations.decode_adoption(record.payload))
    return state


def _checkpoint(tables: Tables, state: State, record: ledger.Record) -> State:
    point = checkpoints.decode(record.seq, record.payload)
    identity = point.id.encode()
    tables[b"points"].put(catalog.seq_key(record.seq), record.payload)
    tables[b"ids"].put(identity, catalog.seq_key(record.seq))
    state = state._replace(points=state.points + 1)
    value = tables[b"heads"].get(point.worktree)
    before = NO_HEADS if value is None else catalog.decode_heads(value)
    state = _set_heads(tables, state, point.worktree, before.after(point))
    if point.flags & checkpoints.PINNED:
        state = state._replace(marks=state.marks + catalog.put(tables, b"marks", identity, b"\1"))
    if point.trigger == checkpoints.SAFETY:
        return state
    old = _history_of(tables, point.worktree)
    return _set_history(tables, state, point.worktree, old._replace(current=point.id))


def _set_heads(tables: Tables, state: State, worktree: bytes, heads: Heads) -> State:
    added = catalog.put(tables, b"heads", worktree, catalog.encode_heads(heads))
    return state._replace(heads=state.heads + added)


def _mark(tables: Tables, state: State, record: ledger.Record) -> State:
    mark = operations.decode_mark(record.payload)
    if tables[b"ids"].get(mark.checkpoint.encode()) is None:
        return state  # forgotten before the mark was written
    old = catalog.marked(tables[b"marks"].get(mark.checkpoint.encode()))
    new = old._replace(label=mark.label or old.label)
    if record.kind != ledger.LABEL:
        new = new._replace(pinned=record.kind == ledger.PIN, released=record.kind == ledger.UNPIN)
    key, value = mark.checkpoint.encode(), catalog.encode_marks(new)
    return state._replace(marks=state.marks + catalog.put(tables, b"marks", key, value))


def _history_of(tables: Tables, worktree: bytes) -> operations.History:
    value = tables[b"history"].get(worktree)
    return operations.NO_HISTORY if value is None else operations.decode_history(value)


def _set_history(tables: Tables, state: State, worktree: bytes, new: operations.History) -> State:
    added = catalog.put(tables, b"history", worktree, operations.encode_history(new))
    return state._replace(histories=state.histories + added)


def _forget(tables: Tables, state: State, identities: tuple[str, ...]) -> State:
    fewer: dict[bytes, int] = {}
    for identity in identities:
        key = tables[b"ids"].get(identity.encode())
        payload = None if key is None else tables[b"points"].get(key)
        if key is None or payload is None:
            continue
        point = checkpoints.decode(catalog.seq_of(key), payload)
        fewer[point.worktree] = fewer.get(point.worktree, 0) + (point.trigger != checkpoints.SAFETY)
        tables[b"points"].delete(key)
        tables[b"ids"].delete(identity.encode())
        unmarked = catalog.take(tables, b"marks", identity.encode())
        state = state._replace(points=state.points - 1, marks=state.marks - unmarked)
    gone = set(identities)
    for worktree, value in list(tables[b"heads"].items()):
        heads = catalog.decode_heads(value)
        if gone.intersection((heads.newest, heads.listed, *heads.agents.values())):
            state = _find_heads(tables, state, worktree)
        elif worktree in fewer:
            state = _set_heads(tables, state, worktree, heads._replace(number=heads.number - fewer[worktree]))
    return state


def _find_heads(tables: Tables, state: State, worktree: bytes) -> State:
    """Set a worktree's heads to the newest of its checkpoints that are left."""
    state = state._replace(heads=state.heads - catalog.take(tables, b"heads", worktree))
    heads = NO_HEADS
    for key, payload in tables[b"points"].items():
        point = checkpoints.decode(catalog.seq_of(key), payload)
        if point.worktree == worktree:
            heads = heads.after(point)
    return state if heads == NO_HEADS else _set_heads(tables, state, worktree, heads)


def _adopt(tables: Tables, state: State, adoption: operations.Adoption) -> State:
    """Everything of the old worktree becomes the new one's."""
    for key, payload in list(tables[b"points"].items()):
        point = checkpoints.decode(catalog.seq_of(key), payload)
        if point.worktree == adoption.old:
            moved = point._replace(worktree=adoption.new, root=adoption.root)
            tables[b"points"].put(key, checkpoints.encode(moved))
    old = _history_of(tables, adoption.old)
    new = _history_of(tables, adoption.new)
    state = state._replace(
        heads=state.heads - catalog.take(tables, b"heads", adoption.old),
        histories=state.histories - catalog.take(tables, b"history", adoption.old),
    )
    if old != operations.NO_HISTORY and new == operations.NO_HISTORY:
        state = _set_history(tables, state, adoption.new, old)
    return _find_heads(tables, state, adoption.new)
