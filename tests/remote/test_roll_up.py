"""Roll-ups: many pieces become one, no reader loses a byte by it, no name becomes free, and a cut is completed later."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.remote.piece import MOST_EMPTY
from casrewind.remote import collect
from casrewind.remote.chain import open_piece
from casrewind.remote.piece_names import all_pieces_of
from casrewind.remote.objects import Objects
from support.machines import KEY, Machine, Requests, Stop, chains_of, keys_of, stopping

EVERY = 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(collect, "EVERY", EVERY)


@pytest.fixture
def url(tmp_path):
    return f"memory://{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def machine(tmp_path, url):
    return Machine.with_remote(tmp_path / "one", url)


def edit_and_push(machine, number, start=0):
    """Save and push so often. Returns (the checkpoints, the notes of all pushes)."""
    saved, notes = [], []
    for step in range(start, start + number):
        saved.append(machine.save({"a": b"edit %d" % step, f"d{step % 3}/b": b"of %d" % step, "same": b"same"}, f"edit {step}"))
        notes += machine.push().notes
    return saved, notes


def assert_arrived(source, target, saved):
    here = target.points()
    for point in saved:
        assert here[point.id].tree == point.tree and target.tree(point.id) == source.tree(point.id)
    assert not target.problems()


def pieces(machine):
    """(first, last) of the pieces of a machine's chain that a reader reads."""
    return [(piece.first, piece.last) for piece in chains_of(Objects(machine.url).list())[machine.chain()]]


def copy_of(machine, place):
    copied = Machine(place, machine.url, root=machine.root)
    shutil.rmtree(copied.home)
    shutil.copytree(machine.home, copied.home)
    return copied


def test_a_roll_up_has_all_that_its_pieces_had_and_their_names_stay_in_use(machine, tmp_path):
    saved, notes = edit_and_push(machine, EVERY)
    assert notes == [f"merged {EVERY} pieces of this machine"] and pieces(machine) == [(1, EVERY)]
    objects = Objects(machine.url)
    every = all_pieces_of(objects.list())[machine.chain()]
    assert {piece.name[33:] for piece in every} == {f"{n:010}-{n:010}" for n in range(1, EVERY + 1)} | {f"{1:010}-{EVERY:010}"}
    for piece in every:
        opened = open_piece(objects, keys_of(machine.url), piece.name, piece.size)
        assert opened.is_replaced == (piece.first == piece.last) and not opened.is_end and (piece.size <= MOST_EMPTY) == opened.is_replaced
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    taken = reader.pull()
    assert dict(taken.checkpoints) == {"sandbox-4": EVERY} and not taken.problems
    assert_arrived(machine, reader, saved)
    assert reader.pull().requests == 1 and machine.push()[:4] == (0, 0, 0, 0)


@pytest.mark.turns(3)
def test_few_pieces_are_left_and_a_reader_asks_for_few(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "EVERY", 64)
    saved, notes = edit_and_push(machine, 200)
    assert len(notes) == 3 and len(pieces(machine)) <= 12
    before = Objects(machine.url)
    names = sum(not info.name.startswith(("days/", "names/")) for info in before.list())
    assert names <= 1 + 200 + 3
    clone = machine.clone_to(tmp_path / "two")
    assert clone.cloned.point.id == saved[-1].id and not clone.cloned.problems
    reader = Machine.with_remote(tmp_path / "three", machine.url, "laptop")
    reads = []
    reader.tampered = lambda objects: reads.append(objects) or objects
    assert dict(reader.pull().checkpoints) == {"sandbox-4": 200}
    assert sum(reads[0].requests.values()) <= 20, "one list, and two for each piece at most"
    assert_arrived(machine, reader, saved[::80])


