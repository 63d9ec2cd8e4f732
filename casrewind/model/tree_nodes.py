"""The nodes of a large directory: where its entries are cut, and the lists that hold the pieces together.

The danger prevented here: one line changed among ten thousand names stores ten thousand digests anew, and digests do not
compress. The cuts follow from the names alone. So equal directories have equal nodes, however they came about, and a change
of content cuts nothing elsewhere. The byte table and the rule are in docs/format.md.

Nothing here trusts what it decodes. A list names at least two nodes, its first names go up, and levels go down by one at each
step. So a directory has fewer nodes than twice its entries.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from .. import errors
from .._typing import Any, NamedTuple
from . import digest as digests

MAGIC = b"CRN1"
MOST_LEVELS = 8
"""Levels of lists that a reader takes; `MOST_ENTRIES` need three."""
MOST_ENTRIES = 1 << 22
"""Entries of one directory, for writers and for readers."""
_HEAD = struct.Struct("<4sBI")  # magic, level (1: what it names holds entries), number of nodes


class NodeLimits(NamedTuple):
    """How many entries one node of a large directory has; the same numbers count nodes in a list. A directory with at most
    `most` entries is one node, however few it has."""

    least: int
    most: int


LIMITS = NodeLimits(64, 256)
"""docs/decisions/0036-nodes-of-a-large-directory.md says why."""


class NodeRef(NamedTuple):
    """One node in a list: the first name in it (of all that is below it) and its digest."""

    first: bytes
    digest: bytes


class NodeList(NamedTuple):
    """A list of nodes. At level 1 they hold entries, at level n they are lists of level n - 1."""

    level: int
    parts: list[NodeRef]

    def holding(self, name: bytes) -> bytes:
        """The digest of the node that a name is in, if it is in any."""
        behind = bisect_right(self.parts, name, key=lambda part: part.first)
        return self.parts[max(behind - 1, 0)].digest


Rows = list[tuple[bytes, Any]]
"""Entries with their names, sorted by these (model/manifest.py)."""
Load = Callable[[bytes], Rows | NodeList]
"""Gives the node that has a digest."""
LOST: Rows = []
"""Stands for a node that cannot be had, where a loader passes over it (by identity: no stored node of a large directory is
empty)."""


def cut(names: Sequence[bytes], limits: NodeLimits = LIMITS) -> list[int]:
    """Where sorted names are cut: the positions at which nodes begin, 0 first.

    Each node but the last ends before the name whose BLAKE3 hash is the lowest of those where it may end: so that it has at
    least `least` names, at most `most`, and the rest has at least `least`.
    """
    hashes = [digests.of(name) for name in names]
    starts = [0]
    while len(names) - starts[-1] > limits.most:
        begin = starts[-1] + limits.least
        window = hashes[begin : min(starts[-1] + limits.most, len(names) - limits.least) + 1]
        starts.append(begin + window.index(min(window)))
    return starts


def store(
    names: Sequence[bytes], put_entries: Callable[[int, int], bytes], put: Callable[[bytes], bytes], limits: NodeLimits = LIMITS
) -> bytes:
    """Store the nodes of a directory with more than `limits.most` sorted names; the digest of the top one.

    `put_entries` stores the entries from one position to before another, `put` a list's bytes; both give the digest.
    """
    starts = cut(names, limits)
    parts = [NodeRef(names[start], put_entries(start, end)) for start, end in _spans(starts, len(names))]
    level = 0
    while len(parts) > 1:
        level += 1
        starts = cut([part.first for part in parts], limits)
        parts = [
            NodeRef(parts[start].first, put(encode(NodeList(level, parts[start:end])))) for start, end in _spans(starts, len(parts))
        ]
    return parts[0].digest


def _spans(starts: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    return zip(starts, [*starts[1:], end], strict=True)


def encode(nodes: NodeList) -> bytes:
    """A list of nodes as bytes."""
    items = [bytes((len(part.first),)) + part.first + part.digest for part in nodes.parts]
    return _HEAD.pack(MAGIC, nodes.level, len(items)) + b"".join(items)


def decode(data: bytes) -> NodeList:
    """The list of nodes in these bytes. Raises ManifestCorrupt."""
    if len(data) < _HEAD.size:
        raise damage("shorter than its head")
    magic, level, count = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise damage("no tree")
    if not 1 <= level <= MOST_LEVELS:
        raise damage("a list of nodes with an impossible level")
    if not 2 <= count <= LIMITS.most:
        raise damage("a list of too many nodes, or too few")
    parts: list[NodeRef] = []
    position, last = _HEAD.size, b""
    for _ in range(count):
        middle = position + 1 + (data[position] if position < len(data) else 0)
        first, digest = data[position + 1 : middle], data[middle : middle + digests.SIZE]
        if len(digest) != digests.SIZE:
            raise damage("a list of nodes is cut short")
        if first <= last:
            raise damage("nodes out of order")
        parts.append(NodeRef(first, digest))
        position, last = middle + digests.SIZE, first
    if position != len(data):
        raise damage("bytes after the last node")
    return NodeList(level, parts)


def damage(why: str) -> errors.ManifestCorrupt:
    """The error for a tree's bytes that make no sense."""
    return errors.ManifestCorrupt(f"damaged tree: {why}; run casrewind verify")


