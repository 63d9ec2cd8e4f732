"""A full disk, a real one: nothing is published by halves, nothing is left over, and all works once there is space."""

import os
import random
import shutil
import subprocess

import pytest

from casrewind import errors
from casrewind.workspace import Workspace
from support.picture import picture
from support.store_checks import leftovers, read_everything
from support.trees import plant

TREE = {"a.txt": b"one\n", "src/b.txt": b"two\n", "data.bin": random.Random(6).randbytes(500_000)}


def ext4(mount, tmp_path, name, size, inodes):
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    image = tmp_path / f"{name.replace('/', '-')}.image"
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-N", str(inodes), image], check=True)
    place = mount(name, "-o", "loop", str(image))
    shutil.rmtree(place / "lost+found")
    return place


@pytest.fixture
def kind():
    """The file system that `small` makes, where a test does not say another one."""
    return "tmpfs"


@pytest.fixture
def small(kind, mount, tmp_path):
    """small("name", bytes): a file system of that size."""

    def make(name, size, inodes=200):
        if kind == "tmpfs":
            return mount(name, "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes}", "none")
        return ext4(mount, tmp_path, name, size, inodes)

    return make


def fill(directory, name="filler", leave=0):
    """Take the space of a file system, but for about `leave` bytes."""
    path = os.path.join(directory, name)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        step = 1 << 20
        while step >= 4096:
            try:
                space = os.fstatvfs(fd)
                if space.f_bavail * space.f_frsize <= leave:
                    break
                os.posix_fallocate(fd, os.fstat(fd).st_size, min(step, space.f_bavail * space.f_frsize - leave or step))
            except OSError:
                step //= 2
    finally:
        os.close(fd)
    return path


def contents(store):
    """What the store holds besides its index."""
    found = picture(store)
    return {path: what for path, what in found.items() if not path.startswith((b"index", b"locks"))}


def store_of(home):
    [store] = (home / "data/stores").iterdir()
    return store


def whole(root, settings):
    with Workspace(str(root), settings, create=False) as opened:
        read_everything(opened)


@pytest.mark.parametrize(
    ("kind", "kilobytes"), [("tmpfs", 0), ("tmpfs", 60), ("tmpfs", 2000), ("ext4", 8), ("ext4", 300)]
)
def test_save_on_a_full_disk(casrewind, small, root, home, settings, kilobytes):
    data = small("home/data", 16 << 20)
    plant(root, TREE)
    first = casrewind.json("save", "-m", "first")["checkpoint"]
    before = contents(store_of(home))
    plant(root, {"big.bin": random.Random(7).randbytes(5 << 20), "small.txt": b"new\n"})
    filler = fill(data, leave=kilobytes << 10)
    failed = casrewind("save", "-m", "second", code=13)
    assert failed.err.count("\n") == 1 and "space" in failed.err
    assert contents(store_of(home)) == before
    assert [point["id"] for point in casrewind.json("list", "--all")["checkpoints"]] == [first]
    whole(root, settings)
    os.unlink(filler)
    here = picture(root)
    with Workspace(str(root), settings, create=False) as workspace:
        second = workspace.save("second").checkpoint
        workspace.restore(workspace.checkpoint(first))
        workspace.restore(second)
        assert picture(root) == here
        read_everything(workspace)


def test_first_save_on_a_full_disk(casrewind, small, root, home):
    data = small("home/data", 8 << 20)
    plant(root, TREE)
    filler = fill(data)
    failed = casrewind("save", code=13)
    assert failed.err.count("\n") == 1
    assert casrewind("list").code in (0, 10)
    os.unlink(filler)
    assert casrewind.json("save")["files"] == len(TREE)


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_save_without_inodes(casrewind, small, root, home, settings):
    data = small("home/data", 16 << 20, inodes=64)
    plant(root, TREE)
    first = casrewind.json("save")["checkpoint"]
    before = contents(store_of(home))
    made = []
    try:
        for number in range(1000):
            path = data / f"n{number}"
            path.touch()
            made.append(path)
    except OSError:
        pass
    assert len(made) < 1000
    plant(root, {"small.txt": b"new\n"})
    casrewind("save", code=13)
    assert contents(store_of(home)) == before
    for path in made:
        path.unlink()
    second = casrewind.json("save")
    assert second["created"] and second["checkpoint"] != first
    whole(root, settings)


@pytest.fixture
def full_root(casrewind, small, tmp_path):
    """A project on a file system of 24 MiB; a checkpoint of it holds 4 MB that are gone since."""
    root = small("project", 24 << 20)
    large = {f"{name}/big.bin": random.Random(name).randbytes(2_000_000) for name in "ab"}
    plant(root, {**TREE, **large, ".gitignore": b"filler\n"})
    target = casrewind.json("save", "-m", "then")["checkpoint"]
    then = picture(root)
    shutil.rmtree(root / "a")
    shutil.rmtree(root / "b")
    plant(root, {"a.txt": b"edited since\n", "later.txt": b"came since\n"})
    return root, target, then


