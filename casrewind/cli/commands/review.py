"""casrewind review: what changed since a person last looked, and the mark of how far they looked."""

import os
from collections.abc import Iterator, Mapping

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...history import review as reviews
from ...history.blame import blame_lines
from ...messages import age_in_words, format_moment, plural
from ...model.diff import topmost_unclear
from ...model.manifest import FILE
from ...model.paths import parents
from ...model.taken_back import fold_undone
from ...model.turn_records import Row, Turn
from ...upkeep import reviewed_state
from ..grammar.options import ASSUME_YES, FORMS, HTML, JSON, NO_PROMPTS, Command, Option, flag
from ..plan.page_file import parts_of, write_page
from ..show import shapes
from ..show.comparison import SUMMARY, comparison_lines, form_of
from ..show.page import PagePart
from ..show.rows import RowWriter, is_shown, reviewed_lines
from ..show.text import DIM, Line, styled
from ..terminal.lines import print_json, print_lines
from ..terminal.pager import pager
from ..terminal.table import terminal_width
from . import OK, Done
from .words import Side, Words

if TYPE_CHECKING:
    from ...context import Context
    from ...history.provenance import Makers
    from ...history.review import Review
    from ...history.turn_view import TurnView
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind review", "casrewind review -p", "casrewind review --done", "casrewind review --done @2"),
    options=(
        Option(("ref",), "with --done: mark up to the end of this turn or checkpoint (default: the files now)", "REF", nargs="?"),
        flag("--done", "mark the changes as reviewed, so that the next review begins there"),
        *FORMS, HTML, NO_PROMPTS, ASSUME_YES, JSON,
    ),
    usage=(
        "[-p | --stat | --name-status | --name-only] [-U N] [--word-diff] [--json]", "--html FILE [--no-prompts] [-y]",
        "--done [--json] [REF]",
    ),
    defaults={"form": SUMMARY},
    more="After each path, review names the turns that changed it, and you. ?: only a restore changed it, or the author is unknown. "
    "review only counts turns that changed nothing. It leaves out changes undone since the mark. gc keeps the marked state.",
    saves=True,
)  # fmt: skip


_UNKNOWN = "?"
"""In place of who made a difference."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind review."""
    if options.html is not None and (options.json or options.done):
        raise errors.UsageError("review: --html excludes --done and --json")
    if options.done:
        return _mark(context, options, done)
    if options.ref is not None:
        raise errors.UsageError("review: a REF goes with --done", f"casrewind diff {options.ref} shows what changed since then")
    found, view = reviews.review(context)
    if options.html is not None:
        return _write_page(context, options, found, view, done)
    done()
    if options.json:
        print_json(_review_json(found))
        return OK
    with pager(options):
        print_lines(_lines(found, view, options))
    return OK


def _mark(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """Mark a state as looked at."""
    side = None if options.ref is None else _end_of(Words(context, options), options.ref)
    found = reviewed_state.mark_and_review(context, None if side is None else side.point)
    point = found.checkpoint
    done()
    if options.json:
        print_json({"checkpoint": point.id, "at": shapes.time_of(point.created_ns)})
        return OK
    what = "the files as they are now"
    if side is not None and side.point is not None:
        what = f"the files{f' after {side.number},' if side.number else ''} {age_in_words(point.created_ns)}"
    print_lines(reviewed_lines(f"{what} ({point.id})", found.before, found.left))
    return OK


def _write_page(context: "Context", options: "ParsedOptions", found: "Review", view: "TurnView", done: Done) -> int:
    """Write the difference, with the makers of its lines, and the rows as a page."""
    changed = (change.path for change in found.difference.changes if change.new is not None and change.new.kind == FILE)
    makers = {path: [str(author) for author in authors] for path, authors in blame_lines(context, view, changed)}
    since = "all that is known" if found.marked_ns is None else f"since {format_moment(found.marked_ns)}"
    write_page(context, options, view, since, [PagePart(None, found.difference), *parts_of(context, view, found.rows)], done, makers)
    return OK


def _end_of(named: Words, ref: str) -> Side:
    """The state that a review up to `ref` has seen: of a turn, that behind it."""
    found = named.side_named(ref)
    return named.side_named(f"after:{found.number}") if found.turn is not None and found.side == "before" else found


def _lines(found: "Review", view: "TurnView", options: "ParsedOptions") -> Iterator[Line]:
    form, is_inside, columns = form_of(options), bool(os.environ.get(launch.INSIDE)), terminal_width()
    if form.name == SUMMARY:
        since = "nothing is marked as reviewed yet; since the first checkpoint, {}" if found.marked_ns is None else "since you looked, {}"
        yield styled((since.format(age_in_words(found.marked_ns or found.start.created_ns)) + ":", DIM))
        highest = max((row.n for row in found.rows if isinstance(row, Turn)), default=1)
        writer = RowWriter(view, columns, highest, names_sessions=not is_inside)
        for row in fold_undone(row for row in found.rows if is_shown(row) and not _changed_nothing(row)):
            yield from writer.lines(row)
        if count := sum(map(_changed_nothing, found.rows)):
            yield styled((f"{writer.indent}and {plural(count, 'turn')} that changed nothing", DIM))
        yield Line("")
    makers = _names_of_makers(found.makers)
    yield from comparison_lines(found.difference, form, columns, makers=makers)
    if form.name == SUMMARY and _UNKNOWN in makers.values():
        yield styled((f"{_UNKNOWN}: only a restore changed it, or the author is unknown", DIM))


def _changed_nothing(row: Row) -> bool:
    return isinstance(row, Turn) and row.changed_nothing


def _names_of_makers(found: "Mapping[bytes, Makers]") -> dict[bytes, str]:
    """Who made the difference of each path, and of each directory: "@3, @1 and you", "@2 or you"; "?" if an operation alone did, or nobody
    knows."""
    names: dict[bytes, dict[str, None]] = {}
    for path, makers in found.items():
        for place in (path, path + b"/", *(above + b"/" for above in parents(path))):
            names.setdefault(place, {})[str(makers) or _UNKNOWN] = None
    return {place: ", ".join(some) for place, some in names.items()}


def _review_json(found: "Review") -> "Shape":
    difference = found.difference
    return {
        "reviewed_at": None if found.marked_ns is None else shapes.time_of(found.marked_ns),
        "checkpoint": found.start.id,
        "at": shapes.time_of(found.start.created_ns),
        "turns": [shapes.turn(row) for row in found.rows if isinstance(row, Turn)],
        "rows": [shapes.row(row) for row in found.rows],
        "changes": [{**shape, "by": by} for shape, by in zip(shapes.changes(difference.changes), _makers_json(found.makers), strict=True)],
        **shapes.unclear(topmost_unclear(difference.unclear)),
    }


def _makers_json(found: "Mapping[bytes, Makers]") -> "Iterator[Shape]":
    """Who made the difference of each path, by path."""
    for makers in found.values():
        perhaps = {number for some in makers.perhaps for number in some.turns}
        yield {"turns": list(makers.turns), "you": makers.is_person, "perhaps": sorted(perhaps.difference(makers.turns))}
