"""Content-defined chunks of large files: an insertion costs about its own size. The only importer of pyfastcdc.

A chunk list is itself cut by content into nodes of about a hundred items, in levels. So a change in a huge file
stores a few nodes again, not the whole list.

Algorithm: FastCDC (Xia et al., "The Design of Fast Content-Defined Chunking for Data Deduplication Based Storage
Systems", 2020), sizes chosen from the measurements in docs/internals/decisions/0003-chunk-sizes.md.
"""

import struct
from collections.abc import Callable, Iterator

from .. import errors
from .._typing import NamedTuple, Protocol
from ..model import digest as digests

_COARSE_FROM = 64 << 20
_FINE = (8 << 10, 32 << 10, 128 << 10)  # minimum, average, maximum bytes of a chunk
_COARSE = (16 << 10, 64 << 10, 256 << 10)

MAGIC = b"CRC1"
_HEAD = struct.Struct("<4sBI")  # magic, level (0: the items are chunks), number of items
_ITEM = struct.Struct("<32sQ")  # digest, bytes of the file in the chunk or node
_NODE_END_MASK = 0x7F  # a node ends after an item with these bits clear in its digest's first byte: 128 items on average
_MOST_ITEMS = 1024
MOST_LEVELS = 40


class ByteSource(Protocol):
    """A source of bytes: at most len(buffer) per call, 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its start. Returns the number of bytes."""


class ChunkRef(NamedTuple):
    """One chunk (or node of the list): its digest and its number of bytes in the file."""

    digest: bytes
    length: int


def cut_into_chunks(source: ByteSource, size: int) -> Iterator[bytes]:
    """Yield the chunks of a file of about `size` bytes, in order."""
    from pyfastcdc import FastCDC

    least, average, most = _COARSE if size >= _COARSE_FROM else _FINE
    cutter = FastCDC(average, min_size=least, max_size=most)
    for chunk in cutter.cut_stream(source):
        yield bytes(chunk.data)


def encode_list(items: list[ChunkRef], put: Callable[[bytes], bytes]) -> bytes:
    """Store a file's chunk list and return the digest of its top node. `put` stores the bytes of a
    node and returns its digest."""
    level = 0
    while True:
        nodes = [
            ChunkRef(put(_HEAD.pack(MAGIC, level, len(group)) + b"".join([_ITEM.pack(*i) for i in group])), _total_size(group))
            for group in _groups_for_nodes(items)
        ]
        if len(nodes) == 1:
            return nodes[0].digest
        items, level = nodes, level + 1


def _total_size(items: list[ChunkRef]) -> int:
    return sum(item.length for item in items)


def _groups_for_nodes(items: list[ChunkRef]) -> Iterator[list[ChunkRef]]:
    group: list[ChunkRef] = []
    for item in items:
        group.append(item)
        # at least two items per node, so that each level is shorter than the level below
        if len(group) > 1 and (item.digest[0] & _NODE_END_MASK == 0 or len(group) == _MOST_ITEMS):
            yield group
            group = []
    if group or not items:
        yield group


def decode_node(data: bytes) -> tuple[int, list[ChunkRef]]:
    """Returns (level, items) of a node of a chunk list. Raises ManifestCorrupt."""
    if len(data) < _HEAD.size:
        raise _damage_error("cut short")
    magic, level, count = _HEAD.unpack_from(data)
    if magic != MAGIC or level > MOST_LEVELS or len(data) != _HEAD.size + count * _ITEM.size:
        raise _damage_error("not a node")
    items = [ChunkRef(*fields) for fields in _ITEM.iter_unpack(data[_HEAD.size :])]
    if not all(item.length for item in items):
        raise _damage_error("an empty item")
    return level, items


def chunks_of_list(load: Callable[[bytes], bytes], top: bytes, size: int | None = None) -> Iterator[ChunkRef]:
    """Yield the chunks of a list, in order. `top` is the digest of its top node; `load` returns a
    node's bytes. `size`: bytes of the file."""
    level, items = decode_node(load(top))
    if size is not None and _total_size(items) != size:
        raise _damage_error("lengths that do not add up")
    stack = [(level, iter(items))]
    last: dict[int, tuple[bytes, int, list[ChunkRef]]] = {}  # for each level: runs of zeros repeat the same node
    while stack:
        level, rest = stack[-1]
        item = next(rest, None)
        if item is None:
            stack.pop()
        elif level == 0:
            yield item
        else:
            if level not in last or last[level][0] != item.digest:
                last[level] = item.digest, *decode_node(load(item.digest))
            _, below, inner = last[level]
            if below != level - 1:
                raise _damage_error("levels out of order")
            if _total_size(inner) != item.length:
                raise _damage_error("lengths that do not add up")
            stack.append((below, iter(inner)))


def _damage_error(why: str) -> errors.ManifestCorrupt:
    return errors.ManifestCorrupt(f"damaged chunk list: {why}", "run casrewind verify")


class HashingSource:
    """A source that also hashes and counts the bytes read from it."""

    __slots__ = ("_hasher", "_source", "size")

    def __init__(self, source: ByteSource) -> None:
        """Read from `source`."""
        self._source, self._hasher, self.size = source, digests.Hasher(), 0

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its start. Returns the number of bytes."""
        count = self._source.readinto(buffer)
        if count:
            self._hasher.update(buffer[:count])
            self.size += count
        return count

    def digest(self) -> bytes:
        """The digest of the bytes read so far."""
        return self._hasher.digest()
