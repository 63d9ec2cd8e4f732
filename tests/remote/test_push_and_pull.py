"""Push and pull between real stores: each checkpoint arrives exactly, or not at all, whatever happens to the requests."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.model import digest as digests
from casrewind.model import manifest
from casrewind.remote import probe
from casrewind.remote.base_chain import BasePurged
from casrewind.remote.piece_names import all_pieces_of
from casrewind.remote.objects import Objects
from support import packfile
from support.machines import KEY, Machine, Requests, Stop, chains_of, keys_of, objects_in, stopping
from support.unchanged import store_picture


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def machine(tmp_path, url):
    made = Machine(tmp_path / "one", url)
    made.add_remote()
    return made


@pytest.fixture
def other(tmp_path, url):
    made = Machine(tmp_path / "two", url, "laptop")
    made.add_remote()
    return made


def cut(objects, number, *, after):
    """Objects that end the program at the Nth request, before its effect or after it."""
    return Requests(objects, stopping(number, after=after))


def filled(machine, number=3):
    """Checkpoints of a machine, with small, large and repeated files."""
    random = os.urandom(3 << 20)
    saved = [machine.save({"a": b"one", "sub/b": b"two" * 1000, "large": random, "sub/deep/c": b""}, "first")]
    for step in range(number):
        saved.append(machine.save({"a": b"edit %d" % step, f"new{step}": b"%d" % step, "large": random + b"%d" % step}, f"edit {step}"))
    return saved


def assert_arrived(source, target, saved):
    """Each checkpoint of `source` is in `target`, byte for byte, as one of another machine."""
    here = target.points()
    for point in saved:
        assert here[point.id].tree == point.tree and here[point.id].domain == point.domain
        assert target.tree(point.id) == source.tree(point.id)
        assert here[point.id].more.machine.partition(".")[0] == "sandbox-4" and here[point.id].worktree != point.worktree
    assert not target.problems()


def test_what_was_pushed_arrives_exactly_and_once(machine, other):
    saved = filled(machine)
    done = machine.push()
    assert done.checkpoints == 4 and done.requests == 4 + 3 and not done.notes
    assert machine.push()[:4] == (0, 0, 0, 0)
    taken = other.pull()
    assert dict(taken.checkpoints) == {"sandbox-4": 4} and not taken.problems
    assert_arrived(machine, other, saved)
    again = other.pull()
    assert not again.checkpoints and again.requests == 1
    assert other.push().checkpoints == 0, "what was pulled is not pushed again"


def test_the_meta_of_a_save_is_pushed_and_pulled(machine, other):
    with machine.open() as workspace:
        point = workspace.save(meta={"episode": "7"}).checkpoint
    machine.push()
    other.pull()
    with other.open() as workspace:
        assert [found.id for found, _ in workspace.checkpoints(every_worktree=True, meta={"episode": "7"})] == [point.id]


def test_an_edit_is_one_request_and_little_more_than_its_bytes(machine, other):
    machine.save({f"d{n}/f{m}": os.urandom(300) for n in range(30) for m in range(30)})
    machine.push()
    edit = os.urandom(20_000)
    point = machine.save({"d3/f3": edit})
    done = machine.push()
    assert done.requests == 1 and done.size <= 1.2 * len(edit) + 4096
    other.pull()
    assert_arrived(machine, other, [point])


def test_versions_of_a_file_are_compressed_together(machine, other):
    files = {name: os.urandom(300_000) for name in ("a/x.bin", "b/y.bin")}
    saved = []
    for step in range(6):
        files = {name: data + b"%d" % step for name, data in files.items()}
        saved.append(machine.save(files))
    assert machine.push().size < 2_000_000, "a frame of 1 MiB has three versions of one file, and not two files"
    other.pull()
    assert_arrived(machine, other, saved)


def test_a_frame_of_trees_is_read_once_for_all_levels(machine, other):
    machine.save({f"d{n % 5}/e{n % 7}/f{n % 3}/g{n % 8}/{n}": b"%d" % n for n in range(2500)})
    machine.push()
    requests = other.pull().requests
    assert requests <= 6, "a list, the end of the piece, the rest of its table, the records, the trees, the contents"


def ask_server(machine):
    """The four requests of a first push, so that those that are counted are of pieces."""
    with machine.open() as workspace:
        probe.require(machine.remote(workspace))


@pytest.mark.turns(3)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_push_that_was_cut_goes_on_and_sends_little_twice(machine, other, after, monkeypatch):
    from casrewind.remote import push

    monkeypatch.setattr(push, "MOST", 1 << 19)
    saved = filled(machine)
    ask_server(machine)
    number, cuts, sent = 1, 0, 0
    while True:
        made = []
        machine.tampered = lambda objects, number=number, made=made: made.append(objects) or cut(objects, number, after=after)
        try:
            machine.push()
        except Stop:
            cuts += 1
            sent += made[0].sent_bytes
            fresh = Machine(other.place.parent / f"reader{cuts}", machine.url, "reader")
            fresh.add_remote()
            fresh.pull()
            assert not fresh.problems(), "what can be read of a push that was cut is whole"
            number = number % 3 + 1
            assert cuts < 200
            continue
        sent += made[0].sent_bytes
        break
    machine.tampered = lambda objects: objects
    assert cuts > 5
    assert dict(other.pull().checkpoints) == {"sandbox-4": 4}
    assert_arrived(machine, other, saved)
    once = sum(map(len, objects_in(machine.url).values()))
    assert sent <= 1.3 * once + 65536 or not after


@pytest.mark.parametrize("often", [1, 3, 4], ids=["once", "one in three", "one in four"])
def test_pushes_that_have_one_answer_each_get_on_behind_one_that_had_none(machine, other, often):
    """A container ends with its agent, on a slow server: a look before each put would take all the time that there is."""
    waiting = []
    ask_server(machine)
    for number in range(12):
        machine.save({"f": b"%d" % number})
        lost = number % often == 0 if often > 1 else number == 0
        machine.tampered = lambda objects, lost=lost: cut(objects, 1 if lost else 2, after=lost)
        with suppress(Stop):
            assert not machine.push().notes
        machine.tampered = lambda objects: objects
        reader = Machine.with_remote(other.place.parent / f"reader{number}", machine.url, "reader")
        reader.pull()
        waiting.append(number + 1 - len(reader.points()))
    assert max(waiting) <= 4, waiting
    done = machine.push()
    assert not done.notes and other.pull().checkpoints == {"sandbox-4": 12}
    assert len(chains_of(Objects(machine.url).list())) == 1


def test_a_put_of_a_push_that_was_cut_may_arrive_behind_the_look_of_the_next(machine, other):
    """The server has its effect late: the piece is this machine's own, and no copied store is named."""
    held = []

    class Late:
        """Objects whose first put arrives just before the second one."""

        def __init__(self, objects):
            self._objects = objects

        def __getattr__(self, name):
            return getattr(self._objects, name)

        def put_new(self, name, data):
            if not held:
                held.append((name, data))
                raise Stop
            if held[0] is not None:
                assert self._objects.put_new(*held[0])
                held[0] = None
            return self._objects.put_new(name, data)

    ask_server(machine)
    machine.tampered = Late
    saved = [machine.save({"f": b"1"})]
    with pytest.raises(Stop):
        machine.push()
    saved.append(machine.save({"f": b"2"}))
    done = machine.push()
    assert not done.notes and done.checkpoints == 2
    other.pull()
    assert_arrived(machine, other, saved)
    assert len(chains_of(Objects(machine.url).list())) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_pull_that_was_cut_goes_on(machine, other, after):
    saved = filled(machine)
    machine.push()
    number = 1
    while True:
        other.tampered = lambda objects, number=number: cut(objects, number, after=after)
        try:
            other.pull()
        except Stop:
            number += 1
            assert not other.problems()
            continue
        break
    assert number > 2
    assert_arrived(machine, other, saved)


