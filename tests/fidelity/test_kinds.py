"""Every kind of thing becomes every other and comes back: files, links, empty and full directories, nothing."""

import itertools
import os

import pytest

from casrewind.workspace import Workspace
from casrewind.worktree import safe_rename
from support import path_kinds
from support.picture import differences, picture
from support.trees import plant


@pytest.mark.parametrize(("old", "new"), list(itertools.product(path_kinds.KINDS, repeat=2)))
def test_one_kind_becomes_another(workspace, root, old, new):
    plant(root, {"beside": b"b"})
    path_kinds.make(root / "it", old, "old")
    before = picture(root, mtimes=True)
    point = workspace.save().checkpoint
    path_kinds.make(root / "it", new, "new")
    plant(root, {"beside": b"edited"})  # so that there is something to do for every pair
    broken = picture(root, mtimes=True)
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}
    assert not workspace.undo().kept
    assert differences(broken, picture(root, mtimes=True)) == {}
    assert not workspace.redo().kept
    assert differences(before, picture(root, mtimes=True)) == {}


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_all_of_them_without_exchange(workspace, root, monkeypatch, links):
    """As on a system that knows neither renameat2 nor, in the second case, hard links."""
    monkeypatch.setattr(safe_rename, "_CALL", None)
    if not links:
        monkeypatch.setattr(os, "link", refuse_to_link)
    pairs = list(itertools.product(path_kinds.KINDS, repeat=2))

    def make(which):
        for pair in pairs:
            path_kinds.make(root / "-".join(pair), pair[which], f"version {which}")
        return picture(root, mtimes=True)

    before = make(0)
    point = workspace.save().checkpoint
    broken = make(1)
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}
    assert not workspace.undo().kept
    assert differences(broken, picture(root, mtimes=True)) == {}


def refuse_to_link(*_, **__):
    raise PermissionError(1, "Operation not permitted")


def test_a_directory_becomes_a_file_deep_down_while_its_parents_move_too(workspace, root):
    plant(root, {"a/b/c/d": b"1", "x/y": b"2", "m": b"3"})
    before = picture(root)
    point = workspace.save().checkpoint
    path_kinds.clear(root / "a")
    plant(root, {"a": b"file now"})
    path_kinds.clear(root / "x")
    plant(root, {"x/y/z/w": b"4"})
    path_kinds.clear(root / "m")
    plant(root, {"m/a/b/c": b"5", "m/a/x": b"6"})
    broken = picture(root)
    assert not workspace.restore(point).kept
    assert differences(before, picture(root)) == {}
    assert not workspace.undo().kept
    assert differences(broken, picture(root)) == {}


def test_two_that_trade_places(workspace, root):
    plant(root, {"a": b"1", "b/x": b"2"})
    before = picture(root)
    point = workspace.save().checkpoint
    os.rename(root / "a", root / "t")
    os.rename(root / "b", root / "a")
    os.rename(root / "t", root / "b")
    assert not workspace.restore(point).kept
    assert differences(before, picture(root)) == {}


def test_a_directory_becomes_a_link_to_outside(workspace, root, tmp_path):
    """Nothing outside is written or removed, though it has the very same names; the directory comes back."""
    plant(root, {"d/a": b"1", "d/sub/b": b"2", "d/gone": b"3"})
    plant(tmp_path / "outside", {"a": b"theirs", "sub/b": b"theirs", "new": b"theirs"})
    before, outside = picture(root, mtimes=True), picture(tmp_path / "outside", mtimes=True, inodes=True)
    point = workspace.save().checkpoint
    path_kinds.clear(root / "d")
    os.symlink(tmp_path / "outside", root / "d")
    broken = picture(root)
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}
    assert not workspace.undo().kept
    assert differences(broken, picture(root)) == {}
    assert not workspace.redo().kept
    assert differences(before, picture(root, mtimes=True)) == {}
    assert picture(tmp_path / "outside", mtimes=True, inodes=True) == outside


def test_a_directory_above_the_root_may_be_a_link(tmp_path, settings):
    plant(tmp_path / "real/project", {"a": b"1"})
    os.symlink(tmp_path / "real", tmp_path / "link")
    with Workspace(str(tmp_path / "link/project"), settings, create=True) as workspace:
        assert workspace.root.path == str(tmp_path / "real/project")
        point = workspace.save().checkpoint
        plant(tmp_path / "real/project", {"a": b"2"})
        workspace.restore(point)
    assert (tmp_path / "real/project/a").read_bytes() == b"1"
