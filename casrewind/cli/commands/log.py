"""casrewind log: what changed turn by turn, and the history of a path."""

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history import compare, lookup
from ...history.checkpoint_names import is_labelled, label_of
from ...history.path_history import Logged, PathChange, PathHistory
from ...history.search import LineQuery, Search, TextQuery
from ...history.turn_view import Maker, TurnView
from ...history.worktree_timeline import WorktreeTimeline
from ...messages import age_in_words, plural, printable, session_in_words
from ...model.checkpoint import SAFETY, Checkpoint
from ...model.diff import Change
from ...model.manifest import DIR, PURGED, Entry
from ...model.turn_records import Outside, Reset, Turn
from ...typed_commands import as_typed
from ..grammar.options import ASSUME_YES, HTML, JSON, NO_PROMPTS, NUMBER, Command, Option, choice, flag
from ..plan.page_file import parts_of, write_page
from ..show import changes, comparison, shapes
from ..show.rows import RowWriter
from ..show.shapes import Shape
from ..show.text import COLOURS, SHOWN, SIGNS, description, human_size, signed_counts, styled
from ..terminal.lines import print_json, print_line, print_lines, remark
from ..terminal.pager import pager
from ..terminal.table import terminal_width
from . import OK, Done
from .words import paths_of

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind log -n 3", "casrewind log src/till.py -p", "casrewind log -S 'def total('"),
    options=(
        Option(("path",), "a file, directory or pattern (default: everything, turn by turn)", "PATH", nargs="*"),
        Option(("-S",), "show only rows that added or removed TEXT", "TEXT", "text", group="search"),
        Option(("-G",), "show only rows that added or removed a line matching REGEX (a Python regex)", "REGEX", "regex", group="search"),
        NUMBER,
        flag("--all", "with PATH: include safety checkpoints"),
        choice("form", "patch", "-p", "--patch", "show each change as a patch"),
        choice("form", "stat", "--stat", "show the number of changed lines of each file"),
        HTML, NO_PROMPTS, ASSUME_YES,
        JSON._replace(group="form"),
    ),
    usage=(
        "[-n N] [--all] [-p | --stat | --json] [--] [PATH]",
        "(-S TEXT | -G REGEX) [-n N] [--all] [-p | --stat | --json] [--] [PATH ...]",
        "--html FILE [--no-prompts] [-y] [-n N] [--] [PATH ...]",
    ),
    defaults={"form": ""},
    more="With PATH, each row shows which turn it belongs to. -S and -G do not search files over 4 MiB, and do not show that a file was "
    "moved.",
    behind="the path goes",
)

_MOST_LOGGED = 100
"""Paths that a pattern may match."""
_INDENT = 5
"""Columns before the second line of a row."""
_NOT_SEARCHED = {"too_large": "over 4 MiB", "purged": "whose bytes were purged", "changed": "that changed meanwhile"}
"""Words for Search.not_searched."""
_LEAST = 16
"""Minimum columns for a line of words."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind log."""
    given = [*options.path, *options.rest]
    search = _search_of(options)
    if options.html is not None:
        return _write_page(context, options, given, done)
    if not given:
        if options.all:
            raise errors.UsageError("log: --all needs a PATH", "casrewind list --all shows every checkpoint")
        return _log_turns(context, options, search, done)
    if len(given) != 1 and search is None:
        raise errors.UsageError(f"log: one PATH at a time, not {len(given)}")
    scope = paths_of(context, given, _Points(context, safety=options.all), options, worktree=False)
    if len(scope) > _MOST_LOGGED:
        raise errors.UsageError(f"{printable(given[0])} matches {len(scope)} paths: log shows at most {_MOST_LOGGED} at once")
    everything = context.store.checkpoints() if len(scope) > 1 else ()
    timeline = WorktreeTimeline(context)
    found = [PathHistory(context, path, safety=options.all, search=search, everything=everything, timeline=timeline) for path in scope]
    makers = _Makers(found[0], timeline)
    parts = [one.read_changes_in_parts(options.number) for one in found]
    if options.json:
        whole = [list(chain.from_iterable(some)) for some in parts]
        done()
        read = [Logged(one.path, tuple(rows), one.compare, one.damaged) for one, rows in zip(found, whole, strict=True)]
        print_json(_logged_json(read, lookup.current_id(context), makers, search))
        is_found = any(whole)
    else:
        firsts = [next(some, []) for some in parts]  # an error comes in front of a pager
        done()
        is_found = any(firsts)
        with pager(options):
            for one, first, rest in zip(found, firsts, parts, strict=True):
                if first or search is None:
                    _print_changes_of_rows(one, chain([first], rest), makers, options, search)
    if search is not None:
        _report_search(search, options, is_found=is_found)
    damaged = dict.fromkeys(identity for one in found for identity in one.damaged)
    if damaged:
        remark(f"casrewind: skipped, because it is damaged: {', '.join(damaged)}; {as_typed('verify')} shows what is affected")
    return errors.StoreDamaged.exit_code if damaged else OK


