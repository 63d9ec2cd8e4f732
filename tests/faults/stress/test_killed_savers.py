"""Many agents at once, and somebody who kills: nothing that was acknowledged is lost, and nobody waits for the dead.

Eight savers (`casrewind save`, and hooks), two who restore, and gc in a loop share a store; twenty times a second one of
their processes is killed. What a saver was told is there is compared in the end with what stood there when it asked.
"""

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from casrewind.workspace import Settings
from casrewind.workspace import open as opened
from support import race_gc
from support.trees import plant

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEPT = 3
KILLS_A_SECOND = 20
STUCK = 60.0
NAMES = [f"{directory}{name}" for directory in ("", "d/", "d/e/") for name in "abc"]

def contents(root):
    """{path: sha256} of every file below a worktree."""
    return {path: digest for path, digest in race_gc.contents(root).items() if not path.startswith(".git")}


def link(root, places):
    """Make `root` a repository and the places linked worktrees of it: all of them share its store."""
    for number, place in enumerate(places):
        plant(root, {f".git/worktrees/w{number}/commondir": b"../..\n", f".git/worktrees/w{number}/gitdir": os.fsencode(f"{place}/.git\n")})
        plant(place, {".git": os.fsencode(f"gitdir: {root}/.git/worktrees/w{number}\n")})


COLLECT = """
import sys, time
from casrewind import errors
from casrewind.model.retention import Limits
from casrewind.workspace import Settings, open as opened
root, home = sys.argv[1:]
while True:
    with opened(root, Settings(home=home, data=home + "/data", environ={"HOME": home})) as workspace:
        try:
            found = workspace.gc(Limits(None, 3, 3))
            print("damaged" if found.damaged else "dropped" if found.dropped else "done", flush=True)
        except errors.StoreBusy:
            print("busy", flush=True)
    time.sleep(0.02)
"""


class Range:
    """Everybody's processes, and who kills them."""

    def __init__(self, place, seconds):
        self.place, self.home = place, str(place / "home")
        os.mkdir(self.home)
        self.until = time.monotonic() + seconds
        self.counts, self.wrong, self.acknowledged = collections.Counter(), [], []
        self.running, self.lock = [], threading.Lock()
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "CASREWIND_HOME": f"{self.home}/data",
            "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]),
        }  # fmt: skip

    def settings(self):
        return Settings(home=self.home, data=f"{self.home}/data", environ={"HOME": self.home}, deadline=30.0)

    def goes_on(self):
        return time.monotonic() < self.until and not self.wrong

    def start(self, command, **more):
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", **more)
        with self.lock:
            self.running.append(process)
            self.counts["started"] += 1
        return process

    def end(self, process, data=None):
        try:
            return process.communicate(data, timeout=STUCK)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"stuck: {process.args}")
            process.kill()
            return process.communicate()
        finally:
            with self.lock:
                self.running.remove(process)

    def run(self, *words, data=None):
        process = self.start([sys.executable, "-m", "casrewind", *words], stdin=subprocess.PIPE)
        out, err = self.end(process, data or b"")
        if process.returncode == -signal.SIGKILL:
            self.counts["killed " + ("hooks" if words[0] == "hook" else f"{words[2]}s")] += 1
        elif b"Traceback" in err or process.returncode in (20, 70) or process.returncode < 0:
            self.wrong.append(f"{words}: {process.returncode} {err.decode()[-500:]}")
        return process.returncode, out, err

    def kill(self):
        chance = random.Random(1)
        while self.goes_on():
            time.sleep(1 / KILLS_A_SECOND)
            with self.lock:
                alive = [process for process in self.running if process.poll() is None]
                if chance.random() > 0.05:  # a collector is one process for many gcs
                    alive = [process for process in alive if COLLECT not in process.args]
                # where the machine is so slow that nobody came to an end any more, nothing would be tested
                if alive and self.counts["kills"] < 0.6 * self.counts["started"]:
                    chance.choice(alive).kill()
                    self.counts["kills"] += 1

    def collect(self, root):
        while self.goes_on():
            process = self.start([sys.executable, "-c", COLLECT, root, self.home], stdin=subprocess.DEVNULL)
            stop = threading.Timer(max(self.until - time.monotonic(), 0.1), process.kill)
            stop.start()
            out, err = self.end(process) if self.until - time.monotonic() < STUCK else self._read(process)
            stop.cancel()
            found = collections.Counter(out.decode().split())
            self.counts["gcs"] += found["done"] + found["dropped"]
            self.counts["gcs that dropped"] += found["dropped"]
            self.counts["busy gcs"] += found["busy"]
            self.counts["killed collectors"] += 1
            if found["damaged"] or process.returncode != -signal.SIGKILL:
                self.wrong.append(f"gc: {process.returncode} {err.decode()[-800:]}")

    def _read(self, process):
        out, err = process.communicate()
        with self.lock:
            self.running.remove(process)
        return out, err

    def change(self, root, chance):
        for name in chance.sample(NAMES, 3):
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if chance.random() < 0.2 and os.path.exists(path):
                os.unlink(path)
                continue
            with open(path, "wb") as file:
                file.write(chance.randbytes(chance.choice((100, 3000, 40_000))))

    def newest(self, root):
        with opened(root, self.settings()) as workspace:
            points = workspace.checkpoints()
            return points[0][0] if points else None

    def save(self, root, seed):
        """With the command; now and then pinned."""
        chance = random.Random(seed)
        while self.goes_on():
            self.change(root, chance)
            held, pinned = contents(root), chance.random() < 0.05
            code, out, err = self.run("-C", root, "save", "--json", *(["--pin"] if pinned else []))
            if code == 0:
                self.acknowledge(root, json.loads(out)["checkpoint"], held, pinned)
                self.counts["saves"] += 1
            elif code == 11:
                self.counts["busy saves"] += 1
            elif code != -signal.SIGKILL:
                self.wrong.append(f"save: {code} {err.decode()[-300:]}")

    def acknowledge(self, root, identity, held, pinned):
        self.acknowledged.append((root, identity, self.newest(root).seq, held, pinned))  # nobody else saves there

    def hook(self, root, seed):
        """As a client does: its hook answers nothing, so what it made is looked up."""
        chance, seen = random.Random(seed), ""
        event = {"hook_event_name": "Stop", "session_id": f"session-{seed}", "cwd": root, "transcript_path": f"{root}.jsonl"}
        while self.goes_on():
            self.change(root, chance)
            held = contents(root)
            code, out, err = self.run("hook", "claude", data=json.dumps(event).encode())
            if code == -signal.SIGKILL:
                continue
            if (code, out, err) != (0, b"", b""):
                self.wrong.append(f"hook: {code} {out} {err.decode()[-300:]}")
            point = self.newest(root)
            if point is not None and point.id != seen:
                seen = point.id
                self.acknowledged.append((root, point.id, point.seq, held, False))
                self.counts["hooks"] += 1
            else:
                self.counts["hooks that were busy"] += 1  # its log says so: looked at in the end

    def restore(self, root, seed):
        """Restores of what was saved, killed and taken up again or taken back, and undone."""
        chance = random.Random(seed)
        while self.goes_on():
            self.change(root, chance)
            held = contents(root)
            code, out, _ = self.run("-C", root, "save", "--json")
            if code != 0:
                continue
            identity = json.loads(out)["checkpoint"]
            self.change(root, chance)
            code, _, err = self.run("-C", root, "restore", identity, "-y")
            while code in (-signal.SIGKILL, 11) and self.goes_on():
                before = code
                code, _, err = self.run("-C", root, "restore", "--continue", "-y")
                if code not in (0, -signal.SIGKILL, 11):  # killed before anything was changed, or behind the end
                    code, _, err = self.run("-C", root, "restore", identity, "-y")
                self.counts["restores taken up again"] += before == -signal.SIGKILL and code == 0
            if code == 0:
                self.counts["restores"] += 1
                if contents(root) != held:
                    self.wrong.append(f"a restore of {identity} made something else")
            elif code not in (-signal.SIGKILL, 11):
                self.wrong.append(f"restore: {code} {err.decode()[-300:]}")


