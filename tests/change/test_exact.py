"""What a restore puts back, what it leaves alone, and how little of it touches anything."""

import os
import random
import shutil
import stat
import subprocess

import pytest

from casrewind import errors
from support import packfile
from support.picture import differences, picture
from support.trees import Dir, Exec, Fifo, Link, Mode, plant

OLD = 1_000_000_000_123_456_789


def state(root):
    return picture(root, mtimes=True)


def exact(root):
    return picture(root, mtimes=True, inodes=True)


TREE = {
    "a": b"1", "run.sh": Exec(b"#!/bin/sh\n"), "private": Mode(0o600, b"p"), "readonly": Mode(0o444, b"r"), "nothing": b"",
    "d/e/f": b"deep", "d/empty": Dir(0o700), "l": Link("a"), "dangling": Link("/nowhere/at all"), "to-directory": Link("d"),
    b"n\xff\n \x1b": b"odd name", "crlf": b"a\r\nb\r\n", "binary": bytes(range(256)) * 9, "large": b"0123456789abcdef" * 90_000,
}  # fmt: skip


def test_every_kind_comes_back_exactly(workspace, root):
    plant(root, TREE)
    for number, path in enumerate(sorted(p for p, entry in picture(root).items() if entry[0] == "file")):
        os.utime(os.path.join(os.fsencode(root), path), ns=(OLD + number, OLD + number))
    wanted = state(root)
    then = workspace.save().checkpoint
    for name in os.listdir(root):
        shutil.rmtree(root / name) if os.path.isdir(root / name) and not os.path.islink(root / name) else os.unlink(root / name)
    empty = workspace.save()
    assert empty.checkpoint.files == 0
    workspace.restore(then)
    assert state(root) == wanted
    workspace.restore(empty.checkpoint)
    assert state(root) == {}
    plant(root, {"a": Link("l"), "l": b"a file", "d": b"a file", "run.sh": Dir(), "dangling/x": b"", "nothing": Link("nothing")})
    workspace.restore(then)
    assert state(root) == wanted


def test_rewritten_files_get_the_recorded_mtime_and_others_keep_inode_and_mtime(workspace, root):
    plant(root, {"rewritten": b"1", "removed": b"1", "touched": b"1", "same": b"1", "d/same": b"1", "mode": b"1", "l": Link("a")})
    for name in ("rewritten", "removed", "mode"):
        os.utime(root / name, ns=(OLD, OLD))
    then = workspace.save().checkpoint
    plant(root, {"rewritten": b"2"})
    os.unlink(root / "removed")
    os.utime(root / "touched", ns=(OLD, OLD))
    os.chmod(root / "mode", 0o600)
    before = exact(root)
    workspace.restore(then)
    after = exact(root)
    assert os.stat(root / "rewritten").st_mtime_ns == os.stat(root / "removed").st_mtime_ns == OLD
    assert set(differences(before, after)) == {b"rewritten", b"removed", b"mode"}
    assert after[b"mode"] == (*before[b"mode"][:1], 0o644, *before[b"mode"][2:]), "a mode alone needs no new file"


def test_permissions_come_back_but_never_set_id_or_sticky_bits(workspace, root, casrewind):
    plant(root, {"tool": b"1", "d/x": b"1"})
    os.chmod(root / "tool", 0o6755)
    os.chmod(root / "d", 0o1777)
    then = workspace.save().checkpoint
    shown = {entry["path"]: entry["mode"] for entry in casrewind.json("show", then.id)["entries"]}
    assert (shown["tool"], shown["d"]) == ("6755", "1777")
    os.chmod(root / "tool", 0o755)
    os.chmod(root / "d", 0o777)
    assert workspace.restore(then).actions == (), "these bits alone make no difference"
    os.unlink(root / "tool")
    shutil.rmtree(root / "d")
    workspace.restore(then)
    assert stat.S_IMODE(os.stat(root / "tool").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(root / "d").st_mode) == 0o777


def test_a_restored_private_file_is_never_wider_than_it_was(workspace, root):
    plant(root, {"private": Mode(0o600, b"1"), "locked": Dir(0o700)})
    then = workspace.save().checkpoint
    os.unlink(root / "private")
    os.rmdir(root / "locked")
    old = os.umask(0)
    try:
        workspace.restore(then)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(root / "private").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(root / "locked").st_mode) == 0o700


def test_empty_directories_come_back_and_go(workspace, root):
    plant(root, {"empty": Dir(), "deep/er/est": Dir(0o750), "a": b"1"})
    then = workspace.save().checkpoint
    os.rmdir(root / "empty")
    shutil.rmtree(root / "deep")
    plant(root, {"late/and/empty": Dir()})
    assert workspace.save().created
    workspace.restore(then)
    found = picture(root)
    assert found[b"empty"] == ("dir", 0o755)
    assert found[b"deep/er/est"] == ("dir", 0o750)
    assert not (root / "late").exists()


