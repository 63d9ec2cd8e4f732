"""Objects that somebody without the key puts among the pieces: nothing of a machine is hidden, and no push is stopped."""

import json
import os
import random
from pathlib import Path

import pytest

from casrewind.remote import old_chains
from casrewind.remote.piece_names import LAST_NUMBER, piece_name
from casrewind.remote.objects import Objects
from casrewind.remote.piece import MOST_EMPTY
from support.command_in_process import InProcess
from support.machines import KEY, Machine, Requests, objects_in, stopping

pytest.importorskip("obstore")

MANY = 400
"""Random objects in each push; 10,000 once, by the long test."""


@pytest.fixture
def machine(tmp_path):
    return Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")


@pytest.fixture
def other(tmp_path, machine):
    return Machine.with_remote(tmp_path / "two", machine.url, "laptop")


def put(machine, name, data):
    path = Path(machine.url.removeprefix("file://"), name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def pushed(machine, number):
    """The checkpoints of so many saves and pushes."""
    points = []
    for step in range(number):
        points.append(machine.save({"a": b"%d" % step, f"f{step}": os.urandom(2000)}))
        machine.push()
    return [point.id for point in points]


def true_bytes(machine, number=1):
    return objects_in(machine.url)[piece_name(machine.chain(), number)]


AIMED = {
    "a roll-up over everything": lambda _: ("{chain}/0000000001-9999999999", os.urandom(300)),
    "a roll-up over one more": lambda _: ("{chain}/0000000001-0000000004", os.urandom(5000)),
    "a roll-up of the first two": lambda _: ("{chain}/0000000001-0000000002", os.urandom(5000)),
    "the next number": lambda _: ("{chain}/0000000004-0000000004", os.urandom(300)),
    "the next number, empty of sense": lambda _: ("{chain}/0000000004-0000000004", b"x" * 44),
    "a number far behind": lambda _: ("{chain}/0000000900-0000000900", os.urandom(300)),
    "the last number": lambda _: ("{chain}/9999999999-9999999999", os.urandom(300)),
    "a long object": lambda _: ("{chain}/0000000001-0000000300", os.urandom(200_000)),
    "a chain of its own": lambda _: ("ab" * 16 + "/0000000001-0000000001", os.urandom(300)),
    "a true piece as a roll-up": lambda true: ("{chain}/0000000001-0000000003", true(3)),
    "a true piece as a longer roll-up": lambda true: ("{chain}/0000000001-0000000009", true(3)),
    "half of a true piece as a roll-up": lambda true: ("{chain}/0000000001-0000000003", true(2)[: len(true(2)) // 2]),
    "the end of a true piece as a roll-up": lambda true: ("{chain}/0000000002-0000000003", true(2)[-200:]),
}
AT_THE_END = {
    "a true piece under the next number": lambda true: ("{chain}/0000000004-0000000004", true(3)),
    "half of one": lambda true: ("{chain}/0000000004-0000000004", true(3)[:1000]),
    "one of a newer format": lambda _: ("{chain}/0000000004-0000000004", b"CRR9" + os.urandom(400) + b"CRR9"),
    "a true piece in a roll-up behind": lambda true: ("{chain}/0000000004-0000000009", true(1)),
    "an empty object": lambda _: ("{chain}/0000000004-0000000004", b""),
}
"""What looks like damage as long as no piece is behind it."""


@pytest.mark.parametrize("what", AIMED)
def test_no_aimed_object_hides_a_machine_or_stops_it(machine, other, tmp_path, what):
    ids = pushed(machine, 3)
    name, data = AIMED[what](lambda number: true_bytes(machine, number))
    put(machine, name.format(chain=machine.chain()), data)
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 3} and not taken.problems and taken.strangers == 1
    assert set(ids) <= set(other.points())
    later = pushed(machine, 2)
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 2} and not taken.problems
    clone = machine.clone_to(tmp_path / "clone", everything=True)
    assert set(ids + later) <= set(clone.points()) and not clone.cloned.problems
    assert clone.cloned.strangers == (what != "a chain of its own")
    assert clone.tree(later[-1])[b"a"] == b"1"


@pytest.mark.parametrize("what", AT_THE_END)
def test_what_looks_like_the_newest_piece_is_damage_until_the_machine_pushes_behind_it(machine, other, tmp_path, what):
    ids = pushed(machine, 3)
    name, data = AT_THE_END[what](lambda number: true_bytes(machine, number))
    put(machine, name.format(chain=machine.chain()), data)
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 3} and len(taken.problems) == 1 and "delete" not in taken.problems[0]
    later = pushed(machine, 2)
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 2} and not taken.problems and taken.strangers == 1
    clone = machine.clone_to(tmp_path / "clone", everything=True)
    assert set(ids + later) <= set(clone.points())


