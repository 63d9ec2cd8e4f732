"""Pieces: what a push puts together, a reader takes apart; what no push made, it refuses in words."""

import os
import random
import struct
import sys

import casrewind
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind.model import digest as digests
from casrewind.remote import piece, seal
from casrewind.remote.piece import CONTAINER, CONTENT, PieceBuilder, PieceReader
from casrewind.remote.piece_errors import PieceDamaged, PieceNewer, PieceOfNewerKey
from casrewind.store import ledger, packs
from support import handmade_pieces as handmade
from support.peak_memory import MB, measured_program

MASTER = bytes(range(32))
KEYS = seal.Keys(MASTER, handmade.IDENTITY)
NAME = "0123456789abcdef0123456789abcdef/0000000001-0000000001"
OTHER = "0123456789abcdef0123456789abcdef/0000000002-0000000002"
PUSH = b"p" * 16


def built(blobs=(), records=(), name=NAME, before=piece.FIRST, machine="laptop", keys=KEYS):
    """`blobs` are (use, data)."""
    builder = PieceBuilder(keys)
    for use, data in blobs:
        builder.add(digests.of(data), use, data)
    builder.add_records(records)
    return builder.finish(name, before, PUSH, machine)


def reader_of(data, name=NAME, keys=KEYS, asked=None):
    def read(start, end):
        assert 0 <= start < end <= len(data)
        if asked is not None:
            asked.append((start, end))
        return data[start:end]

    return PieceReader(keys, name, len(data), read)


def all_of(reader):
    """Everything that a piece holds."""
    blobs = [*reader.table.blobs]
    found = {(digest, use): data for digest, use, data in reader.blobs({blob.digest for blob in blobs})}
    assert found.keys() == {(blob.digest, blob.use) for blob in blobs} and len(reader.table.blobs) == len(blobs)
    for number, frame in enumerate(reader.table.frames):
        assert len(reader.frame(number)) == frame.plain
    return found, reader.records()


def refused(data, name=NAME, keys=KEYS, error=PieceDamaged):
    """The words that refuse a piece, at the latest when everything in it is read."""
    with pytest.raises(error) as why:
        reader = reader_of(data, name, keys)
        reader.check_padding()
        all_of(reader)
    assert (type(why.value) is error or (data[4:8] != b"\1\0\0\0" and isinstance(why.value, PieceOfNewerKey))) and name in str(why.value)
    return str(why.value)


SMALL = [(CONTENT, b"hello"), (CONTAINER, b"hello"), (CONTENT, b""), (CONTENT, b"world" * 100)]
RECORDS = [(1, 7, b"a checkpoint"), (2, 1 << 60, b"")]


def test_a_piece_gives_back_what_was_put_in():
    data, mac = built(SMALL, RECORDS, before=b"b" * 32)
    reader = reader_of(data)
    blobs, records = all_of(reader)
    assert blobs == {(digests.of(data), use): data for use, data in SMALL} and records == RECORDS
    assert reader.mac == mac and reader.table.before == b"b" * 32 and reader.table.push == PUSH
    assert (reader.table.machine, reader.table.version) == ("laptop", casrewind.__version__)
    assert [blob.use for blob in reader.table.blobs] == [CONTENT, CONTENT, CONTENT, CONTAINER] and reader.table.records == 2
    for word in (b"hello", b"world", b"laptop", b"checkpoint", digests.of(b"hello")):
        assert word not in data


def test_the_document_alone_reads_a_piece():
    data, _ = built(SMALL, RECORDS)
    fields, rows, plain = handmade.read_piece(MASTER, NAME, data)
    assert [(row[1], row[2], row[3]) for row in rows] == [(505, 3, 0), (5, 1, 1), (38, 0, 2)]
    assert plain[:2] == [b"hello" + b"world" * 100, b"hello"] and fields[6] == b"laptop"
    assert fields[2] == b"".join(digests.of(data) for data in (b"hello", b"", b"world" * 100, b"hello"))


def test_an_empty_piece_is_a_piece():
    data, _ = built()
    assert all_of(reader_of(data)) == ({}, []) and reader_of(data).table.records == -1


