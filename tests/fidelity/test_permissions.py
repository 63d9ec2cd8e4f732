"""Permissions as a user meets them who is not root, and the modes that a file has on its way to its name."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from support import other_users, unprivileged
from support.command import Command
from support.picture import differences, picture
from support.trees import Dir, Exec, Mode, plant


@pytest.fixture
def place():
    with unprivileged.open_directory() as found:
        yield found


@pytest.fixture
def home(place):
    (place / "home").mkdir()
    return place / "home"


@pytest.fixture
def root(place):
    (place / "project").mkdir()
    return place / "project"


@pytest.fixture
def user(root, home):
    """The command as a plain user, in a project of his own."""
    unprivileged.require()
    unprivileged.give(root, home)
    command = Command(root, home)

    def run(*arguments, **more):
        return command(*arguments, prefix=unprivileged.PREFIX, **more)

    return run


def closed(root, mode):
    plant(root, {"d/edited": b"1", "d/removed": b"2", "d/same": b"3", "d/sub/x": b"4", "d/to link": b"5"})
    for place in ("d/sub", "d"):
        (root / place).chmod(mode)


def damage(root):
    for place in ("d", "d/sub"):
        (root / place).chmod(0o755)
    plant(root, {"d/edited": b"one", "d/added": b"x", "d/sub/x": b"four", "d/sub/new/y": b"y"})
    (root / "d/removed").unlink()
    (root / "d/to link").unlink()
    os.symlink("same", root / "d/to link")


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o511])
def test_read_only_directories_with_changes_inside(user, root, mode):
    """Edited, added, removed inside; the directories stay closed afterwards. In both directions."""
    closed(root, mode)
    unprivileged.give(root)
    before = picture(root, mtimes=True)
    user("save", code=0)
    damage(root)
    for place in ("d/sub", "d"):
        (root / place).chmod(mode)  # closed again, but not what they were
    unprivileged.give(root)
    broken = picture(root)
    user("restore", "last", "--yes", code=0)
    assert differences(before, picture(root, mtimes=True)) == {}
    user("undo", "--yes", code=0)
    assert differences(broken, picture(root)) == {}
    user("redo", "--yes", code=0)
    assert differences(before, picture(root, mtimes=True)) == {}


@pytest.mark.parametrize("mode", [0o555, 0o500])
def test_read_only_directories_that_go_and_come_back(user, root, mode):
    plant(root, {"keep": b"k"})
    unprivileged.give(root)
    user("save", code=0)
    closed(root, mode)
    unprivileged.give(root)
    broken = picture(root)
    user("restore", "last", "--yes", code=0)
    assert sorted(os.listdir(root)) == ["keep"]
    user("undo", "--yes", code=0)
    assert differences(broken, picture(root)) == {}


def test_a_read_only_directory_becomes_a_file_and_comes_back(user, root):
    plant(root, {"d": b"file"})
    unprivileged.give(root)
    user("save", code=0)
    (root / "d").unlink()
    closed(root, 0o555)
    unprivileged.give(root)
    broken = picture(root)
    user("restore", "last", "--yes", code=0)
    assert (root / "d").read_bytes() == b"file"
    user("undo", "--yes", code=0)
    assert differences(broken, picture(root)) == {}


def test_a_root_directory_that_its_owner_may_not_write_to_is_opened_or_refused_before_the_first_change(user, root):
    plant(root, {"a": b"1", "d/b": b"2"})
    unprivileged.give(root)
    user("save", code=0)
    plant(root, {"a": b"edited", "d/b": b"edited", "d/new": b"x"})
    unprivileged.give(root)
    root.chmod(0o555)
    before = picture(root, mtimes=True)
    result = user("restore", "last", "--yes")
    if result.code == 0:
        assert (root / "a").read_bytes() == b"1"
        assert root.stat().st_mode & 0o777 == 0o555
    else:
        assert result.code == 14, result
        assert "nothing was changed" in result.err
        assert differences(before, picture(root, mtimes=True)) == {}
        root.chmod(0o755)
        user("restore", "last", "--yes", code=0)
        assert (root / "a").read_bytes() == b"1"


def test_an_unreadable_file_is_named_and_never_taken_for_absent(user, root):
    plant(root, {"secret": b"s", "a": b"1"})
    unprivileged.give(root)
    (root / "secret").chmod(0)
    result = user("save", "--json", code=3)
    assert [(skip["path"], skip["reason"]) for skip in result.json["skipped"]] == [("secret", "unreadable")]
    plant(root, {"a": b"2"})
    unprivileged.give(root)
    (root / "secret").chmod(0o644)  # readable now: captured, but the target never knew of it
    result = user("restore", "last", "--yes", "--json", code=0)
    assert (root / "secret").read_bytes() == b"s"
    assert (root / "a").read_bytes() == b"1"


def test_an_unreadable_directory_is_named_and_never_taken_for_absent(user, root):
    plant(root, {"closed/x": b"s", "a": b"1"})
    unprivileged.give(root)
    (root / "closed").chmod(0)
    result = user("save", "--json", code=3)
    assert [(skip["path"], skip["reason"]) for skip in result.json["skipped"]] == [("closed", "unreadable")]
    (root / "closed").chmod(0o755)
    plant(root, {"a": b"2"})
    unprivileged.give(root)
    user("restore", "last", "--yes", code=0)
    assert (root / "closed/x").read_bytes() == b"s"


def test_a_dry_run_says_the_same_of_a_directory_that_its_owner_may_not_write_to(user, root):
    plant(root, {"d/x": b"1", "d": Dir(0o500)})
    unprivileged.give(root)
    user("save", code=0)
    (root / "d").chmod(0o700)
    (root / "d/x").unlink()
    (root / "d").chmod(0o500)
    planned = user("restore", "last", "--dry-run", "--json", code=0).json
    assert planned["changes"] == user("restore", "last", "--yes", "--json", code=0).json["changes"]
    assert (root / "d/x").read_bytes() == b"1"


def test_an_unreadable_file_that_the_restore_would_replace_refuses_it(user, root):
    plant(root, {"secret": b"s", "a": b"1"})
    unprivileged.give(root)
    user("save", code=0)
    plant(root, {"secret": b"edited", "a": b"2"})
    unprivileged.give(root)
    (root / "secret").chmod(0)
    before = picture(root, mtimes=True, inodes=True)
    result = user("restore", "last", "--yes", code=14)
    assert "secret cannot be read" in result.err
    assert picture(root, mtimes=True, inodes=True) == before


def test_files_of_every_mode_are_replaced_and_removed(user, root):
    plant(
        root,
        {"0400": Mode(0o400, b"1"), "0444": Mode(0o444, b"2"), "0500": Mode(0o500, b"3"), "d/x": Mode(0o400, b"4")},
    )
    unprivileged.give(root)
    before = picture(root, mtimes=True)
    user("save", code=0)
    plant(root, {"0400": Mode(0o400, b"one"), "0444": Mode(0o640, b"two"), "0500": b"three", "new": Mode(0o400, b"n")})
    (root / "d/x").unlink()
    unprivileged.give(root)
    user("restore", "last", "--yes", code=0)
    assert differences(before, picture(root, mtimes=True)) == {}


def test_a_mode_can_be_given_to_a_file_that_its_owner_cannot_read(user, root):
    """0000 in the checkpoint (made by root), same bytes, so that only the mode has to change and back."""
    plant(root, {"a": Mode(0o600, b"x"), "b": b"1"})
    unprivileged.give(root)
    user("save", code=0)
    (root / "a").chmod(0o644)
    user("restore", "last", "--yes", code=0)
    assert (root / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["restore", "to"])
def test_no_file_is_wider_for_an_instant_than_it_has_to_be(casrewind, root, tmp_path, command):
    """Every file that a restore creates is created 0600, under any umask; fchmod gives its mode before its name."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    plant(
        root,
        {
            "secret": Mode(0o600, b"s"),
            "d/run": Exec(b"#!"),
            "big": Mode(0o640, b"x" * 2_000_000),
            "private": Dir(0o700),
        },
    )
    casrewind("save", code=0)
    plant(root, {"secret": Mode(0o600, b"edited"), "d/run": Exec(b"edited"), "big": Mode(0o640, b"y")})
    (root / "private").rmdir()
    trace = tmp_path / "trace"
    traced = (
        "strace",
        "-f",
        "-qq",
        "-e",
        "signal=none",
        "-e",
        "trace=openat,mkdirat,mkdir,fchmod,fchmodat,chmod,rename,renameat,renameat2",
        "-o",
        str(trace),
    )
    arguments = (
        ("restore", "last", "--yes") if command == "restore" else ("restore", "last", "--to", str(tmp_path / "out"))
    )
    old = os.umask(0)
    try:
        casrewind(*arguments, prefix=traced, code=0)
    finally:
        os.umask(old)
    calls = trace.read_text().splitlines()
    names = [".casrewind-tmp-"] if command == "restore" else ['"secret"', '"run"', '"big"']
    created = [line for line in calls if "O_CREAT" in line and any(name in line for name in names)]
    assert len(created) >= 3
    assert all(re.search(r"O_EXCL.*, 0600\) = \d+", line) for line in created), created
    stores = [line for line in calls if "O_CREAT" in line and "/data/stores/" in line and "ENOENT" not in line]
    assert stores
    assert all(re.search(r", 0600\) = ", line) for line in stores), stores
    made = [line for line in calls if "mkdirat(" in line and re.search(r'mkdirat\(\d+, "', line)]
    assert made
    assert all(re.search(r", 0700\) += 0", line) for line in made), made
    modes = re.findall(r"fchmod\(\d+, (\d+)\)", "\n".join(calls))
    assert sorted(modes)[:2] == ["0600", "0640"]
    place = root if command == "restore" else tmp_path / "out"
    assert (place / "secret").stat().st_mode & 0o777 == 0o600
    assert (place / "big").stat().st_mode & 0o777 == 0o640
    assert (place / "private").stat().st_mode & 0o777 == 0o700