def test_a_push_goes_on_behind_every_number_that_a_stranger_takes(machine, other):
    pushed(machine, 1)
    chain = machine.chain()
    put(machine, piece_name(chain, 2), os.urandom(300))
    pushed(machine, 1)
    put(machine, piece_name(chain, 4), os.urandom(300))
    put(machine, piece_name(chain, 5), os.urandom(300))
    pushed(machine, 1)
    assert machine.chain() == chain and {piece_name(chain, number) for number in (1, 3, 6)} < set(objects_in(machine.url))
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 3} and not taken.problems and taken.strangers == 3


def test_with_the_last_number_taken_too_the_machine_begins_a_new_chain(machine, other):
    ids = pushed(machine, 2)
    chain = machine.chain()
    put(machine, piece_name(chain, 3), os.urandom(300))
    put(machine, piece_name(chain, LAST_NUMBER), os.urandom(300))
    machine.save({"a": b"again"})
    assert any("new chain" in note for note in machine.push().notes)
    assert machine.chain() != chain
    assert set(ids) < set(machine.points()) <= set(other.points()) | set(machine.points())
    taken = other.pull()
    assert sum(taken.checkpoints.values()) == 3 and not taken.problems


@pytest.mark.parametrize("after", [False, True])
def test_a_push_that_is_cut_behind_a_stranger_is_continued(machine, other, after):
    pushed(machine, 1)
    put(machine, piece_name(machine.chain(), 2), os.urandom(300))
    newest = machine.save({"a": b"new"}).id
    for request in range(1, 8):
        machine.tampered = lambda objects, request=request: Requests(objects, stopping(request, after=after))
        try:
            machine.push()
        except BaseException as error:  # noqa: BLE001 - the end of the program
            assert type(error).__name__ == "Stop"
    machine.tampered = lambda objects: objects
    machine.push()
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 2} and not taken.problems and newest in other.points()


def test_a_purge_is_not_stopped_by_a_stranger_at_the_number_of_the_end(machine, other):
    machine.save({"a": b"1", "secret": b"the word" * 40})
    machine.push()
    old = machine.chain()
    put(machine, piece_name(old, 2), os.urandom(300))
    put(machine, f"{old}/0000000001-0000000777", os.urandom(300))
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    done = machine.push()
    assert not done.left and machine.chain() != old
    sizes = [len(data) for name, data in objects_in(machine.url).items() if name.startswith(old)]
    assert max(sizes) <= MOST_EMPTY, "its pieces are emptied"
    assert other.pull().checkpoints == {"sandbox-4": 1}


EVERYTHING_BEHIND = {
    "the last number": [f"{2:010}-{2:010}", f"{LAST_NUMBER:010}-{LAST_NUMBER:010}"],
    "all numbers by one name": [f"{2:010}-{2:010}", f"{28216:010}-{LAST_NUMBER:010}"],
    "many": [f"{2:010}-{2:010}", *(f"{LAST_NUMBER - at:010}-{LAST_NUMBER - at:010}" for at in range(50)), f"{3:010}-{LAST_NUMBER:010}"],
}