@pytest.mark.parametrize("name", ["remote", "after"])
def test_a_machine_has_no_name_that_means_something_else(name, url, other, tmp_path):
    machine = Machine(tmp_path / "odd", url, name)
    machine.add_remote()
    point = machine.save({"a": b"1"})
    machine.push()
    other.pull()
    assert other.points()[point.id].more.machine.startswith(f"{name}.")


def test_a_copied_store_goes_on_as_a_machine_of_its_own(machine, other, tmp_path):
    machine.save({"a": b"1"})
    machine.push()
    copy = Machine(tmp_path / "copy", machine.url, root=machine.root)
    shutil.rmtree(copy.home)
    shutil.copytree(machine.home, copy.home)
    mine = machine.save({"a": b"of the first"})
    machine.push()
    theirs = copy.save({"a": b"of the copy"})
    done = copy.push()
    assert "the remote has more of this machine than this store knows" in done.notes[0] and done.checkpoints == 2
    assert sorted(other.pull().checkpoints.values()) == [1, 2]
    assert sorted(name.partition(".")[0] for name in other.pull_names()) == ["sandbox-4", "sandbox-4"]
    assert {mine.id, theirs.id} <= set(other.points())
    assert machine.push().checkpoints == 0 and not machine.problems() and not copy.problems()


