"""Files that only a cloud has (iCloud and others) are never opened: that would download them, and a prompt would wait."""

import os
import subprocess

import pytest

from casrewind.workspace import Workspace
from support.cloud import Cloud
from support.command_in_process import InProcess
from support.trees import plant

WHY = "not on this disk"


@pytest.fixture
def cloud(monkeypatch):
    made = Cloud(monkeypatch)
    yield made
    assert made.downloads == []


@pytest.fixture
def command(root, home):
    return InProcess(root, home)


def held(workspace, point):
    return dict(workspace.entries(point))


def skips(saved):
    return {skip.path.decode(): skip.reason for skip in saved.skipped}


def forget_stamps(workspace):
    """As after a boot: no stamp counts any more."""
    for place, _, names in os.walk(workspace.store_path):
        for name in names:
            if name.startswith("stat-"):
                os.unlink(os.path.join(place, name))


@pytest.mark.parametrize("booted", [False, True], ids=["stamps", "no stamps"])
def test_an_evicted_file_stays_as_the_last_checkpoint_has_it(workspace, root, cloud, booted):
    plant(root, {"a": b"1", "d/b": b"2", "d/c": b"3"})
    first = workspace.save().checkpoint
    cloud.evict(root / "a", root / "d/b")
    plant(root, {"d/c": b"4"})
    if booted:
        forget_stamps(workspace)
    saved = workspace.save()
    assert skips(saved) == {} and saved.changes.modified == 1
    assert {name: held(workspace, saved.checkpoint)[name] for name in (b"a", b"d/b")} == {
        name: held(workspace, first)[name] for name in (b"a", b"d/b")
    }
    again = workspace.save()
    assert not again.created and again.skipped == ()
    (root / "a").chmod(0o755)
    assert held(workspace, workspace.save().checkpoint)[b"a"].mode == 0o755


def test_what_no_checkpoint_has_is_skipped_by_name_until_it_is_here(workspace, root, cloud, command):
    plant(root, {"a": b"1", "far": b"2", "d/x": b"3", "e/y": b"4"})
    cloud.evict(root / "far", root / "d")
    saved = workspace.save()
    assert skips(saved) == {"far": WHY, "d": WHY}
    assert {skip.path for skip in saved.faults} == {b"far", b"d"}
    assert sorted(held(workspace, saved.checkpoint)) == [b"a", b"e", b"e/y"]
    assert f"not captured ({WHY}): 2: d, far" in command("status").err
    assert WHY in command("why", "far").out and WHY in command("why", "d/x").out
    assert command("save", "-m", "again", code=3)
    cloud.download(root / "far", root / "d")
    saved = workspace.save()
    assert saved.skipped == () and {b"far", b"d/x"} <= held(workspace, saved.checkpoint).keys()


def test_what_changed_in_the_cloud_is_unknown_and_no_restore_removes_it(workspace, root, cloud):
    plant(root, {"a": b"1"})
    first = workspace.save().checkpoint
    plant(root, {"a": b"2", "b": b"new"})
    workspace.save()
    cloud.evict(root / "b")
    cloud.change(root / "b", b"newer, by another machine")
    saved = workspace.save("b is unknown")
    assert skips(saved) == {"b": WHY}
    compared = workspace.diff(first, saved.checkpoint)
    assert [change.path for change in compared.changes] == [b"a"]
    report = workspace.restore(first)
    assert (root / "a").read_bytes() == b"1" and os.path.lexists(root / "b")
    assert [action.path for action in report.actions] == [b"a"]


def test_a_file_that_was_not_on_the_disk_at_the_target_stays(workspace, root, cloud):
    plant(root, {"a": b"1", "far": b"2", "d/x": b"3"})
    cloud.evict(root / "far", root / "d")
    then = workspace.save().checkpoint
    cloud.download(root / "far", root / "d")
    plant(root, {"a": b"2"})
    workspace.save()
    report = workspace.restore(then)
    reasons = {item.path: item.reason for item in report.kept}
    assert (root / "far").read_bytes() == b"2" and (root / "d/x").read_bytes() == b"3" and (root / "a").read_bytes() == b"1"
    assert reasons[b"far"] == f"not known to the checkpoint: {WHY} then"
    assert WHY in reasons[b"d"] or WHY in reasons[b"d/x"]