def test_a_hard_link_is_never_written_through(workspace, root, tmp_path):
    plant(root, {"a": b"1"})
    then = workspace.save().checkpoint
    plant(root, {"a": b"2"})
    os.link(root / "a", tmp_path / "elsewhere")
    workspace.restore(then)
    assert (root / "a").read_bytes() == b"1"
    assert (tmp_path / "elsewhere").read_bytes() == b"2"


def test_a_tree_deeper_than_recursion_reaches(workspace, root):
    deep = b"/".join([b"d"] * 520)
    plant(root, {deep + b"/a": b"1", "b": b"1"})
    then = workspace.save().checkpoint
    plant(root, {deep + b"/a": b"2", "b": b"2"})
    before = state(root)
    workspace.restore(then)
    assert (root / "b").read_bytes() == b"1"
    workspace.undo()
    assert state(root) == before
    os.unlink(os.path.join(os.fsencode(root), deep, b"a"))
    workspace.restore(then, (deep,))
    workspace.undo()
    assert deep + b"/a" not in picture(root)
    subprocess.run(["rm", "-r", root / "d"], check=True)  # what pytest clears up with cannot do it


def test_restoring_the_state_that_is_there_does_nothing(workspace, root):
    plant(root, TREE)
    then = workspace.save().checkpoint
    before, points = exact(root), len(workspace.checkpoints())
    report = workspace.restore(then)
    assert (report.actions, report.kept, report.safety) == ((), (), "")
    assert report.unchanged == sum(not os.path.isdir(root / os.fsdecode(path)) or os.path.islink(root / os.fsdecode(path)) for path in before)
    assert exact(root) == before
    assert len(workspace.checkpoints()) == points
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()


def test_a_dry_run_says_what_the_restore_then_does_and_publishes_nothing(casrewind, root):
    plant(root, TREE)
    then = casrewind.json("save")["checkpoint"]
    plant(root, {"a": b"22", "new": b"1", "l": b"a file"})
    os.unlink(root / "run.sh")
    before = exact(root)
    store = casrewind.json("status")["store"]
    truth = picture(store, skip=(b"index", b"locks"))
    dry = casrewind.json("restore", then, "--dry-run")
    assert exact(root) == before
    assert picture(store, skip=(b"index", b"locks")) == truth
    assert dry["dry_run"] is True
    assert {(c["path"], c["status"]) for c in dry["changes"]} == {
        ("a", "modified"), ("new", "removed"), ("l", "type"), ("run.sh", "added"),
    }  # fmt: skip
    real = casrewind.json("restore", then, "-y")
    assert real["safety"]
    assert {**real, "dry_run": True, "safety": None} == dry


def test_a_checkpoint_can_be_written_elsewhere_and_nothing_here_changes(casrewind, root, tmp_path):
    plant(root, TREE)
    wanted = state(root)
    then = casrewind.json("save")["checkpoint"]
    plant(root, {"a": b"changed", ".gitignore": b"*\n"})
    before = exact(root)
    casrewind("restore", then, "--to", tmp_path / "there", code=0)
    assert state(tmp_path / "there") == wanted
    assert exact(root) == before
    assert len(casrewind.json("list", "--all")["checkpoints"]) == 1
    plant(tmp_path / "full", {"mine": b"1"})
    casrewind("restore", then, "--to", tmp_path / "full", code=14)
    assert set(picture(tmp_path / "full")) == {b"mine"}
    casrewind("restore", then, "--to", "relative", code=0)  # to -C's directory
    assert state(root / "relative") == wanted


# -- a restore of some paths only


@pytest.fixture
def mangled(workspace, root):
    plant(root, {"a": b"1", "d/a": b"1", "d/b": b"1", "d/e/deep": b"1", "x/y/z": b"1", "other": b"1", "empty": Dir()})
    then = workspace.save().checkpoint
    plant(root, {"a": b"2", "d/a": b"2", "d/new": b"2", "new": b"2", "other": b"2"})
    os.unlink(root / "d" / "b")
    shutil.rmtree(root / "d" / "e")
    shutil.rmtree(root / "x")
    os.rmdir(root / "empty")
    return then, exact(root)


@pytest.mark.parametrize(
    ("scope", "touched"),
    [
        ("a", {b"a"}),
        ("new", {b"new"}),
        ("d", {b"d/a", b"d/b", b"d/new", b"d/e", b"d/e/deep"}),
        ("d/e", {b"d/e", b"d/e/deep"}),
        ("d/e/deep", {b"d/e", b"d/e/deep"}),
        ("x", {b"x", b"x/y", b"x/y/z"}),
        ("x/y/z", {b"x", b"x/y", b"x/y/z"}),
        ("empty", {b"empty"}),
    ],
)
def test_a_restore_of_a_path_touches_nothing_else(workspace, root, mangled, scope, touched):
    then, before = mangled
    report = workspace.restore(then, (scope.encode(),))
    assert set(differences(before, exact(root))) == touched
    assert {action.path for action in report.actions} == touched
    assert report.kept == ()
    wanted = dict(workspace.entries(then))
    assert all((path in wanted) == os.path.lexists(os.path.join(os.fsencode(root), path)) for path in touched)
    workspace.undo()
    assert state(root) == {path: entry[:4] if entry[0] == "file" else entry[:2] for path, entry in before.items()}


