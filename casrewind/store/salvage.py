"""Salvage: builds a sound store from the undamaged data of a damaged one.

The danger prevented here: a repair that loses more than the damage did. Nothing is deleted: replaced files are first
renamed to names that nothing reads. The index is discarded last; before that, it provides what the ledger has lost.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from .. import errors, fsio
from .._typing import NamedTuple
from ..messages import store_errors
from ..model import checkpoint as checkpoints
from ..model import undo_history
from . import catalog, ledger, packs
from .index import Tables
from .index_sync import LedgerIndex, knows_packs_on_disk
from .journal import Journals
from .layout import Layout
from .packs import BlobLocation, PackReader, PackWriter

_COPY_BYTES = 1 << 20
Alone = Callable[[], AbstractContextManager[None]]
"""Returns a context manager that holds the store lock exclusively."""


class IndexedState(NamedTuple):
    """The index's copy of the ledger: payloads of checkpoints by sequence number, marks, histories, packs, position."""

    state: catalog.CatalogState
    points: dict[int, bytes]
    marks: dict[str, catalog.Marked]
    histories: dict[bytes, undo_history.History]
    packs: set[str]


class Salvage:
    """The repair of one store. Requires the gc lock; changes also require the exclusive store lock."""

    def __init__(self, layout: Layout, ledger_index: LedgerIndex, reader: PackReader) -> None:
        """All arguments belong to the store."""
        self._layout, self._ledger_index, self._reader = layout, ledger_index, reader

    def repair_ledger(self) -> list[str]:
        """Rewrite the ledger if it is damaged. Returns descriptions of the repairs. Raises StoreError."""
        with store_errors("repairing the ledger of", self._layout.root):
            head, found, sound_to = _read_sound_records(self._layout.ledger)
            known = self._ledger_index.read_index_as_it_is(_read_indexed_state)
            identity = head[8:]
            headless = len(head) < ledger.HEAD.size or head[:8] != ledger.HEAD.pack(ledger.MAGIC, ledger.VERSION, b"")[:8]
            strange = known is not None and not headless and known.state.ledger_id != identity
            if known is not None and strange:
                is_ours = knows_packs_on_disk(known.packs, packs.pack_names(self._layout.packs))
                strange = is_ours and not ledger.is_rewrite_of(identity, known.state.ledger_id)
                if not strange:
                    known = None  # an index of another store, or an outdated one: trust the ledger
            cut = known is not None and known.state.end > sound_to
            if not (headless or cut or strange or sound_to < 0):
                return []
            if known is not None and strange and _is_foreign_ledger(found, known):
                found = []
            records = list(_join_records(found, known))
            if head:
                self._set_ledger_aside()
            self._ledger_index.replace_ledger(b"".join(records), known.state.ledger_id if known is not None else b"")
            kept = sum(1 for record in records if record[4] == ledger.CHECKPOINT)
            return [f"the ledger was damaged: rewritten with {kept} checkpoints"]

    def _set_ledger_aside(self) -> None:
        """Give the ledger a second name, under which it stays when it is replaced. Copies it where files have one
        name, in pieces: it may be larger than the memory."""
        aside = os.path.join(self._layout.root, f"ledger.damaged-{secrets.token_hex(4)}")
        try:
            os.link(self._layout.ledger, aside)
        except OSError:
            with fsio.draft_file(self._layout.temporary) as (draft, fd), open(self._layout.ledger, "rb", buffering=0) as file:
                while data := file.read(_COPY_BYTES):
                    fsio.write_all(fd, data)
                fsio.sync_fd(fd)
                os.rename(draft, aside)
        fsio.sync_directory(self._layout.root)

    def repair_packs(self, alone: Alone, report: Callable[[int, int], None] | None) -> list[str]:
        """Copy the sound blobs of every damaged pack and set the pack aside. Returns descriptions of the repairs."""
        done = []
        everything = sorted(packs.pack_names(self._layout.packs))
        for number, pack in enumerate(everything):
            with store_errors("repairing packs in", self._layout.root):
                bad = self._find_damaged_records(pack)
                if bad is not None:
                    done.append(self._salvage_pack(pack, bad, alone))
            if report is not None:
                report(number + 1, len(everything))
        return done

    def _find_damaged_records(self, pack: str) -> set[BlobLocation] | None:
        """The records with damaged blobs in a pack; None if the whole pack is sound."""
        bad = set()
        end = len(packs.HEAD)
        for digest, place in packs.records_of_pack(self._layout.packs, pack):
            end += place.length
            try:
                self._reader.read(place, digest)
            except errors.StoreDamaged:
                bad.add(place)
        path = packs.pack_path(self._layout.packs, pack)
        whole = end == os.stat(path).st_size and fsio.read_file(path, len(packs.HEAD)) == packs.HEAD
        return None if whole and not bad else bad

    def _salvage_pack(self, pack: str, bad: set[BlobLocation], alone: Alone) -> str:
        """Copy the sound blobs of a damaged pack into a new one, and set the pack aside. Returns what was done, in words."""
        writer = PackWriter(self._layout.packs, self._layout.temporary)
        saved = 0
        try:
            for digest, place in packs.records_of_pack(self._layout.packs, pack):
                if place not in bad and digest not in writer.places:
                    writer.copy(self._reader.read_unverified_record(place, digest), digest, place.raw)
                    saved += 1
            writer.sync()
            with alone():
                writer.sync_and_name_packs()
                self._set_pack_aside(pack)
        finally:
            writer.remove_unfinished()
        self._reader.close()
        return f"pack {pack} was damaged: {saved} sound blobs were copied out of it, {len(bad)} were damaged"

    def _set_pack_aside(self, pack: str) -> None:
        place = os.path.join(self._layout.root, "damaged")
        if not os.path.isdir(place):
            fsio.make_directory(place)
            fsio.sync_directory(self._layout.root)
        os.rename(packs.pack_path(self._layout.packs, pack), packs.pack_path(place, pack))
        fsio.sync_directory(place)
        fsio.sync_directory(self._layout.packs)

    def set_bad_journals_aside(self, found: Journals) -> list[str]:
        """Set aside journals that cannot be read. Returns descriptions of the repairs."""
        done = []
        for name in found.names():
            try:
                found.read(bytes.fromhex(name))
            except errors.StoreDamaged:
                aside = found.set_journal_aside(bytes.fromhex(name))
                done.append(
                    f"the journal of an interrupted restore was damaged: set aside as {os.path.basename(aside)}; the plan of the "
                    f"restore is unknown, the worktree is as the interruption left it"
                )
        return done

    def rebuild_index(self) -> None:
        """Rebuild the index from the packs and the ledger."""
        self._ledger_index.rebuild(witness=False)


