"""The fidelity matrix: everything that a tool of this kind is known to get wrong, one test a row.

Every row goes through save, damage, restore, undo and redo, each judged by a picture that shares no code with the
project. `skip` is for version control's own directories, which no restore may touch.
"""

import os
import subprocess

import pytest

from support.picture import differences, picture
from support.trees import Dir, Exec, Link, Mode, plant


@pytest.fixture
def round_trip(workspace, root):
    """Save what is there, damage it, and go back and forth; the report of the restore."""

    def go(damage, *, skipped=()):
        before = picture(root, mtimes=True)
        saved = workspace.save()
        assert [skip.path for skip in saved.skipped] == list(skipped)
        damage()
        broken = picture(root, mtimes=True)
        assert broken != before, "the damage did nothing"
        report = workspace.restore(saved.checkpoint)
        assert not [item for item in report.kept if not item.benign]
        assert differences(before, picture(root, mtimes=True)) == {}
        assert not workspace.undo().kept
        assert differences(broken, picture(root, mtimes=True)) == {}
        assert not workspace.redo().kept
        assert differences(before, picture(root, mtimes=True)) == {}
        return report

    return go


def stamp(path):
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def test_an_edit_is_taken_back(round_trip, root):
    plant(root, {"a": b"one", "d/b": b"two", "same": b"same"})
    report = round_trip(lambda: plant(root, {"a": b"ONE", "d/b": b"two and more"}))
    assert {action.path for action in report.actions} == {b"a", b"d/b"}
    assert report.unchanged == 1  # same


def test_a_deleted_file_and_a_deleted_directory_come_back(round_trip, root):
    plant(root, {"a": b"one", "d/e/b": b"two", "stays": b""})
    round_trip(lambda: subprocess.run(["rm", "-r", "a", "d"], cwd=root, check=True))


def test_binary_content_is_exact(round_trip, root):
    plant(root, {"all": bytes(range(256)) * 300, "nul": b"\0" * 70_000, "empty": b""})
    round_trip(lambda: plant(root, {"all": b"\xff", "nul": b"\0" * 69_999, "empty": b"no more"}))


def test_line_ends_are_exact(round_trip, root):
    plant(
        root,
        {
            ".gitattributes": b"* text=auto\n",
            "crlf": b"a\r\nb\r\n",
            "cr": b"a\rb",
            "mixed": b"a\r\nb\n\r",
            "bom": b"\xef\xbb\xbfx",
        },
    )
    round_trip(lambda: plant(root, {"crlf": b"a\nb\n", "cr": b"a\nb", "mixed": b"", "bom": b"x"}))


ODD = [
    b" ",
    b"  two",
    b"trailing ",
    b"new\nline",
    b"tab\t",
    b"quo'te",
    b'dou"ble',
    b"back\\slash",
    b"-rf",
    b"--",
    b"~",
    b"*",
    b"$HOME",
    b"\x01\x1b[31m",
    b"\xff\xfe\x80",
    "h\u00e9".encode(),
    "he\u0301".encode(),
    "\U0001f600".encode(),
    b"\xed\xa0\x80",
    b"n" * 255,
    b"\xff" * 255,
    b"con",
    b"a:b",
    b"...",
    b"..a",
    b"#x#",
    b"!neg",
    b"[x]",
    b"%s",
    b"{}",
]


def test_odd_names(round_trip, root):
    plant(root, {name: b"1" for name in ODD} | {b"dir-" + name[:200] + b"/" + name: b"2" for name in ODD})
    assert len(os.listdir(os.fsencode(root))) == 2 * len(ODD)

    def damage():
        plant(root, {name: b"other" for name in ODD[::2]})
        for name in ODD[1::2]:
            os.unlink(os.path.join(os.fsencode(root), name))
        subprocess.run(["rm", "-r", os.path.join(os.fsencode(root), b"dir-" + ODD[3])], check=True)

    round_trip(damage)


def test_a_file_created_later_is_removed(round_trip, root):
    plant(root, {"a": b"one", "d/b": b"x"})
    report = round_trip(
        lambda: plant(root, {"new": b"x", "d/new": b"y", "newdir/deep/er": b"z", "newlink": Link("a"), "e": Dir()})
    )
    assert all(action.after is None for action in report.actions)


LINKS = {
    "to a file": "file",
    "to a directory": "dir",
    "dangling": "nothing/here",
    "absolute": "/etc/passwd",
    "to itself": "l",
    "up": "../..",
}


