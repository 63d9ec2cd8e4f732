"""The power is cut after commands were killed: what a killed one had not synced yet is not what the next one may build on.

A command is killed right before one of its syncs (by strace), so that the page cache shows what the disk does not have;
the next command must not take it for durable. A kill alone cannot show that, nor can a power cut alone.
"""

import os
import signal

from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences
from support.power_cut_stories import Casrewind
from support.recorded_disk import Impossible
from support.trees import plant

FIRST, LATER = 7, 3
RESTORES = [*(("fsync", number) for number in range(1, 8)), ("syncfs", 1), ("syncfs", 2)]
"""How many syncs a first save and a save have, and which a restore has: all are killed at."""


class Killed(Casrewind):
    def prepare(self, point):
        for number in range(FIRST):
            os.mkdir(f"{point}/w{number}")
        os.mkdir(f"{point}/h")

    def tell(self, teller):
        self.teller, self.home, self.known = teller, f"{teller.point}/h", set()
        for number in range(FIRST):
            self._project(teller.point, number)
            self._plant({"file": b"the first of %d\n" % number, "shared": b"everywhere the same\n"})
            self._killed(f"first save, killed at sync {number + 1}", ("fsync", number + 1), "save")
            first = self._kept("first save after a killed one")
        for number in range(LATER):
            self._plant({"file": b"later %d\n" % number * 300, f"more/{number}": b"%d\n" % number * 200})
            self._killed(f"save, killed at sync {number + 1}", ("fsync", number + 1), "save")
            self._kept("save after a killed one")
        for number, at in enumerate(RESTORES):
            self._plant({"file": b"in the way %d\n" % number, f"other/{number}": b"x"})
            teller.sync()
            old = self._look()
            self._killed(f"restore, killed at {at}", at, "restore", first, "--yes", old=old)
            again = ("restore", "--continue") if self.command.json("status")["journal"] else ("restore", first, "--yes")
            _, step = teller.step("restore after a killed one", lambda a=again: self.command.json(*a), root=self.root, old=old, new=None)
            step["new"] = self._look()

    def _project(self, point, number):
        self.root = f"{point}/w{number}"
        self.command = Command(self.root, self.home)

    def _plant(self, tree):
        self.teller.tree(None)
        plant(self.root, tree)

    def _killed(self, name, at, *arguments, **facts):
        """The command killed right before a call: (its name, its number)."""
        call, number = at
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                  "-e", f"inject={call}:signal=KILL:when={number}"]  # fmt: skip
        done, step = self.teller.step(name, lambda: self.command(*arguments, prefix=strace), root=self.root, **facts)
        if done.code == 1 and "strace: " in done.err:
            raise Impossible(f"strace may not trace here: {done.err.strip()}")
        assert done.code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done
        step["fired"] = done.code != 0

    def _kept(self, name):
        saved, step = self.teller.step(name, lambda: self.command.json("save", "-m", "kept"), root=self.root)
        step["ids"] = {saved["checkpoint"]: self._captured()}
        return saved["checkpoint"]

    # -- the judge

    def judge(self, told, cut, point, scratch):
        self.home, seen = f"{point}/h", ["in a step" if cut.begun != cut.ended else "behind a step"]
        at = told["steps"][cut.begun[-1]]["root"] if cut.begun else ""
        for number in range(FIRST):
            self._project(point, number)
            if self.root == at or cut.number % 4 == 0:
                seen += self._project_is_whole(told["steps"], cut, scratch)
        return seen

    def _project_is_whole(self, steps, cut, scratch):
        if cut.number % 16:
            self.command = InProcess(self.root, self.home)
        begun = [steps[number] for number in cut.begun if steps[number]["root"] == self.root]
        ended = [steps[number] for number in cut.ended if steps[number]["root"] == self.root]
        holds = {identity: held for step in ended for identity, held in step.get("ids", {}).items()}
        got = self.command("list", "--all", "--json")
        seen = []
        if got.code == 10:
            assert not holds, "the store is gone"
        else:
            assert got.code == 0, got
            points = [entry["id"] for entry in got.json["checkpoints"]]
            assert holds.keys() <= set(points), f"lost: {holds.keys() - set(points)}"
            self._verify()
            for identity in [*holds][-2:]:
                self._reads_as(identity, holds[identity], f"{scratch}/{identity}")
            seen += self._tree(cut, steps, begun, ended)
        if begun:
            self._life_goes_on()
        return seen

    def _tree(self, cut, steps, begun, ended):
        """Between the sync before a restore and the next edit the worktree is old or new, or a restore leads to either."""
        last = begun[-1] if begun else {}
        is_open = self.command.json("status")["journal"] is not None
        if "old" not in last or (len(begun) == len(ended) and "new" in last and cut.tree != last["new"]):
            assert not is_open, "a restore is open, and none was under way"
            return []
        old, new = last["old"], next(step["new"] for step in steps if "new" in step)  # all restores have the same target
        if is_open:
            forward = cut.number % 2 == 0
            self.command.json("restore", "--continue" if forward else "--abort")
            wanted = [new if forward else old]
        else:
            wanted = [new] if "new" in last and len(begun) == len(ended) else [old, new]
        here = self._look()
        assert here in wanted, [differences(here, one) for one in wanted]
        return ["restore continued" if forward else "restore taken back"] if is_open else ["worktree known"]