class NodePlace(NamedTuple):
    """Where a node stands: its level (0: it holds entries), its first name, and the name that all of its names come before
    (b"": none)."""

    level: int
    first: bytes
    before: bytes


def places(nodes: NodeList, before: bytes = b"") -> Iterator[tuple[bytes, NodePlace]]:
    """(digest, place) of each node in a list whose own names come before `before`."""
    ends = [*(part.first for part in nodes.parts[1:]), before]
    for part, end in zip(nodes.parts, ends, strict=True):
        yield part.digest, NodePlace(nodes.level - 1, part.first, end)


def check(place: NodePlace, level: int, first: bytes, last: bytes) -> None:
    """Raise ManifestCorrupt for a node, of that level and with that first and last name, that is not one for the place."""
    if level != place.level:
        raise damage("levels of nodes out of order")
    if not first:
        raise damage("an empty node")
    if first != place.first or (place.before and last >= place.before):
        raise damage("a node with names that belong elsewhere")


def ends(node: Rows | NodeList) -> tuple[int, bytes, bytes]:
    """(level, first name, last name) of a node; of a list the last name is the first one of its last node."""
    if isinstance(node, NodeList):
        return node.level, node.parts[0].first, node.parts[-1].first
    return (0, node[0][0], node[-1][0]) if node else (0, b"", b"")


def below(load: Load, top: NodeList) -> Iterator[tuple[bytes, Rows | NodeList]]:
    """(digest, node) of every node below a list, in the order of their names. No recursion. Raises ManifestCorrupt, and what
    `load` raises."""
    stack, entries = list(places(top))[::-1], 0
    while stack:
        digest, place = stack.pop()
        node = load_at(load, digest, place)
        yield digest, node
        if isinstance(node, NodeList):
            stack += list(places(node, place.before))[::-1]
        else:
            entries += len(node)
        if entries + len(stack) > MOST_ENTRIES:
            raise damage("more entries than a directory can have")


def load_at(load: Load, digest: bytes, place: NodePlace) -> Rows | NodeList:
    """The node at a place. Raises ManifestCorrupt when it does not belong there, and what `load` raises."""
    node = load(digest)
    if node is not LOST:
        check(place, *ends(node))
    return node


def differing(load: Load, one: NodeList, other: NodeList) -> tuple[Rows, Rows]:
    """The entries of two large directories, without those in nodes that both have. Only nodes that differ are loaded. Raises
    as `below` does."""
    mine, theirs = _Level(one.level, dict(places(one))), _Level(other.level, dict(places(other)))
    while True:
        if mine.level == theirs.level:
            common = mine.places.keys() & theirs.places.keys()
            mine, theirs = mine.without(common), theirs.without(common)
            if mine.level == 1:
                return mine.rows(load), theirs.rows(load)
        level = max(mine.level, theirs.level)
        mine, theirs = mine.down_from(level, load), theirs.down_from(level, load)


class _Level(NamedTuple):
    """The nodes {digest: place} that the lists of one level of a directory name."""

    level: int
    places: dict[bytes, NodePlace]

    def without(self, digests: set[bytes]) -> "_Level":
        """All but some nodes."""
        return _Level(self.level, {digest: place for digest, place in self.places.items() if digest not in digests})

    def down_from(self, level: int, load: Load) -> "_Level":
        """The level below, if this one is `level`."""
        if level != self.level:
            return self
        found: dict[bytes, NodePlace] = {}
        for digest, place in self.places.items():
            node = load_at(load, digest, place)
            if isinstance(node, NodeList):
                found.update(places(node, place.before))
        return _Level(level - 1, found)

    def rows(self, load: Load) -> Rows:
        """The entries in all nodes; those of a level 1."""
        found: Rows = []
        for digest, place in self.places.items():
            node = load_at(load, digest, place)
            if not isinstance(node, NodeList):
                found += node
        return found
