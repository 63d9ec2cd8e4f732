"""A clone uses the blobs of the chain that it came from, and who removes old chains leaves that one: whoever is slow, nothing is lost."""

import itertools
import os
from contextlib import suppress

import pytest

from casrewind import errors
from casrewind.remote.piece import MOST_EMPTY
from casrewind.remote import clone, objects, old_chains
from casrewind.remote.piece_names import all_pieces_of, holds_of
from casrewind.remote.objects import Objects
from support.machines import Machine, Requests, Stop, stopping, chains_of


@pytest.fixture
def url(tmp_path):
    return f"memory://{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def machine(tmp_path, url):
    made = Machine.with_remote(tmp_path / "one", url)
    made.base = os.urandom(200_000)
    made.save({"base": made.base, "d/a": b"1"}, "begin")
    made.push()
    made.save({"d/a": b"2"})
    made.push()
    return made


def bytes_of(machine):
    """Bytes of all pieces of a machine's chain."""
    return sum(piece.size for piece in all_pieces_of(Objects(machine.url).list()).get(machine.chain(), ()))


def old_in(machine, keep=-1.0):
    """The chains that are old for a machine, by any age."""
    with machine.open() as workspace:
        return old_chains.find_old(machine.remote(workspace), keep)


def remove_old(machine, keep=-1.0, which=lambda one: not one.kept):
    with machine.open() as workspace:
        remote = machine.remote(workspace)
        return old_chains.remove(remote, [one for one in old_chains.find_old(remote, keep) if which(one)])


@pytest.mark.parametrize("everything", [False, True])
def test_a_clone_does_not_send_its_base_and_a_reader_gets_all_of_it(machine, tmp_path, everything):
    laptop = machine.clone_to(tmp_path / "two", everything=everything)
    edit = laptop.save({"d/a": b"on the laptop", "new": b"n"})
    done = laptop.push()
    assert not done.notes and done.size < 20_000 < bytes_of(machine)
    reader = Machine.with_remote(tmp_path / "three", machine.url, "reader")
    taken = reader.pull()
    assert not taken.problems and reader.tree(edit.id) == laptop.tree(edit.id) and reader.tree(edit.id)[b"base"] == machine.base
    third = laptop.clone_to(tmp_path / "four", "third", reference="laptop")
    assert third.cloned.point.id == edit.id and (third.root / "base").read_bytes() == machine.base
    again = third.save({"more": b"m"})
    assert third.push().size < 20_000, "a clone of a clone uses both"
    last = third.clone_to(tmp_path / "six", "fourth", reference=again.id)
    assert last.tree(again.id) == third.tree(again.id) and not last.problems()


def test_a_chain_that_a_clone_uses_stays_and_goes_with_it(machine, tmp_path, url):
    laptop = machine.clone_to(tmp_path / "two")
    laptop.save({"d/a": b"on the laptop"})
    laptop.push()
    other = Machine.with_remote(tmp_path / "three", url, "other")
    other.save({"x": b"y"})
    other.push()
    chain, theirs = machine.chain(), laptop.chain()
    kept = {one.chain: one.kept for one in old_in(other)}
    assert kept[chain] == "a clone uses it" and kept.keys() == {chain, theirs}
    gone = remove_old(other, which=lambda one: True)
    assert {one.chain for one in gone.spared} == {chain} and {one.chain for one in gone.chains} == {theirs}
    assert not holds_of(Objects(url).list())
    assert {one.chain for one in remove_old(other, which=lambda one: True).chains} == {chain}
    assert remove_old(other, which=lambda one: True) == ((), (), ())
    assert {name for name, pieces in chains_of(Objects(url).list()).items() if max(piece.size for piece in pieces) > MOST_EMPTY} == {other.chain()}


def test_a_machine_whose_chain_was_removed_begins_anew_and_sends_everything(machine, tmp_path, url):
    other = Machine.with_remote(tmp_path / "three", url, "other")
    other.save({"x": b"y"})
    other.push()
    (gone,) = remove_old(other, which=lambda one: True).chains
    assert gone.machine == "sandbox-4" and gone.checkpoints == 2 and gone.size > 200_000
    edit = machine.save({"d/a": b"3"})
    done = machine.push()
    assert done.notes and done.checkpoints == 3
    reader = Machine.with_remote(tmp_path / "four", url, "reader")
    assert not reader.pull().problems and reader.tree(edit.id) == machine.tree(edit.id)


def test_what_is_pinned_labelled_own_or_newest_stays(machine, tmp_path, url):
    assert [one.kept for one in old_in(machine)] == [], "its own"
    other = Machine.with_remote(tmp_path / "three", url, "other")
    point = other.save({"x": b"y"})
    other.push()
    (found,) = old_in(other)
    assert found.kept == "it has labelled checkpoints" and found.machine == "sandbox-4"
    with other.open() as workspace:
        workspace.pin(point)
    other.push()
    third = Machine.with_remote(tmp_path / "four", url, "third")
    third.save({"x": b"z"})
    third.push()
    assert {one.machine: one.kept for one in old_in(third)} == {
        "sandbox-4": "it has labelled checkpoints", "other": "it has pinned checkpoints",
    }  # fmt: skip
    with other.open() as workspace:
        workspace.unpin(point)
    other.push()
    assert {one.machine: one.kept for one in old_in(third)}["other"] == ""
    assert old_in(third, keep=3600) == [], "nothing is that old"