def test_a_reader_goes_on_from_everywhere_in_a_roll_up(machine, tmp_path):
    readers, saved = [], []
    for step in range(2 * EVERY + 2):
        saved += edit_and_push(machine, 1, step)[0]
        readers.append(Machine.with_remote(tmp_path / f"r{step}", machine.url, f"laptop{step}"))
        readers[-1].pull()
    for step, reader in enumerate(readers):
        taken = reader.pull()
        assert sum(taken.checkpoints.values()) == len(saved) - 1 - step and not taken.problems
        assert_arrived(machine, reader, saved)


@pytest.mark.turns(3)
def test_whenever_a_roll_up_happens_during_a_pull_or_a_clone_nothing_is_missed(machine, tmp_path, monkeypatch):
    """Before each request in turn, the other machine puts its pieces together."""
    from casrewind.remote import clone, objects

    step = 0
    for what in ("pull", "clone", "clone of all"):
        for number in itertools.count(1):
            saved, _ = edit_and_push(machine, EVERY - 1, step)
            step += EVERY
            made = []

            def meanwhile(count, after, number=number, made=made, saved=saved, step=step):
                if count == number and not after and not made:
                    made.append(edit_and_push(machine, 1, step - 1)[0])

            reader = Machine(tmp_path / f"r{step}", machine.url, "laptop")
            if what == "pull":
                reader.add_remote()
                reader.tampered = lambda found, meanwhile=meanwhile: Requests(found, meanwhile)
                taken = reader.pull()
                assert not taken.problems and sum(taken.checkpoints.values()) in (step - 1, step)
            else:
                with monkeypatch.context() as patch:
                    patch.setattr(clone, "Objects", lambda *a, meanwhile=meanwhile: Requests(objects.Objects(*a), meanwhile))
                    reader = machine.clone_to(tmp_path / f"c{step}", everything=what != "clone")
                assert not reader.cloned.problems
                saved = saved if what != "clone" else [machine.points()[reader.cloned.point.id]]
            assert_arrived(machine, reader, saved[-2:])
            if not made:
                assert number > 4
                edit_and_push(machine, 1, step - 1)
                break


def test_a_copied_store_of_any_age_notices_that_its_number_was_rolled_up(machine, tmp_path):
    """If names became free, its push would succeed there, and no reader would look at it."""
    copies = []
    for step in range(2 * EVERY):
        edit_and_push(machine, 1, step)
        copies.append(copy_of(machine, tmp_path / f"copy{step}"))
    assert len(pieces(machine)) == 1
    reader = Machine.with_remote(tmp_path / "reader", machine.url, "laptop")
    for step, copied in enumerate(copies[:-1]):
        point = copied.save({"mine": b"%d" % step})
        done = copied.push()
        assert "the remote has more of this machine than this store knows" in done.notes[0], step
        taken = reader.pull()
        assert not taken.problems and reader.tree(point.id) == copied.tree(point.id)


def test_without_the_right_to_delete_there_is_no_roll_up_and_the_push_is_done(machine, tmp_path):
    class Denied:
        def __init__(self, found):
            self._found = found

        def __getattr__(self, name):
            return getattr(self._found, name)

        def delete(self, names):
            raise errors.RemoteError("s3://x does not allow DeleteObject")

        def replace(self, name, data):
            raise AssertionError("it may not")

    machine.tampered = Denied
    saved, notes = edit_and_push(machine, 2 * EVERY - 1)
    assert notes == ["the pieces on the remote were not put together: s3://x does not allow DeleteObject"], "once for each time"
    assert len(pieces(machine)) == 2 * EVERY - 1
    machine.tampered = lambda objects: objects
    more, notes = edit_and_push(machine, 1, 50)
    assert notes == [f"merged {2 * EVERY} pieces of this machine"] and pieces(machine) == [(1, 2 * EVERY)]
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    reader.pull()
    assert_arrived(machine, reader, saved + more)


