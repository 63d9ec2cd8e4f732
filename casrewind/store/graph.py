"""What names what in a store, as numbers: every tree, chunk list, domain and plan is read once, and nothing else is.

A blob has one number. What is in it has another: a container, which names the blob itself and whatever it holds. A file
may hold the very bytes of a tree, and is none.
"""

from array import array
from collections.abc import Callable, Iterator

from .. import errors
from ..model import digest as digests
from ..model.manifest import Entry
from ..model.shares import NODE
from . import packs
from .reach import Reader
from .references import HOLDS, Reference, of_file, references

_NAME = 32
"""An edge: the number of the name in a tree (0: none) above these bits, the number of what is named in them."""
_BATCH = 1000


class Graph:
    """Everything that was asked for, and what that names, however far down."""

    def __init__(self, read: Reader, report: Callable[[int], None] | None = None) -> None:
        """`read` gives blobs; `report` is told how many have a number."""
        self._read, self._report = read, report
        self._numbers: dict[bytes, int] = {}
        self._names: dict[bytes, int] = {b"": 0}
        self._pending: dict[int, list[bytes]] = {}
        self.edges: dict[int, array[int]] = {}
        """{container: its edges}; the first one leads to its own blob."""
        self.trees: set[int] = set()
        """The containers that are directories, or nodes of large ones."""
        self.missing: dict[bytes, errors.CasrewindError] = {}
        """Why blobs cannot be had, or make no sense."""

    def tree(self, digest: bytes) -> int:
        """The number of a directory."""
        return self._container(packs.TREE, digest)

    def domain(self, digest: bytes) -> int:
        """The number of a domain."""
        return self._container(packs.DOMAIN, digest)

    def plan(self, digest: bytes) -> int:
        """The number of a plan."""
        return self._container(packs.PLAN, digest)

    def file(self, entry: Entry) -> int:
        """The number of a file's content."""
        return self._node(of_file(entry))

    def blob(self, digest: bytes) -> int:
        """The number of a blob, whatever it holds."""
        return self._numbers.setdefault(digest, len(self._numbers))

    def follow(self) -> None:
        """Read whatever has got a number and was not read yet, and what that names."""
        while self._pending:
            kind, waiting = next(iter(self._pending.items()))
            batch, self._pending[kind] = waiting[-_BATCH:], waiting[:-_BATCH]
            if not self._pending[kind]:
                del self._pending[kind]
            for digest, data in self._read(batch, kind):
                found = [self.blob(digest)]
                if isinstance(data, bytes):
                    try:
                        found += self._named_in(kind, data)
                    except (errors.StoreDamaged, errors.UnsafePath) as error:
                        self.missing[digest] = error
                else:
                    self.missing[digest] = data
                self.edges[self._container(kind, digest)] = array("Q", dict.fromkeys(found))
            if self._report is not None:
                self._report(len(self._numbers))

    def directory(self, tree: int) -> Iterator[int]:
        """The edges with names of a directory, whatever nodes they are in."""
        seen, pending = {tree}, [tree]
        while pending:
            for edge in self.edges[pending.pop()]:
                node = node_of(edge)
                if name_of(edge):
                    yield edge
                elif node in self.trees and node not in seen:
                    seen.add(node)
                    pending.append(node)

    def blobs(self) -> Iterator[bytes]:
        """The digests of all blobs."""
        return (key for key in self._numbers if len(key) == digests.SIZE)

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(self._numbers)

    def names(self) -> list[bytes]:
        """The names in all trees, by their numbers."""
        return list(self._names)

    def _container(self, kind: int, digest: bytes) -> int:
        key = bytes((kind,)) + digest
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._pending.setdefault(kind, []).append(digest)
            if kind == packs.TREE:
                self.trees.add(number)
        return number

    def _named_in(self, kind: int, data: bytes) -> list[int]:
        names, found = self._names, []
        for reference in references(kind, data):
            node = self._node(reference)
            found.append(names.setdefault(reference.name, len(names)) << _NAME | node)
        return found

    def _node(self, reference: Reference) -> int:
        if reference.kind in HOLDS:
            return self._container(reference.kind, reference.digest)
        return self.blob(reference.digest)


def name_of(edge: int) -> int:
    """The number of the name in an edge, 0 for none."""
    return edge >> _NAME


def node_of(edge: int) -> int:
    """The number of what an edge leads to."""
    return edge & NODE
