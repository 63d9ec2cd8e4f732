"""The contents of the index: tables derived only from the ledger and the packs.

The danger prevented here: an old index and a rebuilt index that give different answers. Both are built by `apply_ledger_record`,
record by record, and by nothing else: `list --json` after losing the index is byte-identical. The tables:

========  =======================================================  ============================================
table     key                                                      value
========  =======================================================  ============================================
meta      "state"                                                  ledger id, offset, last sequence number, counts
meta      "epoch"                                                  8 random bytes, new for each rebuilt index
packs     pack id                                                  number (u32), size (u64)
packs     "#" number (u32)                                         pack id
blobs     digest                                                   pack number, offset, length, raw length (no checksum)
points    sequence number (u64, big-endian)                        checkpoint record's payload
ids       checkpoint id                                            sequence number
marks     checkpoint id                                            pinned, label
worktrees worktree key                                             newest checkpoints, undo history (`WorktreeRow`)
========  =======================================================  ============================================
"""

import os
import struct
from collections.abc import Callable, Iterable
from itertools import dropwhile, islice

from .. import errors
from .._typing import NamedTuple
from ..model import checkpoint as checkpoints
from ..model import statement, tlv
from . import ledger
from .index_check import IndexGone, IndexUnusable
from .packs import BlobLocation

TYPE_CHECKING = False
if TYPE_CHECKING:  # commands without a store do not need LMDB, and a save does not need the history
    from ..model import undo_history
    from .index import Tables

_STATE = struct.Struct("<16sQQQQQQ32s")
_ROWS = 50_000  # rows of blobs per write
_ROW = struct.Struct("<IQII")
_PACK = struct.Struct("<IQ")
_SEQ = 8
"""Bytes of a sequence number as a key, big-endian: keys sort in order."""
_STATE_KEY, _EPOCH_KEY = b"state", b"epoch"
_OPERATIONS = {ledger.RESTORE, ledger.UNDO, ledger.REDO}


class CatalogState(NamedTuple):
    """The ledger position that the index has reached, and row counts. `ledger_id` is the ledger's id; `end` and `seq`
    are the offset and sequence number reached. The other fields count checkpoints, packs and the rows of the tables
    marks and worktrees. A missing row counts as absent only if the counts match: damage can remove rows."""

    ledger_id: bytes
    end: int
    seq: int
    points: int = 0
    packs: int = 0
    marks: int = 0
    worktrees: int = 0
    statement: bytes = bytes(32)
    """The digest of the newest statement of this store (model/statement.py), 32 zeros = there is none."""


class Marked(NamedTuple):
    """Pin and label of a checkpoint, set after its save. `label` "" = the label of the save (`Checkpoint.label`)
    applies. `released`: it was unpinned later, so its label does not keep it."""

    pinned: bool
    label: str
    released: bool = False


UNMARKED = Marked(pinned=False, label="")
_PINNED, _RELEASED = 1, 2


def read_catalog_state(tables: "Tables") -> CatalogState:
    """The state. Raises IndexGone if the index has no valid state."""
    value = tables[b"meta"].get(_STATE_KEY)
    if value is None or len(value) != _STATE.size:
        raise IndexGone("the index is empty")
    return CatalogState(*_STATE.unpack(value))


def begin_epoch(tables: "Tables") -> None:
    """Start the epoch of a rebuilt index: stat files of earlier indexes (store/stat_file.py) become invalid."""
    tables[b"meta"].overwrite(_EPOCH_KEY, os.urandom(8))


def epoch(tables: "Tables") -> bytes:
    """The epoch of the index, or b""."""
    return tables[b"meta"].get(_EPOCH_KEY) or b""


def is_empty(tables: "Tables") -> bool:
    """True if no table has a row: the index is new and must be filled."""
    return all(table.is_empty() for table in tables.values())


def write_state(tables: "Tables", state: CatalogState) -> None:
    """Set the state."""
    tables[b"meta"].overwrite(_STATE_KEY, _STATE.pack(*state))


def marks_after(marks: Marked, kind: int, mark: "undo_history.Mark") -> Marked:
    """The marks of a checkpoint after one more record of this kind."""
    new = marks._replace(label=mark.label or marks.label)
    return new if kind == ledger.LABEL else new._replace(pinned=kind == ledger.PIN, released=kind == ledger.UNPIN)


def decode_marks(value: bytes | None) -> Marked:
    """The marks in a row's value."""
    if not value:
        return UNMARKED
    text = value[1:].decode("utf-8", "surrogateescape")
    return Marked(bool(value[0] & _PINNED), text, bool(value[0] & _RELEASED))