@pytest.mark.parametrize("target", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("damage", ["removed", "retargeted", "to a file", "to a directory"])
def test_symbolic_links_are_links(round_trip, root, target, damage):
    plant(root, {"file": b"f", "dir/x": b"x", "l": Link(target)})

    def change():
        (root / "l").unlink()
        if damage != "removed":
            plant(
                root,
                {"retargeted": {"l": Link("other")}, "to a file": {"l": b"f"}, "to a directory": {"l/x": b"x"}}[damage],
            )

    round_trip(change)
    assert os.readlink(root / "l") == target


def test_a_new_link_is_removed_and_what_it_points_to_stays(round_trip, root, tmp_path):
    plant(root, {"file": b"f"})
    plant(tmp_path / "outside", {"x": b"theirs"})
    before = picture(tmp_path / "outside", mtimes=True, inodes=True)
    round_trip(lambda: plant(root, {"l": Link(str(tmp_path / "outside")), "m": Link("file")}))
    assert picture(tmp_path / "outside", mtimes=True, inodes=True) == before


def test_the_executable_bit(round_trip, root):
    plant(root, {"run": Exec(b"#!"), "no": b"x", "d/run": Exec(b"#!")})

    def damage():
        (root / "run").chmod(0o644)
        (root / "no").chmod(0o755)
        plant(root, {"d/run": b"other"})

    round_trip(damage)
    assert os.access(root / "run", os.X_OK)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o400, 0o444, 0o600, 0o640, 0o666, 0o700, 0o751, 0o777])
@pytest.mark.parametrize("edit", [False, True], ids=["mode only", "rewritten"])
def test_every_permission_bit_comes_back(round_trip, root, mode, edit):
    plant(root, {"f": Mode(mode, b"secret")})
    needs_to_read(root / "f")
    other = 0o644 if mode != 0o644 else 0o600
    round_trip(lambda: plant(root, {"f": Mode(other, b"other")}) if edit else (root / "f").chmod(other))


def needs_to_read(path):
    if not os.access(path, os.R_OK):
        pytest.skip("needs root: a plain user saves nothing that he cannot read (test_permissions.py)")


@pytest.mark.parametrize("mode", [0o000, 0o500, 0o555, 0o700, 0o711, 0o770, 0o777])
def test_the_modes_of_directories_come_back(round_trip, root, mode):
    plant(root, {"d/e/x": b"1", "other": Dir(mode), "d/e": Dir(mode), "d": Dir(mode)})
    needs_to_read(root / "d")

    def damage():
        for place in ("d", "d/e", "other"):
            (root / place).chmod(0o751)
        plant(root, {"d/e/x": b"2"})

    round_trip(damage)


def test_the_mtime_of_a_rewritten_file_is_the_recorded_one(round_trip, root):
    plant(root, {"a": b"one", "old": b"x", "future": b"y", "before 1970": b"z"})
    times = {
        "a": 1_600_000_000_123_456_789,
        "old": 1,
        "future": 7_000_000_000_000_000_001,
        "before 1970": -1_000_000_001,
    }
    for name, when in times.items():
        os.utime(root / name, ns=(0, when))
    taken = {name: (root / name).stat().st_mtime_ns for name in times}  # as the file system could keep them
    round_trip(lambda: plant(root, {name: b"edited" for name in times}))
    assert {name: (root / name).stat().st_mtime_ns for name in times} == taken


def test_an_unchanged_file_keeps_inode_mtime_and_ctime(workspace, root):
    plant(root, {"same": b"same", "d/same": b"same", "link": Link("same"), "a": b"1"})
    point = workspace.save().checkpoint
    plant(root, {"a": b"2"})
    untouched = ("same", "d/same", "link", "d")
    before = {name: stamp(root / name) for name in untouched}
    workspace.restore(point)
    assert {name: stamp(root / name) for name in untouched} == before


def test_a_file_with_another_mtime_but_the_same_bytes_is_not_rewritten(workspace, root):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    os.utime(root / "a", ns=(0, 5_000_000_000))
    before = stamp(root / "a")
    assert workspace.restore(point).actions == ()
    assert stamp(root / "a") == before


def test_a_touched_file_with_another_mode_gets_the_mode_and_keeps_its_inode(workspace, root):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    (root / "a").chmod(0o600)
    inode = os.stat(root / "a").st_ino
    workspace.restore(point)
    assert os.stat(root / "a").st_ino == inode
    assert os.stat(root / "a").st_mode & 0o777 == 0o644