def test_lost_state_is_a_new_chain_and_never_a_wrong_answer(machine, other):
    saved = filled(machine)
    machine.push()
    (directory,) = (machine.home / "data").glob("stores/*/remotes/*")
    (directory / "state").write_bytes(b"garbage")
    saved.append(machine.save({"a": b"later"}))
    assert machine.push().checkpoints == 5
    (directory / "sent").unlink()
    assert machine.push().checkpoints == 5, "without the rows nothing counts as sent"
    other.pull()
    assert_arrived(machine, other, saved)


def assert_emptied(machine, before):
    """Of the objects before only the head is what it was; the others have no content, and their names are in use."""
    after = objects_in(machine.url)
    gone = {name for name in before if name.startswith("names/") and name.split("-")[1] != machine.chain()}
    assert before.keys() - gone <= after.keys() and not gone & after.keys()
    assert {name for name in before if before[name] == after.get(name) and not name.startswith(("days/", "names/"))} == {"casrewind"}
    assert all(len(after[name]) < 400 for name in before.keys() - gone if name != "casrewind")


def test_after_a_purge_everything_is_pushed_anew_and_the_old_chain_is_emptied(machine, other):
    secret = os.urandom(40).hex().encode()
    machine.save({"a": b"1", "secret": secret})
    machine.push()
    machine.save({"a": b"2"})
    before = objects_in(machine.url)
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    done = machine.push()
    assert "purge" in done.notes[0] and not done.left
    assert_emptied(machine, before)
    other.pull()
    assert all(content == (manifest.PURGED, content[1]) for point in other.points() for path, content in other.tree(point).items() if path == b"secret")
    assert {content for point in other.points() for path, content in other.tree(point).items() if path == b"a"} == {b"1", b"2"}
    assert machine.push()[:4] == (0, 0, 0, 0)


def test_sixteen_machines_of_one_path_do_not_meet(tmp_path, url):
    root = tmp_path / "project"
    machines = []
    for number in range(16):
        machine = Machine(tmp_path / str(number), url, "sandbox", root=root)
        machine.add_remote()
        machines.append((machine, [machine.save({"f": b"%d %d" % (number, step)}, f"of machine {number}") for step in range(2)]))
    with ThreadPoolExecutor(16) as threads:  # all at once
        done = list(threads.map(lambda one: one[0].push(), machines))
    assert [found.checkpoints for found in done] == [2] * 16 and {found.notes for found in done} == {()}
    reader, _ = machines[3]
    reader.pull()
    here = reader.points()
    assert len(here) == 32
    foreign = [point for point in here.values() if point.more.machine]
    assert len({point.worktree for point in foreign}) == 15 == len({point.more.machine for point in foreign})
    for machine, saved in machines:
        for point in saved:
            assert reader.tree(point.id) == machine.tree(point.id)
    assert not reader.problems()


def test_a_file_with_the_bytes_of_a_tree_is_sent_for_both_uses(machine, other):
    machine.save({"sub/a": b"1"})
    with machine.open() as workspace:
        tree = workspace._context.store.read(workspace.checkpoint("last").tree)
    machine.save({"sub/a": b"1", "copy": tree})
    machine.push()
    (machine.root / "copy").rename(machine.root / "sub" / "copy")
    saved = machine.save({"sub/more": tree + b"x"})
    machine.push()
    other.pull()
    assert_arrived(machine, other, [saved])


def names_and_contents(name):
    return [name.encode(), name.encode("utf-16-le"), name.encode("utf-16-be"), name.encode().hex().encode()]


def test_no_object_has_a_name_a_prompt_or_a_content(machine):
    machine.save({"PrivateName.py": b"PrivateContent " * 5000, "sub/PrivateDirectory/x": b"y"}, "PrivateLabel")
    machine.push()
    machine.save({"PrivateName.py": b"PrivateContent changed"}, "PrivateLabel2")
    machine.push()
    words = ["PrivateName", "PrivateContent", "PrivateDirectory", "PrivateLabel", "sandbox-4", str(machine.root), KEY[5:]]
    found = objects_in(machine.url)
    assert len(found) == 5
    for name, data in found.items():
        for word in words:
            for form in names_and_contents(word):
                assert form not in data and form not in name.encode(), (name, word)
        for known in (b"PrivateContent " * 5000, b"y"):  # who knows a file cannot look for its digest
            assert digests.of(known) not in data and digests.of(known).hex() not in name


