"""Small remotes of a machine with the key that would expand to gigabytes: no command takes more than 300 MB for them.

Each command runs as a process of its own, and the kernel says its peak. The remotes have 3 MB at most.
"""

import struct
import sys

import pytest

from casrewind.model import digest as digests
from casrewind.model import domain as domains
from casrewind.model import undo_history, tlv
from casrewind.remote import piece
from casrewind.remote.objects import Objects
from casrewind.remote.piece import CONTAINER, CONTENT, FIRST, PieceBuilder
from casrewind.remote.piece_names import piece_name
from casrewind.store import ledger
from support import handmade_checkpoints as handmade
from support.command import Command
from support.handmade_points import DATA, DOMAIN, GOOD, checkpoint_record, point
from support.machines import KEY, Machine, keys_of, objects_in
from support.peak_memory import MB, measured
from support.sample_start import by_turns

pytest.importorskip("obstore")
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads the process's peak from /proc"), pytest.mark.turns(3)]

MOST = 300 * MB


def chain_id(number):
    return f"{number:032x}"


def put_pieces(url, builders, chain="ab" * 16, name="liar", **end):
    """Put a chain of these pieces."""
    objects, before = Objects(url), FIRST
    for number, builder in enumerate(builders, start=1):
        object_name = piece_name(chain, number)
        data, before = builder.finish(object_name, before, bytes(16), name, **end)
        assert objects.put_new(object_name, data)


def with_blobs(url, blobs, records):
    builder = PieceBuilder(keys_of(url))
    for use, data in sorted(blobs, key=lambda one: one[0]):
        builder.add(digests.of(data), use, data)
    builder.add_records(records)
    return builder


def good(url, *records):
    return with_blobs(url, [(CONTENT, DATA), (CONTAINER, DOMAIN), (CONTAINER, GOOD)], [checkpoint_record(point(GOOD)), *records])


def many_small(kind, number, payload, first=10):
    return [(kind, first + at, payload) for at in range(number)]


def unknown_kinds(url):
    put_pieces(url, [good(url, *many_small(99, 1_000_000, b""))])


def long_unknown(url):
    put_pieces(url, [good(url), *(with_blobs(url, [], [(99, 5, b"x" * (15 << 20)), (99, 6, b"x" * (15 << 20))]) for _ in range(12))])


def checkpoints_without_end(url):
    for chain in range(2):
        records = [checkpoint_record(point(GOOD, id=f"c{chain}{at:09x}"), at) for at in range(16_000)]
        parts = [records[start : start + 4000] for start in range(0, 16_000, 4000)]
        put_pieces(url, [good(url), *(with_blobs(url, [], records) for records in parts)], chain_id(chain + 1), f"liar{chain}")


def marks_without_end(url):
    for chain in range(8):
        marks = [(ledger.PIN, at, undo_history.encode_mark(undo_history.Mark(f"c{at:09x}", ""))) for at in range(200_000)]
        parts = [marks[:100_000], marks[100_000:]]
        put_pieces(url, [good(url), *(with_blobs(url, [], records) for records in parts)], chain_id(chain + 1), f"liar{chain}")


def long_labels(url):
    made = point(GOOD)
    labels = [(ledger.LABEL, at, undo_history.encode_mark(undo_history.Mark(made.id, f"{at}" + "x" * (7 << 20)))) for at in range(40)]
    put_pieces(url, [good(url, checkpoint_record(made, 2)), *(with_blobs(url, [], labels[at : at + 4]) for at in range(0, 40, 4))])


def tables_of_zeros(url):
    """The finding: tables of millions of equal digests."""
    builders = []
    for _ in range(100):
        builder = PieceBuilder(keys_of(url))
        writer = builder._writers[CONTENT]
        writer.add(bytes(400_000))
        writer.close()
        writer.rows = bytearray(piece._FRAME.pack(len(writer.frames[0]), 400_000, 400_000, CONTENT))
        builder._digests[CONTENT] += bytes(32 * 400_000)
        builder._lengths[CONTENT] += struct.pack("<I", 1) * 400_000
        builder.add_records([checkpoint_record(point(GOOD))])
        builders.append(builder)
    put_pieces(url, builders)


def tables_of_frames(url):
    builders = []
    for _ in range(2):
        builder = good(url)
        writer = builder._writers[CONTENT]
        for _ in range(60_000):
            writer.add(b"")
            writer.close()
            builder._digests[CONTENT] += bytes(32)
            builder._lengths[CONTENT] += bytes(4)
        builders.append(builder)
    put_pieces(url, builders)


def purged_digests(url):
    objects, keys = Objects(url), keys_of(url)
    for chain in range(1, 9):
        name = piece_name(chain_id(chain), 1)
        gone = [struct.pack(">QQ", 7, at) for at in range(200_000)]
        assert objects.put_new(name, PieceBuilder(keys).finish(name, FIRST, bytes(16), "liar", b"", piece.PURGED, gone)[0])


