"""python -m benchmarks.remote: what push, pull and clone ask of a server, beside restic and beside rclone of the store's directory.

One S3 server on this machine's loopback (moto), a bucket for each tool, equal trees with equal edits. Requests and bytes are
what the server counts. Saves are not timed: restic's backup, which is a save and a push at once, is.
"""

import argparse
import json
import os
import secrets
import shutil
import statistics
import sys
from typing import NamedTuple

from . import trees
from .checked_options import refuse_missing_tree, refuse_too_few
from .compare import contenders, measure
from .scratch import USAGE, in_scratch

STEPS = {
    "first": "first push",
    "edit": "push after one edit",
    "nothing": "push, nothing new",
    "pull": "pull of one new checkpoint",
    "each": "{turns} turns, each pushed",
    "once": "{turns} turns, pushed at once",
    "clone": "clone of one",
    "clone-all": "clone of all",
}
BOUNDS = {
    "first": ("3 PUT", 10.5e6), "edit": ("1 PUT", 30e3), "nothing": ("none", 0), "pull": ("1 LIST, 1 GET", 1600),
    "each": ("{turns} PUT", None), "once": ("1 PUT", 557e3), "clone": ("1 LIST, 115 GET", 12.8e6), "clone-all": ("1 LIST, 116 GET", 12.9e6),
}  # fmt: skip
"""What the design allows on Django 5.2 and 100 turns."""
EDITED = 100_000
"""Bytes of the file that is edited, about: the one that is nearest."""
WORKED = 40


class Cost(NamedTuple):
    """What a step cost. `requests` by method, `up` and `down` in bytes, by the server; `each`: bytes of the median turn."""

    tool: str
    step: str
    requests: dict
    up: int
    down: int
    seconds: float
    processor: float
    memory: int
    each: float | None = None


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote", description="What a remote is asked.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"remote: {message}\n")
    parser.add_argument("tree", metavar="PATH", nargs="?", help="a real tree to copy; else one is generated")
    parser.add_argument("--files", metavar="N", type=int, default=7000, help="files of the generated tree (7000)")
    parser.add_argument("--turns", metavar="N", type=int, default=100, help="turns (100)")
    parser.add_argument("--tools", metavar="A,...", default="casrewind,restic,rclone", help=f"of {', '.join(TOOLS)}")
    parser.add_argument("--json", metavar="FILE", help="write every figure")
    given = parser.parse_args(argv)
    refuse_too_few(parser, given, files=WORKED, turns=1)
    refuse_missing_tree(parser, given)
    wrong = [name for name in given.tools.split(",") if name not in TOOLS]
    if wrong:
        parser.error(f"--tools: {wrong[0]!r} is none of {', '.join(TOOLS)}")
    return given


class Tool:
    """A tool with a tree of its own. What it cannot do is None."""

    name = ""

    def __init__(self, place, tree, server):
        self.place, self.root, self.server = place, os.path.join(place, "project"), server
        trees.copy(tree, self.root)
        self.url = server.bucket("shop")
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": os.path.join(place, "home"), "TMPDIR": place, "LANG": "C.UTF-8",
            "NO_COLOR": "1", **server.variables, **self.variables(),
        }  # fmt: skip
        os.makedirs(self.environ["HOME"])

    def variables(self):
        return {}

    def run(self, *command, cwd=None, **variables):
        return measure.run([str(word) for word in command], cwd or self.root, {**self.environ, **variables})

    def begin(self):
        """Make the remote; not measured."""

    def save(self):
        """Not measured."""

    push = pull = clone = clone_all = None

    def begin_reader(self, target):
        """Make the place that pulls; not measured."""
        (self.clone_all or self.clone)(target)


class Casrewind(Tool):
    name = "casrewind"

    def variables(self):
        return {"CASREWIND_HOME": os.path.join(self.place, "data"), "CASREWIND_REMOTE_KEY": f"crk1-{secrets.token_hex(32)}", "PYTHONPATH": contenders.TOP}

    program = ("-m", "casrewind")

    def command(self, *words, **more):
        return self.run(sys.executable, *self.program, *words, **more)

    def begin(self):
        self.command("save")
        self.command("remote", "add", self.url)

    def save(self):
        self.command("save")

    def push(self):
        return self.command("push")

    def clone(self, target, *words):
        return self.command("clone", *words, self.url, target, cwd=self.place, CASREWIND_HOME=f"{target}-data")

    def clone_all(self, target):
        return self.clone(target, "--all")

    def pull(self, target):
        return self.command("pull", cwd=target, CASREWIND_HOME=f"{target}-data")


