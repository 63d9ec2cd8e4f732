"""A stopped process holds a lock of the store: a hook waits for half of its budget and no more, and says nothing but in the log.

A person's command waits for longer, then says which lock it was, with exit code 11. While it waits nothing else does. How long
somebody waited for a lock is read from what they say of it: the clock would tell how busy the machine is. There a hook may have
no time left for the lock, and leaves its event to a child, which is patient.
"""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from casrewind.workspace import Workspace
from support.command import Command
from support.fake_client import Client
from support.stores import LockHolder
from support.trees import plant

BUDGETS = {"SessionEnd.other": 1.0, "UserPromptSubmit.prompt": 5.0}
TRIGGERS = ("session_end", "prompt")
WAITED_FOR = ("gate", "store", "publish", "index")
NOT_WAITED_FOR = ("gc", "restore", "turn")
COMMAND = 10.0  # seconds that a command waits for a lock
PATIENCE = 120  # seconds after which somebody is taken for one who waits for ever


class Behind:
    """A project of its own, whose store's locks are held by stopped processes from `hold` on."""

    def __init__(self, place, settings):
        root, home = place / "project", place / "home"
        plant(root, {"f": b"first"})
        home.mkdir()
        self.root, self.took = root, {}
        self.command = Command(root, home)
        self.command("save", code=0)
        self.client = Client(self.command, root)
        self.client.send(self.client.payload("SessionStart.startup"))
        self.client.wait_for(2)
        self.store = self.command.json("status")["store"]
        with Workspace(str(root), settings._replace(home=str(home), data=str(home / "data")), create=False) as workspace:
            self.key = workspace._context.root.key.hex()
        self.told, self._sent = len(self.complaints()), []
        self.before = sum(point["trigger"] in TRIGGERS for point in self.client.points())
        self._holders, self._running = ExitStack(), {}

    def hold(self, *locks):
        for lock in locks:
            name = f"{lock}-{self.key}" if lock in ("restore", "turn") else lock
            self._holders.enter_context(LockHolder(os.path.join(self.store, "locks", name), stopped=True))

    def send(self, event):
        """A hook; asserts that it exits with 0 and prints nothing."""
        plant(self.root, {"f": os.urandom(8)})
        began = time.monotonic()
        self.client.send(self.client.payload(event))
        self.took[event] = time.monotonic() - began
        self._sent.append(event)

    def start(self, *words):
        """A command that is left to itself."""
        program = [sys.executable, "-m", "casrewind", "-C", str(self.root), *words]
        process = subprocess.Popen(program, env=self.command.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._running[words] = process, time.monotonic()

    def answer(self, *words):
        """(exit code, what it complained of) of a command that was started."""
        process, began = self._running.pop(words)
        try:
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()
        self.took[words[0]] = time.monotonic() - began
        return process.returncode, err

    def complaints(self):
        with open(os.path.join(self.store, "log"), "ab+") as file:
            file.seek(0)
            return [line.decode() for line in file.read().splitlines() if b"StoreBusy" in line]

    def waited(self):
        """[(lock, seconds)] of the hooks that gave up."""
        words = (re.search(r"the (\w+) lock was not free within ([\d.]+) s", line) for line in self.complaints()[self.told :])
        return [(found[1], float(found[2])) for found in words]

    def accounts_for_all(self):
        """Each event was given up, by half of its budget, or is a checkpoint now that the locks are free."""
        end = time.monotonic() + PATIENCE
        while (made := sum(point["trigger"] in TRIGGERS for point in self.client.points()) - self.before) + len(
            waited := self.waited()
        ) < len(self._sent):
            assert time.monotonic() < end, (made, waited, self._sent)
            time.sleep(0.1)
        assert made + len(waited) == len(self._sent), (made, waited)
        assert {seconds for _, seconds in waited} <= {BUDGETS[event] / 2 for event in self._sent}, waited

    def close(self):
        for process, _ in self._running.values():
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self._holders.close()

    def works_again(self):
        self._holders.close()
        self.accounts_for_all()
        plant(self.root, {"f": b"last"})
        self.command("save", code=0)
        self.client.send(self.client.payload("Stop.plain"))
        self.command("verify", code=0)


@pytest.fixture
def behind(tmp_path, settings):
    """behind(lock): a Behind whose lock of that name is held."""
    made = []

    def work(*locks):
        place = tmp_path / "-".join(locks)
        place.mkdir()
        made.append(Behind(place, settings))
        made[-1].hold(*locks)
        return made[-1]

    yield work
    for one in made:
        one.close()


def said(what, took):
    print(f"{what}: " + ", ".join(f"{event} back after {seconds:.1f} s" for event, seconds in took.items()))


def test_whoever_needs_a_lock_of_a_stopped_holder_comes_back_in_time(behind):
    """The hooks by half of their budgets, a save by its deadline; the saves wait while the hooks do."""
    found = {lock: behind(lock) for lock in WAITED_FOR}
    for lock, one in found.items():
        plant(one.root, {"g": lock.encode()})
        one.start("save")
    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(lambda one: [one.send(event) for event in BUDGETS], found.values()))
    for lock, one in found.items():
        code, err = one.answer("save")
        *notes, line = err.splitlines()
        assert code == 11 and f"{lock} lock was not free within {COMMAND:g} s" in line, (lock, code, err)
        # a save that starts slowly finds in the log that a hook gave up
        assert all(note.startswith("casrewind: note: a hook could not do all of its work") for note in notes), err
        assert {name for name, _ in one.waited()} <= {lock}
        said(lock, one.took)
        one.works_again()


@pytest.mark.parametrize("lock", NOT_WAITED_FOR)
def test_locks_that_neither_a_hook_nor_a_save_needs(behind, lock):
    one = behind(lock)
    one.send("SessionEnd.other")
    plant(one.root, {"f": b"another"})
    one.start("save")
    assert one.answer("save") == (0, "")
    words = {"gc": ("gc",), "restore": ("restore", "prev", "--yes")}.get(lock)
    if words is not None:
        one.start(*words)
        code, err = one.answer(*words)
        assert code == 11 and err.count("\n") == 1, (code, err)
    assert one.waited() == []
    said(lock, one.took)
    one.works_again()


def test_a_hook_behind_stopped_holders_of_all_locks_waits_for_no_longer(behind):
    one = behind(*WAITED_FOR, *NOT_WAITED_FOR)
    one.send("SessionEnd.other")
    said("all of them", one.took)
    one.works_again()
