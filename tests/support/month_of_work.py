"""A month of work in one process: `python -m support.month_of_work ROOT DATA '{"days": 30, ...}'`. Prints one JSON object.

Sessions follow each other, each turn is a prompt and its end, edits a few sources and rewrites a build artefact; the clock
is this program's, so that a month needs no month. gc runs when the product says that it is time, as its background process
does. What the store takes on disk is measured all the while by another process, from outside.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import casrewind
from casrewind import Limits
from casrewind.upkeep import gc
from casrewind.upkeep import save as saves
from casrewind.store.budget import gc_threshold, gc_target

SAMPLER = """
import os, sys
place, peak, previous = sys.argv[1], 0, -1
def size():
    total = 0
    for where, _, names in os.walk(place):
        for name in names:
            try: total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError: pass
    return total
import select
marks = []
while True:
    now = size()
    peak = max(peak, now)
    marks = marks + [now] if marks else marks
    if not select.select([0], [], [], 0.005)[0]: continue
    for word in os.read(0, 100).split():  # of two words at once none may wait in a buffer
        if word == b"begin": marks = [size()]
        elif word == b"end":
            print(max(marks + [size()]) - marks[0], flush=True); marks = []
        else:
            print(peak, flush=True); sys.exit()
"""


class Sampler:
    """Another process that looks at what the store takes."""

    def __init__(self, place):
        self.process = subprocess.Popen([sys.executable, "-c", SAMPLER, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answer(self):
        return int(self.process.stdout.readline())


def plant_project(root, files, noise):
    for n in range(files):
        place = Path(root, f"src/{n % 97:02d}")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"module_{n}.py").write_text(source(noise, n, 0))


def source(noise, n, version):
    """A source of some kilobytes that compresses as sources do."""
    words = ["value", "result", "index", "name", "path", "entry", "return", "for", "in", "if", "not", "self", "None"]
    lines = [" ".join(noise.choice(words) for _ in range(8)) for _ in range(40)]
    return f"# module {n}, version {version}\n" + "\n".join(lines) + "\n"


def main(root, data, sizes):
    noise = random.Random(1)
    plant_project(root, sizes["files"], noise)
    budget = sizes["budget"]
    settings = casrewind.default_settings()._replace(data=data, limits=Limits(30 * 86400.0, 2000, 10, budget, thin=True))
    clock = [time.time_ns() - sizes["days"] * 86400 * 10**9]
    time.time_ns = lambda: clock[0]
    turns = saves_made = 0
    gcs, extra, dropped, slowest = [], 0, 0, 0.0
    budgets_broken = 0
    with casrewind.open(root, settings) as workspace:
        os.utime(os.path.join(workspace.store_path, "FORMAT"), ns=(clock[0], clock[0]))
        context = workspace._context
        sampler = Sampler(workspace.store_path)
        for day in range(sizes["days"]):
            for session in range(sizes["sessions"]):
                for turn in range(sizes["turns"]):
                    step = 86400 * 10**9 // (sizes["sessions"] * sizes["turns"])
                    clock[0] += step // 2
                    words = {"agent": "claude", "session": f"{day}-{session}", "prompt": f"turn {turn}"}
                    saves.save(context, saves.Moment(trigger="prompt", **words))
                    for _ in range(3):
                        n = noise.randrange(sizes["files"])
                        Path(root, f"src/{n % 97:02d}/module_{n}.py").write_text(source(noise, n, turns))
                    Path(root, "build.bin").write_bytes(noise.randbytes(sizes["artefact"]))
                    clock[0] += step - step // 2
                    began = time.monotonic()
                    saves.save(context, saves.Moment(trigger="turn_end", **words))
                    slowest = max(slowest, time.monotonic() - began)
                    turns, saves_made = turns + 1, saves_made + 2
                    if context.store.why_gc(context.limits.max_size):
                        target = gc_target(budget) if workspace._context.store.size() > gc_threshold(budget) else None
                        sampler.say("begin")
                        began = time.monotonic()
                        found = gc.collect(context, settings.limits, target=target)
                        gcs.append(time.monotonic() - began)
                        sampler.say("end")
                        extra = max(extra, sampler.answer())
                        dropped += len(found.dropped)
                        budgets_broken += bool(found.floor)
        sampler.say("stop")
        peak = sampler.answer()
        points = [point for point, _ in workspace.checkpoints()]
        ages = [(clock[0] - point.created_ns) / 86400e9 for point in points]
        problems = workspace.verify().problems
        end = workspace._context.store.size()
    print(json.dumps({
        "turns": turns, "checkpoints made": saves_made, "kept": len(points), "of the last day": sum(age <= 1 for age in ages),
        "of the week before": sum(1 < age <= 7 for age in ages), "older": sum(age > 7 for age in ages),
        "oldest, days": round(max(ages), 1), "budget": budget, "peak": peak, "at the end": end, "gcs": len(gcs),
        "gc, median s": round(sorted(gcs)[len(gcs) // 2], 3) if gcs else 0, "gc, longest s": round(max(gcs, default=0), 3),
        "extra space of a gc, most": extra, "longest save s": round(slowest, 2), "forgotten": dropped,
        "budget not kept": budgets_broken, "problems": len(problems),
    }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
