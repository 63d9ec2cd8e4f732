"""Write transactions: what one save or restore writes to the store, and reads back from it.

The danger prevented here: treating a blob as stored because of an index row, although its pack is gone. A writer
holds the store lock shared from its first dedup decision until its checkpoint is published. It lists the packs once,
and trusts a row only if the pack exists and is long enough.

Another danger prevented here: a disk that fills up unnoticed. The write quota is measured at the first write, from
outside as du does; a writer without writes pays nothing.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import groupby

from .. import errors
from ..messages import printable, store_error
from ..model import digest as digests
from ..model import manifest
from . import packs
from .layout import Layout
from .packs import BlobLocation, FinishedPacks, PackWriter

TYPE_CHECKING = False
if TYPE_CHECKING:  # not needed by a save without writes, or without large directories and files
    from ..model.tree_nodes import NodeList
    from . import chunker

_BATCH_BYTES = 4 << 20
_BATCH_BLOBS = 1000

Finder = Callable[[list[bytes]], dict[bytes, BlobLocation]]
"""Returns the locations of blobs by the index."""


_CHECK_ROOM_FROM = 64 << 20  # files from this size (bytes) are checked against free space before reading
_PIECE = 64 << 10  # bytes of one piece of an append-only file
_BLOCK = 4096
_SPARE = 32 << 20
"""Bytes of the disk that a save leaves free (a hundredth of a small disk): the user's work comes first."""


