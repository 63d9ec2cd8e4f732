"""Caches for one restore: trees are kept after reading, file contents are read ahead.

Trees and contents are addressed and verified by digest, so a cached value is never out of date.
"""

from collections.abc import Iterable, Iterator, Sequence

from .. import errors
from ..model.manifest import FILE, Entry, Loader, Tree
from ..model.plan import Action, content_differs
from ..store import packs
from ..store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:  # a restore of small directories does not need it
    from ..model.tree_nodes import NodeList

_ENTRIES = 20_000  # of cached trees, about 8 MB: enough to restore a thousand files
_FILES, _BYTES = 100, 4 << 20  # limits of one read-ahead: number of files, total size


class Trees:
    """Loads trees and caches recent ones. Callers must not modify a returned tree."""

    def __init__(self, load: Loader) -> None:
        """`load` reads a tree."""
        self._load = load
        self._trees: dict[bytes, Tree | NodeList] = {}
        self._entries = 0

    def __call__(self, digest: bytes) -> "Tree | NodeList":
        """Return what `load` returns, or raise its error."""
        tree = self._trees.get(digest)
        if tree is None:
            tree = self._load(digest)
            entries = len(tree if isinstance(tree, list) else tree.parts) + 1
            self._entries += entries
            if self._entries > _ENTRIES:
                self._trees, self._entries = {}, entries
            self._trees[digest] = tree
        return tree


class Contents:
    """The contents of the files that some actions write. Any order works; the actions' order is cheap."""

    def __init__(self, store: Store, actions: Sequence[Action]) -> None:
        """Reads nothing yet."""
        self._store = store
        self._upcoming = _whole(actions)
        self._ahead: dict[bytes, bytes] = {}

    def __call__(self, entry: Entry) -> Iterable[bytes]:
        """A file's bytes, piece by piece, verified; also checks the size. Raises as Store.content."""
        if entry.chunks:
            return self._store.content(entry)
        if entry.digest not in self._ahead:
            self._read_ahead(entry)
        data = self._ahead.get(entry.digest)
        if data is None:
            data = self._store.read(entry.digest, packs.FILE)
        if len(data) != entry.size:
            raise errors.ManifestCorrupt(f"damaged tree: blob {entry.digest.hex()[:16]} has another size; run casrewind verify")
        return (data,)

    def _read_ahead(self, entry: Entry) -> None:
        """Read this file and the next ones: one index lookup for a hundred files."""
        wanted, size = {entry.digest}, entry.size
        for other in self._upcoming:
            wanted.add(other.digest)
            size += other.size
            if len(wanted) >= _FILES or size >= _BYTES:
                break
        found = self._store.read_many(list(wanted), packs.FILE)
        self._ahead = {digest: data for digest, data in found if isinstance(data, bytes)}


def _whole(actions: Sequence[Action]) -> Iterator[Entry]:
    for action in actions:
        if action.after is not None and action.after.kind == FILE and not action.after.chunks and content_differs(action):
            yield action.after
