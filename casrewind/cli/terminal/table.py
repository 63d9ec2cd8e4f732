"""Prints tables, and knows the columns of the terminal.

Tables are printed without a library: its import is slower than printing thousands of rows.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from ... import launch
from ..show.text import IN_CLIENT, PIPED, column_width, cut_to, folded_to_width
from .lines import is_colourful, print_as_it_is

_BETWEEN = "   "
_LEAST = 16
"""Minimum columns for the last column of a table. In a narrower terminal it is printed on lines of its own."""
_ALONE = "  "
"""The indentation of such lines."""
_fixed_width: list[int] = []


def set_width(columns: int | None) -> None:
    """Set the width while a pager is between this process and the terminal. None: ask the terminal."""
    _fixed_width[:] = [] if columns is None else [columns]


def terminal_width() -> int:
    """The columns of the terminal, those inside of a client, or `PIPED` if standard output is neither."""
    if _fixed_width:
        return _fixed_width[0]
    if os.environ.get(launch.INSIDE):
        return IN_CLIENT
    if not sys.stdout.isatty():
        return PIPED
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given[:5]) > 0:
        return int(given[:5])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str], last: str, cut: bool = False) -> None:
    """Print `rows` below the names of their columns. The columns in `right` are aligned to the right.

    The column `last` contains words and fills the remaining width. A longer text continues on further lines, or is cut
    with `cut`. A row must not contain line breaks or control characters.
    """
    room = terminal_width()
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
    heading = _join_cells(names, widths, sides, between, at if is_alone else None)
    print_as_it_is(f"\x1b[1m{heading}\x1b[0m" if is_colourful(sys.stdout) else heading)
    kept = [size for place, size in enumerate(widths) if not (is_alone and place == at)]
    print_as_it_is(_rule_character() * min(sum(kept) + len(between) * (len(kept) - 1), room))
    for row in rows:
        for line in _row_lines(row, widths, sides, between, at, is_alone=is_alone, cut=cut):
            print_as_it_is(line)


def _row_lines(
    row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], between: str, at: int, *, is_alone: bool, cut: bool
) -> Iterator[str]:
    if row[at].isascii() and len(row[at]) <= widths[at]:
        parts = [row[at]]
    else:
        parts = [cut_to(row[at], widths[at])] if cut else folded_to_width(row[at], widths[at])
    if is_alone:
        yield _join_cells(row, widths, sides, between, at)
        for part in parts:
            if part:
                yield _ALONE + part
        return
    yield _join_cells([*row[:at], parts[0], *row[at + 1 :]], widths, sides, between, None)
    for part in parts[1:]:
        yield _join_cells([*("" for _ in row[:at]), part], widths, sides, between, None)


def _widest(column: Sequence[str]) -> int:
    return max(map(len if "".join(column).isascii() else column_width, column))


def _join_cells(row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], between: str, without: int | None) -> str:
    padded = []
    for place, (text, width, is_right) in enumerate(zip(row, widths, sides, strict=False)):
        if place == without:
            continue
        wide = width if text.isascii() else width - column_width(text) + len(text)
        padded.append(text.rjust(wide) if is_right else text.ljust(wide))
    return between.join(padded).rstrip()


def _rule_character() -> str:
    """The character of a line under a heading."""
    try:
        "─".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "-"
    return "─"
