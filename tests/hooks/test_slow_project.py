"""A project that is slower than its prompts: hooks leave two processes at most, and no prompt is lost from the list."""

import fcntl
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from support.command_in_process import InProcess
from support.fake_client import Client
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts processes in /proc")
SESSION = "5e551040-0000-4000-8000-000000000000"


@pytest.fixture
def client(casrewind, root, home):
    plant(root, {"f": b"0", "sub/g": b"0"})
    casrewind("save", code=0)
    return Client(casrewind, root)


@contextmanager
def locked(store, name):
    with open(store / "locks" / name, "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def slow(home):
    """Every file has to be read, as after a boot, and nothing can be published: a save that lasts for ever."""
    (store,) = (home / "data" / "stores").iterdir()
    for path in (store / "index").glob("stat-*"):
        path.unlink()
    with locked(store, "publish"):
        yield store


def children(home):
    """The processes that hooks of this test left to make a checkpoint: their ids."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as environ:
                if b"--child" in line.read().split(b"\0") and f"HOME={home}".encode() in environ.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            pass  # it has ended
    return found


def wait_for(look):
    end = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


class Hooks:
    """Hooks that a client calls at the same time, in one order."""

    def __init__(self, client, home):
        self.client, self.home, self.running = client, home, []

    def send(self, name, **changes):
        environment = {**self.client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(self.client.root)}
        hook = subprocess.Popen([sys.executable, "-m", "casrewind", "hook", "claude"], stdin=subprocess.PIPE, env=environment, cwd="/")
        hook.stdin.write(self.client.payload(name, session_id=SESSION, **changes))
        hook.stdin.close()
        self.running.append(hook)

    def prompt(self, number):
        self.send("UserPromptSubmit.prompt", prompt=f"prompt {number}", prompt_id=f"00000000-0000-4000-8000-{number:012}")

    def end(self, number):
        self.send("Stop.plain", prompt_id=f"00000000-0000-4000-8000-{number:012}")

    def missed(self, store):
        return sum(len(path.read_bytes().splitlines()) for path in (store / "locks").glob("missed-*"))


@pytest.fixture
def hooks(client, home):
    made = Hooks(client, home)
    yield made
    for hook in made.running:
        hook.wait(timeout=60)


def told_slowly(hooks, home, root):
    """Three turns, of which the last two have no checkpoint of their own."""
    with slow(home) as store:
        with locked(store, "gate"):  # the save reads nothing before f changed: else it is not late
            hooks.prompt(1)
            first = wait_for(lambda: children(home))
            plant(root, {"f": b"1"})
        hooks.end(1)
        wait_for(lambda: len(children(home)) == 2)
        most = 0
        for number in (2, 3):
            for send in (hooks.prompt, hooks.end):
                before = hooks.missed(store)
                send(number)
                wait_for(lambda: hooks.missed(store) == before + 1)
                wait_for(lambda: hooks.running[-1].poll() is not None)  # it waits for nothing
                plant(root, {"f": b"%d" % number, f"made{number}": b"x"})
                most = max(most, len(children(home)))
        assert most == 2 and first <= children(home), "one works, one waits"
    wait_for(lambda: not children(home))
    assert hooks.missed(store) == 0


def test_two_processes_at_most_are_left_and_every_prompt_is_listed(hooks, casrewind, root, home):
    told_slowly(hooks, home, root)
    inside = InProcess(root, home)
    turns = inside.json("list")["turns"]
    assert [(turn["n"], turn["prompt"], turn["not_saved"], turn["mixed"]) for turn in turns] == [
        (1, "prompt 3", True, True), (2, "prompt 2", True, True), (3, "prompt 1", True, True),
    ]  # fmt: skip
    assert inside("list", code=0).out.count("not saved (too slow)") == 3
    assert "not saved (too slow)" in inside("show", "@2", code=0).out
    every = inside.json("list", "--all")["checkpoints"]
    assert [point["trigger"] for point in every] == ["turn_end", "prompt"] * 3 + ["manual"]
    assert inside("list", "--all", code=0).out.count("not saved (too slow)") == 4


def test_what_was_not_saved_is_never_taken_for_a_state(hooks, casrewind, root, home):
    told_slowly(hooks, home, root)
    inside = InProcess(root, home)
    before = sorted((path.name, path.read_bytes()) for path in root.iterdir() if path.is_file())
    for turn in ("@1", "@2", "@3"):
        assert "not saved (too slow)" in inside("revert", turn, "-y", code=15).err
    for turn in ("@1", "@2", "after:@2", "after:@1"):
        assert "not saved (too slow)" in inside("restore", turn, "-y", code=15).err
    unsaved = inside.json("list", "--all")["checkpoints"][0]["id"]
    assert "was not saved" in inside("restore", unsaved, "-y", code=15).err
    assert sorted((path.name, path.read_bytes()) for path in root.iterdir() if path.is_file()) == before
    found = inside("restore", "@3", "-y", code=3)
    assert "left alone: f: it changed after the checkpoint's time" in found.err and not (root / "made2").exists()
    inside("gc", code=0)
    inside("verify", code=0)


def test_the_edits_of_prompts_that_were_not_saved_are_saved(hooks, casrewind, root, home):
    """The process that waits covers the files of the others."""
    told_slowly(hooks, home, root)
    inside = InProcess(root, home)
    assert inside("cat", "last:made3", code=0).out == "x"
    plant(root, {"f": b"wrecked"})
    (root / "made2").unlink()
    inside("restore", "last", "-y", code=0)
    assert ((root / "f").read_bytes(), (root / "made2").read_bytes()) == (b"3", b"x")


def test_events_outlive_the_process_that_was_to_record_them(hooks, client, casrewind, root, home):
    with slow(home) as store:
        hooks.prompt(1)
        wait_for(lambda: children(home))
        hooks.end(1)
        wait_for(lambda: len(children(home)) == 2)
        hooks.prompt(2)
        wait_for(lambda: hooks.missed(store) == 1)
        for pid in children(home):
            os.kill(int(pid), 9)
        wait_for(lambda: not children(home))
    for hook in hooks.running:
        hook.wait(timeout=60)
    hooks.send("SessionStart.startup")  # always in a process of its own
    wait_for(lambda: hooks.missed(store) == 0 and not children(home))
    shown = InProcess(root, home).json("list")["turns"]
    assert [(turn["prompt"], turn["not_saved"]) for turn in shown] == [("prompt 2", True)]


def test_a_text_is_purged_from_events_that_wait(hooks, casrewind, root, home):
    with slow(home) as store:
        hooks.prompt(1)
        wait_for(lambda: children(home))
        hooks.end(1)
        wait_for(lambda: len(children(home)) == 2)
        hooks.send("UserPromptSubmit.prompt", prompt="the key is Sw0rdfish")
        wait_for(lambda: hooks.missed(store) == 1)
        for pid in children(home):
            os.kill(int(pid), 9)
        wait_for(lambda: not children(home))
    (root / "secret").write_bytes(b"Sw0rdfish")
    with open(root / "secret") as given:
        casrewind("purge", "--text", "-", "-y", code=0, stdin=given)
    assert not [path for path in store.rglob("*") if path.is_file() and b"Sw0rdfish" in path.read_bytes()]
