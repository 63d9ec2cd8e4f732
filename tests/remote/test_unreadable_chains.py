"""What no reader can read is offered by `remote gc`, with its machine and what is wrong; what is gone is forgotten; nothing goes unasked."""

import os
import shutil
from pathlib import Path

import pytest

from casrewind.remote import old_chains
from casrewind.remote.objects import Objects
from casrewind.remote.piece import MOST_EMPTY
from casrewind.remote.piece_names import piece_name
from support.command_in_process import InProcess
from support.machines import KEY, Machine, objects_in

pytest.importorskip("obstore")

PIECES = 4


class Remote:
    """A sandbox with four pieces, a laptop that has read them, and a machine whose chain is whole."""

    def __init__(self, tmp_path):
        self.tmp, self.url = tmp_path, f"file://{tmp_path}/bucket"
        self.sandbox = Machine.with_remote(tmp_path / "sandbox", self.url)
        for step in range(PIECES):
            self.sandbox.save({"a": b"%d" % step, f"f{step}": os.urandom(3000)})
            self.sandbox.push()
        self.chain = self.sandbox.chain()
        self.whole = Machine.with_remote(tmp_path / "whole", self.url, "whole")
        self.whole.save({"w": b"w"})
        self.whole.push()
        self.reader = Machine.with_remote(tmp_path / "laptop", self.url, "laptop")
        self.reader.save({"own": b"o"})
        self.reader.push()
        assert sum(self.reader.pull().checkpoints.values()) == PIECES + 1
        self.laptop = InProcess(self.reader.root, self.reader.home, CASREWIND_REMOTE_KEY=KEY, CASREWIND_HOME=self.reader.settings.data)

    def path(self, number, chain=""):
        return Path(self.url.removeprefix("file://"), piece_name(chain or self.chain, number))

    def put(self, path, data):
        if path.exists():
            path.chmod(0o600)
        path.write_bytes(data)

    def objects(self):
        return {name: data for name, data in objects_in(self.url).items() if "dead" not in name}


@pytest.fixture
def remote(tmp_path):
    return Remote(tmp_path)