def test_a_damaged_piece_stops_only_its_chain_and_is_named(machine, other, tmp_path):
    saved = [machine.save({"a": b"%d" % step}) for step in range(1)]
    machine.push()
    second = machine.save({"a": b"second"})
    machine.push()
    third = Machine(tmp_path / "three", machine.url, "third")
    third.add_remote()
    theirs = third.save({"z": b"z"})
    third.push()
    path = Path(machine.url.removeprefix("file://"), machine.chain(), "0000000002-0000000002")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    taken = other.pull()
    assert dict(taken.checkpoints) == {"sandbox-4": 1, "third": 1}
    assert len(taken.problems) == 1 and "piece 2 of sandbox-4 is damaged or cut" in taken.problems[0]
    assert {saved[0].id, theirs.id} <= set(other.points()) and second.id not in other.points()
    data[20] ^= 1
    path.write_bytes(data)
    assert dict(other.pull().checkpoints) == {"sandbox-4": 1}, "the next pull takes the rest"
    path.unlink()
    fresh = Machine(tmp_path / "four", machine.url, "fourth")
    fresh.add_remote()
    machine.save({"a": b"after the gap"})
    machine.push()
    assert "piece 2 of sandbox-4 is missing" in fresh.pull().problems[0]


def test_a_pull_takes_marks_and_moves_of_the_other_machine_only(machine, other):
    own = other.save({"mine": b"1"}, "mine")
    machine.save({"a": b"1"})
    machine.push()
    other.pull()
    with machine.open() as workspace:
        workspace.pin("last", "it works")
    machine.push()
    other.pull()
    with other.open() as workspace:
        (foreign,) = [point for point in other.points().values() if point.more.machine]
        assert workspace.marks(foreign).pinned and workspace.marks(foreign).label == "it works"
        assert not workspace.marks(own).pinned


def test_only_the_newest_comes_first_and_the_others_later(machine, other):
    saved = filled(machine)
    machine.push()
    assert dict(other.pull(newest=True).checkpoints) == {"sandbox-4": 1}
    assert set(other.points()) == {saved[-1].id}
    assert dict(other.pull().checkpoints) == {"sandbox-4": 3}
    assert_arrived(machine, other, saved)


def test_the_newest_is_taken_once_and_found_from_the_end_of_its_chain(machine, other):
    for step in range(6):
        point = machine.save({"a": b"%d" % step})
        machine.push()
    assert other.pull(newest=True).requests <= 1 + 1 + 5, "a list, the newest piece, and the five in which blobs may be"
    for _ in range(2):
        again = other.pull(newest=True)
        assert not again.checkpoints and again.requests == 1 and set(other.points()) == {point.id}
    point = machine.save({"a": b"later"})
    machine.push()
    assert dict(other.pull(newest=True).checkpoints) == {"sandbox-4": 1} and point.id in other.points()
    assert dict(other.pull().checkpoints) == {"sandbox-4": 5}, "the older ones come with a pull of all"


def test_the_newest_before_a_damaged_piece_is_taken(machine, other):
    points = []
    for step in range(3):
        points.append(machine.save({"a": b"%d" % step}))
        machine.push()
    path = Path(machine.url.removeprefix("file://"), machine.chain(), "0000000003-0000000003")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    for _ in range(2):
        taken = other.pull(newest=True)
        assert len(taken.problems) == 1 and "piece 3 of sandbox-4 is damaged" in taken.problems[0]
        assert set(other.points()) == {points[1].id}
    assert dict(other.pull().checkpoints) == {"sandbox-4": 1}


def begin_chain(machine, chain):
    with machine.open() as workspace:
        files = machine.remote(workspace).files
        files.begin_chain()
        files.save(files.state._replace(chain=chain))


def test_a_pull_with_nothing_new_asks_once_and_writes_nothing(machine, other, monkeypatch):
    from casrewind.remote import pull

    machine.save({"a": b"1"})
    for number in range(20):
        begin_chain(machine, f"{number:032x}")
        machine.push()
    monkeypatch.setattr(pull, "_UNSAVED", 8)
    taken = other.pull()
    assert sum(taken.checkpoints.values()) == 1 and taken.requests == 21
    with other.open() as workspace:
        store = workspace.store_path
    before = store_picture(store)
    assert other.pull().requests == 1
    assert store_picture(store) == before, "the same files with the same times"


