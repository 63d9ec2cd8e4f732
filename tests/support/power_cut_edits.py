"""The power is cut while a user's own writes are still in memory: after it a restore makes the tree what was recorded.

A save makes the store durable, not the user's files. The file system may keep a file's new inode, with its new times, and lose
the new bytes. A stat index that is believed after that says "unchanged" of bytes that nobody has read.
"""

import os
import random
import subprocess

from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.power_cut_stories import Casrewind, noise

BOOT = "/proc/sys/kernel/random/boot_id"
OTHER_BOOT = "11111111-2222-4333-8444-555555555555"
FILES, ROUNDS, EDITS = 40, 10, 12


def overwrite(path, data):
    with open(path, "r+b") as file:
        file.write(data[: os.path.getsize(path)].ljust(os.path.getsize(path), b"."))


def truncate_and_write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def append(path, data):
    with open(path, "ab") as file:
        file.write(data[:700])


def rename_over(path, data):
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


WRITERS = (overwrite, truncate_and_write, append, rename_over)


class Edited(Casrewind):
    """Rounds of edits, each followed by a save that is acknowledged.

    `boot`: "new" shows another boot id to the judge, "same" the one of the recording. `mount`: "new" leaves the file system as the
    judge mounted it, "same" hides that it was mounted again. With both "same" nothing tells the judge's command of the power cut.
    """

    def __init__(self, *, boot, mount):
        super().__init__()
        self._boot, self._mount = boot, mount

    def tell(self, teller):
        self.teller, self.root, self.home, self.known = teller, f"{teller.point}/w", f"{teller.point}/h", set()
        self.command = Command(self.root, self.home)
        chance = random.Random(5)
        for number in range(FILES):
            truncate_and_write(self._path(number), noise(number, chance.randrange(500, 20_000)))
        with self._hidden_mount(teller.point):
            self._save("first save")
            teller.sync()
            for turn in range(ROUNDS):
                for number in chance.sample(range(FILES), EDITS):
                    data = noise(1000 * turn + number, chance.randrange(500, 20_000))
                    WRITERS[(number + turn) % len(WRITERS)](self._path(number), data)
                self._save(f"save {turn + 1}")

    def _path(self, number):
        return f"{self.root}/file-{number}"

    def judge(self, told, cut, point, scratch):
        self.root, self.home = f"{point}/w", f"{point}/h"
        saves = [told["steps"][number] for number in cut.ended]
        if not saves:
            return ["nothing acknowledged"]
        [(last, timed)] = saves[-1]["ids"].items()
        held = {path: what[:3] for path, what in timed.items()}  # a restore leaves the times of equal bytes alone
        self.command = Command(self.root, self.home) if cut.number % 16 == 0 else InProcess(self.root, self.home)
        with self._other_boot(scratch), self._hidden_mount(point):
            before = picture(self.root)
            self.command("diff", last, "--json", code=0)
            restored = self.command("restore", last, "--yes", code=0)
            there = picture(self.root)
            wrong = differences(there, held)
            assert not wrong, f"{len(wrong)} paths are not as in {last}, and restore said {restored.out!r}: {wrong}"
            self._verify()
        lost = before != held
        return ["the cut had changed files"] if lost else ["the cut had changed nothing"]

    def _other_boot(self, scratch):
        return bound(_file(scratch), BOOT, wanted=self._boot == "new")

    def _hidden_mount(self, point):
        """Have the directory that the kernel makes for a mounted file system look the same every time."""
        place = os.path.join(os.path.dirname(point), "life")
        os.makedirs(place, exist_ok=True)
        return bound(place, kernel_directory(point), wanted=self._mount == "same")


def kernel_directory(point):
    """The directory in /sys that lives as long as the file system stays mounted; "" when there is none."""
    device = os.stat(point).st_dev
    name = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    return next((path for kind in ("ext4", "xfs") if os.path.isdir(path := f"/sys/fs/{kind}/{name}")), "")


def _file(scratch):
    os.makedirs(scratch, exist_ok=True)
    path = f"{scratch}/boot"
    with open(path, "w") as file:
        file.write(OTHER_BOOT + "\n")
    return path


class bound:
    """One path bind-mounted over another, in this mount namespace, for a with-block."""

    def __init__(self, source, target, *, wanted):
        self._command, self._target = ["mount", "--bind", source, target], target if wanted else ""

    def __enter__(self):
        if self._target:
            subprocess.run(self._command, check=True)

    def __exit__(self, *_):
        if self._target:
            subprocess.run(["umount", self._target], check=True)


STORIES = {
    "edits before a new boot": Edited(boot="new", mount="new"),
    "edits before a new mount": Edited(boot="same", mount="new"),
    "edits before a hidden cut": Edited(boot="same", mount="same"),
}
