"""A session: what one save (or restore) writes into the store, and reads back from it.

The danger prevented here: a blob taken for stored because an index row says so, although its pack is gone. A session
holds the store lock shared from its first dedup decision until its checkpoint is published, lists the packs once, and
believes a row only when its pack is there and long enough.

Another danger prevented here: a disk that is full before anybody looks. What may be written is measured when a session writes
its first byte, from outside as du does it; one that writes nothing pays nothing.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby

from .. import errors, fsio
from ..model import digest as digests
from ..model import manifest
from . import packs
from .layout import Layout
from .packs import BlobLocation, FinishedPack, PackWriter

TYPE_CHECKING = False
if TYPE_CHECKING:  # a save that writes nothing, or has no large directory or file, has no need of it
    from ..model.tree_nodes import NodeList
    from . import chunker

_BATCH_BYTES = 4 << 20
_BATCH_BLOBS = 1000

Finder = Callable[[list[bytes]], dict[bytes, BlobLocation]]
"""Where the index says that blobs are."""


_LARGE = 64 << 20  # bytes from which it is asked whether a file fits before it is read
_MOST_TREES = 300  # that are kept, of at most 256 entries each
_PIECE = 64 << 10  # bytes of what only grows that are stored as one
_BLOCK = 4096
_SPARE = 32 << 20
"""Bytes of the disk that a save leaves free, or a hundredth where that is less: its owner's work comes first."""