@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.parametrize("held", [1, 3, 9])
def test_a_list_is_read_in_parts_and_no_chain_is_left_out(tmp_path, url, place, held, monkeypatch):
    from casrewind.remote import pull

    monkeypatch.setattr(pull, "_LISTED", held)
    url = url if place == "file" else f"memory://{tmp_path.name}"
    machine, other = Machine(tmp_path / "one", url), Machine(tmp_path / "two", url)
    machine.add_remote()
    other.add_remote()
    for number in (2, 0, 1, 3):
        begin_chain(machine, f"{number:032x}")
        for step in range(2):
            machine.save({"a": b"%d" % number, "b": b"%d" % step})
            machine.push()
    assert sum(other.pull().checkpoints.values()) == 8
    with other.open() as workspace:
        assert {chain: read.last for chain, read in other.remote(workspace).files.state.chains.items()} == {
            f"{number:032x}": 2 for number in range(4)
        }
    assert machine.clone_to(tmp_path / "three").cloned.point.id in machine.points()


@pytest.mark.parametrize("held", [1, 12 << 20])
def test_the_end_of_each_piece_is_read_once_if_all_ends_are_small(machine, other, held, monkeypatch):
    from casrewind.remote import chain

    monkeypatch.setattr(chain, "_AHEAD", 2)
    monkeypatch.setattr(chain, "_HELD", held)
    for step in range(8):
        point = machine.save({"a": b"%d" % step, f"n{step}": b"%d" % step})
        machine.push()
    taken = other.pull()
    assert taken.requests == 9 if held > 1 else taken.requests > 9, "a list and eight pieces"
    assert dict(taken.checkpoints) == {"sandbox-4": 8} and other.tree(point.id) == machine.tree(point.id)


@pytest.mark.parametrize("digits", [4, 20])
def test_machines_of_one_name_whose_chains_begin_alike_have_two_names(tmp_path, url, other, digits):
    for number in range(3):
        machine = Machine(tmp_path / f"{number}", url, "sandbox")
        machine.add_remote()
        machine.save({"a": b"%d" % number})
        begin_chain(machine, "a" * digits + f"{number:x}" * (32 - digits))
        machine.push()
    assert len(other.pull().checkpoints) == len(other.pull_names()) == 3


def test_a_clone_has_the_files_one_row_and_goes_on(machine, tmp_path):
    saved = filled(machine)
    machine.push()
    laptop = machine.clone_to(tmp_path / "laptop")
    assert laptop.cloned.point.id == saved[-1].id and laptop.cloned.files == saved[-1].files and not laptop.cloned.problems
    assert {point.id: point.more.machine for point in laptop.points().values()} == {saved[-1].id: ""}
    with laptop.open() as workspace:
        assert not workspace.save().created, "the files are those of the checkpoint"
    edit = laptop.save({"a": b"on the laptop"})
    assert laptop.push().checkpoints == 2
    assert dict(machine.pull().checkpoints) == {"laptop": 1}
    assert machine.tree(edit.id)[b"a"] == b"on the laptop"
    assert dict(laptop.pull().checkpoints) == {"sandbox-4": 3}, "the older ones come with a pull"


def test_a_clone_is_not_taken_for_what_its_directory_was_made_from_before(machine, tmp_path):
    from casrewind.remote import clone
    from casrewind.remote.remote_config import RemoteConfig

    [point, *_] = filled(machine)
    laptop = Machine(tmp_path / "laptop", machine.url, "laptop")
    place = Path(laptop.root)
    with machine.open() as workspace:
        workspace.materialise(point, place)
        for name in os.listdir(place):
            if name != ".casrewind-origin":
                (shutil.rmtree if (place / name).is_dir() else os.unlink)(place / name)
        assert workspace.take(place, dry_run=True).actions, "the empty directory has its id"
        machine.push()
        clone.clone(RemoteConfig(machine.url, "laptop"), str(place), laptop.settings, laptop.environ)
        with pytest.raises(errors.CheckpointNotFound):
            workspace.take(place)


