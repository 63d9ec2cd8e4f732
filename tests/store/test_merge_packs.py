"""Saves through the API merge small packs by themselves, lose nothing, wait for no process, and look at few packs."""

import itertools
import os
import shutil
import signal
import sys
import time

import pytest

from casrewind import errors, locks
from casrewind.store import budget, store
from casrewind.workspace import Workspace
from support import sample_start
from support.gc_checks import checkpoint_picture, packs_of
from support.picture import differences, picture
from support.trees import plant

TREE = {f"d{number % 3}/f{number}": b"%d\n" % number * 50 for number in range(12)}
QUIET = 0.03
"""Seconds after which a stamp is believed."""
FEW = 6
"""New packs after which these tests merge."""


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(store, "MANY", FEW)


def edit_and_save(root, workspace, count, first=0):
    """Each save has an edit; returns {checkpoint: picture}."""
    made = {}
    for number in range(first, first + count):
        plant(root, {f"d{number % 3}/f{number % 3}": b"edit %d\n" % number * 20})
        made[workspace.save(f"turn {number}", described=True).checkpoint] = picture(root)
    return made


def check(workspace, made):
    assert not workspace.verify().problems
    for point, wanted in made.items():
        assert differences(checkpoint_picture(workspace, point), wanted) == {}


def test_saves_of_a_program_merge_their_packs(root, workspace, few):
    plant(root, TREE)
    made = edit_and_save(root, workspace, 4 * FEW)
    assert len(packs_of(workspace.store_path)) <= FEW + 2
    check(workspace, made)
    gc = workspace.gc()
    assert gc.kept == len(made)
    check(workspace, made)


@pytest.mark.long
def test_six_hundred_saves_keep_few_packs(root, workspace):
    plant(root, TREE)
    made = edit_and_save(root, workspace, 600)
    assert len(packs_of(workspace.store_path)) <= budget.MANY + 2
    check(workspace, made)


def test_a_merge_counts_as_no_gc(root, workspace, few):
    """What a gc forgets is due as before."""
    plant(root, TREE)
    before = budget.GcState.read(workspace.store_path)
    edit_and_save(root, workspace, 2 * FEW)
    after = budget.GcState.read(workspace.store_path)
    assert after.packs > 0 and after._replace(packs=before.packs) == before


@pytest.mark.parametrize("name", ["gc", "store"])
def test_a_save_waits_for_no_other_process_to_merge(root, workspace, few, name):
    """While another process collects, or restores, packs stay as they are; the first save after it merges them."""
    plant(root, TREE)
    with locks.locked(os.path.join(workspace.store_path, "locks", name), exclusive=name == "gc", deadline=0.0):
        made = edit_and_save(root, workspace, 2 * FEW)
        assert len(packs_of(workspace.store_path)) == 2 * FEW
    made |= edit_and_save(root, workspace, 1, first=2 * FEW)
    assert len(packs_of(workspace.store_path)) == 1
    check(workspace, made)


def test_a_large_pack_stays(root, workspace, few):
    plant(root, {"large": os.urandom(2 << 20)})
    workspace.save()
    (large,) = packs_of(workspace.store_path)
    made = edit_and_save(root, workspace, FEW)
    assert large in packs_of(workspace.store_path) and len(packs_of(workspace.store_path)) == 2
    check(workspace, made)


