"""Finds what damage affects: every checkpoint and path that needs an unreadable blob.

Checkpoints share trees, so each tree is searched once. Then only trees that lead to damage are walked.
"""

from collections.abc import Iterable
from contextlib import suppress

from .. import errors
from .._typing import NamedTuple
from ..model import directory_nodes, manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.directory_nodes import LOST, NodeList
from ..model.manifest import DIR, FILE, Entry
from ..store import packs
from ..store.reachability import Reference, references
from ..store.store import Store


class Place(NamedTuple):
    """A checkpoint's id and a path in it. The path b"" means the checkpoint as a whole."""

    checkpoint: str
    path: bytes


class _BadEntry(NamedTuple):
    """A bad or unsearched entry of a directory. `digest` is a subdirectory's tree (`is_tree`), or a bad blob that the
    entry needs. A bad node of the directory itself has the name b""."""

    name: bytes
    digest: bytes
    is_tree: bool


def places_affected(store: Store, points: Iterable[Checkpoint], bad: set[bytes]) -> dict[bytes, list[Place]]:
    """{digest: every place that needs it} for the digests in `bad`."""
    search = DamageSearch(store, bad)
    found: dict[bytes, list[Place]] = {digest: [] for digest in bad}
    for point in points:
        for digest in search.of_domain(point.domain):
            found[digest].append(Place(point.id, b""))
        for digest in search.of_transcript(point):
            found[digest].append(Place(point.id, b""))
        try:
            for digest, path in search.of_tree(point.tree):
                found[digest].append(Place(point.id, path))
        except errors.ManifestRefused:  # too many paths to list
            for digest in bad:
                found[digest] = [place for place in found[digest] if place.checkpoint != point.id] + [Place(point.id, b"")]
    return found


