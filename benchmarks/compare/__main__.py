"""python -m benchmarks.compare [TREE]: measure, print a table, write what was asked for, leave nothing behind."""

import argparse
import datetime
import json
import os
import platform
import signal
import statistics
import sys
import tempfile

from .. import trees
from . import chart, contenders, measure, rounds, summary
from ..checked_options import refuse_too_few

USAGE, FAILED, INTERRUPTED = 64, 1, 130
_FILES = 7000
_PATIENCE = 30
_SIZES = {
    "many": "edits, where there are many",
    "checkpoints": "checkpoints of a session, and to list",
    "history": "checkpoints to list where there are many",
    "large": "MB of the large file",
    "sqlite": "MB of the database",
    "transcript": "MB of the transcript",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that says what is wrong in one line and exits with 64."""

    def error(self, message):
        self.exit(USAGE, f"compare: {message}\n")


def options(argv):
    """The options in `argv`, checked: nothing may fail for a misspelling after minutes of measuring."""
    parser = Parser(prog="python -m benchmarks.compare", description="casrewind and others, side by side.", allow_abbrev=False)
    parser.add_argument("tree", metavar="TREE", nargs="?", help="measure on copies of this directory")
    parser.add_argument("--files", metavar="N", type=int, help=f"without TREE: files of the generated tree ({_FILES})")
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="rounds of every operation (5)")
    for option, known in (("only", tuple(rounds.OPERATIONS)), ("tools", contenders.NAMES)):
        parser.add_argument(f"--{option}", metavar="A,...", type=_names(known), default=known, help=f"of {', '.join(known)}")
    for name, help in _SIZES.items():
        default = getattr(rounds.Sizes(), name)
        parser.add_argument(f"--{name}", metavar="N", type=int, default=default, help=f"{help} ({default})")
    parser.add_argument("--patience", metavar="S", type=float, help="a tool that took S seconds in an operation leaves its further rounds out")
    quick = ", ".join(name for name in rounds.OPERATIONS if name in rounds.QUICK)
    parser.add_argument(
        "--quick", action="store_true", help=f"--patience {_PATIENCE}, and of tools not made for every turn {quick} only"
    )
    parser.add_argument("--json", metavar="FILE", help="write every sample, and what it was measured with")
    parser.add_argument("--chart", metavar="FILE.svg", help="write a bar chart of the ratios to git")
    parser.add_argument("--keep", action="store_true", help="leave trees and stores, and say where")
    given = parser.parse_args(argv)
    if given.tree is not None and given.files is not None:
        parser.error("give TREE or --files, not both")
    if given.tree is not None and not os.path.isdir(given.tree):
        parser.error(f"TREE: {given.tree!r} is no directory")
    given.files = _FILES if given.files is None else given.files
    if given.patience is None and given.quick:
        given.patience = _PATIENCE
    refuse_too_few(parser, given, files=rounds.EDITS, rounds=1, **dict.fromkeys(_SIZES, 1))
    for name in ("json", "chart"):
        path = getattr(given, name)
        if path is not None and (os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path)))):
            parser.error(f"--{name}: {path!r} cannot be written: it is a directory, or there is none to put it in")
    return given


def _names(known):
    def split(text):
        names = [name.strip() for name in text.split(",")]
        wrong = [name for name in names if name not in known]
        if wrong:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(known)}")
        return tuple(name for name in known if name in names)

    return split


def main(argv=None):
    """Run the comparison; the exit code."""
    given = options(argv)
    signal.signal(signal.SIGTERM, _stop)
    scratch = tempfile.mkdtemp(prefix="casrewind-compare-")
    try:
        return _compare(given, os.path.realpath(scratch))
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except (measure.Failed, OSError) as error:  # shutil.Error, of copying, is an OSError
        _say(f"compare: {str(error)[:500]}")
        return FAILED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not stop the cleaning
        if given.keep:
            _say(f"kept: {scratch}")
        else:
            trees.remove(scratch)


def _stop(*_):
    raise KeyboardInterrupt


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _compare(given, scratch):
    environ = _environment(scratch)
    missing = {name: why for name in given.tools if (why := contenders.absent(name))}
    taking_part = [name for name in given.tools if name not in missing]
    versions = {name: contenders.version(name) for name in taking_part}

    original = os.path.join(scratch, "original")
    _say("making the trees")
    if given.tree is None:
        trees.generate(original, given.files)
    else:
        trees.copy(given.tree, original)
    paths = _captured(original, scratch, environ)
    if len(paths) < rounds.EDITS:
        _say(f"compare: TREE has {len(paths)} files that can be saved and edited, too few: {rounds.EDITS} or more")
        return USAGE
    contestants = []
    for name in taking_part:
        place = contenders.Place(*(os.path.join(scratch, part, name) for part in ("trees", "kept", "old")))
        trees.duplicate(original, place.tree)
        os.makedirs(place.kept)
        contestants.append(contenders.build(name, place, environ))

    def beside(name, kind):
        place = contenders.Place(*(os.path.join(scratch, kind, part, name) for part in ("trees", "kept", "old")))
        os.makedirs(place.tree)
        os.makedirs(place.kept)
        return contenders.build(name, place, environ)

    sizes = rounds.Sizes(**{name: getattr(given, name) for name in _SIZES})
    sizes = sizes._replace(many=min(sizes.many, len(paths)))
    starts = _starts(original, environ)
    run = rounds.Run(contestants, paths, sizes=sizes, beside=beside, say=_say, patience=given.patience, quick=given.quick)
    run.measure(given.only, given.rounds)
    files, size = trees.count(original)
    found = summary.summarise(run.samples)
    what = "generated" if given.tree is None else os.path.basename(os.path.abspath(given.tree))
    title = f"{what}: {files} files, {size / 1e6:.1f} MB; {given.rounds} round{'s' if given.rounds > 1 else ''}"

    print(title, *summary.table(found, missing, run.failures, run.unable, sizes=sizes), sep="\n")
    print("\nthe interpreter alone:", ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in starts.items()))
    if len(paths) < files and any(name in taking_part for name in ("restic", "borg", "bup")):
        print(f"\ncasrewind captures {len(paths)} of the {files} files as files; tools without ignore rules save more")
    if given.json is not None:
        tree = {"name": what, "files": files, "bytes": size, "captured_files": len(paths)}
        _write(given.json, json.dumps(_record(given, tree, sizes, versions, missing, run, found, contestants, starts), indent=1) + "\n")
    if given.chart is not None:
        if any(line.ratio is not None for tools in found.values() for line in tools.values()):
            _write(given.chart, chart.draw(found, title=title, sizes=sizes))
        else:
            _say(f"no chart: {summary.BASE}, to which the ratios are, was not measured")
    return FAILED if "casrewind" in run.failures else 0


def _environment(scratch):
    """What every process gets: nothing of the user's own configuration, and places below the scratch directory."""
    home = os.path.join(scratch, "home")
    os.makedirs(home)
    return {
        "PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": scratch, "LANG": "C.UTF-8", "TZ": "UTC",
        "NO_COLOR": "1",
    }  # fmt: skip


def _captured(tree, scratch, environ):
    """The files of a tree that casrewind captures, relative to it: edits go into these only, ignored ones are no edits."""
    command = contenders.casrewind_command()
    environ = contenders.build("casrewind", contenders.Place(tree, os.path.join(scratch, "captured"), ""), environ).environ
    saved = json.loads(measure.run([*command, "save", "--json"], tree, environ).out)
    if os.path.realpath(saved["root"]) != tree:
        raise measure.Failed(f"the scratch directory lies in the project {saved['root']}: set TMPDIR to a place outside of one")
    entries = json.loads(measure.run([*command, "show", "last", "--json"], tree, environ).out)["entries"]
    return [entry["path"] for entry in entries if entry["kind"] == "file" and "path_b64" not in entry]


def _record(given, tree, sizes, versions, missing, run, found, contestants, starts):
    """Everything that was seen, for --json."""
    return {
        "format": 1,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "tree": tree,
        "kind": "compare",
        "options": _chosen(given),
        "chart": given.chart and os.path.basename(given.chart),
        "rounds": given.rounds,
        "sizes": sizes._asdict(),
        "python": platform.python_version(),
        "platform": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "tools": {
            one.name: {"version": versions[one.name], "first": one.first or one.save, "save": one.save, "restore": one.restore}
            for one in contestants
        },
        "absent": missing,
        "starts": starts,
        "failed": {tool: {"operation": operation, "message": message} for tool, (operation, message) in run.failures.items()},
        "unable": [{"tool": tool, "operation": operation, "message": message} for tool, operation, message in run.unable],
        "summary": {
            operation: {tool: line._asdict() for tool, line in tools.items()} for operation, tools in found.items()
        },
        "samples": [
            {**sample._asdict(), "unit": "bytes" if sample.operation in rounds.BYTES else "seconds"} for sample in run.samples
        ],
    }  # fmt: skip


def _starts(tree, environ):
    """{what: seconds of a process that starts the interpreter and does nothing, median}."""
    commands = {"python -c pass": [sys.executable, "-c", "pass"], "python -I -S -c pass": [sys.executable, "-I", "-S", "-c", "pass"]}
    taken = [(name, measure.run(command, tree, environ).seconds) for _ in range(9) for name, command in commands.items()]
    return {name: statistics.median(seconds for which, seconds in taken if which == name) for name in commands}


def _chosen(given):
    """The options that say what was measured, as they would be given again. No path."""
    usual = options(["--quick"] if given.quick else [])
    usual.quick = False
    chosen = []
    for name, value in sorted(vars(given).items()):
        if name not in ("tree", "json", "chart", "keep") and value != getattr(usual, name):
            text = ",".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
            chosen += [f"--{name}"] if value is True else [f"--{name}", text]
    return chosen


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
