"""What a store pushed and its gc has forgotten since goes from the remote, and nothing else does."""

import itertools
import os

import pytest

from casrewind import errors
from casrewind.model.retention import Limits
from casrewind.remote.piece import MOST_EMPTY
from casrewind.remote import old_chains
from casrewind.remote.piece_names import all_pieces_of
from casrewind.remote.objects import Objects
from support.machines import Machine, Requests, Stop, stopping, chains_of


@pytest.fixture
def url(tmp_path):
    return f"memory://{tmp_path.parent.name}-{tmp_path.name}"


def long_at_work(place, url, saves=6):
    """A machine that pushed checkpoints, each with content of its own, and has forgotten all but two. Returns it and the ids that its
    store still has."""
    machine = Machine.with_remote(place, url)
    for number in range(saves):
        machine.save({"large": os.urandom(30_000), "a": b"%d" % number})
        machine.push()
    with machine.open() as workspace:
        workspace.gc(Limits(None, 2, 0, None))
    kept = set(machine.points())
    assert len(kept) == 2
    return machine, kept


def forgotten_by(machine):
    with machine.open() as workspace:
        return old_chains.find_forgotten(workspace._context, machine.remote(workspace))


def bytes_on(url):
    return sum(info.size for info in Objects(url).list())


def test_what_gc_has_forgotten_goes_and_a_reader_gets_all_that_is_kept(tmp_path, url):
    machine, kept = long_at_work(tmp_path / "one", url)
    early = Machine.with_remote(tmp_path / "two", url, "early")
    assert early.pull().checkpoints == {"sandbox-4": 6}
    found = forgotten_by(machine)
    assert (found.forgotten, found.checkpoints, found.kept) == (4, 2, "") and found.size > 6 * 30_000
    before, chain = bytes_on(url), machine.chain()
    done = machine.push(anew=True)
    assert done.checkpoints == 2 and not done.notes and not done.left
    assert machine.chain() != chain and bytes_on(url) < before / 2
    assert chain in all_pieces_of(Objects(url).list()), "no name becomes free"
    assert forgotten_by(machine) is None
    late = Machine.with_remote(tmp_path / "three", url, "late")
    assert not late.pull().problems and set(late.points()) == kept
    assert {one: late.tree(one) for one in kept} == {one: machine.tree(one) for one in kept} and not late.problems()
    edit = machine.save({"a": b"later"})
    assert machine.push().checkpoints == 1
    assert not early.pull().problems and early.tree(edit.id) == machine.tree(edit.id) and len(early.points()) == 7
    assert not early.pull().checkpoints


def test_nothing_is_found_where_nothing_was_forgotten_or_pushed(tmp_path, url):
    machine = Machine.with_remote(tmp_path / "one", url)
    assert forgotten_by(machine) is None
    machine.save({"a": b"1"})
    machine.push()
    assert forgotten_by(machine) is None


def test_what_a_clone_uses_stays(tmp_path, url):
    machine, _ = long_at_work(tmp_path / "one", url)
    laptop = machine.clone_to(tmp_path / "two")
    edit = laptop.save({"a": b"on the laptop"})
    laptop.push()
    assert forgotten_by(machine).kept.startswith("a clone uses it (")
    done = machine.push(anew=True)  # as if the clone had come after the look
    (note,) = done.notes
    assert note.startswith("what was pushed before is still used by ")
    reader = Machine.with_remote(tmp_path / "three", url, "reader")
    assert not reader.pull().problems and reader.tree(edit.id) == laptop.tree(edit.id)


def test_a_damaged_store_pushes_nothing_anew(tmp_path, url):
    machine, _ = long_at_work(tmp_path / "one", url)
    packs = [path for path in (machine.home / "data").rglob("*.pack") if path.stat().st_size > 10_000]
    for pack in packs:
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 255
        pack.chmod(0o600)
        pack.write_bytes(data)
    chain, before = machine.chain(), bytes_on(url)
    with pytest.raises(errors.StoreDamaged, match="the remote may have what is lost here"):
        machine.push(anew=True)
    assert machine.chain() == chain and bytes_on(url) == before


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.long), True], ids=["before", "after"])
def test_wherever_it_is_cut_nothing_is_lost_and_the_next_push_completes_it(tmp_path, url, after):
    for number in itertools.count(1):
        place = f"{url}-{number}"
        machine, kept = long_at_work(tmp_path / f"a{number}", place, 3)
        chain = machine.chain()
        machine.tampered = lambda found, number=number: Requests(found, stopping(number, after=after))
        try:
            machine.push(anew=True)
            was_cut = False
        except Stop:
            was_cut = True
        machine.tampered = lambda found: found
        early = Machine.with_remote(tmp_path / f"b{number}", place, "early")
        assert not early.pull().problems and kept <= set(early.points()), "the new chain is whole before the old one goes"
        machine.push(anew=machine.chain() == chain)  # a cut at the look for the head comes before anything is begun
        shown = {name for name, pieces in chains_of(Objects(place).list()).items() if max(piece.size for piece in pieces) > MOST_EMPTY}
        assert shown == {machine.chain()}, number
        late = Machine.with_remote(tmp_path / f"c{number}", place, "late")
        assert not late.pull().problems and set(late.points()) == kept and not late.problems()
        if not was_cut:
            break
        assert number < 40
    assert number > 6
