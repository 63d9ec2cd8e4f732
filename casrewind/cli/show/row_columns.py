"""A row of a list in columns: what is cut, and what is not."""

from collections.abc import Iterator

from ..._typing import NamedTuple
from ...messages import plural
from .text import BOLD, COLOURS, CYAN, DIM, PIPED, Line, Part, column_width, cut_to, styled

COUNTS = 9
"""Columns of "+2 ~1 -19"."""
_LEAST_WORDS = 10
"""Columns of a title beside its marks."""
_LEAST_NAME = 8
"""Columns of a path that is cut."""


class RowText(NamedTuple):
    """A row of `list`. `mark`: "@3" of a turn. `ending`: words behind the title, which are never cut. `counts`:
    "+2 ~1", or words in place of counts and paths.
    `note`: words after the paths. `below`: lines of their own. `is_dim`: it was taken back."""

    mark: str
    title: str
    when: str = ""
    counts: str = ""
    paths: tuple[str, ...] = ()
    total: int = 0
    note: str = ""
    session: str = ""
    below: tuple[str, ...] = ()
    ending: str = ""
    is_dim: bool = False

    def title_within(self, room: int) -> str:
        """The title and its ending in at most `room` columns."""
        left = room - column_width(self.ending)
        return cut_to(self.title, left) + self.ending if left > 2 else cut_to(self.ending.strip() or self.title, room)


class RowLayout(NamedTuple):
    """The columns of a list: of everything, of marks, titles, times, paths and sessions."""

    width: int
    mark: int
    title: int
    when: int
    paths: int
    session: int


def _paths_that_fit(found: RowText, room: int) -> str:
    """As many paths as fit, how many more there are, and the note."""
    note = found.note
    for shown in range(len(found.paths), 0, -1):
        more = f" and {found.total - shown:,} more" if found.total > shown else ""
        text = ", ".join(found.paths[:shown]) + more
        if column_width(text) + (1 + len(note) if note else 0) <= room:
            return f"{text} {note}".rstrip()
    if not found.paths:
        return note
    numbers = f"{plural(found.total, 'path')} {note}"
    if note and len(note) <= room:  # the counts beside it say how many
        return numbers if len(numbers) <= room else note
    more = f" and {found.total - 1:,} more" if found.total > 1 else ""
    more = more if room >= _LEAST_NAME + len(more) else ", …" if more else ""
    return cut_to(cut_to(found.paths[0], max(room - len(more), _LEAST_NAME)) + more, room) if room > 1 else ""


def lines_in_columns(found: RowText, layout: RowLayout) -> Iterator[Line]:
    """A row in one line."""
    is_cut = layout.width < PIPED
    title = found.title + found.ending
    if is_cut and found.ending:  # marks have their room beside some words
        words = _LEAST_WORDS if found.mark else layout.title
        least = min(column_width(title), column_width(found.ending) + words)
        more = min(max(least - layout.title, 0), layout.paths)
        layout = layout._replace(title=layout.title + more, paths=layout.paths - more)
    rest: list[Part] = ["  ", _padded(found.when, layout.when)]
    if found.paths or found.note:
        paths = _paths_that_fit(found, layout.paths if is_cut else layout.width)
        rest += ["  ", *_counts(found.counts, COUNTS), "  ", _padded(paths, layout.paths)]
    elif found.counts or found.session:
        rest += ["  ", *_counts(found.counts, COUNTS + 2 + layout.paths)]
    if found.session:
        rest += ["  ", (found.session, DIM)]
    if is_cut and not styled(*rest).text:
        title = found.title_within(layout.width - layout.mark - 4)
    elif is_cut:
        title = found.title_within(layout.title)
    gap = " " * max(layout.title - column_width(title), 0)
    yield styled("  ", _padded_mark(found, layout), "  ", _title_in_colour(found, title), gap, *rest)


def narrow_lines(found: RowText, layout: RowLayout) -> Iterator[Line]:
    """A row in two lines, for a narrow terminal."""
    room = layout.width - layout.mark - 4
    yield styled("  ", _padded_mark(found, layout), "  ", _title_in_colour(found, found.title_within(room)))
    parts = [part for part in (found.when, found.counts) if part]
    left = room - sum(len(part) + 2 for part in parts)
    paths = _paths_that_fit(found, left) if left > 0 else ""
    parts += [paths] if paths else []
    if found.session and len("  ".join([*parts, found.session])) <= room:
        parts.append(found.session)
    line = cut_to("  ".join(parts), room)
    if line:
        yield Line(" " * (layout.mark + 4) + line)


def _padded_mark(found: RowText, layout: RowLayout) -> Part:
    return found.mark.rjust(layout.mark), BOLD if found.mark else ""


def _title_in_colour(found: RowText, title: str) -> Part:
    """A title, in colour if the row is no turn."""
    return title, "" if found.mark else CYAN


def _padded(text: str, columns: int) -> str:
    return text + " " * max(columns - column_width(text), 0)


def _counts(counts: str, columns: int) -> Iterator[Part]:
    """Counts in the colours of their signs, and the spaces behind them."""
    for number, word in enumerate(counts.split(" ")):
        yield " " if number else ""
        yield word, COLOURS[word[0]] if word[1:2].isdigit() and word[0] in COLOURS else ""
    yield " " * max(columns - column_width(counts), 0)