class WithoutRollUps(Casrewind):
    """Its pushes never put the pieces of the chain together."""

    name = "no-roll-ups"
    program = ("-c", "import sys; from casrewind.remote import collect; collect.EVERY = 10**9; from casrewind.cli.main import main; sys.exit(main(sys.argv[1:]))")


class Restic(Tool):
    name = "restic"

    def variables(self):
        bucket = self.url.removeprefix("s3://")
        return {
            "RESTIC_REPOSITORY": f"s3:{self.server.endpoint}/{bucket}", "RESTIC_PASSWORD": "benchmark", "AWS_DEFAULT_REGION": "us-east-1",
            "RESTIC_CACHE_DIR": os.path.join(self.place, "cache"),
        }  # fmt: skip

    def begin(self):
        self.run("restic", "init")

    def push(self):
        return self.run("restic", "backup", "--quiet", ".")

    def clone(self, target):
        os.makedirs(target)
        return self.run("restic", "restore", "latest", "--target", target, RESTIC_CACHE_DIR=f"{target}-cache")

    begin_reader = clone

    def clone_all(self, target):
        """Every snapshot, in a repository on this machine."""
        self.run("restic", "init", RESTIC_REPOSITORY=target)
        return self.run(
            "restic", "copy", "--quiet", RESTIC_REPOSITORY=target, RESTIC_FROM_REPOSITORY=self.environ["RESTIC_REPOSITORY"],
            RESTIC_FROM_PASSWORD=self.environ["RESTIC_PASSWORD"], RESTIC_CACHE_DIR=f"{target}-cache",
        )  # fmt: skip

    def pull(self, target):
        return self.run("restic", "restore", "latest", "--target", target, RESTIC_CACHE_DIR=f"{target}-cache")


class Rclone(Tool):
    """`rclone sync` of casrewind's store: bytes of a store on another machine, without files of the project."""

    name = "rclone"

    def variables(self):
        return {
            "CASREWIND_HOME": os.path.join(self.place, "data"), "PYTHONPATH": contenders.TOP, "RCLONE_CONFIG": os.path.join(self.place, "rclone.conf"),
            "RCLONE_CONFIG_R_TYPE": "s3", "RCLONE_CONFIG_R_PROVIDER": "Other", "RCLONE_CONFIG_R_ENV_AUTH": "true",
            "RCLONE_CONFIG_R_ENDPOINT": self.server.endpoint, "RCLONE_S3_NO_CHECK_BUCKET": "true",
        }  # fmt: skip

    def begin(self):
        self.save()
        self.remote = f"r:{self.url.removeprefix('s3://')}"
        told = json.loads(self.run(sys.executable, "-m", "casrewind", "status", "--json").out)
        self.store = told["store"]

    def save(self):
        self.run(sys.executable, "-m", "casrewind", "save")

    def push(self):
        return self.run("rclone", "sync", self.store, self.remote)

    def clone_all(self, target):
        return self.run("rclone", "sync", self.remote, target)

    pull = clone_all


TOOLS = {kind.name: kind for kind in (Casrewind, WithoutRollUps, Restic, Rclone)}


