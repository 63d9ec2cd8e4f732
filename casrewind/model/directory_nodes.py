"""The nodes of a large directory: where its entries are cut, and the lists of nodes.

The danger prevented here: one changed line among ten thousand names stores ten thousand digests again, and digests do
not compress. The cuts depend on the names alone. So equal directories have equal nodes, whatever their history, and a
change of content leaves other nodes unchanged. The byte table and the rule are in docs/internals/format.md.

Decoding trusts nothing. A list names at least two nodes, their first names ascend, and each step down lowers the
level by one. So a directory has fewer nodes than twice its entries.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from .. import errors
from .._typing import Any, NamedTuple
from . import digest as digests

MAGIC = b"CRN1"
MOST_LEVELS = 8
"""Maximum levels of lists that a reader accepts; `MOST_ENTRIES` need three."""
MOST_ENTRIES = 1 << 22
"""Maximum entries of one directory, for writers and readers."""
_HEAD = struct.Struct("<4sBI")  # magic, level (1: its nodes hold entries), number of nodes


class NodeLimits(NamedTuple):
    """Minimum and maximum entries of a node, and nodes of a list. A directory of at most `most` entries is one node."""

    least: int
    most: int


LIMITS = NodeLimits(64, 256)
"""Reasons: docs/internals/decisions/0036-large-directories.md."""


class NodeRef(NamedTuple):
    """One node in a list: the first name at or below it, and its digest."""

    first: bytes
    digest: bytes


class NodeList(NamedTuple):
    """A list of nodes. At level 1 the nodes hold entries; at level n they are lists of level n - 1."""

    level: int
    parts: list[NodeRef]

    def digest_of_node_with(self, name: bytes) -> bytes:
        """The digest of the node that contains a name, if any node does."""
        behind = bisect_right(self.parts, name, key=lambda part: part.first)
        return self.parts[max(behind - 1, 0)].digest


Rows = list[tuple[bytes, Any]]
"""Entries with their names, sorted by name. What an entry is, only model/manifest.py knows, which imports this module."""
Load = Callable[[bytes], Rows | NodeList]
"""Loads a node by its digest."""
LOST: Rows = []
"""Marks a lost node that a loader skips. It is recognised by identity: no stored node of a large directory is empty."""


def node_starts(names: Sequence[bytes], limits: NodeLimits = LIMITS) -> list[int]:
    """The positions in sorted names at which nodes begin, 0 first. Each node but the last ends before the name with
    the lowest BLAKE3 hash within the allowed range. The range leaves a node of `least` to `most` names, and at least
    `least` names after it."""
    hashes = [digests.of(name) for name in names]
    starts = [0]
    while len(names) - starts[-1] > limits.most:
        begin = starts[-1] + limits.least
        window = hashes[begin : min(starts[-1] + limits.most, len(names) - limits.least) + 1]
        starts.append(begin + window.index(min(window)))
    return starts


def store_nodes(
    names: Sequence[bytes], put_entries: Callable[[int, int], bytes], put: Callable[[bytes], bytes], limits: NodeLimits = LIMITS
) -> bytes:
    """Store the nodes of a directory with more than `limits.most` sorted names. Returns the digest of the top node.
    `put_entries` stores the entries of a half-open range of positions, `put` the bytes of a list; both return the
    digest."""
    starts = node_starts(names, limits)
    parts = [NodeRef(names[start], put_entries(start, end)) for start, end in _spans(starts, len(names))]
    level = 0
    while len(parts) > 1:
        level += 1
        starts = node_starts([part.first for part in parts], limits)
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
        raise damage_error("shorter than its head")
    magic, level, count = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise damage_error("not a tree")
    if not 1 <= level <= MOST_LEVELS:
        raise damage_error("a list of nodes with an impossible level")
    if not 2 <= count <= LIMITS.most:
        raise damage_error("a list of too many nodes, or too few")
    parts: list[NodeRef] = []
    position, last = _HEAD.size, b""
    for _ in range(count):
        middle = position + 1 + (data[position] if position < len(data) else 0)
        first, digest = data[position + 1 : middle], data[middle : middle + digests.SIZE]
        if len(digest) != digests.SIZE:
            raise damage_error("a list of nodes is cut short")
        if first <= last:
            raise damage_error("nodes out of order")
        parts.append(NodeRef(first, digest))
        position, last = middle + digests.SIZE, first
    if position != len(data):
        raise damage_error("bytes after the last node")
    return NodeList(level, parts)


def damage_error(why: str) -> errors.ManifestCorrupt:
    """The error for invalid bytes of a tree."""
    return errors.ManifestCorrupt(f"damaged tree: {why}", "run casrewind verify")


class NodePlace(NamedTuple):
    """The expected properties of a node: its level (0 = entries), its first name, and an upper bound of its names.
    All names come before `before`; b"" = no bound."""

    level: int
    first: bytes
    before: bytes


def node_places(nodes: NodeList, before: bytes = b"") -> Iterator[tuple[bytes, NodePlace]]:
    """Yield (digest, place) of each node in a list with names before `before`."""
    ends = [*(part.first for part in nodes.parts[1:]), before]
    for part, end in zip(nodes.parts, ends, strict=True):
        yield part.digest, NodePlace(nodes.level - 1, part.first, end)


def raise_unless_node_fits(place: NodePlace, level: int, first: bytes, last: bytes) -> None:
    """Raise ManifestCorrupt if a node with this level, first and last name does not fit the place."""
    if level != place.level:
        raise damage_error("levels of nodes out of order")
    if not first:
        raise damage_error("an empty node")
    if first != place.first or (place.before and last >= place.before):
        raise damage_error("a node with names that belong elsewhere")


def first_and_last(node: Rows | NodeList) -> tuple[int, bytes, bytes]:
    """Returns (level, first name, last name) of a node. A list's last name is the first name of its last node."""
    if isinstance(node, NodeList):
        return node.level, node.parts[0].first, node.parts[-1].first
    return (0, node[0][0], node[-1][0]) if node else (0, b"", b"")