class DamageSearch:
    """Finds what needs any of the digests in `bad` (damaged, or to be purged).

    Damaged or missing trees and lists count as empty. With `strict`, only missing trees and lists count as empty, and
    damaged trees and lists raise StoreDamaged.
    """

    def __init__(self, store: Store, bad: set[bytes], *, strict: bool = False) -> None:
        """Reads nothing yet."""
        self._store, self._bad = store, bad
        self._damage = (errors.BlobMissing,) if strict else (errors.StoreDamaged, errors.UnsafePath)
        self._rows: dict[bytes, list[tuple[bytes, bytes]] | None] = {}
        """{tree: [(name, a bad digest or a directory that leads to one)]}; None = nothing bad below the tree."""
        self._nodes: dict[bytes, tuple[manifest.Tree, list[_BadEntry]]] = {}
        """{leaf node of a large directory: (its first and last entry, bad entries in it)}."""
        self._lists: dict[bytes, frozenset[bytes]] = {}
        self._domains: dict[bytes, frozenset[bytes]] = {}

    def of_domain(self, domain: bytes) -> frozenset[bytes]:
        """The bad digests that a domain needs."""
        if domain not in self._domains:
            needs = {domain, *(reference.digest for reference in self._references_or_none(packs.DOMAIN, domain))}
            self._domains[domain] = frozenset(needs & self._bad)
        return self._domains[domain]

    def of_transcript(self, point: Checkpoint) -> frozenset[bytes]:
        """The bad digests that a checkpoint's conversation needs."""
        return frozenset() if point.transcript is None else self.of_file(point.transcript)

    def of_file(self, entry: Entry) -> frozenset[bytes]:
        """The bad digests that a file's content needs."""
        own = frozenset({entry.digest} & self._bad)
        return own | self._bad_in_chunk_list(entry.chunks) if entry.chunks else own

    def of_tree(self, root: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Yields (bad digest, path) for everything bad in a manifest. Raises ManifestRefused for too many paths."""
        if root in self._bad:
            yield root, b""
        stack = [(b"", root)] if self._leads_to_bad(root) else []
        bound = manifest.PathLimit(self._lead_to_bad, root)
        while stack:
            directory, digest = stack.pop()
            bound.count_or_refuse(digest)
            for name, below in self._rows.get(digest) or ():
                path = paths.join(directory, name) if name else directory
                if below in self._bad:
                    yield below, path
                if name and self._rows.get(below):
                    stack.append((path, below))

    def _lead_to_bad(self, digest: bytes) -> manifest.Tree:
        """A tree of those entries alone that lead to something bad."""
        return [(name, manifest.Entry(manifest.DIR, 0, digest=below)) for name, below in self._rows.get(digest) or ()]

    def _leads_to_bad(self, root: bytes) -> bool:
        """Search every unsearched tree below `root`, the deepest first. True if `root` leads to anything bad."""
        stack = [(root, False)]
        found: dict[bytes, list[_BadEntry]] = {}
        while stack:
            digest, below_done = stack.pop()
            if digest in self._rows:
                continue
            if not below_done:
                found[digest] = self._search_directory(digest)
                stack.append((digest, True))
                stack += [(each.digest, False) for each in found[digest] if each.is_tree and each.digest not in found]
                continue
            rows = [
                (each.name, each.digest)
                for each in found.pop(digest)
                if not each.is_tree or each.digest in self._bad or self._rows.get(each.digest)
            ]
            self._rows[digest] = rows or None
        return bool(self._rows.get(root))

    def _search_directory(self, digest: bytes) -> "list[_BadEntry]":
        """The subdirectories, bad entries and bad nodes of a directory, as far as it is readable. A node that several
        directories share is read once."""
        top = self._load_node(digest)
        if isinstance(top, list):
            return self._bad_entries(top)
        found = self._bad_nodes(top)
        with suppress(*self._damage):
            for part, node in directory_nodes.nodes_below(self._load_or_remembered_ends, top):
                found += self._bad_nodes(node) if isinstance(node, NodeList) else self._nodes[part][1]
        return found

    def _bad_entries(self, rows: manifest.Tree) -> "list[_BadEntry]":
        found = []
        for name, entry in rows:
            if entry.kind == DIR:
                found.append(_BadEntry(name, entry.digest, is_tree=True))
            elif entry.kind == FILE:
                found += [_BadEntry(name, need, is_tree=False) for need in self.of_file(entry)]
        return found

    def _bad_nodes(self, node: NodeList) -> "list[_BadEntry]":
        return [_BadEntry(b"", part.digest, is_tree=False) for part in node.parts if part.digest in self._bad]

    def _load_or_remembered_ends(self, digest: bytes) -> manifest.Tree | NodeList:
        """Load a node of a large directory. From the second time on, a leaf has only its first and last entry."""
        if digest in self._nodes:
            return self._nodes[digest][0]
        node = self._load_node(digest)
        if isinstance(node, list):
            ends = node if len(node) < 2 else [node[0], node[-1]]
            self._nodes[digest] = ends, self._bad_entries(node)
        return node

    def _load_node(self, digest: bytes) -> manifest.Tree | NodeList:
        """A tree as it is stored, or LOST if it cannot be read."""
        try:
            return self._store.load_tree(digest)
        except self._damage:
            return LOST

    def _bad_in_chunk_list(self, top: bytes) -> frozenset[bytes]:
        """The bad nodes and chunks of a chunk list."""
        if top not in self._lists:
            needs, stack = {top}, [top]
            while stack:
                found = self._references_or_none(packs.CHUNK_LIST, stack.pop())
                stack += {reference.digest for reference in found if reference.kind == packs.CHUNK_LIST} - needs
                needs.update(reference.digest for reference in found)
            self._lists[top] = frozenset(needs & self._bad)
        return self._lists[top]

    def _references_or_none(self, kind: int, digest: bytes) -> list[Reference]:
        """The references in a blob of this kind; none if it is unreadable."""
        try:
            return list(references(kind, self._store.read(digest, kind)))
        except self._damage:
            return []