def test_restore_refuses_before_the_first_change(casrewind, full_root):
    root, target, then = full_root
    filler = fill(root, leave=1 << 20)
    before = picture(root, inodes=True)
    failed = casrewind("restore", target, "--yes", code=13)
    assert failed.err.count("\n") == 1 and "nothing was changed" in failed.err
    assert picture(root, inodes=True) == before
    assert casrewind.json("status")["journal"] is None
    os.unlink(filler)
    casrewind("restore", target, "--yes", code=0)
    assert picture(root) == then


@pytest.mark.parametrize("way", ["continue", "abort"])
@pytest.mark.parametrize(("kind", "ticks"), [("tmpfs", 1), ("tmpfs", 5), ("ext4", 4)])
def test_space_that_vanishes_during_a_restore(casrewind, full_root, settings, way, ticks):
    """The space is taken when the preflight is over: at the first, second ... action."""
    root, target, then = full_root
    before = picture(root)
    seen = []

    def progress(what, done, total):
        if what == "restoring":
            seen.append(done)
            if len(seen) == ticks:
                fill(root)

    with Workspace(str(root), settings, create=False, progress=progress) as workspace:
        with pytest.raises(errors.StoreFull) as caught:
            workspace.restore(workspace.checkpoint(target))
        assert caught.value.exit_code == 13
        assert "--continue" in str(caught.value) and "--abort" in str(caught.value)
        assert workspace.is_interrupted()
    if way == "continue":
        failed = casrewind("restore", "--continue", code=13)  # still no space: said again, nothing worse
        assert failed.err.count("\n") == 1
    os.unlink(root / "filler")
    casrewind("restore", "--" + way, code=0)
    assert picture(root) == (then if way == "continue" else before)
    assert not leftovers(root)
    with Workspace(str(root), settings, create=False) as workspace:
        assert workspace.status().journal is None
        read_everything(workspace)


def test_abort_needs_no_space_to_speak_of(casrewind, full_root, settings):
    """What was taken back must not have to wait for space: nothing of the old state was removed yet."""
    root, target, _ = full_root
    before = picture(root)

    def progress(what, done, total):
        if what == "restoring" and done == 1:
            fill(root)

    with Workspace(str(root), settings, create=False, progress=progress) as workspace, pytest.raises(errors.StoreFull):
        workspace.restore(workspace.checkpoint(target))
    casrewind("restore", "--abort", code=0)
    assert {path: what for path, what in picture(root).items() if path != b"filler"} == before


def test_a_store_without_space_takes_a_restore_back_and_says_what_it_cannot_keep(casrewind, small, root, home, settings):
    """An abort makes a checkpoint of the half-restored state. Where there is no room for it, the abort must not wait for room."""
    data = small("home/data", 16 << 20)
    plant(root, {"a.txt": b"one\n", **{f"old/{number}": b"old %d\n" % number for number in range(9)}})
    target = casrewind.json("save")["checkpoint"]
    shutil.rmtree(root / "old")
    plant(root, {"a.txt": b"two\n", **{f"new/{number}": b"new %d\n" % number for number in range(9)}})
    casrewind("save", code=0)
    before = picture(root)

    def progress(what, done, total):
        if what == "restoring" and done == 16:
            raise InterruptedError

    with Workspace(str(root), settings, create=False, progress=progress) as workspace, pytest.raises((InterruptedError, errors.WorkspaceError)):
        workspace.restore(workspace.checkpoint(target))
    assert picture(root) != before
    plant(root, {"later.bin": random.Random(8).randbytes(300_000)})  # the checkpoint would hold it
    assert casrewind.json("status")["journal"] is not None  # and the index is up to date
    filler = fill(data)
    done = casrewind("restore", "--abort", code=0)
    assert "the disk is full: the half-restored state is not kept" in done.out and "  - old/ (9 files)" in done.out
    os.unlink(root / "later.bin")
    assert picture(root) == before and not leftovers(root)
    os.unlink(filler)
    whole(root, settings)
    casrewind("verify", code=0)


def test_a_file_system_that_counts_no_blocks_is_not_full(casrewind, mount, root, home):
    mount("home", "-t", "ramfs", "none")
    assert os.statvfs(home).f_blocks == os.statvfs(home).f_bavail == 0
    plant(root, TREE)
    casrewind("save", "-m", "begin", code=0)
    plant(root, {"a.txt": b"edited\n"})
    casrewind("restore", "begin", "-y", code=0)
    casrewind("restore", "begin", "--to", str(home / "try"), code=0)
    assert picture(root) == picture(home / "try") and (root / "a.txt").read_bytes() == b"one\n"
