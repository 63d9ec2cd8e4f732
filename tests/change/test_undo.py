"""Undo takes back what a restore did, path by path, and nothing that somebody did since; redo takes back the undo."""

import os
import shutil

import pytest

from casrewind import errors
from support.picture import differences, picture
from support.trees import Dir, Exec, Fifo, Link, plant


def reasons(report):
    return {item.path: item.reason for item in report.kept}


def state(root):
    return picture(root, mtimes=True)


@pytest.fixture
def restored(workspace, root):
    """A restore that overwrote (edited, mode, kind), removed (new, n/new) and made again (gone, d/gone) something."""
    plant(root, {"edited": b"old", "mode": b"m", "kind": b"a file", "gone": b"g", "d/gone": b"dg", "same": b"s", "l": Link("a")})
    workspace.save()
    for name in ("kind", "gone"):
        os.unlink(root / name)
    shutil.rmtree(root / "d")
    plant(root, {"edited": b"new", "mode": Exec(b"m"), "kind/now": b"a directory", "new": b"n", "n/new": b"nn", "n/empty": Dir(0o700),
                 "l": Link("b")})  # fmt: skip
    before = state(root)
    workspace.restore(workspace.checkpoint("last"))
    return before, state(root)


def test_undo_is_bit_identical_and_redo_too(workspace, root, restored):
    before, after = restored
    assert (root / "kind").read_bytes() == b"a file"
    for _ in range(3):
        workspace.undo()
        assert state(root) == before
        workspace.redo()
        assert state(root) == after


def test_an_edit_made_after_a_restore_survives_undo_and_is_named(casrewind, root, workspace, restored):
    before, _ = restored
    plant(root, {"edited": b"edited after the restore", "same": b"not in the plan", "brand new": b"1"})
    report = casrewind.json("undo", "--yes", code=3)
    assert [(item["path"], item["reason"]) for item in report["skipped"]] == [("edited", "edited since")]
    wanted = {**before, **{name: state(root)[name] for name in (b"edited", b"same", b"brand new")}}
    assert state(root) == wanted
    assert (root / "edited").read_bytes() == b"edited after the restore"


def test_undo_all_puts_an_edited_path_back_too_and_its_edit_is_in_the_safety_checkpoint(casrewind, root, workspace, restored):
    before, _ = restored
    plant(root, {"edited": b"edited after the restore", "same": b"not in the plan"})
    edited = state(root)
    report = casrewind.json("undo", "--yes", "--all", code=0)
    assert report["skipped"] == []
    assert set(differences(state(root), before)) == {b"same"}
    workspace.restore(workspace.checkpoint(report["safety"]))
    assert state(root) == edited


@pytest.mark.parametrize("later", ["content", "mode", "deleted", "directory", "link", "fifo"])
@pytest.mark.parametrize("path", ["edited", "gone", "mode", "l"])
def test_a_path_that_is_no_longer_as_the_restore_left_it_is_kept(workspace, root, restored, path, later):
    before, _ = restored
    os.unlink(root / path)
    made = {"content": b"mine", "directory": Dir(), "link": Link("elsewhere"), "fifo": Fifo()}
    if later == "mode":
        plant(root, {path: b"old"})
        os.chmod(root / path, 0o600)
    elif later != "deleted":
        plant(root, {path: made[later]})
    now = state(root)
    report = workspace.undo()
    done_by_hand = path == "gone" and later == "deleted"
    assert report.incomplete is not done_by_hand
    assert set(reasons(report)) == (set() if done_by_hand else {path.encode()})
    wanted = {**before, path.encode(): now.get(path.encode())}
    assert {key: entry for key, entry in wanted.items() if entry is not None} == state(root)


def test_what_lost_its_directory_since_is_kept_as_it_is(workspace, root):
    plant(root, {"d/a": b"1"})
    workspace.save()
    plant(root, {"d/a": b"2"})
    workspace.restore(workspace.checkpoint("last"))
    shutil.rmtree(root / "d")
    plant(root, {"d": b"a file by now"})
    for everything in (False, True):
        report = workspace.undo(everything=everything)
        assert (report.actions, report.safety, report.incomplete) == ((), "", True)
        assert set(reasons(report)) == {b"d/a"}
        assert (root / "d").read_bytes() == b"a file by now"
    os.unlink(root / "d")
    plant(root, {"d/a": b"1"})
    workspace.undo()  # the step is still there
    assert (root / "d" / "a").read_bytes() == b"2"


def test_a_directory_that_got_something_since_is_not_removed(workspace, root):
    plant(root, {"d/a": b"1"})
    workspace.save()
    shutil.rmtree(root / "d")
    workspace.restore(workspace.checkpoint("last"))
    plant(root, {"d/mine": b"2"})
    report = workspace.undo()
    assert sorted(os.listdir(root / "d")) == ["mine"]
    assert "still holds mine" in reasons(report)[b"d"]
    assert report.incomplete


