"""From samples to medians, and how they look in a terminal."""

import statistics
from typing import NamedTuple

from .rounds import BYTES, OPERATIONS, title

BASE = "git"
"""The tool that ratios are to."""
SYNCED = "git-fsync"
"""The tool that a second ratio is to: the same, but what it wrote is synced, as casrewind does it."""

_STEADY = 1.5
"""A median of more than this many times the least value is not to be relied on."""


class Line(NamedTuple):
    """What the samples of one tool in one operation come to.

    `ratio`: its median to that of git, None without git; `synced`: that of git with core.fsync=all. `steady`: its median,
    and git's, are near their least values. `processor`: the median of the processor time, None for what is no time.
    """

    median: float
    least: float
    ratio: float | None
    synced: float | None
    samples: int
    steady: bool
    processor: float | None = None


def summarise(samples):
    """{operation: {tool: Line}}, both in the order in which they were first measured."""
    values, processor = {}, {}
    for sample in samples:
        values.setdefault(sample.operation, {}).setdefault(sample.tool, []).append(sample.value)
        if "processor_seconds" in sample.extra:
            processor.setdefault((sample.operation, sample.tool), []).append(sample.extra["processor_seconds"])
    found = {}
    for operation, tools in values.items():
        base, synced = (statistics.median(tools[name]) if name in tools else None for name in (BASE, SYNCED))
        base_is_steady = _is_steady(tools.get(BASE, [0]))
        found[operation] = {}
        for tool, taken in tools.items():
            median = statistics.median(taken)
            steady = _is_steady(taken) and base_is_steady
            ratios = (median / base if base else None, median / synced if synced else None)
            worked = processor.get((operation, tool))
            found[operation][tool] = Line(median, min(taken), *ratios, len(taken), steady, worked and statistics.median(worked))
    return {operation: found[operation] for operation in OPERATIONS if operation in found}


def _is_steady(taken):
    return statistics.median(taken) <= _STEADY * min(taken)


def table(summary, missing, failures, unable, *, sizes):
    """The lines of a table for people. `missing`: {tool: why}; `failures`: {tool: (operation, message)}; `unable`: [(tool,
    operation, message)]; `sizes`: those of the run."""
    lines = []
    synced = any(line.synced is not None for tools in summary.values() for line in tools.values())
    head = f"{'n':>3}{'median':>11}{'least':>11}{'processor':>11}{'x ' + BASE:>9}" + (f"{'x fsync':>9}" if synced else "")
    for operation, tools in summary.items():
        lines += ["", f"{title(operation, sizes):<44}{head}"]
        for tool, line in tools.items():
            worked = "" if line.processor is None else amount(operation, line.processor)
            cells = f"{line.samples:>3}{amount(operation, line.median):>11}{amount(operation, line.least):>11}{worked:>11}{_cell(line.ratio)}"
            lines.append(f"  {tool:<42}{cells}{_cell(line.synced) if synced else ''}{'' if line.steady else ' ~'}")
    if not all(line.steady for tools in summary.values() for line in tools.values()):
        lines += ["", f"~ not steady: the median, or {BASE}'s, is over {_STEADY:g} times the least value; do not quote it"]
    lines += [""] if missing or failures or unable else []
    lines += [f"{tool}: {why}" for tool, why in missing.items()]
    lines += [f"{tool}: failed in {operation}: {message}" for tool, (operation, message) in failures.items()]
    lines += [f"{tool}: cannot do {operation}: {message}" for tool, operation, message in unable]
    return lines


def _cell(value):
    return f"{'-' if value is None else ratio(value):>9}"


def ratio(value):
    """A ratio, with more digits where there would be none left."""
    return f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def amount(operation, value):
    """A value with its unit: seconds, milliseconds or MB."""
    if operation in BYTES:
        return f"{value / 1e6:.1f} MB"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"