def _write_page(context: "Context", options: "ParsedOptions", given: Sequence[str], done: Done) -> int:
    """Write the turns that changed some paths, or all turns, as a page."""
    if options.all or options.text is not None or options.regex is not None:
        raise errors.UsageError("log: --html takes only -n and PATH")
    view, scope = TurnView(context), paths_of(context, given, _Points(context, safety=False), options, worktree=False)
    about = f"what changed {', '.join(map(printable, scope))}" if scope else "what changed"
    write_page(context, options, view, about, parts_of(context, view, view.rows(options.number), scope), done)
    return OK


class _Points:
    """This worktree's checkpoints, newest first, which are read if a word needs them: a pattern does."""

    def __init__(self, context: "Context", *, safety: bool) -> None:
        self._context, self._safety = context, safety
        self._found: list[Checkpoint] | None = None

    def __iter__(self) -> Iterator[Checkpoint]:
        if self._found is None:
            points = (point for point, _ in lookup.checkpoints_of(self._context))
            self._found = [point for point in points if self._safety or point.trigger != SAFETY]
        return iter(self._found)


class _Makers:
    """Who made the changes of a history. The newest checkpoints are asked first, and all of them only for older changes."""

    def __init__(self, history: PathHistory, timeline: WorktreeTimeline) -> None:
        """`history`: the one that is read first."""
        self._history, self._timeline = history, timeline
        self._writers: dict[TurnView, RowWriter] = {}

    @property
    def view(self) -> TurnView:
        """All turns."""
        return self._timeline.whole.view

    def known(self, rows: list[PathChange]) -> list[PathChange]:
        """The first ones of these rows that the newest checkpoints are enough for; all if none is."""
        if self._history.is_read:
            return rows
        since = self._timeline.newest().since
        return list(takewhile(lambda row: row.before is not None and row.before.seq >= since, rows)) or rows

    def of(self, row: PathChange, path: bytes) -> "tuple[Maker | None, RowWriter | None]":
        """Returns (the maker of a change, what words it). None: unknown, because the checkpoint before it is not known."""
        if row.before is None:
            return None, None
        view = self._timeline.since(row.before.seq)
        if row.before.id not in view.points or row.checkpoint.id not in view.points:
            return None, None
        if view not in self._writers:
            self._writers[view] = RowWriter(view)
        return view.maker_of(row.before.id, row.checkpoint.id, path), self._writers[view]


def _search_of(options: "ParsedOptions") -> "Search | None":
    """What -S or -G searches for; None without them."""
    if options.text is None and options.regex is None:
        return None
    return Search(LineQuery(options.regex or "") if options.text is None else TextQuery(os.fsencode(options.text)))


