"""Counts added and removed lines per file, with a bar fitted to the width, as git's --stat."""

from collections.abc import Iterator, Sequence

from ... import errors
from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import plural, printable
from ...model.diff import Change
from ...model.line_diff import blocks
from ...model.manifest import DIR, Entry
from . import patch
from .text import COLOURS, PIPED, Line, column_width, styled

if TYPE_CHECKING:
    from ...history.compare import Comparison
    from ...history.rename_detection import Rename

_WIDTH = 80
"""Columns if standard output is not a terminal."""
_LEAST_NAME, _LEAST_BAR = 10, 6


class Counted(NamedTuple):
    """One file: its displayed name, and its added and removed lines. `sizes` is printed for a file without lines."""

    name: str
    added: int
    removed: int
    sizes: str = ""


def count_lines(found: "Comparison", change: Change, rename: "Rename | None" = None) -> Counted:
    """Count the lines of a change."""
    name = printable(change.path) if rename is None else short_rename(rename.source, change.path)
    if rename is not None and rename.similarity == 100:
        return Counted(name, 0, 0)
    if DIR in (_kind_in_words(change.old), _kind_in_words(change.new)):
        return Counted(name + "/", 0, 0, f"directory {change.status}")
    try:
        texts = patch.lines_of_both_sides(found, change, None if rename is None else rename.source)
    except errors.StoreDamaged:
        return Counted(name, 0, 0, "damaged")
    if texts is None:
        old, new = (0 if entry is None else entry.size for entry in (change.old, change.new))
        return Counted(name, 0, 0, f"Bin {old} -> {new} bytes")
    differing = blocks(texts.old, texts.new)
    return Counted(name, sum(b.new_end - b.new_start for b in differing), sum(b.old_end - b.old_start for b in differing))


def _kind_in_words(entry: Entry | None) -> str:
    return "" if entry is None else entry.kind


def short_rename(source: bytes, path: bytes) -> str:
    """A short form of a rename: the common parts of both names appear once, as in "src/{old => new}/file"."""
    old, new = source.split(b"/"), path.split(b"/")
    start = 0
    while start < min(len(old), len(new)) - 1 and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if not start and not end:
        return f"{printable(source)} => {printable(path)}"
    middle = " => ".join(printable(b"/".join(parts[start : len(parts) - end])) for parts in (old, new))
    head = printable(b"/".join(old[:start])) + "/" if start else ""
    tail = "/" + printable(b"/".join(old[len(old) - end :])) if end else ""
    return f"{head}{{{middle}}}{tail}"


def table_lines(found: Sequence[Counted], columns: int) -> Iterator[Line]:
    """The lines of the table in the columns of the output, and the total below them."""
    if not found:
        return
    name_width, number_width, bar_width, most = _divide_width(found, _WIDTH if columns >= PIPED else columns)
    for row in found:
        name = _shortened(row.name, name_width)
        name += " " * (name_width - column_width(name))
        if row.sizes:
            yield Line(f" {name} | {row.sizes}")
            continue
        added, removed = _bar_lengths(row.added, row.removed, bar_width, most)
        numbers = f" {name} | {row.added + row.removed:>{number_width}} "
        yield styled(numbers, ("+" * added, COLOURS["+"]), ("-" * removed, COLOURS["-"]))
    yield Line(_summary_line(found))


def _divide_width(found: Sequence[Counted], width: int) -> tuple[int, int, int, int]:
    """Returns (columns of names, columns of numbers, columns of bars, largest number)."""
    most = max(row.added + row.removed for row in found)
    number_width = len(str(most))
    sizes = max(len(row.sizes) for row in found)
    name_width = max(column_width(row.name) for row in found)
    width = max(width, _LEAST_NAME + _LEAST_BAR + number_width + 6)
    bar_width = max(most, sizes - number_width - 1)
    if name_width + number_width + 6 + bar_width > width:
        bar_width = min(bar_width, max(width * 3 // 8 - number_width - 6, _LEAST_BAR))
        if name_width > width - number_width - 6 - bar_width:
            name_width = width - number_width - 6 - bar_width
        else:
            bar_width = width - number_width - 6 - name_width
    return name_width, number_width, bar_width, most


def _shortened(name: str, width: int) -> str:
    """A name without its first part, if it is too long."""
    if column_width(name) <= width:
        return name
    while name and column_width(name) > width - 3:
        name = name[1:]
    _, slash, rest = name.partition("/")
    return "..." + (slash + rest if slash else name)


def _bar_lengths(added: int, removed: int, width: int, most: int) -> tuple[int, int]:
    """The lengths of the two bars."""
    if most <= width:
        return added, removed
    total = _scale_to_width(added + removed, width, most)
    if total < 2 and added and removed:
        total = 2
    if added < removed:
        added = _scale_to_width(added, width, most)
        return added, total - added
    removed = _scale_to_width(removed, width, most)
    return total - removed, removed


def _scale_to_width(number: int, width: int, most: int) -> int:
    return 1 + number * (width - 1) // most if number else 0


def _summary_line(found: Sequence[Counted]) -> str:
    added, removed = sum(row.added for row in found), sum(row.removed for row in found)
    parts = [plural(len(found), "file") + " changed"]
    if added or not removed:
        parts.append(plural(added, "insertion") + "(+)")
    if removed or not added:
        parts.append(plural(removed, "deletion") + "(-)")
    return " " + ", ".join(parts)
