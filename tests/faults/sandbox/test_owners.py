"""What dead processes left is removed, and what living ones hold is not: killed and stopped savers, killed restores, owners in
other pid namespaces. An interrupted restore is nobody's orphan."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from casrewind import fsio
from support.command import Command
from support.command_in_process import InProcess
from support.gc_checks import disk_usage, run_and_kill
from support.picture import differences, picture
from support.store_checks import leftovers
from support.trees import plant

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATHS = os.pathsep.join([os.path.dirname(TESTS), TESTS])
NAMESPACE = ("unshare", "-p", "-f", "--mount-proc")

SAVER = """
import os, sys
from casrewind.workspace import Settings, Workspace
root, home = sys.argv[1:]
settings = Settings(home=home, data=home + "/data", environ={"HOME": home})
with Workspace(root, settings, create=True) as workspace:
    store = workspace._context.store
    publish = store.publish
    def slowly(session, *arguments, **named):
        session.write_pending()
        print("drafts", *os.listdir(store.path + "/tmp"), flush=True)
        sys.stdin.readline()
        return publish(session, *arguments, **named)
    store.publish = slowly
    print("saved", workspace.save("by the one who was stopped").checkpoint.id, flush=True)
"""


class Saver:
    """A save that waits, with its drafts written and nothing published, until it is told to go on."""

    def __init__(self, root, home, *prefix):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", SAVER, str(root), str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": PATHS, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        self.drafts = self.process.stdout.readline().decode().split()[1:]

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().split()[1]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def ready(root, home):
    """The command, after a first save; the store."""
    plant(root, {"f": b"first"})
    casrewind = InProcess(root, home)
    casrewind("save", "-m", "first", code=0)
    plant(root, {"f": b"second", "large": os.urandom(300_000)})
    return casrewind, casrewind.json("status")["store"]


@pytest.mark.parametrize("command", ["gc", "save"])
def test_the_drafts_of_a_killed_saver_go_with_the_next(ready, root, home, command):
    casrewind, store = ready
    before = disk_usage(store)
    saver = Saver(root, home)
    saver.end()
    assert saver.drafts and set(saver.drafts) <= set(os.listdir(f"{store}/tmp")) and disk_usage(store) > before + 300_000
    casrewind(command, code=0)
    assert os.listdir(f"{store}/tmp") == []
    if command == "gc":
        assert disk_usage(store) < before + 100_000
    casrewind("verify", code=0)


def test_the_drafts_of_a_stopped_saver_stay_and_it_goes_on_with_them(ready, root, home):
    casrewind, store = ready
    saver = Saver(root, home)
    try:
        saver.process.send_signal(signal.SIGSTOP)
        plant(root, {"g": b"by another one"})
        for _ in range(3):
            casrewind("save", "-m", "meanwhile", code=0)
            assert set(saver.drafts) <= set(os.listdir(f"{store}/tmp"))
        fsio.remove_orphans(f"{store}/tmp")  # as gc does; gc itself has to wait for whoever saves
        assert set(saver.drafts) <= set(os.listdir(f"{store}/tmp"))
        saver.process.send_signal(signal.SIGCONT)
        point = saver.go_on()
    finally:
        saver.end()
    casrewind("gc", code=0)
    assert os.listdir(f"{store}/tmp") == []
    casrewind("verify", code=0)
    casrewind("restore", point, "--to", str(root.parent / "out"), code=0)
    assert (root.parent / "out" / "f").read_bytes() == b"second"


def test_in_three_pid_namespaces_nobody_takes_the_others_drafts(ready, root, home):
    """In each the saver is number 1, or the command is: a pid tells nothing."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespaces here")
    casrewind, store = ready
    savers = []
    try:
        for _ in range(3):
            savers.append(Saver(root, home, *NAMESPACE))
        drafts = {draft for saver in savers for draft in saver.drafts}
        assert len(drafts) >= 3
        for prefix in ((), NAMESPACE):
            Command(root, home)("save", "-m", "from elsewhere", code=0, prefix=prefix)
            assert drafts <= set(os.listdir(f"{store}/tmp"))
        first = savers.pop(0)
        subprocess.run(["kill", "-9", "--", *children(first.process.pid)], check=True)
        first.end()
        Command(root, home)("save", "-m", "after one of them was killed", code=0, prefix=NAMESPACE)
        left = set(os.listdir(f"{store}/tmp"))
        assert not left & set(first.drafts) and {draft for saver in savers for draft in saver.drafts} - set(first.drafts) <= left
        points = [saver.go_on() for saver in savers]
    finally:
        for saver in savers:
            saver.end()
    casrewind("gc", code=0)
    assert os.listdir(f"{store}/tmp") == []
    listed = {point["id"] for point in casrewind.json("list", "--all")["checkpoints"]}
    assert set(points) <= listed
    casrewind("verify", code=0)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


