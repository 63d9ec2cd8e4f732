"""What earlier tools of this kind do, or fail to do, and no other test looks at (tests/seeds.md)."""

import os
import random
import shutil
import subprocess

import pytest

from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.trees import plant


def packs(store):
    """The names and sizes of the packs of a store."""
    place = os.path.join(store, "packs")
    return {name: os.path.getsize(os.path.join(place, name)) for name in os.listdir(place)}


def test_one_line_of_a_save_says_which_one_how_many_files_and_what_changed(casrewind, root):
    plant(root, {"a": b"1" * 1000, "d/b": b"2" * 1000})
    casrewind("save", code=0)
    plant(root, {"a": b"3" * 1000, "c": b"4" * 1000})
    found = casrewind("save", "-m", "two words", code=0)
    (line,) = found.out.splitlines()
    point = casrewind.json("list", "-n", "1")["checkpoints"][0]
    assert line.startswith(f"saved {point['id']}: 3 files, 2.9 KiB (+1 ~1 -0)")
    assert point["label"] == "two words" and found.err == ""


def test_an_identical_state_has_the_same_manifest_and_adds_nothing_to_the_packs(workspace, root):
    plant(root, {"a": b"1", "d/b": b"2", "large": b"x" * 1_100_000})
    first = workspace.save().checkpoint
    before = packs(workspace.store_path)
    for again in (workspace.save("with a label"), workspace.save(pin=True)):
        assert again.created is True and again.checkpoint.id != first.id
        assert (again.checkpoint.tree, again.checkpoint.domain) == (first.tree, first.domain)
    assert packs(workspace.store_path) == before


def test_the_same_bytes_are_stored_once_whatever_their_names_and_however_often_they_come_back(workspace, root):
    noise = random.Random(7).randbytes(200_000)  # does not get smaller
    plant(root, {f"d{number}/copy": noise for number in range(20)})
    workspace.save()
    once = sum(packs(workspace.store_path).values())
    assert 200_000 < once < 220_000
    for number in range(20):
        os.rename(root / f"d{number}" / "copy", root / f"d{number}" / "moved")
    workspace.save()
    shutil.rmtree(root / "d0")
    workspace.save()
    plant(root, {"d0/copy again": noise, "small": b"1"})
    workspace.save()
    assert sum(packs(workspace.store_path).values()) < once + 20_000


def test_a_list_is_whole_unless_a_number_is_given(workspace, casrewind, root):
    plant(root, {"a": b"1"})
    made = [workspace.save(f"number {number}").checkpoint.id for number in range(60)]
    assert [point["id"] for point in casrewind.json("list")["checkpoints"]] == made[::-1]
    assert len(casrewind("list", "--all", code=0).out.splitlines()) == 60 + 2
    assert casrewind("list", code=0).out.count("saved: number") == 60
    assert [point["id"] for point in casrewind.json("list", "-n", "3")["checkpoints"]] == made[:-4:-1]


@pytest.mark.parametrize("levels", [26, 120])
def test_a_start_deep_down_finds_the_root_however_many_levels_up_it_is(root, home, levels):
    below = "/".join(["d"] * levels)
    plant(root, {".git/HEAD": b"", "a": b"1", below + "/b": b"1"})
    saved = InProcess(root / below, home).json("save")
    assert (saved["root"], saved["files"]) == (str(root), 2)


def test_no_program_is_needed_in_a_repository_nor_outside_of_one(root, home):
    plant(root, {"repository/.git/HEAD": b"", "repository/a": b"1", "plain/a": b"1"})
    for name in ("repository", "plain"):
        place = root / name
        casrewind = Command(place, home, PATH="/nothing/is/here")
        casrewind("save", code=0)
        plant(place, {"a": b"2", "new": b"2"})
        changed = picture(place)
        casrewind("restore", "last", "-y", code=0)
        assert (place / "a").read_bytes() == b"1" and not (place / "new").exists()
        casrewind("undo", "--yes", code=0)
        assert picture(place) == changed


def test_a_checkpoint_outlives_commits_checkouts_and_collections_of_git(casrewind, root):
    """HEAD moved, the branch is gone, git has collected its garbage: the files come back, the repository stays as it is."""
    if shutil.which("git") is None:
        pytest.skip("needs git")

    def git(*arguments):
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True).stdout

    plant(root, {"a": b"one\n", "b": b"one\n"})
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("checkout", "-q", "-b", "short-lived")
    plant(root, {"a": b"two\n", "only-there": b"two\n"})
    git("add", "-A")
    git("commit", "-qm", "two")
    plant(root, {"b": b"never committed\n", "untracked": b"never added\n"})
    wanted = picture(root, skip=(b".git",))
    then = casrewind.json("save")["checkpoint"]
    git("checkout", "-q", "-f", "main")
    git("clean", "-qfdx")
    git("branch", "-qD", "short-lived")
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    assert set(os.listdir(root)) == {".git", "a", "b"}
    repository = picture(root / ".git", mtimes=True, inodes=True)
    casrewind("restore", then, "-y", code=0)
    assert differences(wanted, picture(root, skip=(b".git",))) == {}
    assert differences(repository, picture(root / ".git", mtimes=True, inodes=True)) == {}
    casrewind("undo", "--yes", code=0)
    assert set(os.listdir(root)) == {".git", "a", "b"}