def free(store: str) -> int:
    """Bytes that may be written to the disk that the store at that path lies on."""
    try:
        status = os.statvfs(store)
    except OSError:
        return 1 << 62
    return status.f_bavail * status.f_frsize - min(_SPARE, status.f_blocks * status.f_frsize // 100)


class WriteQuota:
    """What one session may write."""

    def __init__(self, layout: Layout, disk: Mapping[str, int], budget: int | None) -> None:
        """`disk` are the sizes of the packs that there are; without a `budget` only the disk is a limit."""
        self._layout, self._disk, self._budget = layout, disk, budget
        self._left: int | None = None
        self._free = 0

    def ask(self, written: int, more: int) -> None:
        """May `more` bytes be written, `written` having been already? Raises OverBudget, StoreFull."""
        if self._left is None:
            self._left = self._measure()
        if written + more > self._left and self._budget is not None:
            raise errors.OverBudget(written + more, max(self._left, 0))
        if written + more > self._free:
            raise errors.StoreFull(
                f"no space left for the store {fsio.printable(self._layout.root)}: more than the {max(self._free, 0):,} bytes "
                f"that may be written are needed (a hundredth of the disk, at most {_SPARE >> 20} MiB, stays free); nothing was "
                f"saved: free some space and try again"
            )

    def accepts(self, size: int) -> None:
        """May a file of that size be read at all? Raises StoreFull when it cannot fit, before anything of it is written."""
        if size > (left := free(self._layout.root)):
            raise errors.StoreFull(
                f"no space left for a file of {size:,} bytes: {max(left, 0):,} bytes may be written to the disk of the store "
                f"{fsio.printable(self._layout.root)}; nothing was saved: free some space, or lower capture.max_file_size"
            )

    def _measure(self) -> int:
        from .quota import GcState, reserve

        self._free = free(self._layout.root)
        if self._budget is None:
            return 1 << 62
        packs = sum(-(-size // _BLOCK) * _BLOCK for size in self._disk.values())
        left = self._budget - reserve(self._budget) - packs - self._layout.size(packs=False)
        if left < self._budget // 2 and GcState.read(self._layout.root).floor:
            return 1 << 62  # gc has found that the budget cannot be kept: what has to stay is more than that
        return left


class StoreWriter:
    """Content going into the store. Nothing of it counts until the store publishes a checkpoint that names it."""

    def __init__(
        self,
        place: str,
        writer: PackWriter,
        read: packs.ReadBlob,
        find: Finder,
        live: dict[str, int],
        expect: Callable[[int], None],
    ) -> None:
        """`place` names the store in errors, `read` gives its blobs; `live` is {pack id: bytes} of the packs on disk;
        `expect` is told of large files before they are read."""
        self._place, self._expect = place, expect
        self._writer, self._read, self._find, self._live = writer, read, find, live
        self._pending: dict[bytes, tuple[int, bytes]] = {}
        self._pending_bytes = 0
        self._under_way: tuple[dict[bytes, tuple[int, bytes]], packs.Compressor] | None = None
        self._known: set[bytes] = set()
        self._nodes: dict[bytes, frozenset[bytes]] = {}
        self._trees: dict[bytes, manifest.Tree | NodeList] = {}

    @property
    def written(self) -> int:
        """Bytes written to packs so far."""
        return self._writer.written

    def accepts(self, size: int) -> bool:
        """Told of a file before it is read; True, it is to be read. Raises StoreFull when it cannot be stored."""
        if size >= _LARGE:
            self._expect(size)
        return True

    def put(self, kind: int, data: bytes) -> bytes:
        """Store a blob unless it is stored already; its digest."""
        digest = digests.of(data)
        if len(data) > packs.MOST[kind]:  # nobody could read it again
            raise errors.StoreError(
                f"cannot store {len(data):,} bytes as one piece: a plan of so many changes is more than a store takes; restore part of "
                f"the paths"
            )
        if digest not in self._known:
            self._known.add(digest)
            self._pending[digest] = (kind, data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= _BATCH_BYTES or len(self._pending) >= _BATCH_BLOBS:
                self._hand_over()
        return digest

    def put_file(self, data: bytes) -> bytes:
        """Store a whole small file; its digest."""
        return self.put(packs.FILE, data)

    def put_tree(self, data: bytes) -> bytes:
        """Store a directory, encoded as a whole (manifest.encode_tree), in nodes if it is large; its digest."""
        made: list[bytes] = []

        def put(node: bytes) -> bytes:
            made.append(self.put(packs.TREE, node))
            return made[-1]

        top = manifest.store_tree(data, put)
        if len(made) > 1:
            self._nodes[top] = frozenset(made)
        return top

    def nodes_of(self, tree: bytes) -> frozenset[bytes]:
        """The digests of all nodes of a directory that was put into this session; of any other its own."""
        return self._nodes.get(tree, frozenset((tree,)))

    def put_rules(self, data: bytes) -> bytes:
        """Store a rule file's bytes; their digest."""
        return self.put(packs.RULES, data)

    def put_stream(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:
        """Store a large file in chunks: (bytes read, digest of all of them, digest of its chunk list)."""
        from . import chunker

        hashing = chunker.HashingSource(source)
        items = [chunker.ChunkRef(self.put(packs.CHUNK, chunk), len(chunk)) for chunk in chunker.cut(hashing, size)]
        top = chunker.encode_list(items, lambda node: self.put(packs.CHUNK_LIST, node))
        return hashing.size, hashing.digest(), top

    def put_growing(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:
        """Store `size` bytes of what is only ever added to, in pieces of equal size, so that all but the last are there
        already next time: (bytes read, digest of all of them, digest of their chunk list, b"" when it is one piece)."""
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
        """Write what is pending and not stored yet."""
        self._collect()
        if self._pending:
            self._write(self._new(), None)
            self._pending, self._pending_bytes = {}, 0

    def _new(self) -> dict[bytes, tuple[int, bytes]]:
        """What is pending and not stored yet: content before the trees that name it."""
        stored = self._find(list(self._pending)) if self._live else {}  # a first save finds nothing
        new = {digest: item for digest, item in self._pending.items() if not self._is_live(stored.get(digest))}
        return dict(sorted(new.items(), key=lambda item: item[1][0]))

    def _hand_over(self) -> None:
        """Have what is pending compressed and written while the scan goes on; what was handed over before is done first, so that
        there are never more than two batches. Nothing else may write meanwhile."""
        self._collect()
        new = self._new()
        self._under_way = new, packs.Compressor([data for _, data in new.values()], lambda frames: self._write(new, frames))
        self._pending, self._pending_bytes = {}, 0

    def _collect(self) -> None:
        """Return when what was handed over is written. Raises what went wrong there."""
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
        except OSError as error:  # a scan takes any other OSError for one about the user's file
            raise fsio.store_error(error, "writing a pack in", self._place) from error

    def drain(self) -> None:
        """Return when nothing goes on beside this any more; what was not written is dropped."""
        if self._under_way is not None:
            self._under_way[1].wait()
            self._under_way = None

    def _is_live(self, place: BlobLocation | None) -> bool:
        return place is not None and self._live.get(place.pack, -1) >= place.offset + place.length

    def lacks(self, wanted: Collection[bytes]) -> bool:
        """True when one of these blobs is neither stored nor of this session."""
        stored = self._find([digest for digest in wanted if digest not in self._known])
        return any(digest not in self._known and not self._is_live(stored.get(digest)) for digest in wanted)

    def unpublished(self) -> set[bytes]:
        """Digests of what was written by this session: in no pack that counts until it is published."""
        self.flush()
        return set(self._writer.places)

    def finish(self) -> dict[str, FinishedPack]:
        """Write everything that is pending and make every pack durable under its name."""
        self.flush()
        return self._writer.finish()

    def read(self, digest: bytes, kind: int | None = None) -> bytes:
        """A blob, of this session or of the store. Raises as packs.Read."""
        pending = self._pending.get(digest) or (self._under_way[0].get(digest) if self._under_way else None)
        if pending is not None:
            return pending[1]
        data = self._writer.read(digest, kind)
        return self._read(digest, kind) if data is None else data

    def load_tree(self, digest: bytes) -> "manifest.Tree | NodeList":
        """A directory's entries, or what of a large one is in this node (a manifest.Loader). A scan and the count of its changes load
        the same ones, so some are kept."""
        found = self._trees.get(digest)
        if found is None:
            found = manifest.decode_node(self.read(digest, packs.TREE))
            if len(self._trees) < _MOST_TREES:
                self._trees[digest] = found
        return found

    def content(self, entry: manifest.Entry) -> Iterator[bytes]:
        """A file's bytes, piece by piece, each one checked against its digest."""
        return content(self.read, entry)


def _fill(source: "chunker.ByteSource", size: int) -> bytes:
    """As many bytes, or as there are."""
    buffer = bytearray(size)
    view, count = memoryview(buffer), 0
    while count < size and (more := source.readinto(view[count:])):
        count += more
    return bytes(view[:count])


class DryRunWriter:
    """The same doors for a scan that must leave no trace: digests are taken, nothing is kept but trees, in memory."""

    def __init__(self, read: packs.ReadBlob) -> None:
        """`read` gives blobs of the store."""
        self._read = read
        self._trees: dict[bytes, bytes] = {}

    def accepts(self, size: int) -> bool:  # noqa: ARG002 - as Session's
        """True: it is to be read."""
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

    def put_stream(self, source: "chunker.ByteSource", size: int) -> tuple[int, bytes, bytes]:  # noqa: ARG002 - as Session's
        """(bytes read, digest of all of them, a stand-in for the chunk list's digest)."""
        from . import chunker

        hashing = chunker.HashingSource(source)
        buffer = memoryview(bytearray(1 << 20))
        while hashing.readinto(buffer):
            pass
        return hashing.size, hashing.digest(), bytes(digests.SIZE)

    def lacks(self, wanted: Collection[bytes]) -> bool:  # noqa: ARG002 - as Session's
        """False: nothing is published that would have to be there."""
        return False

    def read(self, digest: bytes, kind: int | None = None) -> bytes:
        """A tree of this session, or a blob of the store."""
        data = self._trees.get(digest)
        return self._read(digest, kind) if data is None else data

    def load_tree(self, digest: bytes) -> "manifest.Tree | NodeList":
        """A directory's entries, or what of a large one is in this node (a manifest.Loader)."""
        return manifest.decode_node(self.read(digest, packs.TREE))


class SizeEstimator(DryRunWriter):
    """The same doors for a scan that only adds up the bytes of what would have to be read: `size`. Nothing is."""

    size = 0

    def accepts(self, size: int) -> bool:
        """Counted; False, it is not to be read."""
        self.size += size
        return False


def content(read: packs.ReadBlob, entry: manifest.Entry) -> Iterator[bytes]:
    """A file's bytes, piece by piece; raises BlobCorrupt at the end when a chunked whole has another digest."""
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
        raise errors.BlobCorrupt(f"file {entry.digest.hex()[:16]} does not come together from its chunks; run casrewind verify")