def test_a_damaged_pack_is_not_merged_away(root, workspace, few):
    """It stays where verify finds it, and its sound blobs with it."""
    plant(root, TREE)
    made = edit_and_save(root, workspace, 2)
    pack = os.path.join(workspace.store_path, "packs", max(packs_of(workspace.store_path)))
    with open(pack, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        byte = file.read(1)
        file.seek(-3, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    edit_and_save(root, workspace, FEW, first=2)
    assert os.path.exists(pack)
    assert workspace.verify().problems
    with open(pack, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(byte)
    check(workspace, made)


def test_purged_bytes_are_not_copied_by_a_merge(root, workspace, few):
    """gc finishes an interrupted purge; until then no pack is copied."""
    plant(root, TREE)
    made = edit_and_save(root, workspace, FEW)
    workspace._context.store.maintenance()._purge_marker.write(b"\0" * 16)
    before = packs_of(workspace.store_path)
    edit_and_save(root, workspace, 1, first=FEW)
    assert set(before) < set(packs_of(workspace.store_path))
    workspace.gc()
    check(workspace, made)


def test_a_merge_that_is_killed_loses_nothing(root, home, settings, few):
    """Killed at each call that makes, moves or removes a file, one after the other; a push takes one of five."""
    plant(root, TREE)
    with Workspace(str(root), settings, create=True) as workspace:
        made = edit_and_save(root, workspace, FEW)
        place = workspace.store_path
    shutil.copytree(place, home / "before", symlinks=True)
    contents = {point.id: wanted for point, wanted in made.items()}
    every = 1 if sample_start.takes_all else 5
    for calls in itertools.count(sample_start.start_below(every), every):
        child = os.fork()
        if child == 0:
            _save_until_killed(root, settings, calls)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL)
        with Workspace(str(root), settings, create=False) as workspace:
            assert not workspace.verify().problems
            for point, _ in workspace.checkpoints():
                if point.id in contents:
                    assert differences(checkpoint_picture(workspace, point), contents[point.id]) == {}
            assert contents.keys() <= {point.id for point, _ in workspace.checkpoints()}
            if status == 0:
                assert len(packs_of(place)) == 1
                break
        shutil.rmtree(place)
        shutil.copytree(home / "before", place, symlinks=True)
    assert calls > FEW  # each removal of a pack is one of the calls


def _save_until_killed(root, settings, calls):
    left = calls

    def count(event, _):
        nonlocal left
        if event in ("os.rename", "os.remove", "open", "os.truncate"):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    try:
        with Workspace(str(root), settings, create=False) as workspace:
            plant(root, {"d0/f0": b"the last edit\n"})
            saved = workspace._context.store.has_many_packs
            workspace._context.store.has_many_packs = lambda: (sys.addaudithook(count), saved())[1]
            workspace.save("last", described=True)
        os._exit(0)
    except errors.CasrewindError:
        os._exit(1)


@pytest.mark.parametrize(
    "few, many", [(30, 101), pytest.param(100, 5000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_the_number_of_packs_does_not_change_how_many_a_save_looks_at(root, workspace, monkeypatch, few, many):
    """Of all that a save looks at, in the store and in the project: the same number."""
    plant(root, TREE)
    monkeypatch.setattr(store, "MANY", 1 << 30)
    looks = []
    look = os.stat
    found = {}
    made = 0
    for packs in (few, many):
        edit_and_save(root, workspace, packs - made, first=made)
        made = packs + 1
        assert len(packs_of(workspace.store_path)) == packs
        time.sleep(QUIET)
        workspace.save()
        plant(root, {"d0/f0": b"edit before %d packs\n" % packs})
        time.sleep(QUIET)
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", lambda path, *more, **named: looks.append(path) or look(path, *more, **named))
            del looks[:]
            assert workspace.save().created
        found[packs] = (len(looks), sum(str(path).endswith(".pack") for path in looks))
    print(", ".join(f"with {packs:,} packs a save looks at {all_of_them} paths, {of_packs} of them packs" for packs, (all_of_them, of_packs) in found.items()))
    assert found[few] == found[many] and found[few][1] < 20


@pytest.mark.parametrize("rehash", [True, False])
def test_an_open_workspace_finds_a_pack_that_was_cut(root, workspace, rehash):
    """Some packs are looked at again at each save, in turn, and all by one that reads all files."""
    plant(root, TREE)
    edit_and_save(root, workspace, 40)
    directory = os.path.join(workspace.store_path, "packs")
    cut = max((os.path.join(directory, name) for name in os.listdir(directory)), key=os.path.getsize)
    os.truncate(cut, os.path.getsize(cut) // 2)
    for number in range(1 if rehash else 3):
        point = workspace.save(f"again {number}", rehash=rehash).checkpoint
    assert differences(checkpoint_picture(workspace, point), picture(root)) == {}
