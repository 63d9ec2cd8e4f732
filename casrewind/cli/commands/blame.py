"""casrewind blame: who wrote each line of a file."""

import re
from collections.abc import Iterator

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history import blame as blames
from ...history.blame import OLDER, PERSON, PURGED_BYTES, UNKNOWN, AuthoredLines, Blame
from ...messages import printable
from ...worktree import root as roots
from ..grammar.options import JSON, Command, Option
from ..show import shapes
from ..show.blamed import blamed_lines
from ..show.text import DIM, PIPED, Line, colour_of_session, styled
from ..terminal.lines import print_json, print_lines
from ..terminal.pager import pager
from ..terminal.table import terminal_width
from . import OK, Done
from .words import Words

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind blame src/till.py", "casrewind blame src/till.py @3 -L 10,40"),
    options=(
        Option(("file",), "a file", "PATH"),
        Option(("ref",), "show the file as of REF: @3 is before turn 3, after:@3 after it (default: now)", "REF", nargs="?"),
        Option(("-L",), "show only these lines: 10,40 or 10,+5 or 10", "LINES", "lines"),
        JSON,
    ),
    more="you: you edited the line outside of turns. @3?: either turn 3 or you wrote it. older: the line is older than the first "
    "checkpoint. ?: the author is unknown. If a restore, revert or undo brought a line back, blame names its first author.",
)

_MEANINGS = {
    PERSON: "edited outside of turns", UNKNOWN: "that turn or you, nobody saw it", OLDER: "there before the first checkpoint",
    PURGED_BYTES: "what was there was purged",
}  # fmt: skip
"""What the name of an author means, where it does not say so itself."""
_RANGE = re.compile(r"(\d{1,9})(?:,(\+?)(\d{1,9})|(,))?")
_LEAST_FOR_AGES = 100
"""Columns of a terminal that has room for ages."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind blame."""
    (path,) = roots.paths_below_root(context.root.path, [options.file or ""], options.directory)
    point = None if options.ref is None else Words(context, options).side_named(options.ref).point
    found = blames.blame(context, path, point)
    first, last = _range_of(options.lines, found)
    cut = (run._replace(first=max(run.first, first), last=min(run.last, last)) for run in found.runs)
    runs = [run for run in cut if run.first <= run.last]
    done()
    if options.json:
        print_json({**shapes.path(path), "is_whole": found.is_whole, "runs": [_run_json(run, found) for run in runs]})
        return OK
    with pager(options):
        print_lines(_lines(found, runs))
        if terminal_width() < PIPED:  # a program reads lines of the file
            print_lines(_meanings(runs))
    return OK


def _meanings(runs: list[AuthoredLines]) -> Iterator[Line]:
    """What the names of authors mean that do not say it themselves."""
    for kind, name in {run.author.kind: str(run.author) for run in runs}.items():
        if kind in _MEANINGS:
            yield styled((f"{name}: {_MEANINGS[kind]}", DIM))


def _range_of(text: str | None, found: Blame) -> tuple[int, int]:
    """The first and the last line that are asked for. Raises UsageError."""
    count = max(len(found.lines), 1)
    if text is None:
        return 1, count
    parts = _RANGE.fullmatch(text)
    first = int(parts[1]) if parts else 0
    last = first if parts is None or (parts[3] is None and parts[4] is None) else count if parts[4] else int(parts[3])
    if parts is not None and parts[2]:
        last = first + last - 1
    if not 1 <= first <= last:
        raise errors.UsageError(f"blame: {text!r} is no range of lines", "give -L 10,40 or -L 10,+5 or -L 10")
    if first > count:
        raise errors.UsageError(f"blame: {printable(found.path)} has {count} lines", f"give -L 1,{count}")
    return first, min(last, count)


def _lines(found: Blame, runs: list[AuthoredLines]) -> Iterator[Line]:
    """A line of output for each line of the file; of a file without lines, one."""
    width = terminal_width()
    for line in blamed_lines(found, runs, has_ages=width >= _LEAST_FOR_AGES, columns=width if width < PIPED else 0):
        _, style = colour_of_session(line.session)
        yield styled((line.head, style), f"  {line.text}")._replace(is_content=True)


def _run_json(run: AuthoredLines, found: Blame) -> "Shape":
    """A run of lines with one author."""
    author = run.author
    turns = [found.turns[number - 1] for number in author.makers.turns]
    return {
        "first": run.first,
        "last": run.last,
        "by": author.kind,
        "you": author.kind == PERSON or author.makers.is_person,
        "turns": [{"n": turn.n, "id": turn.id, "session": turn.session or None, "prompt": turn.prompt or None} for turn in turns],
        "place": author.place or None,
        "at": None if author.at_ns is None else shapes.time_of(author.at_ns),
    }