def test_a_store_is_private_under_any_umask(casrewind, root, home):
    plant(root, {"a": b"1"})
    old = os.umask(0)
    try:
        casrewind("save", code=0)
        plant(root, {"a": b"2"})
        casrewind("restore", "last", "--yes", code=0)
    finally:
        os.umask(old)
    for path, entry in picture(home / "data" / "stores").items():
        assert entry[1] == {"dir": 0o700, "file": 0o600}[entry[0]], (path, entry)


def test_a_file_of_somebody_else_in_a_directory_of_ours(user, root):
    """It can be read and replaced, as its directory is ours. Nobody else may use the result: he may have put the file there for that."""
    other_users.require()
    plant(root, {"d/theirs": Mode(0o644, b"theirs")})
    unprivileged.give(root)
    os.chown(root / "d/theirs", 0, 0)
    user("save", code=0)
    plant(root, {"d/theirs": b"edited by root"})
    result = user("restore", "last", "--yes", code=3)
    assert (root / "d/theirs").read_bytes() == b"theirs"
    assert (root / "d/theirs").stat().st_mode & 0o777 == 0o600
    assert "note: d/theirs: another user's file was in its place: restored for you alone, with mode 0600" in result.err
    user("undo", "--yes", code=0)
    assert (root / "d/theirs").read_bytes() == b"edited by root"


def test_a_directory_of_somebody_else_is_in_the_way_before_the_first_change(user, root):
    other_users.require()
    plant(root, {"a": b"1", "theirs/x": b"1"})
    unprivileged.give(root)
    user("save", code=0)
    plant(root, {"a": b"2", "theirs/x": b"2"})
    unprivileged.give(root)
    for path in ("theirs", "theirs/x"):
        os.chown(root / path, 0, 0)
    before = picture(root, mtimes=True)
    result = user("restore", "last", "--yes")
    assert result.code == 14, result
    assert "theirs" in result.err
    assert differences(before, picture(root, mtimes=True)) == {}
    user("restore", "last", "--yes", "--", "a", code=0)
    assert (root / "a").read_bytes() == b"1"


def test_permissions_hold_who_runs_these_tests():
    unprivileged.require()
    assert unprivileged.run(sys.executable, "-c", "import os; print(os.geteuid())").stdout == b"%d\n" % unprivileged.NOBODY != b"0\n"
    assert subprocess.run([*unprivileged.PREFIX, "cat", "/etc/shadow"], capture_output=True, check=False).returncode
