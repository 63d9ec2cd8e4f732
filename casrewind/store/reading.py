"""Reads trees and whole files from blobs.

The danger prevented here: bytes that only look like a file's. A file of chunks is compared with its own digest, too.
"""

from collections.abc import Iterator

from .. import errors
from ..model import digest as digests
from ..model import manifest
from . import packs

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a large directory needs it
    from ..model.directory_nodes import NodeList


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


def read_content(read: packs.ReadBlob, entry: manifest.Entry) -> Iterator[bytes]:
    """Yield a file's bytes in pieces. Raises BlobCorrupt at the end if a chunked file has another digest."""
    if not entry.chunks:
        yield read(entry.digest, packs.FILE)
        return
    from . import chunker

    whole = digests.Hasher()
    for item in chunker.chunks(lambda node: read(node, packs.CHUNK_LIST), entry.chunks, entry.size):
        data = read(item.digest, packs.CHUNK)
        if len(data) != item.length:
            raise errors.ManifestCorrupt("damaged chunk list: a chunk has another length", "run casrewind verify")
        whole.update(data)
        yield data
    if whole.digest() != entry.digest:
        raise errors.BlobCorrupt(f"file {entry.digest.hex()[:16]} does not match its chunks", "run casrewind verify")
