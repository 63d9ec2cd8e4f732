"""What is gone from a remote is said by whoever meets it: a push of a person at once, one by itself in time, a pull, a verify, a clone.

"Pushed" is never said of what nobody can clone."""

import os
import shutil

import pytest

from casrewind import errors
from casrewind.remote import collect, days, own_chain
from casrewind.remote.objects import Objects
from casrewind.remote.piece_names import all_pieces_of, piece_name
from casrewind.remote.sync_state import StateFiles
from support.command_in_process import InProcess
from support.machines import KEY, Machine, Requests, objects_in

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


def swap_head(machine):
    other = Machine.with_remote(machine.place.parent / "other", f"{machine.url}-of-others")
    path = path_of(machine, "casrewind")
    os.chmod(path, 0o600)
    shutil.copyfile(path_of(other, "casrewind"), path)


DAMAGES = {
    "the bucket is emptied": lambda machine: [os.unlink(path_of(machine, info.name)) for info in Objects(machine.url).list()],
    "the head is gone": lambda machine: os.unlink(path_of(machine, "casrewind")),
    "the head is another remote's": swap_head,
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
    monkeypatch.setattr(days, "now_ns", lambda: now + 25 * 3600 * 10**9)
    machine.save({"new": b"2"})
    with pytest.raises(errors.RemoteError, match="not all that was pushed is on"):
        machine.push()
    monkeypatch.setattr(days, "now_ns", lambda: now + 10**9)
    monkeypatch.setattr(own_chain, "MOST_PIECES", 2)
    machine.save({"new": b"3"})
    with pytest.raises(errors.RemoteError, match="not all that was pushed is on"):
        machine.push()


READ = {
    "the bucket is emptied": 17, "the head is gone": 0, "the head is another remote's": 0, "the first piece is gone": 0, "a middle piece is gone": 0, "the last piece is gone": 3,
    "the whole chain is gone": 3, "the last piece is another one": 0,
}
"""What a pull ends with that had read all of it. Of older pieces it asks nothing: what they had is here."""
VERIFIED = {**dict.fromkeys(DAMAGES, 3), "the bucket is emptied": 17, "the head is gone": 17, "the head is another remote's": 17, "the last piece is another one": 0}
CLONED = {
    "the bucket is emptied": 17, "the head is gone": 17, "the head is another remote's": 15, "the first piece is gone": 15, "a middle piece is gone": 3, "the last piece is gone": 0,
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
    assert not VERIFIED[what] or "casrewind push --anew" in said.err, "it names the command that mends it"
    at("clone", machine.url, str(tmp_path / "clone"), "sandbox-4", code=15 if what == "the whole chain is gone" else CLONED[what])


def is_roll_up(name):
    first, _, last = name.rpartition("/")[2].partition("-")
    return name[32:33] == "/" and first.isdigit() and first != last


def put(machine, name, data):
    path = path_of(machine, name)
    if os.path.exists(path):
        os.chmod(path, 0o600)
    with open(path, "wb") as file:
        file.write(data)


def remove_roll_ups(machine, _older):
    for name in filter(is_roll_up, objects_in(machine.url)):
        os.unlink(path_of(machine, name))


def put_older_roll_up_back(machine, older):
    remove_roll_ups(machine, older)
    for name in filter(is_roll_up, older):
        put(machine, name, older[name])


def put_older_roll_up_under_its_name(machine, older):
    data = next(older[name] for name in older if is_roll_up(name))
    put(machine, max(filter(is_roll_up, objects_in(machine.url))), data)


def cut_roll_up(machine, _older):
    for name, data in objects_in(machine.url).items():
        if is_roll_up(name):
            put(machine, name, data[: len(data) // 2])


def put_all_older_objects_back(machine, older):
    """As the owner of a bucket with versions does: nothing that is newer is taken away, but the roll-up."""
    put_older_roll_up_back(machine, older)
    for name, data in older.items():
        put(machine, name, data)


ROLLED = 8
ROLL_UPS = {
    "it is gone": (remove_roll_ups, 15),
    "an older one is in its place": (put_older_roll_up_back, 3),
    "an older one has its name": (put_older_roll_up_under_its_name, 15),
    "it is cut": (cut_roll_up, 15),
    "all is as it was when half was pushed": (put_all_older_objects_back, 3),
}
"""What happens to the roll-up of pieces 1 to 8, and what a clone ends with that saw nothing before."""


@pytest.fixture
def rolled(tmp_path, monkeypatch):
    """(A machine whose pieces 1 to 8 are one roll-up, as the pieces 1 to 4 were before; the objects of before.)"""
    monkeypatch.setattr(collect, "EVERY", 4)
    made, older = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket"), {}
    for step in range(ROLLED):
        made.save({"a": b"%d" % step, f"f{step}": os.urandom(3000)})
        made.push()
        older = older or (dict(objects_in(made.url)) if any(map(is_roll_up, objects_in(made.url))) else {})
    assert sorted(name[33:] for name in objects_in(made.url) if is_roll_up(name)) == ["0000000001-0000000004", "0000000001-0000000008"]
    return made, older


@pytest.mark.parametrize("what", ROLL_UPS)
@pytest.mark.parametrize("looked", [False, True], ids=["no look before", "a look before"])
def test_a_roll_up_that_is_gone_or_swapped_is_said_by_everybody_and_push_anew_mends_it(rolled, tmp_path, monkeypatch, what, looked):
    machine, older = rolled
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    reader.save({"own": b"o"})
    reader.push()
    assert sum(reader.pull().checkpoints.values()) == ROLLED
    if looked:
        machine.save({"b": b"more"})  # the look does not read again what is behind it
        machine.push(by_hand=True)
        reader.pull()
    damage, cloned = ROLL_UPS[what]
    damage(machine, older)
    with pytest.raises(errors.RemoteError) as refused:
        machine.push(by_hand=True)
    assert "not all that was pushed is on" in refused.value.problem and "just now" not in refused.value.problem
    at = InProcess(reader.root, reader.home, CASREWIND_REMOTE_KEY=KEY, CASREWIND_HOME=reader.settings.data)
    is_newest = not looked and what != "an older one has its name"
    said = at("pull", code=3 if is_newest and what != "it is cut" else 0).err
    assert ("what sandbox-4 pushed is no longer on the remote" in said) == (is_newest and what != "it is cut")
    said = at("remote", "verify", code=3).err
    assert " of sandbox-4 " in said and "just now" not in said and "to repair it, run casrewind push --anew on its machine" in said
    assert len(said.splitlines()) <= 4, "one line for neighbours that are missing"
    assert "would remove 1 chain" in at("remote", "gc", "-n", code=0).out
    said = at("clone", machine.url, str(tmp_path / "clone"), "sandbox-4", code=cloned if not (looked and cloned == 15) else None)
    assert said.code in (3, 15) and "just now" not in said.err
    with machine.open() as workspace:
        now = machine.remote(workspace).files.state.looked_ns
    machine.save({"new": b"1"})
    monkeypatch.setattr(days, "now_ns", lambda: now + 25 * 3600 * 10**9)
    with pytest.raises(errors.RemoteError, match="not all that was pushed is on"):
        machine.push()  # by a hook
    monkeypatch.undo()
    machine.push(by_hand=True, anew=True)
    assert at("remote", "verify", "--all", code=0).err == ""
    fresh = machine.clone_to(tmp_path / "fresh", everything=True)
    assert fresh.points().keys() == machine.points().keys() and not fresh.cloned.problems


def test_a_piece_that_comes_back_beside_its_roll_up_changes_nothing(rolled, tmp_path):
    machine, older = rolled
    for name, data in older.items():
        if name != "casrewind" and not is_roll_up(name):
            put(machine, name, data)
    assert not machine.push(by_hand=True).notes
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    taken = reader.pull()
    assert not taken.problems and taken.checkpoints == {"sandbox-4": ROLLED}


BASES = {
    "the whole chain is gone": ("piece 1 of", f"pieces 1 to {PIECES} of sandbox-4 are missing"),
    "the first piece is gone": ("piece 1 of", "piece 1 of sandbox-4 is missing"),
    "a middle piece is gone": ("piece 3 of", "piece 3 of sandbox-4 is missing"),
    "the last piece is gone": ("", f"piece {PIECES} of sandbox-4 is missing"),
}
"""What a push of a clone of one checkpoint says, which does not know the last number, and one of a clone of everything."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(("what", "everything"), [(what, everything) for what in BASES for everything in (False, True) if BASES[what][everything]])
def test_a_push_of_a_clone_says_what_is_gone_of_the_chain_that_it_rests_on_and_push_anew_mends_it(machine, tmp_path, what, everything):
    clone = machine.clone_to(tmp_path / "clone", "laptop", everything=everything, reference="sandbox-4")
    edit = clone.save({"b": b"b"})
    clone.push(by_hand=True)
    machine.save({"later": b"l"})
    machine.push()
    os.unlink(path_of(machine, piece_name(machine.chain(), PIECES + 1)))  # the clone has never read it
    clone.push(by_hand=True)
    DAMAGES[what](machine)
    words = BASES[what][everything]
    with pytest.raises(errors.RemoteError) as refused:
        clone.push(by_hand=True)
    assert words in refused.value.problem and "casrewind push --anew" in refused.value.hint
    at = InProcess(clone.root, clone.home, CASREWIND_REMOTE_KEY=KEY, CASREWIND_HOME=clone.settings.data)
    assert words in at("remote", "verify", code=3).err
    clone.push(by_hand=True, anew=True)
    assert not clone.push(by_hand=True).notes
    fresh = Machine.with_remote(tmp_path / "fresh", machine.url, "fresh")
    assert fresh.pull().checkpoints["laptop"] and fresh.tree(edit.id)[b"b"] == b"b"


def test_a_base_that_has_ended_and_is_held_is_whole(machine, tmp_path):
    clone = machine.clone_to(tmp_path / "clone", "laptop", reference="sandbox-4")
    clone.save({"b": b"b"})
    clone.push(by_hand=True)
    machine.push(by_hand=True, anew=True)
    for _ in range(2):
        assert not clone.push(by_hand=True).notes and not clone.pull().problems


def test_a_chain_that_its_machine_pushed_anew_is_no_damage_for_who_had_read_it(machine, reader):
    for info in all_pieces_of(Objects(machine.url).list())[machine.chain()]:
        os.unlink(path_of(machine, info.name))
    machine.push(by_hand=True, anew=True)
    taken = reader.pull()
    assert not taken.problems and not reader.pull().problems


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
