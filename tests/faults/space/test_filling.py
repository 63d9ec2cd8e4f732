"""Another process takes all the space, or all the inodes, of a small file system at some moment of a command.

The project and its store lie on it together. The command does its work or says in one line that space is missing; nothing
that was acknowledged is lost, the worktree is old, new or a restore that goes on or back once there is space again.
"""

import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from casrewind.workspace import Settings, Workspace
from support.command import Command
from support.picture import differences, picture
from support.store_checks import leftovers, read_everything
from support.trees import plant

SIZE, INODES = 400 << 20, 400

FILLER = """
import os, sys, time
directory, delay, what, leave = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
fd = os.open(os.path.join(directory, "space"), os.O_WRONLY | os.O_CREAT, 0o600)
print("ready", flush=True)
sys.stdin.readline()
time.sleep(delay)
number = 0
try:
    while what == "inodes":
        os.close(os.open(os.path.join(directory, str(number)), os.O_WRONLY | os.O_CREAT, 0o600))
        number += 1
except OSError:
    pass
step = 1 << 28
while what == "space" and step >= 1024:
    try:
        space = os.fstatvfs(fd)
        free = space.f_bavail * space.f_frsize - leave
        if free <= 0:
            break
        os.posix_fallocate(fd, os.fstat(fd).st_size, min(step, free))
    except OSError:
        step //= 2
print("full", flush=True)
sys.stdin.readline()
"""