def free(store: str) -> int:
    """Bytes that may be written to the disk of the store at that path."""
    try:
        status = os.statvfs(store)
    except OSError:
        return 1 << 62
    return status.f_bavail * status.f_frsize - min(_SPARE, status.f_blocks * status.f_frsize // 100)


class WriteQuota:
    """The write quota of one session: the budget and the free disk space, measured at the first write."""

    def __init__(self, layout: Layout, disk: Mapping[str, int], budget: int | None) -> None:
        """`disk` are the sizes of the present packs; without a `budget` only the disk is a limit."""
        self._layout, self._disk, self._budget = layout, disk, budget
        self._left: int | None = None
        self._free = 0

    def ask(self, written: int, more: int) -> None:
        """Check a write of `more` bytes after `written` bytes. Raises OverBudget, StoreFull."""
        if self._left is None:
            self._free = free(self._layout.root)
            self._left = 1 << 62
            if self._budget is not None:
                from .quota import GcState, reserve

                packs = sum(-(-size // _BLOCK) * _BLOCK for size in self._disk.values())
                self._left = self._budget - reserve(self._budget) - packs - self._layout.size(packs=False)
                if self._left < self._budget // 2 and GcState.read(self._layout.root).floor:
                    self._left = 1 << 62  # gc has found that the budget cannot be kept: what has to stay is more than that
        if written + more > self._left and self._budget is not None:
            raise errors.OverBudget(written + more, max(self._left, 0))
        if written + more > self._free:
            raise errors.StoreFull(
                f"no space left for the store {printable(self._layout.root)}: more than the {max(self._free, 0):,} bytes "
                f"that may be written are needed (a hundredth of the disk, at most {_SPARE >> 20} MiB, is kept free); nothing was "
                f"saved: free some space and try again"
            )

    def accepts(self, size: int) -> None:
        """Check the size of a file before reading it. Raises StoreFull if it cannot fit."""
        if size > (left := free(self._layout.root)):
            raise errors.StoreFull(
                f"no space left for a file of {size:,} bytes: {max(left, 0):,} bytes may be written to the disk of the store "
                f"{printable(self._layout.root)}; nothing was saved: free some space, or lower capture.max_file_size"
            )


class TreeCache:
    """A Loader that keeps trees after loading. Its callers must not modify a tree. A digest names one tree for good, so
    nothing in it becomes out of date."""

    def __init__(self, load: manifest.Loader, most: int = 20_000) -> None:
        """`most`: number of entries to keep (about 8 MB): enough to restore a thousand files."""
        self._load, self._most = load, most
        self._trees: dict[bytes, manifest.Tree | NodeList] = {}
        self._entries = 0

    def __call__(self, digest: bytes) -> "manifest.Tree | NodeList":
        """Return what `load` returns, or raise its error."""
        tree = self._trees.get(digest)
        if tree is None:
            tree = self._load(digest)
            entries = len(tree if isinstance(tree, list) else tree.parts) + 1
            self._entries += entries
            if self._entries > self._most:
                self._trees, self._entries = {}, entries
            self._trees[digest] = tree
        return tree


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
    ) -> None:
        """`place` names the store in errors, `read` reads its blobs; `live` is {pack id: bytes} of the packs on disk.
        `expect` checks large files before they are read."""
        self._place, self._expect = place, expect
        self._writer, self._read, self._find, self._live = writer, read, find, live
        self._pending: dict[bytes, tuple[int, bytes]] = {}
        self._pending_bytes = 0
        self._under_way: tuple[dict[bytes, tuple[int, bytes]], packs.Compressor] | None = None
        self._known: set[bytes] = set()

        self.load_tree = TreeCache(lambda digest: manifest.decode_node(self.read(digest, packs.TREE)))
        """Loads trees: the scan, the count of its changes and a restore load the same."""

    @property
    def written(self) -> int:
        """Bytes written to packs so far."""
        return self._writer.written

    def accepts(self, size: int) -> bool:
        """Called before a file is read. Returns True: read it. Raises StoreFull if it cannot be stored."""
        if size >= _CHECK_ROOM_FROM:
            self._expect(size)
        return True

    def put(self, kind: int, data: bytes) -> bytes:
        """Store a blob unless it is already stored. Returns its digest."""
        digest = digests.of(data)
        if len(data) > packs.MOST[kind]:  # it could not be read again
            raise errors.StoreError(
                f"cannot store {len(data):,} bytes as one piece: a plan of so many changes is more than a store takes; restore part of "
                f"the paths"
            )
        if digest not in self._known:
            self._known.add(digest)
            self._pending[digest] = (kind, data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= _BATCH_BYTES or len(self._pending) >= _BATCH_BLOBS:
                self._start_batch()
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
        from ..model import tree_nodes

        return frozenset((tree, *(digest for digest, _ in tree_nodes.below(self.load_tree, node))))

    def put_rules(self, data: bytes) -> bytes:
        """Store a rule file's bytes. Returns their digest."""
        return self.put(packs.RULES, data)

    def put_stream(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:
        """Store a large file in chunks. Returns (bytes read, digest of the bytes, digest of the chunk list)."""
        from . import chunker

        hashing = chunker.HashingSource(source)
        items = [chunker.ChunkRef(self.put(packs.CHUNK, chunk), len(chunk)) for chunk in chunker.cut(hashing, size)]
        top = chunker.encode_list(items, lambda node: self.put(packs.CHUNK_LIST, node))
        return hashing.size, hashing.digest(), top

    def put_growing(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:
        """Store `size` bytes of an append-only file in pieces of equal size, so that the next save finds all but the
        last stored.

        Returns (bytes read, digest of the bytes, digest of their chunk list, or b"" for a single piece).
        """
        from . import chunker

        hashing = chunker.HashingSource(source)
        items: list[chunker.ChunkRef] = []
        while hashing.size < size and (piece := _fill(hashing, min(_PIECE, size - hashing.size))):
            if len(piece) == size:
                return size, self.put_file(piece), b""
            items.append(chunker.ChunkRef(self.put(packs.CHUNK, piece), len(piece)))
        top = chunker.encode_list(items, lambda node: self.put(packs.CHUNK_LIST, node))
        return hashing.size, hashing.digest(), top

    def flush(self) -> None:
        """Write pending blobs that are not stored yet."""
        self._finish_batch()
        if self._pending:
            self._write(self._new(), None)
            self._pending, self._pending_bytes = {}, 0

    def _new(self) -> dict[bytes, tuple[int, bytes]]:
        """The pending blobs that are not stored yet, content before the trees that name it."""
        stored = self._find(list(self._pending)) if self._live else {}  # a first save finds nothing
        new = {digest: item for digest, item in self._pending.items() if not self._is_stored(stored.get(digest))}
        return dict(sorted(new.items(), key=lambda item: item[1][0]))

    def _start_batch(self) -> None:
        """Compress and write the pending blobs in a thread. Waits for the previous batch, so at most two batches
        exist. No other method may write during that time."""
        self._finish_batch()
        new = self._new()
        self._under_way = new, packs.Compressor([data for _, data in new.values()], lambda frames: self._write(new, frames))
        self._pending, self._pending_bytes = {}, 0

    def _finish_batch(self) -> None:
        if self._under_way is not None:
            self._under_way[1].finish()
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

    def drain(self) -> None:
        """Wait for the thread. Pending blobs are dropped."""
        if self._under_way is not None:
            self._under_way[1].wait()
            self._under_way = None

    def _is_stored(self, place: BlobLocation | None) -> bool:
        return place is not None and self._live.get(place.pack, -1) >= place.offset + place.length

    def lacks(self, wanted: Collection[bytes]) -> bool:
        """True if one of these blobs is neither stored nor pending in this writer."""
        stored = self._find([digest for digest in wanted if digest not in self._known])
        return any(digest not in self._known and not self._is_stored(stored.get(digest)) for digest in wanted)

    def unpublished(self) -> set[bytes]:
        """Digests of blobs written by this writer: they are in no published pack yet."""
        self.flush()
        return set(self._writer.places)

    def finish(self) -> FinishedPacks:
        """Write all pending blobs and make every pack durable under its name."""
        self.flush()
        return self._writer.finish()

    def read(self, digest: bytes, kind: int | None = None) -> bytes:
        """A blob of this writer or of the store. Raises as packs.ReadBlob."""
        pending = self._pending.get(digest) or (self._under_way[0].get(digest) if self._under_way else None)
        if pending is not None:
            return pending[1]
        data = self._writer.read(digest, kind)
        return self._read(digest, kind) if data is None else data

    def content(self, entry: manifest.Entry) -> Iterator[bytes]:
        """Yield a file's bytes in pieces, each verified."""
        return content(self.read, entry)


def _fill(source: "chunker.ByteSource", size: int) -> bytes:
    buffer = bytearray(size)
    view, count = memoryview(buffer), 0
    while count < size and (more := source.readinto(view[count:])):
        count += more
    return bytes(view[:count])


class DryRunWriter:
    """The interface of StoreWriter for a scan without writes: computes digests, keeps only trees, in memory."""

    def __init__(self, read: packs.ReadBlob) -> None:
        """`read` reads blobs of the store."""
        self._read = read
        self.load_tree = TreeCache(lambda digest: manifest.decode_node(self.read(digest, packs.TREE)))
        self._trees: dict[bytes, bytes] = {}

    def accepts(self, size: int) -> bool:  # noqa: ARG002 - as StoreWriter's
        """True: read the file."""
        return True

    def put_file(self, data: bytes) -> bytes:
        """The digest."""
        return digests.of(data)

    def put_tree(self, data: bytes) -> bytes:
        """The digest; the tree can be loaded again."""
        return manifest.store_tree(data, self.put_rules)

    def put_rules(self, data: bytes) -> bytes:
        """The digest; the bytes can be read again."""
        digest = digests.of(data)
        self._trees[digest] = data
        return digest

    def put_stream(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:  # noqa: ARG002 - as StoreWriter's
        """Returns (bytes read, digest of the bytes, a placeholder for the chunk list's digest)."""
        from . import chunker

        hashing = chunker.HashingSource(source)
        buffer = memoryview(bytearray(1 << 20))
        while hashing.readinto(buffer):
            pass
        return hashing.size, hashing.digest(), bytes(digests.SIZE)

    def lacks(self, wanted: Collection[bytes]) -> bool:  # noqa: ARG002 - as StoreWriter's
        """False: nothing will be published."""
        return False

    def read(self, digest: bytes, kind: int | None = None) -> bytes:
        """A tree of this writer, or a blob of the store."""
        data = self._trees.get(digest)
        return self._read(digest, kind) if data is None else data


class SizeEstimator(DryRunWriter):
    """The interface of StoreWriter for a scan that only sums up the bytes it would have to read, in `size`."""

    size = 0

    def accepts(self, size: int) -> bool:
        """Count the file. Returns False: do not read it."""
        self.size += size
        return False


def content(read: packs.ReadBlob, entry: manifest.Entry) -> Iterator[bytes]:
    """Yield a file's bytes in pieces. Raises BlobCorrupt at the end if a chunked file has another digest."""
    if not entry.chunks:
        yield read(entry.digest, packs.FILE)
        return
    from . import chunker

    whole = digests.Hasher()
    for item in chunker.chunks(lambda node: read(node, packs.CHUNK_LIST), entry.chunks, entry.size):
        data = read(item.digest, packs.CHUNK)
        if len(data) != item.length:
            raise errors.ManifestCorrupt("damaged chunk list: a chunk has another length; run casrewind verify")
        whole.update(data)
        yield data
    if whole.digest() != entry.digest:
        raise errors.BlobCorrupt(f"file {entry.digest.hex()[:16]} does not match its chunks; run casrewind verify")
