"""What tests of gc need: how big a store really is, a restore that is killed in its middle, checkpoints held to pictures."""

import os
import shutil
import subprocess
import tempfile

from support import forked_command
from support.picture import differences, picture

KILLED_AT = """
import os, signal, sys

left = int(sys.argv[1])

def watch(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir") and os.listdir(sys.argv[2]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
from casrewind.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


def run_and_kill(command, store, at, *arguments):
    """Run a command and kill it at the `at`-th change that it makes to the disk while its journal is open. True when it
    was killed, False when it came to its end before."""
    words = [str(at), os.path.join(store, "journals"), "-C", command.root, *arguments]
    done = forked_command.call(words, command.environment, program=KILLED_AT, timeout=120, stdin=subprocess.DEVNULL)
    assert done[0] in (0, -9), done
    return done[0] == -9


def packs_of(store):
    """{name: bytes} of every pack of a store, seen from outside."""
    with os.scandir(os.path.join(store, "packs")) as entries:
        return {entry.name: entry.stat().st_size for entry in entries}


def disk_usage(store):
    """Bytes on disk below a directory, as du counts them. Files may come and go meanwhile."""
    total, seen = 0, set()
    for place, _, names in os.walk(store):
        for name in names:
            try:
                status = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                continue
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += status.st_blocks * 512
    return total


def checkpoint_picture(workspace, point, **more):
    """The picture of a checkpoint, written into a directory that is gone afterwards."""
    place = tempfile.mkdtemp(prefix="casrewind-gc-")
    try:
        report = workspace.materialise(point, os.path.join(place, "there"))
        assert not report.kept
        return picture(os.path.join(place, "there"), **more)
    finally:
        shutil.rmtree(place)


class Records:
    """What every checkpoint held, noted by other code when it was made."""

    def __init__(self):
        self.pictures = {}

    def note(self, workspace, saved):
        """Remember that the worktree as it is now was saved; the checkpoint."""
        self.pictures[saved.checkpoint.id] = picture(workspace.root.path, skip=(b".git",))
        return saved.checkpoint

    def check(self, workspace):
        """Every checkpoint that is there holds what it held when it was made, and the store is sound. Their ids."""
        found = [point for point, _ in workspace.checkpoints(every_worktree=True)]
        for point in found:
            if point.id in self.pictures:
                there = checkpoint_picture(workspace, point)
                assert differences(there, self.pictures[point.id]) == {}, point.id
        verified = workspace.verify()
        assert not verified.problems, verified.problems
        assert verified.checkpoints == len(found)
        return {point.id for point in found}
