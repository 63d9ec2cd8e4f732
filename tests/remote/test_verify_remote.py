"""`remote verify`: what it says of a sound remote, and that each damage is found and named, by whom it can be found."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from casrewind.model import digest as digests
from casrewind.remote import collect
from casrewind.remote.piece_names import piece_name
from casrewind.remote.objects import Objects
from casrewind.remote.piece import CONTAINER, CONTENT, FIRST, PieceBuilder
from casrewind.remote.seal import Keys, identity_of_head, lock_key
from support import handmade_pieces
from support.command_in_process import InProcess
from support.handmade_points import DATA, DOMAIN, GOOD, checkpoint_record, point
from support.machines import objects_in
from support.output_schema import schema_faults
from support.trees import plant

KEY, MASTER = "crk1-" + "6b" * 32, b"k" * 32
OTHER = "e" * 32


class At(InProcess):
    """The command on a machine of its own."""

    def __init__(self, place, name, url):
        root, home = place / name / "project", place / name / "home"
        for path in (root, home):
            path.mkdir(parents=True)
        super().__init__(root, home, CASREWIND_REMOTE_KEY=KEY)
        self("remote", "add", url, "--machine", name, code=0)

    def work(self, number, **options):
        plant(self.root, {"f": b"%d" % number, "random": os.urandom(100_000)})
        self("save", code=0)
        self("push", code=0)


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def remote(tmp_path, url):
    """The directory of a remote with three pushes of sandbox-4, and one of laptop."""
    made = At(tmp_path, "sandbox-4", url)
    for number in range(3):
        made.work(number)
    at = At(tmp_path, "laptop", url)
    at.work(1)
    at("pull", code=0)
    return at, Path(url.removeprefix("file://"))


def pieces(place, machine_pieces=3):
    """The files of the chain with so many pieces, in order."""
    return next(sorted(chain.iterdir()) for chain in place.iterdir() if chain.is_dir() and len(list(chain.iterdir())) == machine_pieces)


def change(path, work):
    data = work(path.read_bytes())
    path.chmod(0o600)
    path.write_bytes(data)


def flipped(at):
    return lambda data: data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :] if at >= 0 else flipped(len(data) + at)(data)


def test_a_sound_remote_is_said_to_be_sound_machine_by_machine(remote, url):
    at, place = remote
    lines = at("remote", "verify", code=0).out.splitlines()
    assert lines[0].startswith(f"sound: 2 machines on {url} (tables and records read; --all reads each blob, ")
    assert [line.split(",")[0] for line in lines[1:]] == ["  laptop (this machine): 1 checkpoint", "  sandbox-4: 3 checkpoints"]
    assert " blobs in 3 pieces, " in lines[2] and ", pushed " in lines[2]
    assert re.search(r"; last verify \d+ \w+ ago;", at("status", code=0).out)
    found = json.loads(at("remote", "verify", "--all", "--json", code=0).out)
    assert schema_faults(found, "remote") == [] and found["ok"] and found["everything"] and found["problems"] == []
    assert {chain["machine"]: (chain["own"], chain["pieces"], chain["checkpoints"]) for chain in found["chains"]} == {
        "sandbox-4": (False, 3, 3), "laptop": (True, 1, 1),
    }  # fmt: skip
    whole = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    assert whole <= found["size"] <= 1.2 * whole + 4096, "each byte is read, and nearly all of them once"
    assert found["requests"] <= 2 + 2 * 4


DAMAGES = {
    "the table": (flipped(-50), "piece 2 of sandbox-4 is damaged or cut"),
    "the MAC": (flipped(-20), "piece 2 of sandbox-4 is damaged or cut"),
    "the end": (lambda data: data[:-1], "piece 2 of sandbox-4 is damaged or cut"),
    "half of it": (lambda data: data[: len(data) // 2], "piece 2 of sandbox-4 is damaged or cut"),
    "all of it": (lambda data: b"", "piece 2 of sandbox-4 is damaged or cut"),
    "a later format": (
        lambda data: b"CRR3" + data[4:-4] + b"CRR3", "piece 2 of sandbox-4 was written by a newer casrewind: upgrade casrewind",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damaged_piece_is_named_and_the_others_are_checked(remote, damage):
    at, place = remote
    work, words = DAMAGES[damage]
    change(pieces(place)[1], work)
    for more in ((), ("--all",)):
        found = at("remote", "verify", *more, code=3)
        assert found.out.startswith("DAMAGED: 1 of 2 machines on ") and "  sandbox-4: 2 checkpoints, " in found.out
        assert found.err.startswith(f"casrewind: {words}") and "casrewind: piece 1 " not in found.err and "casrewind: piece 3 " not in found.err
    status = at("status", code=0).out
    assert " found 1 problem;" in status or " found 2 problems;" in status
    assert "! casrewind remote verify names what is damaged" in status
    assert at.json("status")["remote"]["damage"] in (1, 2)


def test_content_is_read_with_all_only(remote):
    at, place = remote
    change(pieces(place)[1], flipped(50_000))
    assert "--all reads each blob" in at("remote", "verify", code=0).out
    found = at("remote", "verify", "--all", code=3)
    assert found.err.splitlines()[0].startswith("casrewind: piece 2 of sandbox-4 is damaged or cut (the piece ")
    assert found.err.splitlines()[1] == "casrewind: 1 checkpoint of sandbox-4 cannot be restored: content is missing"
    problems = json.loads(at("remote", "verify", "--all", "--json", code=3).out)["chains"]
    assert [len(chain["problems"]) for chain in sorted(problems, key=lambda chain: chain["machine"])] == [0, 2]


MEND = "casrewind: to repair it, run casrewind push --anew on its machine; if that machine is gone, see casrewind remote gc -n\n"


def test_a_piece_that_is_gone_swapped_or_under_another_name(remote):
    at, place = remote
    first, second, third = pieces(place)
    kept = second.read_bytes()
    second.unlink()
    found = at("remote", "verify", code=3)
    assert found.err == f"casrewind: piece 2 of sandbox-4 is missing\n{MEND}" and "  sandbox-4: 2 checkpoints, " in found.out
    second.write_bytes(third.read_bytes())
    assert at("remote", "verify", code=3).err.startswith("casrewind: piece 2 of sandbox-4 is damaged or cut (the piece ")
    second.write_bytes(kept)
    assert at("remote", "verify", code=0).err == ""
    third.unlink()  # the newest push: who has not read it cannot know, and the pull has
    shutil.copy(first, third)
    assert at("remote", "verify", code=3).err.startswith("casrewind: piece 3 of sandbox-4 is damaged")


def test_the_end_of_a_chain_that_was_read_is_missed(remote):
    at, place = remote
    pieces(place)[2].unlink()
    assert at("remote", "verify", code=3).err == f"casrewind: piece 3 of sandbox-4 is missing\n{MEND}"
    pieces(place, 1)[0].unlink()  # the own chain, wholly
    assert at("remote", "verify", code=3).err == (
        "casrewind: piece 3 of sandbox-4 is missing\ncasrewind: piece 1 of laptop is missing\n"
        f"casrewind: casrewind push --anew sends what this machine has again\n{MEND}"
    )


def identity_on(url):
    return identity_of_head(objects_in(url)["casrewind"])


def put_piece(url, blobs, records):
    """A piece of another machine, sealed with the right key."""
    name, builder = piece_name(OTHER, 1), PieceBuilder(Keys(MASTER, identity_on(url)))
    for use, digest, data in sorted(blobs, key=lambda blob: blob[0]):
        builder.add(digest, use, data)
    builder.add_records(records)
    data, _ = builder.finish(name, FIRST, bytes(16), "liar")
    Objects(url).put_new(name, data)


@pytest.mark.parametrize(
    "content, words",
    [
        ([(CONTENT, digests.of(DATA), DATA)], ""),
        ([], "casrewind: 1 checkpoint of liar cannot be restored: content is missing\n"),
        ([(CONTENT, digests.of(DATA), b"another")], "casrewind: piece 1 of liar is damaged or cut (its blob "),
    ],
)  # fmt: skip
def test_a_machine_that_lies(remote, url, content, words):
    at, _ = remote
    put_piece(url, [*content, (CONTAINER, digests.of(GOOD), GOOD), (CONTAINER, digests.of(DOMAIN), DOMAIN)], [checkpoint_record(point(GOOD))])
    assert at("remote", "verify", code=0).out.startswith("sound: 3 machines")
    assert at("remote", "verify", "--all", code=3 if words else 0).err.startswith(words)


def test_a_chain_of_a_newer_casrewind_stops_no_other(remote, url, tmp_path):
    at, place = remote
    name = piece_name(OTHER, 1)
    Objects(url).put_new(name, handmade_pieces.piece_of(MASTER, name, [], b"of a later format", magic=b"CRR3", identity=identity_on(url)))
    words = f"casrewind: piece 1 of {OTHER[:8]} was written by a newer casrewind: upgrade casrewind\n"
    found = at("remote", "verify", code=3)
    assert found.err == words and f"  {OTHER[:8]}: 0 checkpoints, " in found.out and "  sandbox-4: 3 checkpoints, " in found.out
    reader = At(tmp_path, "desk", url)
    plant(reader.root, {"x": b"x"})
    reader("save", code=0)
    found = reader("pull", code=3)
    assert found.err == words and "pulled 3 checkpoints of sandbox-4" in found.out and "pulled 1 checkpoint of laptop" in found.out
    assert reader("clone", url, "copy", code=0).out.startswith("restored ")


def test_a_chain_that_a_purge_ended_is_sound(remote, tmp_path):
    at, _ = remote
    at("purge", "random", "-y", code=0)
    at("push", code=0)
    assert at("remote", "verify", "--all", code=0).out.startswith("sound: ")


def test_a_damaged_passphrase_and_a_head_that_is_gone(remote, url):
    at, place = remote
    Objects(url).put_new("keys/0123456789abcdef", lock_key(MASTER, "right", identity_on(url)))
    at("remote", "verify", code=0)
    change(place / "keys" / "0123456789abcdef", flipped(40))
    assert at("remote", "verify", code=3).err == "casrewind: keys/0123456789abcdef: a locked key of the remote is damaged\n"
    (place / "casrewind").unlink()
    assert f"there is no casrewind remote at {url}" in at("remote", "verify", code=17).err


def test_a_rolled_up_chain_is_sound_and_a_damaged_roll_up_is_named(tmp_path, url, monkeypatch):
    monkeypatch.setattr(collect, "EVERY", 3)
    at = At(tmp_path, "sandbox-4", url)
    for number in range(4):
        at.work(number)
    place = Path(url.removeprefix("file://"))
    (roll_up,) = place.rglob("0000000001-0000000003")
    for more in ((), ("--all",)):
        assert "  sandbox-4 (this machine): 4 checkpoints, " in at("remote", "verify", *more, code=0).out
    change(roll_up, flipped(-50))
    assert at("remote", "verify", code=3).err.startswith("casrewind: pieces 1 to 3 of sandbox-4 are damaged or cut (the piece ")


def test_what_a_clone_uses_of_another_chain_counts_and_is_missed(remote, url, tmp_path):
    """The clone sends its own edits alone: their trees, and the content beside them, are in the chain that it came from."""
    at, place = remote
    desk = InProcess(tmp_path, tmp_path / "home of desk", CASREWIND_REMOTE_KEY=KEY)
    desk("clone", url, "copy", "sandbox-4", "--machine", "desk", code=0)
    plant(tmp_path / "copy", {"g": b"of desk"})
    for words in (("save",), ("push",)):
        desk("-C", str(tmp_path / "copy"), *words, code=0)
    (held,) = place.rglob("*/hold-*")
    assert at("remote", "verify", "--all", code=0).out.startswith("sound: 3 machines")
    base = place / held.name.removeprefix("hold-")
    change(max(base.glob("0*")), flipped(50_000))
    found = at("remote", "verify", "--all", code=3).err
    assert "casrewind: piece 3 of sandbox-4 is damaged or cut (" in found
    assert found.count("of desk cannot be restored: content is missing") == 1
