"""python -m benchmarks.directories [TREE]: several directories with the same files, by casrewind, by `cp` and by git.

Whole processes, in turn, in every place that is given (--at). One `casrewind restore last --to` writes all directories; `cp` and
`git worktree add` run once for each, in one `sh`. Every directory has a name that was never there before, and is compared with
the project by the number of files and bytes.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import shutil
import statistics
import sys
import tempfile

from casrewind import locations

from . import trees
from .checked_options import refuse_too_few
from .compare import contenders, measure
from .scratch import USAGE, in_scratch

BASE = "cp -r"
MUST = 2.0
"""How many times the wall time and the processor time of `cp -r` casrewind may take."""
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.directories", description="Several directories with the same files.", allow_abbrev=False
    )
    parser.error = lambda message: parser.exit(USAGE, f"directories: {message}\n")
    parser.add_argument("tree", metavar="TREE", nargs="?", help="measure on a copy of this directory")
    parser.add_argument("--files", metavar="N", type=int, help="without TREE: files of the generated tree (7000)")
    parser.add_argument("--directories", metavar="N", type=int, default=4, help="directories that are written at once (4)")
    parser.add_argument("--rounds", metavar="N", type=int, default=7, help="rounds (7)")
    parser.add_argument("--at", metavar="DIR", action="append", help="a place to measure in; again for several (TMPDIR)")
    parser.add_argument("--json", metavar="FILE", help="write every sample, and what it was measured with")
    given = parser.parse_args(argv)
    if given.tree is not None and (given.files is not None or not os.path.isdir(given.tree)):
        parser.error(f"TREE: {given.tree!r} is no directory" if given.files is None else "give TREE or --files, not both")
    given.files = 7000 if given.files is None else given.files
    refuse_too_few(parser, given, files=1, directories=1, rounds=1)
    given.at = given.at or [tempfile.gettempdir()]
    for place in given.at:
        if not os.path.isdir(place):
            parser.error(f"--at: {place!r} is no directory")
    if given.json is not None and not os.path.isdir(os.path.dirname(os.path.abspath(given.json))):
        parser.error(f"--json: {given.json!r} cannot be written: there is no directory to put it in")
    return given


def main(argv=None):
    """Measure, print a table for each place; the exit code."""
    given, code = options(argv), 0
    records = []
    for place in given.at:
        tempfile.tempdir = place
        code = code or in_scratch("directories", lambda given, scratch: records.append(_measure(given, scratch)) or 0, given)
    if not code and given.json is not None:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "kind": "directories", "places": records}, file, indent=1)
    return code


def _measure(given, scratch):
    """Measure in one place, print its table; the record."""
    project, home = os.path.join(scratch, "project"), os.path.join(scratch, "home")
    if given.tree is None:
        trees.generate(project, given.files)
    else:
        trees.copy(given.tree, project)
    os.mkdir(home)
    environ = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
    makers = _makers(scratch, project, environ)
    kind, wanted = locations.file_system_type(scratch), trees.count(project)
    samples = {name: [] for name in makers}
    for number in range(given.rounds + 1):
        for name, make in makers.items():
            made = [os.path.join(scratch, f"{number}-{name.replace(' ', '-')}-{count}") for count in range(given.directories)]
            command, variables = make(made)
            os.sync()  # nobody waits for what another has left to be written
            done = measure.run(command, project, variables)
            for place in made:
                if trees.count(place) != wanted and name != "git worktree add":
                    raise measure.Failed(f"{name}: {place} has {trees.count(place)}, and the project {wanted}")
            if number:  # the first round is not measured: nothing is the first of its kind
                samples[name].append((done.seconds, done.processor))
            for place in made if kind in _IN_MEMORY else ():  # on a disk, making files is slow where many were removed
                trees.remove(place)
    what = "generated" if given.tree is None else os.path.basename(os.path.abspath(given.tree))
    print(f"{what}: {wanted[0]} files, {wanted[1] / 1e6:.1f} MB, {given.directories} directories; {given.rounds} rounds on {kind or 'unknown'}")
    print(*table(samples), sep="\n", flush=True)
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "tree": {"name": what, "files": wanted[0], "bytes": wanted[1]},
        "directories": given.directories,
        "file_system": kind,
        "python": platform.python_version(),
        "platform": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "versions": {name: contenders.version(name) for name in ("casrewind", "git")},
        "samples": {name: [{"seconds": s, "processor_seconds": p} for s, p in taken] for name, taken in samples.items()},
    }


def _makers(scratch, project, environ):
    """{line of the table: a function that gives the command and its variables for directories}. The project is saved, and
    committed in a repository of its own; neither is timed."""
    command = contenders.casrewind_command()
    ours = {**environ, "CASREWIND_HOME": os.path.join(scratch, "store"), "PYTHONPATH": contenders.TOP}
    measure.run([*command, "save"], project, ours)
    found = {
        "casrewind": lambda made: ([*command, "restore", "last", *(word for place in made for word in ("--to", place))], ours),
        "cp -r": lambda made: (_each(["cp", "-r", project], made), environ),
        "cp -a": lambda made: (_each(["cp", "-a", project], made), environ),
    }
    if shutil.which("git") is not None:
        copy = os.path.join(scratch, "repository")
        trees.copy(project, copy)
        git = {**environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        names = {f"GIT_{who}_{what}": "benchmark" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        for words in (["init", "-q"], ["add", "-A", "-f"], ["-c", "gc.auto=0", "commit", "-q", "-m", "x"]):
            measure.run(["git", *words], copy, {**git, **names})
        found["git worktree add"] = lambda made: (_each(["git", "-C", copy, "worktree", "add", "-q", "--detach"], made), git)
    return found


def _each(words, made):
    """One shell that runs a command for each directory."""
    return ["sh", "-c", " && ".join(shlex.join([*words, place]) for place in made)]


def table(samples):
    """The lines of a table: medians, and ratios to `cp -r`. `~`: the median is over 1.5 times the least value."""
    middle = {name: [statistics.median(values) for values in zip(*taken, strict=True)] for name, taken in samples.items()}
    yield f"  {'':<18} {'wall':>10} {'x cp -r':>9} {'processor':>11} {'x cp -r':>9}"
    for name, (seconds, processor) in middle.items():
        ratios = [one / base for one, base in zip(middle[name], middle[BASE], strict=True)]
        mark = " ~" if seconds > 1.5 * min(value for value, _ in samples[name]) else ""
        yield f"  {name:<18} {seconds * 1e3:>7.0f} ms {ratios[0]:>9.2f} {processor * 1e3:>8.0f} ms {ratios[1]:>9.2f}{mark}"
    worst = max(one / base for one, base in zip(middle["casrewind"], middle[BASE], strict=True))
    yield f"  casrewind takes at most {worst:.2f} times what {BASE} takes: {'as it must be' if worst <= MUST else f'{MUST:g} is the most'}"


if __name__ == "__main__":
    sys.exit(main())
