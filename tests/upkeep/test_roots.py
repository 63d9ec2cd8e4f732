"""Which directory is protected, which store it has, and which directories are refused."""

import os
import shutil
import subprocess

import pytest

from casrewind import errors
from casrewind.workspace import Workspace
from support.command import Command
from support.picture import picture
from support.trees import plant

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(place, *arguments):
    subprocess.run(
        ["git", "-C", place, "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], check=True, capture_output=True
    )


@pytest.fixture
def worktrees(root, tmp_path):
    """A repository with a linked worktree, made by git itself."""
    plant(root, {"a": b"main\n"})
    git(root, "init", "-q")
    git(root, "add", "a")
    git(root, "commit", "-q", "-m", "first")
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    return root, tmp_path / "linked"


@needs_git
def test_two_worktrees_share_a_store_and_have_their_own_timelines(worktrees, home):
    one, other = (Command(place, home) for place in worktrees)
    plant(other.root, {"a": b"linked\n"})
    first, second = one.json("save"), other.json("save")
    statuses = one.json("status"), other.json("status")
    assert statuses[0]["store"] == statuses[1]["store"]
    assert [status["root"] for status in statuses] == [str(place) for place in worktrees]
    assert [point["id"] for point in one.json("list")["checkpoints"]] == [first["checkpoint"]]
    assert [point["id"] for point in other.json("list")["checkpoints"]] == [second["checkpoint"]]
    assert len(one.json("list", "--all")["checkpoints"]) == 2
    plant(one.root, {"a": b"changed\n"})
    plant(other.root, {"a": b"changed too\n"})
    one("restore", "last", "-y", code=0)
    assert (worktrees[0] / "a").read_bytes() == b"main\n"
    assert (worktrees[1] / "a").read_bytes() == b"changed too\n"
    other("undo", "--yes", code=15)
    other("restore", first["checkpoint"], "-y", code=14)
    other("restore", "last", "-y", code=0)
    one("undo", "--yes", code=0)
    assert (worktrees[0] / "a").read_bytes() == b"changed\n"
    assert (worktrees[1] / "a").read_bytes() == b"linked\n"
    other("undo", "--yes", code=0)
    assert (worktrees[1] / "a").read_bytes() == b"changed too\n"


@needs_git
def test_both_worktrees_obey_the_repositorys_exclude_file(worktrees, home):
    plant(worktrees[0], {".git/info/exclude": b"*.o\n", "x.o": b"1"})
    plant(worktrees[1], {"x.o": b"1"})
    for place in worktrees:
        casrewind = Command(place, home)
        casrewind("save", code=0)
        assert [entry["path"] for entry in casrewind.json("show", "last")["entries"]] == ["a"]


@needs_git
def test_a_copied_worktree_pointer_is_a_project_of_its_own(worktrees, home, tmp_path):
    shutil.copytree(worktrees[1], tmp_path / "copy")
    stores = [Command(place, home) for place in (worktrees[1], tmp_path / "copy")]
    for casrewind in stores:
        casrewind("save", code=0)
    assert stores[0].json("status")["store"] != stores[1].json("status")["store"]


@needs_git
def test_the_repository_itself_is_byte_identical_after_save_restore_and_undo(worktrees, home):
    main = worktrees[0]
    git(main, "clone", "-q", str(main), str(main / "nested"))
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(worktrees[1]), "module")
    before = {p: e for p, e in picture(main, mtimes=True, inodes=True).items() if b".git" in p.split(b"/")}
    casrewind = Command(main, home)
    then = casrewind.json("save")["checkpoint"]
    for path in ("a", "nested/a", "module/a"):
        plant(main, {path: b"edited\n"})
    casrewind("restore", then, "-y", code=0)
    assert {(main / path).read_bytes() for path in ("a", "nested/a", "module/a")} == {b"main\n"}
    casrewind("undo", "--yes", code=0)
    assert {p: e for p, e in picture(main, mtimes=True, inodes=True).items() if b".git" in p.split(b"/")} == before


def test_a_start_in_a_subdirectory_means_the_whole_root(root, home):
    plant(root, {".git/HEAD": b"", "a": b"1", "d/e/b": b"1"})
    below, top = Command(root / "d" / "e", home), Command(root, home)
    saved = below.json("save")
    assert (saved["root"], saved["files"]) == (str(root), 2)
    plant(root, {"a": b"2", "d/e/b": b"2"})
    assert below.json("status")["store"] == top.json("status")["store"]
    below("restore", "last", "-y", code=0)
    assert (root / "a").read_bytes() == b"1"
    assert top("undo", "--yes", code=0)
    assert (root / "a").read_bytes() == b"2"


def test_without_git_the_start_is_the_root_and_known_from_then_on(root, home):
    plant(root, {"a": b"1", "d/b": b"1", "d/e/c": b"1"})
    assert Command(root, home).json("save")["root"] == str(root)
    assert Command(root / "d" / "e", home).json("save") | {"elapsed_ms": 0, "changes": 0} == {
        "checkpoint": Command(root, home).json("list")["checkpoints"][0]["id"], "created": False, "root": str(root),
        "files": 3, "bytes": 3, "changes": 0, "skipped": [], "elapsed_ms": 0,
    }  # fmt: skip


