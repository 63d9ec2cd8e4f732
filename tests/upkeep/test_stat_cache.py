"""The stat file attacked: whatever is in its place, a save records what is there, and names nothing that is not stored."""

import os
import random
import shutil
from pathlib import Path

import pytest

from casrewind import Limits
from casrewind import open as open_workspace
from casrewind.model import stamp
from casrewind.store import stat_file
from casrewind.worktree.stat_index import StatIndex
from support.command import Command
from support.scanner import settle
from support.trees import Link, plant

TREE = {f"d{n}/e{m}/f{k}": b"%d %d %d" % (n, m, k) for n in range(4) for m in range(3) for k in range(3)} | {
    "top": b"1",
    "d1/.gitignore": b"*.o\n",
}


def the_file(workspace):
    return Path(stat_file.stat_file_path(os.path.join(workspace.store_path, "index"), workspace._context.root.key))


def remembered(workspace):
    """(what the stat file stands for, its value); (None, None) when it is not believed."""
    context = workspace._context
    context.tree.reopen_root_if_replaced()
    return context.store.stat_index(context.root.key, context.tree.life) or (None, None)


def basis_of(workspace):
    """What the stat file is believed to stand for, None when it is not believed."""
    return remembered(workspace)[0]


def check(root, settings, edits=True):
    """A save with what is remembered, and one in another store that reads everything, have the same tree, and all of it is stored."""
    if edits:
        plant(root, {"d2/e1/f1": b"edited", "d3/new": b"new"})
    with open_workspace(str(root), settings) as workspace:
        found = workspace.save("after", described=True).checkpoint
        assert workspace.verify().problems == ()
    other = settings._replace(data=settings.data + "-other")
    with open_workspace(str(root), other) as workspace:
        assert workspace.save("right").checkpoint.tree == found.tree
    shutil.rmtree(other.data)
    return found


@pytest.fixture
def saved(root, settings):
    """A project, saved twice so that all stamps are remembered: (its stat file, a copy from before the second save)."""
    plant(root, TREE)
    settle()
    with open_workspace(str(root), settings) as workspace:
        workspace.save("first", described=True)
        place = the_file(workspace)
        before = place.read_bytes()
        plant(root, {"d0/e0/f0": b"second"})
        settle()
        workspace.save("second", described=True)
        assert basis_of(workspace) is not None
    return place, before


def test_a_flip_of_any_byte_is_noticed(saved, root, settings):
    place, _ = saved
    data = place.read_bytes()
    with open_workspace(str(root), settings) as workspace:
        right = remembered(workspace)
        assert right[0] is not None
        for at in range(len(data)):
            place.write_bytes(data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :])
            assert basis_of(workspace) is None, at
        place.write_bytes(data)
        assert remembered(workspace) == right


@pytest.mark.parametrize("seed", range(6))
def test_flipped_and_cut_and_swapped_bytes_hide_nothing(saved, root, settings, seed):
    place, before = saved
    chance, data = random.Random(seed), bytearray(place.read_bytes())
    at, to = sorted(chance.sample(range(len(data)), 2))
    if seed % 3 == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif seed % 3 == 1:
        del data[at:]
    else:
        data[at:to] = before[at:to][::-1]
    place.write_bytes(data)
    check(root, settings)


@pytest.mark.parametrize("edits", [False, True])
def test_an_old_copy_put_back_hides_nothing(saved, root, settings, edits):
    place, before = saved
    place.write_bytes(before)
    check(root, settings, edits)


def test_the_file_of_another_worktree_hides_nothing(saved, root, settings, tmp_path):
    place, _ = saved
    other = tmp_path / "other"
    plant(other, {**TREE, "d2/e1/f1": b"of the other"})
    settle()
    with open_workspace(str(other), settings._replace(store=os.path.dirname(place.parent))) as workspace:
        workspace.save()
        shutil.copy(the_file(workspace), place)
    check(root, settings)


def test_a_directory_in_its_place_and_a_fifo_are_no_file(saved, root, settings):
    place, _ = saved
    place.unlink()
    os.mkfifo(place)
    check(root, settings)
    place.unlink(missing_ok=True)
    place.mkdir()
    check(root, settings, edits=False)


def test_a_file_from_before_a_gc_that_forgot_its_checkpoint_is_not_believed(saved, root, settings):
    place, before = saved
    with open_workspace(str(root), settings) as workspace:
        workspace.gc(Limits(max_age=None, max_count=1, keep_last=0))
        assert len(workspace.checkpoints()) == 1
        assert basis_of(workspace) is not None, "what stands for the newest checkpoint is still worth something"
        place.write_bytes(before)
        assert basis_of(workspace) is None
        plant(root, {"d0/e0/f0": b"0 0 0"})  # as it was: what the file has of it is swept
    check(root, settings)


def test_a_gc_removes_files_that_no_save_will_believe(saved, root, settings):
    place, before = saved
    with open_workspace(str(root), settings) as workspace:
        place.write_bytes(before)
        workspace.gc(Limits(max_age=None, max_count=1, keep_last=0))
        assert not place.exists()