def test_a_directory_that_got_something_since_does_not_become_a_file(workspace, root):
    plant(root, {"d/a": b"1"})
    workspace.save()
    shutil.rmtree(root / "d")
    plant(root, {"d": b"a file"})
    workspace.restore(workspace.checkpoint("last"))
    plant(root, {"d/mine": b"2"})
    before = picture(root, mtimes=True, inodes=True)
    with pytest.raises(errors.ContentInTheWay, match="d/mine"):
        workspace.undo()
    assert picture(root, mtimes=True, inodes=True) == before


def test_undo_of_a_path_of_which_nothing_is_left_to_do_says_so_and_ends_the_step(workspace, root):
    plant(root, {"a": b"1"})
    workspace.save()
    plant(root, {"a": b"2"})
    workspace.restore(workspace.checkpoint("last"))
    plant(root, {"a": b"2"})  # somebody did it by hand
    report = workspace.undo()
    assert (report.actions, report.kept) == ((), ())
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()


def test_a_chain_of_restores_is_undone_and_redone_one_by_one(workspace, root):
    points, states = [], []
    for number in range(4):
        plant(root, {"a": b"%d" % number, f"only-{number}": b"x", "d/e": Exec(b"%d" % number)})
        points.append(workspace.save().checkpoint)
    states.append(state(root))
    for point in (points[0], points[2], points[1]):
        workspace.restore(point)
        states.append(state(root))
    for wanted in states[-2::-1]:
        workspace.undo()
        assert state(root) == wanted
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()
    for wanted in states[1:]:
        workspace.redo()
        assert state(root) == wanted
    with pytest.raises(errors.NothingToUndo):
        workspace.redo()
    workspace.undo()
    workspace.undo()
    assert state(root) == states[1]


def test_a_new_restore_ends_redo_and_a_save_does_not(workspace, root):
    plant(root, {"a": b"1"})
    first = workspace.save().checkpoint
    plant(root, {"a": b"2"})
    second = workspace.save().checkpoint
    workspace.restore(first)
    workspace.undo()
    workspace.save("a label")
    assert workspace.status().redo == 1
    workspace.redo()
    workspace.undo()
    workspace.restore(first)
    assert workspace.status().redo == 0
    with pytest.raises(errors.NothingToUndo):
        workspace.redo()
    workspace.undo()
    assert (root / "a").read_bytes() == b"2"
    assert second.id == workspace.checkpoint("prev").id


def test_an_edit_between_two_undos_is_kept(workspace, root):
    points = []
    for number in range(3):
        plant(root, {"a": b"%d" % number, "b": b"%d" % number})
        points.append(workspace.save().checkpoint)
    workspace.restore(points[1])
    workspace.restore(points[0])
    workspace.undo()
    plant(root, {"a": b"mine"})
    report = workspace.undo()
    assert set(reasons(report)) == {b"a"}
    assert (root / "a").read_bytes() == b"mine"
    assert (root / "b").read_bytes() == b"2"
    workspace.redo()
    assert (root / "a").read_bytes() == b"mine"
    assert (root / "b").read_bytes() == b"1"


def test_redo_keeps_edits_as_undo_does(casrewind, workspace, root, restored):
    _, after = restored
    workspace.undo()
    plant(root, {"edited": b"mine"})
    report = casrewind.json("redo", "--yes", code=3)
    assert [(item["path"], item["reason"]) for item in report["skipped"]] == [("edited", "edited since")]
    assert set(differences(state(root), after)) == {b"edited"}


def test_the_last_fifty_restores_can_be_undone(workspace, root):
    points = []
    for number in range(2):
        plant(root, {"a": b"%d" % number})
        points.append(workspace.save().checkpoint)
    for number in range(51):
        workspace.restore(points[number % 2])
    shutil.rmtree(os.path.join(workspace.store_path, "index"))
    for number in range(50, 0, -1):
        workspace.undo()
        assert (root / "a").read_bytes() == b"%d" % ((number - 1) % 2)
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()


def test_nothing_to_undo_or_redo_is_15_and_changes_nothing(casrewind, root):
    plant(root, {"a": b"1"})
    casrewind("save", code=0)
    before = picture(root, mtimes=True, inodes=True)
    for command in ("undo", "redo"):
        assert casrewind(command, code=15).err
    assert picture(root, mtimes=True, inodes=True) == before


def test_undo_takes_back_only_the_paths_of_a_scoped_restore(workspace, root):
    plant(root, {"d/a": b"1", "b": b"1"})
    workspace.save()
    plant(root, {"d/a": b"2", "d/new": b"2", "b": b"2"})
    before = state(root)
    workspace.restore(workspace.checkpoint("last"), (b"d",))
    plant(root, {"b": b"3"})
    kept = state(root)[b"b"]
    workspace.undo()
    assert state(root) == {**before, b"b": kept}


def test_what_is_already_as_wanted_below_a_special_file_is_not_named(workspace, root):
    """Of a path that undo would remove, and that is gone, nothing has to be kept: a fifo took its directory's place."""
    first = workspace.save("without").checkpoint
    plant(root, {"a/a/f": b"1"})
    second = workspace.save("with").checkpoint
    workspace.restore(first)
    workspace.restore(second)
    shutil.rmtree(root / "a")
    os.mkfifo(root / "a")
    assert [item.path for item in workspace.undo().kept] == [b"a"]
