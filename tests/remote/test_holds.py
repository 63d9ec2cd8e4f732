"""A clone uses the blobs of the chain that it came from, and who removes old chains leaves that one: whoever is slow, nothing is lost."""

import itertools
import os
import shutil

import pytest

from casrewind.remote.piece import MOST_EMPTY
from casrewind.remote import old_chains
from casrewind.remote.base_chain import BasePurged, holders_of, holders_of_own
from casrewind.remote.chain import open_piece
from casrewind.remote.piece_names import all_pieces_of, holds_of
from casrewind.remote.objects import Objects
from support import handmade_pieces as handmade
from support.machines import Machine, Requests, Stop, chains_of, keys_of, stopping
from support.trees import plant


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
    assert kept[chain] == "a clone uses it (laptop)" and kept.keys() == {chain, theirs}
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


def test_what_is_pinned_own_or_newest_stays_and_a_label_keeps_nothing(machine, tmp_path, url):
    assert [one.kept for one in old_in(machine)] == [], "its own"
    other = Machine.with_remote(tmp_path / "three", url, "other")
    point = other.save({"x": b"y"})
    other.push()
    (found,) = old_in(other)
    assert found.kept == "" and found.machine == "sandbox-4", "its first one has a label"
    with other.open() as workspace:
        workspace.pin(point)
    other.push()
    third = Machine.with_remote(tmp_path / "four", url, "third")
    third.save({"x": b"z"})
    third.push()
    assert {one.machine: one.kept for one in old_in(third)} == {"sandbox-4": "", "other": "it has pinned checkpoints"}
    with other.open() as workspace:
        workspace.unpin(point)
    other.push()
    assert {one.machine: one.kept for one in old_in(third)}["other"] == ""
    assert old_in(third, keep=3600) == [], "nothing is that old"


def test_a_checkpoint_that_was_saved_with_a_pin_keeps_its_chain(tmp_path, url):
    pinned = Machine.with_remote(tmp_path / "one", url, "pinned")
    with pinned.open() as workspace:
        plant(pinned.root, {"a": b"1"})
        workspace.save(pin=True)
    pinned.push()
    other = Machine.with_remote(tmp_path / "three", url, "other")
    other.save({"x": b"y"})
    other.push()
    assert [one.kept for one in old_in(other)] == ["it has pinned checkpoints"]


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


@pytest.mark.turns(3)
@pytest.mark.parametrize("inner", ["push", "removal"])
def test_a_first_push_meanwhile_is_seen_or_sees_it(tmp_path, url, inner):
    """Before each request of a removal a clone's whole first push happens, or before each request of the first push a whole removal."""
    is_there = set()
    for number in itertools.count(1):
        place = f"{url}-{number}"
        source, keeper = Machine.with_remote(tmp_path / f"s{number}", place), Machine.with_remote(tmp_path / f"k{number}", place, "keeper")
        for made in (source, keeper):
            made.save({"base": made.name.encode() * 100})
            made.push()
        laptop = source.clone_to(tmp_path / f"l{number}", "laptop", reference=source.name)
        edit = laptop.save({"edit": b"e"})
        happened, is_source = [], lambda one, source=source.chain(): not one.kept and one.chain == source

        def meanwhile(count, after, number=number, keeper=keeper, laptop=laptop, happened=happened, is_source=is_source):
            if count == number and not after and not happened:
                happened.append(True)
                laptop.push() if inner == "push" else remove_old(keeper, which=is_source)

        slow = keeper if inner == "push" else laptop
        slow.tampered = lambda found, meanwhile=meanwhile: Requests(found, meanwhile)
        remove_old(keeper, which=is_source) if inner == "push" else laptop.push()
        slow.tampered = lambda found: found
        laptop.push()
        reader = Machine.with_remote(tmp_path / f"r{number}", place, "reader")
        reader.pull()
        assert reader.tree(edit.id) == laptop.tree(edit.id), number
        is_there.add(max(piece.size for piece in chains_of(Objects(place).list())[source.chain()]) > MOST_EMPTY)
        if not happened:
            break
    assert number > 5 and is_there == {True, False}


def test_a_clone_that_never_pushes_leaves_nothing_on_the_remote(machine, tmp_path):
    before = [info.name for info in Objects(machine.url).list()]
    laptop = machine.clone_to(tmp_path / "two", everything=True)
    laptop.save({"mine": b"m"})
    assert [info.name for info in Objects(machine.url).list()] == before


