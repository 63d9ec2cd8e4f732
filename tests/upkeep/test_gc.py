"""gc on real stores: what it keeps is whole, what it drops is gone, and it takes nothing that somebody needs."""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import pytest

from casrewind import errors
from casrewind.model import manifest, retention
from casrewind.model.manifest import DIR
from casrewind.model.retention import Limits
from casrewind.store.sweep import Sweep
from support import unprivileged
from casrewind.workspace import open as opened
from support.command import Command
from support.gc_checks import Records, checkpoint_picture, packs_of, run_and_kill
from support.picture import differences, picture
from support.store_checks import leftovers, read_everything
from support.stores import LockHolder, nth_newest
from support.trees import plant
from support.unchanged import store_picture

TIGHT = Limits(max_age=0.0, max_count=1)
NOTHING = Limits(None, None)
BEFORE_GC = 0.03
"""Seconds that a directory must have rested before the stat index believes its stamp."""


def newest(count):
    return Limits(None, count)


def noise(seed, size):
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def save(workspace, root, records):
    """save(tree, **more): plant, save, note; the checkpoint."""

    def work(tree, message="", **more):
        plant(root, tree)
        return records.note(workspace, workspace.save(message, **more))

    return work


def bytes_of(store):
    """The bytes of all packs."""
    return b"".join(path.read_bytes() for path in sorted(pathlib.Path(store, "packs").iterdir()))


def ids(workspace):
    return {point.id for point, _ in workspace.checkpoints(every_worktree=True)}


def without_index(workspace, settings):
    """The same workspace after its index was lost."""
    shutil.rmtree(os.path.join(workspace.store_path, "index"))
    return opened(workspace.root.path, settings, create=False)


# -- what stays is whole, what goes is gone


