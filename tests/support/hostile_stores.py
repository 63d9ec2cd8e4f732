"""Stores of a few kilobytes that want gigabytes or hours: packs and ledger are sound, every digest is right (but for one).

`BOMBS` are {name: what makes the store}; each maker gets a Bomber and gives the checkpoint's root tree, a digest.
"""

import os
import shutil
import struct
import zlib

from blake3 import blake3

from support import handmade_checkpoints
from support.handmade_checkpoints import chunk_list, chunked_row, dir_row, file_row, node_list, tree
from support.zstd_frames import zstd

HUGE = 1500 << 20
_PIECE = bytes(1 << 20)
_ZEROS = {}


def digest(data):
    return blake3(data).digest()


def zeros(size):
    """(digest, zstd frame) of so many zeros, without having them all at once."""
    if size not in _ZEROS:
        hasher, compressor = blake3(), zstd.ZstdCompressor(1)
        compressor.set_pledged_input_size(size)
        parts = []
        for start in range(0, size, len(_PIECE)):
            piece = _PIECE[: size - start]
            hasher.update(piece)
            parts.append(compressor.compress(piece))
        _ZEROS[size] = hasher.digest(), b"".join([*parts, compressor.flush()])
    return _ZEROS[size]


def record(kind, name, raw, body, codec=1):
    head = struct.pack("<4sBBH32sII", b"CRB1", kind, codec, 0, name, raw, len(body))
    return head + struct.pack("<I", zlib.crc32(head)) + body


class Bomber:
    """Writes packs by hand into a store whose workspace is closed."""

    def __init__(self, store):
        self.store, self.records = store, []

    def put(self, data, kind=3):
        self.records.append(record(kind, digest(data), len(data), data, codec=0))
        return digest(data)

    def put_zeros(self, size, name=None, kind=3):
        real, frame = zeros(size)
        self.records.append(record(kind, name or real, size, frame))
        return name or real

    def finish(self):
        path = os.path.join(self.store, "packs", "b" * 10 + ".pack")
        with open(path, "wb") as file:
            file.write(struct.pack("<4sI", b"CRPK", 2) + b"".join(self.records))
        os.chmod(path, 0o600)
        shutil.rmtree(os.path.join(self.store, "index"), ignore_errors=True)
        return os.path.getsize(path)


def tree_of_zeros(bomber):
    return bomber.put_zeros(HUGE)


def wrong_digest(bomber):
    return bomber.put_zeros(HUGE, name=b"\x07" * 32)


def tree_below(bomber):
    return bomber.put(tree(dir_row(b"d", bomber.put_zeros(HUGE))))


def whole_file(bomber):
    return bomber.put(tree(file_row(b"f", bomber.put_zeros(HUGE, kind=1), HUGE)))


def whole_file_small_size(bomber):
    return bomber.put(tree(file_row(b"f", bomber.put_zeros(HUGE, kind=1), 5)))


def chunk(bomber):
    top = bomber.put(chunk_list((bomber.put_zeros(HUGE, kind=2), HUGE)), kind=4)
    return bomber.put(tree(chunked_row(b"f", zeros(HUGE)[0], HUGE, top)))


def chunk_node(bomber):
    return bomber.put(tree(chunked_row(b"f", digest(b"?"), 1 << 21, bomber.put_zeros(HUGE, kind=4))))


def doubled(bomber, levels=40):
    below = bomber.put(tree(file_row(b"f", bomber.put(b"x", kind=1), 1)))
    for _ in range(levels):
        below = bomber.put(tree(dir_row(b"a", below), dir_row(b"b", below)))
    return below


def wide(bomber):
    """Four levels of two hundred equal directories each: a milliard of files."""
    below = bomber.put(tree(file_row(b"f", bomber.put(b"x", kind=1), 1)))
    for _ in range(4):
        below = bomber.put(tree(*(dir_row(b"%04d" % number, below) for number in range(200))))
    return below


