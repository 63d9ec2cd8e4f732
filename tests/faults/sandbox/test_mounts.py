"""Mounts below the root: what is mounted there belongs to somebody else. It is named, never stored, written to or removed.

Device numbers do not tell: a bind mount has the device of the root, and on overlayfs a file of the root has another one.
"""

import errno
import os
import shutil
import subprocess

import pytest

from support import unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.store_checks import leftovers
from support.trees import Dir, plant

OTHER = "other file system"


@pytest.fixture
def command(root, home):
    return InProcess(root, home)


@pytest.fixture
def outside(tmp_path):
    plant(tmp_path / "outside", {"keep": b"theirs", "sub/deep": b"theirs"})
    return tmp_path / "outside"


def skipped(saved):
    return {(skip["path"], skip["reason"]) for skip in saved["skipped"]}


def unmount(place):
    subprocess.run(["umount", str(place)], check=True)


def refused(command, *arguments, names=()):
    """A restore ends with 14 and the names before anything is changed, its dry run too."""
    before = picture(command.root, mtimes=True, inodes=True)
    for more in ((), ("--dry-run",)):
        result = command("restore", "-y", *more, *arguments, code=14)
        assert all(name in result.err for name in names) and "nothing was changed" in result.err, result
    assert differences(before, picture(command.root, mtimes=True, inodes=True)) == {}
    assert not leftovers(command.root)
    assert command.json("status")["journal"] is None


# -- bind mounts of the same device


def test_a_restore_removes_nothing_of_what_a_directory_of_the_same_device_shows(command, root, outside, mount):
    plant(root, {"m": Dir(), "a": b"1"})
    command("save", "-m", "before", code=0)
    plant(root, {"a": b"2", "new": b"x"})
    mount("project/m", "--bind", outside)
    before = picture(outside, mtimes=True, inodes=True)
    result = command.json("restore", "before", "-y")
    assert [item["path"] for item in result["skipped"]] == ["m"]
    assert (root / "a").read_bytes() == b"1" and not (root / "new").exists()
    command("undo", "--yes", code=0)
    assert (root / "a").read_bytes() == b"2"
    assert differences(before, picture(outside, mtimes=True, inodes=True)) == {}


def test_what_is_mounted_is_named_and_not_stored(command, root, outside, mount):
    plant(root, {"m": Dir(), "with space\\ and ä\n": Dir(), "d/file": b"under it", "a": b"1"})
    mount("project/m", "--bind", outside)
    mount("project/with space\\ and ä\n", "--bind", outside)
    mount("project/d/file", "--bind", outside / "keep")
    saved = command.json("save")
    wanted = {("m", OTHER), ("with space\\ and ä\n", OTHER), ("d/file", OTHER)}
    assert skipped(saved) == wanted
    assert {entry["path"] for entry in command.json("show", "last")["entries"]} == {"a", "d"}
    assert "d/file" in command("status", code=0).out
    unmount(root / "d/file")
    again = command.json("save")
    assert skipped(again) == wanted - {("d/file", OTHER)}
    assert command("cat", "last:d/file", code=0).out == "under it"


def test_a_checkpoint_of_what_is_under_a_mount_is_refused_while_it_differs(command, root, outside, mount):
    plant(root, {"m/keep": b"ours", "m/x": b"x", ".env": b"ours", "a": b"1", "b/c": b"1"})
    command("save", "-m", "before", code=0)
    plant(root, {"a": b"2", "b/c": b"2"})
    mount("project/m", "--bind", outside)
    mount("project/.env", "--bind", outside / "keep")
    before = picture(outside, mtimes=True, inodes=True)
    refused(command, "before", names=("m is a mount point", ".env is a mount point"))
    refused(command, "before", "--", "m/keep", names=("m is a mount point",))
    command("restore", "before", "-y", "--", "a", "b", code=0)
    assert ((root / "a").read_bytes(), (root / "b/c").read_bytes()) == (b"1", b"1")
    assert differences(before, picture(outside, mtimes=True, inodes=True)) == {}
    command("verify", code=0)
    unmount(root / ".env")
    unmount(root / "m")
    command("restore", "before", "-y", code=0)
    assert (root / ".env").read_bytes() == b"ours"


