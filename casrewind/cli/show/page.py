"""One file for a browser: the rows of a list, each with what it changed.

The danger prevented here: names, prompts and contents of a project are anybody's text, and a browser obeys what it reads. So no text is
put into the page but by the template, which escapes it; the page's policy allows one script and no request; and characters that turn
the direction of writing, or that nobody sees, are written out.
"""

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ... import __version__, errors
from ..._typing import TYPE_CHECKING, NamedTuple
from ...extras import needing_page
from ...history.rename_detection import find_renames
from ...messages import format_moment, plural, printable
from ...model.diff import Change, counted_changes
from ...model.likely_secrets import has_secret, is_secret_name
from ...model.manifest import FILE, PURGED, Entry
from ...model.turn_records import BACKGROUND, OPERATIONS, Forgotten, Outside, Reset, Row, SavedRow, Turn
from . import patch
from .changes import changes_with_renames, entry_details
from .row_columns import RowText
from .rows import RowWriter
from .syntax import MOST_COLOURED, Spans, syntax_spans
from .text import SIGNS, human_size

if TYPE_CHECKING:
    from ...history.compare import Comparison
    from ...history.turn_view import TurnView

MOST_BYTES, _BYTES_OF_FILE = 20_000_000, 2_000_000
"""Bytes of all differences in a page, and of one file."""
_SHOWN_OF_LINE, _SHOWN_OF_PROMPT = 2000, 20_000
"""Characters of a line, and of a prompt."""
_EMPTY_LINE, _EMPTY_FILE = 120, 600
"""Bytes of a line and of a file with nothing in it."""
_UNCLEAR_PATHS = 100
"""Paths without a difference that are named."""
FIRST_LINE = "<!doctype html><!-- casrewind -->"
_FILES = os.path.join(os.path.dirname(__file__), "page_files")
_TURN, _YOU, _UNKNOWN, _OPERATION = "an agent", "you", "unknown", "undo, restore"
"""Makers that the page filters by."""

LineMakers = Mapping[bytes, Sequence[str]]
"""The maker of each line of a file, by path."""


class PagePart(NamedTuple):
    """What a page is made of: a row and what it changed."""

    row: Row | None
    """None: the whole difference of a review."""
    difference: "Comparison | None"
    """None: not known."""
    prompt: str = ""
    """The whole prompt."""


class Page(NamedTuple):
    """A page as it was made."""

    data: bytes
    left_out: list[str]
    """What is not in it, because it is too large."""
    secrets: list[str]
    """What in it looks like a secret."""


class _Line(NamedTuple):
    """A line of a difference: its sign, its numbers in the old and the new file, its maker, and its text in pieces of one kind each."""

    sign: str
    old: int | None
    new: int | None
    maker: str
    pieces: list[tuple[str, str]]


class _FileSection(NamedTuple):
    """A changed file as the template has it. `hunks`: its difference, as the page has it."""

    id: str
    path: str
    source: str
    sign: str
    note: str
    added: int = 0
    removed: int = 0
    hunks: str = ""


class _RowSection(NamedTuple):
    """A row as the template has it. `maker`: what it is filtered by. `revert`: the command that reverts it."""

    id: str
    mark: str
    title: str
    ending: str
    when: str
    counts: str
    session: str
    maker: str
    prompt: str
    revert: str
    is_known: bool
    files: list[_FileSection]
    unclear: list[str]