def _report_search(search: "Search", options: "ParsedOptions", *, is_found: bool) -> None:
    """Say on standard error that nothing was found, and what was not searched."""
    if not is_found:
        what = "adds or removes" if options.regex is None else "has a line that matches"
        text = printable(options.text or options.regex or "")
        remark(f'casrewind: no change {what} "{text}"')
    for reason, words in _NOT_SEARCHED.items():
        count = list(search.not_searched.values()).count(reason)
        if count:
            remark(f"casrewind: {plural(count, 'file')} {words} {'was' if count == 1 else 'were'} not searched")


def _log_turns(context: "Context", options: "ParsedOptions", search: "Search | None", done: Done) -> int:
    """The history of the worktree, turn by turn."""
    with context.store.hold_shared_lock():
        view = TurnView(context)
        rows = _rows_with_changes(view, options.number, search)
    done()
    if options.json:
        found = ({**shapes.row(row), "change": [shapes.change(change) for change in row.changes or ()]} for row in rows)
        turns = (shapes.turn(row) for row in rows if isinstance(row, Turn))
        print_json({"turns": turns, "rows": found, "damaged": [], **_search_json(search)})
    else:
        with pager(options):
            _print_history(context, view, rows, options.form, search)
    if search is not None:
        _report_search(search, options, is_found=any(row.changes or row.unclear for row in rows))
    return errors.StoreDamaged.exit_code if any(row.damaged for row in rows) else OK


def _rows_with_changes(view: TurnView, most: int | None, search: "Search | None") -> list[Turn | Outside | Reset]:
    """The rows with changes or with unknown changes; at most `most` turns. With a search, those with what it finds."""
    found: list[Turn | Outside | Reset] = []
    count = 0
    for row in view.rows():
        if not isinstance(row, (Turn, Outside, Reset)):
            continue
        if search is not None:
            row = _with_matching_changes(view, row, search)
        if row.changes != () or row.damaged or row.unclear:
            count += isinstance(row, Turn)
            if most is not None and count > most:
                break
            found.append(row)
    return found


def _with_matching_changes(view: TurnView, row: Turn | Outside | Reset, search: "Search") -> Turn | Outside | Reset:
    """A row with only the changes that a search finds. Unknown changes stay unknown."""
    found = view.comparison_of_row(row)
    if found is None:
        return row
    if not isinstance(row, Reset):
        search.note_purged_paths(row.purged)
    told = search.matching_changes(found)
    return row._replace(changes=told.changes, unclear=told.unclear, damaged=row.damaged or told.damaged)


def _print_history(
    context: "Context", view: TurnView, rows: Sequence[Turn | Outside | Reset], form: str, search: "Search | None"
) -> None:
    writer = RowWriter(view, terminal_width(), max((row.n for row in rows if isinstance(row, Turn)), default=1))
    for row in rows:
        print_lines(writer.lines(row, paths=False))
        if form and row.changes:
            shared = {path for path, _ in row.shared} if isinstance(row, Turn) else set()
            print_line()
            found = compare.comparison_of_changes(context, row.changes, unclear=row.unclear)
            print_lines(comparison.comparison_lines(found, comparison.Form(form), terminal_width(), shared))
            print_line()
        elif search is not None:
            _print_found(row.changes or (), row.unclear, search, writer.indent)
        elif row.changes:
            _print_changes(row, row.changes, writer.indent)
    if not rows and search is None:
        print_line(f"no change between checkpoints yet; {as_typed('list --all')} shows them")


def _print_changes(row: Turn | Outside | Reset, found: Sequence[Change], indent: str) -> None:
    """One line for each changed path, up to a limit."""
    lines = changes.change_rows(found)
    shared = {path for path, _ in row.shared} if isinstance(row, Turn) else set()
    print_lines(line.line().with_around(indent, " ?" if line.path in shared else "") for line in lines[:SHOWN])
    if len(lines) > SHOWN:
        more = as_typed(f"show @{row.n} --name-status" if isinstance(row, Turn) else "log --stat")
        print_line(f"{indent}... and {len(lines) - SHOWN:,} more; {more} shows all of them")


