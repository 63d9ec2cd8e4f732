"""python -m benchmarks.turns: what hooks add to a turn of the real Claude Code, beside hooks of `true` and beside none.

One client for each kind of hooks, each with a home, a project and a scripted model of its own on this machine's loopback, all of
them open all the time; a turn of each after the other, so that what else the machine does meets all of them. A turn is timed as the
person feels it: from the prompt to the client's last word, behind the hooks of its end. Every turn has to have its checkpoints.
"""

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

from . import trees
from .checked_options import refuse_too_few
from .compare import contenders, measure
from .scratch import USAGE, in_scratch

KINDS = {
    "none": None,
    "true": (),
    "command": ("install", "claude"),
}
"""Kinds of hooks: no hook, hooks of `true`, and what this command writes."""
PATIENCE = 120


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description="What hooks add to a turn.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"turns: {message}\n")
    parser.add_argument("--files", metavar="N", type=int, default=7000, help="files of the generated tree (7000)")
    parser.add_argument("--rounds", metavar="N", type=int, default=15, help="turns of each kind (15)")
    parser.add_argument("--tools", metavar="N", type=int, default=1, help="batches of tools in a turn (1)")
    parser.add_argument("--tier", choices=("minimal", "balanced", "aggressive"), default="balanced", help="which events have a hook (balanced)")
    parser.add_argument("--json", metavar="FILE", help="write every sample")
    given = parser.parse_args(argv)
    refuse_too_few(parser, given, files=1, rounds=1, tools=0)
    return given


class Open:
    """A client that is open, in stream mode."""

    def __init__(self, kind, directory, given):
        import pytest
        from support.claude_model import call
        from support.claude_client import MODE, ClaudeClient

        os.makedirs(directory)
        try:
            self.kind, self.client = kind, ClaudeClient(directory)
        except pytest.skip.Exception as why:
            raise measure.Failed(str(why)) from None
        trees.generate(str(self.client.project), given.files)
        self.turns, self._rest = 0, b""
        self._tools = [[call("Write", file_path=str(self.client.project / f"tool{n}.txt"), content="{turn}\n")] for n in range(given.tools)]
        self._hook(KINDS[kind], given.tier)
        words = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", *MODE)
        self._running = subprocess.Popen(
            [*self.client.command, *words], cwd=self.client.project, env=self.client.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def _hook(self, words, tier):
        if words:
            self.client.casrewind("save", code=0)
            self.client.casrewind(*words, "--tier", tier, code=0)
        elif words is not None:
            from casrewind import agents
            from casrewind.agents import settings_edit

            found = settings_edit.make_hook_entries(agents.load_client("claude"), tier)
            for group in found.values():
                group["hooks"][0]["command"] = "true"
            place = Path(self.client.config, "settings.json")
            place.write_text(json.dumps({"hooks": {event: [group] for event, group in found.items()}}))

    def turn(self):
        """One turn; its seconds."""
        self.turns += 1
        answers = [[{**call, "input": {**call["input"], "content": f"{self.turns}\n"}} for call in batch] for batch in self._tools]
        self.client.model.script[f"turn {self.turns} "] = [*answers, ["Done."]]
        message = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": f"do turn {self.turns} of many"}]}}
        said = json.dumps(message).encode() + b"\n"
        began = time.perf_counter()
        self._running.stdin.write(said)
        self._running.stdin.flush()
        while self._line().get("type") != "result":
            pass
        return time.perf_counter() - began

    def _line(self):
        end = time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            if not select.select([self._running.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                raise measure.Failed(f"{self.kind}: the client says nothing any more")
            part = os.read(self._running.stdout.fileno(), 1 << 16)
            if not part:
                raise measure.Failed(f"{self.kind}: the client has ended")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def made(self):
        """(checkpoints of prompts, of ends of turns)."""
        triggers = [point["trigger"] for point in self.client.points()]
        return triggers.count("prompt"), triggers.count("turn_end")

    def end(self):
        self._running.stdin.close()
        try:
            self._running.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._running.stdout.close()
        self.client.stop()


def _measure(given, scratch):
    opened = []
    try:
        for kind in KINDS:
            opened.append(Open(kind, os.path.join(scratch, str(len(opened))), given))
        taken = {kind: [] for kind in KINDS}
        for number in range(-3, given.rounds):  # the first are not measured
            for one in opened if number % 2 else opened[::-1]:
                seconds = one.turn()
                time.sleep(0.15)  # what the last hook left in the background is done by then
                if number >= 0:
                    taken[one.kind].append(seconds)
        lacking = {one.kind: one.made() for one in opened if KINDS[one.kind]}
    finally:
        for one in opened:
            one.end()
    for kind, made in lacking.items():
        if made != (given.rounds + 3, 0 if given.tier == "minimal" else given.rounds + 3):
            raise measure.Failed(f"{kind}: not every turn has its checkpoints: {made}")
    _report(given, taken)
    if given.json is not None:
        with open(given.json, "w") as file:
            json.dump({"files": given.files, "tools": given.tools, "tier": given.tier, "seconds": taken}, file, indent=1)
    return 0


def _report(given, taken):
    print(f"{given.rounds} turns of each kind in turn, {given.files} files, {given.tools} batches of tools, {given.tier}")
    print(f"  {'hooks':<8} {'a turn':>10} {'beside none':>12} {'beside true':>12} {'of command':>11} {'fastest':>10}")
    found = {kind: statistics.median(seconds) * 1e3 for kind, seconds in taken.items()}
    # what else the machine does meets turns of one round alike: the median of what each adds to its own round says more
    beside = {
        other: {kind: statistics.median(one - two for one, two in zip(taken[kind], taken[other], strict=True)) * 1e3 for kind in taken}
        for other in ("none", "true")
    }  # fmt: skip
    whole = beside["none"]["command"]
    for kind, middle in found.items():
        ratio = f"{beside['none'][kind] / whole:.2f}" if kind != "none" and whole > 0 else ""
        none, true = (f"{beside[other][kind]:+.1f} ms" if kind != other else "" for other in ("none", "true"))
        print(f"  {kind:<8} {middle:>7.1f} ms {none:>12} {true:>12} {ratio:>11} {min(taken[kind]) * 1e3:>7.1f} ms")


def main(argv=None):
    """Measure, print; the exit code."""
    given = options(argv)
    os.environ["PYTHONPATH"] = contenders.TOP
    sys.path.append(os.path.join(contenders.TOP, "tests"))
    return in_scratch("turns", _measure, given)


if __name__ == "__main__":
    sys.exit(main())