@pytest.mark.turns(3)
@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.long), True], ids=["before", "after"])
def test_a_roll_up_that_was_cut_anywhere_is_completed_by_the_next_one(url, tmp_path, after):
    for number in itertools.count(1):
        machine = Machine.with_remote(tmp_path / f"m{number}", f"{url}-{number}")
        saved = edit_and_push(machine, EVERY - 1)[0]
        saved.append(machine.save({"last": b"%d" % number}))
        machine.tampered = lambda found, number=number: Requests(found, stopping(number, after=after))
        try:
            machine.push()
            was_cut = False
        except Stop:
            was_cut = True
        machine.tampered = lambda objects: objects
        reader = Machine.with_remote(tmp_path / f"r{number}", machine.url, "laptop")
        assert not reader.pull().problems
        assert_arrived(machine, reader, saved if number > 1 or after else saved[:-1])
        saved += edit_and_push(machine, EVERY, EVERY)[0]
        shown = {piece.name for piece in chains_of(Objects(machine.url).list())[machine.chain()]}
        every = all_pieces_of(Objects(machine.url).list())[machine.chain()]
        assert len(shown) <= 1 + EVERY and all(piece.size <= MOST_EMPTY for piece in every if piece.name not in shown), "what was cut is completed"
        assert not reader.pull().problems
        assert_arrived(machine, reader, saved[-2:])
        if not was_cut:
            break
    assert number > 2 * EVERY + 3, "the piece, the list, the right, each piece, the roll-up, and each that is emptied"


def test_a_damaged_piece_stays_as_it_is_and_the_others_are_put_together(tmp_path):
    machine = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")
    first, _ = edit_and_push(machine, EVERY - 1)
    path = Path(machine.url.removeprefix("file://"), machine.chain(), f"{1:010}-{1:010}")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    edit_and_push(machine, 1, 10)
    assert path.read_bytes() == data, "what is damaged is not replaced"
    data[20] ^= 1
    path.write_bytes(data)
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    assert not reader.pull().problems
    assert_arrived(machine, reader, first)


def test_full_pieces_stay_and_small_ones_behind_them_become_one(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "_ROLL_UP_BYTES", 100_000)
    base = machine.save({f"f{n}": os.urandom(30_000) for n in range(4)})
    machine.push()
    saved, _ = edit_and_push(machine, 3 * EVERY)
    found = pieces(machine)
    assert found[0] == (1, 1) and found[1][0] == 2 and len(found) <= 2 + EVERY
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    reader.pull()
    assert_arrived(machine, reader, [base, *saved])


def test_after_a_purge_the_roll_ups_are_emptied_too(machine, tmp_path):
    machine.save({"secret": os.urandom(5000)})
    edit_and_push(machine, EVERY + 1)
    old = machine.chain()
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    assert not machine.push().left
    sizes = [piece.size for piece in all_pieces_of(Objects(machine.url).list())[old]]
    assert len(sizes) == EVERY + 3 and max(sizes) <= MOST_EMPTY
    reader = Machine.with_remote(tmp_path / "two", machine.url, "laptop")
    taken = reader.pull()
    assert not taken.problems and dict(taken.checkpoints) == {"sandbox-4": EVERY + 2}


@pytest.mark.long
def test_a_roll_up_needs_little_memory(tmp_path, monkeypatch):
    """Its pieces have 15 MiB that cannot be compressed, the most that one has."""
    machine = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")
    with monkeypatch.context() as patch:
        patch.setattr(collect, "EVERY", 1000)
        for number in range(63):
            machine.save({f"f{number}": os.urandom(240_000)})
            machine.push()
    machine.save({"last": os.urandom(240_000)})
    program = "import resource, sys; from casrewind.cli.main import main; main(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    environment = {**os.environ, "HOME": str(machine.home), "CASREWIND_HOME": machine.settings.data, "CASREWIND_REMOTE_KEY": KEY}
    done = subprocess.run([sys.executable, "-c", program, "-C", str(machine.root), "push"], env=environment, capture_output=True, check=True)
    assert b"merged 64 pieces of this machine" in done.stdout
    assert int(done.stdout.split()[-1]) < 100_000, "KiB"
