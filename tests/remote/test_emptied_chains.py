"""What `remote gc` leaves of a chain: how many objects and bytes, and which requests of others they cost.

The decision in docs/internals/remote-format.md, section 13, rests on these counts: emptied pieces stay, and no push asks for more.
"""

from pathlib import Path

import pytest

from casrewind.remote import old_chains
from casrewind.remote.machines import list_machines
from remote.test_requests import Counted, count_clones
from support.machines import Machine, objects_in

pytest.importorskip("obstore")

TEXT = (Path(__file__).parents[2] / "docs" / "internals" / "remote-format.md").read_text(encoding="utf-8")
PIECES = 10
"""Pushes of a sandbox before it is thrown away."""


def sandboxes(place, url, number):
    """Machines of which each has pushed ten times."""
    made = [Machine.with_remote(place / f"box{at}", url, f"box-{at}") for at in range(number)]
    for one in made:
        for at in range(PIECES):
            one.save({"a": f"{one.name} {at}".encode()})
            one.push()
    return made


def remove_others(machine):
    """What `remote gc` does with all that is older than the newest push. Returns the chains that are gone."""
    with machine.open() as workspace:
        remote = machine.remote(workspace)
        found = old_chains.remove(remote, old_chains.find_old(remote, 1e-9))
    assert not found.spared and not found.left
    return [one.chain for one in found.chains]


def pushed_once_more(machine):
    machine.save({"a": str(len(machine.points())).encode()})
    machine.push()


def requests_beside(place, number, monkeypatch):
    """{what is done: its requests} beside so many emptied chains."""
    url, counted = f"file://{place}/bucket", count_clones(monkeypatch)

    def cloned(name, **options):
        return counted(lambda: machine.clone_to(place / name, **options))

    def listed():
        with late.open() as workspace:
            found = list_machines(late.remote(workspace), 2)
            assert [one.name for one in found.shown] == ["one"]
            assert (found.rest, found.unreadable) == (max(0, number - 2), 0)

    machine = Counted.with_remote(place / "one", url, "one")
    boxes = sandboxes(place, url, number)
    pushed_once_more(machine)
    reader, late = (Counted.with_remote(place / name, url, name) for name in ("reader", "late"))
    reader.pull()
    assert sorted(remove_others(machine) if boxes else []) == sorted(one.chain() for one in boxes)
    found = {"clone of the newest": cloned("newest"), "clone by a name": cloned("named", reference="one")}
    found["pull behind the removal"] = reader.counted(reader.pull)
    found["push"] = machine.counted(lambda: pushed_once_more(machine))
    found["pull with news"] = reader.counted(reader.pull)
    found["first pull of all"] = late.counted(late.pull)
    found["remote machines"] = late.counted(listed)
    return found


@pytest.fixture
def beside(tmp_path, monkeypatch):
    def counted(number):
        place = tmp_path / str(number)
        place.mkdir()
        return requests_beside(place, number, monkeypatch)

    return counted


def test_emptied_chains_cost_a_list_its_length_and_each_reader_one_request_for_each(beside):
    without, with_them = beside(0), beside(6)
    print(without, with_them)
    gets = {name: int(with_them[name].partition("GET ")[2].partition(",")[0] or 0) for name in with_them}
    alone = {name: int(without[name].partition("GET ")[2].partition(",")[0] or 0) for name in without}
    more = {name: gets[name] - alone[name] for name in gets if gets[name] != alone[name]}
    assert more == {"pull behind the removal": 6, "first pull of all": 6, "remote machines": 2}
    same = set(without) - set(more)
    assert {name: with_them[name] for name in same} == {name: without[name] for name in same}


def test_a_removal_leaves_an_object_for_each_piece_and_the_end(tmp_path):
    url = f"file://{tmp_path}/bucket"
    machine = Machine.with_remote(tmp_path / "one", url, "one")
    (box,) = sandboxes(tmp_path, url, 1)
    pushed_once_more(machine)
    chain = box.chain()
    assert remove_others(machine) == [chain]
    left = {name: len(data) for name, data in objects_in(url).items() if name.startswith(f"{chain}/")}
    assert len(left) == PIECES + 1 and f"leaves {len(left)} objects" in TEXT
    assert {f"an empty piece of {size} bytes" in TEXT for size in left.values()} == {True}, left


def test_a_sandbox_that_comes_back_after_its_chain_was_removed_is_read(tmp_path):
    url = f"file://{tmp_path}/bucket"
    machine = Machine.with_remote(tmp_path / "one", url, "one")
    (box,) = sandboxes(tmp_path, url, 1)
    pushed_once_more(machine)
    removed = remove_others(machine)
    point = box.save({"late": b"work of the resumed snapshot"}, "late")
    box.push()
    assert box.chain() not in removed
    machine.pull()
    assert point.id in machine.points() and machine.tree(point.id)[b"late"] == b"work of the resumed snapshot"
