"""A bar chart of ratios to git, as SVG. Nothing but text is needed for it."""

from xml.sax.saxutils import escape

from .rounds import OPERATIONS
from .summary import BASE

_LEFT, _BAR, _RIGHT = 250, 420, 70
"""Widths in pixels: names, the longest bar, the number behind it."""

_ROW, _GAP, _TOP = 18, 14, 54
_LONGEST = 3.0
"""The ratio of the longest bar: longer ones are cut there, their number says how long they are."""


def draw(summary, *, title, checkpoints):
    """The SVG text. Bars that end left of the line at 1 took less than git; ~ as in the table."""
    shown, y = [], _TOP
    for operation, tools in summary.items():
        others = [(tool, line.ratio) for tool, line in tools.items() if tool != BASE and line.ratio is not None]
        if not others:
            continue
        shown.append(_text(10, y + 13, OPERATIONS[operation].format(checkpoints=checkpoints), weight="bold"))
        for tool, ratio in others:
            y += _ROW
            shown += _bar(tool, ratio, "" if tools[tool].steady else " ~", y)
        y += _ROW + _GAP
    width, height = _LEFT + _BAR + _RIGHT, y + 10
    one = _LEFT + _BAR / _LONGEST
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            _text(10, 20, title, weight="bold"),
            _text(10, 38, f"medians as ratios to {BASE} (the line at 1); shorter is better; bars over {_LONGEST:g} are cut"),
            *shown,
            f'<line x1="{one:.1f}" y1="{_TOP - 6}" x2="{one:.1f}" y2="{height - 10}" stroke="#444444" stroke-dasharray="4 3"/>',
            "</svg>",
            "",
        ]
    )


def _bar(tool, ratio, mark, y):
    length = max(1.0, min(ratio, _LONGEST) / _LONGEST * _BAR)
    colour = "#2f6f9f" if tool == "casrewind" else "#b8b8b8"
    cut = " »" if ratio > _LONGEST else ""
    return [
        _text(_LEFT - 8, y + 13, tool, anchor="end"),
        f'<rect x="{_LEFT}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 4}" fill="{colour}"/>',
        _text(_LEFT + length + 5, y + 13, f"{ratio:.2f}{cut}{mark}"),
    ]


def _text(x, y, text, *, weight="normal", anchor="start"):
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" text-anchor="{anchor}" fill="#222222">{escape(text)}</text>'
