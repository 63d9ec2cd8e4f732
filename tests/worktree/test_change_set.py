"""What is known by watching: a save that looks at nothing else finds what one that looks at everything finds."""

import glob
import marshal
import mmap
import os
import random
import shutil
import subprocess
import sys

import pytest

from casrewind import Limits
from casrewind.model import stamp as stamps
from casrewind.ops import save as saves
from casrewind.ops import save
from casrewind.settings import open_until_end
from casrewind.workspace import Workspace
from casrewind.worktree import inotify, stat_index
from casrewind.worktree.change_set import WatchResult
from support.random_edits import RandomEdits
from support.scanner import settle
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
needs_mount = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root and mount")
WIDE = {f"d{n}/e{m}/{k}": b"%d" % (n * m) for n in range(6) for m in range(3) for k in ("f0", "f1", "g/x")}


class Pair:
    """A project with two stores: one of a helper's saves, one of saves that look at everything."""

    def __init__(self, root, settings):
        self.root, self.settings, self.other = str(root), settings, settings._replace(data=settings.data + "-other")
        self.tree = inotify.InotifyWatcher(os.fsencode(root))
        self.memory, self.proof = None, None

    def save(self):
        """Save in both ways; what was known."""
        self.tree.note_changes_from_queued_events()
        watch = self.tree.make_change_set(memory=self.memory)
        watch.proof = self.proof
        with open_until_end(self.root, self.settings, create=True, watch=watch) as context:
            found = saves.save(context, saves.Moment(trigger="prompt"))
            save.finish_watched_save(context, watch)
        self.take_over_scan_result(watch)
        with Workspace(self.root, self.other, create=True) as workspace:
            right = saves.save(workspace._context, saves.Moment(trigger="prompt"))
        assert facts(found) == facts(right)
        return watch

    def take_over_scan_result(self, watch):
        result = WatchResult(*marshal.loads(marshal.dumps(tuple(watch.result()))))  # as a helper hears it
        self.proof = result.proof
        self.tree.take_over_scan_result(result)
        self.memory = result.updated_index(self.memory)

    def warm(self):
        """Save until something is known."""
        settle()
        for _ in range(3):
            if not self.save().full:
                return
        raise AssertionError("nothing was ever known")

    def unnoticed(self):
        self.tree.note_changes_from_queued_events()
        with Workspace(self.root, self.settings, create=False) as workspace:
            return save.find_unreported_changes(workspace._context, self.tree.make_change_set(memory=self.memory), lambda: True)


def facts(saved):
    point = saved.checkpoint
    return point.tree, point.files, point.size, saved.skipped, saved.ignored


@pytest.fixture
def pair(root, settings):
    found = Pair(root, settings)
    yield found
    found.tree.close()


def looked_at(pair, monkeypatch):
    """The paths that a save by watching looks at."""
    seen = []
    usual = os.stat
    monkeypatch.setattr(os, "stat", lambda path, *a, **k: seen.append(path) or usual(path, *a, **k))
    monkeypatch.setattr(stat_index, "positions_that_differ", stamps.positions_that_differ)  # which calls os.stat
    pair.tree.note_changes_from_queued_events()
    watch = pair.tree.make_change_set(memory=pair.memory)
    with open_until_end(pair.root, pair.settings, create=False, watch=watch) as context:
        seen.clear()
        saves.save(context, saves.Moment(trigger="prompt"))
    monkeypatch.undo()
    pair.take_over_scan_result(watch)
    return {path for path in seen if isinstance(path, bytes)}


def test_only_what_changed_is_looked_at(pair, root, monkeypatch):
    plant(root, WIDE)
    pair.warm()
    (root / "d1" / "e2" / "f0").write_bytes(b"changed")
    seen = looked_at(pair, monkeypatch)
    assert {b"f0", b"f1"} <= seen and not any(b"d2" in path or b"d1/e0" in path for path in seen)
    assert not pair.save().full


def stat_file(pair):
    """The bytes of the stat file in the store."""
    [found] = glob.glob(glob.escape(pair.settings.data) + "/stores/*/index/stat-*")
    with open(found, "rb") as file:
        return file.read()


def test_what_is_kept_in_memory_is_neither_read_nor_written_for_a_few_edits(pair, root):
    plant(root, WIDE)
    pair.warm()
    before = stat_file(pair)
    for number in range(3):
        (root / "d1" / "e2" / "f0").write_bytes(b"changed %d" % number)
        assert not pair.save().full
    assert stat_file(pair) == before and pair.memory.newer


