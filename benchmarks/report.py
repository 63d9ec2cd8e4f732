"""python -m benchmarks.report FILE.json ...: what compare, growth and pytest-benchmark have written, as Markdown.

With `--into docs/performance.md`, the tables of that document are replaced: what stands between `<!-- tables: NAME -->` and
`<!-- end -->`. NAME is that of the tree that compare was given, "growth", or "in one process". With `--short`, the records of
compare become one table, with a row for each operation that a person waits for most; its NAME is "short".
"""

import argparse
import itertools
import json
import re
import sys

from . import growth
from .compare import rounds, summary

USAGE = 64
USUAL = ("first", "unchanged", "edited", "restore", "disk")
"""The operations of the first table."""
OTHERS = ("restic", "borg", "bup", "stepback", "unedit")
OWN = ("casrewind-bare", "casrewind")
_BLOCK = "<!-- tables: {} -->\n"
_END = "<!-- end -->"


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="Figures as Markdown.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"report: {message}\n")
    parser.add_argument("files", metavar="FILE.json", nargs="+", help="what compare or growth has written with --json, or pytest with --benchmark-json")
    parser.add_argument("--short", action="store_true", help="one table of casrewind beside git, from all records of compare")
    parser.add_argument("--into", metavar="FILE.md", help="replace the tables of this document instead of printing")
    return parser.parse_args(argv)