def test_a_mounted_file_that_is_as_recorded_stands_in_no_restores_way(command, root, tmp_path, mount):
    plant(root, {".env": b"same", "large": b"x" * 2_000_000, "a": b"1"})
    command("save", "-m", "before", code=0)
    for name in (".env", "large"):
        shutil.copy2(root / name, tmp_path / ("other" + name))
        mount("project/" + name, "--bind", tmp_path / ("other" + name))
    plant(root, {"a": b"2"})
    command("save", code=0)
    command("restore", "before", "-y", code=0)
    assert (root / "a").read_bytes() == b"1"
    command("undo", "--yes", code=0)
    assert (root / "a").read_bytes() == b"2"
    command("verify", code=0)


def test_a_directory_that_holds_a_mount_stays_or_refuses_the_restore(command, root, outside, mount):
    plant(root, {"a": b"1", "d": b"a file then"})
    command("save", "-m", "before", code=0)
    (root / "d").unlink()
    plant(root, {"d/m": Dir(), "d/ours": b"x", "new/m": Dir(), "new/ours": b"x"})
    mount("project/new/m", "--bind", outside)
    mount("project/d/m", "--bind", outside)
    refused(command, "before", names=("d/m",))
    unmount(root / "d/m")
    before = picture(outside, mtimes=True, inodes=True)
    command("restore", "before", "-y", code=0)
    assert (root / "d").read_bytes() == b"a file then"
    assert os.listdir(root / "new") == ["m"]
    assert differences(before, picture(outside, mtimes=True, inodes=True)) == {}


def test_an_undo_leaves_alone_what_something_was_mounted_over_since(command, root, outside, mount):
    plant(root, {"m/keep": b"1", "a": b"1"})
    command("save", "-m", "before", code=0)
    plant(root, {"m/keep": b"2", "a": b"2"})
    command("restore", "before", "-y", code=0)
    mount("project/m", "--bind", outside)
    result = command("undo", "--yes", code=3)
    assert "m is a mount point" in result.out + result.err
    assert (root / "a").read_bytes() == b"2" and (outside / "keep").read_bytes() == b"theirs"


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_what_is_mounted_over_files_that_are_remembered_is_noticed(command, root, outside, mount, kind):
    """The stat index has every directory as it is, on its sheet too; nothing that it can compare has changed."""
    wide = {f"d{n}/e{m}/f{k}": b"%d" % n for n in range(8) for m in range(8) for k in range(4)}
    plant(root, wide | {"d3/e4/m": Dir()})
    for path in root.rglob("*"):
        os.utime(path, ns=(10**18, 10**18))
    for _ in range(3):
        command("save", "--rehash", code=0)
    os.utime(root / "d7/e7/f0", ns=(11**17, 11**17))
    command("save", "-m", "warm", code=0)
    shutil.copy2(root / "d1/e1/f1", outside / "copy")
    arguments = ("-t", "tmpfs", "none") if kind == "tmpfs" else ("--bind", outside)
    mount("project/d3/e4/m", *arguments)
    mount("project/d5/e5", *arguments)
    mount("project/d1/e1/f1", "--bind", outside / "copy")
    plant(root, {"d5/e5/in": b"theirs"})
    wanted = {("d3/e4/m", OTHER), ("d5/e5", OTHER), ("d1/e1/f1", OTHER)}
    for _ in range(2):
        saved = command.json("save")
        assert skipped(saved) == wanted
        assert saved["files"] == len(wide) - 5
    (root / "d5/e5/in").unlink()
    for place in ("d3/e4/m", "d5/e5", "d1/e1/f1"):
        unmount(root / place)
    saved = command.json("save")
    assert (skipped(saved), saved["files"]) == (set(), len(wide))