def test_a_clone_of_all_has_all_rows(machine, tmp_path):
    saved = filled(machine)
    with machine.open() as workspace:
        workspace.pin(saved[1], "kept")
    machine.push()
    laptop = machine.clone_to(tmp_path / "laptop", everything=True)
    assert {point.id: point.worktree for point in laptop.points().values()} == dict.fromkeys(
        [point.id for point in saved], laptop.points()[saved[0].id].worktree
    )
    with laptop.open() as workspace:
        assert workspace.marks(saved[1].id).label == "kept"
        assert workspace.checkpoint("last").id == saved[-1].id
    for point in saved:
        assert laptop.tree(point.id) == machine.tree(point.id)
    assert laptop.pull().checkpoints == {}


def test_a_clone_never_writes_over_files(machine, tmp_path):
    machine.save({"a": b"1"})
    machine.push()
    place = tmp_path / "laptop"
    laptop = Machine(place, machine.url)
    (laptop.root / "mine").write_bytes(b"mine")
    from casrewind.remote import clone
    from casrewind.remote.remote_config import RemoteConfig

    with pytest.raises(errors.ContentInTheWay):
        clone.clone(RemoteConfig(machine.url, "x"), str(laptop.root), laptop.settings, laptop.environ)
    assert os.listdir(laptop.root) == ["mine"] and not (laptop.home / "data").exists()


def test_a_failed_clone_leaves_nothing(machine, tmp_path):
    filled(machine)
    machine.push()
    piece = next(info for pieces in chains_of(Objects(machine.url).list()).values() for info in pieces)
    path = machine.url.removeprefix("file://") + "/" + piece.name
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes((byte[0] ^ 1,)))
    with pytest.raises(errors.CasrewindError):
        machine.clone_to(tmp_path / "laptop")
    assert not (tmp_path / "laptop" / "project").exists()
    assert not list((tmp_path / "laptop" / "home" / "data").glob("stores/*/ledger"))


def test_another_key_is_refused_in_words(machine, other, tmp_path):
    from casrewind.remote import connect, remote_config
    from casrewind.remote.remote_config import RemoteConfig

    third = Machine(tmp_path / "third", machine.url)
    with third.open() as workspace, pytest.raises(errors.RemoteError, match="this is not the key of"):
        connect.add(workspace._context.store, RemoteConfig(machine.url, "x"), {"CASREWIND_REMOTE_KEY": remote_config.key_as_text(b"other" + bytes(27))})
    with third.open() as workspace:
        assert remote_config.find(workspace._context.store) is None


def test_a_purge_in_a_copied_store_does_not_delete_what_the_first_goes_on_with(machine, tmp_path, other):
    machine.save({"a": b"1", "secret": b"s"})
    machine.push()
    copy = Machine(tmp_path / "copy", machine.url, root=machine.root)
    shutil.rmtree(copy.home)
    shutil.copytree(machine.home, copy.home)
    saved = machine.save({"a": b"2"})
    machine.push()
    with copy.open() as workspace:
        workspace.purge([b"secret"])
    assert len(copy.push().left) == 2, "it names what it leaves"
    assert not copy.push().left and copy.push().requests == 0, "once: the chain is that of the other machine now"
    for reader in (other, copy):
        reader.pull()
        assert reader.tree(saved.id) == machine.tree(saved.id)


@pytest.mark.parametrize("whose", ["first", "copy"])
def test_a_store_that_is_behind_a_purge_goes_on_with_a_chain_of_its_own(machine, other, tmp_path, whose):
    """A purge makes no name free: the push of a store that has not seen it would go on with a chain that has no beginning."""
    machine.save({"a": b"1"})
    machine.push()
    copy = Machine(tmp_path / "copy", machine.url, root=machine.root)
    shutil.rmtree(copy.home)
    shutil.copytree(machine.home, copy.home)
    ahead, behind = (machine, copy) if whose == "copy" else (copy, machine)
    ahead.save({"a": b"2", "secret": b"s"})
    ahead.push()
    with ahead.open() as workspace:
        workspace.purge([b"secret"])
    assert not ahead.push().left
    edit = behind.save({"a": b"of the one behind"}, remove=["secret"])
    done = behind.push()
    assert "a copy of this store has ended what both had pushed" in done.notes[0] and done.checkpoints == 2
    assert not other.pull().problems and other.tree(edit.id) == behind.tree(edit.id)


def test_a_dry_run_after_a_purge_counts_what_the_push_sends_anew(machine):
    machine.save({"secret": b"hunter2", "kept": b"kept"})
    machine.push()
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    planned = machine.push(dry_run=True)
    sent = machine.push()
    assert (planned.checkpoints, planned.blobs) == (sent.checkpoints, sent.blobs) == (1, sent.blobs) and sent.blobs > 1


