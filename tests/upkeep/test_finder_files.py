"""What Finder writes into directories (.DS_Store, ._*) is left out where no .gitignore is in force, and never removed."""

import pytest

from casrewind.gitignore import rules
from support.command_in_process import InProcess
from support.trees import Dir, Link, plant

MADE = {".DS_Store": b"icons", "d/.DS_Store": b"icons", "d/._a": b"resource fork", ".Trashes/x": b"x", ".fseventsd/y": b"y"}


@pytest.fixture
def command(root, home):
    return InProcess(root, home)


@pytest.fixture
def older(monkeypatch):
    """with older(): a casrewind that did not know these files."""

    def turn_off():
        context = monkeypatch.context()
        patch = context.__enter__()
        patch.setattr(rules, "is_made_by_finder", lambda _: False)
        return lambda: context.__exit__(None, None, None)

    return turn_off


def held(workspace, point):
    return sorted(path.decode() for path in dict(workspace.entries(point)))


def test_they_are_skipped_by_name(workspace, root, command):
    plant(root, {"a": b"1", "d/a": b"2", **MADE})
    saved = workspace.save()
    assert held(workspace, saved.checkpoint) == ["a", "d", "d/a"]
    assert {skip.path.decode(): skip.reason for skip in saved.skipped} == dict.fromkeys(
        (".DS_Store", "d/.DS_Store", "d/._a", ".Trashes", ".fseventsd"), "built-in exclude"
    )
    assert not saved.faults
    assert "built-in list" in command("why", "d/.DS_Store").out


def test_a_new_one_is_no_change_and_stays_in_a_restore(workspace, root):
    plant(root, {"a": b"1", "d/a": b"2"})
    then = workspace.save().checkpoint
    plant(root, MADE)
    assert not workspace.save().created
    plant(root, {"a": b"2"})
    workspace.save()
    report = workspace.restore(then)
    assert [action.path for action in report.actions] == [b"a"] and all((root / name).exists() for name in MADE)


@pytest.mark.parametrize("given", ["git", "shared", "settings"])
def test_a_project_that_wants_them_keeps_them(workspace, root, command, given):
    plant(root, {"a": b"1", ".DS_Store": b"1", "._a": b"2"})
    if given == "git":
        plant(root, {".gitignore": b"*.log\n"})
    elif given == "shared":
        command("include", ".DS_Store", code=0)
        command("include", "._*", code=0)
    point = workspace.save().checkpoint if given == "git" else None
    if given == "settings":
        command("save", "-m", "x", CASREWIND_DEFAULT_EXCLUDES="false")
    else:
        command("save", "-m", "x")
    assert {".DS_Store", "._a"} <= set(held(workspace, workspace.checkpoint("x")))
    assert point is None or ".DS_Store" in held(workspace, point)


def test_directories_and_links_of_other_names_are_what_they_were(workspace, root):
    plant(root, {"._d/x": b"1", ".DS_Store_of_mine": b"1", "_partial": b"1", ".d": Dir(), ".l": Link("a")})
    assert held(workspace, workspace.save().checkpoint) == [".DS_Store_of_mine", "._d", "._d/x", ".d", ".l", "_partial"]


def test_an_older_checkpoint_that_has_them_brings_no_removal(workspace, root, older):
    plant(root, {"a": b"1"})
    back = older()
    before = workspace.save().checkpoint
    plant(root, {"a": b"2", ".DS_Store": b"1", "d/._a": b"1", "d/a": b"1"})
    with_them = workspace.save().checkpoint
    back()
    assert ".DS_Store" in held(workspace, with_them)
    plant(root, {"a": b"3", "d/b": b"3"})  # d is listed again, as all directories are after an upgrade
    now = workspace.save().checkpoint
    assert {".DS_Store", "d/._a"}.isdisjoint(held(workspace, now))
    for compared in (workspace.diff(with_them, now), workspace.diff(with_them, None)):
        assert [change.path for change in compared.changes] == [b"a", b"d/b"], "what is not captured now is not removed"
    report = workspace.restore(with_them)
    assert [action.path for action in report.actions] == [b"a", b"d/b"]
    workspace.restore(before)
    assert (root / "a").read_bytes() == b"1" and (root / ".DS_Store").exists() and (root / "d/._a").exists()
    workspace.undo()
    assert (root / "a").read_bytes() == b"2" and (root / ".DS_Store").read_bytes() == b"1"