def test_a_first_save_that_a_fork_helps_with_skips_them_too(root, home, outside, mount):
    plant(root, {f"d{n}/e{m}/f{k}": b"%d" % n for n in range(30) for m in range(10) for k in range(5)})
    places = [f"d{n}/e{m}" for n in range(0, 30, 3) for m in (0, 9)]
    for place in places:
        mount("project/" + place, "--bind", outside)
    saved = Command(root, home).json("save")
    assert skipped(saved) == {(place, OTHER) for place in places}
    assert saved["files"] == 1500 - 5 * len(places)


def test_the_root_in_another_place_and_what_lies_on_it_twice(command, root, home, tmp_path, outside, mount):
    """A mount belongs to the place at which it is seen: the same directory elsewhere does not have it."""
    plant(root, {"m/x": b"1", "loop": Dir(), "a": b"1"})
    elsewhere = mount("elsewhere", "--bind", root)
    mount("project/m", "--bind", outside)
    mount("project/m", "-t", "tmpfs", "none")  # one on the other
    mount("project/loop", "--bind", root)
    assert skipped(command.json("save")) == {("m", OTHER), ("loop", OTHER)}
    other = InProcess(elsewhere, home)
    saved = other.json("save")
    assert skipped(saved) == set()
    assert "m/x" in {entry["path"] for entry in other.json("show", "last")["entries"]}
    mount("project", "--bind", elsewhere)  # over the root, and over all that is mounted in it
    saved = command.json("save")
    assert skipped(saved) == set()


def test_a_mount_that_comes_while_a_restore_is_interrupted_ends_neither_way_out(root, outside, mount, interrupted):
    """--continue says what is in the way; --abort takes back all that can be seen, and names the rest."""
    command, before = interrupted
    mount("project/d", "--bind", outside)
    theirs = picture(outside, mtimes=True, inodes=True)
    result = command("restore", "--continue", code=14)
    assert "d is a mount point" in result.err and "casrewind restore --abort" in result.err
    left = command("restore", "--abort", "--json", code=3).json["skipped"]
    _, safety = (point["id"] for point in command.json("list", "--all")["checkpoints"][:2])  # before the abort, before the restore
    assert {item["path"] for item in left} == {f"d/{n}" for n in range(6)}
    assert all("d is a mount point" in item["reason"] and safety in item["reason"] for item in left)
    assert (root / "z").read_bytes() == b"now" and command.json("status")["journal"] is None
    assert differences(theirs, picture(outside, mtimes=True, inodes=True)) == {}
    unmount(root / "d")
    command("restore", safety, "-y", code=0)
    for path in leftovers(root):
        os.unlink(path)
    assert differences(before, picture(root)) == {}


def test_after_the_mount_is_gone_an_interrupted_restore_goes_on(root, outside, mount, interrupted):
    command, before = interrupted
    mount("project/d", "--bind", outside)
    command("restore", "--continue", code=14)
    unmount(root / "d")
    command("restore", "--abort", code=0)
    assert differences(before, picture(root)) == {} and not leftovers(root)


@pytest.fixture
def interrupted(root, home, monkeypatch):
    """A restore that an error of the system stopped in its middle: the command, and the state before."""
    command = InProcess(root, home)
    plant(root, {f"d/{n}": b"then %d" % n for n in range(6)} | {"z": b"then"})
    command("save", "-m", "then", code=0)
    plant(root, {f"d/{n}": b"now %d" % n for n in range(6)} | {"z": b"now"})
    before = picture(root)
    real, count = os.unlink, [0]

    def failing(*arguments, **more):
        count[0] += 1
        if count[0] == 3 and more.get("dir_fd") is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing)
        command("restore", "then", "-y", code=1)
    assert command.json("status")["journal"] is not None
    return command, before


# -- overlayfs


