"""From samples to medians, and how they look in a terminal."""

import statistics
from typing import NamedTuple

from .rounds import BYTES, OPERATIONS

BASE = "git"
"""The tool that ratios are to."""

_STEADY = 1.5
"""A median of more than this many times the least value is not to be relied on."""


class Line(NamedTuple):
    """What the samples of one tool in one operation come to.

    `ratio`: its median to that of git, None without git. `steady`: its median, and git's, are near their least values.
    """

    median: float
    least: float
    ratio: float | None
    samples: int
    steady: bool


def summarise(samples):
    """{operation: {tool: Line}}, both in the order in which they were first measured."""
    values = {}
    for sample in samples:
        values.setdefault(sample.operation, {}).setdefault(sample.tool, []).append(sample.value)
    found = {}
    for operation, tools in values.items():
        base = statistics.median(tools[BASE]) if BASE in tools else None
        base_is_steady = _is_steady(tools.get(BASE, [0]))
        found[operation] = {}
        for tool, taken in tools.items():
            median = statistics.median(taken)
            steady = _is_steady(taken) and base_is_steady
            found[operation][tool] = Line(median, min(taken), median / base if base else None, len(taken), steady)
    return {operation: found[operation] for operation in OPERATIONS if operation in found}


def _is_steady(taken):
    return statistics.median(taken) <= _STEADY * min(taken)


def table(summary, missing, failures, *, checkpoints):
    """The lines of a table for people. `missing`: {tool: why}; `failures`: {tool: (operation, message)}."""
    lines = []
    for operation, tools in summary.items():
        title = OPERATIONS[operation].format(checkpoints=checkpoints)
        lines += ["", f"{title:<32}{'median':>11}{'least':>11}{'x ' + BASE:>9}"]
        for tool, line in tools.items():
            ratio = "-" if line.ratio is None else f"{line.ratio:.2f}"
            mark = "" if line.steady else " ~"
            lines.append(f"  {tool:<30}{amount(operation, line.median):>11}{amount(operation, line.least):>11}{ratio:>9}{mark}")
    if not all(line.steady for tools in summary.values() for line in tools.values()):
        lines += ["", f"~ not steady: the median, or {BASE}'s, is over {_STEADY:g} times the least value; do not quote it"]
    lines += [""] if missing or failures else []
    lines += [f"{tool}: {why}" for tool, why in missing.items()]
    lines += [f"{tool}: failed in {operation}: {message}" for tool, (operation, message) in failures.items()]
    return lines


def amount(operation, value):
    """A value with its unit: seconds, milliseconds or MB."""
    if operation in BYTES:
        return f"{value / 1e6:.1f} MB"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"
