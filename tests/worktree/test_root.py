"""Which directory is the root: the climb, its borders, the pointers of worktrees and submodules, forged pointers."""

import os
import shutil
import subprocess
import sys

import pytest

from casrewind import errors
from casrewind.worktree import root as roots
from support.trees import plant


def never(_):
    return False


def find(start, home, is_known=never):
    return roots.find_root(str(start), str(home), is_known)


def test_the_nearest_git_directory_above_is_the_root(tmp_path, home):
    plant(tmp_path, {"p/.git/HEAD": b"", "p/a/b/c/x": b""})
    for start in ("p", "p/a", "p/a/b/c"):
        found = find(tmp_path / start, home)
        assert found.path == found.owner == str(tmp_path / "p")
        assert found.git_dir == found.common_dir == str(tmp_path / "p/.git")


def test_the_nearest_of_several_counts(tmp_path, home):
    plant(tmp_path, {"p/.git/HEAD": b"", "p/lib/.git/HEAD": b"", "p/lib/src/x": b""})
    assert find(tmp_path / "p/lib/src", home).path == str(tmp_path / "p/lib")


def test_without_any_mark_the_start_is_the_root(tmp_path, home):
    plant(tmp_path, {"p/a/x": b""})
    found = find(tmp_path / "p/a", home)
    assert found.path == str(tmp_path / "p/a")
    assert found.git_dir is None


def test_a_known_root_ends_the_climb(tmp_path, home):
    plant(tmp_path, {"p/a/b/x": b"", ".git/HEAD": b""})
    found = find(tmp_path / "p/a/b", home, lambda root: root.path == str(tmp_path / "p"))
    assert found.path == str(tmp_path / "p")


def test_a_known_root_counts_even_in_the_home_directory_itself(tmp_path):
    plant(tmp_path, {"h/p/x": b""})
    assert find(tmp_path / "h/p", tmp_path / "h", lambda root: root.path == str(tmp_path / "h")).path == str(
        tmp_path / "h"
    )


def test_git_in_the_home_directory_or_above_does_not_count(tmp_path):
    plant(tmp_path, {".git/HEAD": b"", "h/.git/HEAD": b"", "h/p/a/x": b"", "h/q/.git/HEAD": b"", "h/q/b/x": b""})
    assert find(tmp_path / "h/p/a", tmp_path / "h").path == str(tmp_path / "h/p/a")
    assert find(tmp_path / "h/q/b", tmp_path / "h").path == str(tmp_path / "h/q")


def test_a_home_that_is_a_link_is_a_border_all_the_same(tmp_path):
    plant(tmp_path, {"real/.git/HEAD": b"", "real/p/x": b""})
    os.symlink("real", tmp_path / "h")
    assert find(tmp_path / "h/p", tmp_path / "h").path == str(tmp_path / "real/p")


def test_a_sibling_whose_name_starts_as_the_home_directory_does_is_not_in_it(tmp_path):
    plant(tmp_path, {"home2/.git/HEAD": b"", "home2/a/x": b"", "home/x": b""})
    assert find(tmp_path / "home2/a", tmp_path / "home").path == str(tmp_path / "home2")


def test_a_start_that_is_a_link_means_where_it_leads(tmp_path, home):
    plant(tmp_path, {"p/.git/HEAD": b"", "p/a/x": b"", "other/.git/HEAD": b""})
    os.symlink(tmp_path / "p/a", tmp_path / "other/link")
    assert find(tmp_path / "other/link", home).path == str(tmp_path / "p")


def test_the_key_is_that_of_the_real_path(tmp_path, home):
    plant(tmp_path, {"p/x": b""})
    os.symlink("p", tmp_path / "l")
    assert find(tmp_path / "l", home) == find(tmp_path / "p", home)
    assert find(tmp_path / "l", home).key == roots.key_of(str(tmp_path / "p"))
    assert len(roots.key_of("/x")) == 16


