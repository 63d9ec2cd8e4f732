"""stores --prune-missing: stores of projects that are gone are removed; what is in use, in doubt or dear to somebody stays."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from casrewind.model.undo_history import RESTORE, Operation
from casrewind.store.store import Store
from casrewind.worktree import root as roots
from casrewind.workspace import Workspace
from support import unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.gc_checks import disk_usage
from support.picture import differences, picture
from support.stores import LockHolder
from support.terminal import Session, with_patience
from support.trees import plant

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
PRUNE = ("stores", "--prune-missing", "0d")


def project(home, place, *more):
    casrewind = InProcess(place, home)
    plant(place, {"f": os.fsencode(place.name), "large": os.urandom(60_000)})
    casrewind("save", *more, code=0)
    return Path(casrewind.json("status")["store"])


def registry(home):
    return home / "data" / "stores"


@pytest.fixture
def here(home, tmp_path):
    """The command in a project that is there, which has a store."""
    project(home, tmp_path / "here")
    return InProcess(tmp_path / "here", home)


@pytest.fixture
def gone(home, tmp_path, here):
    """The store of a project that was removed."""
    project(home, tmp_path / "gone")
    store = project(home, tmp_path / "gone", "-m", "the second")
    shutil.rmtree(tmp_path / "gone")
    return store


def untouched(home):
    """What the shelf holds, without what a look at it may change."""
    return {path: what for path, what in picture(registry(home)).items() if not {b"locks", b"index"}.intersection(path.split(b"/"))}


def kept(here, *arguments, code=0, rule="0d"):
    """{root or store: why it stays}, and nothing was removed."""
    found = here.json("stores", "--prune-missing", rule, "--yes", *arguments, code=code)
    assert (found["removed"], found["bytes_freed"]) == ([], 0)
    return {item["root"] or item["store"]: item["reason"] for item in found["kept"]}


def test_the_store_of_a_project_that_is_gone_is_removed_and_no_other(here, gone, home, tmp_path):
    before = picture(registry(home) / Path(here.json("status")["store"]).name)
    size = disk_usage(gone)
    said = here(*PRUNE, "--yes", code=0)
    assert f"{tmp_path}/gone  (GONE)\n  2 checkpoints, " in said.out and "removed 1 store and freed " in said.out and said.err == ""
    assert size > 60_000
    assert os.listdir(registry(home)) == [Path(here.json("status")["store"]).name]
    assert differences(picture(registry(home) / os.listdir(registry(home))[0]), before) == {}
    assert here(*PRUNE, "--yes", code=0).out == "nothing to remove\n"
    assert here.json("list")["checkpoints"]


def test_the_json_says_what_was_removed_and_freed(here, gone, home, tmp_path):
    size = disk_usage(gone)
    listed = next(store for store in here.json("stores")["stores"] if store["store"] == str(gone))
    assert listed["bytes"] == size
    would = here.json(*PRUNE, "--dry-run")
    assert gone.is_dir()
    found = here.json(*PRUNE, "--yes")
    assert would == {**found, "dry_run": True}
    assert found == {"removed": [listed], "kept": [], "bytes_freed": size, "dry_run": False}


def test_only_what_was_not_used_for_so_long(here, gone, home, tmp_path):
    assert kept(here, rule="30d") == {str(tmp_path / "gone"): "it was used less than 1 day ago"}
    long_ago = time.time_ns() - 40 * 86_400_000_000_000
    os.utime(gone / "ledger", ns=(long_ago, long_ago))
    assert list(kept(here, rule="30d")) == [str(tmp_path / "gone")]  # the checkpoint is young, whatever the file says
    later = time.time_ns() + 400 * 86_400_000_000_000
    os.utime(gone / "ledger", ns=(later, later))  # a clock that was set back: it was used in the future
    assert "less than 1 day" in kept(here)[str(tmp_path / "gone")]


@pytest.mark.parametrize("age", ["-1d", "soon", "", "1e9d", "30", "99999 years"])
def test_a_bad_age_is_64_and_nothing_is_looked_at(here, gone, age):
    assert "--prune-missing" in here("stores", f"--prune-missing={age}", "--yes", code=64).err
    assert gone.is_dir()


def test_what_does_not_go_together_is_64(here, gone):
    here("stores", "--prune-missing", code=64)
    for options in (["--yes"], ["--dry-run"]):
        assert "--prune-missing" in here("stores", *options, code=64).err
    assert "--store" in here("--store", str(gone), *PRUNE, "--yes", code=64).err
    assert gone.is_dir()


def test_without_a_terminal_it_needs_yes(here, gone):
    assert "--yes" in here(*PRUNE, code=64).err
    assert "--yes" in here(*PRUNE, "--json", code=64).err
    assert gone.is_dir()
    assert "would remove 1 store and free " in here(*PRUNE, "--dry-run", code=0).out
    assert gone.is_dir()


@pytest.mark.parametrize("answer", ["n", "", "y"])
def test_on_a_terminal_it_asks(here, gone, home, tmp_path, answer):
    command = Command(tmp_path / "here", home)
    session = Session(with_patience(command, 3600, *PRUNE), command.environment)
    session.read_until(b"[y/N")
    assert str(tmp_path / "gone").encode() in session.shown and b"removing 1 store" in session.shown
    session.type(answer + "\n")
    code, shown = session.end()
    assert code == 0 and (b"removed 1 store" if answer == "y" else b"nothing was removed") in shown
    assert gone.is_dir() == (answer != "y")


# -- what stays, and is named


def test_a_root_whose_disk_may_not_be_mounted(here, home, tmp_path):
    store = project(home, tmp_path / "disk" / "project")
    shutil.rmtree(tmp_path / "disk" / "project")
    os.utime(tmp_path / "disk", (1, 1))  # as it was before the disk was mounted over it
    for more in ([], ["--force"]):
        (reason,) = kept(here, *more).values()
        assert "perhaps its disk is not mounted" in reason and str(store) in reason
    said = here(*PRUNE, "--yes", code=0).out
    assert said == f"kept {tmp_path}/disk/project: {reason}\nnothing to remove\n"


def test_a_root_that_cannot_be_looked_at_is_there():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        (place / "home").mkdir()
        store = project(place / "home", place / "private" / "project")
        shutil.rmtree(place / "private" / "project")
        (place / "private").chmod(0)
        unprivileged.give(place / "home")
        found = Command(place, place / "home").json(*PRUNE, "--yes", prefix=unprivileged.PREFIX)
        assert (found["removed"], found["kept"]) == ([], [])
        assert store.is_dir()


@pytest.mark.parametrize("how", ["pin", "restore"])
def test_pinned_checkpoints_and_open_restores_stay_unless_forced(here, home, tmp_path, settings, how):
    store = project(home, tmp_path / "gone", *(["--pin"] if how == "pin" else []))
    if how == "restore":
        with Workspace(str(tmp_path / "gone"), settings, create=False) as workspace:
            target = workspace.checkpoint("last")
        with Store(str(store)) as opened:
            key = roots.key_of(str(tmp_path / "gone"))
            opened.journals.write(Operation(RESTORE, 1, key, target.id, target.id, target.tree, ""))
    shutil.rmtree(tmp_path / "gone")
    before = untouched(home)
    (reason,) = kept(here).values()
    assert ("1 of its checkpoints are pinned" if how == "pin" else "a restore was interrupted") in reason and "--force" in reason
    assert differences(untouched(home), before) == {}
    assert here.json(*PRUNE, "--yes", "--force")["removed"][0]["store"] == str(store)
    assert not store.exists()


def test_a_label_keeps_no_store(here, home, tmp_path):
    store = project(home, tmp_path / "gone", "-m", "a label")
    shutil.rmtree(tmp_path / "gone")
    here(*PRUNE, "--yes", code=0)
    assert not store.exists()


@pytest.mark.parametrize("lock", ["store", "publish", "index"])
def test_a_store_in_use_stays(here, gone, home, tmp_path, lock):
    before = untouched(home)
    with LockHolder(gone / "locks" / lock, stopped=True):
        reasons = kept(here, code=3)
    assert len(reasons) == 1 and "busy" in "".join(reasons.values())
    assert differences(untouched(home), before) == {}
    here(*PRUNE, "--yes", code=0)
    assert not gone.exists()


@needs_git
def test_a_store_stays_while_one_of_its_worktrees_is_there(here, home, tmp_path):
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(linked)]):
        subprocess.run(["git", *command], cwd=main, env={**os.environ, **identity}, check=True, capture_output=True)
    store = project(home, main)
    assert project(home, linked) == store
    shutil.rmtree(main)
    assert kept(here) == {str(main): f"the worktree {linked} has checkpoints in it, and is there"}
    shutil.rmtree(linked)
    assert len(here.json(*PRUNE, "--yes")["removed"]) == 1
    assert not store.exists()


@needs_git
def test_a_linked_worktree_that_is_gone_takes_nothing_along(here, home, tmp_path):
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(linked)]):
        subprocess.run(["git", *command], cwd=main, env={**os.environ, **identity}, check=True, capture_output=True)
    for place in (main, linked):
        project(home, place)
    shutil.rmtree(linked)
    assert kept(here) == {}


@pytest.mark.parametrize("harm", ["format", "ledger", "empty"])
def test_a_store_that_cannot_be_read_stays(here, gone, harm):
    if harm == "format":
        (gone / "FORMAT").write_bytes(b"casrewind store 99\n")
    elif harm == "ledger":
        shutil.rmtree(gone / "index")
        content = bytearray((gone / "ledger").read_bytes())
        content[40] ^= 1
        (gone / "ledger").write_bytes(content)
    else:
        shutil.rmtree(gone)
        gone.mkdir()
    assert list(kept(here, "--force", code=3)) == [str(gone)]
    assert gone.is_dir()


def test_a_store_without_any_checkpoint_stays(here, home, tmp_path, settings):
    (tmp_path / "empty").mkdir()
    Workspace(str(tmp_path / "empty"), settings, create=True).close()
    (tmp_path / "empty").rmdir()
    (reason,) = kept(here).values()
    assert "its project is unknown" in reason


def test_a_root_that_is_back_when_it_comes_to_it_keeps_its_store(here, gone, home, tmp_path, settings):
    from casrewind import projects

    def confirm(plan):
        assert [store.path for store in plan.removed] == [str(gone)]
        (tmp_path / "gone").mkdir()
        return True

    found = projects.prune_missing(0.0, settings, confirm)
    assert found.removed == () and found.freed == 0
    assert [(item.reason, item.fault) for item in found.kept] == [("its root is there again", True)]
    InProcess(tmp_path / "gone", home)("restore", "last", "--yes", code=0)
    assert (tmp_path / "gone" / "f").read_bytes() == b"gone"


def test_what_was_pinned_while_it_asked_stays(here, gone, tmp_path, settings):
    from casrewind import projects

    def confirm(_):
        with Store(str(gone)) as store:
            (point, _), _ = store.checkpoints()
        return here("--store", str(gone), "pin", point.id, code=0).code == 0

    (item,) = projects.prune_missing(0.0, settings, confirm).kept
    assert item.fault and "pinned" in item.reason
    assert gone.is_dir()


def test_a_store_that_is_a_link_stays_and_is_named(here, gone, tmp_path):
    os.rename(gone, tmp_path / "on another disk")
    gone.symlink_to(tmp_path / "on another disk")
    (reason,) = kept(here, code=3).values()
    assert "is a link" in reason and (tmp_path / "on another disk" / "ledger").is_file()


def test_a_link_in_the_place_of_the_root_says_that_it_was_moved(here, gone, tmp_path):
    (tmp_path / "gone").symlink_to("here")
    (reason,) = kept(here).values()
    assert "a link stands in its place" in reason


def test_what_an_interrupted_removal_left_is_no_store_and_is_removed_by_the_next(here, gone, home):
    left = gone.with_name(gone.name + ".removed-0123abcd")
    os.rename(gone, left)
    similar = project(home, gone.parent.parent.parent / "x.removed-0123abcd")
    assert str(left) not in [store["store"] for store in here.json("stores")["stores"]]
    here(*PRUNE, "--dry-run", code=0)
    assert left.is_dir()
    here(*PRUNE, "--yes", code=0)
    assert not left.exists() and similar.is_dir()


def test_many_at_once_and_two_of_it_at_the_same_time(here, home, tmp_path):
    for number in range(6):
        project(home, tmp_path / f"gone {number}")
        shutil.rmtree(tmp_path / f"gone {number}")
    command = Command(tmp_path / "here", home)
    line = [sys.executable, "-m", "casrewind", "-C", command.root, *PRUNE, "--yes", "--json"]
    running = [subprocess.Popen(line, env=command.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    answers = [process.communicate() for process in running]
    assert all(process.returncode in (0, 3) and err == b"" for process, (_, err) in zip(running, answers)), answers
    assert len(os.listdir(registry(home))) == 1
    assert here.json("list")["checkpoints"]
