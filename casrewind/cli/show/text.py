"""A line of output, and what it is made of: sizes, counts, and texts that fit into a number of columns. Ages and plurals
are in messages.py.
"""

from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import printable

if TYPE_CHECKING:
    from ...model.checkpoint import Checkpoint
    from ...model.diff import Counts
    from ...model.domain import Skip
    from ...store.catalog import Marked

SHOWN = 20
"""Paths that a report names before it only counts them."""
SIGNS = {"added": "+", "modified": "~", "removed": "-", "type": "~"}
"""The sign for each kind of change to a path."""
COLOURS = {"+": "32", "-": "31", "~": "33", "R": "36"}
"""The colour of each sign, and of a rename."""
BOLD, DIM, RED_BOLD, CYAN = "1", "2", "1;31", "36"
"""Styles, as a terminal's control sequences have them."""
_SESSION_COLOURS = (("cyan", "36"), ("magenta", "35"), ("yellow", "33"), ("green", "32"), ("blue", "34"), ("red", "31"))
"""The colours of sessions, by their numbers: each one's name, and as a terminal's control sequences have it."""
SCREEN = 80
"""Columns of a usual terminal, where nobody knows them."""
IN_CLIENT = 70
"""Columns of an answer inside of a client, in a terminal of 80: Claude Code breaks longer lines (tests/client/test_typed.py)."""
CONTEXT = 3
"""Lines around a change in a patch."""
_FOLDED = 4  # more spaces in front of what continues a line
_BESIDE = 16  # columns of a name that has its text beside it
PIPED = 5000
"""Columns if output is not a terminal: every row is one line."""


class Line(NamedTuple):
    """One line of output, without colours in its text.

    `styles`: (start, end, style) of its coloured parts, from left to right. `is_remark`: it goes to standard error.
    `is_content`: it has bytes of a file, undecodable ones as surrogates. A program gets the bytes, and a terminal gets no
    control character of them. `is_whole`: a person copies it, so it is never broken.
    """

    text: str
    styles: tuple[tuple[int, int, str], ...] = ()
    is_remark: bool = False
    is_content: bool = False
    is_whole: bool = False

    def parts(self) -> Iterator[tuple[str, str]]:
        """Its text in parts, each with its style or ""."""
        at = 0
        for start, end, style in self.styles:
            yield self.text[at:start], ""
            yield self.text[start:end], style
            at = end
        yield self.text[at:], ""

    def with_around(self, before: str, after: str = "") -> "Line":
        """The line with text in front of it and behind it."""
        moved = len(before)
        styles = tuple((start + moved, end + moved, style) for start, end, style in self.styles)
        return self._replace(text=before + self.text + after, styles=styles)

    def part(self, start: int, end: int) -> "Line":
        """What is between two places of the text, as a line."""
        styles = ((max(first, start) - start, min(last, end) - start, style) for first, last, style in self.styles)
        return self._replace(text=self.text[start:end], styles=tuple(each for each in styles if each[0] < each[1]))


def colour_of_session(number: int | None) -> tuple[str, str]:
    """The colour of a session, by its number: its name, and as control sequences have it. Dim without a session."""
    return ("dim", DIM) if number is None else _SESSION_COLOURS[number % len(_SESSION_COLOURS)]


Part = str | tuple[str, str]
"""A part of a line: a text, or a text and its style."""


def styled(*parts: Part) -> Line:
    """A line of these parts, without spaces at its end."""
    text, styles = "", []
    for part in parts:
        words, style = part if isinstance(part, tuple) else (part, "")
        if style and words:
            styles.append((len(text), len(text) + len(words), style))
        text += words
    return Line(text.rstrip(), tuple(styles))


