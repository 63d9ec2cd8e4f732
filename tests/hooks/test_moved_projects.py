"""A project that was moved, with an agent connected: where its hooks go on, and what is said."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from casrewind.history import worktree_timeline
from casrewind.workspace import Workspace
from support.command_in_process import InProcess
from support.fake_client import Client
from support.git_repository import add_worktree, git, make_repository
from support.picture import differences, picture
from support.stores import LockHolder
from support.trees import plant

FILES = {f"d{n % 3}/file {n}": b"content of file %d\n" % n for n in range(20)}


@pytest.fixture
def old(tmp_path, at):
    """A project with two checkpoints and a restore."""
    place = tmp_path / "before" / "project"
    plant(place, {**FILES, "d0/file 0": b"other"})
    at(place)("save", "-m", "first", code=0)
    plant(place, FILES)
    at(place)("save", "-m", "second", code=0)
    at(place)("restore", "first", "--yes", code=0)
    return place


@pytest.fixture
def new(tmp_path):
    (tmp_path / "after").mkdir()
    return tmp_path / "after" / "another name"


def stores(home):
    return sorted(path.name.rpartition("-")[0] for path in (Path(home) / "data" / "stores").iterdir())


def labels(casrewind):
    """The labels of the checkpoints that a person saved, oldest first."""
    return [point["label"] for point in casrewind.json("list", "--all")["checkpoints"] if point["trigger"] == "manual"][::-1]


class Agent:
    """A client of a project. `said`: what its hooks showed to the person."""

    def __init__(self, at, place):
        self.client, self.said = Client(at(place), place), []

    def event(self, name, **changes):
        """Call a hook; the text that it shows to the person."""
        code, out, err = self.client.call(self.client.payload(name, **changes), CLAUDE_PID=str(os.getpid()))
        assert (code, err) == (0, b"")
        return json.loads(out)["systemMessage"] if out else ""

    def start(self):
        return self.event("SessionStart.startup")

    def turn(self, changes):
        """A whole turn, to its end in the store."""
        before = len(self.client.points())
        self.event("UserPromptSubmit.prompt", prompt="do it")
        plant(self.client.root, changes)
        self.event("Stop.plain")
        end = time.monotonic() + 120
        while len(self.client.points()) < before + 2:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize("first", ["session start", "prompt"])
def test_a_hook_that_comes_first_goes_on_in_the_old_store(old, new, at, home, first):
    os.rename(old, new)
    agent = Agent(at, new)
    if first == "session start":
        assert agent.start().endswith(f"; the project was moved here from {old}")
    agent.turn({"made.py": b"made\n"})
    assert stores(home) == ["another_name"]
    casrewind = at(new)
    assert labels(casrewind)[:2] == ["first", "second"]
    assert casrewind.json("list")["turns"][0]["changes"]["added"] == 1
    assert "adopt" not in casrewind("list", code=0).out
    assert "moved" not in agent.start()
    casrewind("back", "1", "--code", "-y", code=0)
    casrewind("undo", "-y", code=0)
    casrewind("undo", "--all", "-y", code=0)  # that of before the move
    assert (new / "d0/file 0").read_bytes() == FILES["d0/file 0"]


def test_a_command_that_comes_first_takes_the_store_along_and_the_hook_goes_on_there(old, new, at, home):
    os.rename(old, new)
    assert f"{new} was moved from {old}: its 2 checkpoints came along" in at(new)("list", code=0).err
    agent = Agent(at, new)
    assert "moved" not in agent.start()
    agent.turn({"made.py": b"made\n"})
    assert stores(home) == ["another_name"] and labels(at(new))[:2] == ["first", "second"]


@pytest.mark.parametrize("way", ["by the new place", "by the link"])
def test_a_link_at_the_old_place_is_no_project_there(old, new, at, home, way):
    os.rename(old, new)
    old.symlink_to(new)
    agent = Agent(at, new if way == "by the new place" else old)
    assert agent.start().endswith(f"; the project was moved here from {old}")
    agent.turn({"made.py": b"made\n"})
    assert stores(home) == ["another_name"] and labels(at(new))[:2] == ["first", "second"]


def begins_anew(at, home, old, new, *, names):
    """The hooks in `new` begin a store of their own. If `names`, the line at the first start and `list` say how to adopt the old one."""
    before = labels(at(old)) if old.exists() else None
    agent = Agent(at, new)
    adopt = f"casrewind adopt {old}"
    assert (f"; if it was at {old} before: {adopt}" in agent.start()) == names
    agent.turn({"made.py": b"made\n"})
    casrewind = at(new)
    assert labels(casrewind) == [] and len(casrewind.json("list")["turns"]) == 1
    assert len(stores(home)) == 2
    assert casrewind("list", code=0).out.endswith(f"\nif this project was at {old} before: {adopt}\n") == names
    assert (adopt in casrewind("list", code=0).out) == names
    for other in (("list", "--all"), ("list", "--oneline"), ("list", "--json"), ("status",)):
        assert "adopt" not in casrewind(*other, code=0).out
    assert "adopt" not in agent.start()
    assert before is None or labels(at(old)) == before
    return casrewind


def test_a_copy_begins_its_own_store_and_nothing_is_said(old, new, at, home):
    subprocess.run(["cp", "-a", old, new], check=True)
    begins_anew(at, home, old, new, names=False)
    Agent(at, old).turn({"more.py": b"x\n"})
    assert labels(at(old))[:2] == ["first", "second"]
    shutil.rmtree(old)  # from now on it may as well have been a move
    assert f"casrewind adopt {old}" in at(new)("list", code=0).out
    assert labels(at(new)) == []


def test_an_unmounted_disk_keeps_its_store(tmp_path, at, home, new):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    os.utime(disk, (1, 1))  # as it was before anything was mounted there
    if subprocess.run(["mount", "-t", "tmpfs", "casrewind-test", disk], capture_output=True, check=False).returncode:
        pytest.skip("root cannot mount a disk here")
    try:
        old = disk / "project"
        plant(old, FILES)
        at(old)("save", "-m", "on the disk", code=0)
        subprocess.run(["cp", "-a", old, new], check=True)
        subprocess.run(["umount", disk], check=True)
        begins_anew(at, home, old, new, names=True)
        subprocess.run(["mount", "-t", "tmpfs", "casrewind-test", disk], check=True)
        subprocess.run(["cp", "-a", new, old], check=True)  # it is back
        assert labels(at(old)) == ["on the disk"]
        assert "adopt" not in at(new)("list", code=0).out
    finally:
        subprocess.run(["umount", disk], capture_output=True, check=False)


def test_a_root_that_another_container_may_have_keeps_its_store(tmp_path, at, home):
    """The containers share the stores, and each sees its own project."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a container's file system")
    place = tmp_path / "workspaces"
    for name in ("lower", "upper", "work", "workspaces"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, place], capture_output=True, check=False).returncode:
        pytest.skip("root cannot mount an overlay here")
    try:
        plant(place / "project", FILES)
        at(place / "project")("save", "-m", "of the other one", code=0)
        os.rename(place / "project", place / "new")
        begins_anew(at, home, place / "project", place / "new", names=True)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_copy_of_a_linked_worktree_that_was_removed_begins_its_own_store(tmp_path, at, home, new):
    main = tmp_path / "main"
    plant(main, FILES)
    make_repository(main)
    at(main)("save", "-m", "main", code=0)
    place = add_worktree(main)
    at(place)("save", "-m", "worktree", code=0)
    subprocess.run(["cp", "-a", place, new], check=True)
    git(main, "worktree", "remove", "--force", place)
    agent = Agent(at, new)
    assert "adopt" not in agent.start()
    agent.turn({"made.py": b"x"})
    assert labels(at(new)) == [] and set(labels(at(main))) == {"main", "worktree"}