def test_a_purge_before_anything_arrived_leaves_no_object(machine):
    machine.save({"a": b"1", "secret": b"s"})
    machine.tampered = lambda objects: cut(objects, 1, after=False)
    for _ in range(2):
        with pytest.raises(Stop):
            machine.push()
        with machine.open() as workspace:
            workspace.purge([b"secret"])
        machine.save({"secret": b"another"})
    machine.tampered = lambda objects: objects
    assert not machine.push().notes
    assert [name for name in objects_in(machine.url) if not name.startswith(("days/", "names/"))] == ["casrewind", f"{machine.chain()}/0000000001-0000000001"]


def test_a_purge_in_a_copied_store_ends_the_chain_for_the_first(machine, tmp_path, other):
    """The first has pushed nothing since: it must not go on with a chain that is deleted."""
    saved = [machine.save({"a": b"1", "secret": b"s"}), machine.save({"a": b"2"})]
    machine.push()
    early = Machine(tmp_path / "early", machine.url, "early")
    early.add_remote()
    early.pull()
    copy = Machine(tmp_path / "copy", machine.url, root=machine.root)
    shutil.rmtree(copy.home)
    shutil.copytree(machine.home, copy.home)
    with copy.open() as workspace:
        workspace.purge([b"secret"])
    assert not copy.push().left
    saved.append(machine.save({"a": b"3"}))
    with pytest.raises(BasePurged, match="purge secret"):
        machine.push()
    assert machine.push(keep_purged=True).checkpoints == 3, "everything anew"
    for reader in (other, early):
        (problem,) = reader.pull().problems
        assert all(point.id in problem for point in saved[:2]), "the copy has them without the secret"
        assert problem.endswith("(after a purge there, purge here, too)")
        assert {point.id for point in saved} <= set(reader.points())
    assert other.pull().requests == early.pull().requests == 1, "the end of the chain is read once"
    assert early.tree(saved[0].id) == machine.tree(saved[0].id)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_purge_after_a_push_that_was_cut_empties_all_that_was_pushed(machine, other, after):
    machine.save({"a": b"1", "secret": b"s"})
    machine.tampered = lambda objects: cut(objects, 1, after=after)
    with pytest.raises(Stop):
        machine.push()
    machine.tampered = lambda objects: objects
    before = objects_in(machine.url)
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    assert not machine.push().left
    assert_emptied(machine, before)
    assert dict(other.pull().checkpoints) == {"sandbox-4": 1}


def test_a_chain_that_its_machine_deletes_during_a_pull_is_said(machine, other):
    machine.save({"a": os.urandom(100_000), "secret": b"s"})
    machine.push()

    def purge_and_push(number, after):
        if number == 1 and after:
            with machine.open() as workspace:
                workspace.purge([b"secret"])
            machine.push()

    other.tampered = lambda objects: Requests(objects, purge_and_push)
    taken = other.pull()
    assert len(taken.problems) == 1 and "was deleted just now: pull again" in taken.problems[0]
    other.tampered = lambda objects: objects
    assert dict(other.pull().checkpoints) == {"sandbox-4": 1}
    assert not other.problems()


def test_a_piece_of_a_newer_casrewind_stops_only_its_chain(machine, other, tmp_path):
    saved = machine.save({"a": b"1"})
    machine.push()
    machine.save({"a": b"2"})
    machine.push()
    third = Machine(tmp_path / "three", machine.url, "third")
    third.add_remote()
    third.save({"z": b"z"})
    third.push()
    path = Path(machine.url.removeprefix("file://"), machine.chain(), "0000000002-0000000002")
    path.chmod(0o600)
    path.write_bytes(b"CRR3" + path.read_bytes()[4:-4] + b"CRR3")
    taken = other.pull()
    assert taken.problems == ("piece 2 of sandbox-4 was written by a newer casrewind: upgrade casrewind",)
    assert dict(taken.checkpoints) == {"sandbox-4": 1, "third": 1} and saved.id in other.points()


def test_machines_of_one_name_have_their_names_for_good(tmp_path, url, other):
    machines = [Machine(tmp_path / name, url, "sandbox") for name in "ab"]
    for number, machine in enumerate(machines):
        machine.add_remote()
        machine.save({"a": b"%d" % number})
        machine.push()
    assert len(other.pull(newest=True).checkpoints) == 2
    names = {point.worktree: point.more.machine for point in other.points().values()}
    assert len(set(names.values())) == 2
    for machine in machines[::-1]:
        machine.save({"a": b"later"})
        machine.push()
    assert set(other.pull().checkpoints) == set(names.values())
    assert {(point.worktree, point.more.machine) for point in other.points().values()} == set(names.items())