@pytest.mark.parametrize("start", ["missing", "file", "file/below", "dangling", "loop"])
def test_a_start_that_is_no_directory(tmp_path, home, start):
    plant(tmp_path, {"file": b""})
    os.symlink("nowhere", tmp_path / "dangling")
    os.symlink("loop", tmp_path / "loop")
    with pytest.raises(errors.WorkspaceNotFound):
        find(tmp_path / start, home)


def test_another_file_system_ends_the_climb(tmp_path, home):
    plant(tmp_path, {"p/.git/HEAD": b"", "p/mnt/x": b""})
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "none", str(tmp_path / "p/mnt")], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    try:
        plant(tmp_path, {"p/mnt/a/x": b""})
        assert find(tmp_path / "p/mnt/a", home).path == str(tmp_path / "p/mnt/a")
        assert find(tmp_path / "p/mnt", home).path == str(tmp_path / "p/mnt")
        plant(tmp_path, {"p/mnt/.git/HEAD": b""})
        assert find(tmp_path / "p/mnt/a", home).path == str(tmp_path / "p/mnt")
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "p/mnt")], check=True)
    assert find(tmp_path / "p/mnt", home).path == str(tmp_path / "p")


# -- pointers


def worktree(tmp_path, *, back=None):
    """A main repository and a linked worktree, as `git worktree add` lays them out."""
    plant(
        tmp_path,
        {
            "main/.git/HEAD": b"",
            "main/.git/objects/info/x": b"",
            "main/.git/worktrees/w/commondir": b"../..\n",
            "main/.git/worktrees/w/gitdir": os.fsencode(back or tmp_path / "linked/.git") + b"\n",
            "linked/.git": b"gitdir: " + os.fsencode(tmp_path / "main/.git/worktrees/w") + b"\n",
            "linked/src/x": b"",
        },
    )


def test_a_linked_worktree_is_a_root_of_its_own_and_shares_the_owner(tmp_path, home):
    worktree(tmp_path)
    found, main = find(tmp_path / "linked/src", home), find(tmp_path / "main", home)
    assert found.path == str(tmp_path / "linked")
    assert found.owner == main.owner == str(tmp_path / "main")
    assert found.common_dir == str(tmp_path / "main/.git")
    assert found.key != main.key
    assert roots.store_name_of(found.owner) == roots.store_name_of(main.owner)


