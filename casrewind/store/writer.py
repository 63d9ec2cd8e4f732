"""Write transactions: what one save or restore writes to the store, and reads back from it.

The danger prevented here: treating a blob as stored because of an index row, although its pack is gone. A writer
holds the store lock shared from its first dedup decision until its checkpoint is published. It lists the packs once,
and trusts a row only if the pack exists and is long enough.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cached_property, partial
from itertools import groupby

from .. import errors
from ..messages import store_error
from ..model import digest as digests
from ..model import manifest
from . import packs
from .packs import BlobLocation, FinishedPacks, PackWriter

TYPE_CHECKING = False
if TYPE_CHECKING:  # not needed by a save without writes, or without large files
    from . import chunker
    from .reading import ReadMany, TreeCache

_BATCH_BYTES = 4 << 20
_BATCH_BLOBS = 1000
_CHECK_ROOM_FROM = 64 << 20  # files from this size (bytes) are checked against free space before reading
_PIECE = 64 << 10  # bytes of one piece of an append-only file

Finder = Callable[[list[bytes]], dict[bytes, BlobLocation]]
"""Returns the locations of blobs by the index."""


class StoreWriter:
    """Writes content to the store. None of it counts until the store publishes a checkpoint that names it."""

    def __init__(
        self,
        place: str,
        writer: PackWriter,
        read: packs.ReadBlob,
        find: Finder,
        live: dict[str, int],
        expect: Callable[[int], None],
        read_many: "ReadMany" = lambda _digests, _kind: (),
    ) -> None:
        """`place` names the store in errors, `read` and `read_many` read its blobs; `live` is {pack id: bytes} of the packs
        on disk. `expect` checks large files before they are read."""
        self._place, self._expect = place, expect
        self._writer, self._find, self._live = writer, find, dict(live)
        self._read, self._read_many = read, read_many
        self._pending: dict[bytes, tuple[int, bytes]] = {}
        self._pending_bytes = 0
        self._under_way: tuple[dict[bytes, tuple[int, bytes]], packs.Compressor] | None = None
        self._known: set[bytes] = set()
        self._absent: set[bytes] = set()
        """Pending blobs that are certainly not stored."""

    @cached_property
    def load_tree(self) -> "TreeCache":
        """Loads trees: the scan, the count of its changes and a restore load the same."""
        from .reading import TreeCache

        return TreeCache(lambda digest: manifest.decode_node(self.read(digest, packs.TREE)), read_many=self._read_trees)

    def read_trees_ahead(self, digests: Collection[bytes]) -> None:
        """Read these trees at once, for `load_tree`. What cannot be read is no error yet."""
        self.load_tree.read_ahead(digests)

    def _read_trees(self, digests: list[bytes], kind: int) -> Iterator[tuple[bytes, object]]:
        """Yield (digest, blob or error) of this writer's blobs, which the index does not have yet, and then of the store's."""
        for digest in self._known.intersection(digests):
            with suppress(errors.StoreDamaged):
                yield digest, self.read(digest, kind)
        yield from self._read_many([digest for digest in digests if digest not in self._known], kind)

    @property
    def bytes_written(self) -> int:
        """Bytes written to packs so far."""
        return self._writer.written

    def accepts(self, size: int) -> bool:
        """Called before a file is read. Returns True: read it. Raises StoreFull if it cannot be stored."""
        if size >= _CHECK_ROOM_FROM:
            self._expect(size)
        return True

    def put(self, kind: int, data: bytes, *, is_new: bool = False) -> bytes:
        """Store a blob unless it is already stored. Returns its digest. `is_new`: `neither_stored_nor_pending` yielded it, so the
        index is not asked."""
        digest = digests.of(data)
        if len(data) > packs.MOST[kind]:  # it could not be read again
            raise errors.StoreError(
                f"cannot store {len(data):,} bytes as one piece: a plan of so many changes is more than a store takes",
                "restore part of the paths"
            )
        if digest not in self._known:
            self._known.add(digest)
            self._pending[digest] = (kind, data)
            if is_new:
                self._absent.add(digest)
            self._pending_bytes += len(data)
            if self._pending_bytes >= _BATCH_BYTES or len(self._pending) >= _BATCH_BLOBS:
                self._wait_then_write_in_thread()
        return digest

    def put_file(self, data: bytes) -> bytes:
        """Store a whole small file. Returns its digest."""
        return self.put(packs.FILE, data)

    def put_tree(self, data: bytes) -> bytes:
        """Store a directory, encoded as a whole (manifest.encode_tree), in nodes if it is large. Returns its digest."""
        return manifest.store_tree(data, partial(self.put, packs.TREE))

    def nodes_of(self, tree: bytes) -> frozenset[bytes]:
        """The digest of a directory's tree, and the digests of its nodes if it is large. Raises StoreDamaged."""
        node = self.load_tree(tree)
        if isinstance(node, list):
            return frozenset((tree,))
        from ..model import directory_nodes

        return frozenset((tree, *(digest for digest, _ in directory_nodes.nodes_below(self.load_tree, node))))

    def put_rules(self, data: bytes) -> bytes:
        """Store a rule file's bytes. Returns their digest."""
        return self.put(packs.RULES, data)

    def put_stream(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:
        """Store a large file in chunks. Returns (bytes read, digest of the bytes, digest of the chunk list)."""
        from . import chunker

        hashing = chunker.HashingSource(source)
        items = [chunker.ChunkRef(self.put(packs.CHUNK, chunk), len(chunk)) for chunk in chunker.cut_into_chunks(hashing, size)]
        top = chunker.encode_list(items, lambda node: self.put(packs.CHUNK_LIST, node))
        return hashing.size, hashing.digest(), top

    def put_append_only(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:
        """Store `size` bytes of an append-only file in pieces of equal size, so that the next save finds all but the
        last stored.

        Returns (bytes read, digest of the bytes, digest of their chunk list, or b"" for a single piece).
        """
        from . import chunker

        hashing = chunker.HashingSource(source)
        items: list[chunker.ChunkRef] = []
        while hashing.size < size and (piece := _read_exactly(hashing, min(_PIECE, size - hashing.size))):
            if len(piece) == size:
                return size, self.put_file(piece), b""
            items.append(chunker.ChunkRef(self.put(packs.CHUNK, piece), len(piece)))
        top = chunker.encode_list(items, lambda node: self.put(packs.CHUNK_LIST, node))
        return hashing.size, hashing.digest(), top

    def write_pending(self) -> None:
        """Write pending blobs that are not stored yet."""
        self._wait_for_batch()
        if self._pending:
            self._write(self._pending_not_stored(), None)
            self._pending, self._pending_bytes = {}, 0

    def _pending_not_stored(self) -> dict[bytes, tuple[int, bytes]]:
        """The pending blobs that are not stored yet, content before the trees that name it."""
        unclear = [digest for digest in self._pending if digest not in self._absent] if self._live else []  # a first save finds nothing
        stored = self._find(unclear) if unclear else {}
        self._absent.clear()
        new = {digest: item for digest, item in self._pending.items() if not self._is_stored(stored.get(digest))}
        return dict(sorted(new.items(), key=lambda item: item[1][0]))

    def _wait_then_write_in_thread(self) -> None:
        """Compress and write the pending blobs in a thread. Waits for the previous batch, so at most two batches
        exist. No other method may write during that time."""
        self._wait_for_batch()
        new = self._pending_not_stored()
        self._under_way = new, packs.Compressor([data for _, data in new.values()], lambda frames: self._write(new, frames))
        self._pending, self._pending_bytes = {}, 0

    def _wait_for_batch(self) -> None:
        if self._under_way is not None:
            self._under_way[1].wait_and_raise_error()
            self._under_way = None

    def _write(self, new: dict[bytes, tuple[int, bytes]], frames: list[bytes] | None) -> None:
        start = 0
        try:
            for kind, group in groupby(new.items(), key=lambda item: item[1][0]):
                blobs = [(digest, data) for digest, (_, data) in group]
                self._writer.append(kind, blobs, frames and frames[start : start + len(blobs)])
                start += len(blobs)
        except OSError as error:  # a scan would attribute any other OSError to the user's file
            raise store_error(error, "writing a pack in", self._place) from error

    def drop_pending_and_wait(self) -> None:
        """Wait for the thread. Pending blobs are dropped."""
        if self._under_way is not None:
            self._under_way[1].wait_until_ended()
            self._under_way = None

    def _is_stored(self, place: BlobLocation | None) -> bool:
        return place is not None and self._live.get(place.pack, -1) >= place.offset + place.length

    def lacks(self, wanted: Collection[bytes]) -> bool:
        """True if one of these blobs is neither stored nor pending in this writer."""
        stored = self._find([digest for digest in wanted if digest not in self._known])
        return any(digest not in self._known and not self._is_stored(stored.get(digest)) for digest in wanted)

    def neither_stored_nor_pending(self, wanted: Collection[bytes]) -> Iterator[bytes]:
        """Yield those of these blobs that are neither stored nor pending in this writer."""
        stored = self._find([digest for digest in wanted if digest not in self._known])
        return (digest for digest in wanted if digest not in self._known and not self._is_stored(stored.get(digest)))

    def unpublished(self) -> set[bytes]:
        """Digests of blobs written by this writer: they are in no published pack yet."""
        self.write_pending()
        return set(self._writer.places)

    def write_and_sync_packs(self, *, is_followed: bool = False) -> FinishedPacks:
        """Write all pending blobs and make every pack durable under its name. `is_followed`: see fsio.sync_fd."""
        self.write_pending()
        done = self._writer.sync_and_name_packs(is_followed=is_followed)
        self._live |= done.sizes
        self._known.clear()  # the index will have them
        return done

    def read(self, digest: bytes, kind: int | None = None) -> bytes:
        """A blob of this writer or of the store. Raises as packs.ReadBlob."""
        pending = self._pending.get(digest) or (self._under_way[0].get(digest) if self._under_way else None)
        if pending is not None:
            return pending[1]
        data = self._writer.read(digest, kind)
        return self._read(digest, kind) if data is None else data

    def content(self, entry: manifest.Entry) -> Iterator[bytes]:
        """Yield a file's bytes in pieces, each verified."""
        from .reading import read_content

        return read_content(self.read, entry)


def _read_exactly(source: "chunker.ByteSource", size: int) -> bytes:
    buffer = bytearray(size)
    view, count = memoryview(buffer), 0
    while count < size and (more := source.readinto(view[count:])):
        count += more
    return bytes(view[:count])
