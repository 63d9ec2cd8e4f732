"""python -m benchmarks.compare [TREE]: measure, print a table, write what was asked for, leave nothing behind."""

import argparse
import datetime
import json
import os
import platform
import signal
import sys
import tempfile

from .. import trees
from . import chart, contenders, measure, rounds, summary

USAGE, FAILED, INTERRUPTED = 64, 1, 130
_FILES = 7000


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
    parser.add_argument("--checkpoints", metavar="N", type=int, default=200, help="checkpoints to list (200)")
    parser.add_argument("--json", metavar="FILE", help="write every sample, and what it was measured with")
    parser.add_argument("--chart", metavar="FILE.svg", help="write a bar chart of the ratios to git")
    parser.add_argument("--keep", action="store_true", help="leave trees and stores, and say where")
    given = parser.parse_args(argv)
    if given.tree is not None and given.files is not None:
        parser.error("give TREE or --files, not both")
    if given.tree is not None and not os.path.isdir(given.tree):
        parser.error(f"TREE: {given.tree!r} is no directory")
    given.files = _FILES if given.files is None else given.files
    for name, least in (("files", rounds.EDITS), ("rounds", 1), ("checkpoints", 1)):
        if getattr(given, name) < least:
            parser.error(f"--{name}: {getattr(given, name)} is too few, {least} or more")
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
        trees.copy(original, place.tree)
        os.makedirs(place.kept)
        contestants.append(contenders.build(name, place, environ))

    run = rounds.Run(contestants, paths, checkpoints=given.checkpoints, say=_say)
    run.measure(given.only, given.rounds)
    files, size = trees.count(original)
    found = summary.summarise(run.samples)
    what = "generated" if given.tree is None else os.path.basename(os.path.abspath(given.tree))
    title = f"{what}: {files} files, {size / 1e6:.1f} MB; {given.rounds} round{'s' if given.rounds > 1 else ''}"

    print(title, *summary.table(found, missing, run.failures, checkpoints=given.checkpoints), sep="\n")
    if len(paths) < files and any(name in taking_part for name in ("restic", "borg")):
        print(f"\ncasrewind captures {len(paths)} of the {files} files as files; tools without ignore rules save more")
    if given.json is not None:
        tree = {"name": what, "files": files, "bytes": size, "captured_files": len(paths)}
        _write(given.json, json.dumps(_record(given, tree, versions, missing, run, found, contestants), indent=1) + "\n")
    if given.chart is not None:
        if any(line.ratio is not None for tools in found.values() for line in tools.values()):
            _write(given.chart, chart.draw(found, title=title, checkpoints=given.checkpoints))
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


def _record(given, tree, versions, missing, run, found, contestants):
    """Everything that was seen, for --json."""
    return {
        "format": 1,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "tree": tree,
        "rounds": given.rounds,
        "checkpoints": given.checkpoints,
        "python": platform.python_version(),
        "platform": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "tools": {
            one.name: {"version": versions[one.name], "first": one.first or one.save, "save": one.save, "restore": one.restore}
            for one in contestants
        },
        "absent": missing,
        "failed": {tool: {"operation": operation, "message": message} for tool, (operation, message) in run.failures.items()},
        "summary": {
            operation: {tool: line._asdict() for tool, line in tools.items()} for operation, tools in found.items()
        },
        "samples": [
            {**sample._asdict(), "unit": "bytes" if sample.operation in rounds.BYTES else "seconds"} for sample in run.samples
        ],
    }  # fmt: skip


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