@pytest.mark.turns(3)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_first_push_that_is_cut_anywhere_is_completed_by_the_next(machine, tmp_path, after):
    laptop = machine.clone_to(tmp_path / "two")
    edit = laptop.save({"d/a": b"on the laptop"})
    shutil.copytree(laptop.place, tmp_path / "kept")
    for number in itertools.count(1):
        shutil.rmtree(laptop.place)
        shutil.copytree(tmp_path / "kept", laptop.place)
        laptop.tampered = lambda found, number=number: Requests(found, stopping(number, after=after))
        was_cut = False
        try:
            laptop.push()
        except Stop:
            was_cut = True
        laptop.tampered = lambda found: found
        assert laptop.push().size < 40_000, "its base is not sent"
        reader = Machine.with_remote(tmp_path / f"r{number}", machine.url, "reader")
        reader.pull()
        assert reader.tree(edit.id) == laptop.tree(edit.id)
        if not was_cut:
            break
    assert number > 4


DAMAGES = {
    "its newest piece is gone": lambda names: names[-1:],
    "its first piece is gone": lambda names: names[:1],
    "all of it is gone": lambda names: names,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_first_push_rests_only_on_what_is_there(machine, tmp_path, how):
    laptop = machine.clone_to(tmp_path / "two")
    edit = laptop.save({"d/a": b"on the laptop"})
    names = sorted(info.name for info in Objects(machine.url).list() if info.name.startswith(machine.chain()))
    Objects(machine.url).delete(DAMAGES[how](names))
    assert laptop.push().size > 200_000, "everything is sent"
    reader = Machine.with_remote(tmp_path / "three", machine.url, "reader")
    reader.pull()
    assert reader.tree(edit.id) == laptop.tree(edit.id) and not holds_of(Objects(machine.url).list())


WORD = b"the-word-that-must-go " * 40


def words_on(url):
    """The objects of a remote in which the word is, opened with the key."""
    keys, found = keys_of(url), Objects(url)
    pieces = [piece for every in all_pieces_of(found.list()).values() for piece in every]
    opened = [(piece.name, open_piece(found, keys, piece.name, piece.size)) for piece in pieces]
    return [name for name, reader in opened for _, _, data in reader.blobs({blob.digest for blob in reader.table.blobs}) if WORD[:22] in data]


def purge_of(machine, path=b"secret"):
    with machine.open() as workspace:
        workspace.purge([path])
    (machine.root / os.fsdecode(path)).unlink(missing_ok=True)


STEPS = ("clone", "drill saves", "purge", "owner pushes", "drill pushes")


@pytest.mark.parametrize("order", [order for order in itertools.permutations(STEPS) if order.index("clone") < order.index("drill saves") < order.index("drill pushes") and order.index("purge") < order.index("owner pushes")])
def test_clone_purge_and_push_in_every_order_leave_no_word_or_say_what_to_do(machine, tmp_path, order):
    machine.save({"secret": WORD})
    machine.push()
    drill, said = None, None
    for step in order:
        if step == "clone":
            drill = machine.clone_to(tmp_path / "drill", "drill")
        elif step == "drill saves":
            drill.save({"mine": b"m"})
        elif step == "purge":
            purge_of(machine)
        elif step == "owner pushes":
            said = machine.push()
        else:
            try:
                drill.push()
            except BasePurged as error:
                assert error.exit_code == 15 and "secret" in error.problem and "casrewind purge secret" in error.hint
                assert not words_on(machine.url), "nothing was sent"
                purge_of(drill)
                drill.push()
    if words_on(machine.url):
        assert order.index("drill pushes") < order.index("owner pushes") and "used by drill: after a purge, purge and push there, too" in said.notes[-1]
        purge_of(drill)
        drill.push()
        assert not machine.push().left
    assert not words_on(machine.url)
    reader = Machine.with_remote(tmp_path / "reader", machine.url, "reader")
    assert not reader.pull().problems and len(reader.pull_names()) == 2


def test_a_large_file_that_was_purged_elsewhere_is_found_by_its_chunks_and_its_name_is_quoted(machine, tmp_path):
    large = os.urandom(3_000_000)
    machine.save({"my key": WORD, "large": large, "a": b"a"})
    machine.push()
    drill = machine.clone_to(tmp_path / "drill", "drill")
    drill.save({"mine": b"m"})
    for path in (b"large", b"my key"):
        purge_of(machine, path)
    assert not machine.push().left
    with pytest.raises(BasePurged) as refused:
        drill.push()
    assert refused.value.hint.startswith("casrewind purge large 'my key' removes it here, too")
    for path in (b"large", b"my key"):
        purge_of(drill, path)
    drill.push()
    assert not words_on(machine.url) and sum(info.size for info in Objects(machine.url).list()) < 1_000_000


def test_with_keep_purged_a_first_push_sends_what_was_purged_elsewhere(machine, tmp_path):
    machine.save({"secret": WORD})
    machine.push()
    drill = machine.clone_to(tmp_path / "drill", "drill")
    edit = drill.save({"mine": b"m"})
    purge_of(machine)
    assert not machine.push().left and not words_on(machine.url)
    for _ in range(2):
        with pytest.raises(BasePurged):
            drill.push()
    drill.push(keep_purged=True)
    reader = Machine.with_remote(tmp_path / "reader", machine.url, "reader")
    reader.pull()
    assert reader.tree(edit.id)[b"secret"] == WORD


def test_a_purge_of_something_that_the_clone_does_not_have_stops_nothing(machine, tmp_path):
    drill = machine.clone_to(tmp_path / "drill", "drill")
    edit = drill.save({"mine": b"m"})
    machine.save({"secret": WORD})
    machine.push()
    purge_of(machine)
    machine.push()
    assert not drill.push().notes and not words_on(machine.url)
    reader = Machine.with_remote(tmp_path / "reader", machine.url, "reader")
    reader.pull()
    assert reader.tree(edit.id) == drill.tree(edit.id)


def test_an_owner_whose_holders_are_gone_can_empty_what_they_used(machine, tmp_path):
    machine.save({"secret": WORD})
    machine.push()
    drill = machine.clone_to(tmp_path / "drill", "drill")
    drill.save({"mine": b"m"})
    drill.push()
    purge_of(machine)
    done = machine.push()
    assert done.left and words_on(machine.url) and "used by drill" in done.notes[-1]
    with machine.open() as workspace:
        assert holders_of_own(machine.remote(workspace)) == ["drill"]
    done = machine.push(purge_held=True)
    assert not done.left and not words_on(machine.url) and "what drill pushed lacks it now" in done.notes[-1]


def test_a_hold_of_a_stranger_keeps_nothing_and_one_of_another_key_does(machine, tmp_path):
    found, chain = Objects(machine.url), machine.chain()
    found.put_new(f"{'ab' * 16}/hold-{chain}", os.urandom(300))
    with machine.open() as workspace:
        assert holders_of(machine.remote(workspace), found.list(), chain) == {}
    name = f"{'cd' * 16}/hold-{chain}"
    found.put_new(name, handmade.piece_of(bytes(32), name, [], handmade.table_of([]), key_number=2))
    with machine.open() as workspace:
        (who,) = holders_of(machine.remote(workspace), found.list(), chain).values()
    assert who == "cdcdcdcd, whose hold was sealed with a newer key: ask for that key"
    machine.save({"secret": WORD})
    machine.push()
    purge_of(machine)
    assert machine.push().left


def test_a_copied_store_goes_on_without_sending_its_base_again(machine, tmp_path):
    """An image with a store, started twice: the second uses what the first goes on with."""
    copies = []
    for name in ("first", "second", "third"):
        shutil.copytree(machine.home, tmp_path / name / "home")
        copies.append(Machine(tmp_path / name, machine.url, root=machine.root))
    edits = []
    for number, copy in enumerate(copies):
        edits.append(copy.save({"own": b"%d" % number}))
        done = copy.push()
        assert done.size < 20_000 and bool(done.notes) == (number > 0)
    assert len({copy.chain() for copy in copies}) == 3
    reader = Machine.with_remote(tmp_path / "reader", machine.url, "reader")
    assert not reader.pull().problems
    for copy, edit in zip(copies, edits, strict=True):
        assert reader.tree(edit.id) == copy.tree(edit.id) and reader.tree(edit.id)[b"base"] == machine.base


def test_a_purge_leaves_what_a_clone_uses_and_names_it(machine, tmp_path):
    laptop = machine.clone_to(tmp_path / "two")
    edit = laptop.save({"e": b"e"})
    laptop.push()
    with machine.open() as workspace:
        workspace.purge([b"base"])
    done = machine.push()
    assert len(done.left) == 2 and "used by" in done.notes[-1]
    reader = Machine.with_remote(tmp_path / "three", machine.url, "reader")
    (problem,) = reader.pull().problems  # the laptop still has the base
    assert problem.endswith("(after a purge there, purge here, too)") and reader.tree(edit.id) == laptop.tree(edit.id)
    with laptop.open() as workspace:
        workspace.purge([b"base"])
    assert not laptop.push().left
    machine.save({"x": b"x"}, remove=["base"])
    done = machine.push()
    assert not done.left and not done.notes
    assert all(max(piece.size for piece in pieces) < 50_000 for pieces in all_pieces_of(Objects(machine.url).list()).values()), "it is nowhere"
