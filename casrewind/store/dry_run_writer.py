"""Writers that write nothing: for the plan of a restore, for a comparison, and for an estimate.

The danger prevented here: a plan that differs from what the restore then does. Both scan in the same way, and only the
writer differs.
"""

from collections.abc import Collection, Iterator

from ..model import digest as digests
from ..model import manifest
from . import packs
from .reading import ReadMany, TreeCache

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a large file needs it
    from . import chunker


class DryRunWriter:
    """The interface of StoreWriter for a scan without writes: computes digests, keeps only trees, in memory."""

    def __init__(self, read: packs.ReadBlob, read_many: ReadMany = lambda _digests, _kind: ()) -> None:
        """`read` and `read_many` read blobs of the store."""
        self._read, self._read_many = read, read_many
        self.load_tree = TreeCache(lambda digest: manifest.decode_node(self.read(digest, packs.TREE)), read_many=self._read_trees)
        self._trees: dict[bytes, bytes] = {}

    def read_trees_ahead(self, digests: Collection[bytes]) -> None:
        """As StoreWriter's."""
        self.load_tree.read_ahead(digests)

    def _read_trees(self, digests: list[bytes], kind: int) -> Iterator[tuple[bytes, object]]:
        """Yield (digest, blob or error) of this writer's trees and of the store's."""
        yield from ((digest, self._trees[digest]) for digest in digests if digest in self._trees)
        yield from self._read_many([digest for digest in digests if digest not in self._trees], kind)

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