class PageMaker:
    """Makes one page."""

    def __init__(self, view: "TurnView", *, has_prompts: bool, makers: LineMakers) -> None:
        """`view`: that of the rows. `makers`: of the lines as they are now. Raises CasrewindError without the template engine."""
        with needing_page():
            import jinja2
            import markupsafe

        self._view, self._makers, self._has_prompts = view, makers, has_prompts
        self._writer = RowWriter(view)
        self._engine = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FILES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._made: type[str] = markupsafe.Markup
        self._known_spans: dict[bytes, tuple[bytes, int, dict[int, Spans]]] = {}
        self._left, self._left_out, self._secrets = MOST_BYTES, list[str](), dict[str, None]()

    def make(self, title: str, parts: Iterable[PagePart]) -> Page:
        """The page of these parts, in their order. Raises StoreDamaged."""
        sections = [self._section(number, part) for number, part in enumerate(parts)]
        style, script = (self._read(name) for name in ("page.css", "page.js"))
        policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src {_hash(style)}; "
        policy += f"script-src {_hash(script)}"
        text = self._engine.get_template("page.html").render(
            first=self._made(FIRST_LINE), style=self._made(style), script=self._made(script), policy=policy, title=printable(title),
            rows=sections, left_out=self._left_out, has_prompts=self._has_prompts, version=__version__,
        )  # fmt: skip
        return Page(text.encode("utf-8", "backslashreplace"), self._left_out, list(self._secrets))

    def _read(self, name: str) -> str:
        with open(os.path.join(_FILES, name), encoding="utf-8") as file:
            return file.read()

    def _section(self, number: int, part: PagePart) -> _RowSection:
        row, found = part.row, part.difference
        text = RowText("", "All changes") if row is None else self._writer.row_text(row)
        title, prompt, at_ns = text.title, part.prompt, _time_of(row)
        if isinstance(row, (Turn, Reset)) and not self._has_prompts:
            title, prompt = "(prompt left out)" if isinstance(row, Turn) else row.kind, ""
        if has_secret(prompt):
            self._secrets[f"the prompt of {text.mark}"] = None
        name = f"t{row.n}" if isinstance(row, Turn) else f"r{number}"
        shown = "\n".join(printable(line.expandtabs()) for line in prompt[:_SHOWN_OF_PROMPT].splitlines())
        shown += f" … {len(prompt):,} characters" if len(prompt) > _SHOWN_OF_PROMPT else ""
        revert = f"casrewind revert {row.id}" if isinstance(row, Turn) and row.changes and not self._view.machine else ""
        return _RowSection(
            name, text.mark, title, text.ending, "" if at_ns is None else format_moment(at_ns), text.counts, text.session, _maker_of(row),
            shown, revert, found is not None, [] if found is None else list(self._files(name, found, row)),
            [] if found is None else [printable(change.path) for change in found.unclear[:_UNCLEAR_PATHS]],
        )  # fmt: skip

    def _files(self, section: str, found: "Comparison", row: Row | None) -> Iterator[_FileSection]:
        changed = list(changes_with_renames(counted_changes(found.changes), find_renames(found)))
        for number, (change, rename) in enumerate(changed):
            self._left -= _EMPTY_FILE
            if self._left < 0:
                self._left_out.append(f"{plural(len(changed) - number, 'file')}{_of_turn(row)}")
                return
            yield self._file(f"{section}f{number}", found, row, change, change.path if rename is None else rename.source)

    def _file(self, name: str, found: "Comparison", row: Row | None, change: Change, source: bytes) -> _FileSection:
        moved = "" if source == change.path else printable(source)
        shown = _FileSection(name, printable(change.path), moved, SIGNS[change.status], entry_details(change.old, change.new))
        try:
            texts = patch.lines_of_both_sides(found, change, source)
        except errors.StoreDamaged:
            return shown._replace(note="damaged in the store")
        if texts is None:
            return shown._replace(note=", ".join(filter(None, (_why_no_lines(change), shown.note))))
        hunks = list(patch.hunks(texts, change.path))
        blocks = [block for hunk in hunks for block in hunk.blocks]
        added, removed = sum(one.new_end - one.new_start for one in blocks), sum(one.old_end - one.old_start for one in blocks)
        shown, most = shown._replace(added=added, removed=removed), min(self._left, _BYTES_OF_FILE)
        made = self._difference(name, hunks, texts, row, change) if _EMPTY_LINE * (added + removed) <= most else None
        size = 0 if made is None else len(made.encode("utf-8", "replace"))
        if made is None or size > most:
            self._left_out.append(f"{shown.path}{_of_turn(row)}")
            return shown._replace(note="too large for this page")
        self._left -= size
        if is_secret_name(change.path) or is_secret_name(source):
            self._secrets[shown.path] = None
        return shown._replace(hunks=self._made(made))

    def _difference(self, name: str, hunks: Sequence[patch.Hunk], texts: patch.Texts, row: Row | None, change: Change) -> str:
        """The table of a file's lines, as the template makes it."""
        if not hunks:
            return ""
        new = self._spans(change.path, change.new, texts.new, hunks[-1].new_end)
        spans = self._spans(change.path, change.old, texts.old, hunks[-1].end), new
        lines = [(_place(hunk), list(self._lines(hunk, texts, spans, row, change.path))) for hunk in hunks]
        if any(has_secret("".join(text for _, text in line.pieces)) for _, some in lines for line in some):
            self._secrets[printable(change.path)] = None
        has_makers = any(line.maker for _, some in lines for line in some)
        return self._engine.get_template("lines.html").render(hunks=lines, file=name, has_makers=has_makers)

    def _spans(self, path: bytes, entry: Entry | None, lines: Sequence[bytes], last: int) -> dict[int, Spans]:
        """The kinds of words up to a line. A file is as it was before a turn at the end of the turn before, which comes next."""
        if entry is None or sum(map(len, lines)) > MOST_COLOURED:
            return {}
        known = self._known_spans.get(path)
        if known is None or known[0] != entry.digest or known[1] < last:
            known = self._known_spans[path] = (entry.digest, last, syntax_spans(path, list(map(_shown_line, lines[: last + 1])), last))
        return known[2]

    def _lines(
        self, hunk: patch.Hunk, texts: patch.Texts, spans: tuple[dict[int, Spans], dict[int, Spans]], row: Row | None, path: bytes
    ) -> Iterator[_Line]:
        """The lines of a hunk."""
        makers, doubt = self._makers.get(path, ()) if row is None else (), _doubt_about(row, path)
        old, new = hunk.start, hunk.new_start

        def line(sign: str, side: int, at: int) -> _Line:
            maker = "" if sign == " " else makers[at] if sign == "+" and at < len(makers) else doubt
            pieces = list(_pieces(_shown_line(texts[side][at]), spans[side].get(at, [])))
            return _Line(sign, None if sign == "+" else old + 1, None if sign == "-" else new + 1, maker, pieces)

        places = [(block.old_start, block.old_end, block.new_end) for block in hunk.blocks]
        for start, end, new_end in [*places, (hunk.end, hunk.end, hunk.new_end)]:
            while old < start:
                yield line(" ", 1, new)
                old, new = old + 1, new + 1
            while old < end:
                yield line("-", 0, old)
                old += 1
            while new < new_end:
                yield line("+", 1, new)
                new += 1