def _read_indexed_state(tables: Tables) -> IndexedState:
    state = catalog.read_catalog_state(tables)
    points = {point.seq: checkpoints.encode(point) for point in catalog.checkpoints_after_seq(tables, 0)}
    marks = {point.id: marked for point, marked in catalog.checkpoints_with_marks(tables) if marked != catalog.UNMARKED}
    return IndexedState(state, points, marks, catalog.histories(tables), set(catalog.pack_sizes(tables)))


def _read_sound_records(path: str) -> tuple[bytes, list[ledger.Record], int]:
    """Returns (the head, every sound record, the end offset of the last one; -1 if there is damage before it). Bytes
    after the last sound record are a torn append, which the next writer cuts, unless they are more than a record has:
    that is damage, too. Reads in pieces. Raises OSError."""
    try:
        fd = fsio.open_regular(path)
    except FileNotFoundError:
        return b"", [], ledger.HEAD.size
    with fsio.closing(fd):
        size, found, damaged = os.fstat(fd).st_size, list[ledger.Record](), False
        position = end = ledger.HEAD.size
        data, first = b"", position  # the bytes from offset `first` that were read last
        while position < size:
            record = ledger.decode(data, position - first)
            if record is None and first + len(data) < min(position + ledger.LONGEST, size):
                data, first = os.pread(fd, ledger.LONGEST + _COPY_BYTES, position), position
                record = ledger.decode(data, 0)
                if not data:
                    break  # it was cut meanwhile
            if record is None:
                at = data.find(ledger.RECORD_MAGIC, position + 1 - first)
                position = first + at if at >= 0 else max(first + len(data) - len(ledger.RECORD_MAGIC) + 1, position + 1)
                continue
            damaged = damaged or position != end
            if not found or record.seq > found[-1].seq:
                found.append(record._replace(end=first + record.end))
            position = end = first + record.end
        return os.pread(fd, ledger.HEAD.size, 0), found, -1 if damaged or size - end > ledger.LONGEST else end


def _is_foreign_ledger(found: list[ledger.Record], known: IndexedState) -> bool:
    """True if no checkpoint of a ledger is one of the index: it belongs to another store."""
    theirs = {record.seq: record.payload for record in found if record.kind == ledger.CHECKPOINT}
    ours = {seq: checkpoints.decode(seq, payload).id for seq, payload in known.points.items()}
    return not any(ours.get(seq) == checkpoints.decode(seq, payload).id for seq, payload in theirs.items())


def _join_records(found: list[ledger.Record], known: IndexedState | None) -> Iterator[bytes]:
    """The records of a new ledger: the sound ones, and those that only the index has."""
    if known is None:
        for record in found:
            yield ledger.encode(record.kind, record.seq, record.payload)
        return
    records = {record.seq: (record.kind, record.payload) for record in found}
    for seq, (kind, _) in list(records.items()):
        if kind == ledger.CHECKPOINT and seq <= known.state.seq and seq not in known.points:
            del records[seq]  # forgotten by a record that is lost
    adopted = any(record.kind == ledger.ADOPT for record in found)  # then the index has the result of the adoption
    for seq, payload in known.points.items():
        if seq not in records or not adopted:
            records[seq] = (ledger.CHECKPOINT, payload)
    last = max([known.state.seq, *records])
    is_index_current = max(records, default=0) <= known.state.seq
    for seq, (kind, payload) in sorted(records.items()):
        yield ledger.encode(kind, seq, payload)
    if is_index_current:  # the index has the newest records, so its marks and histories are final
        for identity, marked in sorted(known.marks.items()):
            last += 1
            kind = ledger.PIN if marked.pinned else ledger.UNPIN if marked.released else ledger.LABEL
            yield ledger.encode(kind, last, undo_history.encode_mark(undo_history.Mark(identity, marked.label)))
        for worktree, history in sorted(known.histories.items()):
            last += 1
            yield ledger.encode(ledger.HISTORY, last, undo_history.encode_history_record(worktree, history))