def test_a_linked_worktree_with_a_store_of_its_own_that_was_moved_is_named(tmp_path, at, home, new):
    """The repository has its files elsewhere. Without git nobody knows what became of the worktree: a person decides."""
    main = tmp_path / "main"
    plant(main, FILES)
    git(tmp_path, "init", "-q", "-b", "main", f"--separate-git-dir={tmp_path / 'files'}", main)
    git(main, "add", "-A")
    git(main, "commit", "-q", "-m", "first")
    old = add_worktree(main, above="../trees")
    old = old.resolve()
    at(old)("save", "-m", "worktree", code=0)
    os.rename(old, new)
    begins_anew(at, home, old, new, names=True)


def test_a_project_that_was_edited_while_it_was_moved_is_named(old, new, at, home):
    shutil.copytree(old, new, copy_function=shutil.copyfile)  # other times, the same sizes
    shutil.rmtree(old)
    casrewind = begins_anew(at, home, old, new, names=True)
    shutil.rmtree(next((Path(home) / "data" / "stores").glob("project-*")))
    assert "adopt" not in casrewind("list", code=0).out  # there is nothing to adopt any more


def test_one_of_the_same_name_alone_is_named_once(old, at, home, tmp_path):
    shutil.rmtree(old)
    plant(tmp_path / "after" / "project", {"README": b"only the name is the same"})
    agent = Agent(at, tmp_path / "after" / "project")
    assert f"casrewind adopt {old}" in agent.start()
    agent.turn({"made.py": b"x"})
    assert "adopt" not in at(tmp_path / "after" / "project")("list", code=0).out
    assert "adopt" not in agent.start()


def test_a_store_in_use_is_waited_for_and_no_other_one_is_begun(old, new, at, home, settings):
    with Workspace(str(old), settings, create=False) as workspace:
        store = Path(workspace.store_path)
    os.rename(old, new)
    agent = Agent(at, new)
    with LockHolder(store / "locks" / "gc", stopped=True):
        agent.start()
        assert stores(home) == ["project"]
    end = time.monotonic() + 120
    while stores(home) != ["another_name"]:
        assert time.monotonic() < end, stores(home)
        time.sleep(0.05)
    assert labels(at(new))[:2] == ["first", "second"]


def test_a_project_with_a_checkpoint_adopts_nothing(old, new, at, home):
    """A project was begun in the new place before the old one was moved into it."""
    plant(new, {"mine": b"x"})
    at(new)("save", "-m", "mine", code=0)
    subprocess.run(["cp", "-a", f"{old}/.", new], check=True)
    shutil.rmtree(old)
    agent = Agent(at, new)
    assert "adopt" not in agent.start()
    agent.turn({"made.py": b"x"})
    assert labels(at(new)) == ["mine"] and len(stores(home)) == 2
    assert f"casrewind adopt {old}" in at(new)("list", code=0).out


def test_a_list_names_roots_only_while_the_history_is_short(old, new, at, home, monkeypatch):
    shutil.copytree(old, new, copy_function=shutil.copyfile)
    shutil.rmtree(old)
    casrewind = at(new)
    casrewind("save", code=0)
    assert f"casrewind adopt {old}" in casrewind("list", code=0).out
    monkeypatch.setattr(worktree_timeline, "SHORT", 0)
    assert "adopt" not in casrewind("list", code=0).out