@pytest.mark.parametrize("gone", [False, True], ids=["changes it", "removes it"])
def test_a_restore_over_one_is_refused_by_name_and_says_how_to_go_on(workspace, root, cloud, command, gone):
    plant(root, {"a": b"1"} if gone else {"a": b"1", "my file": b"old"})
    workspace.save("then")
    plant(root, {"a": b"2", "my file": b"other"})
    workspace.save()
    cloud.evict(root / "my file")
    before = sorted(os.listdir(root))
    for words in (("restore", "then", "--yes"), ("restore", "then", "--dry-run")):
        said = command(*words, code=14).err
        assert "my file is not on this disk" in said and "brctl download 'my file'" in said and "nothing was changed" in said
    assert sorted(os.listdir(root)) == before and (root / "a").read_bytes() == b"2"
    assert not workspace.is_interrupted()
    command("restore", "then", "--yes", "--", "a", code=0)
    assert (root / "a").read_bytes() == b"1"
    cloud.download(root / "my file")
    command("restore", "then", "--yes", code=0)
    assert os.path.lexists(root / "my file") is not gone


def test_a_restore_into_a_directory_in_the_cloud_is_refused_by_its_name(workspace, root, cloud, command):
    plant(root, {"a": b"1", "d/e/f/x": b"old", "d/e/y": b"1"})
    workspace.save("then")
    plant(root, {"a": b"2", "d/e/f/x": b"new"})
    workspace.save()
    cloud.evict(root / "d/e")
    saved = workspace.save()
    assert skips(saved) == {"d/e": WHY}
    said = command("restore", "then", "--yes", code=14).err
    assert said.count("is not on this disk") == 1 and "d/e is not on this disk" in said and "brctl download d/e" in said
    assert (root / "a").read_bytes() == b"2"
    command("restore", "then", "--yes", "--", "a", code=0)
    assert (root / "a").read_bytes() == b"1"
    assert "d/e" not in [change.path.decode() for change in workspace.diff(workspace.checkpoint("then"), None).changes]


def test_undo_leaves_one_alone_by_name_and_does_not_say_that_it_was_edited(workspace, root, cloud, command):
    plant(root, {"a": b"1", "b": b"1"})
    workspace.save("then")
    plant(root, {"a": b"2"})
    workspace.save()
    command("restore", "then", "--yes", code=0)
    cloud.evict(root / "a")
    said = command("undo", "--yes", code=3).err
    assert "left alone: a: a is not on this disk" in said and "edited" not in said
    assert "a is not on this disk" in command("undo", "--yes", "--all", code=14).err
    assert (root / "b").read_bytes() == b"1"
    cloud.download(root / "a")
    command("undo", "--yes", code=0)
    assert (root / "a").read_bytes() == b"2"


def test_evicted_rules_stay_in_force(workspace, root, cloud):
    plant(root, {".gitignore": b"*.log\n", "x.log": b"1", "a": b"1"})
    workspace.save()
    cloud.evict(root / ".gitignore")
    plant(root, {"a": b"2", "y.log": b"2"})
    saved = workspace.save()
    assert saved.skipped == () and b"y.log" not in held(workspace, saved.checkpoint)
    cloud.change(root / ".gitignore", b"nothing known\n")
    plant(root, {"a": b"3", "z.log": b"3"})
    saved = workspace.save()
    assert skips(saved)[".gitignore"].startswith(("unreadable ignore rules", WHY))
    assert b"z.log" not in held(workspace, saved.checkpoint)