def test_what_others_save_meanwhile_does_not_matter(pair, root):
    plant(root, WIDE)
    pair.warm()
    with Workspace(pair.root, pair.settings, create=True) as workspace:
        for number in range(9):
            plant(root, {f"new{number}/{n}/f": b"%d" % n for n in range(12)})
            saves.save(workspace._context, saves.Moment(trigger="prompt"))
    assert not pair.save().full
    assert not pair.save().full


def test_when_much_has_changed_it_is_written_and_still_everything_is_known(pair, root):
    plant(root, {f"d{n}/e{m}/f": b"1" for n in range(8) for m in range(12)})
    pair.warm()
    before = stat_file(pair)
    for number in range(6):
        plant(root, {f"d{n}/e{number}/f": b"%d" % number for n in range(8)})
        settle()  # young stamps are not remembered
        assert not pair.save().full
        assert len(pair.memory.newer) <= 16 + 8 * 3
    assert stat_file(pair) != before


def test_what_gc_took_away_from_a_memory_makes_it_worth_nothing(pair, root):
    plant(root, WIDE)
    pair.warm()
    with Workspace(pair.root, pair.settings, create=True) as workspace:
        plant(root, {"d1/e1/f0": b"another"})
        saves.save(workspace._context, saves.Moment(trigger="manual"))
        saves.save(workspace._context, saves.Moment(trigger="manual", label="another", needless=False))
        workspace.gc(Limits(max_age=None, max_count=1, keep_last=0))
    assert pair.save().full
    assert not pair.save().full


def test_a_comparison_of_everything_writes_what_is_known_and_takes_nothing_for_saved(pair, root):
    plant(root, WIDE)
    pair.warm()
    (root / "d1" / "e2" / "f0").write_bytes(b"saved")
    pair.save()
    before = stat_file(pair)
    settle()
    (root / "d2" / "e2" / "f0").write_bytes(b"not yet saved")
    pair.tree.note_changes_from_queued_events()
    watch = pair.tree.make_change_set(memory=pair.memory)
    with Workspace(pair.root, pair.settings, create=False) as workspace:
        assert save.find_unreported_changes(workspace._context, watch, lambda: True) == []
    pair.take_over_scan_result(watch)
    assert stat_file(pair) != before and not pair.memory.newer
    assert not pair.save().full  # it compares the checkpoint with one that read everything


def test_a_file_with_other_names_is_always_looked_at(pair, root):
    plant(root, WIDE)
    os.link(root / "d1" / "e1" / "f0", root / "d4" / "e1" / "second")
    pair.warm()
    outside = root.parent / "third"
    os.link(root / "d2" / "e1" / "f0", outside)  # nobody is told of it
    (root / "d2" / "e1" / "f1").write_bytes(b"but of this")
    pair.save()
    for path in (root / "d4" / "e1" / "second", outside, root / "d1" / "e1" / "f0"):
        path.write_bytes(os.urandom(8))
        pair.save()


def test_a_second_name_is_made_and_written_through_at_once(pair, root):
    plant(root, WIDE)
    pair.warm()
    os.link(root / "d1" / "e1" / "f0", root / "d4" / "e1" / "second")
    (root / "d4" / "e1" / "second").write_bytes(b"the first has changed, too")
    assert pair.save().full


@pytest.mark.parametrize("come", [os.link, lambda old, new: (os.link(old, old.parent.parent.parent.parent / "out"), os.rename(old.parent.parent.parent.parent / "out", new))])
def test_a_second_name_that_is_ignored_is_known_all_the_same(pair, root, come):
    plant(root, {**WIDE, ".gitignore": b"n*\n"})
    pair.warm()
    come(root / "d1" / "e1" / "f0", root / "d4" / "e1" / "n1")
    assert pair.save().full
    settle()
    pair.save()
    (root / "d4" / "e1" / "n1").write_bytes(b"the first has changed, too")
    pair.save()


def test_a_queue_that_ran_over_means_that_nothing_is_known(pair, root):
    plant(root, WIDE)
    pair.warm()
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    if most > 100_000:
        pytest.skip("the queue of this machine is too long to fill")
    (root / "d5" / "e2" / "f1").write_bytes(b"before")
    for number in range(most + 10):
        os.utime(root / "d3" / f"e{number % 2}" / "f0")
    (root / "d1" / "e2" / "f0").write_bytes(b"behind the last event that is in it")
    assert pair.save().full
    assert not pair.save().full


