"""Reads trees and whole files from blobs.

The danger prevented here: bytes that only look like a file's. A file of chunks is compared with its own digest, too.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise

from .. import errors
from ..model import digest as digests
from ..model import manifest
from . import packs

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a large directory needs it
    from ..model.directory_nodes import NodeList

_LOT = 200
"""Directories that are read at once."""
_HELD = 5_000
"""Entries of directories that are read ahead, about."""
_FEW_ROOTS = 8
"""Checkpoints whose trees are read at once at first."""
_MOST_AHEAD, _MOST_SHARED = 60_000, 20_000
"""Entries of the trees that are read ahead along a timeline, and decoded entries that these share, about."""


ReadMany = Callable[[list[bytes], int], Iterable[tuple[bytes, object]]]
"""Reads blobs of a kind and yields (digest, its bytes or an error) in any order. May leave blobs out."""


class TreeCache:
    """A Loader that keeps trees after loading. Its callers must not modify a tree. A digest names one tree for good, so
    nothing in it becomes out of date."""

    def __init__(self, load: manifest.Loader, most: int = 20_000, read_many: ReadMany | None = None) -> None:
        """`most`: number of entries to keep (about 8 MB): enough to restore a thousand files. `read_many`: for
        `read_ahead`."""
        self._load, self._most, self._read_many = load, most, read_many
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

    def load_differing_trees(self, one: bytes, other: bytes) -> None:
        """Read the trees in which two manifests differ, for a comparison that follows. A whole level of directories is read
        at once: a lookup in the index costs as much as the read of a small tree. What cannot be read, and what is more than
        the cache keeps, is loaded when it is asked for."""
        if self._entries > self._most // 2 and self._trees.keys().isdisjoint((one, other)):  # of others: there has to be room for these
            self._trees, self._entries = {}, 0
        pairs: set[tuple[bytes | None, bytes | None]] = {(one, other)} if one != other else set()
        while pairs and self.read_ahead({digest for pair in pairs for digest in pair if digest is not None}):
            pairs = {below for pair in pairs for below in self._pairs_below(*pair)}

    def read_ahead(self, digests: Iterable[bytes]) -> bool:
        """Read these trees at once. Returns False if the cache keeps no more. What cannot be read is loaded when it is asked for."""
        if self._read_many is not None:
            for digest, data in self._read_many([digest for digest in digests if digest not in self._trees], packs.TREE):
                if isinstance(data, bytes) and self._entries < self._most:
                    with suppress(errors.StoreDamaged, errors.UnsafePath):
                        self._trees[digest] = tree = manifest.decode_node(data)
                        self._entries += _entry_count(tree)
        return self._read_many is not None and self._entries < self._most

    def _pairs_below(self, one: bytes | None, other: bytes | None) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield the trees of each directory in two trees that is not the same in both; None where there is none."""
        before, after = self._directories_of(one), self._directories_of(other)
        for name in before.keys() | after.keys():
            pair = before.get(name), after.get(name)
            if pair[0] != pair[1]:
                yield pair

    def _directories_of(self, digest: bytes | None) -> dict[bytes, bytes]:
        """{name: digest of its tree} of the directories in a tree; empty for a tree of nodes and for one that is not kept."""
        tree = None if digest is None else self._trees.get(digest)
        return {name: entry.digest for name, entry in tree if entry.kind == manifest.DIR} if isinstance(tree, list) else {}