BLOBS = st.lists(st.tuples(st.sampled_from((CONTENT, CONTAINER)), st.binary(max_size=200), st.integers(1, 3000)), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(BLOBS, st.lists(st.tuples(st.integers(0, 255), st.integers(0, 2**64 - 1), st.binary(max_size=100)), max_size=8), st.integers(1, 4))
def test_any_blobs_and_records_come_back_and_give_the_same_bytes_again(parts, records, frames):
    blobs = list(dict.fromkeys((use, data * times) for use, data, times in parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece, "_FULL", {use: frames * 1000 for use in piece._FULL})  # several frames of each use
        data, mac = built(blobs, records)
        assert built(blobs, records) == (data, mac)
        assert all_of(reader_of(data)) == ({(digests.of(data), use): data for use, data in blobs}, records)
        assert built(blobs, records, machine="desktop")[1] != mac


def test_frames_have_their_sizes():
    some = random.Random(1)
    blobs = [(CONTENT, some.randbytes(300 << 10)) for _ in range(7)]
    blobs += [(CONTENT, bytes(3 << 20)), (CONTENT, b"after it"), (CONTAINER, bytes(9 << 20))]
    blobs += [(CONTAINER, some.randbytes(1000) + bytes(2 << 20)) for _ in range(5)]
    records = [(1, n, bytes(5 << 20)) for n in range(2)] + [(1, 3, bytes(ledger.MAX_PAYLOAD))]
    data, _ = built(blobs, records)
    table = reader_of(data).table
    shown = [(frame.plain >> 10, sum(blob.frame == n for blob in table.blobs)) for n, frame in enumerate(table.frames)]
    assert shown == [(900, 3), (900, 3), (300, 1), (3072, 1), (0, 1), (9216, 1), (6146, 3), (4097, 2)] + [(5120, 0), (5120, 0), (16384, 0)]
    assert sum(frame.sealed for frame in table.frames) < len(data) and all(frame.sealed == frame.stored + 16 for frame in table.frames)
    assert all_of(reader_of(data))[1] == records


def test_trees_that_are_nearly_equal_are_compressed_together():
    tree = random.Random(2).randbytes(20_000)
    data, _ = built([(CONTAINER, tree[:n] + b"edit" + tree[n:]) for n in range(0, 2000, 20)])
    assert len(data) < 2 * len(tree)


def test_the_table_is_small():
    some = random.Random(3)
    data, _ = built([(CONTENT, some.randbytes(some.randrange(200, 3000))) for _ in range(7000)])
    (length,) = struct.unpack("<I", data[-8:-4])
    assert length <= 36 * 7000 + 256


def test_few_ranges_are_asked_for():
    some = random.Random(4)
    blobs = [(CONTENT, some.randbytes(900 << 10)) for _ in range(10)]  # each a frame of its own
    data, _ = built(blobs)
    digest = [digests.of(data) for _, data in blobs]

    def asked(*numbers):
        ranges = []
        reader = reader_of(data, asked=ranges)
        assert ranges.pop(0) == (len(data) - piece.TAIL, len(data)), "one request for the table"
        assert {digest for digest, _, _ in reader.blobs([digest[n] for n in numbers])} == {digest[n] for n in numbers}
        return [(start // (900 << 10), round((end - start) / (900 << 10))) for start, end in ranges]

    assert asked() == []
    assert asked(3) == [(3, 1)]
    assert asked(1, 2, 3) == [(1, 3)] == asked(1, 3), "a frame between two others is cheaper than a request"
    assert asked(0, 4, 5) == [(0, 1), (4, 2)]
    assert asked(*range(10)) == [(0, 10)]


def test_one_request_reads_no_more_than_it_may():
    data, _ = built([(CONTENT, random.Random(n).randbytes(1 << 20)) for n in range(20)])
    ranges = []
    all_of(reader_of(data, asked=ranges))
    assert max(end - start for start, end in ranges) <= 16 << 20


def test_a_small_piece_is_one_request():
    ranges = []
    data, _ = built(SMALL, RECORDS)
    all_of(reader_of(data, asked=ranges))
    assert ranges == [(0, len(data))]


def test_a_long_table_is_two_requests():
    ranges = []
    data, _ = built([(CONTENT, b"%d" % n) for n in range(4000)])
    reader_of(data, asked=ranges)
    assert len(ranges) == 2 and ranges[1][1] == ranges[0][0]


# what storage can do to a piece


@pytest.mark.parametrize("parts", [(SMALL, RECORDS), ()], ids=["small", "empty"])
def test_every_flipped_byte_is_refused(parts):
    data, _ = built(*parts)
    all_of(reader_of(data))
    for n in range(len(data)):
        for bit in (1, 0x80):
            changed = data[:n] + bytes([data[n] ^ bit]) + data[n + 1 :]
            with pytest.raises(PieceDamaged):
                all_of(reader_of(changed))


def test_a_flipped_byte_of_a_long_piece_is_refused():
    data, _ = built([(CONTENT, random.Random(n).randbytes(700 << 10)) for n in range(3)], RECORDS)
    all_of(reader_of(data))
    some = random.Random(5)
    for n in [0, 1, 2, 4, 5, len(data) - 41, *(some.randrange(len(data)) for _ in range(40))]:
        changed = data[:n] + bytes([data[n] ^ 0x40]) + data[n + 1 :]
        refused(changed)


def test_every_cut_and_every_longer_piece_is_refused():
    data, _ = built(SMALL, RECORDS)
    for n in range(len(data)):
        refused(data[:n])
        if n + 4 < len(data):  # what has not even the mark of a piece is no piece of ours
            refused(data[n + 1 :])
    refused(data + b"\0")
    refused(b"\0" + data)
    refused(data + data)
    refused(data[:100] + data[101:])


def test_a_piece_under_another_name_or_key_is_refused():
    data, _ = built(SMALL, RECORDS)
    assert "the key does not open it" in refused(data, name=OTHER)
    assert "the key does not open it" in refused(data, keys=seal.Keys(bytes(32), handmade.IDENTITY))
    assert "the key does not open it" in refused(data, keys=seal.Keys(MASTER, b"another remote.."))
    all_of(reader_of(data))


def test_parts_of_two_pieces_do_not_make_one():
    one, _ = built([(CONTENT, b"x" * 40), (CONTAINER, b"y" * 40)])
    two, _ = built([(CONTENT, b"X" * 40), (CONTAINER, b"Y" * 40)])
    for n in (33, 80, 200):
        refused(two[:n] + one[n:])
    refused(one[:-40] + two[-40:])
    for n in (40, 80):
        refused(one[:n] + two[n:])
    rows = reader_of(one).table.frames
    first, second = 8 + rows[0].sealed, 8 + rows[0].sealed + rows[1].sealed
    refused(one[:8] + one[first:second] + one[8:first] + one[second:])  # its own frames, exchanged


def test_storage_that_answers_with_other_lengths_is_refused():
    data, _ = built([(CONTENT, os.urandom(200 << 10))])
    for answer in (lambda start, end: data[start : end - 1], lambda start, end: data[start : end + 1], lambda start, end: b"", lambda start, end: data):
        with pytest.raises(PieceDamaged, match="it is cut"):
            reader = PieceReader(KEYS, NAME, len(data), answer)
            reader.frame(0)
    for size in (len(data) + 1, len(data) - 1, 1 << 40):
        with pytest.raises(PieceDamaged):
            PieceReader(KEYS, NAME, size, lambda start, end: data[-(end - start) :])


def test_a_table_that_claims_gigabytes_is_refused_before_it_is_read():
    asked = []

    def read(start, end):
        asked.append((start, end))
        return bytes(piece.TAIL - 40) + bytes(32) + struct.pack("<I", 0xFFFFFFFF) + b"CRR2"

    with pytest.raises(PieceDamaged, match="longer than it may be"):
        PieceReader(KEYS, NAME, 1 << 33, read)
    assert len(asked) == 1


@pytest.mark.parametrize("magic", [b"CRR3", b"CRR9"])
def test_a_later_version_says_to_upgrade(magic):
    data = handmade.piece_of(MASTER, NAME, [], b"no table of version 2", magic=magic)
    assert refused(data, error=PieceNewer).endswith("was written by a newer casrewind; upgrade casrewind")


@pytest.mark.parametrize("number", [0, 2, 0xFFFFFFFF])
@pytest.mark.parametrize("size", [5, 100_000])
def test_a_piece_of_another_key_says_to_ask_for_it_and_is_no_damage(number, size):
    """Also if the seal is that of the other key, and if the beginning is not among the first bytes that are read."""
    frame = handmade.compressed(random.Random(1).randbytes(size))
    for master in (MASTER, bytes(32)):
        table = handmade.table_of([(len(frame), size, 1, CONTENT)], DIGEST, (size,))
        data = handmade.piece_of(master, NAME, [frame], table, key_number=number)
        assert refused(data, error=PieceOfNewerKey).endswith("is sealed with a newer key; ask for that key")


def test_the_size_of_a_piece_is_a_step_and_no_more_than_is_needed():
    """Of 64 known files of 2 to 60 KB, pushed alone, the size names one for certain only if no other has the same step."""
    some, sizes = random.Random(9), {}
    for _ in range(64):
        length = some.randrange(2000, 60_000)
        data, _ = built([(CONTENT, some.randbytes(length))])
        assert len(data) % 4096 == 0 and length < len(data) < length + 4096 + 1000
        sizes.setdefault(len(data), []).append(length)
    named = sum(len(found) == 1 for found in sizes.values())
    print(f"{named} of 64 files are named by the size of their piece")
    assert named <= 3
    for length in (70_000, 200_000, 3_000_000):
        made = {len(built([(CONTENT, some.randbytes(length + more))])[0]) for more in range(0, length // 50, length // 500)}
        assert len(made) <= 2 and max(made) < 1.13 * length


@pytest.mark.parametrize("padding", [0, 15, 4096, 100_000])
def test_another_padding_than_the_least_is_refused(padding):
    assert "names other bytes than it has" in refused(handmade.piece_of(MASTER, NAME, [HELLO], handmade.table_of([ROW], DIGEST, (5,)), padding=padding))


def test_the_end_of_a_chain_says_why_and_what_went():
    for end, gone in ((1, {b"a" * 16, b"b" * 16}), (2, ()), (3, ())):
        data, _ = PieceBuilder(KEYS).finish(NAME, piece.FIRST, PUSH, "laptop", end=end, gone=gone)
        reader = reader_of(data)
        assert reader.is_end and not reader.is_replaced and (reader.table.end, reader.table.gone) == (end, frozenset(gone))
    assert not reader_of(built()[0]).is_end
    refused(lie([ROW], more=[(9, b"\1"), (10, bytes(15))]))


def test_a_piece_that_is_sealed_again_under_another_name_is_the_same(monkeypatch):
    for blobs in (SMALL, [(CONTENT, os.urandom(90_000)), (CONTAINER, b"tree" * 30)]):
        data, mac = built(blobs, RECORDS)
        moved = piece.reseal(KEYS, data, NAME, OTHER)
        assert len(moved) == len(data) and reader_of(moved, OTHER).mac == mac and all_of(reader_of(moved, OTHER)) == all_of(reader_of(data))
        refused(moved, NAME)


def test_a_later_field_is_skipped():
    data = handmade.piece_of(MASTER, NAME, [], handmade.table_of([], more=[(900, b"later")]))
    assert all_of(reader_of(data)) == ({}, [])


# what a holder of the key can do: everything is sealed as it should be

HELLO = handmade.compressed(b"hello")
DIGEST = digests.of(b"hello")
ROW = (len(HELLO), 5, 1, CONTENT)


def lie(rows, stored=(HELLO,), digest=DIGEST, lengths=(5,), **more):
    return handmade.piece_of(MASTER, NAME, stored, handmade.table_of(rows, digest, lengths, **more))


def test_the_true_table_is_read():
    assert all_of(reader_of(lie([ROW]))) == ({(DIGEST, CONTENT): b"hello"}, [])
    assert all_of(reader_of(lie([(ROW[0], 5, 2, CONTENT)], digest=DIGEST * 2, lengths=(5, 0))))[0] == {(DIGEST, CONTENT): b""}


FALSE_ROWS = {
    "longer in the piece": [(len(HELLO) + 1, 5, 1, CONTENT)],
    "shorter in the piece": [(len(HELLO) - 1, 5, 1, CONTENT)],
    "far beyond the end": [(0xFFFFFFFF, 5, 1, CONTENT)],
    "more plain bytes": [(len(HELLO), 6, 1, CONTENT)],
    "fewer plain bytes": [(len(HELLO), 4, 1, CONTENT)],
    "no plain bytes": [(len(HELLO), 0, 1, CONTENT)],
    "no blobs": [(len(HELLO), 5, 0, CONTENT)],
    "two blobs": [(len(HELLO), 5, 2, CONTENT)],
    "four billion blobs": [(len(HELLO), 5, 0xFFFFFFFF, CONTENT)],
    "no frames": [],
    "the frame twice": [ROW, ROW],
    "a use that is not known": [(len(HELLO), 5, 1, 3)],
}


@pytest.mark.parametrize("rows", FALSE_ROWS.values(), ids=FALSE_ROWS)
def test_a_false_row_of_a_frame_is_refused(rows):
    refused(lie(rows))


def test_false_lengths_of_blobs_are_refused():
    for digest, lengths in ((DIGEST, (6,)), (DIGEST, (4,)), (DIGEST, ()), (b"", (5,)), (DIGEST[:-1], (5,)), (DIGEST * 2, (5, 0)), (DIGEST, (5, 0))):
        refused(lie([ROW], digest=digest, lengths=lengths))
    rows = [(ROW[0], 5, 2, CONTENT)]
    for lengths in ((5, 1), (0xFFFFFFFF, 6), (0xFFFFFFFB, 10), (4, 0)):
        refused(lie(rows, digest=DIGEST * 2, lengths=lengths))
    refused(lie([(ROW[0], 5, 7, CONTENT)], digest=DIGEST * 7, lengths=(5, 0, 0, 0, 0, 0, 0)))  # more blobs than bytes
    empty = handmade.compressed(b"")
    all_of(reader_of(lie([(len(empty), 0, 1, CONTENT)], stored=(empty,), lengths=(0,))))
    refused(lie([(len(empty), 0, 0, CONTENT)], stored=(empty,), digest=b"", lengths=()))


def test_a_long_frame_has_one_blob():
    frame = handmade.compressed(bytes(3 << 20))
    for count, lengths in ((1, (3 << 20,)), (2, (2 << 20, 1 << 20))):
        data = lie([(len(frame), 3 << 20, count, CONTENT)], stored=(frame,), digest=DIGEST * count, lengths=lengths)
        if count == 1:
            all_of(reader_of(data))
        else:
            assert "no push makes" in refused(data)


def test_more_frames_than_a_piece_may_have_are_refused(monkeypatch):
    monkeypatch.setattr(piece, "MOST_FRAMES", 2)
    for count in (2, 3):
        data = lie([ROW] * count, stored=(HELLO,) * count, digest=DIGEST * count, lengths=(5,) * count)
        all_of(reader_of(data)) if count == 2 else refused(data)


def test_uses_out_of_order_are_refused():
    rows = [(len(HELLO), 5, 1, CONTAINER), ROW]
    refused(lie(rows, stored=(HELLO, HELLO), digest=DIGEST * 2, lengths=(5, 5)))
    all_of(reader_of(lie(rows[::-1], stored=(HELLO, HELLO), digest=DIGEST * 2, lengths=(5, 5))))


@pytest.mark.parametrize("tag", [1, 4, 5])
def test_a_table_without_a_needed_field_is_refused(tag):
    refused(lie([ROW], without=(tag,)))


def test_tables_that_are_no_tables_are_refused():
    refused(lie([ROW], before=bytes(31)))
    refused(lie([ROW], push=bytes(17)))
    refused(lie([ROW], more=[(1, b"")]))
    for name in (b"a\nb", b"\x1b[31m", b"a" * 300, b"\xff", "\u202e".encode()):
        refused(lie([ROW], machine=name))
        refused(lie([ROW], version=name))
    refused(handmade.piece_of(MASTER, NAME, [], b"\1"))
    refused(handmade.piece_of(MASTER, NAME, [], handmade.fields_of([(1, b"\0" * 12)])))
    refused(handmade.piece_of(MASTER, NAME, [], b"no frame of zstd", plain_table=True))


def expanding(size, claimed):
    """A frame of zstd that has `size` zeros and declares `claimed`."""
    frame = bytearray(handmade.compressed(bytes(size)))
    assert frame[4] & 0xE0 == 0xA0, "one segment, its size in four bytes"
    frame[5:9] = struct.pack("<I", claimed)
    return bytes(frame)


def test_a_frame_that_expands_is_refused():
    size, plain = 1 << 20, digests.of(bytes(1 << 20))
    honest = expanding(size, size)
    all_of(reader_of(lie([(len(honest), size, 1, CONTENT)], [honest], plain, (size,))))
    for claimed in (size - 1, size + 1, 0xFFFFFFFF):
        frame = expanding(size, claimed)
        for said in (size, claimed):
            refused(lie([(len(frame), said, 1, CONTENT)], [frame], plain, (said,)))
    junk = honest + b"more"
    refused(lie([(len(junk), size, 1, CONTENT)], [junk], plain, (size,)))
    refused(lie([(len(honest), 10, 1, CONTENT)], [honest], plain, (10,)))


@pytest.fixture
def little_memory():
    """64 MB more than this process has."""
    resource = pytest.importorskip("resource")
    if sys.platform != "linux":
        pytest.skip("limits the address space")
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + 64 * MB, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def test_no_more_memory_is_used_than_is_allowed(little_memory):
    """A table, a frame and a window that would need gigabytes."""
    with pytest.raises(MemoryError):
        bytes(1 << 30)
    window = b"\x28\xb5\x2f\xfd" + bytes([0x80, 0xA8]) + struct.pack("<I", 5) + b"\x29\0\0hello"  # a window of 2 GiB for 5 bytes
    table = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 0xFFFFFFF0) + b"\x02\0\0\0"
    pieces = [
        handmade.piece_of(MASTER, NAME, [], table, plain_table=True),
        lie([(len(table), 0xFFFFFFF0, 1, CONTENT)], [table], DIGEST, (0xFFFFFFF0,)),
        lie([(len(table), 5, 1, CONTENT)], [table]),
        lie([(len(window), 5, 1, CONTENT)], [window], digest=DIGEST[::-1]),
    ]
    for data in pieces[:3]:
        assert "declares" in refused(data) or "no push makes" in refused(data)
    assert all_of(reader_of(pieces[3]))[0] == {(DIGEST[::-1], CONTENT): b"hello"}, "it needs no window"


@pytest.mark.parametrize("use", [CONTENT, CONTAINER])
def test_a_blob_beyond_the_limit_of_its_use_is_refused(use):
    most = {CONTENT: max(packs.MOST[kind] for kind in (packs.FILE, packs.CHUNK, packs.RULES)), CONTAINER: 32 << 20}[use]
    for size, words in ((most + 1, "no push makes"), (most, "declares")):
        assert words in refused(lie([(len(HELLO), size, 1, use)], digest=DIGEST, lengths=(size,)))
    with pytest.raises(piece.errors.RemoteError, match="longer than a piece may have"):
        PieceBuilder(KEYS).add(DIGEST, use, Long(most + 1))


class Long(bytes):
    """Bytes that say that they are many."""

    def __new__(cls, length):
        made = super().__new__(cls)
        made.length = length
        return made

    def __len__(self):
        return self.length


def records_lie(*frames):
    stored = [handmade.compressed(frame) for frame in frames]
    return handmade.piece_of(MASTER, NAME, stored, handmade.table_of([(len(s), len(f), 0, 2) for s, f in zip(stored, frames, strict=True)]))


def test_false_records_are_refused():
    def record(length, payload):
        return struct.pack("<BQI", 1, 2, length) + payload

    assert reader_of(records_lie(record(2, b"ab") + record(0, b""), record(1, b"c"))).records() == [(1, 2, b"ab"), (1, 2, b""), (1, 2, b"c")]
    for frame in (record(3, b"ab"), record(1, b"ab"), record(0xFFFFFFFF, b"ab"), b"\1", record(2, b"ab")[:12], record(0, b"") + b"\0"):
        assert "record" in refused(records_lie(frame))
    assert "no push makes" in refused(records_lie(record(ledger.MAX_PAYLOAD + 1, bytes(ledger.MAX_PAYLOAD + 1))))
    one = record(0, b"")
    row = (len(handmade.compressed(one)), len(one), 1, 2)
    assert "no push makes" in refused(lie([row], stored=(handmade.compressed(one),), lengths=(len(one),)))  # a blob in it
    longest = bytes(ledger.MAX_PAYLOAD)
    assert reader_of(records_lie(record(len(longest), longest))).records() == [(1, 2, longest)]


def test_records_beyond_the_limit_of_a_piece_are_refused(monkeypatch):
    monkeypatch.setattr(piece, "MOST_RECORDS", 40)
    built((), [(1, 2, bytes(27))])
    with pytest.raises(piece.errors.RemoteError, match="more records than a piece may have"):
        built((), [(1, 2, bytes(20)), (1, 3, bytes(1))])
    frame = struct.pack("<BQI", 1, 2, 20) + bytes(20)
    assert "too many" in refused(records_lie(frame, frame))


def test_a_name_that_no_reader_takes_is_not_written():
    with pytest.raises(piece.errors.RemoteError, match="is not a name for a machine"):
        built(machine="a\nb")


def test_changed_and_sealed_again_a_piece_gives_only_what_it_says_or_words():
    """A fuzz by a holder of the key: bytes of the table and of the frames change, and all is sealed again."""
    some = random.Random(6)
    stored = [HELLO, handmade.compressed(b"a tree"), handmade.compressed(struct.pack("<BQI", 1, 2, 3) + b"abc")]
    rows = [ROW, (len(stored[1]), 6, 1, CONTAINER), (len(stored[2]), 16, 0, 2)]
    table = handmade.table_of(rows, DIGEST + digests.of(b"a tree"), (5, 6))
    read = 0
    for _ in range(3000):
        parts = [bytearray(part) for part in (*stored, table)]
        for _ in range(some.randrange(3)):
            part = some.choice(parts)
            at = some.randrange(len(part))
            action = some.randrange(4)
            if action == 0:
                part[at] ^= 1 << some.randrange(8)
            elif action == 1:
                part[at : at + 4] = struct.pack("<I", some.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, some.randrange(1 << 32))))
            elif action == 2:
                del part[at : at + some.randrange(1, 9)]
            else:
                part[at:at] = some.randbytes(some.randrange(1, 9))
        data = handmade.piece_of(MASTER, NAME, [bytes(part) for part in parts[:-1]], bytes(parts[-1]))
        try:
            reader = reader_of(data)
            found = [*reader.blobs({blob.digest for blob in reader.table.blobs})]
            assert sum(len(blob) for _, _, blob in found) == sum(frame.plain for frame, row in zip(reader.table.frames, reader.table.blobs._frames, strict=True) if row[0] < 2)
            reader.records()
            read += 1
        except PieceDamaged:
            continue
    assert 500 < read < 2900


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's peak from /proc")
def test_building_and_reading_a_full_piece_needs_little_memory():
    """The whole process, with what Python and the libraries take."""
    code = """if True:
        import random
        from casrewind.model import digest
        from casrewind.remote import piece, seal
        keys = seal.Keys(bytes(32), bytes(16))
        builder, some = piece.PieceBuilder(keys), random.Random(1)
        while builder.size < 16 << 20:
            data = some.randbytes(some.randrange(200, 60000))
            builder.add(digest.of(data), some.randrange(8) == 0, data)
        del data
        made, mac = builder.finish("n", piece.FIRST, bytes(16), "m")
        del builder
        reader = piece.PieceReader(keys, "n", len(made), lambda start, end: made[start:end])
        print(sum(len(data) for _, _, data in reader.blobs({blob.digest for blob in reader.table.blobs})))
    """
    peak, shown = measured_program([sys.executable, "-c", code], env={"PYTHONPATH": os.getcwd()})
    assert int(shown) > 15 << 20 and peak.bytes < 90 * MB
