"""A checkpoint's record is read the same whichever way its fields lie."""

import random

import pytest

from casrewind import errors
from casrewind.model import checkpoint as checkpoints
from casrewind.model import tlv
from casrewind.model.checkpoint import Checkpoint, Circumstances
from casrewind.model.diff import Counts
from casrewind.model.manifest import FILE, Entry


def made(chance):
    """Any checkpoint: texts of all lengths, with and without what came later to the record."""
    texts = ["".join(chance.choices("aé€😀\udc80 \n", k=chance.choice([0, 1, 9, 200]))) for _ in range(6)]
    number = lambda: chance.choice([0, 1, -1, 2**40, 2**63 - 1, -(2**63)])  # noqa: E731
    entry = Entry(FILE, 0o600, 17, 5, chance.randbytes(32))
    return Checkpoint(
        chance.randrange(1 << 40), f"c{chance.randbytes(7).hex()}"[: chance.choice([15, 15, 15, 4, 12])], number(), chance.randbytes(16),
        chance.randbytes(chance.choice([0, 3, 300])), *texts, chance.randbytes(32), chance.randbytes(32), number(), number(),
        Counts(number(), number(), number()), number(), number(), chance.choice([b"", b"cursor"]), chance.choice([None, entry]),
        chance.choice([0, 7]), chance.choice([checkpoints.NOTHING_ELSE, Circumstances(machine="sandbox-4"), Circumstances("c1", tells_ends=False), Circumstances(meta=(("", "7"), ("é", "")))]),
    )  # fmt: skip


def test_what_is_written_is_read_with_fields_of_a_later_version_before_or_behind_it():
    chance = random.Random(5)
    later = tlv.encode([(999, b"of a later version")])
    for _ in range(300):
        point = made(chance)
        data = checkpoints.encode(point)
        assert checkpoints.decode(point.seq, data) == point
        assert checkpoints.decode(point.seq, data + later) == checkpoints.decode(point.seq, later + data) == point


def test_the_machine_of_a_pulled_checkpoint_has_its_tag():
    point = made(random.Random(7))._replace(more=Circumstances(machine="sandbox-4"))
    assert tlv.Fields(checkpoints.encode(point), "checkpoint record").text(36) == "sandbox-4"


def test_meta_has_its_tag_and_each_key_a_value():
    point = made(random.Random(7))._replace(more=Circumstances(meta=(("episode", "7"), ("step", "3"))))
    data = checkpoints.encode(point)
    assert tlv.decode_list(tlv.Fields(data, "checkpoint record").bytes_or_empty(37), "meta") == [b"episode", b"7", b"step", b"3"]
    assert checkpoints.decode(point.seq, data).meta == {"episode": "7", "step": "3"}
    odd = checkpoints.encode(point._replace(more=Circumstances()))
    for bad in (tlv.encode_list([b"episode"]), b"\1"):
        with pytest.raises(errors.ManifestCorrupt):
            checkpoints.decode(1, odd + tlv.encode([(37, bad)]))


def test_damaged_bytes_are_corrupt_or_another_checkpoint():
    chance = random.Random(6)
    found = []
    for _ in range(2000):
        data = bytearray(checkpoints.encode(made(chance)))
        at = chance.randrange(len(data))
        how = chance.randrange(3)
        if how == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            del data[at:]
        else:
            data += tlv.encode([(chance.randint(1, 25), b"\0" * 8)])
        found.append(outcome(bytes(data)))
    assert 500 < found.count("corrupt") < 1900


def outcome(data):
    try:
        return checkpoints.decode(3, data)
    except errors.ManifestCorrupt:
        return "corrupt"