def judge(field):
    """What was acknowledged and must be there is there, as it was; the store is sound."""
    compared = 0
    root = field.acknowledged[0][0]
    with opened(root, field.settings()) as workspace:
        found = [point for point, _ in workspace.checkpoints(every_worktree=True)]
        listed = {point.id: point for point in found}
        verified = workspace.verify()
        assert not verified.problems, verified.problems[:3]
        lost = []
        for root, identity, seq, held, pinned in field.acknowledged:
            if identity not in listed:
                newer = [point for point in found if point.root == os.fsencode(root) and point.seq > seq]
                if pinned or len(newer) < KEPT:
                    lost.append((root, identity, seq, pinned, len(newer)))
                continue
            target = str(field.place / "out" / identity)
            assert not workspace.materialise(listed[identity], target).kept
            assert contents(target) == held, identity
            compared += 1
    assert not lost, lost
    return compared, verified


@pytest.mark.parametrize("seconds", [8, pytest.param(600, marks=[pytest.mark.long, pytest.mark.timeout(1500)])])
def test_eight_savers_two_restorers_and_gc_under_random_kills(scratch, seconds):
    roots = [str(scratch / f"project{number}") for number in range(10)]
    field = Range(scratch, 3600)
    for root in roots:
        os.mkdir(root)
    link(roots[0], roots[1:])
    for root in roots:
        field.change(root, random.Random(root))
        with opened(root, field.settings()) as workspace:
            workspace.save()
    assert len(os.listdir(f"{field.home}/data/stores")) == 1
    field.until = time.monotonic() + seconds
    jobs = [(field.save, root, seed) for seed, root in enumerate(roots[:5])]
    jobs += [(field.hook, root, seed) for seed, root in enumerate(roots[5:8])]
    jobs += [(field.restore, root, seed) for seed, root in enumerate(roots[8:])]

    def guarded(work, *arguments):
        try:
            work(*arguments)
        except BaseException as error:
            field.wrong.append(f"{work.__name__}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=guarded, args=job) for job in [*jobs, (field.collect, roots[0]), (field.kill,)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not field.wrong, field.wrong[:3]
    for root in roots[8:]:
        code, _, err = field.run("-C", root, "restore", "--continue", "-y")
        assert code in (0, 1, 15, 64), (code, err)
    compared, verified = judge(field)
    counts = field.counts
    print(
        f"{seconds} s: {counts['kills']} kills; {len(field.acknowledged)} checkpoints acknowledged ({counts['saves']} by save, {counts['hooks']} by "
        f"hooks), 0 lost, {compared} compared; {counts['restores']} restores, {counts['restores taken up again']} taken up again; "
        f"{counts['gcs']} gcs ({counts['gcs'] / seconds:.1f} a second), {counts['gcs that dropped']} that dropped; "
        f"verify clean: {verified.checkpoints} checkpoints, {verified.blobs} blobs; "
        + ", ".join(f"{what} {number}" for what, number in sorted(counts.items()) if what.startswith(("killed", "busy", "hooks that")))
    )
    assert counts["kills"] > 2 * seconds
    assert counts["saves"] and counts["hooks"] and counts["restores"] and counts["gcs that dropped"]
    assert compared >= 8
    for root in roots:  # nobody has to clean up: the next command of everybody works
        code, _, err = field.run("-C", root, "save")
        assert code == 0, err
