"""Fifos, sockets, hard links: what is no ordinary file is named and left alone; one file under two names stays two."""

import os
import socket
import stat

import pytest

from casrewind import errors
from support.picture import differences, picture
from support.trees import Dir, Fifo, Link, plant


@pytest.fixture
def strangers(root):
    """A fifo, a socket and, for root, a device in the project."""
    plant(root, {"a": b"1", "d/fifo": Fifo(), "pipe": Fifo()})
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(f"/proc/self/fd/{here}/sock")  # a socket's path may be no longer than 107 bytes
        yield sorted([b"d/fifo", b"pipe", b"sock"])
    finally:
        listener.close()
        os.close(here)


def test_they_are_skipped_and_named_and_untouched(workspace, casrewind, root, strangers):
    before = picture(root, mtimes=True, inodes=True)
    saved = casrewind.json("save")
    assert [(skip["path"].encode(), skip["reason"]) for skip in saved["skipped"]] == [
        (name, "special file") for name in strangers
    ]
    plant(root, {"a": b"2", "d/x": b"new"})
    inode = os.lstat(root / "pipe").st_ino
    casrewind("restore", "last", "--yes", code=0)
    after = picture(root, mtimes=True, inodes=True)
    assert {path for path in before if before[path][0] == "other"} == set(strangers)
    assert all(after[name] == before[name] for name in strangers)
    assert os.lstat(root / "pipe").st_ino == inode
    assert (root / "a").read_bytes() == b"1"


@pytest.mark.parametrize("kind", ["fifo", "socket"])
@pytest.mark.parametrize(
    "target",
    [{"x": b"file"}, {"x": Link("a")}, {"x": Dir()}, {"x/y": b"in a directory"}],
    ids=["file", "link", "empty", "full"],
)
def test_one_where_the_target_has_something_refuses_the_restore(workspace, casrewind, root, kind, target):
    plant(root, {"a": b"1", **target})
    workspace.save()
    plant(root, {"a": b"2"})
    if (root / "x").is_dir() and not (root / "x").is_symlink():
        for inner in (root / "x").iterdir():
            inner.unlink()
        (root / "x").rmdir()
    else:
        (root / "x").unlink()
    if kind == "fifo":
        os.mkfifo(root / "x")
    else:
        os.mknod(root / "x", stat.S_IFSOCK | 0o600)
    before = picture(root, mtimes=True, inodes=True)
    for command in (("restore", "last", "--yes"), ("restore", "last", "--dry-run")):
        result = casrewind(*command, code=14)
        assert "x is a special file" in result.err
        assert "nothing was changed" in result.err
        assert differences(before, picture(root, mtimes=True, inodes=True)) == {}
    assert not workspace.is_interrupted()
    assert len(workspace.checkpoints()) == 1
    workspace.restore(workspace.checkpoint("last"), [b"a"])  # what the refusal tells the person to do
    assert (root / "a").read_bytes() == b"1"
    os.unlink(root / "x")
    assert not workspace.restore(workspace.checkpoint("last")).kept


def test_one_in_a_directory_that_has_to_become_a_file_refuses_the_restore(workspace, root):
    plant(root, {"x": b"file", "a": b"1"})
    point = workspace.save().checkpoint
    (root / "x").unlink()
    plant(root, {"a": b"2", "x/y/known": b"k", "x/y/pipe": Fifo()})
    before = picture(root, mtimes=True, inodes=True)
    with pytest.raises(errors.ContentInTheWay, match="x/y/pipe"):
        workspace.restore(point)
    assert differences(before, picture(root, mtimes=True, inodes=True)) == {}


def test_one_in_a_directory_that_was_made_later_keeps_the_directory(workspace, root):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    plant(root, {"new/known": b"k", "new/pipe": Fifo()})
    report = workspace.restore(point)
    assert [item.path for item in report.kept if item.path == b"new"] == [b"new"]
    assert not report.incomplete
    assert sorted(os.listdir(root / "new")) == ["pipe"]


def test_a_file_that_became_special_since_the_last_save_is_no_removal(workspace, root):
    plant(root, {"a": b"1", "b": b"2"})
    workspace.save()
    (root / "a").unlink()
    os.mkfifo(root / "a")
    second = workspace.save()
    assert [skip.path for skip in second.skipped] == [b"a"]
    plant(root, {"b": b"3"})
    (root / "a").unlink()
    plant(root, {"a": b"a file again"})
    report = workspace.restore(second.checkpoint)
    assert (root / "a").read_bytes() == b"a file again"  # not known to the checkpoint, so not absent in it
    assert [item.path for item in report.kept] == [b"a"]


def test_hard_links_come_back_with_the_right_bytes_and_other_names_keep_theirs(workspace, root, tmp_path):
    plant(root, {"one": b"shared"})
    os.link(root / "one", root / "two")
    os.link(root / "one", tmp_path / "outside")
    point = workspace.save().checkpoint
    plant(root, {"three": b"x"})
    with open(root / "one", "r+b") as file:  # in place: all three names see it
        file.write(b"EDITED")
    report = workspace.restore(point)
    assert not report.kept
    assert (root / "one").read_bytes() == (root / "two").read_bytes() == b"shared"
    assert (tmp_path / "outside").read_bytes() == b"EDITED"  # outside the root: nobody's to change
    workspace.undo()
    assert (root / "one").read_bytes() == (root / "two").read_bytes() == b"EDITED"


def test_a_restore_of_one_name_leaves_the_other_name_of_a_hard_link_alone(workspace, root):
    plant(root, {"one": b"1"})
    point = workspace.save().checkpoint
    (root / "one").unlink()
    plant(root, {"two": b"2"})
    os.link(root / "two", root / "one")
    workspace.restore(point, [b"one"])
    assert (root / "one").read_bytes() == b"1"
    assert (root / "two").read_bytes() == b"2"


def test_mounts_below_the_root_are_named_and_not_entered(workspace, root):
    import subprocess

    (root / "mnt").mkdir()
    plant(root, {"a": b"1"})
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(root / "mnt")], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    try:
        plant(root, {"mnt/theirs": b"x"})
        saved = workspace.save()
        assert [(skip.path, skip.reason) for skip in saved.skipped] == [(b"mnt", "other file system")]
        plant(root, {"a": b"2", "mnt/theirs": b"y"})
        assert not workspace.restore(saved.checkpoint).incomplete
        assert (root / "mnt/theirs").read_bytes() == b"y"
    finally:
        subprocess.run(["umount", "-l", str(root / "mnt")], check=True)
    after = workspace.save()
    assert after.created
    assert not after.skipped