@pytest.mark.parametrize(("name", "rules"), [(".casrewind.toml", b'ignore = ["*.big"]\n'), (".git/info/exclude", b"*.big\n")], ids=["the project's", "git's"])
def test_an_evicted_file_of_settings_counts_as_the_last_checkpoint_recorded_it(root, cloud, settings, name, rules):
    if name.startswith(".git/"):
        subprocess.run(["git", "init", "-q", root], check=True)
    plant(root, {name: rules, "x.big": b"1", "a": b"1"})
    with Workspace(str(root), settings, create=True) as opened:
        assert b"x.big" not in held(opened, opened.save().checkpoint)
    cloud.evict(root / name)
    plant(root, {"a": b"2"})
    with Workspace(str(root), settings, create=True) as opened:
        saved = opened.save()
        assert b"x.big" not in held(opened, saved.checkpoint)
    assert any("it is not on this disk" in skip.reason for skip in saved.skipped)


def test_a_take_leaves_what_is_not_on_the_disk_of_its_directory_and_names_it(workspace, root, cloud, tmp_path):
    plant(root, {"a": b"1", "b": b"1", "c": b"1"})
    workspace.materialise(workspace.save().checkpoint, tmp_path / "try")
    plant(tmp_path / "try", {"a": b"2", "b": b"changed", "new": b"n"})
    cloud.evict(*(tmp_path / "try" / name for name in ("b", "c", "new")))
    report = workspace.take(tmp_path / "try")
    kept = {item.path.decode(): item.reason for item in report.kept}
    assert (root / "a").read_bytes() == b"2" and (root / "b").read_bytes() == b"1" and (root / "c").read_bytes() == b"1"
    assert kept.keys() == {"b", "new"} and all(WHY in reason for reason in kept.values()), "c is as the checkpoint has it"


def test_ignored_files_in_the_cloud_are_not_carried_along_and_named(workspace, root, cloud, tmp_path):
    plant(root, {".gitignore": b"*.env\n", ".worktreeinclude": b"*.env\n", "a": b"1", "x.env": b"x", "y.env": b"y"})
    point = workspace.save().checkpoint
    cloud.evict(root / "x.env")
    report = workspace.materialise(point, tmp_path / "new")
    assert not os.path.lexists(tmp_path / "new/x.env") and (tmp_path / "new/y.env").read_bytes() == b"y"
    assert any(item.path == b"x.env" and "not on this disk" in item.reason for item in report.kept)


@pytest.mark.parametrize("words", [
    ("status",), ("status", "--ignored"), ("diff", "then"), ("diff", "then", "-p"), ("list",), ("show", "last"), ("log", "far"),
    ("log", "-S", "old"), ("why", "d/x"), ("cat", "then:far"),
], ids=" ".join)  # fmt: skip
def test_no_command_that_looks_opens_one(workspace, root, cloud, command, words):
    plant(root, {".gitignore": b"*.log\n", "a": b"1", "far": b"old", "d/x": b"old", "x.log": b"1", "logs/y.log": b"1"})
    workspace.save("then")
    plant(root, {"a": b"2", "far": b"another", "d/x": b"changed"})
    cloud.evict(root / "far", root / "d", root / "x.log", root / "logs")
    assert command(*words).code in (0, 3)


def test_purge_and_gc_and_verify_do_not_open_one(workspace, root, cloud, command):
    plant(root, {"a": b"1", "far": b"old", "d/x": b"old"})
    workspace.save("then")
    cloud.evict(root / "far", root / "d")
    for words in (("gc",), ("verify",), ("purge", "--yes", "--", "far")):
        assert command(*words).code in (0, 3)


def test_save_rehash_does_not_open_one(workspace, root, cloud, command):
    plant(root, {"a": b"1", "far": b"old"})
    first = workspace.save().checkpoint
    cloud.evict(root / "far")
    command("save", "--rehash", "-m", "x", code=0)
    assert held(workspace, workspace.checkpoint("x"))[b"far"] == held(workspace, first)[b"far"]