def encode_marks(marks: Marked) -> bytes:
    """Marks as a row's value."""
    bits = (_PINNED if marks.pinned else 0) | (_RELEASED if marks.released else 0)
    return bytes([bits]) + marks.label.encode("utf-8", "surrogateescape")


def _get_row_or_none(tables: "Tables", name: bytes, key: bytes, rows: Callable[[CatalogState], int]) -> bytes | None:
    """A row, or None if it is certainly absent. `rows` returns the expected number of rows in the table."""
    value = tables[name].get(key)
    if value is None:
        _read_all_rows(tables, name, rows(read_catalog_state(tables)))
    return value


def _read_all_rows(tables: "Tables", name: bytes, rows: int) -> dict[bytes, bytes]:
    """All rows of a small table. LMDB does not notice if damage removes rows from a page."""
    found = dict(tables[name].items())
    if len(found) != rows:
        raise IndexUnusable("a row of the index is missing")
    return found


def checkpoints_with_marks(
    tables: "Tables", most: int | None = None, wanted: Callable[[checkpoints.Checkpoint], bool] = lambda _: True,
    farthest: int | None = None, before: int | None = None,
) -> list[tuple[checkpoints.Checkpoint, Marked]]:  # fmt: skip
    """All checkpoints with their marks, newest first; with `most`, up to and including that many `wanted` ones; with
    `farthest`, at most that many in all; with `before`, those with a lower sequence number."""
    state = read_catalog_state(tables)
    count, rows = tables[b"points"].count_and_items_from_last()
    if count != state.points:
        raise IndexUnusable("a row of the index is missing")
    marks = _read_all_rows(tables, b"marks", state.marks)
    found = []
    if before is not None:
        rows = dropwhile(lambda row: int.from_bytes(row[0]) >= before, rows)
    for key, payload in islice(rows, farthest):
        point = checkpoints.decode(int.from_bytes(key), payload)
        found.append((point, decode_marks(marks.get(point.id.encode()))))
        if most is not None and wanted(point):
            most -= 1
            if most <= 0:
                break
    else:
        if farthest is None and before is None and len(found) != count:  # damage may remove rows that are counted
            raise IndexUnusable("a row of the index is missing")
    return found


def oldest_checkpoint(tables: "Tables", worktree: bytes) -> checkpoints.Checkpoint | None:
    """The oldest checkpoint of a worktree, safety checkpoints included."""
    rows = (checkpoints.decode(int.from_bytes(key), payload) for key, payload in tables[b"points"].items())
    return next((point for point in rows if point.worktree == worktree), None)


def checkpoints_after_seq(tables: "Tables", seq: int) -> list[checkpoints.Checkpoint]:
    """Every checkpoint with a higher sequence number, oldest first."""
    rows = tables[b"points"].items((seq + 1).to_bytes(_SEQ))
    return [checkpoints.decode(int.from_bytes(key), payload) for key, payload in rows]


def identities(tables: "Tables") -> dict[str, int]:
    """{id: sequence number} of every checkpoint."""
    rows = _read_all_rows(tables, b"ids", read_catalog_state(tables).points)
    return {key.decode(): int.from_bytes(value) for key, value in rows.items()}


def histories(tables: "Tables") -> "dict[bytes, undo_history.History]":
    """{worktree key: undo history} of the worktrees with a history."""
    from ..model import undo_history

    rows = _read_all_rows(tables, b"worktrees", read_catalog_state(tables).worktrees)
    found = {worktree: decode_worktree(value).history() for worktree, value in rows.items()}
    return {worktree: history for worktree, history in found.items() if history != undo_history.NO_HISTORY}


def point(tables: "Tables", checkpoint: str) -> checkpoints.Checkpoint | None:
    """A checkpoint by its id."""
    key = _get_row_or_none(tables, b"ids", checkpoint.encode(), lambda state: state.points) if checkpoint else None
    payload = tables[b"points"].get(key) if key is not None else None
    if key is None:
        return None
    if payload is None:
        raise IndexUnusable("a checkpoint's row is missing")
    return checkpoints.decode(int.from_bytes(key), payload)


