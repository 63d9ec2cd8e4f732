"""References between blobs, for every kind of blob in one place.

The danger prevented here: gc does not follow a kind of blob that du, verify and purge follow. Then gc removes the
blobs that it names as garbage.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator

from .. import errors
from .._typing import NamedTuple
from ..model import digest as digests
from ..model import domain as domains
from ..model import manifest
from ..model import plan as plans
from ..model.manifest import DIR, FILE, LARGE_FILE, Entry
from ..model.size_by_owner import NODE
from . import chunker, packs
from .packs import CHUNK_LIST, DOMAIN, PLAN, TREE

HOLDS = frozenset((packs.TREE, packs.CHUNK_LIST, packs.DOMAIN, packs.PLAN))
"""The kinds of blobs that name others. All other kinds are content."""
_IN_TREES = {FILE: packs.FILE, LARGE_FILE: packs.CHUNK_LIST, DIR: packs.TREE}


class Reference(NamedTuple):
    """A reference to a blob. `kind` is its use (a kind of store/packs.py), `name` its name in a tree, `size` the
    bytes of the content it represents (0: unknown). A tree without a name is a node of a large directory."""

    kind: int
    digest: bytes
    name: bytes = b""
    size: int = 0


def references(kind: int, data: bytes) -> Iterator[Reference]:
    """Yield the references in a blob of this kind; a blob may be named repeatedly. Raises StoreDamaged, UnsafePath."""
    if kind == packs.TREE:
        for name, below, digest, size in manifest.references(data):
            yield Reference(_IN_TREES[below], digest, name, size)
    elif kind == packs.CHUNK_LIST:
        level, items = chunker.decode_node(data)
        for item in items:
            yield Reference(packs.CHUNK_LIST if level else packs.CHUNK, item.digest, b"", item.length)
    elif kind == packs.DOMAIN:
        for digest in domains.rule_files(data):
            yield Reference(packs.RULES, digest)
    elif kind == packs.PLAN:
        for action in plans.decode(data):
            for entry in (action.before, action.after):
                if entry is not None and entry.kind == FILE:
                    yield reference_of_file(entry)
    elif kind not in (packs.FILE, packs.CHUNK, packs.RULES):
        raise ValueError(f"no kind of blob: {kind}")


def reference_of_file(entry: Entry) -> Reference:
    """The content of a file: one blob, or the top node of its chunk list."""
    if entry.chunks:
        return Reference(packs.CHUNK_LIST, entry.chunks, b"", entry.size)
    return Reference(packs.FILE, entry.digest, b"", entry.size)


Reader = Callable[[list[bytes], int], Iterator[tuple[bytes, bytes | errors.StoreDamaged]]]
"""Yields each requested blob once, read for a use of this kind (store/packs.py), or the error of reading it."""
_BATCH = 1000  # blobs that are read together


class Marker:
    """Collects the digests reachable from the roots added so far."""

    def __init__(
        self, read: Reader, report: Callable[[int], None] | None = None, *, skip: Callable[[int, bytes], bool] | None = None
    ) -> None:
        """`read` loads blobs; `report` receives the number of marked digests. A blob for whose use `skip` is true is not
        marked, nor what it names. With `skip`, `content` has each blob that names no others, with its use, and `marked` has not."""
        self._read, self._report, self._skip = read, report, skip
        self.marked: set[bytes] = set()
        self.content: dict[bytes, int] = {}
        self.names: dict[bytes, bytes] | None = None
        """If it is set: the names in a tree of what is added to `content` from then on."""
        self.followed: set[tuple[int, bytes]] = set()
        """The marked blobs that name others, with their use: a file may hold the very bytes of a tree."""
        self.missing: dict[bytes, errors.StoreDamaged] = {}

    def mark_with_references(
        self,
        trees: Iterable[bytes],
        domain_digests: Iterable[bytes],
        plan_digests: Iterable[bytes],
        files: Iterable[Entry] = (),
    ) -> None:
        """Mark these trees, domains, plans and the content of files, with everything they reference, at any depth."""
        pending = {DOMAIN: [*domain_digests], PLAN: [*plan_digests], TREE: [*trees], CHUNK_LIST: list[bytes]()}
        self._mark_and_queue(map(reference_of_file, files), pending)
        while kind := next((kind for kind, waiting in pending.items() if waiting), 0):
            batch, pending[kind] = pending[kind][-_BATCH:], pending[kind][:-_BATCH]
            for data in self._mark_and_read_unmarked(kind, batch):
                self._mark_and_queue(references(kind, data), pending)

    def _mark_and_queue(self, found: Iterable[Reference], pending: dict[int, list[bytes]]) -> None:
        """Mark content; blobs that name others are marked when they are followed."""
        for reference in found:
            if reference.kind in HOLDS:
                pending[reference.kind].append(reference.digest)
                continue
            if self._skip is not None:
                if self._skip(reference.kind, reference.digest):
                    continue
                if self.names is not None and reference.digest not in self.content:
                    self.names[reference.digest] = reference.name
                self.content[reference.digest] = reference.kind
            else:
                self.marked.add(reference.digest)

    def newly_marked(self, add: Callable[[], None]) -> set[bytes]:
        """The digests newly marked by the callback `add`, which calls the method `add`."""
        before, self.marked = self.marked, set()
        try:
            add()
        finally:
            new = self.marked - before
            before |= new
            self.marked = before
        return new

    def _mark_and_read_unmarked(self, kind: int, digests: Iterable[bytes]) -> Iterator[bytes]:
        wanted = [digest for digest in dict.fromkeys(digests) if (kind, digest) not in self.followed]
        if self._skip is not None:
            wanted = [digest for digest in wanted if not self._skip(kind, digest)]
        self.followed.update((kind, digest) for digest in wanted)
        self.marked.update(wanted)
        if self._report is not None and wanted:
            self._report(len(self.marked) + len(self.content))
        for digest, data in self._read(wanted, kind):
            if isinstance(data, bytes):
                yield data
            else:
                self.missing[digest] = data


_NAME = 32
"""An edge: the number of the name in a tree (0: no name) above these bits, the number of the node in them."""


class ReferenceGraph:
    """The requested blobs and everything they reference, at any depth, as a graph of numbers."""

    def __init__(self, read: Reader, report: Callable[[int], None] | None = None) -> None:
        """`read` loads blobs; `report` receives the number of numbered nodes."""
        self._read, self._report = read, report
        self._numbers: dict[bytes, int] = {}
        self._names: dict[bytes, int] = {b"": 0}
        self._pending: dict[int, list[bytes]] = {}
        self.edges: dict[int, array[int]] = {}
        """{container: its edges}; the first edge leads to the container's own blob."""
        self.trees: set[int] = set()
        """The containers that are directories, or nodes of large ones."""
        self.missing: dict[bytes, errors.CasrewindError] = {}
        """The errors of blobs that cannot be read or decoded."""

    def number_of_tree(self, digest: bytes) -> int:
        """The number of a directory."""
        return self._container_number(packs.TREE, digest)

    def number_of_domain(self, digest: bytes) -> int:
        """The number of a domain."""
        return self._container_number(packs.DOMAIN, digest)

    def number_of_plan(self, digest: bytes) -> int:
        """The number of a plan."""
        return self._container_number(packs.PLAN, digest)

    def number_of_content(self, entry: Entry) -> int:
        """The number of a file's content."""
        return self._number_of(reference_of_file(entry))

    def number_of_blob(self, digest: bytes) -> int:
        """The number of a blob of any kind."""
        return self._numbers.setdefault(digest, len(self._numbers))

    def read_containers(self) -> None:
        """Read all numbered containers that were not read yet, and their references."""
        while self._pending:
            kind, waiting = next(iter(self._pending.items()))
            batch, self._pending[kind] = waiting[-_BATCH:], waiting[:-_BATCH]
            if not self._pending[kind]:
                del self._pending[kind]
            for digest, data in self._read(batch, kind):
                found = [self.number_of_blob(digest)]
                if isinstance(data, bytes):
                    try:
                        found += self._numbers_of_references_in(kind, data)
                    except (errors.StoreDamaged, errors.UnsafePath) as error:
                        self.missing[digest] = error
                else:
                    self.missing[digest] = data
                self.edges[self._container_number(kind, digest)] = array("Q", dict.fromkeys(found))
            if self._report is not None:
                self._report(len(self._numbers))

    def named_edges_of_directory(self, tree: int) -> Iterator[int]:
        """Yield the named edges of a directory, from all of its nodes."""
        seen, pending = {tree}, [tree]
        while pending:
            for edge in self.edges[pending.pop()]:
                node = node_number_of_edge(edge)
                if name_of(edge):
                    yield edge
                elif node in self.trees and node not in seen:
                    seen.add(node)
                    pending.append(node)

    def blobs(self) -> Iterator[bytes]:
        """The digests of all blobs."""
        return (key for key in self._numbers if len(key) == digests.SIZE)

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self._numbers)

    def names(self) -> list[bytes]:
        """The names in all trees; the index is the name's number."""
        return list(self._names)

    def _container_number(self, kind: int, digest: bytes) -> int:
        """The number of a tree or list. If it is new, its content is read later."""
        key = bytes((kind,)) + digest
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._pending.setdefault(kind, []).append(digest)
            if kind == packs.TREE:
                self.trees.add(number)
        return number

    def _numbers_of_references_in(self, kind: int, data: bytes) -> list[int]:
        names, found = self._names, []
        for reference in references(kind, data):
            node = self._number_of(reference)
            found.append(names.setdefault(reference.name, len(names)) << _NAME | node)
        return found

    def _number_of(self, reference: Reference) -> int:
        if reference.kind in HOLDS:
            return self._container_number(reference.kind, reference.digest)
        return self.number_of_blob(reference.digest)


def name_of(edge: int) -> int:
    """The number of the name in an edge, 0 = no name."""
    return edge >> _NAME


def node_number_of_edge(edge: int) -> int:
    """The number of the node that an edge leads to."""
    return edge & NODE