def test_the_age_is_that_of_the_server_and_counts_from_the_newest_piece(tmp_path):
    url = f"file://{tmp_path}/bucket"
    first, second = Machine.with_remote(tmp_path / "one", url, "first"), Machine.with_remote(tmp_path / "two", url, "second")
    for made in (first, second):
        made.save({"a": made.name.encode()})
        made.push()
    day = 86_400
    path = f"{tmp_path}/bucket/{first.chain()}/{1:010}-{1:010}"
    newest = os.stat(f"{tmp_path}/bucket/{second.chain()}/{1:010}-{1:010}").st_mtime
    os.utime(path, (newest - 90 * day, newest - 90 * day))
    assert old_in(second, 91 * day) == [] and [one.machine for one in old_in(second, 89 * day)] == ["first"]
    assert old_in(first, 0) == [], "the newest of all stays, and its own"


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.long), True], ids=["before", "after"])
def test_a_removal_that_was_cut_is_completed_and_nothing_else_is_lost(tmp_path, url, after):
    for number in itertools.count(1):
        place = f"{url}-{number}"
        old, other = Machine.with_remote(tmp_path / f"a{number}", place), Machine.with_remote(tmp_path / f"b{number}", place, "other")
        for step in range(2):
            old.save({"a": b"%d" % step})
            old.push()
        point = other.save({"x": b"y"})
        other.push()
        other.tampered = lambda found, number=number: Requests(found, stopping(number, after=after))
        try:
            remove_old(other)
            was_cut = False
        except Stop:
            was_cut = True
        other.tampered = lambda found: found
        edit = old.save({"a": b"later"})
        pushed_before = number % 2 and not old.push().left
        if not pushed_before:
            remove_old(other)
            old.push()
        reader = Machine.with_remote(tmp_path / f"r{number}", place, "reader")
        assert not reader.pull().problems
        assert reader.tree(edit.id) == old.tree(edit.id) and reader.tree(point.id) == other.tree(point.id)
        if not was_cut:
            break
    assert number > 8


@pytest.mark.parametrize("inner", ["clone", "removal"])
def test_a_clone_meanwhile_is_seen_or_sees_it(tmp_path, url, monkeypatch, inner):
    """Before each request of a removal a whole clone happens, or before each request of a clone a whole removal. Then the clone pushes."""
    is_there = set()
    for number in itertools.count(1):
        place = f"{url}-{number}"
        source, keeper = Machine.with_remote(tmp_path / f"s{number}", place), Machine.with_remote(tmp_path / f"k{number}", place, "keeper")
        for made in (source, keeper):
            made.save({"base": made.name.encode() * 100})
            made.push()
        happened, laptops = [], []

        def cloned(objects_of, source=source, number=number):
            with monkeypatch.context() as patch, suppress(errors.CasrewindError):
                patch.setattr(clone, "Objects", objects_of)
                laptops.append(source.clone_to(tmp_path / f"l{number}", "laptop", reference=source.name))

        def meanwhile(count, after, number=number, keeper=keeper, happened=happened, cloned=cloned):
            if count == number and not after and not happened:
                happened.append(True)
                cloned(objects.Objects) if inner == "clone" else remove_old(keeper)

        if inner == "clone":
            keeper.tampered = lambda found, meanwhile=meanwhile: Requests(found, meanwhile)
            remove_old(keeper)
        else:
            cloned(lambda *a, meanwhile=meanwhile: Requests(objects.Objects(*a), meanwhile))
        if laptops:
            edit = laptops[0].save({"edit": b"e"})
            laptops[0].push()
            reader = Machine.with_remote(tmp_path / f"r{number}", place, "reader")
            reader.pull()
            assert reader.tree(edit.id) == laptops[0].tree(edit.id), number
            is_there.add(max(piece.size for piece in chains_of(Objects(place).list())[source.chain()]) > MOST_EMPTY)
        if not happened:
            break
    assert number > 6 and is_there == {True, False}


def test_a_purge_leaves_what_a_clone_uses_and_names_it(machine, tmp_path):
    laptop = machine.clone_to(tmp_path / "two")
    edit = laptop.save({"e": b"e"})
    laptop.push()
    with machine.open() as workspace:
        workspace.purge([b"base"])
    done = machine.push()
    assert len(done.left) == 2 and "used by" in done.notes[-1]
    reader = Machine.with_remote(tmp_path / "three", machine.url, "reader")
    assert not reader.pull().problems and reader.tree(edit.id) == laptop.tree(edit.id)
    with laptop.open() as workspace:
        workspace.purge([b"base"])
    assert not laptop.push().left
    machine.save({"x": b"x"}, remove=["base"])
    done = machine.push()
    assert not done.left and not done.notes
    assert all(max(piece.size for piece in pieces) < 50_000 for pieces in all_pieces_of(Objects(machine.url).list()).values()), "it is nowhere"
