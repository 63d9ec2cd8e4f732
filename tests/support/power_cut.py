"""Cut the power under a piece of work, many times, and have a judge look at what a real file system makes of the rest.

A *story* has `prepare(point)` (what is on the disk before), `tell(teller)` (does the work on a mounted file system, says
what was acknowledged when) and `judge(told, cut, point, scratch)` (looks at one rebuilt and mounted disk; raises
AssertionError for what is lost; gives words that are counted). Runs as a program in a mount namespace of its own: `python -m support.power_cut DIRECTORY SPECIFICATION`; first to record, then,
in several processes at a time, to cut.
"""

import collections
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import traceback
from typing import NamedTuple

from support import recorded_disk

KINDS = {
    "ext4": (64, "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
    "xfs": (320, "mkfs.xfs -q -f -K"),
    "btrfs": (160, "mkfs.btrfs -q -f -K"),
}
"""Size in MiB, how it is made."""


class Cut(NamedTuple):
    """One power cut: right behind record `at`; `kept` says what the drive kept of what was not flushed ("all", "none", or
    the share of it). `begun` and `ended` are the steps that had begun and ended, `tree` is what was told last of the
    worktree. `number` counts cuts."""

    number: int
    at: int
    kept: str
    begun: tuple[int, ...]
    ended: tuple[int, ...]
    tree: object


class Teller:
    """What a story does its work with: a mounted file system, and marks in the log of the disk."""

    def __init__(self, point, log):
        """`point` is where the file system is mounted."""
        self.point, self.log = point, log
        self.steps = []  # what the judge has to know of each, told after it was done
        self.trees = [None]

    def mark(self, **what):
        recorded_disk.append(self.log, recorded_disk.MARK, data=json.dumps(what).encode())

    def step(self, name, work, **facts):
        """Do the work between two marks. What `work` gives, and the step, whose facts may be added to. If one of them is the
        tree that the work leaves ("new", told later), the worktree is durably that from the end on."""
        step = {"name": name, **facts}
        self.steps.append(step)
        number = len(self.steps) - 1
        self.mark(begin=number)
        answer = work()
        self.mark(end=number, **({"tree": ["new", number]} if "new" in facts else {}))
        return answer, step

    def tree(self, what):
        """From here on the worktree is durably `what`; None: nobody knows, the user is at work."""
        self.trees.append(what)
        self.mark(tree=["told", len(self.trees) - 1])

    def sync(self):
        """Make everything on the file system durable: what the user does is not ours to make durable."""
        subprocess.run(["sync", "-f", self.point], check=True)


def record(place, kind, story):
    """Let a story happen on a new file system; leaves what is needed to cut it."""
    image, base, log, point = (f"{place}/{name}" for name in ("image", "base", "log", "m"))
    size, make = KINDS[kind]
    with open(image, "xb") as file:
        file.truncate(size << 20)
    subprocess.run([*make.split(), image], check=True, capture_output=True)
    for name in ("f", "m"):
        os.makedirs(f"{place}/{name}")
    with recorded_disk.mounted(image, kind, point):
        story.prepare(point)
    recorded_disk.copy(image, base)
    with recorded_disk.served(image, log, f"{place}/f") as disk, recorded_disk.mounted(disk, kind, point):
        book = os.open(log, os.O_WRONLY | os.O_APPEND)
        teller = Teller(point, book)
        story.tell(teller)
        os.close(book)
    os.unlink(image)
    records = recorded_disk.read(log)
    with open(f"{place}/told", "wb") as file:
        pickle.dump({"steps": teller.steps, "trees": teller.trees}, file)
    kinds = collections.Counter(item.kind.decode() for item in records)
    killed = sum(step.get("fired", 0) for step in teller.steps)
    return {"steps": len(teller.steps), "killed": killed, "writes": kinds["W"] + kinds["Z"], "flushes": kinds["F"]}


def plan(records, steps, count, seed):
    """[(place in the log, what is kept)] of `count` cuts, in rising order.

    Half of them at most right behind an acknowledgement, with nothing kept that was not flushed: the least that must be
    there then. The others in a step that is drawn first (long ones would take them all), most with some pieces kept.
    """
    rand = random.Random(seed)
    begins, ends = ({} for _ in range(2))
    for at, item in enumerate(records):
        mark = json.loads(item.data) if item.kind == recorded_disk.MARK else {}
        if "begin" in mark:
            begins[mark["begin"]] = at
        if "end" in mark:
            ends[mark["end"]] = at
    points = [(ends[step], "none") for step in rand.sample(range(steps), min(steps, (count + 1) // 2))]
    writes = [
        [at for at in range(begins[step], ends[step]) if records[at].kind in (recorded_disk.WRITE, recorded_disk.ZERO)]
        for step in range(steps)
    ]
    drawn = [step for step in range(steps) if writes[step]]
    while drawn and len(points) < count:
        at = rand.choice(writes[rand.choice(drawn)])
        points.append((at, rand.choice(("all", "0.5", "0.5", "0.1", "0.9"))))
    return sorted(points)


def cuts(place, kind, story, count, seed, part, parts):
    """Carry out a part of the planned cuts, each judged in a child process: a report."""
    records = recorded_disk.read(f"{place}/log")
    with open(f"{place}/told", "rb") as file:
        told = pickle.load(file)
    disk = recorded_disk.Disk(f"{place}/base", records, f"{place}/flushed-{part}")
    story.ready()
    report = {"cuts": 0, "problems": [], "seen": collections.Counter()}
    begun, ended, tree, looked = [], [], None, 0
    for number, (at, kept) in enumerate(plan(records, len(told["steps"]), count, seed)):
        for item in records[looked : at + 1]:
            mark = json.loads(item.data) if item.kind == recorded_disk.MARK else {}
            begun += [mark["begin"]] if "begin" in mark else []
            ended += [mark["end"]] if "end" in mark else []
            if "tree" in mark:
                sort, place_of = mark["tree"]
                tree = told["steps"][place_of]["new"] if sort == "new" else told["trees"][place_of]
        looked = at + 1
        if number % parts != part:
            continue
        cut = Cut(number, at, kept, tuple(begun), tuple(ended), tree)
        status, seen = _one(place, kind, story, told, disk, cut, seed)
        report["cuts"] += 1
        report["seen"].update(seen.pop("seen", []))
        if status or "raised" in seen:
            doing = told["steps"][begun[-1]]["name"] if begun else "nothing"
            where = "behind" if begun == ended else "in"
            report["problems"].append(f"cut {number} at {at}, kept {kept}, {where} {doing!r}: {seen.get('raised', status)}")
    return report


def _one(place, kind, story, told, disk, cut, seed):
    chance = random.Random(f"{seed} {cut.number}")
    share = {"all": 1.0, "none": 0.0}.get(cut.kept) if cut.kept in ("all", "none") else float(cut.kept)
    path = f"{place}/cut-{os.getpid()}-{cut.number}-{time.monotonic_ns()}"  # a name twice is a loop device's old content
    disk.cut(cut.at, lambda: chance.random() < share, path)
    try:
        with recorded_disk.mounted(path, kind, f"{place}/m"):
            return _forked(lambda: story.judge(told, cut, f"{place}/m", path + ".scratch"))
    except recorded_disk.Impossible as error:
        return 1, {"raised": str(error)}
    finally:
        os.unlink(path)
        shutil.rmtree(path + ".scratch", ignore_errors=True)


def _forked(work):
    """(wait status, {"seen": what `work` gave} or {"raised": text}) of a child process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            answer = {"seen": work()}
        except BaseException:
            answer = {"raised": traceback.format_exc()[-6000:]}
        with open(writer, "wb") as file:
            file.write(json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    return os.waitpid(pid, 0)[1], json.loads(data) if data else {}


def main(place, specification):
    from support import power_cut_edits
    from support.power_cut_kills import Killed
    from support.power_cut_purge import Purged
    from support.power_cut_stories import STORIES

    story = {**STORIES, **power_cut_edits.STORIES, "casrewind killed before": Killed(), "purge": Purged()}[specification.pop("story")]
    kind = specification.pop("kind")
    started = time.monotonic()
    try:
        report = cuts(place, kind, story, **specification) if specification else record(place, kind, story)
    except recorded_disk.Impossible as error:
        report = {"impossible": str(error)}
    report["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