class TimelineTrees:
    """A Loader for comparisons along a timeline: it reads the trees of many checkpoints at once, and of their directories those
    that differ from the next checkpoint's. What trees have in common is decoded once, and is one object.
    """

    def __init__(
        self, load: manifest.Loader, read_many: Callable[[list[bytes], int], Iterable[tuple[bytes, object]]], roots: Iterable[bytes]
    ) -> None:
        """`load` loads any tree, `read_many` is a store's method. `roots`: the checkpoints' trees in the order of the
        comparisons. Reads nothing yet."""
        self._others, self._read_many = TreeCache(load), read_many
        self._roots = list(dict.fromkeys(roots))
        self._places = {root: at for at, root in enumerate(self._roots)}
        self._ahead: dict[bytes, manifest.Tree | NodeList] = {}
        self._shared: manifest.SharedRows = {}
        self._next, self._lot = 0, _FEW_ROOTS  # the first rows wait for few trees

    def __call__(self, digest: bytes) -> "manifest.Tree | NodeList":
        """Return what `load` returns, or raise its error."""
        at = self._places.get(digest, -1)
        if at >= 0 and digest not in self._ahead:
            self._lot = min(2 * self._lot, _LOT) if at == self._next else _FEW_ROOTS
            self._next = at + self._lot
            self._read_next_roots(self._roots[max(at - 1, 0) : self._next])
        tree = self._ahead.get(digest)
        return self._others(digest) if tree is None else tree

    def _read_next_roots(self, roots: list[bytes]) -> None:
        """Read these trees, and the directories in which neighbours differ, in place of those that were read before. Stops when
        they are too many."""
        self._ahead, held = {}, 0
        if len(self._shared) > _MOST_SHARED:
            self._shared = {}
        pairs, wanted = set(pairwise(roots)), roots
        while wanted:
            for digest, data in self._read_many(wanted, packs.TREE):
                if held > _MOST_AHEAD:
                    return
                if isinstance(data, bytes):
                    with suppress(errors.StoreDamaged, errors.UnsafePath):
                        self._ahead[digest] = tree = manifest.decode_node(data, self._shared)
                        held += _entry_count(tree)
            pairs = {below for pair in pairs for below in self._differing(*pair)}
            wanted = list({digest for pair in pairs for digest in pair if digest not in self._ahead})

    def _differing(self, one: bytes, other: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The directories of the same name in two trees that differ. Large trees are left out."""
        first, second = self._ahead.get(one), self._ahead.get(other)
        if isinstance(first, list) and isinstance(second, list):
            below = {name: entry.digest for name, entry in first if entry.kind == manifest.DIR}
            for name, entry in second:
                if entry.kind == manifest.DIR and below.get(name, entry.digest) != entry.digest:
                    yield below[name], entry.digest


class TreesAhead:
    """A Loader for a walk over whole trees: it reads many directories at once, because a lookup in the index costs as much
    as the read of a small one. What cannot be read ahead is loaded when it is asked for, and raises its error then."""

    def __init__(self, load: manifest.Loader, read_many: ReadMany) -> None:
        """`load` is a store's `load_tree`, and `read_many` its method of this name. Reads nothing yet."""
        self._load, self._read_many = load, read_many
        self._next: list[bytes] = []  # directories in those that were read; the last is needed first
        self._ahead: dict[bytes, manifest.Tree | NodeList] = {}
        self._held = 0  # entries of these, and one for each

    def __call__(self, digest: bytes) -> "manifest.Tree | NodeList":
        """Return what `load` returns, or raise its error."""
        if digest not in self._ahead:
            if self._held > 2 * _HELD:  # what was read twice, because it is in two places
                self._ahead, self._held = {}, 0
            self._read_below_and_beside(digest)
        tree = self._ahead.pop(digest, None)
        if tree is None:
            return self._load(digest)
        self._held -= _entry_count(tree)
        return tree

    def _read_below_and_beside(self, digest: bytes) -> None:
        """Read a directory, and those below it and beside it, until enough entries are held."""
        lot = {digest}
        while lot:
            for name, data in self._read_many(list(lot), packs.TREE):
                if isinstance(data, bytes):
                    with suppress(errors.StoreDamaged):
                        self._hold_tree(name, manifest.decode_node(data))
            if self._held >= _HELD:
                return
            lot = {one for one in self._next[-_LOT:] if one not in self._ahead}
            del self._next[-_LOT:]

    def _hold_tree(self, digest: bytes, tree: "manifest.Tree | NodeList") -> None:
        if digest not in self._ahead:
            self._ahead[digest] = tree
            self._held += _entry_count(tree)
            if isinstance(tree, list):
                self._next += [entry.digest for _, entry in reversed(tree) if entry.kind == manifest.DIR]


def _entry_count(tree: "manifest.Tree | NodeList") -> int:
    return len(tree if isinstance(tree, list) else tree.parts) + 1


def read_content(read: packs.ReadBlob, entry: manifest.Entry) -> Iterator[bytes]:
    """Yield a file's bytes in pieces. Raises BlobCorrupt at the end if a chunked file has another digest."""
    if not entry.chunks:
        yield read(entry.digest, packs.FILE)
        return
    from . import chunker

    whole = digests.Hasher()
    for item in chunker.chunks_of_list(lambda node: read(node, packs.CHUNK_LIST), entry.chunks, entry.size):
        data = read(item.digest, packs.CHUNK)
        if len(data) != item.length:
            raise errors.ManifestCorrupt("damaged chunk list: a chunk has another length", "run casrewind verify")
        whole.update(data)
        yield data
    if whole.digest() != entry.digest:
        raise errors.BlobCorrupt(f"file {entry.digest.hex()[:16]} does not match its chunks", "run casrewind verify")