def cut(remote, number):
    data = remote.path(number).read_bytes()
    remote.put(remote.path(number), data[: len(data) // 2])


def exchange(remote, number):
    """Another piece of the same number, which opens, and which the next one does not name."""
    elsewhere = Machine(remote.tmp / "elsewhere", remote.url, root=remote.sandbox.root)
    shutil.rmtree(elsewhere.home)
    shutil.copytree(remote.sandbox.home, elsewhere.home)
    top = Path(remote.url.removeprefix("file://"))
    shutil.copytree(top, remote.tmp / "kept")
    for late in range(number, PIECES + 1):
        remote.path(late).unlink()
    with elsewhere.open() as workspace:
        files = elsewhere.remote(workspace).files
        files.save(files.state._replace(next=number, mac=files.state.looked_mac, position=files.state.position._replace(seq=0)))
    elsewhere.save({"a": b"other"})
    elsewhere.push()
    other = remote.path(number).read_bytes()
    shutil.rmtree(top)
    shutil.move(remote.tmp / "kept", top)
    remote.put(remote.path(number), other)


DAMAGES = {
    "the first piece is missing": (lambda remote: remote.path(1).unlink(), "piece 1 of sandbox-4 is missing"),
    "a middle piece is missing": (lambda remote: remote.path(2).unlink(), "piece 2 of sandbox-4 is missing"),
    "two are missing": (lambda remote: [remote.path(n).unlink() for n in (2, 3)], "pieces 2 to 3 of sandbox-4 are missing"),
    "a middle piece is cut": (lambda remote: cut(remote, 2), "piece 2 of sandbox-4 is damaged or cut"),
    "the last piece is cut": (lambda remote: cut(remote, PIECES), f"piece {PIECES} of sandbox-4 is damaged or cut"),
    "one is missing, and the last one is cut": (
        lambda remote: (remote.path(3).unlink(), cut(remote, PIECES)), f"piece {PIECES} of sandbox-4 is damaged or cut"
    ),
    "a middle piece is another one": (lambda remote: exchange(remote, 2), " of sandbox-4 does not follow the piece before it"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_chain_that_cannot_be_read_is_named_and_goes_only_when_a_person_agrees(remote, tmp_path, what):
    damage, words = DAMAGES[what]
    damage(remote)
    before = remote.objects()
    said = remote.laptop("remote", "verify", code=3).err
    assert words in said and "to repair it, run casrewind push --anew on its machine; if that machine is gone, see casrewind remote gc -n" in said
    planned = remote.laptop("remote", "gc", "-n", code=0).out
    assert f"would remove 1 chain from {remote.url}\n  - sandbox-4 ({remote.chain[:8]}): " in planned and words in planned
    assert "casrewind push --anew on its machine mends it" in planned and "whole" not in planned
    assert "asks before it removes checkpoints" in remote.laptop("remote", "gc", code=64).err
    assert remote.objects() == before
    found = remote.laptop.json("remote", "gc", "-n")
    assert [(one["machine"], words in one["damage"]) for one in found["removed"]] == [("sandbox-4", True)] and not found["taken_back"]
    remote.laptop("remote", "gc", "-y", code=0)
    assert remote.laptop("remote", "verify", "--all", code=0).out.startswith("sound: ") and remote.laptop("pull", code=0).err == ""
    assert remote.laptop("remote", "gc", "-y", code=0).out.startswith("nothing to remove from ")
    assert sum(point.more.machine == "sandbox-4" for point in remote.reader.points().values()) == PIECES, "what was pulled stays"
    remote.sandbox.save({"a": b"later"})
    assert any("removed from the remote" in note for note in remote.sandbox.push().notes), "a push by itself notices it, too"
    fresh = Machine.with_remote(tmp_path / "fresh", remote.url, "fresh")
    taken = fresh.pull()
    assert not taken.problems and taken.checkpoints["sandbox-4"] == PIECES + 1


def test_a_push_anew_of_its_machine_mends_it_and_nothing_is_left_to_offer(remote):
    remote.path(2).unlink()
    remote.sandbox.push(by_hand=True, anew=True)
    assert remote.laptop("remote", "gc", "-n", code=0).out == f"nothing to remove from {remote.url}: remote.keep is forever\n"
    assert remote.laptop("remote", "verify", "--all", code=0).err == ""


def test_a_removal_that_finds_the_chain_whole_again_removes_nothing(remote):
    """A person thinks about the question, and somebody puts the piece back."""
    data = remote.path(2).read_bytes()
    remote.path(2).unlink()
    with remote.reader.open() as workspace:
        opened = remote.reader.remote(workspace)
        chains = old_chains.find_old(opened, 0)
        assert [one.machine for one in chains] == ["sandbox-4"]
        remote.put(remote.path(2), data)
        gone = old_chains.remove(opened, chains)
    assert not gone.chains and [one.kept for one in gone.spared] == ["it can be read again"]
    assert remote.laptop("remote", "verify", "--all", code=0).err == ""


def test_what_a_clone_uses_and_what_is_pinned_stays_though_it_cannot_be_read(remote, tmp_path):
    clone = remote.sandbox.clone_to(tmp_path / "clone", "second", reference="sandbox-4")
    clone.save({"mine": b"m"})
    clone.push()
    remote.path(2).unlink()
    said = remote.laptop("remote", "gc", "-y", code=0).out
    assert "kept: sandbox-4" in said and "piece 2 of sandbox-4 is missing" in said and ": a clone uses it (second)" in said
    assert remote.path(3).stat().st_size > MOST_EMPTY


@pytest.mark.parametrize("number", [1, PIECES])
def test_a_pin_behind_the_hole_keeps_the_chain_too(remote, number):
    newest = max(remote.sandbox.points().values(), key=lambda point: point.seq)
    with remote.sandbox.open() as workspace:
        workspace.pin(newest.id)
    remote.sandbox.push()
    remote.path(number).unlink()
    said = remote.laptop("remote", "gc", "-y", code=0).out
    assert "kept: sandbox-4" in said and f"piece {number} of sandbox-4 is missing" in said and ": it has pinned checkpoints" in said
    assert remote.path(2).stat().st_size > MOST_EMPTY


def newer_piece(remote):
    data = remote.path(4).read_bytes()
    return b"CRR3" + data[4:-4] + b"CRR3"


def piece_of_another_key(remote):
    data = remote.path(4).read_bytes()
    return data[:4] + bytes((2, 0, 0, 0)) + data[8:]


@pytest.mark.parametrize("make", [newer_piece, piece_of_another_key])
@pytest.mark.parametrize("where", ["in the chain", "in another one"])
def test_a_piece_of_a_newer_casrewind_or_key_stops_every_removal(remote, make, where):
    remote.put(remote.path(5) if where == "in the chain" else remote.path(2, remote.whole.chain()), make(remote))
    remote.path(2).unlink()
    before = remote.objects()
    remote.laptop.environment["CASREWIND_REMOTE_KEEP"] = "1s"
    said = remote.laptop("remote", "gc", "-y", code=17).err
    assert f"nothing is removed from {remote.url}: " in said and "upgrade casrewind, or ask for the newer key" in said
    assert remote.objects() == before
    assert "remote gc" not in remote.laptop("remote", "verify", code=3).err or where != "in the chain"


GONE = {
    "the whole chain": (lambda remote: shutil.rmtree(remote.path(1).parent), f"pieces 1 to {PIECES} of sandbox-4 are missing", 0),
    "the last piece": (lambda remote: remote.path(PIECES).unlink(), f"piece {PIECES} of sandbox-4 is missing", PIECES - 1),
    "the last two": (lambda remote: [remote.path(n).unlink() for n in (3, 4)], "pieces 3 to 4 of sandbox-4 are missing", 2),
}


@pytest.mark.parametrize("what", GONE)
def test_what_was_read_and_is_gone_is_forgotten_in_one_line_and_nothing_is_removed(remote, tmp_path, what):
    damage, words, left = GONE[what]
    damage(remote)
    before = remote.objects()
    assert "no longer on the remote" in remote.laptop("pull", code=3).err
    line = f"that these were read: {words} (what was pulled is here)\n"
    assert f"would forget {line}" in remote.laptop("remote", "gc", "-n", code=0).out and "pull" in remote.laptop("pull", code=3).err
    assert remote.laptop.json("remote", "gc", "-n")["taken_back"] == [{"chain": remote.chain, "problem": words}]
    assert f"forgot {line}" in remote.laptop("remote", "gc", code=0).out, "nothing is removed, so nothing is asked"
    assert remote.objects() == before
    again = remote.laptop("pull", code=0)
    assert again.err == "" and again.out.startswith("nothing new on ") and "forgot" not in remote.laptop("remote", "gc", code=0).out
    assert remote.laptop("remote", "verify", code=0).err == ""
    assert sum(point.more.machine == "sandbox-4" for point in remote.reader.points().values()) == PIECES, "what was pulled stays"
    fresh = Machine.with_remote(tmp_path / "fresh", remote.url, "fresh")
    assert fresh.pull().checkpoints.get("sandbox-4", 0) == left


def test_a_disk_that_is_not_mounted_is_no_reason_to_forget_anything(remote):
    top = Path(remote.url.removeprefix("file://"))
    top.rename(remote.tmp / "unmounted")
    top.mkdir()
    for line in ("gc", "gc -y", "gc -n"):
        assert f"there is no casrewind remote at {remote.url}" in remote.laptop("remote", *line.split(), code=17).err
    top.rmdir()
    (remote.tmp / "unmounted").rename(top)
    assert remote.laptop("remote", "verify", code=0).err == "" and "forgot" not in remote.laptop("remote", "gc", code=0).out


def test_a_strangers_object_makes_no_chain_unreadable(remote):
    objects = Objects(remote.url)
    for number in range(20):
        objects.put_new(f"{remote.chain}/{number + 1:010}-{9999999990 - number:010}", os.urandom(300))
        objects.put_new(f"{os.urandom(16).hex()}/{1:010}-{1:010}", os.urandom(300))
    assert remote.laptop("remote", "gc", "-y", code=0).out.startswith("nothing to remove from ")
    assert remote.sandbox.push(by_hand=True).notes == ()
