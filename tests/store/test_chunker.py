"""Large files as chunks: they come together again, and what was inserted costs about what it is."""

import io
import random

import pytest

from casrewind import errors
from casrewind.model import digest as digests
from casrewind.store import chunker
from casrewind.store.chunker import ChunkRef

MB = 1 << 20


class Blobs(dict):
    def put(self, data):
        digest = digests.of(data)
        self[digest] = data
        return digest

    def load(self, digest):
        return self[digest]

    def plant(self, level, *items):
        return self.put(chunker._HEAD.pack(chunker.MAGIC, level, len(items)) + b"".join(chunker._ITEM.pack(*i) for i in items))


class Dribble(io.BytesIO):
    """A source that gives odd amounts, as a pipe or a slow disk does."""

    def readinto(self, buffer):
        return super().readinto(memoryview(buffer)[: 1 + self.tell() % 4099])


def stored(data, blobs, source=io.BytesIO):
    items = [ChunkRef(blobs.put(chunk), len(chunk)) for chunk in chunker.cut_into_chunks(source(data), len(data))]
    return items, chunker.encode_list(items, blobs.put)


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 131_072, 131_073, 3 * MB])
def test_chunks_come_together_again(size):
    data = random.Random(size).randbytes(size)
    blobs = Blobs()
    items, top = stored(data, blobs)
    assert list(chunker.chunks_of_list(blobs.load, top)) == items
    assert b"".join(blobs[item.digest] for item in items) == data
    assert all(0 < item.length <= 128 << 10 for item in items)


def test_the_chunks_do_not_depend_on_how_the_bytes_arrive():
    data = random.Random(4).randbytes(2 * MB)
    assert stored(data, Blobs())[0] == stored(data, Blobs(), Dribble)[0]


def test_one_megabyte_inserted_into_random_data_costs_about_one_megabyte():
    source = random.Random(5)
    data, inserted = source.randbytes(12 * MB), source.randbytes(MB)
    old, _ = stored(data, Blobs())
    new, _ = stored(data[: 5 * MB + 77] + inserted + data[5 * MB + 77 :], Blobs())
    added = sum(item.length for item in set(new) - set(old))
    assert MB <= added < MB + 3 * (128 << 10)


def test_a_change_in_a_long_list_rewrites_a_few_nodes_of_it():
    source = random.Random(6)
    items = [ChunkRef(source.randbytes(32), 1 + n % 9) for n in range(40_000)]
    before, after = Blobs(), Blobs()
    top = chunker.encode_list(items, before.put)
    level, _ = chunker.decode_node(before[top])
    assert level >= 2, "the list must have several levels for this test"
    assert list(chunker.chunks_of_list(before.load, top)) == items
    changed = [*items[:20_000], ChunkRef(source.randbytes(32), 3), *items[20_001:]]
    chunker.encode_list(changed, after.put)
    assert len(before) > 250
    assert len(after.keys() - before.keys()) <= 2 * (level + 1)


def test_a_list_whose_digests_never_end_a_node_still_gets_shorter_at_every_level():
    items = [ChunkRef(b"\x01" + n.to_bytes(31, "big"), 1) for n in range(5000)]
    blobs = Blobs()
    assert list(chunker.chunks_of_list(blobs.load, chunker.encode_list(items, blobs.put))) == items
    items = [ChunkRef(b"\x00" + n.to_bytes(31, "big"), 1) for n in range(5000)]
    assert list(chunker.chunks_of_list(blobs.load, chunker.encode_list(items, blobs.put))) == items


def test_a_file_of_no_bytes_has_a_list_of_no_chunks():
    blobs = Blobs()
    items, top = stored(b"", blobs)
    assert items == []
    assert list(chunker.chunks_of_list(blobs.load, top)) == []


CHUNK = ChunkRef(digests.of(b"chunk"), 5)


def hostile(blobs):
    leaf = blobs.plant(0, CHUNK)
    bomb = ChunkRef(blobs.plant(0, ChunkRef(digests.of(b"c"), 1)), 1)
    for level in range(1, 41):  # two references to the same node at every level: 2^40 chunks, were they followed
        bomb = ChunkRef(blobs.plant(level, bomb, bomb), 1)
    return {
        "a level that skips one": blobs.plant(2, ChunkRef(leaf, 5)),
        "a list under a list of the same level": blobs.plant(1, ChunkRef(blobs.plant(1, ChunkRef(leaf, 5)), 5)),
        "lengths that do not add up": blobs.plant(1, ChunkRef(leaf, 6)),
        "an item that stands for nothing": blobs.plant(0, ChunkRef(digests.of(b""), 0)),
        "an empty node below": blobs.plant(1, ChunkRef(blobs.plant(0), 5)),
        "more levels than any file needs": blobs.plant(41, ChunkRef(leaf, 5)),
        "exponential sharing": bomb.digest,
        "a tree instead of a list": blobs.put(b"CRT1\0\0\0\0\0"),
        "no bytes": blobs.put(b""),
        "a byte too many": blobs.put(blobs[leaf] + b"\0"),
        "a byte too few": blobs.put(blobs[leaf][:-1]),
        "a count that lies": blobs.put(blobs[leaf][:5] + b"\xff\xff\xff\xff" + blobs[leaf][9:]),
    }


@pytest.mark.parametrize("what", hostile(Blobs()))
def test_a_hostile_list_is_refused(what):
    blobs = Blobs()
    top = hostile(blobs)[what]
    with pytest.raises(errors.ManifestCorrupt):
        for _ in chunker.chunks_of_list(blobs.load, top):
            pass


def test_a_hashing_source_knows_what_went_through_it():
    data = random.Random(7).randbytes(300_000)
    source = chunker.HashingSource(Dribble(data))
    assert b"".join(chunker.cut_into_chunks(source, len(data))) == data
    assert (source.size, source.digest()) == (len(data), digests.of(data))
