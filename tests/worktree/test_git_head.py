"""Git's branch and commit as the files of a repository say it, whatever is in them."""

import os
import subprocess

import pytest

from casrewind.worktree import git_head
from casrewind.worktree.root import find_root

ONE, TWO = "1" * 40, "a" * 64


@pytest.fixture
def git(tmp_path):
    place = tmp_path / "git"
    (place / "refs" / "heads").mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    return place


def read(place, common=None):
    return git_head.branch_and_commit(str(place), str(common) if common else None)


def test_a_branch_whose_ref_is_a_file(git):
    (git / "refs/heads/main").write_text(ONE + "\n")
    assert read(git) == ("main", ONE)
    (git / "refs/heads/main").write_text(TWO + "\n")
    assert read(git) == ("main", TWO)


def test_a_packed_ref(git):
    (git / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{'2' * 40} refs/heads/main2\n{ONE} refs/heads/main\n^{'3' * 40}\n")
    assert read(git) == ("main", ONE)
    (git / "refs/heads/main").write_text("4" * 40)
    assert read(git) == ("main", "4" * 40)


def test_a_branch_without_a_commit(git):
    assert read(git) == ("main", "")


def test_a_detached_head(git):
    (git / "HEAD").write_text(ONE + "\n")
    assert read(git) == ("", ONE)


def test_a_branch_with_slashes_and_other_letters(git):
    (git / "HEAD").write_bytes("ref: refs/heads/fix/größe\n".encode())
    (git / "refs/heads/fix").mkdir()
    (git / "refs/heads/fix/größe").write_text(ONE)
    assert read(git) == ("fix/größe", ONE)


def test_a_linked_worktree_has_its_refs_in_the_common_directory(git, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "HEAD").write_text("ref: refs/heads/other\n")
    (git / "refs/heads/other").write_text(ONE)
    assert read(own, git) == ("other", ONE)
    assert read(own) == ("other", "")


def test_no_repository():
    assert git_head.branch_and_commit(None, None) == ("", "")
    assert git_head.branch_and_commit("/nowhere/at/all", None) == ("", "")


@pytest.mark.parametrize(
    "head",
    [b"", b"\0" * 10, b"ref:", b"ref: ", b"ref: /etc/passwd", b"ref: refs/../../x", b"ref: refs/heads/.invalid", b"ref: refs/heads/a\0b",
     b"ref: refs//heads", b"ref: refs", b"x" * 40, b"ref: refs/heads/" + b"y" * 5000, b"\xff" * 5000, b"ref: refs/heads/a b\n"],
)  # fmt: skip
def test_a_head_that_names_nothing(git, head):
    (git / "HEAD").write_bytes(head)
    assert read(git) == ("", "")


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main", "packed-refs"])
def test_a_file_that_is_none(git, tmp_path, name):
    secret = tmp_path / "secret"
    secret.write_text(f"{ONE} refs/heads/main\n{ONE}\n")
    for make in (lambda p: os.mkfifo(p), lambda p: os.symlink(secret, p), lambda p: os.mkdir(p), lambda p: os.symlink(p, p)):
        place = git / name
        place.unlink(missing_ok=True)
        make(place)
        assert read(git) == (("", "") if name == "HEAD" else ("main", ""))
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()


def test_huge_files_are_read_in_part(git):
    with open(git / "packed-refs", "wb") as file:
        file.truncate(1 << 40)
    with open(git / "refs/heads/main", "wb") as file:
        file.truncate(1 << 40)
    assert read(git) == ("main", ""), "no memory holds all of them"


def test_as_git_itself_says(tmp_path):
    place = tmp_path / "project"
    run = lambda *words, at=place: subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True).stdout.strip()  # noqa: E731
    place.mkdir()
    try:
        run("init", "-q", "-b", "main")
    except FileNotFoundError:
        pytest.skip("no git")
    run("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "one")
    run("worktree", "add", "-q", "-b", "side", "../linked")
    for at in (place, tmp_path / "linked"):
        for pack in (False, True):
            if pack:
                run("pack-refs", "--all")
            root = find_root(str(at), home=str(tmp_path / "home"), is_known=lambda _: False)
            said = (run("branch", "--show-current", at=at), run("rev-parse", "HEAD", at=at))
            assert git_head.branch_and_commit(root.git_dir, root.common_dir) == said