class WorktreeRow(NamedTuple):
    """A worktree's newest checkpoints, by id, and its undo history.

    `newest`: of all. `listed`: without safety checkpoints ("": there are no others). `number`: how many those are.
    `agents`: the newest of each agent's events, by the agent's name. `current`: the checkpoint that the worktree last
    equalled. `steps`: the undo and redo steps, encoded, because a save does not read them.
    """

    newest: str = ""
    listed: str = ""
    number: int = 0
    agents: dict[str, str] = {}  # noqa: RUF012 - never changed
    current: str = ""
    steps: bytes = b""

    def with_checkpoint(self, point: checkpoints.Checkpoint) -> "WorktreeRow":
        """The newest checkpoints after one more checkpoint of this worktree."""
        agents = {**self.agents, point.agent: point.id} if point.agent else self.agents
        if point.trigger == checkpoints.SAFETY:
            return self._replace(newest=point.id, agents=agents)
        return self._replace(newest=point.id, listed=point.id, number=self.number + 1, agents=agents)

    def history(self) -> "undo_history.History":
        """The undo history. Raises ManifestCorrupt."""
        from ..model import undo_history

        return undo_history.decode_history(self.steps)._replace(current=self.current)

    def with_history(self, history: "undo_history.History") -> "WorktreeRow":
        """This row with another undo history."""
        from ..model import undo_history

        return self._replace(current=history.current, steps=undo_history.encode_history(history._replace(current="")))


EMPTY_ROW = WorktreeRow()
(_NEWEST, _LISTED, _NUMBER, _AGENTS, _CURRENT, _STEPS) = range(1, 7)


def worktree_row(tables: "Tables", worktree: bytes) -> WorktreeRow:
    """The row of a worktree; its next checkpoint is compared with the newest."""
    value = _get_row_or_none(tables, b"worktrees", worktree, lambda state: state.worktrees) if worktree else None
    return EMPTY_ROW if value is None else decode_worktree(value)


def newest_and_newest_listed(tables: "Tables", worktree: bytes) -> tuple[checkpoints.Checkpoint | None, checkpoints.Checkpoint | None]:
    """Returns (newest, newest that is not a safety checkpoint); the same object if both are the same checkpoint."""
    found = worktree_row(tables, worktree)
    newest = point(tables, found.newest)
    return newest, newest if found.listed == found.newest else point(tables, found.listed)


def newest_listed(tables: "Tables") -> list[checkpoints.Checkpoint]:
    """The newest checkpoint of each worktree that is not a safety checkpoint."""
    rows = _read_all_rows(tables, b"worktrees", read_catalog_state(tables).worktrees)
    found = (point(tables, decode_worktree(value).listed) for value in rows.values())
    return [newest for newest in found if newest is not None]


def newest_of_agents(tables: "Tables", worktree: bytes) -> dict[str, checkpoints.Checkpoint]:
    """The newest checkpoint of each agent in a worktree, by the agent's name. `casrewind run` is none."""
    found = {agent: point(tables, identity) for agent, identity in worktree_row(tables, worktree).agents.items()}
    return {agent: newest for agent, newest in found.items() if newest is not None and agent != checkpoints.RUN}


def marks_of(tables: "Tables", checkpoint: str) -> Marked:
    """The marks of one checkpoint."""
    return decode_marks(_get_row_or_none(tables, b"marks", checkpoint.encode(), lambda state: state.marks))


def encode_worktree(row: WorktreeRow) -> bytes:
    """A worktree's row as its value."""
    agents = [tlv.text(word) for pair in row.agents.items() for word in pair]
    return tlv.encode(
        (
            (_NEWEST, row.newest),
            (_LISTED, row.listed),
            (_NUMBER, row.number),
            (_AGENTS, tlv.encode_list(agents)),
            (_CURRENT, row.current),
            (_STEPS, row.steps),
        )
    )


def decode_worktree(value: bytes) -> WorktreeRow:
    """The row of a worktree in its value. Raises IndexUnusable for a row in the format of an earlier version."""
    try:
        got = tlv.Fields(value, "row of the index")
        agents = [word.decode("utf-8", "surrogateescape") for word in tlv.decode_list(got.required_bytes(_AGENTS), "row of the index")]
        return WorktreeRow(
            got.text(_NEWEST),
            got.text(_LISTED),
            got.number(_NUMBER),
            dict(zip(agents[::2], agents[1::2], strict=True)),
            got.text(_CURRENT),
            got.bytes_or_empty(_STEPS),
        )
    except (errors.ManifestCorrupt, ValueError) as error:
        raise IndexUnusable("a row of the index is of another version") from error


def known_packs(tables: "Tables") -> dict[str, int]:
    """{pack id: bytes} of all packs in the index."""
    return {
        key.decode(): _PACK.unpack(value)[1] for key, value in tables[b"packs"].items() if not key.startswith(b"#")
    }