@pytest.fixture
def git(tmp_path, home):
    """git in a directory, with no configuration but its own defaults; what it prints."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(home)}
    if shutil.which("git") is None:
        pytest.skip("needs git")

    def run(place, *arguments):
        given = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(given, cwd=place, env=environment, check=True, capture_output=True)
        return os.fsdecode(done.stdout.strip())

    return run


def repository(git, place, *options):
    git(place.parent, "init", "-q", *options, place.name)
    git(place, "commit", "-q", "--allow-empty", "-m", "x")
    return place


def as_git_says(git, place, home):
    """The root at `place`, after its directories were compared with what git says of it."""
    found = find(place, home)
    assert found.path == str(place)
    for option, said in (("--git-dir", found.git_dir), ("--git-common-dir", found.common_dir)):
        assert os.path.realpath(os.path.join(place, git(place, "rev-parse", option))) == said
    return found


def test_what_git_itself_makes(tmp_path, home, git):
    main = repository(git, tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "b")
    assert as_git_says(git, main, home).owner == str(main)
    found = as_git_says(git, tmp_path / "linked", home)
    assert found.owner == str(main)
    assert found.git_dir == str(main / ".git/worktrees/linked")
    git(main, "worktree", "move", str(tmp_path / "linked"), str(tmp_path / "moved"))
    assert as_git_says(git, tmp_path / "moved", home).owner == str(main)
    os.rename(tmp_path / "moved", tmp_path / "again")
    assert find(tmp_path / "again", home).owner == str(tmp_path / "again")  # nobody told the repository yet
    git(main, "worktree", "repair", str(tmp_path / "again"))
    assert as_git_says(git, tmp_path / "again", home).owner == str(main)


def test_a_worktree_with_relative_pointers(tmp_path, home, git):
    """As git writes them with worktree.useRelativePaths, from 2.48 on; older ones follow them too."""
    main = repository(git, tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "b")
    (tmp_path / "linked/.git").write_text("gitdir: ../main/.git/worktrees/linked\n")
    (main / ".git/worktrees/linked/gitdir").write_text("../../../../linked/.git\n")
    assert as_git_says(git, tmp_path / "linked", home).owner == str(main)


def test_submodules_and_their_worktrees_belong_to_nobody_else(tmp_path, home, git):
    repository(git, tmp_path / "library")
    main = repository(git, tmp_path / "main")
    git(main, "submodule", "--quiet", "add", str(tmp_path / "library"), "sub")
    found = as_git_says(git, main / "sub", home)
    assert found.owner == str(main / "sub")
    assert found.common_dir == str(main / ".git/modules/sub")
    git(main / "sub", "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "b")
    linked = as_git_says(git, tmp_path / "linked", home)
    assert linked.owner == str(tmp_path / "linked")
    assert linked.common_dir == found.common_dir


def test_a_git_directory_that_lies_elsewhere_and_its_worktrees(tmp_path, home, git):
    main = repository(git, tmp_path / "main", "--separate-git-dir", str(tmp_path / "kept"))
    assert as_git_says(git, main, home).owner == str(main)
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "b")
    found = as_git_says(git, tmp_path / "linked", home)
    assert (found.owner, found.common_dir) == (str(tmp_path / "linked"), str(tmp_path / "kept"))


def test_a_bare_repository_and_its_worktrees(tmp_path, home, git):
    main = repository(git, tmp_path / "main")
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "b")
    found = as_git_says(git, tmp_path / "linked", home)
    assert (found.owner, found.common_dir) == (str(tmp_path / "linked"), str(tmp_path / "bare.git"))


@pytest.mark.parametrize("place", ["evil/.g/worktrees/x", "evil/.g/main/.git/worktrees/x", "main/worktrees/x", "main/.git/x"])
def test_a_worktree_that_the_repository_does_not_keep_shares_nothing_with_it(tmp_path, home, place):
    """Both pointers are right, and come from an archive: they lie where the repository keeps no worktrees."""
    plant(tmp_path, {"main/.git/HEAD": b"", "main/.git/objects/x": b"", "main/x": b""})
    common = os.path.relpath(tmp_path / "main/.git", tmp_path / place)
    back = os.path.relpath(tmp_path / "evil/.git", tmp_path / place)
    plant(
        tmp_path,
        {
            f"{place}/commondir": os.fsencode(common),
            f"{place}/gitdir": os.fsencode(back),
            f"{place}/HEAD": b"",
            "evil/.git": b"gitdir: " + os.fsencode(os.path.relpath(tmp_path / place, tmp_path / "evil")) + b"\n",
            "evil/x": b"",
        },
    )
    found = find(tmp_path / "evil", home)
    assert found.owner == str(tmp_path / "evil")
    assert found.common_dir == str(tmp_path / place)


@pytest.mark.parametrize("missing", ["HEAD", "objects"])
def test_worktrees_of_what_is_no_repository_share_nothing(tmp_path, home, missing):
    worktree(tmp_path)
    assert find(tmp_path / "linked", home).owner == str(tmp_path / "main")
    os.rename(tmp_path / "main/.git" / missing, tmp_path / "main/.git/other")
    assert find(tmp_path / "linked", home).owner == str(tmp_path / "linked")


def test_a_pointer_whose_back_pointer_names_another_root_shares_nothing(tmp_path, home):
    """Copied with cp -r, or forged to get at somebody's store."""
    worktree(tmp_path)
    plant(tmp_path, {"copy/.git": (tmp_path / "linked/.git").read_bytes(), "copy/x": b""})
    found = find(tmp_path / "copy", home)
    assert found.path == found.owner == str(tmp_path / "copy")
    assert roots.store_name_of(found.owner) != roots.store_name_of(find(tmp_path / "main", home).owner)


