"""python -m benchmarks.growth: how time and memory grow with the number of files, and with the number of checkpoints.

Whole processes on generated projects of three shapes; `git status` on the same project beside them. The exponent tells how
a figure grows from one size to the next: 1 is in proportion, 0 not at all.
"""

import argparse
import datetime
import itertools
import json
import math
import os
import platform
import statistics
import sys
import time

from . import trees
from .checked_options import refuse_too_few
from .compare import contenders, measure
from .scratch import USAGE, in_scratch

EDITS = 10
OPERATIONS = {
    "first": "first save",
    "unchanged": "save, nothing changed",
    "edited": f"save after {EDITS} edits",
    "restore": f"restore of {EDITS} edits",
    "diff": f"diff of {EDITS} edits",
    "list": "list, newest 50",
    "list-all": "list, all",
    "status": "casrewind status",
    "git-status": "git status",
}
ON_FILES = ("first", "unchanged", "edited", "restore", "diff", "list", "git-status")
ON_CHECKPOINTS = ("unchanged", "edited", "restore", "diff", "list", "list-all", "status")
SHAPES = {"shallow": (20, 1), "deep": (5, 20), "wide": (1000, 1)}
"""Files to a directory, and directories below one another: shallow and wide ones lie side by side in the root, by hundreds in
shallow trees; in deep ones twenty lie in each other."""
_SETTLE = 0.05
SMALL = 1000
"""Files of the project that many checkpoints are made of."""


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="How time and memory grow.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"growth: {message}\n")
    parser.add_argument("--files", metavar="N,...", type=numbers, default=(1000, 10_000), help="sizes of projects (1000,10000)")
    parser.add_argument("--shapes", metavar="A,...", type=names_of(SHAPES), default=tuple(SHAPES), help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--checkpoints", metavar="N,...", type=numbers, default=(100, 1000), help="sizes of stores (100,1000); 0: none")
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="rounds of every operation (5); first saves have one")
    parser.add_argument("--no-git", action="store_true", help="leave git out: its own first save of a million files takes minutes")
    parser.add_argument("--json", metavar="FILE", help="write every sample, and what it was measured with")
    given = parser.parse_args(argv)
    refuse_too_few(parser, given, rounds=1)
    if any(number < EDITS for number in given.files):
        parser.error(f"--files: {min(given.files)} is too few, {EDITS} or more")
    if given.json is not None and not os.path.isdir(os.path.dirname(os.path.abspath(given.json))):
        parser.error(f"--json: {given.json!r} cannot be written: there is no directory to put it in")
    return given


def numbers(text):
    """The sizes in a list like 100,1000, the smallest first."""
    try:
        return tuple(sorted({int(number) for number in text.split(",")} - {0}))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers") from None


def names_of(known):
    """What reads a list like a,b of known names, in their order, for argparse."""

    def read(text):
        wrong = [name for name in text.split(",") if name not in known]
        if wrong:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(known)}")
        return tuple(name for name in known if name in text.split(","))

    return read


def main(argv=None):
    """Measure, print tables; the exit code."""
    return in_scratch("growth", _measure, options(argv))


def _measure(given, scratch):
    lines = []
    git = not given.no_git and not contenders.absent("git")
    for shape, files in itertools.product(given.shapes, given.files):
        place = os.path.join(scratch, f"{shape}-{files}")
        _say(f"{shape}: {files:,} files")
        lines += _on_files(place, shape, files, given.rounds, git=git)
        trees.remove(place)
    lines += _on_checkpoints(os.path.join(scratch, "checkpoints"), given.checkpoints, given.rounds) if given.checkpoints else []
    record = {
        "kind": "growth",
        "format": 1,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "options": [
            "--files", ",".join(map(str, given.files)), "--shapes", ",".join(given.shapes),
            "--checkpoints", ",".join(map(str, given.checkpoints)) or "0", "--rounds", str(given.rounds),
        ],
        "python": platform.python_version(),
        "platform": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "versions": {name: contenders.version(name) for name in ("casrewind", *(["git"] if git else []))},
        "lines": lines,
    }  # fmt: skip
    print(*table(record), sep="\n")
    if given.json is not None:
        with open(given.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
    return 0


class Project:
    """A generated project with a store of casrewind's, and a git repository of its own, which lies beside it."""

    def __init__(self, place, shape, files):
        """Make the files."""
        self.root = os.path.join(place, "project")
        self._paths = make(self.root, shape, files)
        environ = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": os.path.join(place, "home"), "TMPDIR": place,
            "LANG": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1",
        }  # fmt: skip
        os.makedirs(environ["HOME"])
        kept = [contenders.Place(self.root, os.path.join(place, name), os.path.join(place, "old")) for name in ("casrewind", "git")]
        self.casrewind = contenders.build("casrewind", kept[0], {**environ, "CASREWIND_AUTO_GC": "false"})
        self.git = contenders.build("git", kept[1], environ)
        self._command = contenders.casrewind_command()
        self._marks = itertools.count(1)

    def edit(self):
        """Append a line to ten files."""
        trees.edit(self.root, self._paths, next(self._marks))
        time.sleep(_SETTLE)

    def run(self, one, command, *, watched=False):
        """Run a command of a contender's in the project, when what others wrote is on the disk."""
        os.sync()
        return measure.run(command, self.root, one.environ, watched=watched)

    def fill(self, number):
        """So many checkpoints more, by the Python API."""
        self.run(self.casrewind, [part.replace("{number}", str(number)) for part in self.casrewind.fill])

    def prepare_git(self):
        """A repository that has all files. Its objects go into one pack, which is quicker; `git status` looks at none."""
        os.makedirs(self.git.place.kept)
        self.run(self.git, self.git.make)
        self.run(self.git, ["git", "-c", "core.bigFileThreshold=1", "add", "-A"])
        self.run(self.git, ["git", "commit", "--quiet", "-m", "all"])

    def take(self, operation, *, watched=False):
        """Do one operation, prepared as it has to be: what measure.run says of it."""
        if operation == "git-status":
            return self.run(self.git, ["git", "status", "--porcelain"], watched=watched)
        save, last = self.casrewind.save, "last"
        if operation == "first":
            self.casrewind.forget()
        elif operation in ("unchanged", "restore", "diff"):
            self.run(self.casrewind, save)
        if operation in ("edited", "restore", "diff"):
            self.edit()
        words = {
            "restore": ["restore", "--yes", last], "diff": ["diff", last], "list": ["list", "-n", "50"],
            "list-all": ["list", "-n", "1000000"], "status": ["status"],
        }  # fmt: skip
        command = [*self._command, *words[operation]] if operation in words else save
        done = self.run(self.casrewind, command, watched=watched)
        if operation == "unchanged" and not done.out.startswith("nothing changed"):
            raise measure.Failed(f"a save of what was just saved found a change: {done.out}")
        return done