def pack_sizes(tables: "Tables") -> dict[str, int]:
    """As known_packs, without verifying checksums: there may be tens of thousands, and every save needs them. A damaged
    id looks like a removed pack. A wrong size at worst causes a rebuild, or a reader notices it."""
    rows = tables[b"packs"].unchecked_items_from(b"$")  # after the number keys, which begin with "#"
    if any(len(value) < _PACK.size for _, value in rows):
        raise IndexUnusable("a pack's row is damaged")
    return {key.decode("ascii", "replace"): _PACK.unpack_from(value)[1] for key, value in rows}


def find_blob(tables: "Tables", digest: bytes) -> BlobLocation | None:
    """The location of a blob, or None if it is not in the index."""
    return find_blobs(tables, [digest]).get(digest)


def find_blobs(tables: "Tables", wanted: Iterable[bytes]) -> dict[bytes, BlobLocation]:
    """{digest: location} of the wanted blobs that are in the index."""
    found: dict[bytes, BlobLocation] = {}
    packs: dict[int, str] = {}
    for digest in wanted:
        row = tables[b"blobs"].get(digest)
        if row is None:
            continue
        if len(row) != _ROW.size:
            raise IndexUnusable("a blob's row is damaged")
        number, offset, length, raw = _ROW.unpack(row)
        if number not in packs:
            pack = tables[b"packs"].get(b"#" + number.to_bytes(4, "big"))
            if pack is None:
                raise IndexUnusable("a blob's row names an unknown pack")
            packs[number] = pack.decode()
        found[digest] = BlobLocation(packs[number], offset, length, raw)
    return found


def add_pack(tables: "Tables", state: CatalogState, pack: str, size: int, rows: Iterable[tuple[bytes, BlobLocation]]) -> CatalogState:
    """Add a pack and its records. For a blob in two packs, the pack added last is used."""
    key = pack.encode()
    known = tables[b"packs"].get(key)
    number = state.packs if known is None else _PACK.unpack(known)[0]
    if known is None:
        tables[b"packs"].overwrite(key, _PACK.pack(number, size))
        tables[b"packs"].overwrite(b"#" + number.to_bytes(4, "big"), key)
        state = state._replace(packs=number + 1)
    found = ((digest, _ROW.pack(number, place.offset, place.length, place.raw)) for digest, place in rows)
    while part := list(islice(found, _ROWS)):  # a first save has a million rows
        tables[b"blobs"].put_many(part)
    return state


def drop_packs(tables: "Tables", packs: Iterable[str], digests: Iterable[bytes]) -> None:
    """Remove packs, and those of the digests that are located in them."""
    numbers = set()
    for pack in packs:
        known = tables[b"packs"].get(pack.encode())
        if known is not None:
            numbers.add(_PACK.unpack(known)[0])
            tables[b"packs"].delete(pack.encode())
    for digest in digests:
        row = tables[b"blobs"].get(digest)
        if row is not None and _ROW.unpack(row)[0] in numbers:
            tables[b"blobs"].delete(digest)
    for number in numbers:
        tables[b"packs"].delete(b"#" + number.to_bytes(4, "big"))


# -- changes of the tables by ledger records


def apply_ledger_record(tables: "Tables", state: CatalogState, record: ledger.Record) -> CatalogState:
    """Apply one record of the ledger. Unknown kinds change nothing."""
    state = state._replace(end=record.end, seq=record.seq)
    if record.kind == ledger.CHECKPOINT:
        return _apply_checkpoint(tables, state, record)
    if record.kind in (ledger.PIN, ledger.UNPIN, ledger.LABEL):
        return _apply_mark(tables, state, record)
    from ..model import undo_history

    if record.kind in _OPERATIONS:
        operation = undo_history.decode_operation(record.payload)
        old = _worktree_row_or_empty(tables, operation.worktree)
        row = old.with_history(undo_history.history_after(old.history(), operation))
        return _set_worktree_row(tables, state, operation.worktree, row)
    if record.kind == ledger.FINISH:  # no step of the history, but the ledger has an operation of this worktree
        worktree = undo_history.decode_operation(record.payload).worktree
        old = _worktree_row_or_empty(tables, worktree)
        return _set_worktree_row(tables, state, worktree, old.with_history(old.history()))
    if record.kind == ledger.FORGET:
        return _apply_forget(tables, state, undo_history.decode_forgotten(record.payload))
    if record.kind == ledger.HISTORY:
        worktree, history = undo_history.decode_history_record(record.payload)
        return _set_worktree_row(tables, state, worktree, _worktree_row_or_empty(tables, worktree).with_history(history))
    if record.kind == ledger.ADOPT:
        return _apply_adoption(tables, state, undo_history.decode_adoption(record.payload))
    if record.kind == ledger.STATEMENTS:
        return state._replace(statement=statement.decode_record(record.payload).newest)
    return state


