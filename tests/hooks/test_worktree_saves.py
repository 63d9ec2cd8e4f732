"""An event in a project also saves the linked worktrees inside it: a subagent's hooks name the project around its worktree."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from casrewind import errors
from casrewind.hook import limits, worktree_saves
from casrewind.store.failure_log import FailureLog
from support.command_in_process import InProcess
from support.fake_client import Client
from support.git_repository import add_worktree, git, make_repository
from support.trees import plant

W1 = ".claude/worktrees/w1"
PATIENCE = 120


@pytest.fixture
def client(casrewind, root):
    """A client in a checkout that has a checkpoint."""
    plant(root, {"app.py": b"one\n"})
    make_repository(root)
    casrewind("save", code=0)
    return Client(casrewind, root)


def worktrees(casrewind):
    """{path: (is gone, newest checkpoint)} of the other worktrees, as status tells them."""
    found = casrewind.json("status")["worktrees"]
    return {os.path.relpath(each["path"], os.path.realpath(casrewind.root)): (each["gone"], each["last_checkpoint"]) for each in found}


def wait_until_saved(casrewind, place, known=None):
    """Wait for another checkpoint of a worktree; its id."""
    end = time.monotonic() + PATIENCE
    while (found := worktrees(casrewind)[place][1]) in (None, known):
        assert time.monotonic() < end, casrewind("status").out
        time.sleep(0.05)
    return found


def test_a_file_that_was_never_committed_comes_back_after_its_worktree_was_removed_by_force(client, casrewind, root):
    place = add_worktree(root)
    plant(place, {"draft.py": b"never committed\n"})
    client.send(client.payload("SubagentStop.general-purpose"))
    point = wait_until_saved(casrewind, W1)
    assert f"  worktrees    {W1}: its own root, saved " in casrewind("status", code=0).out
    git(root, "worktree", "remove", "--force", W1)
    shutil.rmtree(root / ".claude")
    lines = casrewind("status", code=0).out.splitlines()
    assert any(line.startswith("  worktrees    gone, saved ") and line.endswith(f" ago: {W1}") for line in lines)
    (line,) = (line.strip() for line in lines if "--to" in line)
    assert line == f"casrewind restore {point} --to {place}"
    casrewind(*line.split()[1:], code=0)
    assert (place / "draft.py").read_bytes() == b"never committed\n"
    assert (place / "app.py").read_bytes() == b"one\n"


@pytest.mark.parametrize("is_ignored", [False, True])
def test_each_event_saves_a_worktree_in_which_something_changed(client, casrewind, root, home, is_ignored):
    plant(root, {".gitignore": b"/.claude/\n" if is_ignored else b""})
    place = add_worktree(root)
    inner = InProcess(place, home)
    client.send(client.payload("UserPromptSubmit.prompt"))
    first = wait_until_saved(casrewind, W1)
    plant(place, {"draft.py": b"1"})
    client.send(client.payload("Stop.plain"))
    second = wait_until_saved(casrewind, W1, first)
    assert inner("cat", f"{second}:draft.py", code=0).out == "1"
    client.send(client.payload("UserPromptSubmit.prompt"))
    plant(place, {"draft.py": b"2"})
    client.send(client.payload("Stop.plain"))
    wait_until_saved(casrewind, W1, second)
    listed = inner.json("list")["checkpoints"]
    assert len(listed) == 3  # the second prompt found nothing new
    assert {point["agent"] for point in listed} == {None}
    assert listed[0]["label"] == "changed since the last checkpoint; saved with the project around it"


def test_before_a_tool_the_hook_waits_for_the_worktrees(client, casrewind, root):
    """The tool may be what removes the worktree."""
    place = add_worktree(root)
    plant(place, {"draft.py": b"never committed\n"})
    client.send(client.payload("PreToolUse.Bash"))
    assert worktrees(casrewind)[W1][1] is not None


def test_no_process_starts_where_there_is_no_worktree(client, casrewind):
    client.send(client.payload("Stop.plain"))
    assert worktrees(casrewind) == {}


def test_a_worktree_that_cannot_be_saved_is_logged_and_keeps_no_other_from_being_saved(client, casrewind, root, settings, monkeypatch):
    add_worktree(root, "w0")
    add_worktree(root, "w1")
    tried = []

    def save(place, _settings):
        tried.append(os.path.basename(place))
        if place.endswith("w0"):
            raise errors.StoreFull("no room")

    monkeypatch.setattr(worktree_saves, "_save", save)
    monkeypatch.setattr(limits, "limit_process", lambda: None)  # this process is that of the tests
    monkeypatch.setattr(FailureLog, "append_line", lambda self, text: tried.append(text))
    worktree_saves.save_all(str(root), settings)
    assert tried == ["w0", f"saving the worktree {root}/.claude/worktrees/w0: no room", "w1"]


def test_of_many_processes_one_works_and_one_waits(client, casrewind, root):
    """Hooks come faster than large worktrees are saved."""
    place = add_worktree(root)
    plant(place, {f"d{number % 20}/f{number}": b"%d" % number for number in range(2000)})
    command = [sys.executable, "-m", "casrewind", "hook", "--worktrees", str(root)]
    running = [subprocess.Popen(command, env=casrewind.environment, stdin=subprocess.DEVNULL) for _ in range(6)]
    plant(place, {"last": b"x"})
    running.append(subprocess.Popen(command, env=casrewind.environment, stdin=subprocess.DEVNULL))
    assert [process.wait(PATIENCE) for process in running] == [0] * 7
    point = worktrees(casrewind)[W1][1]
    assert casrewind("cat", f"{point}:last").out == "x"
    assert casrewind("status", code=0).err == ""