def test_empty_directories(round_trip, root):
    plant(root, {"empty": Dir(), "a/b/c": Dir(), "private": Dir(0o700), "filled": Dir()})

    def damage():
        (root / "empty").rmdir()
        (root / "a/b/c").rmdir()
        (root / "a/b").rmdir()
        plant(root, {"filled/x": b"x", "new/empty": Dir()})

    round_trip(damage)


def test_the_files_of_a_nested_repository(round_trip, root):
    plant(
        root, {"lib/.git/HEAD": b"ref: refs/heads/main\n", "lib/src/a": b"1", "lib/.gitignore": b"*.o\n", "top": b"t"}
    )
    before = picture(root / "lib/.git", mtimes=True, inodes=True)
    round_trip(lambda: plant(root, {"lib/src/a": b"2", "lib/src/new": b"3"}))
    assert picture(root / "lib/.git", mtimes=True, inodes=True) == before


def test_the_files_of_a_submodule_whose_git_is_a_file(round_trip, root):
    plant(root, {"sub/.git": b"gitdir: ../.git/modules/sub\n", "sub/a": b"1", ".git/modules/sub/HEAD": b"x"})
    round_trip(lambda: plant(root, {"sub/a": b"2"}))


@pytest.mark.parametrize("name", ["dist", "build", "out", "target", "vendor", "bin", "coverage", "tmp", "logs"])
def test_a_directory_of_build_results_that_no_rule_ignores_is_captured(round_trip, root, name):
    plant(root, {".gitignore": b"*.pyc\n", f"{name}/app.js": b"1", "src": b"x"})
    round_trip(lambda: plant(root, {f"{name}/app.js": b"2", f"{name}/new": b"3"}))


def test_an_ignored_env_file_is_untouched(workspace, root):
    plant(root, {".gitignore": b".env\n", ".env": b"SECRET=1", "a": b"1"})
    point = workspace.save().checkpoint
    assert b".env" not in {path for path, _ in workspace.entries(point)}
    plant(root, {".env": b"SECRET=2", "a": b"2"})
    before = stamp(root / ".env")
    report = workspace.restore(point)
    assert [action.path for action in report.actions] == [b"a"]
    assert stamp(root / ".env") == before
    assert (root / ".env").read_bytes() == b"SECRET=2"
    (root / ".env").unlink()
    workspace.restore(point)
    assert not (root / ".env").exists()


def test_an_ignored_env_file_that_is_opted_in_is_captured(round_trip, root):
    plant(
        root,
        {
            ".gitignore": b".env\n*.log\n",
            ".casrewindignore": b"!.env\n",
            ".env": Mode(0o600, b"SECRET=1"),
            "x.log": b"log",
        },
    )
    round_trip(lambda: plant(root, {".env": Mode(0o644, b"SECRET=2")}))
    assert os.stat(root / ".env").st_mode & 0o777 == 0o600


GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def test_git_does_not_notice(casrewind, root):
    """A repository with staged and unstaged changes and a stash: `.git` is byte for byte, stamp for stamp as it was."""

    def git(*arguments):
        return subprocess.run(
            ["git", *arguments], cwd=root, check=True, capture_output=True, env={**os.environ, **GIT}
        ).stdout

    try:
        git("init", "-q")
    except FileNotFoundError:
        pytest.skip("needs git")
    plant(root, {"a": b"1\n", "b": b"2\n", ".gitignore": b"ignored\n"})
    git("add", "-A")
    git("commit", "-qm", "one")
    plant(root, {"a": b"stashed\n"})
    git("stash")
    plant(root, {"b": b"staged\n", "c": b"staged new\n"})
    git("add", "-A")
    plant(root, {"b": b"unstaged\n", "ignored": b"i"})
    before = picture(root / ".git", mtimes=True, inodes=True)
    casrewind("save", code=0)
    plant(root, {"a": b"agent\n", "b": b"agent\n", "new": b"agent\n"})
    (root / "c").unlink()
    for command in (("restore", "last", "--yes"), ("undo", "--yes"), ("redo", "--yes"), ("diff", "last"), ("status",)):
        casrewind(*command, code=0)
        assert differences(before, picture(root / ".git", mtimes=True, inodes=True)) == {}, command
    assert b"b" in git("diff", "--cached", "--name-only")
    assert (root / "b").read_bytes() == b"unstaged\n"
