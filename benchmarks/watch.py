"""python -m benchmarks.watch: what a hook costs with the resident helper (casrewind watch), beside one that does its own work.

Whole processes in turn, on one generated project with two stores; the hooks are the end of a turn, after no edit and after
ten. Every hook has to make its checkpoint.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from casrewind import door

from . import trees

PAUSE = 0.1
"""Seconds between two hooks: a helper is done with the last one by then."""


def main(argv=None):
    """Measure, print a table; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watch", description="What a helper saves.", allow_abbrev=False)
    parser.add_argument("--files", metavar="N", type=int, default=7000, help="files of the generated tree (7000)")
    parser.add_argument("--rounds", metavar="N", type=int, default=15, help="rounds (15)")
    given = parser.parse_args(argv)
    scratch = os.path.realpath(tempfile.mkdtemp(prefix="casrewind-watch-"))
    try:
        _measure(os.path.join(scratch, "project"), scratch, given)
    finally:
        trees.remove(scratch)
    return 0


def _measure(root, scratch, given):
    trees.generate(root, given.files)
    files = [os.path.join(place, name) for place, _, names in os.walk(root) for name in names]
    usual = {"PATH": os.environ["PATH"], "HOME": scratch, "CLAUDE_PROJECT_DIR": root}
    environments = {name: {**usual, "CASREWIND_HOME": os.path.join(scratch, name)} for name in ("own work", "helper")}
    payload = json.dumps({"hook_event_name": "Stop", "session_id": "s", "cwd": root, "transcript_path": "", "prompt_id": "p"}).encode()
    chance = random.Random(1)

    def call(name, *words, **more):
        began = time.perf_counter()
        done = subprocess.run([*door.command(), *words], env=environments[name], cwd=root, capture_output=True, check=True, **more)
        return time.perf_counter() - began, done.stdout

    for name in environments:
        call(name, "save")
    helper = subprocess.Popen([*door.command(), "watch"], env=environments["helper"], cwd=root, stderr=subprocess.PIPE)
    try:
        print(helper.stderr.readline().decode().rstrip())
        taken = {(edits, name): [] for edits in (0, 10) for name in environments}
        for number in range(-3, given.rounds):  # the first are not measured
            for edits in (0, 10):
                for path in chance.sample(files, edits):
                    with open(path, "ab") as file:
                        file.write(b"edit\n")
                for name in sorted(environments, reverse=bool(number % 2)):
                    seconds, _ = call(name, "hook", "claude", input=payload)
                    time.sleep(PAUSE)
                    if number >= 0:
                        taken[edits, name].append(seconds)
    finally:
        helper.terminate()
        helper.wait()
        helper.stderr.close()
    made = {name: len(json.loads(call(name, "list", "--json")[1])["checkpoints"]) for name in environments}
    if set(made.values()) != {1 + 2 * (given.rounds + 3)}:
        sys.exit(f"watch: not every hook has made its checkpoint: {made}")
    for edits in (0, 10):
        own, helped = (statistics.median(taken[edits, name]) for name in environments)
        print(f"{given.files} files, {edits:>2} edits: own work {own * 1e3:.1f} ms, helper {helped * 1e3:.1f} ms, ratio {helped / own:.2f}")


if __name__ == "__main__":
    sys.exit(main())
