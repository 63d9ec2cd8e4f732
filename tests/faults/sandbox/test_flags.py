"""What nobody may change, root included, and what one user may not take from another: found before the first change.

Immutable and append-only files and directories, sticky directories; set before a restore, and set in its middle.
"""

import os
import subprocess

import pytest

from support import other_users, unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.store_checks import leftovers
from support.trees import Mode, plant


@pytest.fixture
def flag(root):
    """flag("+i", "a", ...) sets an attribute; all are taken away at the end."""
    touched = []

    def work(what, *names, check=True):
        touched.extend(names)
        done = subprocess.run(["chattr", what, *(str(root / name) for name in names)], capture_output=True, check=False)
        if done.returncode and check:
            pytest.skip(f"no attributes here: {done.stderr.decode().strip()}")

    yield work
    work("-ia", *list(touched), check=False)


@pytest.fixture
def command(root, home):
    return InProcess(root, home)


TOUCHED = ("edited", "new", "mode", "gone", "closed", "in", "made", "kind", "lost", "in/x", "made/x", "kind/x")


def prepare(command, root):
    plant(root, {"edited": b"1", "mode": b"1", "gone": b"1", "closed/x": b"1", "in/x": b"1", "lost/x": b"1", "lost/y": b"1",
                 "kind": b"1", "far": b"1"})  # fmt: skip
    command("save", "-m", "then", code=0)
    for name in ("gone", "kind", "lost/x"):
        (root / name).unlink()
    plant(root, {"edited": b"2", "new": b"2", "in/x": b"2", "far": b"2", "made/x": b"2", "gone/x": b"a directory now", "kind/x": b"2"})
    for name in ("mode", "closed"):
        os.chmod(root / name, 0o700)


@pytest.mark.parametrize(("what", "name"), [*(("+i", name) for name in TOUCHED), ("+a", "edited"), ("+a", "in"), ("+a", "kind")])
def test_it_is_named_before_the_first_change(command, root, flag, what, name):
    prepare(command, root)
    flag(what, name)
    before = picture(root, mtimes=True, inodes=True)
    for more in ((), ("--dry-run",)):
        result = command("restore", "then", "-y", *more, code=14)
        word = "immutable" if what == "+i" else "append-only"
        assert name in result.err and f"is {word} (chattr -{what[1]}" in result.err and "nothing was changed" in result.err
    assert differences(before, picture(root, mtimes=True, inodes=True)) == {} and not leftovers(root)
    assert command.json("status")["journal"] is None
    command("restore", "then", "-y", "--", "far", code=0)
    assert (root / "far").read_bytes() == b"1"
    flag("-" + what[1], name)
    command("restore", "then", "-y", code=0)
    assert command("diff", "then", "--json", code=0).json["changes"] == []


def test_what_a_restore_does_not_touch_may_be_as_it_likes(command, root, flag):
    plant(root, {"same": b"1", "d/same": b"1", "mode/x": b"1", "a": b"1"})
    command("save", "-m", "then", code=0)
    plant(root, {"a": b"2"})
    os.chmod(root / "mode/x", 0o600)
    flag("+i", "same", "d", "mode")  # the mode of a file may change in a directory that is immutable
    command("restore", "then", "-y", code=0)
    command("undo", "--yes", code=0)
    assert (root / "a").read_bytes() == b"2"


def test_a_copy_of_a_file_with_other_names_has_to_have_a_place(command, root, flag, tmp_path):
    plant(root, {"d/f": b"1", "a": b"1"})
    os.link(root / "d/f", tmp_path / "outside")
    command("save", "-m", "then", code=0)
    os.chmod(root / "d/f", 0o600)
    flag("+i", "d")
    assert "the directory d is immutable" in command("restore", "then", "-y", code=14).err


