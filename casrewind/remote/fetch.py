"""What a pull or a clone takes from chains: fetched, made durable, and noted in the ledger.

The danger prevented here: a checkpoint whose content is not here. Each blob is hashed when it is stored. The blobs become durable
before the records that need them, and the note how far a chain was read comes last.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from .. import errors, heap
from .._typing import NamedTuple, Protocol
from ..context import Context
from ..messages import plural
from ..model import digest as digests
from ..model.checkpoint import Checkpoint
from ..store.reachability import HOLDS, Marker
from ..store.writer import StoreWriter
from ..upkeep.verify import find_unsound
from .arriving import Arriving, Here, Item, records_to_store
from .chain import ChainReader
from .piece import CONTAINER, CONTENT
from .piece_errors import PieceDamaged, PieceGone
from .piece_names import PieceInfo
from .sync_state import ReadChain

_AT_ONCE = 32 << 20
"""Bytes of packs that are written before they are made durable."""
_BATCH = 1000
"""Blobs that are looked for in the store at once."""
MOST_CHAINS, _RECORDS = 128, 20_000
"""Chains, and records of them, whose blobs are made durable together. Each such step costs seven syncs, however little there is."""
_TRIM = 1000
"""Blobs after which the freed memory goes back to the system."""


class ChainRecords(NamedTuple):
    """What is new in one chain: the records of its sound pieces, how far it was read with them, what is wrong."""

    chain: str
    reader: ChainReader
    items: list[Item]
    read: ReadChain
    problems: list[str]


def store_arriving(
    context: Context, found: ChainRecords, arriving: Arriving, before_records: Callable[[Sequence[Checkpoint]], None] | None = None,
    rows: bytearray | None = None,
) -> tuple[list[Checkpoint], list[str]]:
    """Fetch and store what arrives. Returns (the checkpoints that are complete and stored, sentences about the others).
    `before_records` is called with the checkpoints when their blobs are stored and their records are not. `rows` receives a row of
    the file `sent` for each blob that came."""
    with context.store.writing() as writer:
        fetcher = Fetcher(context, writer, found.reader, rows)
        fetched = _fetch_arriving(fetcher, found, arriving)
        fetcher.make_durable()
        arrived, problems = fetched.sound(context)
        if before_records is not None:
            before_records([point for _, point in arrived.points])
        records, left_out = records_to_store(Here(context), found.chain, found.read.machine, arrived)
        context.store.append_all(records)
    return [point for _, point in arrived.points], [*problems, *left_out]


class Fetched(NamedTuple):
    """What was fetched of a chain, and not stored yet: those of its arriving records that are complete, and the fetcher's words for a
    number of lost checkpoints beside a number of others."""

    found: ChainRecords
    arriving: Arriving
    complete: Arriving
    words: Callable[[str, int, int], list[str]]

    def sound(self, context: Context) -> tuple[Arriving, list[str]]:
        """Returns (what of it `verify` would find sound, sentences about the rest). Its blobs are stored."""
        bad = find_unsound(context, [point for _, point in self.complete.points])
        left = self.complete._replace(points=[one for one in self.complete.points if one[1].id not in bad])
        lost = len(self.arriving.points) - len(left.points)
        return left, self.words(self.found.read.machine, lost, len(left.points))


def _fetch_arriving(fetcher: "Fetcher", found: ChainRecords, arriving: Arriving) -> Fetched:
    """Fetch what arrives. Nothing of it needs to be durable yet."""
    kept = fetcher.fetch_and_find_complete([point for _, point in arriving.points])
    found.reader.forget_all_read()
    complete = arriving._replace(points=[one for one in arriving.points if one[1].id in kept])
    return Fetched(found, arriving, complete, fetcher.problems)


class Batch:
    """What a pull has fetched of some chains and not stored yet. The blobs of all of them become durable first, then their records, then
    it is noted how far the chains were read: so a cut in between loses nothing, and what was fetched is fetched again."""

    def __init__(self, context: Context) -> None:
        """Opens nothing yet."""
        self._context, self._stack = context, ExitStack()
        self._writer: StoreWriter | None = None
        self._fetched: list[Fetched] = []
        self._records = self._kept = 0
        self.points: dict[str, Checkpoint] = {}
        """The checkpoints that are fetched, by id."""

    def fetch(self, found: ChainRecords, arriving: Arriving) -> None:
        """Fetch what arrives of a chain."""
        if self._writer is None:
            self._writer = self._stack.enter_context(self._context.store.writing())
        fetcher = Fetcher(self._context, self._writer, found.reader, kept=self._kept)
        fetched = _fetch_arriving(fetcher, found, arriving)
        self._kept = fetcher.kept
        self._fetched.append(fetched)
        self.points |= {point.id: point for _, point in fetched.complete.points}
        self._records += len(arriving.points) + len(arriving.others)

    @property
    def is_full(self) -> bool:
        """True if this is enough to be stored."""
        return len(self._fetched) >= MOST_CHAINS or self._records >= _RECORDS

    def store(self) -> Iterator[tuple[Fetched, list[Checkpoint], list[str]]]:
        """Store what was fetched. Yields (what was fetched of a chain, the checkpoints of it that are stored, sentences about the rest).
        Raises StoreFull and others: then nothing is stored."""
        if self._writer is None:
            return
        make_durable(self._context, self._writer)
        here, records, stored = Here(self._context), list[tuple[int, bytes]](), []
        for one in self._fetched:
            arrived, problems = one.sound(self._context)
            chosen, left_out = records_to_store(here, one.found.chain, one.found.read.machine, arrived)
            records += chosen
            stored.append((one, [point for _, point in arrived.points], [*problems, *left_out]))
        self._context.store.append_all(records)
        self.close()
        yield from stored

    def close(self) -> None:
        """Forget what was not stored."""
        self._stack.close()
        self._writer, self._fetched, self._records, self._kept, self.points = None, [], 0, 0, {}


def make_durable(context: Context, writer: StoreWriter) -> None:
    """Make what was fetched durable, and return the memory that it took: that of the index, too, which is mapped."""
    context.store.add_blobs(writer)
    context.store.index.close()
    heap.return_freed_memory()


class BlobSource(Protocol):
    """Where blobs come from: a chain, or another store."""

    @property
    def damaged(self) -> Mapping[PieceInfo, PieceDamaged]:
        """{a piece that cannot be read: why}; of another store, nothing."""

    def fetch(self, wanted: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
        """Yields (digest, bytes) of what can be read of {digest: kind}; more, maybe."""

    def list_again(self) -> bool:
        """True if there is more to be found now."""


class Fetcher:
    """Brings the blobs of checkpoints from a chain or another store into a store."""

    def __init__(
        self, context: Context, writer: StoreWriter, reader: BlobSource, rows: bytearray | None = None, *, kept: int = 0
    ) -> None:
        """Blobs are read from the store first, then from the chain, and written by `writer`. `rows`: see store_arriving. `kept`: how many
        bytes of the writer are durable."""
        self._context, self._writer, self._reader, self._rows = context, writer, reader, rows
        self.kept = kept

    def fetch_and_find_complete(self, points: Sequence[Checkpoint]) -> set[str]:
        """Fetch what these checkpoints need. Returns the ids of those that are complete now."""
        while True:
            if self._fetch_what_is_needed(points):
                return {point.id for point in points}
            if not self._reader.list_again():
                break
        return {point.id for point in points if self._fetch_what_is_needed([point])}

    def _fetch_what_is_needed(self, points: Sequence[Checkpoint]) -> bool:
        """Fetch what these checkpoints need. False if something of it is nowhere, or damaged."""
        try:
            marker = self._marker_that_fetches(points)
        except (errors.StoreDamaged, PieceDamaged):
            return False
        lacking, is_known = marker.content, not marker.missing
        del marker  # the content needs the memory
        waiting = list(lacking)
        for start in range(0, len(waiting), _BATCH):
            batch = waiting[start : start + _BATCH]
            for digest in set(batch).difference(self._writer.neither_stored_nor_pending(batch)):
                del lacking[digest]
        del waiting
        heap.return_freed_memory()
        for digest, _ in self._fetch_and_store_blobs(lacking) if is_known else ():
            del lacking[digest]
        return is_known and not lacking

    def _marker_that_fetches(self, points: Sequence[Checkpoint]) -> Marker:
        marker = Marker(self._read_or_fetch_containers, self._context.counter("looking for what is new"), skip=lambda _kind, _digest: False)
        files = [point.transcript for point in points if point.transcript is not None]
        try:
            marker.mark_with_references([point.tree for point in points], [point.domain for point in points], (), files)
        except errors.UnsafePath as error:  # a tree of another machine with names that no save makes
            raise PieceDamaged(str(error)) from error
        return marker

    def _read_or_fetch_containers(self, wanted: list[bytes], kind: int) -> Iterator[tuple[bytes, bytes | errors.StoreDamaged]]:
        """A Reader of containers (store/reachability.py)."""
        absent = dict.fromkeys(self._writer.neither_stored_nor_pending(wanted), kind)
        found = dict(self._fetch_and_store_blobs(absent)) if absent else {}
        for digest in wanted:
            if digest in found:
                yield digest, found[digest]
            elif digest in absent:
                yield digest, errors.BlobMissing(f"blob {digest.hex()[:16]} is not on the remote")
            else:
                try:
                    yield digest, self._writer.read(digest, kind)
                except errors.StoreDamaged as error:
                    yield digest, error

    def _fetch_and_store_blobs(self, wanted: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
        """Fetch and store blobs. Yields (digest, bytes) of those that came and have their digest: they may be removed then."""
        progress, done, total = self._context.progress_bar("receiving"), 0, len(wanted)
        for digest, data in self._reader.fetch(wanted):
            kind = wanted.get(digest)
            if kind is None or digests.of(data) != digest:  # a table may name it twice
                continue
            self._writer.put(kind, data, is_new=True)
            if self._rows is not None:
                self._rows += bytes((CONTAINER if kind in HOLDS else CONTENT,)) + digest
            done += 1
            if done % _TRIM == 0:
                heap.return_freed_memory()
            if self._writer.bytes_written > self.kept + _AT_ONCE:  # what is in a pack needs no memory
                self.make_durable()
            if progress is not None and done % 100 == 0:
                progress(done, total)
            yield digest, data

    def make_durable(self) -> None:
        """Make what was fetched durable."""
        make_durable(self._context, self._writer)
        self.kept = self._writer.bytes_written

    def problems(self, machine: str, lost: int, taken: int) -> list[str]:
        """Sentences about damaged pieces, if `lost` checkpoints could not be taken."""
        if not lost:
            return []
        numbers = [f"{piece.last}" for piece in sorted(self._reader.damaged)]
        what = f"{'pieces' if len(numbers) > 1 else 'piece'} {', '.join(numbers)} of {machine}" if numbers else f"what {machine} pushed"
        verb, past = ("are", "were") if len(numbers) > 1 else ("is", "was")
        others = f"{taken:,} others {'was' if taken == 1 else 'were'}"
        if any(isinstance(error, PieceGone) for error in self._reader.damaged.values()):  # a gc or a roll-up runs there
            return [f"{what} {past} replaced while this was read: {plural(lost, 'checkpoint')} cannot be taken now, {others}; pull again"]
        return [f"{what} {verb} damaged or cut: {plural(lost, 'checkpoint')} cannot be taken, {others}"]
