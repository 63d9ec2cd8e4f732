"""The stat cache's records: what goes in comes out, and garbage is no record."""

import random

import pytest

from casrewind.model import manifest
from casrewind.model.stamp import Stamp
from casrewind.worktree import statcache
from casrewind.worktree.statcache import DIRECTORY, OTHER, Record

TREE = manifest.encode_tree(
    [
        (b"d", manifest.dir_entry(0o755, bytes(32))),
        (b"f\xff\n", manifest.file_entry(0o644, 5, 1, b"\x01" * 32)),
        (b"l", manifest.link_entry(b"x")),
    ]
)


def record(**fields):
    made = Record(
        stamp=Stamp(4096, -5, 1 << 62, (1 << 64) - 1, 0o40755),
        rules=b"\x02" * 32,
        tree=b"\x03" * 32,
        tree_bytes=TREE,
        rule_files=5,
        files=1,
        size=5,
        ignored=7,
        names=[b"d", b"f\xff\n", b"l"],
        kinds=bytes([DIRECTORY, OTHER, OTHER]),
        stamps=[(0, 0, 0, 0, 0), (5, 1, 2, 3, 0o100644), (1, 2, 3, 4, 0o120777)],
        skipped=[(b"fifo", "special file"), (b"big \n", "too large")],
    )
    return made._replace(**fields)


EMPTY = record(names=[], kinds=b"", stamps=[], skipped=[], tree_bytes=manifest.encode_tree(()))


@pytest.mark.parametrize(
    "made", [record(), EMPTY, record(skipped=[]), record(names=[b"x"], kinds=b"\0", stamps=[(1, 1, 1, 1, 1)])]
)
def test_what_goes_in_comes_out(made):
    assert statcache.decode(statcache.encode(made)) == made


def test_nothing_is_no_record():
    assert statcache.decode(None) is None
    assert statcache.decode(b"") is None


def test_every_cut_is_no_record():
    data = statcache.encode(record())
    for length in range(len(data)):
        assert statcache.decode(data[:length]) is None, length
    assert statcache.decode(data + b"x") is None


def test_another_version_is_no_record():
    data = statcache.encode(record())
    for version in (0, 1, 2, 4, 255):
        assert statcache.decode(bytes([version]) + data[1:]) is None


def test_noise_is_no_record_and_raises_nothing():
    noise = random.Random(5)
    for length in (*range(1, 300), 1000, 5000):
        assert statcache.decode(noise.randbytes(length)) is None


def test_lengths_that_lie_are_no_record():
    """A garbled count or length field: no record, or one of the right shape, but no exception."""
    data = bytearray(statcache.encode(record()))
    for position in range(statcache._HEAD.size):
        for value in (0, 1, 0x7F, 0xFF):
            garbled = bytes(data[:position]) + bytes([value]) + bytes(data[position + 1 :])
            found = statcache.decode(garbled)
            assert found is None or len(found.names) == len(found.kinds) == len(found.stamps)
