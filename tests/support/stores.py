"""Stores to be damaged, and what they say of themselves."""

import json
import os
import signal
import subprocess
import sys

from casrewind.workspace import Workspace
from support.trees import plant

PROBE = os.path.join(os.path.dirname(__file__), "ask_store.py")


def nth_newest(workspace, number):
    """The Nth newest checkpoint of the worktree, without safety checkpoints."""
    return [point for point, _ in workspace.checkpoints() if point.trigger != "safety"][number - 1]


def filled(root, settings, *, checkpoints=4, directories=4):
    """A store with some checkpoints, pins, a restore and an undo; the path of the store."""
    with Workspace(str(root), settings, create=True) as workspace:
        for number in range(checkpoints):
            plant(root, {f"d{n}/f{number}": b"%d %d " % (n, number) * 30 for n in range(directories)})
            plant(root, {"changing": b"version %d" % number})
            workspace.save(f"label {number}", pin=number == 1)
        workspace.restore(workspace.checkpoint("prev"))
        workspace.undo()
        return workspace.store_path


def probe(store, cases):
    """Ask a store everything, once per case of damage, each in a child process."""
    done = subprocess.run(
        [sys.executable, PROBE, str(store)], input=json.dumps(cases).encode(), capture_output=True, timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


HOLDER = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


class LockHolder:
    """Another process that holds a kernel lock, stopped or not, until it is killed."""

    def __init__(self, path, *, stopped=False):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"held\n"
        if stopped:
            self.process.send_signal(signal.SIGSTOP)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