class Bench:
    """The steps of one tool, in their order."""

    def __init__(self, kind, place, tree, server, turns):
        self.kind, self.place, self.tree, self.server, self.turns, self.costs = kind, place, tree, server, turns, []

    def measured(self, step, *calls):
        """Run calls that return what a process took; what they cost together."""
        taken, moved = [], []
        self.server.reset()
        before = 0
        for call in calls:
            taken.append(call())
            counts = self.server.counts()
            moved.append(counts.received + counts.sent - before)
            before = counts.received + counts.sent
        counts = self.server.counts()
        each = statistics.median(moved) if len(moved) > 1 else None
        self.costs.append(Cost(
            self.kind.name, step, counts.requests, counts.received, counts.sent, sum(one.seconds for one in taken),
            sum(one.processor for one in taken), max(one.largest for one in taken), each,
        ))  # fmt: skip

    def run(self):
        tool = self.kind(os.path.join(self.place, "each"), self.tree, self.server)
        paths = [os.path.relpath(os.path.join(at, name), tool.root) for at, _, names in os.walk(tool.root) for name in names]
        paths = sorted(path for path in paths if not os.path.islink(os.path.join(tool.root, path)))
        edited = min(paths, key=lambda path: (abs(os.path.getsize(os.path.join(tool.root, path)) - EDITED), path))
        worked = trees.pick(paths, WORKED)
        tool.begin()
        self.measured("first", tool.push)
        trees.edit(tool.root, [edited], 1)
        tool.save()
        self.measured("edit", tool.push)
        self.measured("nothing", tool.push)
        second = os.path.join(tool.place, "second")
        tool.begin_reader(second)
        trees.edit(tool.root, worked[:1], 2)
        tool.save()
        tool.push()
        self.measured("pull", lambda: tool.pull(second))
        self.measured("each", *(lambda step=step: self.turn(tool, worked, step) for step in range(self.turns)))
        for step, clone in (("clone", tool.clone), ("clone-all", tool.clone_all)):
            if clone is not None:
                self.measured(step, lambda: clone(os.path.join(tool.place, step)))
        trees.remove(tool.place)
        if self.kind not in (Restic, WithoutRollUps):  # restic has no saves that are not pushed; one push makes no roll-up
            self.at_once(worked)
        return self.costs

    def turn(self, tool, worked, step):
        trees.work(tool.root, worked, step)
        tool.save()
        return tool.push()

    def at_once(self, worked):
        tool = self.kind(os.path.join(self.place, "once"), self.tree, self.server)
        tool.begin()
        tool.push()
        for step in range(self.turns):
            trees.work(tool.root, worked, step)
            tool.save()
        self.measured("once", tool.push)
        trees.remove(tool.place)


def table(costs, turns):
    """The lines of the table: a step in each, tools beside each other."""
    lines = []
    for step, words in STEPS.items():
        rows = [cost for cost in costs if cost.step == step]
        if rows:
            requests, size = BOUNDS[step]
            bound = f"{requests.format(turns=turns)}{f', {_bytes(size)}' if size is not None else ''}"
            lines.append(f"{words.format(turns=turns)} (bound on Django 5.2, 100 turns: {bound})")
        for cost in rows:
            asked = ", ".join(f"{number} {method}" for method, number in sorted(cost.requests.items())) or "none"
            each = f", {_bytes(cost.each)} each" if cost.each is not None else ""
            lines.append(
                f"  {cost.tool:<10} {asked:<34} {_bytes(cost.up):>9} up {_bytes(cost.down):>9} down {cost.seconds:>7.2f} s"
                f" {cost.processor:>6.2f} s cpu {cost.memory / 1e6:>5.0f} MB{each}"
            )
    return lines


def _bytes(size):
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} KB" if size >= 1e3 else f"{size:.0f} B"


def main(argv=None):
    """Measure, print; the exit code."""
    given = options(argv)
    sys.path.append(os.path.join(contenders.TOP, "tests"))
    return in_scratch("remote", _measure, given)


def _measure(given, scratch):
    from support.s3_server import S3Server

    tree = trees.given_or_generated(given.tree, scratch, given.files)
    files, size = trees.count(tree)
    costs = []
    with S3Server() as server:
        for name in given.tools.split(","):
            if issubclass(TOOLS[name], Casrewind) or shutil.which(name) is not None:
                costs += Bench(TOOLS[name], os.path.join(scratch, name), tree, server, given.turns).run()
            else:
                print(f"{name} is not installed and left out", file=sys.stderr)
    print(f"{files:,} files, {_bytes(size)}", *table(costs, given.turns), sep="\n")
    if given.json is not None:
        record = {"kind": "remote", "format": 1, "files": files, "bytes": size, "turns": given.turns, "costs": [cost._asdict() for cost in costs]}
        with open(given.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