@pytest.mark.parametrize(
    "pointer",
    [
        b"",
        b"gitdir:",
        b"gitdir: \n",
        b"nonsense",
        b"gitdir: /nowhere\n",
        b"gitdir: ../main\0/.git",
        b"\xff" * 100,
        b"gitdir: .git\n",
        b"gitdir: ..\n",
    ],
)
def test_a_pointer_that_leads_nowhere_is_still_the_mark_of_a_root(tmp_path, home, pointer):
    plant(tmp_path, {"p/.git": pointer, "p/a/x": b""})
    found = find(tmp_path / "p/a", home)
    assert found.path == found.owner == str(tmp_path / "p")


def test_a_submodule_owns_itself(tmp_path, home):
    plant(tmp_path, {"p/.git/modules/s/HEAD": b"", "p/s/.git": b"gitdir: ../.git/modules/s\n", "p/s/x": b""})
    found = find(tmp_path / "p/s", home)
    assert found.path == found.owner == str(tmp_path / "p/s")
    assert found.git_dir == found.common_dir == str(tmp_path / "p/.git/modules/s")


def test_a_git_that_is_a_link(tmp_path, home):
    plant(tmp_path, {"elsewhere/repo.git/HEAD": b"", "p/x": b"", "q/x": b""})
    os.symlink(tmp_path / "elsewhere/repo.git", tmp_path / "p/.git")
    os.symlink("nowhere", tmp_path / "q/.git")
    assert find(tmp_path / "p", home).git_dir == str(tmp_path / "elsewhere/repo.git")
    assert find(tmp_path / "p", home).owner == str(tmp_path / "p")
    assert find(tmp_path / "q", home).path == str(tmp_path / "q")


def test_a_git_that_is_a_fifo_hangs_nobody(tmp_path, home):
    (tmp_path / "p").mkdir()
    os.mkfifo(tmp_path / "p/.git")
    assert find(tmp_path / "p", home).path == str(tmp_path / "p")


# -- refusals and names


@pytest.mark.parametrize(
    "place", ["/", "/etc", "/usr", "/home", "/tmp", "/var", "/proc/1", "/sys/kernel", "/root", "/opt", "/System/Volumes/Data", "/opt/homebrew"]
)
def test_system_directories_are_refused(place):
    with pytest.raises(errors.RootRefused, match="--force"):
        roots.refuse_system_directories(place, "/home/somebody")


def test_home_and_everything_above_it_are_refused_and_what_is_in_it_is_not(tmp_path):
    home = tmp_path / "a/b"
    home.mkdir(parents=True)
    for place in (home, tmp_path / "a", tmp_path):
        with pytest.raises(errors.RootRefused):
            roots.refuse_system_directories(str(place), str(home))
    roots.refuse_system_directories(str(home / "project"), str(home))
    roots.refuse_system_directories(str(tmp_path / "a/bb"), str(home))


def test_on_macos_the_library_of_the_home_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    cloud = tmp_path / "Library" / "Mobile Documents" / "project"
    cloud.mkdir(parents=True)
    with pytest.raises(errors.RootRefused, match="your applications"):
        roots.refuse_system_directories(str(tmp_path / "Library"), str(tmp_path))
    roots.refuse_system_directories(str(cloud), str(tmp_path))


def test_store_names_are_readable_and_tell_roots_apart():
    one, two = roots.root_at("/nowhere/a/my project\xe9\n"), roots.root_at("/nowhere/b/my project\xe9\n")
    assert roots.store_name_of(one.owner) != roots.store_name_of(two.owner)
    assert roots.store_name_of(one.owner).startswith("my_project\xe9_-")
    assert "/" not in roots.store_name_of(roots.root_at("/").owner)
    assert len(roots.store_name_of(roots.root_at("/" + "n" * 250).owner)) < 60
