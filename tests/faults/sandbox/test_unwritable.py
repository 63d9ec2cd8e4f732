"""A store that cannot be written: status, the status line and the line at the start of a session name the reason.

The danger prevented here: hooks fail in silence, and nobody is told that nothing is saved.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from support import other_users
from support.command import Command
from support.fake_client import Client
from support.trees import plant
from support.unprivileged import NOBODY, PREFIX, open_directory, require

PARTS = ["packs", "tmp", "journals", "locks", "index", "ledger", "index/data.mdb", "locks/publish"]


def told(command, client, prefix=()):
    """What a person reads: at the start of a session, from status, and in the status line."""
    program = [*prefix, sys.executable, "-m", "casrewind"]
    environment = {**command.environment, "CLAUDE_PROJECT_DIR": command.root, "CLAUDE_PID": str(os.getpid())}
    started = client.payload("SessionStart.startup", session_id="s")
    hook = subprocess.run([*program, "hook", "claude"], input=started, env=environment, capture_output=True, cwd="/", timeout=60)
    assert (hook.returncode, hook.stderr) == (0, b"")
    line = json.loads(hook.stdout)["systemMessage"]
    shown = command("statusline", prefix=prefix, code=0).out.strip()
    status = command("status", prefix=prefix)
    assert "NOT PROTECTED" in status.out + status.err, status
    assert line.startswith("casrewind: NOT PROTECTED: nothing can be saved: ") and "\n" not in line
    assert shown.startswith("casrewind: NOT PROTECTED: nothing can be saved: ") and "\n" not in shown
    return line, shown, status


@pytest.fixture
def told_store(mount, casrewind, root, home):
    """A small disk with a store that has a turn: (the disk, the client)."""
    disk = mount("home/data", "-t", "tmpfs", "-o", "size=6m", "none")
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    client = Client(casrewind, root)
    client.send(client.payload("UserPromptSubmit.prompt", session_id="s", prompt="x"))
    assert casrewind.json("status")["protected"]
    plant(root, {"f": b"2"})
    return disk, client


def test_a_read_only_file_system(told_store, casrewind):
    disk, client = told_store
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for said in told(casrewind, client)[:2]:
        assert "mounted read-only" in said
    found = casrewind.json("status")
    assert not found["protected"] and "mounted read-only" in found["reasons"][0] and found["checkpoints"] == 2
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    casrewind("save", code=0)
    assert casrewind.json("status")["protected"]


@pytest.mark.parametrize("what", ["space", "inodes"])
def test_a_full_disk(told_store, casrewind, what):
    disk, client = told_store
    if what == "space":
        with open(disk / "filler", "wb") as file:
            room = os.statvfs(disk)
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    else:
        subprocess.run(["mount", "-o", f"remount,nr_inodes={os.statvfs(disk).f_files - os.statvfs(disk).f_favail}", disk], check=True)
    word = "is full: free some space" if what == "space" else "no free inode"
    for said in told(casrewind, client)[:2]:
        assert word in said
    found = casrewind.json("status")
    assert not found["protected"] and word in found["reasons"][0] and found["checkpoints"] == 2
    if what == "space":
        os.unlink(disk / "filler")
        assert casrewind.json("status")["protected"]


@pytest.fixture
def plain():
    """A project of an ordinary user: (the command, the client, its store, the user's prefix)."""
    other_users.require()
    require()
    with open_directory() as place:
        root, home = place / "project", place / "home"
        for directory in (root, home):
            directory.mkdir()
        command = Command(root, home)
        plant(root, {"f": b"1"})
        client = Client(command, root)
        for path, _, names in os.walk(place):
            for name in (path, *(os.path.join(path, name) for name in names)):
                shutil.chown(name, NOBODY, NOBODY)
        command("save", prefix=PREFIX, code=0)
        command("gc", prefix=PREFIX, code=0)
        plant(root, {"f": b"2"})
        [store] = (home / "data/stores").iterdir()
        yield command, client, store


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_store_that_belongs_to_root(plain, part):
    command, client, store = plain
    shutil.chown(store / part, 0, 0)
    line, shown, status = told(command, client, PREFIX)
    words = f"{store / part}, a part of the store, belongs to user 0, not to you ({NOBODY}): make all of the store yours"
    assert words in line
    assert words in shown
    assert words in status.out + status.err
    failed = command("save", prefix=PREFIX)
    assert failed.code == 1 or part in ("journals", "locks"), failed
    shutil.chown(store / part, NOBODY, NOBODY)
    command("save", prefix=PREFIX, code=0)
    assert "NOT PROTECTED" not in command("status", prefix=PREFIX, code=0).out


def test_a_store_that_belongs_to_root_is_not_taken_for_none(plain):
    command, client, store = plain
    shutil.chown(store, 0, 0)
    program = [*PREFIX, sys.executable, "-m", "casrewind"]
    environment = {**command.environment, "CLAUDE_PROJECT_DIR": command.root, "CLAUDE_PID": str(os.getpid())}
    started = client.payload("SessionStart.startup", session_id="s")
    hook = subprocess.run([*program, "hook", "claude"], input=started, env=environment, capture_output=True, cwd="/", timeout=60)
    words = f"the store {store} belongs to user 0, not to you ({NOBODY})"
    assert words in json.loads(hook.stdout)["systemMessage"]
    assert words in command("status", prefix=PREFIX, code=14).err
    assert words in command("statusline", prefix=PREFIX, code=0).out


def test_a_lock_that_may_not_be_opened_is_not_free(plain):
    """Its owner may hold it: a save without it could meet a gc."""
    command, _, store = plain
    for name in os.listdir(store / "locks"):
        shutil.chown(store / "locks" / name, 0, 0)
    before = os.stat(store / "ledger").st_size
    failed = command("save", prefix=PREFIX, code=1)
    assert "opening the lock" in failed.err and "Permission denied" in failed.err
    assert os.stat(store / "ledger").st_size == before


def test_a_script_that_calls_the_hook_gets_nothing(told_store, casrewind):
    disk, client = told_store
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for event in ("SessionStart.startup", "UserPromptSubmit.prompt", "Stop.plain"):
        client.send(client.payload(event, session_id="s", prompt="y"))
    assert client.call(client.payload("UserPromptSubmit.prompt", session_id="s"), CLAUDE_PID=str(os.getpid())) == (0, b"", b"")
    assert client.call(client.payload("SessionStart.startup", session_id="s"), CLAUDE_PID=str(os.getpid()), CASREWIND_SESSION_LINE="no") == (0, b"", b"")