def test_what_is_kept_restores_exactly_and_what_is_dropped_frees_its_bytes(workspace, save, records, settings):
    points = [
        save({"same": b"s", f"d{n % 3}/only-{n}": noise(n, 50_000), "big": noise(n // 4, 1_200_000), "e/deep/er": b"%d" % n})
        for n in range(8)
    ]
    before = workspace.store_path, sum(packs_of(workspace.store_path).values())
    found = workspace.gc(newest(3))
    assert [item.checkpoint.id for item in found.dropped] == [point.id for point in points[4::-1]]
    assert found.kept == 3
    assert records.check(workspace) == {point.id for point in points[5:]}
    # of the big file one version of two is left; all the small files are in the newest checkpoint still
    assert before[1] - sum(packs_of(workspace.store_path).values()) > 1_100_000
    with without_index(workspace, settings) as again:
        assert records.check(again) == {point.id for point in points[5:]}
    workspace.restore(workspace.checkpoint(points[5].id))
    assert picture(workspace.root.path) == records.pictures[points[5].id]


def test_dropped_files_leave_no_byte(workspace, save, root):
    save({"secret": noise(1, 3000), "kept": b"k"})
    os.unlink(root / "secret")
    save({"kept": b"kk"})
    assert noise(1, 3000)[:500] in bytes_of(workspace.store_path)
    workspace.gc(newest(1))
    assert noise(1, 3000)[:500] not in bytes_of(workspace.store_path)


def test_a_second_run_frees_nothing_and_touches_no_pack(workspace, save):
    for n in range(6):
        save({"a": noise(n, 20_000), f"b{n}": b"%d" % n})
    workspace.gc(newest(2))
    packs, ledger = packs_of(workspace.store_path), os.stat(os.path.join(workspace.store_path, "ledger")).st_ino
    again = workspace.gc(newest(2))
    assert again.dropped == ()
    assert packs_of(workspace.store_path) == packs
    assert os.stat(os.path.join(workspace.store_path, "ledger")).st_ino == ledger
    assert again.bytes_before - again.bytes_after < 4096


def test_a_checkpoint_that_was_dropped_is_not_found_and_its_number_goes_to_the_next(workspace, save):
    points = [save({"a": b"%d" % n}) for n in range(4)]
    workspace.gc(newest(2))
    with pytest.raises(errors.CheckpointNotFound):
        workspace.checkpoint(points[0].id)
    assert workspace.checkpoint("prev").id == points[2].id
    assert [point.seq for point, _ in workspace.checkpoints()] == [points[3].seq, points[2].seq]


# -- what the limits do not touch


def test_pins_and_labels_stay_and_those_that_lost_theirs_go(workspace, save, records, settings):
    plain = save({"a": b"1"})
    labelled = save({"a": b"2"}, "a label")
    pinned = save({"a": b"3"}, pin=True)
    later = save({"a": b"4"})
    workspace.pin(later)
    named = save({"a": b"5"})
    workspace.pin(named, "named afterwards")
    released = save({"a": b"5b"}, "a label that keeps it no more")
    workspace.unpin(released)
    unpinned = save({"a": b"6"}, pin=True)
    workspace.unpin(unpinned)
    last = save({"a": b"7"})
    found = workspace.gc(TIGHT)
    assert {item.checkpoint.id for item in found.dropped} == {plain.id, released.id, unpinned.id}
    stay = {labelled.id, pinned.id, later.id, named.id, last.id}
    assert records.check(workspace) == stay
    workspace.unpin(workspace.checkpoint(pinned.id))
    workspace.gc(TIGHT)
    assert records.check(workspace) == stay - {pinned.id}
    with without_index(workspace, settings) as again:
        assert records.check(again) == stay - {pinned.id}


def test_a_described_run_is_not_exempt_and_a_named_one_is(casrewind, root):
    plant(root, {"a": b"1"})
    casrewind("run", "--", "sh", "-c", f"echo 2 > '{root}/a'", code=0)
    casrewind("run", "-m", "named", "--", "sh", "-c", f"echo 3 > '{root}/a'", code=0)
    casrewind("run", "--", "sh", "-c", f"echo 4 > '{root}/a'", code=0)
    casrewind("save", code=0)
    casrewind("gc", "--max-count", "1", "--max-age", "0s", code=0)
    labels = [point["label"] for point in casrewind.json("list", "--all")["checkpoints"]]
    assert [label for label in labels if label and "named" in label] == ["after: named", "before: named"]
    assert len(labels) == 4  # and the newest of all, with the other side of its turn


def test_the_newest_of_two_roots_that_share_a_store_stay(tmp_path, settings, records):
    settings = settings._replace(store=str(tmp_path / "shared"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with opened(str(tmp_path / name), settings) as workspace:
            for n in range(4):
                plant(workspace.root.path, {"a": b"%s %d" % (name.encode(), n), f"only-{n}": noise(n, 3000)})
                point = records.note(workspace, workspace.save())
    with opened(str(tmp_path / "one"), settings) as workspace:
        own = workspace.checkpoints()[0][0]
        workspace.gc(TIGHT)
        assert records.check(workspace) == {own.id, point.id}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git, to make a linked worktree")
def test_the_newest_of_each_linked_worktree_stays(tmp_path, root, settings, records):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "x")
    git("worktree", "add", str(tmp_path / "linked"))
    last = {}
    for place in (root, tmp_path / "linked"):
        with opened(str(place), settings) as workspace:
            for n in range(3):
                plant(place, {"a": b"%s %d" % (place.name.encode(), n)})
                last[place] = records.note(workspace, workspace.save()).id
            store = workspace.store_path
    with opened(str(root), settings) as workspace:
        assert workspace.store_path == store
        workspace.gc(TIGHT)
        assert records.check(workspace) == set(last.values())


def test_undo_and_redo_survive_the_tightest_limits(workspace, save, root, settings):
    points = [save({"a": b"%d" % n, f"dir-{n}/x": noise(n, 2000), "big": noise(n, 1_100_000)}) for n in range(3)]
    for n in range(20):
        save({"filler": b"%d" % n})
    plant(root, {"unsaved": b"edit"})
    states = []
    for point in points:
        states.append(picture(root, mtimes=True))
        workspace.restore(point)
    end = picture(root, mtimes=True)
    workspace.gc(TIGHT)
    with without_index(workspace, settings) as again:
        again.gc(TIGHT)
        read_everything(again)
        for state in reversed(states):
            again.undo()
            assert differences(picture(root, mtimes=True), state) == {}
        again.gc(TIGHT)
        for state in (*states[1:], end):
            again.redo()
            assert differences(picture(root, mtimes=True), state) == {}
        again.gc(TIGHT)
        again.undo()
        assert differences(picture(root, mtimes=True), states[-1]) == {}
        assert not again.verify().problems


def test_the_restores_beyond_the_last_fifty_are_let_go_of(workspace, save, root):
    one, two = save({"a": b"one"}), save({"a": b"two"})
    plant(root, {"edited": noise(1, 2000)})
    for number in range(53):
        workspace.restore(two if number % 2 else one)
    workspace.gc(TIGHT)
    safety = [point for point, _ in workspace.checkpoints() if point.trigger == "safety"]
    assert len(safety) == 50
    for _ in range(50):
        workspace.undo()
    assert (root / "a").read_bytes() == b"one"  # as after the third of the restores
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()


@pytest.mark.parametrize("at", [2, 14, 40])
def test_an_interrupted_restore_can_be_finished_and_taken_back_after_gc(casrewind, settings, root, tmp_path, at):
    with opened(str(root), settings) as workspace:
        plant(root, {f"d{n % 5}/{n}": noise(n, 800) for n in range(30)})
        plant(root, {"big": noise(99, 1_200_000)})
        target = workspace.save().checkpoint
        then = picture(root, mtimes=True)
        shutil.rmtree(root / "d0")
        plant(root, {f"d{n % 5}/{n}": b"now %d" % n for n in range(10, 40)})
        plant(root, {"big": noise(98, 1_300_000)})
        for n in range(5):
            plant(root, {"since": b"%d" % n})
            workspace.save()
        now = picture(root, mtimes=True)
        store = workspace.store_path
    assert run_and_kill(casrewind, store, at, "restore", target.id, "--yes")
    left = picture(root, mtimes=True)
    assert at == 2 or left not in (then, now)
    report = casrewind.json("gc", "--max-age", "0s", "--max-count", "1")
    assert report["dropped"] > 0
    assert target.id not in {point["id"] for point in report["checkpoints"]}
    assert differences(picture(root, mtimes=True), left) == {}
    for place in (root, settings.home):
        shutil.copytree(place, str(place) + ".kept", symlinks=True)
    for way, wanted in (("--continue", then), ("--abort", now)):
        for place in (root, settings.home):
            shutil.rmtree(place)
            shutil.copytree(str(place) + ".kept", place, symlinks=True)
        casrewind("restore", way, code=0)
        assert differences(picture(root, mtimes=True), wanted) == {}
        assert not leftovers(root)
        if way == "--continue":
            casrewind("gc", "--max-age", "0s", "--max-count", "1", code=0)
            casrewind("undo", "--yes", code=0)
            assert differences(picture(root, mtimes=True), now) == {}
        assert casrewind.json("verify")["ok"]


# -- traps


def tree_below(workspace, point, path):
    """The bytes of the tree of a directory of a checkpoint."""
    store = workspace._context.store
    data = store.read(point.tree)
    for name in path.encode().split(b"/"):
        entry = dict(manifest.decode_tree(data))[name]
        assert entry.kind == DIR
        data = store.read(entry.digest)
    return data


def test_a_file_with_the_bytes_of_a_tree_does_not_hide_that_tree(workspace, save, root, records):
    point = save({"d/inner/x": noise(1, 3000), "d/inner/y": b"y"})
    twin = tree_below(workspace, point, "d/inner")
    whole = workspace._context.store.read(point.tree)
    save({"aa-twin": twin, "zz-twin": twin, "d/aa-twin": twin, "whole": whole})
    shutil.rmtree(root / "d")
    save({"last": b"l"})
    workspace.gc(newest(3))
    assert len(records.check(workspace)) == 3
    workspace.gc(newest(1))
    assert len(records.check(workspace)) == 1


def test_a_file_with_the_bytes_of_a_tree_does_not_keep_that_tree_in_the_stat_cache(workspace, save, root, tmp_path, records):
    point = save({"a/inner/x": noise(1, 3000), "a/inner/y": b"y"})
    time.sleep(BEFORE_GC)
    workspace.save(rehash=False)
    twin = tree_below(workspace, point, "a/inner")
    os.rename(root / "a", tmp_path / "outside")
    save({"twin": twin})
    workspace.gc(newest(1))
    os.rename(tmp_path / "outside", root / "a")
    back = records.note(workspace, workspace.save())
    assert back.id in records.check(workspace)
    read_everything(workspace)


@pytest.mark.parametrize("through_bare_save", [False, True])
def test_a_directory_that_was_away_during_gc_is_saved_whole_again(
    workspace, save, root, tmp_path, records, through_bare_save
):
    save({"a/b/c/file": noise(1, 5000), "a/b/other": b"o", "a/big": noise(2, 1_200_000), "stays/x": b"x"})
    time.sleep(BEFORE_GC)
    save({"more": b"m"})  # the stamps are no longer too young: they are remembered now
    os.rename(root / "a", tmp_path / "outside")
    save({"more": b"n"})
    if through_bare_save:
        time.sleep(BEFORE_GC)
        assert not workspace.save().created
    workspace.gc(newest(1))
    os.rename(tmp_path / "outside", root / "a")
    back = records.note(workspace, workspace.save())
    assert back.id in records.check(workspace)
    workspace.restore(back)
    read_everything(workspace)


def test_stamps_that_a_bare_save_remembers_name_only_what_stays(workspace, save, root, records):
    """Restoring and touching makes equal states with other stamps, whose trees are stored by no checkpoint that stays."""
    first = save({"a/b/x": noise(1, 3000), "a/y": b"y"})
    save({"a/b/x": noise(2, 3000)})
    os.utime(root / "a/b/x", ns=(1, 10**18))
    time.sleep(BEFORE_GC)
    assert not workspace.save().created  # the tree with the new mtime is stored by nothing
    workspace.gc(newest(1))
    assert not workspace.save().created
    plant(root, {"c": b"c"})
    third = records.note(workspace, workspace.save())
    assert third.id in records.check(workspace)
    plant(root, {"a/b/x": noise(1, 3000)})  # what was garbage is stored again
    again = records.note(workspace, workspace.save())
    assert {third.id, again.id} <= records.check(workspace)
    assert first.id not in ids(workspace)
    read_everything(workspace)


def test_what_was_garbage_is_stored_again_and_what_is_shared_stays(workspace, save, root, records):
    files = {"x": noise(1, 4000), "d/big": noise(2, 1_300_000), "d/e/y": b"small"}
    save(files)
    index = os.stat(os.path.join(workspace.store_path, "index", "data.mdb")).st_ino
    shutil.rmtree(root / "d")
    os.unlink(root / "x")
    save({"other": b"o"})
    for _ in range(3):
        workspace.gc(newest(1))
        save(files)
        save({"between": b"b"})
        workspace.gc(newest(2))
        records.check(workspace)
        shutil.rmtree(root / "d")
        os.unlink(root / "x")
        save({"other": b"o"})
    read_everything(workspace)
    # nothing that gc left in the index made anybody throw it away
    assert os.stat(os.path.join(workspace.store_path, "index", "data.mdb")).st_ino == index


# -- packs


def test_a_pack_that_is_there_twice_goes_and_nothing_is_lost(workspace, save, records, settings):
    points = [save({f"f{n}": noise(n, 9000), "a": b"%d" % n}) for n in range(3)]
    store = workspace.store_path
    size = sum(packs_of(store).values())
    for number, name in enumerate(sorted(packs_of(store))):
        shutil.copy(os.path.join(store, "packs", name), os.path.join(store, "packs", f"{number:020x}.pack"))
    for name in sorted(packs_of(store))[:2]:
        shutil.copy(os.path.join(store, "packs", name), os.path.join(store, "packs", f"{'f' * 19}{name[19]}.pack"))
    with without_index(workspace, settings) as again:
        assert sum(packs_of(store).values()) > 2 * size
        again.gc(NOTHING)
        assert sum(packs_of(store).values()) <= size
        assert records.check(again) == {point.id for point in points}
        read_everything(again)
    with without_index(workspace, settings) as again:
        assert records.check(again) == {point.id for point in points}


def test_of_two_copies_of_a_blob_the_sound_one_stays(workspace, save, records, settings):
    point = save({"f": noise(1, 9000)})
    store = workspace.store_path
    (name,) = packs_of(store)
    for twin in ("0" * 20, "f" * 20):
        data = pathlib.Path(store, "packs", name).read_bytes()
        pathlib.Path(store, "packs", f"{twin}.pack").write_bytes(data.replace(noise(1, 9000)[:100], bytes(100)))
    with without_index(workspace, settings) as again:
        again.gc(NOTHING)
    assert noise(1, 9000) in bytes_of(store)
    assert point.id in ids(workspace)


def test_small_packs_become_few(workspace, save, records):
    points = [save({f"f{n}": noise(n, 300), "a": b"%d" % n}, f"keep {n}") for n in range(40)]
    assert len(packs_of(workspace.store_path)) == 40
    workspace.gc(NOTHING)
    assert len(packs_of(workspace.store_path)) <= 4
    assert len(records.check(workspace)) == len(points)
    for number in range(3):  # few small ones are not worth the work, and never become many
        save({"more": b"%d" % number}, "more")
        workspace.gc(NOTHING)
        assert len(packs_of(workspace.store_path)) <= 4


def test_packs_that_nothing_names_go(workspace, save, records, tmp_path, settings):
    point = save({"a": b"own"})
    (tmp_path / "foreign").mkdir()
    plant(tmp_path / "foreign", {"x": noise(5, 300_000)})
    with opened(str(tmp_path / "foreign"), settings) as other:
        other.save()
        for name in packs_of(other.store_path):  # as a save leaves it that was killed before it could publish
            shutil.copy(os.path.join(other.store_path, "packs", name), os.path.join(workspace.store_path, "packs", name))
    found = workspace.gc(NOTHING)
    assert found.bytes_before - found.bytes_after > 250_000
    assert records.check(workspace) == {point.id}
    assert sum(packs_of(workspace.store_path).values()) < 4000


def test_what_a_killed_process_left_in_tmp_goes(workspace, save):
    save({"a": b"1"})
    stray = os.path.join(workspace.store_path, "tmp", "casrewind-draft-abcdef012345.pack")
    with open(stray, "wb") as file:
        file.write(noise(1, 5000))
    workspace.gc(NOTHING)
    assert os.listdir(os.path.join(workspace.store_path, "tmp")) == []


# -- what others do meanwhile, at the worst moment


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("again", [False, True])
def test_garbage_that_is_saved_again_while_packs_are_copied_stays(
    workspace, save, root, settings, records, monkeypatch, moment, again
):
    files = {"x": noise(1, 4000), "d/e/y": b"small", "d/big": noise(2, 1_300_000)}
    for n in range(3):
        save({**files, f"live-{n}": noise(10 + n, 3000)})
    shutil.rmtree(root / "d")
    os.unlink(root / "x")
    save({"last": b"l"})
    copy = Sweep.copy_reachable
    met = []

    def meanwhile():
        if met and not again:
            return
        met.append(1)
        with opened(str(root), settings) as other:
            plant(root, {**files, "number": b"%d" % len(met)})
            records.note(other, other.save())

    def watched(self, group, marked):
        if moment == "before":
            meanwhile()
        copied = copy(self, group, marked)
        if moment == "after":
            meanwhile()
        return copied

    monkeypatch.setattr(Sweep, "copy_reachable", watched)
    workspace.gc(newest(1))
    monkeypatch.undo()
    assert met
    assert len(records.check(workspace)) == 1 + len(met)
    with without_index(workspace, settings) as later:
        assert len(records.check(later)) == 1 + len(met)
        later.gc(newest(1))
        assert len(records.check(later)) == 1
        read_everything(later)


@pytest.mark.parametrize("verb", ["pin", "pin and label", "restore"])
def test_what_becomes_exempt_after_the_decision_stays(workspace, save, root, settings, records, monkeypatch, verb):
    points = [save({"a": noise(n, 3000)}) for n in range(4)]
    decide = retention.decide
    met = []

    def watched(*arguments):
        found = decide(*arguments)
        if not met:
            met.append(1)
            with opened(str(root), settings) as other:
                if verb == "restore":
                    other.restore(points[0])
                else:
                    other.pin(points[0], "a label" if verb == "pin and label" else None)
        return found

    monkeypatch.setattr(retention, "decide", watched)
    dropped = workspace.gc(TIGHT).dropped
    assert points[0].id not in {item.checkpoint.id for item in dropped}
    assert {points[0].id, points[3].id} <= records.check(workspace)
    if verb == "restore":
        workspace.undo()
        assert picture(root) == records.pictures[points[3].id]


def test_a_checkpoint_that_is_forgotten_while_it_is_looked_at_is_not_found(workspace, save):
    point = save({"a": b"1"})
    save({"a": b"2"})
    workspace.gc(newest(1))
    with pytest.raises(errors.CheckpointNotFound, match="was deleted by gc"):
        workspace.marks(point)


# -- the ledger


def told(casrewind):
    """Everything that the ledger tells, as the commands print it."""
    return [casrewind(*words).out for words in (("list", "--json", "--all"), ("list", "--json"))]


def test_a_compacted_ledger_tells_the_same_with_and_without_an_index(casrewind, root, settings):
    with opened(str(root), settings) as workspace:
        for n in range(60):
            plant(root, {"a": b"%d" % n, "b": noise(n, 500)})
            point = workspace.save("label x" if n == 7 else "", pin=n == 9).checkpoint
            if n in (20, 21):
                workspace.pin(point, f"named {n}")
            if n == 22:
                workspace.pin(point)
                workspace.unpin(point)
            if n in (30, 50):
                workspace.restore(nth_newest(workspace, 3))
            if n in (31, 52):
                workspace.undo()
        store = workspace.store_path
    ledger = os.path.join(store, "ledger")
    size, inode = os.stat(ledger).st_size, os.stat(ledger).st_ino
    expected = [point for point in casrewind.json("list", "--all")["checkpoints"]]
    found = casrewind.json("gc", "--max-count", "5")
    gone = {point["id"] for point in found["checkpoints"]}
    assert len(gone) > 40
    assert os.stat(ledger).st_ino != inode
    assert os.stat(ledger).st_size < size * 0.5
    after = told(casrewind)
    assert casrewind.json("list", "--all")["checkpoints"] == [point for point in expected if point["id"] not in gone]
    status = casrewind.json("status")
    shutil.rmtree(os.path.join(store, "index"))
    assert told(casrewind) == after
    now = casrewind.json("status")
    assert {**now, "store_bytes": 0} == {**status, "store_bytes": 0}
    plant(root, {"a": b"and on"})
    highest = max(point["seq"] for point in expected)
    casrewind("save", code=0)
    assert casrewind.json("list")["checkpoints"][0]["seq"] > highest
    assert casrewind.json("verify")["ok"]


def test_histories_of_two_worktrees_survive_a_compaction(tmp_path, settings):
    settings = settings._replace(store=str(tmp_path / "shared"))
    wanted, wasted = {}, {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with opened(str(tmp_path / name), settings) as workspace:
            for n in range(40):
                plant(tmp_path / name, {"a": b"%s %d" % (name.encode(), n)})
                workspace.save()
            wanted[name] = picture(tmp_path / name)
            workspace.restore(workspace.checkpoint("prev"))
            wasted[name] = picture(tmp_path / name)
            size = os.stat(os.path.join(workspace.store_path, "ledger")).st_size
    with opened(str(tmp_path / "one"), settings) as workspace:
        workspace.gc(TIGHT)
        assert os.stat(os.path.join(workspace.store_path, "ledger")).st_size < size / 2
        shutil.rmtree(os.path.join(workspace.store_path, "index"))
    for name in ("one", "two"):
        with opened(str(tmp_path / name), settings) as workspace:
            workspace.undo()
            assert picture(tmp_path / name) == wanted[name]
            workspace.redo()
            assert picture(tmp_path / name) == wasted[name]


def test_an_adopted_history_survives_a_compaction(tmp_path, root, home, settings):
    with opened(str(root), settings) as workspace:
        for n in range(40):
            plant(root, {"a": b"%d" % n})
            workspace.save()
        wanted = picture(root)
        workspace.restore(workspace.checkpoint("prev"))
    os.rename(root, tmp_path / "moved")
    moved = Command(tmp_path / "moved", home)
    moved("adopt", str(root), code=0)
    expected = moved.json("list", "--all")["checkpoints"]
    gone = {point["id"] for point in moved.json("gc", "--max-count", "3")["checkpoints"]}
    assert len(gone) == 37
    after = told(moved)
    assert moved.json("list", "--all")["checkpoints"] == [point for point in expected if point["id"] not in gone]
    shutil.rmtree(os.path.join(moved.json("status")["store"], "index"))
    assert told(moved) == after
    moved("undo", "--yes", code=0)
    assert picture(tmp_path / "moved") == wanted
    assert moved.json("verify")["ok"]


# -- stores of every kind


def test_a_store_without_checkpoints(workspace, root):
    found = workspace.gc(TIGHT)
    assert (found.kept, found.dropped, found.notes) == (0, (), ())
    plant(root, {"a": b"1"})
    assert workspace.save().created
    assert not workspace.verify().problems


def test_no_store_is_said(casrewind):
    result = casrewind("gc", code=10)
    assert "casrewind save" in result.err


def test_an_empty_checkpoint_is_one(workspace, records, save):
    point = save({})
    workspace.gc(TIGHT)
    assert records.check(workspace) == {point.id}


def test_gc_twice_at_once_says_busy(workspace, save, monkeypatch):
    from casrewind.store import maintenance

    monkeypatch.setattr(maintenance, "_MERGE_TIME", 0.2)
    for n in range(3):
        save({"a": b"%d" % n})
    with LockHolder(os.path.join(workspace.store_path, "locks", "gc"), stopped=True):
        before = store_picture(workspace.store_path)
        with pytest.raises(errors.StoreBusy):
            workspace.gc(newest(1))
        assert store_picture(workspace.store_path) == before
    workspace.gc(newest(1))
    assert len(ids(workspace)) == 1


def test_two_real_gcs_at_once_both_end_well(casrewind, root, settings):
    with opened(str(root), settings) as workspace:
        for n in range(30):
            plant(root, {"a": noise(n, 5000)})
            workspace.save()
    for _ in range(3):
        running = [
            subprocess.Popen([sys.executable, "-m", "casrewind", "-C", str(root), "gc", "--max-count", "2"],
                             env=casrewind.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for _ in range(2)
        ]  # fmt: skip
        errors_said = [process.communicate()[1].decode() for process in running]
        codes = [process.returncode for process in running]
        assert set(codes) <= {0, 11}, errors_said
        assert 0 in codes
    assert casrewind.json("verify")["ok"]
    assert len(casrewind.json("list")["checkpoints"]) == 2


def test_a_save_that_does_not_end_makes_gc_step_back(workspace, save, monkeypatch):
    from casrewind.store import maintenance

    monkeypatch.setattr(maintenance, "_PATIENCE", 0.5)
    points = [save({"a": noise(n, 5000)}) for n in range(4)]
    with workspace._context.store.writing():
        before = store_picture(workspace.store_path)
        with pytest.raises(errors.StoreBusy, match="run this again later"):
            workspace.gc(newest(1))
        assert differences(store_picture(workspace.store_path), before) == {}
    assert ids(workspace) == {point.id for point in points}
    workspace.gc(newest(1))
    assert ids(workspace) == {points[-1].id}


def test_gc_waits_for_a_save_that_merges_packs(workspace, save, casrewind, root):
    """On a busy machine a merge after a save held the lock for more than a second, and a person's gc failed."""
    for number in range(4):
        save({"a": noise(number, 5000)})
    with workspace._context.store.maintenance().exclude_other_maintenance():
        running = subprocess.Popen([sys.executable, "-m", "casrewind", "-C", str(root), "gc", "--max-count", "2"],
                                   env=casrewind.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            running.communicate(timeout=2)
        background = casrewind("gc", "--auto", code=0)
        assert background.out == "", "a gc in the background ends at once"
    _, said = running.communicate()
    assert running.returncode == 0, said
    assert len(casrewind.json("list")["checkpoints"]) == 2


def test_a_store_that_cannot_be_written_is_refused_and_can_be_asked(settings):
    unprivileged.require()
    with unprivileged.open_directory() as place:
        for name in ("project", "home"):
            (place / name).mkdir()
        plant(place / "project", {"a": b"1"})
        command = Command(place / "project", place / "home")
        unprivileged.give(place)
        as_nobody = {"prefix": unprivileged.PREFIX}
        for text in ("1", "2", "3"):
            (place / "project" / "a").write_text(text)
            command("save", code=0, **as_nobody)
        (store,) = (place / "home" / "data" / "stores").iterdir()
        unprivileged.run("chmod", "-R", "a-w", str(store))
        before = store_picture(store)
        result = command("gc", "--max-count", "1", code=1, **as_nobody)
        assert "cannot be written" in result.err
        dry = command.json("gc", "--max-count", "1", "--dry-run", **as_nobody)
        assert (dry["kept"], dry["dropped"]) == (1, 2)
        assert store_picture(store) == before
        unprivileged.run("chmod", "-R", "u+w", str(store))
        assert command.json("gc", "--max-count", "1", **as_nobody)["dropped"] == 2


def test_a_store_of_somebody_else_is_refused(workspace, save, settings):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a store away")
    save({"a": b"1"})
    before = store_picture(workspace.store_path)
    os.chown(workspace.store_path, unprivileged.NOBODY, unprivileged.NOBODY)
    with pytest.raises(errors.StoreForeign) as caught:
        opened(workspace.root.path, settings, create=False)
    assert caught.value.exit_code == 14
    assert store_picture(workspace.store_path) == before
    os.chown(workspace.store_path, os.geteuid(), os.getegid())


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_damaged_journal_stops_gc_before_it_changes_anything(workspace, save, dry_run):
    for n in range(4):
        save({"a": noise(n, 5000)})
    workspace.gc(NOTHING)
    save({"a": b"5"})
    with open(os.path.join(workspace.store_path, "journals", workspace.root.key.hex()), "wb") as file:
        file.write(b"CRJ1 not a journal at all, but as long as one")
    before = store_picture(workspace.store_path)
    with pytest.raises(errors.StoreDamaged, match="journal") as caught:
        workspace.gc(TIGHT, dry_run=dry_run)
    assert "casrewind" in str(caught.value)
    assert differences(store_picture(workspace.store_path), before) == {}


def test_a_damaged_tree_stops_the_sweep_and_no_pack_is_touched(workspace, save, settings):
    for n in range(4):
        save({"d/a": noise(n, 5000)}, "keep" if n < 3 else "")
    save({"d/a": b"new"})
    store = workspace.store_path
    tree = workspace.checkpoint("prev").tree
    for path in pathlib.Path(store, "packs").iterdir():
        data = path.read_bytes()
        where = data.find(tree)
        if where >= 0:
            path.write_bytes(data[: where + 52] + b"\xff\x00\xff\x00" + data[where + 56 :])
    before = packs_of(store)
    with opened(workspace.root.path, settings) as again:
        with pytest.raises(errors.StoreDamaged, match="nothing was swept"):
            again.gc(newest(3))
    assert packs_of(store) == before


# -- asking only


def test_a_dry_run_changes_nothing_and_says_what_the_real_one_does(workspace, save):
    for n in range(12):
        save({f"f{n % 4}": noise(n, 300_000), "a": b"%d" % n}, "label" if n == 2 else "")
    workspace.gc(NOTHING)
    for n in range(6):
        save({f"f{n % 4}": noise(100 + n, 300_000)})
    before = store_picture(workspace.store_path)
    asked = workspace.gc(newest(3), dry_run=True)
    assert asked.dry_run
    assert differences(store_picture(workspace.store_path), before) == {}
    done = workspace.gc(newest(3))
    assert not done.dry_run
    assert (asked.kept, asked.dropped, asked.notes) == (done.kept, done.dropped, done.notes)
    assert asked.bytes_before == pytest.approx(done.bytes_before, abs=8192)
    freed, would = done.bytes_before - done.bytes_after, asked.bytes_before - asked.bytes_after
    print(f"would free {would}, freed {freed}")
    assert freed > 2_000_000
    assert would == pytest.approx(freed, rel=0.02)


def test_a_dry_run_that_finds_nothing_says_so(workspace, save):
    save({"a": noise(1, 100_000)})
    workspace.gc(NOTHING)
    asked = workspace.gc(newest(1), dry_run=True)
    assert (asked.kept, asked.dropped) == (1, ())
    assert asked.bytes_before - asked.bytes_after < 4096


def test_materialised_pictures_are_no_mirrors_of_the_worktree(workspace, save, root, records):
    """The judge itself: a picture of what was written elsewhere follows the checkpoint, not the worktree."""
    point = save({"a": b"1"})
    plant(root, {"a": b"2"})
    assert checkpoint_picture(workspace, point) == records.pictures[point.id] != picture(root)


def test_what_a_killed_process_left_costs_no_checkpoint(workspace, save):
    for number in range(4):
        save({"noise": noise(number, 200_000)})
    store = pathlib.Path(workspace.store_path)
    (store / "tmp" / "casrewind-draft-abcdef012345.pack").write_bytes(noise(9, 1_500_000))
    report = workspace.gc(Limits(None, None, 0, 1_500_000))
    assert (report.kept, report.dropped) == (4, ())
    assert os.listdir(store / "tmp") == []