def make(root, shape, files):
    """Make so many small files, each of other bytes, below `root`; ten of them, evenly spread."""
    wide, deep = SHAPES[shape]
    chosen = set(trees.pick(range(files), EDITS))
    paths = []
    for start in range(0, files, wide):
        number = start // wide
        parts = [f"d{number // deep}", *(f"e{level}" for level in range(1, number % deep + 1))]
        if shape == "shallow":
            parts = [f"c{number // 100}", *parts]
        os.makedirs(os.path.join(root, *parts))
        for index in range(start, min(start + wide, files)):
            path = os.path.join(*parts, f"f{index}.txt")
            with open(os.path.join(root, path), "wb") as file:
                file.write(b"%d\n" % index * (5 + index % 40))
            if index in chosen:
                paths.append(path)
    return paths


def _on_files(place, shape, files, rounds, *, git):
    project = Project(place, shape, files)
    taken = {"first": [project.take("first")]}
    memory = {"first": project.take("first", watched=True)}
    if git:
        project.prepare_git()
    project.run(project.casrewind, project.casrewind.save)
    operations = [name for name in ON_FILES if name != "first" and (git or name != "git-status")]
    yield from _lines("files", shape, files, project, operations, rounds, taken, memory)


def _on_checkpoints(place, sizes, rounds):
    project = Project(place, "shallow", SMALL)
    project.run(project.casrewind, project.casrewind.save)
    with open(os.path.join(project.root, "filled.txt"), "wb"):
        pass  # what `fill` edits
    there = 0
    for number in sizes:
        _say(f"{number:,} checkpoints")
        project.fill(number - there)
        there = number
        yield from _lines("checkpoints", "shallow", number, project, ON_CHECKPOINTS, rounds, {}, {})


def _lines(by, shape, size, project, operations, rounds, taken, memory):
    for _ in range(rounds):
        for name in operations:
            taken.setdefault(name, []).append(project.take(name))
    for name in operations:
        memory[name] = project.take(name, watched=True)
    for name in (name for name in OPERATIONS if name in taken):
        samples = [done.seconds for done in taken[name]]
        watched = memory[name]
        yield {
            "by": by, "shape": shape, "size": size, "operation": name, "seconds": statistics.median(samples),
            "least": min(samples), "samples": samples, "memory": watched.together or watched.largest,
        }  # fmt: skip


def exponent(smaller, larger, key):
    """How a figure of two lines grows from one size to the other."""
    return math.log(larger[key] / smaller[key]) / math.log(larger["size"] / smaller["size"])


def groups(record):
    """The lines that belong to one table, by what they are of: {(by, shape): {operation: [line by size]}}."""
    found = {}
    for line in record["lines"]:
        found.setdefault((line["by"], line["shape"]), {}).setdefault(line["operation"], []).append(line)
    return found


def table(record):
    """The lines of tables for people."""
    for (by, shape), operations in groups(record).items():
        yield from ("", f"{shape} projects, by number of files" if by == "files" else f"{SMALL:,} files, by number of checkpoints")
        sizes = sorted({line["size"] for lines in operations.values() for line in lines})
        yield f"{'':<26}" + "".join(f"{size:>22,}" for size in sizes) + "  exponent"
        for name, lines in operations.items():
            cells = "".join(f"{seconds(line['seconds']):>11}{line['memory'] / 1e6:>8.0f} MB" for line in lines)
            grown = ", ".join(f"{exponent(*pair, 'seconds'):.2f}" for pair in itertools.pairwise(lines))
            yield f"  {OPERATIONS[name]:<24}{cells}  {grown}"


def seconds(value):
    """A time with its unit."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"


def _say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