def _print_found(found: Sequence[Change], unclear: Sequence[Change], search: "Search", indent: str) -> None:
    """One line for each path that a search found."""
    print_lines(row.line().with_around(indent, " (binary)" if row.path in search.binary else "") for row in changes.change_rows(found))
    print_lines(line.with_around(indent) for line in changes.unclear_lines(unclear))


def _print_changes_of_rows(
    found: PathHistory, parts: Iterable[list[PathChange]], makers: _Makers, options: "ParsedOptions", search: "Search | None"
) -> None:
    """Print a summary, then a row for each checkpoint, newest first. `options.form` adds the changes of each checkpoint. Of a
    long history the number of changes is known in the end."""
    name = printable(found.path or b".")
    parts = iter(parts)
    rows = next(parts, [])
    if is_known := found.is_read or len(rows) == options.number:
        rows += chain.from_iterable(parts)
        print_line(f"{name}: {plural(len(rows), 'change')}" if rows else f"{name}: no change")
    else:
        print_line(f"{name}: the newest changes first")
    count, is_purged = 0, False
    widths: list[int] = []
    while rows:
        some = makers.known(rows)
        made = [makers.of(row, found.path) for row in some]
        table = [_row_cells(row, maker, has_all=options.all) for row, (maker, _) in zip(some, made, strict=True)]
        widths = [max(*map(len, column), *widths[at : at + 1], 0) for at, column in enumerate(zip(*table, strict=True))]
        for row, cells, (maker, writer) in zip(some, table, made, strict=True):
            _print_row(row, cells, widths, _maker_and_label(row, maker, writer))
            _print_changes_of(found, row, options.form, search)
        is_purged |= any(entry.kind == PURGED for row in some for entry in (row.change.old, row.change.new) if entry is not None)
        sys.stdout.flush()
        count += len(some)
        rows = rows[len(some) :] or next(parts, [])
    if not is_known:
        print_line(f"{name}: {plural(count, 'change')}")
    if is_purged:
        print_line(f"  {name} was purged: the bytes that it had then are gone from the store")


def _print_changes_of(found: PathHistory, row: PathChange, form: str, search: "Search | None") -> None:
    """Print what a row changed in a form, or the paths that a search found."""
    if form:
        print_lines(comparison.comparison_lines(found.compare(row), comparison.Form(form), terminal_width()))
        print_line()
    elif search is not None and (row.counts is not None or found.path in search.binary):
        told = found.compare(row)
        _print_found(told.changes, told.unclear, search, " " * _INDENT)


def _maker_and_label(row: PathChange, maker: Maker | None, writer: RowWriter | None) -> str:
    """Who made a change, and the label that a person gave to the checkpoint that saw it."""
    point, marked = row.checkpoint, row.marked
    if maker is None or writer is None:
        return description(point, marked)
    label = label_of(point, marked) if is_labelled(point, marked) else ""
    return writer.made_by(maker) + (f"; saved: {printable(label)}" if label else "")


def _row_cells(row: PathChange, maker: Maker | None, *, has_all: bool) -> tuple[str, ...]:
    """The columns of a row: id, time, `safety` with --all for a checkpoint before a restore, sizes, the session that made the change."""
    point = row.checkpoint
    turn = maker.turns[0] if maker is not None and len(maker.turns) == 1 else None
    session = "" if turn is None else session_in_words(turn.agent, turn.session)
    kind = SAFETY if has_all and point.trigger == SAFETY else ""
    return point.id, age_in_words(point.created_ns), kind, _sizes_or_count(row), session


def _print_row(row: PathChange, cells: tuple[str, ...], widths: list[int], words: str) -> None:
    """Print one row in columns. Words that do not fit beside them on a terminal are printed on further lines."""
    sign, what = SIGNS[row.change.status], printable(words)
    columns = terminal_width() - _INDENT
    head = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True) if width)
    lines = _joined_to_lines([cell for cell in cells if cell], columns) if len(head) > columns else [head.rstrip()]
    if what and len(head) + 2 + len(what) <= columns:
        lines = [f"{head}  {what}"]
    elif what:
        lines += textwrap.wrap(what, max(columns, _LEAST))
    if row.reason:
        lines.append(f"({row.reason})")
    print_lines([styled((sign, COLOURS[sign]), "  ", lines[0])])
    for line in lines[1:]:
        print_line(" " * _INDENT + line)