def many_true_pieces(url):
    """Chains of pieces with tables of a true size, which are read eight at a time."""
    for chain in range(1, 5):
        rows = [[(CONTENT, b"%d %d %d" % (chain, number, at)) for at in range(500)] for number in range(30)]
        put_pieces(url, [good(url), *(with_blobs(url, blobs, []) for blobs in rows)], chain_id(chain), f"liar{chain}")


def frames_of_the_most(url):
    """Content that expands ten thousand times, in frames of the most bytes."""
    blobs = [(CONTENT, bytes((at,)) * piece.MOST[CONTENT]) for at in range(4)]
    tree = handmade.tree(*(handmade.file_row(b"f%d" % at, digests.of(data), len(data)) for at, (_, data) in enumerate(blobs)))
    put_pieces(url, [with_blobs(url, [*blobs, (CONTAINER, DOMAIN), (CONTAINER, tree)], [checkpoint_record(point(tree))])])


def domains_of_millions(url):
    empty = tlv.Fields(domains.encode(domains.Domain(False, True, 1, (), (), (), 0)), "domain")._values
    item = struct.pack("<I", 3) + b"\0\0a"
    made = []
    for number in range(3):
        values = {**empty, domains._SKIPPED: item * ((31 << 20) // len(item)), domains._MAX_SIZE: number.to_bytes(8, "little")}
        made.append(tlv.encode(values.items()))
    points = [checkpoint_record(point(GOOD, domain=digests.of(data))) for data in made]
    put_pieces(url, [with_blobs(url, [(CONTENT, DATA), (CONTAINER, GOOD), *((CONTAINER, data) for data in made)], points)])


def wide_trees(url):
    """Some hundred trees of two megabytes that one checkpoint names together."""
    row = handmade.file_row
    trees = [handmade.tree(*(row(b"%05d" % at, digests.of(DATA), number << 8) for at in range(0, 20_000))) for number in range(60)]
    top = handmade.tree(*(handmade.dir_row(b"%03d" % at, digests.of(tree)) for at, tree in enumerate(trees)))
    blobs = [(CONTENT, DATA), (CONTAINER, DOMAIN), *((CONTAINER, tree) for tree in (*trees, top))]
    put_pieces(url, [with_blobs(url, blobs, [checkpoint_record(point(top))])])


def tiny_roll_ups(url):
    """Each says that it replaces some, and has its own records."""
    objects, keys, before = Objects(url), keys_of(url), FIRST
    for number in range(600):
        name = f"{'ab' * 16}/{number * 3 + 1:010}-{number * 3 + 3:010}"
        builder = good(url)
        end = digests.of(b"%d" % number)
        data, _ = builder.finish(name, before, bytes(16), "liar", end)
        assert objects.put_new(name, data)
        before = end


REMOTES = {
    one.__name__.replace("_", " "): one
    for one in (
        unknown_kinds, long_unknown, checkpoints_without_end, marks_without_end, long_labels, tables_of_zeros, tables_of_frames, purged_digests,
        many_true_pieces, frames_of_the_most, domains_of_millions, wide_trees, tiny_roll_ups,
    )
}
COMMANDS = ("pull --newest", "pull", "clone", "clone --all", "remote verify", "remote verify --all", "remote gc -n")
QUICK, QUICK_COMMANDS = ("tables of zeros", "long labels", "frames of the most"), ("pull", "clone --all", "remote verify --all")
"""A push takes one of these remotes, and another one after a change of the product. The highest of all, on 28 November: 169 MB (frames of the most, remote verify --all)."""


@pytest.fixture
def victim(tmp_path):
    made = Machine.with_remote(tmp_path / "victim", f"file://{tmp_path}/bucket", "laptop")
    made.save({"f": b"mine"})
    made.push()
    return made


@pytest.mark.parametrize("what", [*by_turns(QUICK, 1), *(pytest.param(one, marks=pytest.mark.long) for one in REMOTES if one not in QUICK)])
def test_a_small_remote_takes_little_memory(victim, tmp_path, what, request):
    REMOTES[what](victim.url)
    size = sum(map(len, objects_in(victim.url).values()))
    command = Command(victim.root, victim.home)
    command.environment |= {"CASREWIND_HOME": victim.settings.data, "CASREWIND_REMOTE_KEY": KEY}
    peaks = {}
    for line in QUICK_COMMANDS if what in QUICK and not request.config.getoption("--run-long") else COMMANDS:
        words = line.split()
        if words[0] == "clone":
            words[1:1] = [victim.url, str(tmp_path / f"clone{len(words)}")]
        peaks[line], _ = measured(command, *words, code=None)
    for code, command_line in (("save", "save -m later"), ("list", "list --all"), ("gc", "gc")):
        peaks[code], _ = measured(command, *command_line.split())
    print(f"{what}: {size:,} bytes; " + ", ".join(f"{line} {peak.bytes / MB:.0f} MB" for line, peak in peaks.items()))
    assert size < 4 * MB
    assert max(peak.bytes for peak in peaks.values()) < MOST, peaks
