"""Which directories inside a root are worktrees of its own repository: those that it lists and that point back, no others."""

import os
import shutil
import sys

import pytest

from casrewind.model import domain as domains
from casrewind.worktree import linked_worktrees
from casrewind.worktree.linked_worktrees import find_inside
from support import unprivileged
from support.git_repository import add_worktree, git, make_pointers_relative, make_repository
from support.scanner import Scanner, settle
from support.trees import plant


@pytest.fixture
def checkout(root):
    plant(root, {"app.py": b"one\n", "src/main.py": b"main\n"})
    return make_repository(root)


def captured(root):
    scan = Scanner(root)
    return scan.entries(scan()).keys()


def places(root):
    return [os.fsdecode(each.path) for each in find_inside(str(root))]


def test_worktrees_inside_the_checkout_are_found(checkout):
    assert places(checkout) == []
    add_worktree(checkout, "w1")
    add_worktree(checkout, "w2", above=".")
    git(checkout, "worktree", "add", "-q", checkout.parent / "beside")
    assert places(checkout) == [".claude/worktrees/w1", "w2"]


def test_a_scan_leaves_a_linked_worktree_out_and_says_so(checkout):
    scan = Scanner(checkout)
    place = add_worktree(checkout)
    found = scan()
    assert scan.entries(found).keys() == {b".claude", b".claude/worktrees", b"app.py", b"src", b"src/main.py"}
    skip = domains.Skip(b".claude/worktrees/w1", domains.LINKED_WORKTREE)
    assert found.domain.skipped == (skip,)
    settle()
    assert scan().domain.skipped == (skip,)
    plant(place, {"new.py": b"x"})
    assert scan().domain.skipped == (skip,)
    assert scan.sink.read_files == []


def test_a_directory_that_becomes_a_worktree_or_stops_being_one_is_scanned_anew(checkout):
    """The list changes without a change of the directory: no stamp tells it."""
    scan = Scanner(checkout)
    place = add_worktree(checkout)
    entry = checkout / ".git" / "worktrees" / "w1"
    entry.rename(checkout / "aside")
    (checkout / "aside").rename(checkout.parent / "aside")
    settle()
    assert b".claude/worktrees/w1/app.py" in scan.entries(scan())
    (checkout.parent / "aside").rename(entry)
    assert b".claude/worktrees/w1/app.py" not in scan.entries(scan())
    settle()
    scan()
    shutil.rmtree(entry)
    assert b".claude/worktrees/w1/app.py" in scan.entries(scan())
    assert place.is_dir()


def test_a_worktree_that_git_moved_is_found_at_its_new_place(checkout):
    add_worktree(checkout)
    git(checkout, "worktree", "move", ".claude/worktrees/w1", "moved")
    assert places(checkout) == ["moved"]


def test_a_worktree_that_was_moved_without_git_is_an_ordinary_directory_until_git_repairs_it(checkout):
    place = add_worktree(checkout)
    place.rename(checkout / "moved")
    assert places(checkout) == []
    assert b"moved/app.py" in captured(checkout)
    git(checkout, "worktree", "repair", "moved")
    assert places(checkout) == ["moved"]


def test_a_removed_or_pruned_worktree_is_none(checkout):
    add_worktree(checkout, "w1")
    shutil.rmtree(add_worktree(checkout, "w2"))
    assert places(checkout) == [".claude/worktrees/w1"]
    git(checkout, "worktree", "prune")
    git(checkout, "worktree", "remove", "--force", ".claude/worktrees/w1")
    assert places(checkout) == []


def test_pointers_may_be_relative(checkout):
    make_pointers_relative(checkout, add_worktree(checkout))
    assert places(checkout) == [".claude/worktrees/w1"]


def test_the_pointer_of_a_worktree_may_be_a_link(checkout):
    """git follows it, to a file and to a directory."""
    for name, target in (("w1", "pointer"), ("w2", checkout / ".git" / "worktrees" / "w2")):
        place = add_worktree(checkout, name)
        pointer = place / ".git"
        pointer.rename(place / "pointer")
        pointer.symlink_to(target)
        assert git(place, "rev-parse", "--show-toplevel").strip() == str(place)
    assert places(checkout) == [".claude/worktrees/w1", ".claude/worktrees/w2"]


def test_a_linked_worktree_knows_the_worktrees_inside_it(checkout):
    outer = add_worktree(checkout, "outer", above="../other")
    add_worktree(outer, "inner")
    add_worktree(checkout, "w1")
    assert places(outer.resolve()) == [".claude/worktrees/inner"]
    assert places(checkout) == [".claude/worktrees/w1"]


# -- what must not hide a directory


@pytest.mark.parametrize("is_pruned", [False, True])
def test_a_forged_pointer_hides_nothing(checkout, is_pruned):
    """An agent writes into src/ what a worktree has."""
    place = add_worktree(checkout)
    shutil.copy(place / ".git", checkout / "src" / ".git")
    if is_pruned:
        shutil.rmtree(place)
    assert places(checkout) == ([] if is_pruned else [".claude/worktrees/w1"])
    assert b"src/main.py" in captured(checkout)


def test_an_entry_whose_directory_does_not_point_back_hides_nothing(checkout):
    entry = checkout / ".git" / "worktrees" / "forged"
    plant(entry, {"gitdir": f"{checkout}/src/.git\n".encode(), "commondir": b"../..\n", "HEAD": b"ref: refs/heads/main\n"})
    assert places(checkout) == []
    plant(checkout, {"src/.git": b"gitdir: ../.git/worktrees/other\n"})
    assert places(checkout) == []