def test_an_undo_is_refused_in_the_same_way(command, root, flag):
    prepare(command, root)
    command("restore", "then", "-y", code=0)
    flag("+i", "edited")
    before = picture(root)
    assert "edited is immutable" in command("undo", "--yes", code=14).err
    assert differences(before, picture(root)) == {}


@pytest.mark.parametrize("name", ["mode", "edited", "in", "closed", "made"])
def test_one_that_is_set_in_the_middle_is_named_and_both_ways_out_work(command, root, flag, monkeypatch, name):
    from casrewind.worktree import apply

    prepare(command, root)
    before = picture(root)
    real = apply.Applier.carry_out_plan

    def run(self):
        flag("+i", name)  # after the look, and before the first change
        return real(self)

    monkeypatch.setattr(apply.Applier, "carry_out_plan", run)
    result = command("restore", "then", "-y", code=1)
    assert f"cannot continue restoring at {name}" in result.err and "--abort" in result.err
    monkeypatch.undo()
    result = command("restore", "--continue", code=14)
    assert f"{name} is immutable" in result.err and "casrewind restore --abort" in result.err
    command("restore", "--abort", code=0)
    assert differences(before, picture(root)) == {}
    assert not leftovers(root) and command.json("status")["journal"] is None
    flag("-i", name)
    command("restore", "then", "-y", code=0)


def test_after_the_flag_is_gone_an_interrupted_restore_goes_on(command, root, flag, monkeypatch):
    from casrewind.worktree import apply

    prepare(command, root)
    real = apply.Applier.carry_out_plan
    monkeypatch.setattr(apply.Applier, "carry_out_plan", lambda self: (flag("+i", "mode"), real(self))[1])
    command("restore", "then", "-y", code=1)
    monkeypatch.undo()
    flag("-i", "mode")
    command("restore", "--continue", code=0)
    assert command("diff", "then", "--json", code=0).json["changes"] == [] and not leftovers(root)


# -- other people's files


@pytest.fixture
def shared():
    """A project of nobody's with a directory of root's in it, in which everybody may make files and remove their own."""
    other_users.require()
    unprivileged.require()
    with unprivileged.open_directory() as place:
        (place / "home").mkdir()
        root = place / "project"
        plant(root, {"sticky/theirs": Mode(0o666, b"1"), "sticky/ours": b"1", "a": b"1"})
        unprivileged.give(root, place / "home")
        for name in ("sticky", "sticky/theirs"):
            os.chown(root / name, 0, 0)
        os.chmod(root / "sticky", 0o1777)
        command = Command(root, place / "home")
        yield root, lambda *arguments, **more: command(*arguments, prefix=unprivileged.PREFIX, **more)


def test_a_file_of_somebody_else_in_a_sticky_directory_refuses_a_restore_of_it(shared):
    root, user = shared
    user("save", "-m", "then", code=0)
    for name in ("sticky/theirs", "sticky/ours", "a"):
        (root / name).write_bytes(b"2")
    before = picture(root, mtimes=True, inodes=True)
    result = user("restore", "then", "-y", code=14)
    assert "sticky/theirs belongs to another user" in result.err and "sticky/ours" not in result.err
    assert differences(before, picture(root, mtimes=True, inodes=True)) == {}
    user("restore", "then", "-y", "--", "a", "sticky/ours", code=0)
    assert ((root / "a").read_bytes(), (root / "sticky/ours").read_bytes()) == (b"1", b"1")
    assert os.stat(root / "sticky").st_mode & 0o7777 == 0o1777


def test_a_plain_user_is_told_of_an_immutable_file_too(shared):
    root, user = shared
    user("save", "-m", "then", code=0)
    (root / "a").write_bytes(b"2")
    if subprocess.run(["chattr", "+i", root / "a"], capture_output=True, check=False).returncode:
        pytest.skip("no attributes here")
    try:
        assert "a is immutable" in user("restore", "then", "-y", code=14).err
    finally:
        subprocess.run(["chattr", "-i", root / "a"], check=True)
