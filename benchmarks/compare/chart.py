"""A bar chart of ratios to git, as SVG. Nothing but text is needed for it."""

import math
from xml.sax.saxutils import escape

from .rounds import title as title_of
from .summary import BASE
from .summary import ratio as number

_LEFT, _BAR, _RIGHT = 110, 480, 70
"""Widths in pixels: names, the scale, the numbers behind it."""

_ROW, _GAP, _TOP = 15, 12, 62
_LEAST, _MOST = 1 / 16, 64
"""The ratios at both ends of the scale, which is logarithmic. Bars that go further are cut, their number says how far."""

_STYLE = """<style>
.page { fill: #ffffff } .text { fill: #24292f } .ours { fill: #0a63a8 } .other { fill: #b3bac2 } .one { stroke: #57606a } .grid { stroke: #e4e8ec }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .text { fill: #d7dee6 } .ours { fill: #4aa3ee } .other { fill: #545d68 } .one { stroke: #9aa4af } .grid { stroke: #21262d } }
</style>"""
"""Light, and dark for those who prefer that."""


def draw(summary, *, title, sizes):
    """The SVG text. Bars to the left of the line at 1 took less than git; ~ as in the table."""
    shown, y = [], _TOP
    for operation, tools in summary.items():
        others = [(tool, line.ratio) for tool, line in tools.items() if tool != BASE and line.ratio is not None]
        if not others:
            continue
        shown.append(_text(10, y + 12, title_of(operation, sizes), weight="bold"))
        for tool, ratio in others:
            y += _ROW
            shown += _bar(tool, ratio, "" if tools[tool].steady else " ~", y)
        y += _ROW + _GAP
    width, height = _LEFT + _BAR + _RIGHT, y + 10
    marks = [mark for mark in (0.1, 0.25, 0.5, 1, 2, 4, 10, 25, 50) if _LEAST <= mark <= _MOST]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            _STYLE,
            f'<rect width="{width}" height="{height}" class="page"/>',
            _text(10, 18, title, weight="bold"),
            _text(10, 36, f"medians as ratios to {BASE}, on a logarithmic scale: bars to the left took less than {BASE}"),
            *(_text(_at(mark), _TOP - 8, f"{mark:g}", anchor="middle") for mark in marks),
            *(_line(_at(mark), height, "one" if mark == 1 else "grid") for mark in marks),
            *shown,
            "</svg>",
            "",
        ]
    )


def _at(ratio):
    """Where on the scale a ratio is, in pixels from the left."""
    within = min(max(ratio, _LEAST), _MOST)
    return _LEFT + _BAR * math.log(within / _LEAST) / math.log(_MOST / _LEAST)


def _line(x, height, kind):
    return f'<line x1="{x:.1f}" y1="{_TOP - 4}" x2="{x:.1f}" y2="{height - 8}" class="{kind}"/>'


def _bar(tool, ratio, mark, y):
    start, end = sorted((_at(1), _at(ratio)))
    kind = "ours" if tool.startswith("casrewind") else "other"
    return [
        _text(_LEFT - 8, y + 11, tool, anchor="end"),
        f'<rect x="{start:.1f}" y="{y + 1}" width="{max(1.0, end - start):.1f}" height="{_ROW - 3}" class="{kind}"/>',
        _text(_LEFT + _BAR + 8, y + 11, f"{number(ratio)}{mark}"),
    ]


def _text(x, y, text, *, weight="normal", anchor="start"):
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" text-anchor="{anchor}" class="text">{escape(text)}</text>'