def test_the_pointers_of_an_archive_hide_nothing(checkout, tmp_path):
    """A `.git` in src/ that is a directory, a submodule, or a pointer to another repository's list."""
    other = tmp_path / "other"
    other.mkdir()
    make_repository(plant(other, {"x": b"1"}) or other)
    git(other, "worktree", "add", "-q", checkout / "foreign")
    make_repository(checkout / "src")
    assert places(checkout) == []
    assert {b"foreign/x", b"src/main.py"} <= captured(checkout)


def hostile(kind, entry, root):
    pointer = entry / "gitdir"
    if kind == "too large":
        with open(pointer, "wb") as file:
            file.truncate(1 << 30)
    elif kind == "fifo":
        os.mkfifo(pointer)
    elif kind == "directory":
        pointer.mkdir()
    elif kind == "link":
        pointer.symlink_to("/etc/passwd")
    elif kind == "missing":
        pass
    else:
        pointer.write_bytes({
            "empty": b"", "NUL": f"{root}/src\0/.git\n".encode(), "root": f"{root}/.git\n".encode(), "above": f"{root}/../.git\n".encode(),
            "no name": f"{root}/src/\n".encode(), "deep": b"/" + b"a/" * 9000 + b".git\n", "bytes": b"\xff\xfe/.git\n",
        }[kind])  # fmt: skip


@pytest.mark.parametrize("kind", ["too large", "fifo", "directory", "link", "missing", "empty", "NUL", "root", "above", "no name", "deep", "bytes"])
def test_a_hostile_list_hides_nothing_and_hangs_nobody(checkout, kind):
    add_worktree(checkout)
    entry = checkout / ".git" / "worktrees" / "hostile"
    plant(entry, {"commondir": b"../..\n", "HEAD": b"ref: refs/heads/main\n"})
    hostile(kind, entry, checkout)
    assert places(checkout) == [".claude/worktrees/w1"]


def test_what_cannot_be_read_is_not_listed():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        plant(place, {"app.py": b"one\n"})
        make_repository(place)
        add_worktree(place, "w1")
        add_worktree(place, "w2")
        unprivileged.give(place)
        look = (sys.executable, "-c", f"from casrewind.worktree.linked_worktrees import find_inside; print([w.path for w in find_inside({str(place)!r})])")
        (place / ".git/worktrees/w2/gitdir").chmod(0)
        assert unprivileged.run(*look).stdout == b"[b'.claude/worktrees/w1']\n"
        (place / ".git/worktrees").chmod(0)
        assert unprivileged.run(*look).stdout == b"[]\n"


def test_a_thousand_entries_are_read(checkout):
    add_worktree(checkout)
    for number in range(1000):
        plant(checkout / ".git" / "worktrees" / f"gone{number}", {"gitdir": f"{checkout}/gone{number}/.git\n".encode(), "commondir": b"../..\n"})
    assert places(checkout) == [".claude/worktrees/w1"]


# -- where there is no checkout but the worktrees


def test_worktrees_of_a_bare_repository_are_parts_of_the_directory_around_them(tmp_path, checkout):
    project = tmp_path / "proj"
    project.mkdir()
    git(tmp_path, "clone", "-q", "--bare", checkout, project / ".git")
    git(project, "worktree", "add", "-q", "main")
    git(project, "worktree", "add", "-q", "-b", "feat", "feat")
    assert places(project) == []
    assert {b"main/app.py", b"feat/app.py"} <= captured(project)
    add_worktree(project / "main", "w1")
    assert places(project / "main") == [".claude/worktrees/w1"]


def test_worktrees_of_a_repository_without_a_checkout_are_parts_of_the_directory_around_them(tmp_path, checkout):
    project = tmp_path / "proj"
    git(tmp_path, "clone", "-q", "--no-checkout", checkout, project)
    git(project, "worktree", "add", "-q", "-b", "feat", "feat")
    assert places(project) == []


def test_bareness_may_stand_in_the_worktree_configuration(tmp_path, checkout):
    project = tmp_path / "proj"
    git(tmp_path, "clone", "-q", checkout, project)
    git(project, "worktree", "add", "-q", "-b", "feat", "feat")
    assert places(project) == ["feat"]
    git(project, "config", "extensions.worktreeConfig", "true")
    git(project, "config", "--worktree", "core.bare", "true")
    assert places(project) == []


def test_a_pointer_to_a_bare_repository_beside_it_is_no_checkout(tmp_path, checkout):
    project = tmp_path / "proj"
    project.mkdir()
    git(tmp_path, "clone", "-q", "--bare", checkout, project / ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    git(project, "worktree", "add", "-q", "-b", "feat", "feat")
    assert places(project) == []


def test_a_directory_above_repositories_holds_all_of_them(tmp_path, checkout):
    git(checkout, "worktree", "add", "-q", "-b", "feature", tmp_path / "project-feature")
    assert places(tmp_path) == []


def test_a_split_index_is_a_checkout(checkout):
    git(checkout, "update-index", "--split-index")
    add_worktree(checkout)
    assert places(checkout) == [".claude/worktrees/w1"]


def test_no_more_entries_are_read_than_a_repository_has(checkout, monkeypatch):
    add_worktree(checkout, "w1")
    add_worktree(checkout, "w2")
    monkeypatch.setattr(linked_worktrees, "_WORKTREES_READ", 1)
    assert len(places(checkout)) == 1