def main(argv=None):
    """Print or replace; the exit code."""
    given = options(argv)
    try:
        records = []
        for path in given.files:
            with open(path, encoding="utf-8") as file:
                records.append(json.load(file))
        if given.short:
            tables = {"short": list(short(records))}
        else:
            tables = {name_of(record): lines(record) for record in records}
        if given.into is None:
            print(*itertools.chain.from_iterable(tables.values()), sep="\n")
            return 0
        with open(given.into, encoding="utf-8") as file:
            text = file.read()
        for name, found in tables.items():
            text = replaced(text, name, "\n".join(found))
    except (OSError, ValueError, KeyError) as error:
        print(f"report: {error}", file=sys.stderr)
        return USAGE
    with open(given.into, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


def name_of(record):
    """What the tables of a record are called in a document."""
    if "benchmarks" in record:
        return "in one process"
    return "growth" if record["kind"] == "growth" else record["tree"]["name"]


def replaced(text, name, tables):
    """A document with other tables of that name. Raises ValueError when it has no place for them."""
    start = _BLOCK.format(name)
    if text.count(start) != 1 or _END not in text.partition(start)[2]:
        raise ValueError(f"the document has no place for these tables: {start.strip()} and {_END} below it, once")
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{tables}\n\n{_END}{rest.partition(_END)[2]}"


def lines(record):
    """The lines of Markdown for a record."""
    if "benchmarks" in record:
        found = list(_in_one_process(record))
    else:
        found = list(_growth(record) if record["kind"] == "growth" else _compared(record))
    return found[:-1] if found[-1] == "" else found


def short(records):
    """The lines of one table of casrewind beside git, from records of compare: medians, least values and processor time."""
    yield "| | git: median, least, processor time | casrewind | x git | x git, processor time |"
    yield "|---|---|---|---|---|"
    for record in records:
        what = f"{record['tree']['name'].replace('-', ' ')}, Python {record['python']}"
        for operation in ("first", "unchanged", "edited", "edited-many", "restore", "restore-many", "diff"):
            pair = [record["summary"].get(operation, {}).get(tool) for tool in (summary.BASE, "casrewind")]
            if None in pair:
                continue
            git, own = (", ".join(summary.amount(operation, line[key]) for key in ("median", "least", "processor")) for line in pair)
            worked = pair[1]["processor"] / pair[0]["processor"]
            title = rounds.title(operation, rounds.Sizes(**record["sizes"]))
            yield f"| {what}: {title} | {git} | {own} | {pair[1]['ratio']:.2f}{_mark(pair[1])} | {worked:.2f} |"


def _measured(record, *what):
    versions = record["versions"] if "versions" in record else {name: tool["version"] for name, tool in record["tools"].items()}
    named = sorted({re.sub(r"^(git) version |^(restic [\d.]+) compiled.*", r"\1 \2", text).strip() for text in versions.values()})
    named = [name if re.match("[a-z]", name) else f"bup {name}" for name in named]
    return (
        f"`{' '.join(['python -m benchmarks.' + record['kind'], *what, *record['options']])}`",
        "",
        f"{record['time'][:10]}, Python {record['python']}, {record['platform']['processors']} processors; {', '.join(named)}.",
        "",
    )


def _compared(record):
    tree, found, sizes = record["tree"], record["summary"], rounds.Sizes(**record["sizes"])
    yield from _measured(record, tree["name"])
    yield f"{tree['files']:,} files, {tree['bytes'] / 1e6:,.0f} MB."
    yield ""
    yield from _usual(found, sizes)
    yield from _against_others(found)
    if record.get("starts"):
        alone = ", ".join(f"`{name}` {seconds * 1e3:.0f} ms" for name, seconds in record["starts"].items())
        yield from (f"In the same run, the interpreter alone: {alone}.", "")
    tools = [name for name in record["tools"] if any(name in line for line in found.values())]
    yield "Medians, and in brackets the ratio to git:"
    yield ""
    yield f"| | {' | '.join(tools)} |"
    yield "|---|" + "---|" * len(tools)
    for operation, taken in found.items():
        yield f"| {rounds.title(operation, sizes)} | {' | '.join(_cell(operation, taken.get(tool)) for tool in tools)} |"
    if not all(line["steady"] for taken in found.values() for line in taken.values()):
        yield ""
        yield "~ the median, or git's, is over 1.5 times the least value: the machine was not steady."
    for tool, failure in record["failed"].items():
        yield from ("", f"{tool} is out from \"{rounds.title(failure['operation'], sizes)}\" on: {failure['message']}.")
    for failure in record["unable"]:
        yield from ("", f"{failure['tool']}, \"{rounds.title(failure['operation'], sizes)}\": {failure['message']}.")
    if record.get("chart"):
        yield from ("", f"![{tree['name']}: ratios to git]({record['chart']})")


def _usual(found, sizes):
    if not any("git" in found.get(name, ()) and "casrewind" in found[name] for name in USUAL):
        return
    yield "| | git | casrewind | x git | x git, `core.fsync=all` |"
    yield "|---|---|---|---|---|"
    for operation in USUAL:
        for tool in reversed(OWN):
            line = found.get(operation, {}).get(tool)
            if line is None or line["ratio"] is None:
                continue
            what = rounds.title(operation, sizes) + (", started as hooks are" if tool == "casrewind-bare" else "")
            git = found[operation][summary.BASE]
            synced = "" if line["synced"] is None else summary.ratio(line["synced"])
            own, base = (summary.amount(operation, one["median"]) for one in (line, git))
            yield f"| {what} | {base} | {own} | {line['ratio']:.2f}{_mark(line)} | {synced} |"
    yield ""


def _against_others(found):
    first = found.get("first", {})
    others = {name: first[name]["median"] for name in OTHERS if name in first}
    if "casrewind" in first and others:
        name = min(others, key=others.get)
        times = others[name] / first["casrewind"]["median"]
        yield f"The first save is {times:.1f} times as fast as that of {name}, the fastest of {', '.join(others)}."
        yield ""


def _cell(operation, line):
    if line is None:
        return ""
    ratio = "" if line["ratio"] is None else f" ({summary.ratio(line['ratio'])}){_mark(line)}"
    return summary.amount(operation, line["median"]) + ratio


def _mark(line):
    return "" if line["steady"] else " ~"


def _in_one_process(record):
    machine = record["machine_info"]
    timers = {one["options"]["timer"] for one in record["benchmarks"]}
    clock = "processor time" if timers == {"process_time"} else "elapsed time"
    yield (
        f"{record['datetime'][:10]}, Python {machine['python_version']}, {machine['cpu'].get('count', 1)} processors; a generated tree of "
        f"{record['files']:,} files; {clock}."
    )
    yield from ("", "| | median | least | rounds |", "|---|---|---|---|")
    for one in sorted(record["benchmarks"], key=lambda one: one["fullname"].partition("::")[0]):  # in the order of each file
        what, taken = one["name"].removeprefix("test_").replace("_", " "), one["stats"]
        size = one["extra_info"].get("bytes")
        rates = [_precise(taken[name]) + ("" if size is None else f", {size / taken[name] / 1e6:,.0f} MB/s") for name in ("median", "min")]
        yield f"| {what} | {' | '.join(rates)} | {taken['rounds']} |"


def _precise(seconds):
    return growth.seconds(seconds) if seconds >= 0.01 else f"{seconds * 1e3:.2f} ms"


def _growth(record):
    yield from _measured(record)
    for (by, shape), operations in growth.groups(record).items():
        sizes = sorted({line["size"] for taken in operations.values() for line in taken})
        yield f"{shape.capitalize()} projects, by number of files:" if by == "files" else f"A project of {growth.SMALL:,} files, by number of checkpoints:"
        yield ""
        yield f"| | {' | '.join(f'{size:,}' for size in sizes)} | exponent |"
        yield "|---|" + "---|" * (len(sizes) + 1)
        for name, taken in operations.items():
            by_size = {line["size"]: line for line in taken}
            cells = [f"{growth.seconds(by_size[size]['seconds'])}, {by_size[size]['memory'] / 1e6:.0f} MB" if size in by_size else "" for size in sizes]
            grown = ", ".join(f"{growth.exponent(*pair, 'seconds'):.2f}" for pair in itertools.pairwise(taken))
            yield f"| {growth.OPERATIONS[name]} | {' | '.join(cells)} | {grown} |"
        if {"unchanged", "git-status"} <= set(operations):
            pairs = zip(operations["unchanged"], operations["git-status"], strict=True)
            ratios = [f"{ours['seconds'] / git['seconds']:.2f}" for ours, git in pairs]
            yield f"| nothing changed, x git status | {' | '.join(ratios)} | |"
        yield ""


if __name__ == "__main__":
    sys.exit(main())