@pytest.fixture
def overlay(mount, tmp_path):
    """overlay(one) gives an overlay whose layers lie on one file system, or on two: there files have other device numbers."""

    def work(files, one=False):
        if one:
            layers = mount("upper", "-t", "tmpfs", "none")
            lower = layers / "lower"
        else:
            layers, lower = tmp_path / "upper", mount("lower", "-t", "tmpfs", "none")
            image = tmp_path / "image"
            with open(image, "wb") as file:
                file.truncate(64 << 20)
            if subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, check=False).returncode:
                pytest.skip("no mkfs.ext4")
            mount("upper", "-o", "loop", image)
        plant(lower, files)
        for name in ("up", "work"):
            (layers / name).mkdir()
        options = f"lowerdir={lower},upperdir={layers}/up,workdir={layers}/work"
        return mount("project", "-t", "overlay", "none", "-o", options)

    return work


@pytest.mark.parametrize("one", [True, False], ids=["one file system", "two file systems"])
def test_everything_works_on_an_overlay(command, root, overlay, one):
    overlay({"a": b"1", "d/b": b"2", "d/e/c": b"3", "gone": b"4", "mode": b"5", "keep": b"6"}, one)
    if not one:
        assert os.stat(root / "a").st_dev != os.stat(root).st_dev, "that is what this is about"
    command("save", "-m", "one", code=0)
    one = picture(root)
    plant(root, {"a": b"edited", "new/n": b"new", "d/e/c": b"edited"})
    (root / "gone").unlink()
    os.chmod(root / "mode", 0o600)
    shutil.rmtree(root / "d" / "e")
    plant(root, {"d/e": b"a file now"})
    two = picture(root)
    assert command.json("save")["skipped"] == []
    command("restore", "one", "-y", "--dry-run", code=0)
    command("restore", "one", "-y", code=0)
    assert differences(one, picture(root)) == {}
    command("undo", "--yes", code=0)
    assert differences(two, picture(root)) == {}
    command("redo", "--yes", code=0)
    assert differences(one, picture(root)) == {}


@pytest.mark.parametrize("one", [True, False], ids=["one file system", "two file systems"])
def test_a_directory_of_a_lower_layer_becomes_a_file(command, root, overlay, one):
    """Without redirect_dir such a directory cannot be renamed: the kernel says EXDEV."""
    plant(root, {"d": b"a file then", "a": b"1"})
    command("save", "-m", "file", code=0)
    overlay({"d/x": b"1", "d/e/y": b"2", "a": b"1"}, one)
    before = picture(root)
    command("restore", "file", "-y", code=0)
    assert (root / "d").read_bytes() == b"a file then"
    command("undo", "--yes", code=0)
    assert differences(before, picture(root)) == {}


def test_a_mount_below_an_overlay_is_skipped(command, root, overlay, outside, mount):
    overlay({"m": Dir(), "a": b"1", "f": b"2"})
    mount("project/m", "--bind", outside)
    mount("project/f", "--bind", outside / "keep")
    assert skipped(command.json("save")) == {("m", OTHER), ("f", OTHER)}


# -- somebody who is not root


def test_a_plain_user_meets_the_same(mount, outside):
    unprivileged.require()
    with unprivileged.open_directory() as place:
        (place / "home").mkdir()
        root = place / "project"
        plant(root, {"m/x": b"1", "f": b"1", "a": b"1"})
        unprivileged.give(place)
        user = Command(root, place / "home")
        user("save", "-m", "before", code=0, prefix=unprivileged.PREFIX)
        unprivileged.give(outside)
        (root / "a").write_bytes(b"2")
        for target, source in (("m", outside), ("f", outside / "keep")):
            subprocess.run(["mount", "--bind", source, root / target], check=True)
        try:
            assert skipped(user("save", "--json", code=0, prefix=unprivileged.PREFIX).json) == {("m", OTHER), ("f", OTHER)}
            result = user("restore", "before", "-y", code=14, prefix=unprivileged.PREFIX)
            assert "m is a mount point" in result.err and "f is a mount point" in result.err
            user("restore", "before", "-y", "--", "a", code=0, prefix=unprivileged.PREFIX)
            assert (root / "a").read_bytes() == b"1"
        finally:
            unmount(root / "m")
            unmount(root / "f")