@pytest.mark.parametrize("names", EVERYTHING_BEHIND)
def test_a_purge_and_a_removal_are_not_stopped_by_strangers_who_take_the_last_number(machine, other, tmp_path, names):
    """Nothing is free behind all that is listed then. The end of the chain finds a number in between."""

    def block(chain):
        for name in EVERYTHING_BEHIND[names]:
            put(machine, f"{chain}/{name}", os.urandom(300))

    machine.save({"a": b"1", "secret": b"the word" * 40})
    machine.push()
    old = machine.chain()
    assert other.pull().checkpoints == {"sandbox-4": 1}
    block(old)
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    assert not machine.push().left and machine.chain() != old
    block(machine.chain())
    with other.open() as workspace:
        opened = other.remote(workspace)
        gone = old_chains.remove(opened, old_chains.find_old(opened, -1.0))
    assert not gone.spared and not gone.left
    sizes = [len(data) for name, data in objects_in(machine.url).items() if name[:32] in (old, machine.chain()) and name[33:43].isdigit()]
    assert max(sizes) <= MOST_EMPTY, "their pieces are emptied"
    assert not other.pull().problems
    machine.save({"a": b"2"})
    assert any("removed from the remote" in note for note in machine.push().notes)
    fresh = Machine.with_remote(tmp_path / "three", machine.url, "fresh")
    assert fresh.pull().checkpoints == {"sandbox-4": 2}


def strew(machine, number, some):
    """Objects with well-formed names and random bytes: in the true chain and in chains that are nobody's."""
    chains = [machine.chain()] * 3 + [some.randbytes(16).hex() for _ in range(20)]
    for _ in range(number):
        first = some.choice((some.randrange(1, 80), some.randrange(1, 10**10)))
        last = some.choice((first, first, min(first + some.randrange(1, 100), LAST_NUMBER)))
        name = f"{some.choice(chains)}/{first:010}-{last:010}"
        if not Path(machine.url.removeprefix("file://"), name).exists():
            put(machine, name, some.randbytes(some.randrange(1, 400)))


@pytest.mark.parametrize("number", [MANY, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_bucket_full_of_strangers_costs_their_first_reader_only(machine, other, tmp_path, number):
    ids = pushed(machine, 3)
    strew(machine, number, random.Random(number))
    taken = other.pull()
    assert taken.checkpoints == {"sandbox-4": 3} and not taken.problems and taken.strangers > number // 2
    assert taken.requests > taken.strangers // 2, "each was opened"
    later = pushed(machine, 2)
    again = other.pull()
    assert again.checkpoints == {"sandbox-4": 2} and not again.problems and again.requests < 12, again
    clone = machine.clone_to(tmp_path / "clone", everything=True)
    assert set(ids + later) <= set(clone.points())


def test_commands_say_strangers_in_one_line_and_verify_lists_them(machine, other, tmp_path):
    pushed(machine, 2)
    for number in (7, 8, 9):
        put(machine, piece_name(machine.chain(), number), os.urandom(300))
    at = InProcess(other.root, other.home, CASREWIND_REMOTE_KEY=KEY)
    line = f"casrewind: 3 objects that are not ours below {machine.url}; casrewind remote verify --strangers lists them\n"
    assert at("--store", other_store(other), "pull", code=0).err == line
    found = at("--store", other_store(other), "remote", "verify", code=0)
    assert found.out.startswith("sound: ") and found.err == line
    found = at("--store", other_store(other), "remote", "verify", "--strangers", code=0)
    assert found.out.count("/00000000") == 3 and not found.err
    shape = json.loads(at("--store", other_store(other), "remote", "verify", "--json", code=0).out)
    assert len(shape["strangers"]) == 3 and shape["ok"]
    assert at("--store", other_store(other), "remote", "gc", "--strangers", code=64).err.startswith("casrewind: --strangers goes with")


def other_store(machine):
    with machine.open() as workspace:
        return workspace._context.store.path


def test_a_piece_that_is_overwritten_with_garbage_is_damage_and_no_stranger(machine, other):
    pushed(machine, 3)
    put(machine, piece_name(machine.chain(), 2), os.urandom(500))
    (problem,) = other.pull().problems
    assert problem.startswith("piece 2 of sandbox-4 is damaged or cut")
    assert Objects(machine.url).list(machine.chain())
