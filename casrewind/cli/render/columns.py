"""Tables for people: columns beside each other, and what stands last, words or a path, where there is room for it.

Thousands of rows are printed in less time than a library for tables is imported in.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from .text import is_colourful, say

_BETWEEN = "   "
_LEAST = 16
"""Columns of the terminal that what stands last has to have; with fewer it goes into lines of its own."""
_ALONE = "  "
"""What such lines begin with."""
PIPED = 5000
"""Columns where nobody looks: every row is one line."""


def width() -> int:
    """How many columns there are to print on: those of the terminal, `PIPED` where standard output is none."""
    if not sys.stdout.isatty():
        return PIPED
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given[:5]) > 0:
        return int(given[:5])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def table(names: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str], last: str, cut: bool = False) -> None:
    """Print `rows` below the names of their columns; those named in `right` end at their right sides.

    The column `last` has words: it gets the room that the others leave. What is longer goes on in further lines, or is cut
    with `cut`. Nothing in a row may hold a line break or a control character.
    """
    room = width()
    at = list(names).index(last)
    widths = [_widest(column) for column in zip(names, *rows, strict=True)]
    others = sum(widths) - widths[at] + len(_BETWEEN) * (len(names) - 1)
    is_alone = room - others < min(_LEAST, widths[at])
    if is_alone:
        between = _BETWEEN if others - len(_BETWEEN) <= room else " "
        widths[at] = max(room - len(_ALONE), 1)
    else:
        between, widths[at] = _BETWEEN, min(widths[at], room - others)
    sides = [name in right for name in names]
    heading = _joined(names, widths, sides, between, at if is_alone else None)
    say(f"\x1b[1m{heading}\x1b[0m" if is_colourful(sys.stdout) else heading)
    kept = [size for place, size in enumerate(widths) if not (is_alone and place == at)]
    say(_rule() * min(sum(kept) + len(between) * (len(kept) - 1), room))
    for row in rows:
        for line in _lines(row, widths, sides, between, at, is_alone=is_alone, cut=cut):
            say(line)


def _lines(
    row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], between: str, at: int, *, is_alone: bool, cut: bool
) -> Iterator[str]:
    if row[at].isascii() and len(row[at]) <= widths[at]:
        parts = [row[at]]
    else:
        parts = [_cut(row[at], widths[at])] if cut else folded(row[at], widths[at])
    if is_alone:
        yield _joined(row, widths, sides, between, at)
        for part in parts:
            if part:
                yield _ALONE + part
        return
    yield _joined([*row[:at], parts[0], *row[at + 1 :]], widths, sides, between, None)
    for part in parts[1:]:
        yield _joined([*("" for _ in row[:at]), part], widths, sides, between, None)


def _widest(column: Sequence[str]) -> int:
    return max(map(len if "".join(column).isascii() else cells, column))


def _joined(row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], between: str, without: int | None) -> str:
    padded = []
    for place, (text, width, is_right) in enumerate(zip(row, widths, sides, strict=False)):
        if place == without:
            continue
        wide = width if text.isascii() else width - cells(text) + len(text)
        padded.append(text.rjust(wide) if is_right else text.ljust(wide))
    return between.join(padded).rstrip()


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf") else
        2 if unicodedata.east_asian_width(c) in ("W", "F") else 1
        for c in text
    )  # fmt: skip


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` columns, broken between words where that can be; at least one line."""
    found, line = [], ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) <= width:
            line += " " + word
            continue
        if line:
            found.append(line)
        *whole, line = _pieces(word, width)
        found += whole
    return [*found, line]


def _pieces(word: str, width: int) -> list[str]:
    if cells(word) <= width:
        return [word]
    found = [""]
    for character in word:
        if cells(found[-1]) + cells(character) > width and found[-1]:
            found.append("")
        found[-1] += character
    return found


def _cut(text: str, width: int) -> str:
    if cells(text) <= width:
        return text
    return _pieces(text, max(width - 1, 1))[0] + "…"


def _rule() -> str:
    """What a line under a heading is made of."""
    try:
        "─".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "-"
    return "─"