@pytest.mark.parametrize("scope", ["nothing-here", "d/nothing/here"])
def test_a_path_that_exists_nowhere_is_refused(workspace, root, mangled, scope):
    then, _ = mangled
    before = exact(root)
    for restore in (workspace.plan_restore, workspace.restore, workspace.diff):
        with pytest.raises(errors.PathNotFound, match=scope):
            restore(then, scope=(scope.encode(),))
    assert exact(root) == before


def test_paths_are_relative_to_where_the_command_starts_and_may_not_leave_the_root(casrewind, workspace, root, mangled):
    then, before = mangled
    casrewind("-C", str(root / "d"), "restore", then.id, "-y", "--", "a", "../other", code=0)
    assert set(differences(before, exact(root))) == {b"d/a", b"other"}
    before = exact(root)
    for outside in ("../outside", "/etc/passwd", "d/../../x", ".git/config", "d/.GIT/x"):
        casrewind("restore", then.id, "-y", "--", outside, code=14)
    assert exact(root) == before


def test_a_path_whose_parent_is_something_else_by_now_refuses_unless_that_is_named_too(workspace, root, mangled):
    then, _ = mangled
    plant(root, {"x": b"a file now"})
    before = exact(root)
    with pytest.raises(errors.ContentInTheWay, match="x is in the way of x/y"):
        workspace.restore(then, (b"x/y",))
    assert exact(root) == before
    workspace.restore(then, (b"x",))
    assert (root / "x" / "y" / "z").read_bytes() == b"1"


@pytest.mark.parametrize("scope", [b"d/nothing", b"other/below"])
def test_a_special_file_above_a_path_that_the_checkpoint_does_not_have_is_nobodys_business(workspace, root, mangled, scope):
    then, _ = mangled
    shutil.rmtree(root / "d")
    os.unlink(root / "other")
    plant(root, {"d": Fifo(), "other": Fifo()})
    before = exact(root)
    with pytest.raises(errors.PathNotFound):
        workspace.restore(then, (scope,))
    report = workspace.restore(then, (scope, b"a"))
    assert (scope, "not in the checkpoint") in [(item.path, item.reason) for item in report.kept]
    before = exact(root)
    with pytest.raises(errors.ContentInTheWay, match="d is a special file"):
        workspace.restore(then, (b"d/a",))
    assert exact(root) == before


def test_the_root_itself_as_a_path_means_everything(casrewind, workspace, root, mangled):
    then, _ = mangled
    casrewind("restore", then.id, "-y", "--", ".", code=0)
    assert casrewind.json("diff", then.id)["changes"] == []


def test_what_needed_nothing_is_counted_right_although_it_is_not_read(workspace, root):
    """Whatever was edited, added, removed or replaced: as many as a walk through the whole checkpoint finds."""
    chance = random.Random(11)
    plant(root, {f"d{n}/e{n % 3}/f{n}": b"%d" % n for n in range(60)})
    plant(root, TREE)
    points = [workspace.save("start").checkpoint]
    for turn in range(8):
        files = sorted(os.path.join(place, name) for place, _, names in os.walk(root) for name in names)
        for path in chance.sample(files, 6):
            if chance.random() < 0.5:
                os.unlink(path)
            elif not os.path.islink(path):
                with open(path, "ab") as file:
                    file.write(b"%d" % turn)
        shutil.rmtree(chance.choice([entry.path for entry in os.scandir(root) if entry.name.startswith("d") and entry.is_dir()]))
        plant(root, {f"n{turn}/a": b"a", f"n{turn}/b/c": b"c", f"s{turn}": Link("a")})
        points.append(workspace.save(f"turn {turn}").checkpoint)
    for point in chance.sample(points, len(points)):
        entries = dict(workspace.entries(point))
        report = workspace.restore(point)
        written = {action.path for action in report.actions if action.after is not None}
        files = {path for path, entry in entries.items() if entry.kind != "dir"}
        assert written <= entries.keys() and report.unchanged == len(files - written)
        assert len(picture(root)) == len(entries)


def test_a_directory_that_is_as_it_was_is_restored_around_whatever_became_of_its_stored_tree(workspace, root):
    """Nothing in it has to be read: the same tree is there. In a directory that differs, a damaged tree is a refusal."""
    plant(root, {"same/f": b"s", "other/f": b"1"})
    then = workspace.save().checkpoint
    (root / "other" / "f").write_bytes(b"2")
    workspace.save()
    same, other = (dict(workspace.entries(then))[name].digest for name in (b"same", b"other"))
    store = workspace._context.store.path
    packfile.flip_blob(store, other)
    with pytest.raises(errors.StoreDamaged, match="other"):
        workspace.restore(then)
    packfile.flip_blob(store, other)
    packfile.flip_blob(store, same)
    assert workspace.restore(then).unchanged == 1
    assert (root / "other" / "f").read_bytes() == b"1"