def test_a_subdirectory_that_was_a_root_first_stays_one(root, home):
    plant(root, {"a": b"1", "d/b": b"1"})
    assert Command(root / "d", home).json("save")["root"] == str(root / "d")
    assert Command(root, home).json("save")["root"] == str(root)
    assert Command(root / "d", home).json("save")["root"] == str(root / "d")


def test_a_git_entry_in_the_home_directory_or_above_it_does_not_count(root, home, tmp_path):
    plant(tmp_path, {".git/HEAD": b"", "home/.git/HEAD": b"", "home/project/d/a": b"1"})
    assert Command(home / "project" / "d", home).json("save")["root"] == str(home / "project" / "d")


def test_a_link_to_the_root_is_the_same_project(root, home, tmp_path):
    plant(root, {"a": b"1"})
    os.symlink(root, tmp_path / "link")
    first = Command(root, home).json("save")
    again = Command(tmp_path / "link", home).json("save")
    assert (again["checkpoint"], again["created"], again["root"]) == (first["checkpoint"], False, str(root))


@pytest.mark.parametrize("place", ["store", "d/e/.hidden-store", "packs"])
def test_a_store_inside_the_worktree_is_left_out_by_identity(root, settings, place):
    plant(root, {"a": b"1", "d/b": b"1", "elsewhere/packs/x": b"not a store"})
    inside = settings._replace(store=str(root / place))
    with Workspace(str(root), inside, create=True) as workspace:
        workspace.save()  # made while it was empty
    with Workspace(str(root), inside, create=True) as workspace:
        saved = workspace.save("again")
        names = {path for path, _ in workspace.entries(saved.checkpoint)}
        assert {b"a", b"d/b", b"elsewhere/packs/x"} <= names
        assert not [path for path in names if (path + b"/").startswith(place.encode() + b"/")]
        assert (place.encode(), "casrewind store") in {tuple(skip) for skip in saved.skipped}
        plant(root, {"a": b"2"})
        workspace.restore(saved.checkpoint)
        workspace.undo()
        assert (root / "a").read_bytes() == b"2"
        assert workspace.save().created is True


def test_the_data_directory_inside_the_worktree_is_left_out_too(root, settings):
    plant(root, {"a": b"1"})
    inside = settings._replace(data=str(root / "my data"), home=str(root.parent / "home"))
    for _ in range(2):
        with Workspace(str(root), inside, create=True) as workspace:
            saved = workspace.save("x")
            assert {path for path, _ in workspace.entries(saved.checkpoint)} == {b"a"}


@pytest.mark.parametrize("place", ["/", "/etc", "/usr", "/tmp", pytest.param("/proc/self", marks=pytest.mark.linux_only("/proc")), "home", "above home"])
def test_home_and_system_directories_are_refused(root, home, place):
    where = {"home": str(home), "above home": str(home.parent)}.get(place, place)
    casrewind = Command(where, home)
    for command in (("save",), ("list",), ("restore", "last", "-y")):
        result = casrewind(*command, code=14)
        assert "is not a project: " in result.err
        assert "--force" in result.err
    assert not (home / "data").exists(), "a refusal left something"


def test_force_protects_a_refused_root(home):
    plant(home, {"a": b"1", "d/b": b"1"})
    casrewind = Command(home, home)
    saved = casrewind("save", "--force", "--json", code=0).json
    assert (saved["root"], saved["files"]) == (str(home), 2)
    assert [skip["path"] for skip in saved["skipped"]] == ["data"]
    plant(home, {"a": b"2"})
    casrewind("--force", "restore", "last", "-y", code=0)
    assert (home / "a").read_bytes() == b"1"


def test_a_place_that_is_no_directory_is_10(root, home):
    plant(root, {"a": b"1"})
    Command(root / "a", home)("save", code=10)
    Command(root / "nowhere", home)("save", code=10)
    Command(root, home)("list", code=10)


def test_the_root_is_looked_for_only_on_its_own_file_system(root, home, settings):
    """A mount inside of a project is a project of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a mount")
    plant(root, {".git/HEAD": b"", "mounted/x": b""})
    done = subprocess.run(["mount", "-t", "tmpfs", "casrewind-test", root / "mounted"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("cannot mount here: " + done.stderr.decode())
    try:
        plant(root, {"mounted/d/a": b"1"})
        with Workspace(str(root / "mounted" / "d"), settings, create=True) as workspace:
            assert workspace.root.path == str(root / "mounted" / "d")
    finally:
        subprocess.run(["umount", root / "mounted"], check=True)


def test_a_store_of_another_project_does_not_mix_with_this_one(root, home, settings, tmp_path):
    plant(root, {"a": b"1"})
    plant(tmp_path / "other" / "project", {"a": b"2"})  # the same last component
    stores = set()
    for place in (root, tmp_path / "other" / "project"):
        with Workspace(str(place), settings, create=True) as workspace:
            workspace.save()
            stores.add(workspace.store_path)
            assert len(workspace.checkpoints()) == 1
    assert len(stores) == 2
    with pytest.raises(errors.WorkspaceNotFound):
        Workspace(str(tmp_path / "other"), settings, create=False)