def mount(place):
    try:
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    except subprocess.CalledProcessError:
        pytest.skip("nothing can be mounted here")


@needs_mount
def test_what_is_mounted_elsewhere_is_nothing_to_a_project(pair, root):
    plant(root, WIDE)
    pair.warm()
    other = root.parent / (root.name + "-other")
    other.mkdir()
    mount(other)
    known = not pair.save().full
    subprocess.run(["umount", other], check=True)
    assert known and not pair.save().full


@needs_mount
def test_a_mount_while_it_looks_leaves_nothing_known_even_if_it_is_gone_again(pair, root):
    plant(root, WIDE)
    pair.warm()
    pair.tree.note_changes_from_queued_events()
    watch = pair.tree.make_change_set()
    mount(root / "d1")
    subprocess.run(["umount", root / "d1"], check=True)
    pair.take_over_scan_result(watch)
    assert pair.save().full


@needs_mount
def test_what_is_mounted_over_a_directory_is_found_and_what_was_under_it_again(pair, root):
    plant(root, WIDE)
    pair.warm()
    mount(root / "d1" / "e1")
    try:
        plant(root, {"d1/e1/in": b"of the mount"})
        assert pair.save().full
        pair.save()
    finally:
        subprocess.run(["umount", root / "d1" / "e1"], check=True)
    assert pair.save().full
    settle()
    pair.save()
    plant(root, {"d1/e1/g/x": b"is watched again"})
    assert not pair.save().full


@needs_mount
@pytest.mark.parametrize("place", ["d1/e1", "d1/e1/f0"])
def test_a_save_looks_for_mounts_itself_although_it_is_told_what_has_changed(pair, root, place, monkeypatch):
    """Here nobody tells of them. What is mounted has the device of the root."""
    plant(root, WIDE)
    plant(root.parent / "outside", {"keep": b"theirs"})
    pair.warm()
    monkeypatch.setattr(pair.tree, "_read_mount_lines_below_root", lambda: pair.tree._known_mounts)
    source = root.parent / "outside" / ("keep" if place.endswith("f0") else "")
    if subprocess.run(["mount", "--bind", source, root / place], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert not pair.save().full, "it was told of nothing; what it found is compared with a save that looks at everything"
        with Workspace(pair.root, pair.settings, create=False) as workspace:
            held = {path for path, _ in workspace.entries(workspace.checkpoint("last"))}
        assert os.fsencode(place) not in held and b"d1/e1/keep" not in held and b"d1/e2/f0" in held
    finally:
        subprocess.run(["umount", root / place], check=True)


def test_what_nobody_is_told_of_is_found_by_comparing(pair, root):
    plant(root, {**WIDE, "d0/e0/mapped": bytes(4096)})
    pair.warm()
    assert pair.unnoticed() == []
    with open(root / "d0" / "e0" / "mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0:3] = b"abc"
        mapping.flush()
        assert pair.unnoticed() == [b"d0/e0/mapped"]
    assert pair.unnoticed() == []  # told of when it was closed: it is looked at
    os.link(root / "d1" / "e1" / "f0", root.parent / "outside")
    assert pair.unnoticed() == [], "a second name is no other content"
    (root.parent / "outside").write_bytes(b"through another name")
    assert pair.unnoticed() == [b"d1/e1/f0"]
    pair.tree.forget_all_and_watch_root()
    pair.save()


def test_another_directory_in_the_place_of_the_root(pair, root):
    plant(root, WIDE)
    pair.warm()
    aside = root.rename(root.parent / "aside")
    plant(root, {"d1/e1/f0": b"of the other"})
    pair.tree.note_changes_from_queued_events()
    assert pair.tree.over
    watch = pair.tree.make_change_set()
    with open_until_end(pair.root, pair.settings, create=True, watch=watch) as context:
        assert saves.save(context, saves.Moment(trigger="prompt")).checkpoint.files == 1
    assert watch.full and watch.result().failed
    shutil.rmtree(aside)


def go_through(pair, root, seed, steps):
    """How many saves knew something, of `steps` between which anything may happen."""
    plant(root, WIDE)
    settle()
    chaos = RandomEdits(root, seed)
    knew = 0
    for step in range(steps):
        for _ in range(chaos.random.randrange(5)):
            chaos.once()
        if step % 3 == 0:
            settle()
        knew += not pair.save().full
    return knew


def test_random_edits(pair, root):
    assert go_through(pair, root, 0, 10) > 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_many_random_edits(pair, root, seed):
    assert go_through(pair, root, seed, 150) > 50