def test_without_conversations_transcripts_and_cursors_stay_at_home(machine, other):
    import json

    from casrewind import agents
    from casrewind.agents import event as events
    from casrewind.upkeep import agent_event
    from casrewind.remote import remote_config

    transcript = machine.home / ".claude" / "projects" / "x" / "5a2a4b1e-0000-4000-8000-000000000001.jsonl"
    transcript.parent.mkdir(parents=True)
    session = transcript.stem
    transcript.write_text(json.dumps({"type": "user", "sessionId": session, "uuid": "u1", "cwd": str(machine.root), "message": {"content": "private words"}}) + "\n")
    with machine.open() as workspace:
        payload = {
            "hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": str(machine.root), "prompt": "a prompt",
            "transcript_path": str(transcript),
        }  # fmt: skip
        event = events.read_event(agents.load_client("claude"), json.dumps(payload).encode(), machine.environ)
        saved = agent_event.record_event(workspace._context, event, 0, (str(machine.home),), transcripts=True).checkpoint
        store = workspace._context.store
        directory, found = remote_config.need(store)
        assert saved.cursor and saved.transcript is not None
        remote_config.write(store, bytes.fromhex(os.path.basename(directory)), found._replace(conversations=False), None, Path(directory, remote_config.HEAD).read_bytes())
    assert machine.push().checkpoints == 1
    other.pull()
    here = other.points()[saved.id]
    assert here.prompt == "a prompt" and not here.cursor and here.transcript is None
    with other.open() as workspace, pytest.raises(errors.StoreDamaged):
        workspace._context.store.read(saved.transcript.digest)


def test_a_push_leaves_out_what_the_last_accepted_rules_ignored(machine, other):
    """A rule file that becomes too heavy is refused; what it ignored before is not captured, so it is not pushed either."""
    from casrewind.gitignore.rules import MOST_BYTES

    machine.save({".gitignore": b"secret\n", "secret": b"hunter2", "a": b"1"})
    last = machine.save({".gitignore": b"#" * (MOST_BYTES + 10), "a": b"2"})
    machine.push()
    other.pull()
    assert b"a" in other.tree(last.id) and all(b"secret" not in other.tree(identity) for identity in other.points())


def test_no_blob_is_sent_twice_by_one_chain_nor_by_a_clone_that_has_it(machine, tmp_path):
    from casrewind.remote.chain import open_piece

    filled(machine)
    machine.push()
    for step in range(3):
        machine.save({"a": b"edit %d" % step, "again": b"edit %d" % step, f"d{step}/b": b"two" * 1000})
        machine.push()
    laptop = machine.clone_to(tmp_path / "laptop")
    laptop.save({"a": b"edit 2", "more": b"x"})
    laptop.push()
    objects = Objects(machine.url)
    sent = [
        (blob.use, blob.digest)
        for pieces in chains_of(objects.list()).values()
        for piece in pieces for blob in open_piece(objects, keys_of(machine.url), piece.name, piece.size).table.blobs
    ]  # fmt: skip
    assert len(sent) == len(set(sent)) > 5


def test_a_damaged_checkpoint_is_left_out_and_named_and_the_others_go(machine, other):
    """And when its content can be read again, it goes, too."""
    first = machine.save({"a": b"1", "b": b"same"})
    hurt = machine.save({"a": b"damaged " * 40, "sub/c": b"x"})
    last = machine.save({"a": b"3"}, remove=["sub/c"])
    with machine.open() as workspace:
        ((path, at, length),) = packfile.records(workspace.store_path)[dict(workspace.entries(hurt))[b"a"].digest]
    path = Path(path)
    sound = path.read_bytes()
    packfile.flip(path, at + length - 1)
    done = machine.push()
    assert done.checkpoints == 2 and done.damaged == (hurt.id,)
    again = machine.push()
    assert again.requests == 0 and again.damaged == (hurt.id,), "it is named each time, and nothing is sent again"
    other.pull()
    assert set(other.points()) == {first.id, last.id} and not other.problems()
    path.write_bytes(sound)
    later = machine.save({"a": b"4"})
    done = machine.push()
    assert done.checkpoints == 2 and not done.damaged
    other.pull()
    assert_arrived(machine, other, [first, hurt, last, later])
    assert machine.push()[:4] == (0, 0, 0, 0)