def shared_nodes(bomber):
    """Lists of 256 nodes on eight levels that name one and the same node each time: 256^8 entries."""
    below = bomber.put(tree(file_row(b"f", bomber.put(b"x", kind=1), 1)))
    for level in range(1, 9):
        below = bomber.put(node_list(*((b"f%03d" % number, below) for number in range(256)), level=level))
    return bomber.put(tree(dir_row(b"d", below)))


def endless_nodes(bomber, levels=5000):
    """Lists of one level that name lists of the same level, further down than any reader can follow by calls."""
    leaf = bomber.put(tree(file_row(b"f", bomber.put(b"x", kind=1), 1)))
    below = leaf
    for _ in range(levels):
        below = bomber.put(node_list((b"f", below), (b"g", leaf), level=8))
    return bomber.put(tree(dir_row(b"d", below)))


def node_of_zeros(bomber):
    leaf = bomber.put(tree(file_row(b"a", bomber.put(b"x", kind=1), 1)))
    return bomber.put(tree(dir_row(b"d", bomber.put(node_list((b"a", leaf), (b"b", bomber.put_zeros(HUGE)))))))


def doubled_damage(bomber, levels=40):
    """The same, and what is at the bottom is nowhere: whom that affects are more paths than can be named."""
    below = bomber.put(tree(file_row(b"f", digest(b"nowhere"), 7)))
    for _ in range(levels):
        below = bomber.put(tree(dir_row(b"a", below), dir_row(b"b", below)))
    return below


def tebibyte(bomber, size=1 << 40):
    length, level = 256 << 10, 0
    item = bomber.put_zeros(length, kind=2), length
    while item[1] < size:
        count = min(1024, size // item[1])
        item = bomber.put(chunk_list(*[item] * count, level=level), kind=4), item[1] * count
        level += 1
    return bomber.put(tree(chunked_row(b"f", digest(b"not known"), size, item[0])))


def tebibyte_small_size(bomber):
    """As that, and the entry says that the file has five bytes."""
    tebibyte(bomber)
    tops = [name for name in (digest(part[52:]) for part in bomber.records if part[4] == 4)]
    return bomber.put(tree(chunked_row(b"f", digest(b"not known"), 5, tops[-1])))


def endless_list(bomber):
    """Each node of a chunk list holds the next one a thousand times, twelve levels down; lengths do not add up."""
    item = bomber.put(b"x", kind=2), 1
    for level in range(12):
        item = bomber.put(chunk_list(*[item] * 1024, level=level), kind=4), 1
    return bomber.put(tree(chunked_row(b"f", digest(b"not known"), 1024, item[0])))


def deep(bomber, levels=5000):
    below = bomber.put(tree(file_row(b"f", bomber.put(b"x", kind=1), 1)))
    for _ in range(levels):
        below = bomber.put(tree(dir_row(b"d", below)))
    return below


def deep_and_doubled(bomber):
    return deep_from(bomber, doubled(bomber))


def deep_from(bomber, below, levels=3000):
    for _ in range(levels):
        below = bomber.put(tree(dir_row(b"d", below)))
    return below


BOMBS = {
    maker.__name__: maker
    for maker in (
        tree_of_zeros, wrong_digest, tree_below, whole_file, whole_file_small_size, chunk, chunk_node, doubled, wide, doubled_damage,
        shared_nodes, endless_nodes, node_of_zeros, tebibyte, tebibyte_small_size, endless_list, deep, deep_and_doubled,
    )
}  # fmt: skip


def plant(workspace, name, **fields):
    """A checkpoint whose manifest is a bomb, the newest one; gives its id and the bytes of the pack. Closes the workspace."""
    bomber = Bomber(workspace.store_path)
    root = BOMBS[name](bomber)
    point = handmade_checkpoints.Forger(workspace).publish(root, **fields)
    workspace.close()
    return point.id, bomber.finish()
