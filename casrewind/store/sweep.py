"""Sweep: frees the space of unreachable blobs, about one pack at a time.

The danger prevented here: a blob is removed as garbage while a save decides not to store it again. A pack is copied
during saves, under a temporary name that no other process uses. Then, under the exclusive store lock, checkpoints
published since are marked too. The copy gets its name, the index switches over, and the old pack is removed. If the
process is killed at any point, a draft or a duplicate blob remains, but no blob is lost. docs/internals/format.md
derives the order.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from .. import errors, fsio
from .._typing import NamedTuple
from ..messages import store_errors
from . import catalog, packs
from .index import Tables
from .index_sync import LedgerIndex
from .layout import Layout
from .packs import BlobLocation, PackReader, PackWriter

SMALL = 8 << 20
"""Packs with fewer reachable bytes than this are merged."""
_TINY = 1 << 20
"""Packs of fewer bytes are merged by saves: each byte is copied about twice in its life."""
_LEAST_SMALL = 4
"""Small packs that are worth merging, at least."""
_MOST_TOGETHER = 250
"""Maximum packs removed at once: other processes are locked out during that time."""
_LEFT_OVER = 0.02
"""The fraction of all garbage that may remain in packs with little garbage."""
_BATCH = 2000
_TREE_PAGES = 64
"""Maximum pages of the index, besides those with rows, that one change writes."""
_LEDGER_ROOM = 1 << 20


class PackUsage(NamedTuple):
    """A pack: its size and its reachable bytes, including records' heads."""

    pack: str
    size: int
    live: int

    @property
    def dead(self) -> int:
        """Bytes that nothing references."""
        return self.size - len(packs.HEAD) - self.live


class CopiedPacks(NamedTuple):
    """A group of packs with its reachable records copied to drafts. `writer` holds the drafts, `gone` are the packs,
    `rows` all their records, `uncopied` the records that were not copied."""

    writer: PackWriter
    gone: dict[str, int]
    rows: list[bytes]
    uncopied: dict[bytes, BlobLocation]


def _groups_of_packs(found: Iterable[PackUsage], weight: Callable[[PackUsage], int], most: int) -> list[list[PackUsage]]:
    """Groups of packs, limited by total weight and number: each group is one period of locking out other processes."""
    result: list[list[PackUsage]] = []
    space = 0
    for usage in found:
        if not result or space + weight(usage) > most or len(result[-1]) >= _MOST_TOGETHER:
            result.append([])
            space = 0
        result[-1].append(usage)
        space += weight(usage)
    return result


def _look_up_locations(digests: list[bytes], tables: Tables) -> list[tuple[bytes, BlobLocation | None]]:
    return [(digest, catalog.find_blob(tables, digest)) for digest in digests]