def _apply_checkpoint(tables: "Tables", state: CatalogState, record: ledger.Record) -> CatalogState:
    point = checkpoints.decode(record.seq, record.payload)
    identity, key = point.id.encode(), record.seq.to_bytes(_SEQ)
    tables[b"points"].overwrite(key, record.payload)
    tables[b"ids"].overwrite(identity, key)
    state = state._replace(points=state.points + 1, statement=statement.newest_after(state.statement, point))
    row = _worktree_row_or_empty(tables, point.worktree).with_checkpoint(point)
    if point.trigger != checkpoints.SAFETY:
        row = row._replace(current=point.id)
    if point.flags & checkpoints.PINNED:
        state = state._replace(marks=state.marks + tables[b"marks"].overwrite(identity, b"\1"))
    return _set_worktree_row(tables, state, point.worktree, row)


def _worktree_row_or_empty(tables: "Tables", worktree: bytes) -> WorktreeRow:
    value = tables[b"worktrees"].get(worktree)
    return EMPTY_ROW if value is None else decode_worktree(value)


def _set_worktree_row(tables: "Tables", state: CatalogState, worktree: bytes, row: WorktreeRow) -> CatalogState:
    """Set the row of a worktree; an empty row is removed."""
    if row == EMPTY_ROW:
        return state._replace(worktrees=state.worktrees - tables[b"worktrees"].delete(worktree))
    return state._replace(worktrees=state.worktrees + tables[b"worktrees"].overwrite(worktree, encode_worktree(row)))


def _apply_mark(tables: "Tables", state: CatalogState, record: ledger.Record) -> CatalogState:
    from ..model import undo_history

    mark = undo_history.decode_mark(record.payload)
    if tables[b"ids"].get(mark.checkpoint.encode()) is None:
        return state  # forgotten before the mark was written
    old = decode_marks(tables[b"marks"].get(mark.checkpoint.encode()))
    key, value = mark.checkpoint.encode(), encode_marks(marks_after(old, record.kind, mark))
    return state._replace(marks=state.marks + tables[b"marks"].overwrite(key, value))


def _apply_forget(tables: "Tables", state: CatalogState, identities: tuple[str, ...]) -> CatalogState:
    fewer: dict[bytes, int] = {}
    for identity in identities:
        key = tables[b"ids"].get(identity.encode())
        payload = None if key is None else tables[b"points"].get(key)
        if key is None or payload is None:
            continue
        point = checkpoints.decode(int.from_bytes(key), payload)
        fewer[point.worktree] = fewer.get(point.worktree, 0) + (point.trigger != checkpoints.SAFETY)
        tables[b"points"].delete(key)
        tables[b"ids"].delete(identity.encode())
        unmarked = tables[b"marks"].delete(identity.encode())
        state = state._replace(points=state.points - 1, marks=state.marks - unmarked)
    gone = set(identities)
    for worktree, value in list(tables[b"worktrees"].items()):
        row = decode_worktree(value)
        if gone.intersection((row.newest, row.listed, *row.agents.values())):
            state = _set_worktree_row(tables, state, worktree, _find_newest_checkpoints_again(tables, worktree, row))
        elif worktree in fewer:
            state = _set_worktree_row(tables, state, worktree, row._replace(number=row.number - fewer[worktree]))
    return state


def _find_newest_checkpoints_again(tables: "Tables", worktree: bytes, row: WorktreeRow) -> WorktreeRow:
    """A row with the newest checkpoints of all that there are; its undo history is kept."""
    row = EMPTY_ROW._replace(current=row.current, steps=row.steps)
    for key, payload in tables[b"points"].items():
        point = checkpoints.decode(int.from_bytes(key), payload)
        if point.worktree == worktree:
            row = row.with_checkpoint(point)
    return row


def _apply_adoption(tables: "Tables", state: CatalogState, adoption: "undo_history.Adoption") -> CatalogState:
    from ..model import undo_history

    for key, payload in list(tables[b"points"].items()):
        point = checkpoints.decode(int.from_bytes(key), payload)
        if point.worktree == adoption.old:
            moved = point._replace(worktree=adoption.new, root=adoption.root)
            tables[b"points"].overwrite(key, checkpoints.encode(moved))
    old, new = _worktree_row_or_empty(tables, adoption.old), _worktree_row_or_empty(tables, adoption.new)
    if new.history() == undo_history.NO_HISTORY:
        new = new._replace(current=old.current, steps=old.steps)
    state = _set_worktree_row(tables, state, adoption.old, EMPTY_ROW)
    return _set_worktree_row(tables, state, adoption.new, _find_newest_checkpoints_again(tables, adoption.new, new))
