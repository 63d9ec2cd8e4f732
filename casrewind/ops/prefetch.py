"""What one restore reads of the store several times, or will read soon: trees that are remembered, contents that are read ahead.

Trees and contents are named by their digests and checked against them, so what is held cannot be out of date.
"""

from collections.abc import Iterable, Iterator, Sequence

from .. import errors
from ..model.manifest import FILE, Entry, Loader, Tree
from ..model.plan import Action, content_differs
from ..store import packs
from ..store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:  # a restore of small directories has no need of it
    from ..model.tree_nodes import NodeList

_ENTRIES = 20_000  # of trees that are remembered, some 8 MB: those of a restore of a thousand files
_FILES, _BYTES = 100, 4 << 20  # as many files are read at once, unless they get too large together


class Trees:
    """Loads trees, and remembers those that it loaded lately. What it gives is nobody's to change."""

    def __init__(self, load: Loader) -> None:
        """`load` reads a tree."""
        self._load = load
        self._trees: dict[bytes, Tree | NodeList] = {}
        self._entries = 0

    def __call__(self, digest: bytes) -> "Tree | NodeList":
        """What `load` gives, or raises."""
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
    """The bytes of the files that some actions write, in whatever order they are asked for; cheap in theirs."""

    def __init__(self, store: Store, actions: Sequence[Action]) -> None:
        """Nothing is read yet."""
        self._store = store
        self._coming = _whole(actions)
        self._ahead: dict[bytes, bytes] = {}

    def __call__(self, entry: Entry) -> Iterable[bytes]:
        """A file's bytes, piece by piece, checked; also that they are as many as the entry says. Raises as Store.content."""
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
        """Read this file and the next ones: one look at the index for a hundred of them."""
        wanted, size = {entry.digest}, entry.size
        for other in self._coming:
            wanted.add(other.digest)
            size += other.size
            if len(wanted) >= _FILES or size >= _BYTES:
                break
        found = self._store.read_many(list(wanted), packs.FILE)
        self._ahead = {digest: data for digest, data in found if isinstance(data, bytes)}


def _whole(actions: Sequence[Action]) -> Iterator[Entry]:
    """The files that are written from one blob, in order."""
    for action in actions:
        if action.after is not None and action.after.kind == FILE and not action.after.chunks and content_differs(action):
            yield action.after
