"""What is gone from a remote is said by whoever meets it: a push of a person at once, one by itself in time, a pull, a verify, a clone.

"Pushed" is never said of what nobody can clone."""

import os
import shutil

import pytest

from casrewind import errors
from casrewind.remote import collect, own_chain
from casrewind.remote.objects import Objects
from casrewind.remote.piece_names import piece_name
from casrewind.remote.sync_state import StateFiles
from support.command_in_process import InProcess
from support.machines import KEY, Machine, Requests

pytest.importorskip("obstore")

PIECES = 5


@pytest.fixture
def machine(tmp_path):
    made = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")
    for step in range(PIECES):
        made.save({"a": b"%d" % step, f"f{step}": os.urandom(3000)})
        made.push()
    return made


@pytest.fixture
def reader(tmp_path, machine):
    made = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    made.save({"own": b"o"})
    made.push()
    made.pull()
    return made


def path_of(machine, name):
    return f"{machine.url.removeprefix('file://')}/{name}"


def remove(number):
    return lambda machine: os.unlink(path_of(machine, piece_name(machine.chain(), number)))


def exchange(machine):
    """Another piece of this machine under the last name, as a machine that was copied would put it."""
    copy = Machine(machine.place.parent / "copy", machine.url, machine.name, root=machine.root)
    shutil.rmtree(copy.home)
    shutil.copytree(machine.home, copy.home)
    name = path_of(machine, piece_name(machine.chain(), PIECES + 1))
    for one in (machine, copy):
        one.save({"a": one.place.name.encode()})
        if os.path.exists(name):
            os.unlink(name)  # as a server does that replaces it
        one.push()


DAMAGES = {
    "the bucket is emptied": lambda machine: [os.unlink(path_of(machine, info.name)) for info in Objects(machine.url).list()],
    "the head is gone": lambda machine: os.unlink(path_of(machine, "casrewind")),
    "the first piece is gone": remove(1),
    "a middle piece is gone": remove(3),
    "the last piece is gone": remove(PIECES),
    "the whole chain is gone": lambda machine: shutil.rmtree(path_of(machine, machine.chain())),
    "the last piece is another one": exchange,
}


@pytest.mark.parametrize("what", DAMAGES)
@pytest.mark.parametrize("is_new", [False, True], ids=["nothing new", "something new"])
def test_a_push_of_a_person_never_says_pushed_and_push_anew_mends_it(machine, tmp_path, what, is_new):
    DAMAGES[what](machine)
    if is_new:
        machine.save({"new": b"n"})
    with pytest.raises(errors.RemoteError) as refused:
        machine.push(by_hand=True)
    assert "not all that was pushed is on" in refused.value.problem and "casrewind push --anew" in refused.value.hint
    assert ("casrewind is gone" in refused.value.problem) == (what in ("the head is gone", "the bucket is emptied"))
    with pytest.raises(errors.RemoteError):
        machine.push(by_hand=True)
    machine.push(by_hand=True, anew=True)
    clone = machine.clone_to(tmp_path / "clone", everything=True)
    assert clone.points().keys() == {point.id for point in machine.points().values()} and not clone.cloned.problems
    assert not machine.push(by_hand=True).notes


@pytest.mark.parametrize("what", DAMAGES)
def test_a_push_by_itself_says_it_after_a_day_or_64_pieces(machine, monkeypatch, what):
    DAMAGES[what](machine)
    machine.save({"new": b"1"})
    machine.push()
    with machine.open() as workspace:
        now = machine.remote(workspace).files.state.looked_ns
    monkeypatch.setattr(own_chain.time, "time_ns", lambda: now + 25 * 3600 * 10**9)
    machine.save({"new": b"2"})
    with pytest.raises(errors.RemoteError, match="not all that was pushed is on"):
        machine.push()
    monkeypatch.setattr(own_chain.time, "time_ns", lambda: now + 10**9)
    monkeypatch.setattr(own_chain, "MOST_PIECES", 2)
    machine.save({"new": b"3"})
    with pytest.raises(errors.RemoteError, match="not all that was pushed is on"):
        machine.push()


READ = {
    "the bucket is emptied": 17, "the head is gone": 0, "the first piece is gone": 0, "a middle piece is gone": 0, "the last piece is gone": 3,
    "the whole chain is gone": 3, "the last piece is another one": 0,
}
"""What a pull ends with that had read all of it. Of older pieces it asks nothing: what they had is here."""
VERIFIED = {**dict.fromkeys(DAMAGES, 3), "the bucket is emptied": 17, "the head is gone": 17, "the last piece is another one": 0}
CLONED = {
    "the bucket is emptied": 17, "the head is gone": 17, "the first piece is gone": 15, "a middle piece is gone": 3, "the last piece is gone": 0,
    "the whole chain is gone": 0, "the last piece is another one": 0,
}
"""Of a clone that saw nothing before. It takes what there is, and names what it misses."""


