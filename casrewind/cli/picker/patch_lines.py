"""The patch of one file as lines for the screen: coloured by its syntax, and in parts (hunks) that can be chosen.

The danger prevented here: bytes of a file that control the terminal. All text is made printable before it is coloured.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ..._typing import TYPE_CHECKING, NamedTuple
from ...history.blame import Blame
from ...messages import printable
from ...model.diff import Change
from ...model.manifest import FILE
from ..show import diffstat, patch
from ..show.blamed import blamed_lines
from ..show.syntax import STRING, Spans, syntax_spans
from ..show.text import colour_of_session, human_size

if TYPE_CHECKING:
    from ...history.compare import Comparison

MOST_LINES = 2_000
"""Lines of a patch in the picker; `casrewind diff --patch` prints all lines."""
_COUNTED = 256 << 10
"""Size limit in bytes: the changed lines of a larger file are not counted."""
_RANGES = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_TAB = "        "
_STYLES = {"comment": "italic bright_black", STRING: "yellow", "number": "cyan", "keyword": "magenta", "name": "bold"}
"""The style of each kind of words, in the sixteen colours of the terminal."""


class PatchLine(NamedTuple):
    """One line. `sign` is its first character: a space, +, -, @, or "" outside of hunks. `part`: the number of its
    hunk, -1 = none. `spans` style parts of `text`."""

    text: str
    sign: str
    part: int
    spans: Spans


def change_as_lines(found: "Comparison", change: Change, *, is_plain: bool = False) -> list[PatchLine]:
    """A change as lines: its patch, or its sizes if it has no patch. `is_plain`: without the colours of its syntax."""
    lines: list[PatchLine] = []
    is_binary, part = False, -1
    for data in patch.patch_of_change(found, change):
        if len(lines) == MOST_LINES:
            lines.append(PatchLine(f"... more than {MOST_LINES} lines; casrewind diff --patch shows them all", "", -1, []))
            break
        is_binary = is_binary or data.startswith(b"Binary files ")
        is_start = data.startswith(b"@@ ")
        part += is_start
        sign = "@" if is_start else chr(data[0]) if part >= 0 and data[:1] in (b" ", b"+", b"-") else ""
        lines.append(PatchLine(_printable_line(data), sign, part, []))
    if is_binary:
        old, new = (human_size(e.size) if e is not None and e.kind == FILE else "absent" for e in (change.old, change.new))
        lines.append(PatchLine(f"{old} -> {new}", "", -1, []))
    return list(_with_syntax_colours(lines, found, change)) if part >= 0 and not is_plain else lines


def blame_as_lines(found: Blame) -> list[PatchLine]:
    """A file as lines with their authors."""
    lines = [PatchLine(f"who wrote {printable(found.path)}, as it is now", "", -1, [])]
    for line in islice(blamed_lines(found, found.runs, has_ages=False), MOST_LINES):
        colour, _ = colour_of_session(line.session)
        text = f"{line.head}  {_printable_line(line.text.encode('utf-8', 'surrogateescape'))}"
        lines.append(PatchLine(text, " ", -1, [(0, len(line.head), colour)]))
    if len(found.lines) > MOST_LINES:
        lines.append(PatchLine(f"... more than {MOST_LINES} lines; casrewind blame shows them all", "", -1, []))
    return lines


def _printable_line(data: bytes) -> str:
    return printable(data.removesuffix(b"\n").replace(b"\t", _TAB.encode()))


def _with_syntax_colours(lines: Sequence[PatchLine], found: "Comparison", change: Change) -> Iterator[PatchLine]:
    """The lines with the colours of their syntax."""
    texts = patch.lines_of_both_sides(found, change)
    styles = [syntax_spans(change.path, list(map(_printable_line, side))) for side in texts or ()] or [{}, {}]
    old = new = 0
    for line in lines:
        if line.sign == "@":
            ranges = _RANGES.match(line.text)
            old, new = (int(ranges[1]) - 1, int(ranges[2]) - 1) if ranges else (0, 0)
        elif line.sign:
            spans = styles[0].get(old, []) if line.sign == "-" else styles[1].get(new, [])
            kept = (span for span in spans if line.sign == " " or span[2] != STRING)  # changed texts stay green or red
            line = line._replace(spans=[(start + 1, end + 1, _STYLES[kind]) for start, end, kind in kept])
            old, new = old + (line.sign != "+"), new + (line.sign != "-")
        yield line


def line_counts(found: "Comparison", changes: Sequence[Change]) -> dict[bytes, str]:
    """Added and removed lines by path, "" for a large file or an entry without lines."""
    counted = {}
    for change in changes:
        is_large = any(entry is not None and entry.size > _COUNTED for entry in (change.old, change.new))
        row = None if is_large else diffstat.count_lines(found, change)
        counted[change.path] = f"  +{row.added} -{row.removed}" if row is not None and (row.added or row.removed) else ""
    return counted