def test_a_file_from_before_the_index_was_made_anew_is_not_believed(saved, root, settings):
    place, _ = saved
    data = place.read_bytes()
    (place.parent / "data.mdb").unlink()
    with open_workspace(str(root), settings) as workspace:
        workspace.checkpoints()
        if not place.exists():
            place.write_bytes(data)
        assert basis_of(workspace) is None
    check(root, settings)


def test_a_file_from_before_a_purge_is_not_believed(saved, root, settings):
    place, _ = saved
    data = place.read_bytes()
    with open_workspace(str(root), settings) as workspace:
        os.unlink(root / "d1/e1/f1")
        workspace.purge([b"d1/e1/f1"])
        place.write_bytes(data)
        assert basis_of(workspace) is None
    check(root, settings)


def test_a_file_from_before_a_repair_is_not_believed(saved, root, settings):
    place, _ = saved
    data = place.read_bytes()
    with open_workspace(str(root), settings) as workspace:
        packs = sorted(Path(workspace.store_path, "packs").iterdir(), key=lambda pack: pack.stat().st_size)
        content = bytearray(packs[-1].read_bytes())
        content[len(content) // 2] ^= 255
        packs[-1].write_bytes(content)
        workspace.repair()
        place.write_bytes(data)
        assert basis_of(workspace) is None
        found = workspace.save("all that is there", described=True).checkpoint
        for path, entry in workspace.entries(found):
            if entry.kind == "file":
                assert b"".join(workspace.cat(found, path)) == (root / os.fsdecode(path)).read_bytes()


def test_a_file_under_another_boot_is_not_believed(saved, root, settings):
    place, _ = saved
    with open_workspace(str(root), settings) as workspace:
        context, (basis, value) = workspace._context, remembered(workspace)
        context.store.replace_stat_file(context.root.key, basis._replace(life=b"00000000-0000-0000-0000-000000000000" + basis.life[36:]), value)
        assert basis_of(workspace) is None
    check(root, settings)


def test_a_file_of_a_project_that_was_moved_and_adopted_hides_nothing(saved, root, settings, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(root, moved)
    plant(moved, {"d2/e1/f1": b"edited"})
    Command(moved, settings.home)("adopt", str(root), code=0)
    with open_workspace(str(moved), settings) as workspace:
        assert basis_of(workspace) is None
    check(moved, settings)


@pytest.mark.parametrize("edit", ["d2/e1/f1", "top"], ids=["in the directory", "elsewhere"])
@pytest.mark.parametrize("what", ["tree", "rule"])
def test_a_digest_that_the_store_does_not_have_is_never_named(saved, root, settings, what, edit):
    """A file under a sound seal that names what is not stored: what a bug, or a blob lost without a trace, would leave."""
    with open_workspace(str(root), settings) as workspace:
        context, (basis, value) = workspace._context, remembered(workspace)
        index = StatIndex(value)
        place = b"d1" if what == "rule" else b"d2/e1"
        above = {path: index.record_of_directory(path) for path in (b"", b"d2")}  # what is not beside a new record is copied as a whole
        lie = index.record_of_directory(place)
        lie = lie._replace(tree=b"lost" * 8) if what == "tree" else lie._replace(rule_files=((b".gitignore", b"lost" * 8, lie.rule_files[0][2]),))
        context.store.replace_stat_file(context.root.key, basis, index.updated_value(above | {place: lie}))
        assert StatIndex(remembered(workspace)[1]).record_of_directory(place) == lie, "it is remembered"
    plant(root, {edit: b"edited"})
    check(root, settings, edits=False)


def test_mtimes_that_changed_alone_are_not_remembered_for_trees_that_are_not_stored(saved, root, settings):
    with open_workspace(str(root), settings) as workspace:
        before = basis_of(workspace)
        os.utime(root / "d2/e1/f1")
        settle()
        assert not workspace.save().created
        assert basis_of(workspace) == before
    check(root, settings)


def test_a_stamp_as_young_as_its_scan_is_not_remembered(root, settings, monkeypatch):
    monkeypatch.setattr(stamp, "MARGIN_NS", 60 * 10**9)
    monkeypatch.setattr(stamp, "COARSE_MARGIN_NS", 60 * 10**9)
    plant(root, TREE)
    with open_workspace(str(root), settings) as workspace:
        workspace.save()
        status = os.stat(root / "d1/e1/f1")
        with open(root / "d1/e1/f1", "r+b") as file:
            file.write(b"9")
        os.utime(root / "d1/e1/f1", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert workspace.save().created


def test_a_file_that_is_longer_than_memory_is_refused_by_its_head(saved, root, settings):
    place, _ = saved
    with open_workspace(str(root), settings) as workspace:
        os.truncate(place, 1 << 40)
        assert basis_of(workspace) is None
    check(root, settings)


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="counts the bytes that this process reads")
def test_an_edit_beside_a_large_file_and_a_link_reads_neither_of_them_again(root, settings):
    plant(root, {"d/large": os.urandom(8 << 20), "d/f": b"1", "d/link": Link("f"), "e/g": b"1"})
    settle()

    def read_bytes():
        return int(Path("/proc/self/io").read_text().split()[1])

    with open_workspace(str(root), settings) as workspace:
        workspace.save()
        for number in range(3):
            plant(root, {"d/f": b"edited %d" % number})
            before = read_bytes()
            assert workspace.save().created
            assert read_bytes() - before < 4 << 20