def _of_turn(row: Row | None) -> str:
    return f" of @{row.n}" if isinstance(row, Turn) else ""


def _place(hunk: patch.Hunk) -> str:
    return f"@@ {patch.hunk_ranges(hunk).decode()} @@{printable(hunk.place)}"


def _shown_line(data: bytes) -> str:
    """A line as a person sees it, at most `_SHOWN_OF_LINE` characters of it. Tabs stay tabs."""
    text = "\t".join(map(printable, data.removesuffix(b"\n")[: 4 * _SHOWN_OF_LINE].split(b"\t")))
    more = len(data) - 4 * _SHOWN_OF_LINE
    if len(text) <= _SHOWN_OF_LINE and more <= 0:
        return text if data.endswith(b"\n") else f"{text} (no newline at the end)"
    return f"{text[:_SHOWN_OF_LINE]} … {len(data):,} bytes in this line"


def _pieces(text: str, spans: Sequence[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    """A text in pieces: (kind, text)."""
    at = 0
    for start, end, kind in spans:
        if start > at:
            yield "", text[at:start]
        yield kind, text[start:end]
        at = end
    yield "", text[at:]


def _why_no_lines(change: Change) -> str:
    entries = [entry for entry in (change.old, change.new) if entry is not None]
    if any(entry.kind == PURGED for entry in entries):
        return "purged"
    if any(entry.kind != FILE for entry in entries):
        return " -> ".join(dict.fromkeys(entry.kind for entry in entries))
    sizes = ("absent" if entry is None else human_size(entry.size) for entry in (change.old, change.new))
    return f"binary or too large: {' -> '.join(sizes)}"


def _time_of(row: Row | None) -> int | None:
    if row is None or isinstance(row, Forgotten):
        return None
    return row.seen_ns if isinstance(row, Outside) else row.at_ns


def _maker_of(row: Row | None) -> str:
    """Who made a row, as the page filters."""
    if isinstance(row, Turn) or (isinstance(row, Outside) and row.kind == BACKGROUND):
        return _UNKNOWN if isinstance(row, Turn) and row.mixed else _TURN
    if isinstance(row, (Outside, SavedRow)) or (isinstance(row, Reset) and row.kind == OPERATIONS["take"]):
        return _YOU
    return _OPERATION if isinstance(row, Reset) else ""


def _doubt_about(row: Row | None, path: bytes) -> str:
    """The turns that may have changed a path, if there are several or the turn ended unseen. "" = the turn alone."""
    if not isinstance(row, Turn):
        return ""
    others = row.others.get(path, ())
    return " ".join((row.name, *others)) + "?" if others or path in row.doubtful else ""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