def human_size(number: int) -> str:
    """Bytes for people."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def signed_counts(counts: "Counts") -> str:
    """"+1 ~2 -3"."""
    return f"+{counts.added} ~{counts.modified} -{counts.removed}"


def counts_in_words(counts: "Counts") -> str:
    """"1 added, 2 modified, 3 removed"."""
    return f"{counts.added} added, {counts.modified} modified, {counts.removed} removed"


def description(point: "Checkpoint", marked: "Marked") -> str:
    """A checkpoint's description. A person's text precedes an automatic text. Others of a turn name its prompt."""
    from ...history.checkpoint_names import label_of
    from ...model import checkpoint as checkpoints
    from ...model.turn_records import NOT_SAVED

    if not point.is_saved:
        return f"{NOT_SAVED}: {point.prompt}" if point.prompt else NOT_SAVED
    own = point.prompt if point.trigger == checkpoints.PROMPT else ""
    described = point.flags & checkpoints.DESCRIBED and not marked.label
    found = (own if described else "") or label_of(point, marked) or own
    if own or not point.prompt or point.prompt in found:
        return found
    return f"{found or point.trigger.replace('_', ' ')}: {point.prompt}"


def column_width(text: str) -> int:
    """The width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf") else
        2 if unicodedata.east_asian_width(c) in ("W", "F") else 1
        for c in text
    )  # fmt: skip


def folded_to_width(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken between words if possible. Returns at least one line."""
    found, line = [], ""
    for word in text.split(" "):
        if line and column_width(line) + 1 + column_width(word) <= width:
            line += " " + word
            continue
        if line:
            found.append(line)
        *whole, line = _cut_word_to_width(word, width)
        found += whole
    return [*found, line]


def folded_line(line: Line, width: int) -> list[Line]:
    """The line in lines of at most `width` columns, broken between words. A command of ours stays whole, for a person copies it, and
    so does a word that is too long. What is below the first line is indented: behind a name, as far as what stands beside it."""
    if column_width(line.text) <= width:
        return [line]
    import re

    name = re.match(r" +\S+(?: \S+)? {2,}", line.text)
    is_beside = name is not None and name.end() <= min(_BESIDE, width // 3)
    indent = " " * (name.end() if name is not None and is_beside else len(line.text) - len(line.text.lstrip()) + _FOLDED)
    found, start, end, room = [], 0, 0, width
    for word in re.finditer(r"casrewind [a-z][^;)]*[;)]*|\S+", line.text):
        if end and column_width(line.text[start : word.end()]) > room:
            found.append(line.part(start, end))
            start, room = word.start(), width - len(indent)
        end = word.end()
    found.append(line.part(start, end))
    return [found[0], *(each.with_around(indent) for each in found[1:])]


def _cut_word_to_width(word: str, width: int) -> list[str]:
    if column_width(word) <= width:
        return [word]
    found = [""]
    for character in word:
        if column_width(found[-1]) + column_width(character) > width and found[-1]:
            found.append("")
        found[-1] += character
    return found


def cut_to(text: str, width: int) -> str:
    """The text in at most `width` columns. A cut text ends in an ellipsis."""
    if column_width(text) <= width:
        return text
    return _cut_word_to_width(text, max(width - 1, 1))[0] + "…"


def skipped_lines(found: "Sequence[Skip]") -> Iterator[Line]:
    """The paths that a checkpoint does not contain, and why. A fault is a remark."""
    if not found:
        return
    from ...model import domain as domains

    by_reason: dict[str, list[bytes]] = {}
    for skip in found:
        by_reason.setdefault(skip.reason, []).append(skip.path)
    for reason, places in sorted(by_reason.items()):
        names = ", ".join(printable(place) for place in places[:3]) + (", ..." if len(places) > 3 else "")
        kind = domains.reason_without_detail(reason)
        line = f"  not captured ({printable(reason)}): {len(places)}: {names}"
        if kind == domains.UNREADABLE_RULES:
            line = f"  not counted ({printable(reason)}; a restore of this deletes nothing below): {len(places)}: {names}"
        if kind == domains.SETTINGS:
            line = f"  not counted ({printable(reason)}): {len(places)}: {names}"
        if reason == domains.UNSTABLE:
            line = f"  captured while changing, may be torn: {len(places)}: {names}"
        if reason == domains.LATE:
            line = f"  captured, but changed after the moment this was made for: {len(places)}: {names}"
        yield Line(line, is_remark=domains.makes_save_incomplete(reason))