# -- a restore that was killed


@pytest.fixture
def interrupted(root, home):
    """A project in which a restore was killed in its middle: the command, the store, its pictures before and after."""
    casrewind = InProcess(root, home)
    plant(root, {f"d/{n}": b"then %d" % n for n in range(12)})
    casrewind("save", "-m", "then", code=0)
    then = picture(root)
    plant(root, {f"d/{n}": b"now %d" % n for n in range(12)} | {"new": b"n"})
    casrewind("save", "-m", "now", code=0)
    now = picture(root)
    store = casrewind.json("status")["store"]
    for at in range(6, 40):
        assert run_and_kill(Command(root, home), store, at, "restore", "then", "--yes")
        if leftovers(root):
            return casrewind, store, now, then
        casrewind("restore", "--abort", code=0)
    raise AssertionError("a restore cannot be killed in its middle")


def left_alone(casrewind, store, root):
    """Everything that looks after a store is run, also long after; the journal and the worktree stay as they are."""
    before, journals = picture(root), os.listdir(f"{store}/journals")
    for name in journals:
        os.utime(f"{store}/journals/{name}", (1, 1))
    casrewind("save", code=0)
    for arguments in (("gc", "--max-age", "0d"), ("gc", "--max-count", "1"), ("verify",), ("stores", "--prune-missing", "0d", "--yes")):
        casrewind(*arguments, code=0)
    assert os.listdir(f"{store}/journals") == journals
    assert differences(picture(root), before) == {}


@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_an_interrupted_restore_is_the_persons_to_finish_and_nobodys_orphan(interrupted, root, how):
    casrewind, store, now, then = interrupted
    left_alone(casrewind, store, root)
    casrewind("restore", how, code=0)
    assert differences(picture(root), then if how == "--continue" else now) == {}
    assert not leftovers(root) and os.listdir(f"{store}/journals") == []


def test_without_its_journal_the_files_of_a_restore_stay_and_are_named(interrupted, root):
    """They may hold the only copy of what somebody wrote meanwhile: nobody removes what nobody can account for."""
    casrewind, store, _, _ = interrupted
    shutil.rmtree(f"{store}/journals")
    os.mkdir(f"{store}/journals", 0o700)
    there = leftovers(root)
    left_alone(casrewind, store, root)
    assert leftovers(root) == there
    names = {os.path.relpath(os.fsdecode(path), root) for path in there}
    for found in (casrewind.json("save"), casrewind.json("save", "-m", "after"), casrewind.json("status")):
        assert {item["path"]: item["reason"] for item in found["skipped"]} == dict.fromkeys(names, "temporary file of a restore")
    assert not names & {entry["path"] for entry in casrewind.json("show", "after")["entries"]}
    casrewind("restore", "then", "--yes")
    assert leftovers(root) == there


# -- what nobody waits for


def test_a_save_that_a_killed_hook_had_begun_is_finished_by_its_child(root, home):
    """The child needs nobody: it comes to its end, and leaves nothing."""
    from support.fake_client import Client

    plant(root, {"f": b"x", "large": os.urandom(200_000)})
    client = Client(Command(root, home), root)
    line = [sys.executable, "-m", "casrewind", "hook", "claude"]
    environment = {**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(root)}
    hook = subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    try:
        hook.stdin.write(client.payload("UserPromptSubmit.prompt"))
        hook.stdin.close()
        end = time.monotonic() + 30
        while hook.poll() is None and not list(home.glob("data/stores/*/*/*.pack")) and time.monotonic() < end:
            time.sleep(0.002)  # the first save is the child's
    finally:
        hook.kill()
        hook.wait()
    (point,) = client.wait_for(1)
    casrewind = InProcess(root, home)
    casrewind("gc", code=0)
    assert os.listdir(os.path.join(casrewind.json("status")["store"], "tmp")) == []
    assert point["trigger"] == "prompt"