class Disk:
    """A project and its store on a file system that is filled while commands run."""

    def __init__(self, place, seed):
        self.place, self.chance = place, random.Random(seed)
        self.root, self.home, self.full = place / "project", place / "home", place / "full"
        for directory in (self.root, self.home):
            directory.mkdir()
        self.command = Command(self.root, self.home)
        self.acknowledged, self.codes, self.lasts, self.resumed = [], {}, {}, 0

    def noise(self, size):
        return self.chance.randbytes(size)

    def change(self, number):
        """Another state of the project, some of it only here."""
        plant(self.root, {"same": b"same", "a/big": self.noise(3_000_000), **{f"d{n % 3}/f{n}": b"%d %d" % (n, number) * 40 for n in range(30)}})
        shutil.rmtree(self.root / f"only-{number - 1}", ignore_errors=True)
        plant(self.root, {f"only-{number}/x/y": self.noise(5000), f"only-{number}/b": b"%d" % number})

    def timed(self, *words):
        """Run a command that must succeed; how long it took says when its moments are."""
        began = time.monotonic()
        result = self.command(*words, code=0)
        self.lasts[words[0]] = time.monotonic() - began
        return result

    def save(self):
        self.acknowledged.append(self.timed("save", "--json").json["checkpoint"])
        return self.acknowledged[-1]

    def filled(self, what, words):
        """Run a command while the file system fills at a moment of it; (exit code, what it printed). Then there is space."""
        kind = words[0]
        self.full.mkdir()
        delay = self.chance.uniform(0.45, 1.15) * self.lasts[kind] if self.codes else 0  # once before the first byte
        leave = self.chance.choice((0, 0, 9_000, 120_000))
        filler = subprocess.Popen(
            [sys.executable, "-c", FILLER, str(self.full), str(delay), what, str(leave)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert filler.stdout.readline() == b"ready\n"
            filler.stdin.write(b"go\n")
            filler.stdin.flush()
            result = self.command(*words)
        finally:
            filler.kill()
            filler.wait()
            filler.stdin.close()
            filler.stdout.close()
            shutil.rmtree(self.full)
        self.codes[result.code] = self.codes.get(result.code, 0) + 1
        assert result.code in (0, 13), (words, result)
        complaints = [line for line in result.err.splitlines() if not line.startswith("casrewind: note: ")]
        assert len(complaints) == (result.code != 0), (words, result)
        assert result.code == 0 or "space" in complaints[0], (words, result)
        return result

    def whole(self):
        """Nothing is lost or corrupt; what is there can be read."""
        listed = {point["id"] for point in self.command.json("list", "--all")["checkpoints"]}
        assert listed >= set(self.acknowledged)
        self.command("verify", code=0)
        assert self.command.json("status")["journal"] is None
        assert not leftovers(self.root)
        settings = Settings(home=str(self.home), data=str(self.home / "data"), environ={"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"})
        with Workspace(str(self.root), settings, create=False) as workspace:
            read_everything(workspace)


def save_round(disk, what, number):
    disk.change(number)
    here = picture(disk.root)
    result = disk.filled(what, ["save", "--json"])
    if result.code == 0:
        disk.acknowledged.append(result.json["checkpoint"])
    assert picture(disk.root) == here
    disk.whole()
    disk.save()


def restore_round(disk, what, number):
    """To the checkpoint before the newest and back, by what was begun or by undo."""
    target, then = disk.save(), picture(disk.root)
    disk.change(number + 1000)
    shutil.rmtree(disk.root / "d1")
    before = picture(disk.root)
    if "restore" not in disk.lasts:
        disk.timed("restore", target, "--yes")
        disk.command("undo", "--yes", code=0)
    disk.filled(what, ["restore", target, "--yes"])
    if disk.command.json("status")["journal"] is not None:
        goes_on = disk.resumed % 2 == 0
        disk.resumed += 1
        disk.command("restore", "--continue" if goes_on else "--abort", code=0)
        assert differences(picture(disk.root), then if goes_on else before) == {}
    else:
        assert picture(disk.root) in (before, then)
    disk.whole()
    disk.save()


def gc_round(disk, what, number):
    """Old checkpoints go, pinned ones stay; the next gc does the rest."""
    disk.change(number)
    pinned = disk.command.json("save", "--pin")["checkpoint"]
    held = picture(disk.root)
    for more in range(1, 4):
        disk.change(number + more * 1000)
        disk.save()
    here, newest = picture(disk.root), disk.acknowledged[-1]
    disk.acknowledged = [pinned, newest]
    disk.filled(what, ["gc", "--max-count", "1"])
    assert picture(disk.root) == here
    disk.whole()
    disk.timed("gc", "--max-count", "1")
    out = disk.place / "out"
    disk.command("restore", pinned, "--to", str(out), code=0)
    assert differences(picture(out), held) == {}
    shutil.rmtree(out)
    disk.command("unpin", pinned, code=0)
    disk.acknowledged = [newest]
    disk.whole()


ROUNDS = {"save": save_round, "restore": restore_round, "gc": gc_round}


@pytest.fixture
def disk(mount, tmp_path):
    """disk(seed): a Disk on an ext4 of its own."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")

    def make(seed):
        image = tmp_path / f"disk-{seed}.image"
        with open(image, "wb") as file:
            file.truncate(SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(INODES), image], check=True)
        return Disk(mount(f"disk-{seed}", "-o", "loop", str(image)), seed)

    return make


def fill_again_and_again(disk, operation, what, rounds):
    disk.change(-1)
    disk.save()
    disk.timed("gc")
    for number in range(rounds):
        ROUNDS[operation](disk, what, number)
        if operation != "gc" and number % 4 == 3:  # room for more
            disk.command("gc", "--max-count", "1", code=0)
            disk.acknowledged = disk.acknowledged[-1:]
    assert disk.codes.get(0 if operation == "gc" else 13), disk.codes  # gc gives up its ballast and goes on
    print(f"{operation} while another process takes all {what}: {rounds} times, exit codes {disk.codes}, {disk.resumed} restores left open: "
          f"0 lost, 0 corrupt, the next works")


@pytest.mark.turns(3)
@pytest.mark.parametrize(("operation", "what"), [("save", "space"), ("restore", "inodes"), ("gc", "space")])
def test_a_disk_that_another_process_fills(disk, operation, what):
    fill_again_and_again(disk(7), operation, what, 2)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("what", ["space", "inodes"])
@pytest.mark.parametrize("operation", ROUNDS)
def test_a_disk_that_another_process_fills_many_times(disk, operation, what):
    fill_again_and_again(disk(11), operation, what, 40)