def entries_below(load: Load, top: NodeList) -> Rows:
    """All entries below a list of nodes."""
    return [row for _, part in nodes_below(load, top) if isinstance(part, list) for row in part]


def nodes_below(load: Load, top: NodeList) -> Iterator[tuple[bytes, Rows | NodeList]]:
    """Yield (digest, node) of every node below a list, in the order of their names, without recursion. Raises
    ManifestCorrupt, and the errors of `load`."""
    stack, entries = list(node_places(top))[::-1], 0
    while stack:
        digest, place = stack.pop()
        node = load_at(load, digest, place)
        yield digest, node
        if isinstance(node, NodeList):
            stack += list(node_places(node, place.before))[::-1]
        else:
            entries += len(node)
        if entries + len(stack) > MOST_ENTRIES:
            raise damage_error("more entries than a directory can have")


def load_at(load: Load, digest: bytes, place: NodePlace) -> Rows | NodeList:
    """Load the node at a place. Raises ManifestCorrupt if it does not fit, and the errors of `load`."""
    node = load(digest)
    if node is not LOST:
        raise_unless_node_fits(place, *first_and_last(node))
    return node


def differing_rows(load: Load, one: NodeList, other: NodeList) -> tuple[Rows, Rows]:
    """The entries of two large directories, without their common nodes, which are not loaded. Raises as `entries_below`."""
    mine, theirs = _Level(one.level, dict(node_places(one))), _Level(other.level, dict(node_places(other)))
    while True:
        if mine.level == theirs.level:
            common = mine.places.keys() & theirs.places.keys()
            mine, theirs = mine.without(common), theirs.without(common)
            if mine.level == 1:
                return mine.rows(load), theirs.rows(load)
        level = max(mine.level, theirs.level)
        mine, theirs = mine.down_from(level, load), theirs.down_from(level, load)


class _Level(NamedTuple):
    """The nodes {digest: place} named by a directory's lists of one level."""

    level: int
    places: dict[bytes, NodePlace]

    def without(self, digests: set[bytes]) -> "_Level":
        return _Level(self.level, {digest: place for digest, place in self.places.items() if digest not in digests})

    def down_from(self, level: int, load: Load) -> "_Level":
        """The level below, or this level if it is not `level`."""
        if level != self.level:
            return self
        found: dict[bytes, NodePlace] = {}
        for digest, place in self.places.items():
            node = load_at(load, digest, place)
            if isinstance(node, NodeList):
                found.update(node_places(node, place.before))
        return _Level(level - 1, found)

    def rows(self, load: Load) -> Rows:
        """The entries in all nodes. Only for level 1."""
        found: Rows = []
        for digest, place in self.places.items():
            node = load_at(load, digest, place)
            if not isinstance(node, NodeList):
                found += node
        return found
