"""python -m benchmarks.watch: what a hook costs with the resident helper (casrewind watch), beside one that does its own work, one
that is `true`, and a Python that does nothing.

Whole processes in turn, on one generated project with two stores; a turn is the hook of a prompt, where nothing has changed,
and that of its end, after ten edits. Every hook has to make its checkpoint.
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

from casrewind import launch

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
    told = {"session_id": "s", "cwd": root, "transcript_path": ""}
    events = {0: {"hook_event_name": "UserPromptSubmit", "prompt": "next"}, 10: {"hook_event_name": "Stop"}}
    chance = random.Random(1)

    def call(name, *words, **more):
        began = time.perf_counter()
        done = subprocess.run([*launch.own_command(), *words], env=environments[name], cwd=root, capture_output=True, check=True, **more)
        return time.perf_counter() - began, done.stdout

    def idle(*words):
        began = time.perf_counter()
        subprocess.run(words, env=usual, cwd=root, input=b"{}", capture_output=True, check=True)
        return time.perf_counter() - began

    for name in environments:
        call(name, "save")
    helper = subprocess.Popen([*launch.own_command(), "watch"], env=environments["helper"], cwd=root, stderr=subprocess.PIPE)
    try:
        print(helper.stderr.readline().decode().rstrip())
        taken = {(edits, name): [] for edits in (0, 10) for name in environments}
        nothing = {"true": [], "Python": []}
        for number in range(-3, given.rounds):  # the first are not measured
            for edits in (0, 10):
                for path in chance.sample(files, edits):
                    with open(path, "ab") as file:
                        file.write(b"edit\n")
                payload = json.dumps({**told, **events[edits], "prompt_id": f"p{number}"}).encode()
                for name in sorted(environments, reverse=bool(number % 2)):
                    seconds, _ = call(name, "hook", "claude", input=payload)
                    time.sleep(PAUSE)
                    if number >= 0:
                        taken[edits, name].append(seconds)
            nothing["true"].append(idle("/bin/sh", "-c", "true"))
            nothing["Python"].append(idle(sys.executable, "-I", "-S", "-c", "pass"))
    finally:
        helper.terminate()
        helper.wait()
        helper.stderr.close()
    made = {name: len(json.loads(call(name, "list", "--json")[1])["checkpoints"]) for name in environments}
    if set(made.values()) != {1 + 2 * (given.rounds + 3)}:
        sys.exit(f"watch: not every hook has made its checkpoint: {made}")
    for kind, of in (("medians", statistics.median), ("fastest", min)):
        true, bare = (of(nothing[name]) * 1e3 for name in ("true", "Python"))
        found = {key: of(seconds) * 1e3 for key, seconds in taken.items()}
        print(f"{kind}, {given.files} files: a hook of true {true:.1f} ms, python -I -S -c pass {bare:.1f} ms")
        for edits in (0, 10):
            own, helped = (found[edits, name] for name in environments)
            print(f"  {edits:>2} edits: own work {own:.1f} ms, helper {helped:.1f} ms, ratio {helped / own:.2f}")
        own, helped = (sum(found[edits, name] - true for edits in (0, 10)) for name in environments)
        print(f"  added to a turn, beside hooks of true: own work {own:.1f} ms, helper {helped:.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