class Sweep:
    """Sweeps the packs of one store, in the one process that holds the gc lock."""

    def __init__(self, layout: Layout, ledger_index: LedgerIndex, reader: PackReader) -> None:
        """All arguments belong to the store."""
        self._layout, self._ledger_index, self._reader = layout, ledger_index, reader
        self.damaged: list[str] = []

    def places(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, BlobLocation | None]]:
        """Yield the locations of blobs, in batches, so that the index's lock is held only briefly."""
        wanted = list(digests)
        for start in range(0, len(wanted), _BATCH):
            part = wanted[start : start + _BATCH]
            yield from self._ledger_index.query_as_it_is(partial(_look_up_locations, part))

    def pack_usage(self, marked: Iterable[bytes]) -> tuple[list[PackUsage], list[bytes]]:
        """Returns (usage of each pack, marked digests that are in no pack)."""
        self._ledger_index.sizes()  # updates the index if a pack was cut
        known = self._ledger_index.query(catalog.known_packs)
        live = dict.fromkeys(known, 0)
        missing = []
        for digest, place in self.places(marked):
            if place is None or place.pack not in live:
                missing.append(digest)
            else:
                live[place.pack] += place.length
        return [PackUsage(pack, size, live[pack]) for pack, size in sorted(known.items())], missing

    def groups_worth_rewriting(self, found: list[PackUsage], *, thorough: bool = False, most: int | None = None) -> list[list[PackUsage]]:
        """Groups of packs worth rewriting (`thorough`: all with any garbage). A group's reachable records fit into
        one pack. They also fit into `most` bytes if possible. Packs without reachable records are first: they free
        space without using any."""
        empty = [usage for usage in found if usage.live == 0]
        allowed = 0 if thorough else _LEFT_OVER * sum(usage.dead for usage in found)
        chosen: list[PackUsage] = []
        for usage in sorted((u for u in found if u.live), key=lambda u: u.dead / u.size):
            if usage.dead <= allowed:
                allowed -= usage.dead
            elif usage.dead > 0:
                chosen.append(usage)
        small = [usage for usage in found if 0 < usage.live < SMALL and usage not in chosen]
        if len(small) + sum(usage.live < SMALL for usage in chosen) >= _LEAST_SMALL:
            chosen += small
        by_need = sorted(chosen, key=lambda u: u.live)
        largest = min(most or packs.MAX_SIZE, packs.MAX_SIZE)
        return [*_groups_of_packs(empty, lambda u: u.size, packs.MAX_SIZE), *_groups_of_packs(by_need, lambda u: u.live, largest)]

    def groups_of_small_packs(self, most: int) -> list[list[PackUsage]]:
        """Groups of small packs, each blob counted as reachable: at most `most` bytes together."""
        known = self._ledger_index.query(catalog.known_packs)
        small = [PackUsage(pack, size, size - len(packs.HEAD)) for pack, size in sorted(known.items()) if size < _TINY]
        return [group for group in _groups_of_packs(small, lambda u: u.live, most) if len(group) >= _LEAST_SMALL]

    def blobs_of_packs(self, group: Iterable[PackUsage]) -> set[bytes]:
        """The digests of all blobs in these packs."""
        return {digest for usage in group for digest, _ in packs.records_of_pack(self._layout.packs, usage.pack)}

    def is_switch_begun_in_index(self, group: list[PackUsage]) -> bool:
        """True if a failed switch of these packs came as far as the index, or further: their copies are in use."""
        known = self._ledger_index.query_as_it_is(catalog.known_packs)
        return not all(usage.pack in known and os.path.exists(packs.pack_path(self._layout.packs, usage.pack)) for usage in group)

    def copy_reachable(self, group: list[PackUsage], marked: set[bytes]) -> CopiedPacks | None:
        """Copy a group's reachable records into drafts, durable but unnamed. Returns None if one of the packs is
        damaged: then none of them may be removed. Raises StoreFull, StoreError."""
        writer = PackWriter(self._layout.packs, self._layout.temporary)
        copied = CopiedPacks(writer, {usage.pack: usage.size for usage in group}, [], {})
        try:
            with store_errors("copying packs in", self._layout.root):
                for usage in group:
                    self._copy_pack(usage, marked, copied)
                writer.sync()
        except errors.BlobCorrupt:
            writer.remove_unfinished()
            self.damaged += [usage.pack for usage in group]
            return None
        except BaseException:
            writer.remove_unfinished()
            raise
        return copied

    def _copy_pack(self, usage: PackUsage, marked: set[bytes], copied: CopiedPacks) -> None:
        found = list(packs.records_of_pack(self._layout.packs, usage.pack))
        if len(packs.HEAD) + sum(place.length for _, place in found) != usage.size:
            raise errors.BlobCorrupt(f"pack {usage.pack} contains bytes outside of records")
        where = dict(self.places(digest for digest, _ in found if digest in marked))
        for digest, place in found:
            copied.rows.append(digest)
            if digest in copied.writer.places:
                continue
            if digest in where and (where[digest] == place or not self._has_sound_copy(where[digest], digest)):
                record = self._reader.read_unverified_record(place, digest)
                packs.checked_blob_of_record(record, digest, place.pack)
                copied.writer.copy(record, digest, place.raw)
            else:
                copied.uncopied[digest] = place

    def _has_sound_copy(self, place: BlobLocation | None, digest: bytes) -> bool:
        """True if another copy of a blob is sound, so that this copy may be removed."""
        if place is None:
            return False
        with suppress(errors.StoreDamaged):
            self._reader.read(place, digest)
            return True
        return False

    def room_to_sweep_pack(self, usage: PackUsage) -> int:
        """Bytes of free space that suffice to sweep one pack. Its copy is written, and pages of the index: LMDB
        writes a page anew for each row in another one, and some for its trees."""
        rows = sum(1 for _ in packs.records_of_pack(self._layout.packs, usage.pack))
        page = os.sysconf("SC_PAGE_SIZE")
        index = min((rows + _TREE_PAGES) * page, self._ledger_index.index_bytes())
        copy = len(packs.HEAD) + usage.live if usage.live else 0
        return -(-copy // page) * page + index

    def room_to_forget(self) -> int:
        """Bytes of free space that suffice to record forgotten checkpoints in the ledger and the index."""
        return self._ledger_index.index_bytes() + _LEDGER_ROOM

    def switch_to_copies_and_remove_packs(self, copied: CopiedPacks, marked: set[bytes]) -> None:
        """Switch to the copies and remove the packs. Requires the exclusive store lock, and all
        published checkpoints marked."""
        # a save may have reused and named blobs that were garbage during the copy
        for digest, place in self.places(digest for digest in copied.uncopied if digest in marked):
            if place is not None and place.pack in copied.gone and digest not in copied.writer.places:
                old = copied.uncopied[digest]
                copied.writer.copy(self._reader.read_unverified_record(old, digest), digest, old.raw)
        with store_errors("sweeping", self._layout.root):
            finished = copied.writer.sync_and_name_packs()

        def work(tables: Tables) -> None:
            state = catalog.read_catalog_state(tables)
            for pack, size in finished.sizes.items():
                state = catalog.add_pack(tables, state, pack, size, finished.places.of_pack(pack))
            catalog.drop_packs(tables, copied.gone, copied.rows)
            catalog.write_state(tables, state)

        self._ledger_index.change(work, lambda: self._remove_pack_files(copied.gone))
        self._reader.close()

    def _remove_pack_files(self, gone: Iterable[str]) -> None:
        with store_errors("removing packs in", self._layout.root):
            for pack in gone:
                os.unlink(packs.pack_path(self._layout.packs, pack))
            # after a power cut they may be there again, as garbage; a purge syncs the whole store before its marker goes
            fsio.sync_directory(self._layout.packs, is_followed=True)