@pytest.mark.parametrize("what", DAMAGES)
def test_who_reads_says_what_is_gone(machine, reader, tmp_path, what):
    DAMAGES[what](machine)
    at = InProcess(reader.root, reader.home, CASREWIND_REMOTE_KEY=KEY)
    with reader.open() as workspace:
        at.environment["CASREWIND_HOME"] = os.path.dirname(os.path.dirname(workspace._context.store.path))
    said = at("pull", code=READ[what] if what != "the bucket is emptied" else 3)
    if READ[what] == 3:
        assert "what sandbox-4 pushed is no longer on the remote" in said.err
    said = at("remote", "verify", code=VERIFIED[what])
    assert not VERIFIED[what] or "sandbox-4" in said.err or VERIFIED[what] == 17
    at("clone", machine.url, str(tmp_path / "clone"), "sandbox-4", code=15 if what == "the whole chain is gone" else CLONED[what])


def test_a_removal_is_no_damage_for_who_had_read_the_chain(machine, reader):
    from casrewind.remote import old_chains

    with reader.open() as workspace:
        remote = reader.remote(workspace)
        old_chains.remove(remote, [one for one in old_chains.find_old(remote, -1.0) if not one.kept])
    assert not reader.pull().problems
    notes = machine.push(by_hand=True).notes
    assert any("removed from the remote" in note for note in notes) and not reader.pull().problems


def test_a_roll_up_that_the_server_did_not_keep_empties_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "EVERY", 4)
    machine = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")

    def cut_roll_ups(number, after):
        if after:
            for info in Objects(machine.url).list():
                first, _, last = info.name.rpartition("/")[2].partition("-")
                if first.isdigit() and first != last:
                    os.truncate(path_of(machine, info.name), info.size // 2)

    machine.tampered = lambda objects: Requests(objects, cut_roll_ups)
    for step in range(5):
        machine.save({"a": b"%d" % step})
        notes = machine.push().notes
    assert "is not on the remote as it was put" in str(notes) or step == 4
    machine.tampered = lambda objects: objects
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    assert reader.pull().checkpoints == {"sandbox-4": 5}


def test_what_a_store_noted_of_a_look_is_no_word_of_it(machine):
    """A look reads the last piece each time: a note that is older than an accident proves nothing."""
    machine.push(by_hand=True)
    with machine.open() as workspace:
        state = StateFiles(machine.remote(workspace).files.directory).state
    assert state.looked_last == PIECES - 1
    remove(PIECES)(machine)
    with pytest.raises(errors.RemoteError, match=f"piece {PIECES} of sandbox-4"):
        machine.push(by_hand=True)


def test_a_laptop_that_was_put_back_from_a_backup_has_its_newer_checkpoints_after_one_pull(machine, reader, tmp_path):
    shutil.copytree(machine.home, tmp_path / "backup")
    newer = [machine.save({"a": b"later %d" % step}) for step in range(2)]
    machine.push()
    shutil.rmtree(machine.home)
    shutil.copytree(tmp_path / "backup", machine.home)
    old = machine.chain()
    taken = machine.pull()
    assert "put back from a backup" in taken.notes[0] and not taken.problems and sum(taken.checkpoints.values()) == 3
    assert {point.id for point in newer} <= set(machine.points()) and machine.tree(newer[1].id)[b"a"] == b"later 1"
    assert not machine.pull().notes and machine.chain() != old
    edit = machine.save({"a": b"again"})
    done = machine.push(by_hand=True)
    assert done.size < 40_000, "its base is not sent again"
    fresh = Machine.with_remote(tmp_path / "fresh", machine.url, "fresh")
    assert not fresh.pull().problems and {edit.id, *(point.id for point in newer)} <= set(fresh.points())


def test_a_push_that_was_cut_is_no_copy_for_a_pull(machine):
    machine.save({"a": b"cut"})

    def stop_behind_the_put(number, after):
        if after:
            raise KeyboardInterrupt

    machine.tampered = lambda objects: Requests(objects, stop_behind_the_put)
    with pytest.raises(KeyboardInterrupt):
        machine.push()
    machine.tampered = lambda objects: objects
    chain = machine.chain()
    assert not machine.pull().notes and machine.chain() == chain
    machine.push(by_hand=True)