def _joined_to_lines(parts: list[str], columns: int) -> list[str]:
    """Join parts into lines of at most `columns` columns."""
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + 2 + len(part) <= columns:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _sizes_or_count(row: PathChange) -> str:
    """The sizes before and after, or the number of changed paths in a directory. Also a changed mode or kind."""
    old, new = row.change.old, row.change.new
    parts = []
    if row.counts is not None:
        parts.append(signed_counts(row.counts))
    elif old is None:
        parts.append(_size_in_words(new))
    elif new is None:
        parts.append(_size_in_words(old))
    elif (old.size, old.kind) != (new.size, new.kind) or old.digest != new.digest:
        parts.append(f"{_size_in_words(old)} -> {_size_in_words(new)}")
    if old is not None and new is not None and (old.mode ^ new.mode) & 0o777 and old.kind == new.kind:
        parts.append(f"mode {old.mode & 0o777:04o} -> {new.mode & 0o777:04o}")
    if old is not None and new is not None and old.kind != new.kind:
        parts.append(f"{old.kind} -> {new.kind}")
    return ", ".join(parts)


def _size_in_words(entry: Entry | None) -> str:
    if entry is None:
        return ""
    if entry.kind == PURGED:
        return "purged"
    return "-" if entry.kind == DIR else human_size(entry.size)


def _logged_json(found: Sequence[Logged], current: str, makers: _Makers, search: "Search | None") -> Shape:
    """The rows of one path, or of all paths that a pattern matches, newest first. Each row has its path."""
    rows = [(one, row) for one in found for row in one.changes]
    several = len(found) > 1
    return {
        **({"paths": [shapes.path(one.path) for one in found]} if several else shapes.path(found[0].path)),
        "changes": [
            {
                **(shapes.path(one.path) if several else {}),
                **_row_json(row, one.path, current, makers),
                **({} if search is None else {"change": [shapes.change(change) for change in one.compare(row).changes]}),
            }
            for one, row in sorted(rows, key=lambda pair: (-pair[1].checkpoint.seq, pair[0].path))
        ],
        "damaged": list(dict.fromkeys(identity for one in found for identity in one.damaged)),
        **_search_json(search),
    }


def _search_json(search: "Search | None") -> Shape:
    """The paths of binary files that a search found, and the paths that it did not search."""
    if search is None:
        return {}
    passed = [{**shapes.path(path), "reason": reason} for path, reason in sorted(search.not_searched.items())]
    return {"binary": [shapes.path(path) for path in sorted(search.binary)], "not_searched": passed}


def _row_json(row: PathChange, path: bytes, current: str, makers: _Makers) -> Shape:
    """One checkpoint as in list --json, its change as in diff --json, and its maker."""
    change = shapes.change(row.change)
    maker, _ = makers.of(row, path)
    return {
        "checkpoint": shapes.checkpoint(row.checkpoint, row.marked, current, makers.view.turn_of(row.checkpoint.id)),
        "before": None if row.before is None else row.before.id,
        "status": change.pop("status"),
        "old_kind": _kind_or_none(row.change.old),
        "new_kind": _kind_or_none(row.change.new),
        **{key: value for key, value in change.items() if key.startswith(("old_", "new_"))},
        "counts": None if row.counts is None else dict(row.counts._asdict()),
        "reason": row.reason or None,
        "by": "unknown" if maker is None else maker.by,
        "turns": [] if maker is None else [{"n": turn.n, "id": turn.id, "prompt": turn.prompt or None} for turn in maker.turns],
    }


def _kind_or_none(entry: Entry | None) -> str | None:
    return None if entry is None else entry.kind
