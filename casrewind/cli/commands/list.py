"""casrewind list: the turns of a worktree and what happened between them, or with --all every checkpoint."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...context import Context
from ...history import lookup
from ...history.changes_back import ChangesBack
from ...history.checkpoint_names import REMOTE, ReferencePlace, is_listed, label_of, moment_of
from ...history.review_mark import rows_with_mark
from ...history.turn_view import TurnView
from ...history.worktree_timeline import Part, WorktreeTimeline
from ...messages import age_in_words, first_line, plural, printable, shell_quoted
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...model.taken_back import ListRow, fold_undone
from ...model.turn_records import Forgotten, Outside, Reset, Row, SavedRow, Turn
from ...store.catalog import Marked
from ...typed_commands import as_typed
from ..grammar.options import JSON, NUMBER, Command, Option, flag
from ..show.rows import RowWriter, checkpoints_in_words, is_shown, meta_lines, searchable_texts
from ..show.text import DIM, PIPED, Line, cut_to, human_size, signed_counts, styled
from ..terminal.lines import note, print_json, print_line, print_lines
from ..terminal.table import print_table, terminal_width
from . import OK, Done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind list -n 10", "casrewind list --since 2h"),
    options=(
        NUMBER._replace(help="show at most N turns"),
        Option(("--since",), "show only rows since WHEN, such as 1h, 14:30 or yesterday", "WHEN"),
        Option(("--grep",), "show only rows with TEXT in the prompt, label or meta", "TEXT"),
        Option(("--session",), "show only turns of this agent session (its id, or 4 characters) and of those that it continues", "ID"),
        flag("--all", "show every checkpoint, including safety checkpoints and those of other worktrees"),
        flag("--remote", "show checkpoints that you pulled from other machines, instead of this machine's"),
        flag("--oneline", "show one short line for each row"),
        flag("--would", "show how many files would change if you went back to before each turn, instead of its paths"),
        flag("--reverse", "show the oldest first"),
        JSON,
    ),
    more="In other commands, use these numbers: @2 is the second newest turn.",
    stray="-n 3 shows the newest three, casrewind show @3 shows one",
)

_LEAST_SESSION = 2
"""The fewest characters of a session's id; `1` only means that a hook runs this."""
_ROWS_READ = 100
"""Rows that are read at once."""
_PATHS = 2
"""The paths that a row names at most inside of a client."""
_SET_COLUMNS = 50
"""So many of the newest turns set the columns, or as many as `-n` lists."""
_FORMER_ROOTS = 3
"""Roots at which the project may have been before that a list names."""
_NARROW = 84
"""Columns that a list of checkpoints needs for all its columns of data."""
_Found = tuple[Checkpoint, Marked]


class _Filter:
    """What the options select."""

    def __init__(self, context: Context, options: "ParsedOptions", view: TurnView, place: ReferencePlace) -> None:
        """Raises UsageError if `--since` is not a time, AmbiguousReference if `--session` names several sessions."""
        self._every, self._place = options.all, place
        self._text = (options.grep or "").casefold()
        self._since = 0 if options.since is None else _moment_since(options.since)
        self._sessions: dict[str, int | None] | None = None
        is_whole = options.all or options.json or options.remote or options.session is not None
        self._own = None if is_whole else _sessions_of_this_shell(context)
        self._view = view
        self._writer: RowWriter | None = None
        if options.session is not None:
            from ...history import conversation
            session = conversation.whole_session(context, options.session)
            self._sessions = conversation.session_and_ancestors(context, session, place.worktree if place.machine else b"")

    @property
    def selects_everything(self) -> bool:
        """True if everything is selected."""
        return not self._text and not self._since and self._sessions is None

    def takes_point(self, point: Checkpoint, marked: Marked) -> bool:
        """True for a selected checkpoint."""
        machine, key = self._place.machine, self._place.worktree
        if bool(point.more.machine) != bool(machine) or (machine and point.worktree != key):
            return False
        if not (self._every or is_listed(point, key)) or point.created_ns < self._since:
            return False
        if not self._is_of(point.session, point.created_ns):
            return False
        texts = (label_of(point, marked), point.prompt, *meta_lines(point))
        return not self._text or self._text in "\n".join(texts).casefold()

    def takes_row(self, row: Row) -> bool:
        """True for a selected row. With a session, only turns are selected."""
        if not (is_shown(row) or self._is_in_meta(row)) or (isinstance(row, Turn) and self.is_elsewhere(row)):
            return False
        if self.selects_everything:
            return True
        if isinstance(row, Forgotten):
            return False
        if not isinstance(row, Turn):
            moment = row.seen_ns if isinstance(row, Outside) else row.at_ns
            is_recent = (moment or self._since) >= self._since
            return self._sessions is None and is_recent and self._has_text(row)
        moment = row.ended_ns or row.started_ns
        if not row.running and moment is not None and moment < self._since:
            return False
        if not self._is_of(row.session, row.started_ns or row.ended_ns or 0):
            return False
        return self._has_text(row)

    def _has_text(self, row: Row) -> bool:
        """True if the words of a row have the text."""
        if not self._text:
            return True
        self._writer = self._writer or RowWriter(self._view)
        return self._text in searchable_texts(row, self._writer.words(row)).casefold()

    def _is_in_meta(self, row: Row) -> bool:
        """True for a save that has the text in its meta: it is found also where it folds behind its turn."""
        if not self._text or not isinstance(row, SavedRow):
            return False
        return self._text in "\n".join(meta_lines(self._view.points[row.checkpoint])).casefold()

    def is_elsewhere(self, turn: Turn) -> bool:
        """True for a turn of another session, inside of a client: it is not listed there. A person's command is."""
        return turn.agent != checkpoints.RUN and not _is_in(self._own, turn.session, turn.started_ns or turn.ended_ns or 0)

    def _is_of(self, session: str, moment: int) -> bool:
        """True if `session` is selected and `moment` is not later than the end of that session's part."""
        return _is_in(self._sessions, session, moment)


def _is_in(sessions: dict[str, int | None] | None, session: str, moment: int) -> bool:
    if sessions is None:
        return True
    until = sessions.get(session, 0)
    return until is None or moment <= until


def run(context: Context, options: "ParsedOptions", done: Done) -> int:
    """casrewind list."""
    if options.would and (options.all or options.remote or options.oneline):
        raise errors.UsageError("--would counts for each turn of the list; leave --all, --remote and --oneline out")
    if options.remote:
        return _list_remote(context, options, done)
    with context.store.hold_shared_lock():
        timeline = _Timeline(context, options)
        chosen = _Filter(context, options, timeline.view, ReferencePlace(context.root.key, "", ""))
        steps = timeline.selected_rows_in_parts(chosen)
        rows = [] if options.all and not options.json else next(steps, [])
    points = _selected_checkpoints(timeline.everything, chosen, options) if options.all or options.json else []
    done()
    damaged: list[Row] = []
    if options.json:
        back = ChangesBack(context, timeline.view.seen) if options.would else None
        print_json(_list_json(timeline.view, points, rows, lookup.current_id(context), back))
        damaged += filter(_is_damaged, rows)
    elif options.all:
        names = _worktree_names((point for point, _ in points), context.root.key)
        _print_checkpoints(timeline.view, points, names, lookup.current_id(context), options, is_filtered=not chosen.selects_everything)
    else:
        from ..terminal.pager import pager

        with pager(options):
            _print_rows(context, timeline, _rows_until_forgotten(context, timeline, rows, steps), chosen, options, damaged)
            if not options.oneline:
                _print_count_elsewhere(context)
                if timeline.is_short:
                    _print_former_roots(context)
    if options.all:  # checkpoints themselves are read from the index
        return OK
    if timeline.view.is_damaged:
        note(f"restores are missing here, because the ledger is damaged: {as_typed('verify')} shows what is")
    return errors.StoreDamaged.exit_code if timeline.view.is_damaged or damaged else OK


class _Timeline:
    """The rows of a list. Of a long history the newest ones are read from the newest checkpoints, and then all checkpoints are
    read for the others, so that the first rows do not wait for them.

    `view`: that of the rows that were read last. `everything`: all checkpoints, if they were read at first.
    """

    def __init__(self, context: Context, options: "ParsedOptions") -> None:
        """Reads the newest checkpoints, or all if they are not enough for these options."""
        self._context, self._options, self._timeline = context, options, WorktreeTimeline(context, needs_operations=False)
        self._first = self._first_part()
        self.view = self._first.view
        if any(turn.to_now for turn in self.view.turns):
            with suppress(errors.CasrewindError):  # then such a turn is not counted
                self.view.scan_worktree()

    @property
    def everything(self) -> Sequence[_Found]:
        """All checkpoints."""
        return self._timeline.everything

    def _first_part(self) -> Part:
        options, timeline = self._options, self._timeline
        is_filtered = options.grep or options.since is not None or options.session is not None
        if options.all or options.json or is_filtered or os.environ.get(launch.INSIDE):
            return timeline.whole
        number = options.number
        if number is not None and (options.reverse or number <= _ROWS_READ):  # then the part has all rows
            return timeline.newest_with(max(number, _SET_COLUMNS) + 1, number)
        if options.reverse or self.is_short:
            return timeline.whole
        if terminal_width() >= PIPED:  # no column ends there
            return timeline.newest()
        return timeline.newest_with(_SET_COLUMNS + 1, 1)

    def highest(self) -> int:
        """The highest number of a turn that may be listed, or more: of a long history it is not known at first."""
        count = self._context.store.count_listed_checkpoints(self._context.root.key)
        return min(self._options.number or count, len(self.view.turns) if self.is_short else count)

    def measured_turns(self) -> Sequence[Turn]:
        """The turns that set the columns."""
        number = self._options.number
        return self.view.turns if self.is_short and not number else self.view.turns[: max(min(number or 0, self.highest()), _SET_COLUMNS)]

    @property
    def is_short(self) -> bool:
        """True if the history is so short that all of it is read at once."""
        return self._timeline.is_short

    def selected_rows_in_parts(self, chosen: _Filter) -> Iterator[list[Row]]:
        """Yield the selected rows in parts. JSON and the reverse order need all rows in one part.

        `-n` counts turns, or rows if the view has no turns.
        """
        left = self._options.number
        for part, some in self._timeline.parts_from(self._first):
            self.view = part.view
            for rows in _selected_rows_in_parts(self.view, chosen, self._options, left, some):
                if left is not None:
                    left -= sum(isinstance(row, Turn) for row in rows) if self.view.turns else len(rows)
                yield rows
            if left is not None and left <= 0:
                return


def _selected_rows_in_parts(
    view: TurnView, chosen: _Filter, options: "ParsedOptions", number: int | None, part: slice = slice(None)
) -> Iterator[list[Row]]:
    """Yield the selected rows of a part of a view, at most `number` turns."""
    found = islice(view.rows(number, chosen.takes_row, part), None if view.turns else number)
    most = None if options.json or options.reverse else _ROWS_READ
    while rows := list(islice(found, most)):
        yield rows[::-1] if options.reverse else rows


def _list_remote(context: Context, options: "ParsedOptions", done: Done) -> int:
    """List the checkpoints of other machines, each machine below a line of its own."""
    from ..terminal.pager import pager

    with context.store.hold_shared_lock():
        everything = context.store.checkpoints()
        known = lookup.machines(everything)
        newest = {one.plain: one.name for one in reversed(known)}
        places = [ReferencePlace(one.worktree, one.name, one.plain if newest[one.plain] == one.name != one.plain else "") for one in known]
        parts = [_MachineRows(context, options, everything, place, is_only=len(known) == 1) for place in places]
    done()
    if options.json:
        current = lookup.current_id(context)
        print_json({"machines": [part.shape(current) for part in parts]})
    elif not parts:
        print_line("no checkpoints of other machines; casrewind pull fetches them")
    else:
        with pager(options):
            for part in parts:
                part.print_heading_and_rows(options, lookup.current_id(context))
    return errors.StoreDamaged.exit_code if any(map(_is_damaged, (row for part in parts for row in part.rows))) else OK


class _MachineRows:
    """What is listed of one other machine."""

    def __init__(
        self, context: Context, options: "ParsedOptions", everything: Sequence[_Found], place: ReferencePlace, *, is_only: bool
    ) -> None:
        """Reads the rows. `is_only`: there is no other machine, so `remote:` names it, too."""
        self._place = place
        self._prefix, self._is_only = REMOTE if is_only else place.prefix, is_only
        self._own = [pair for pair in everything if pair[0].worktree == place.worktree]
        self._view = TurnView(context, everything=self._own, needs_operations=False, place=place)
        self._chosen = _Filter(context, options, self._view, place)
        self._selected_checkpoints = _selected_checkpoints(self._own, self._chosen, options) if options.all or options.json else []
        steps = _selected_rows_in_parts(self._view, self._chosen, options, options.number) if options.json or not options.all else ()
        self.rows = [row for step in steps for row in step]

    def shape(self, current: str) -> "Shape":
        """The machine as JSON."""
        from ..show import shapes

        root, lists = shapes.path(self._own[0][0].root, "root"), _list_json(self._view, self._selected_checkpoints, self.rows, current)
        return {"machine": self._place.machine, **root, **{name: list(items) for name, items in lists.items()}}

    def print_heading_and_rows(self, options: "ParsedOptions", current: str) -> None:
        """Print a line for the machine, and its rows."""
        newest, turns = self._own[0][0], self._view.turns
        if not options.oneline:
            count = plural(len(turns), "turn") if turns else plural(len(self._own), "checkpoint")
            plain = f" ({printable(self._place.reference)} means this one)" if self._place.reference and not self._is_only else ""
            last = f"the newest {age_in_words(newest.created_ns)}, of {printable(newest.root)}"
            print_line(cut_to(f"{printable(self._place.machine)}{plain}: {count}, {last}", terminal_width()))
        if options.all:
            is_filtered = not self._chosen.selects_everything
            _print_checkpoints(self._view, self._selected_checkpoints, {}, current, options, is_filtered=is_filtered, prefix=self._prefix)
            return
        writer = RowWriter(self._view, terminal_width(), len(turns), names_sessions=False, prefix=self._prefix)
        for row in self.rows:
            print_lines([Line(_short_line(writer, row))] if options.oneline else writer.lines(row))
        if not self.rows:
            print_line("  no turn matches" if turns else f"  no turns: {as_typed('list --remote --all')} has every checkpoint")


def _rows_until_forgotten(context: Context, timeline: _Timeline, rows: list[Row], steps: Iterator[list[Row]]) -> Iterator[Row]:
    """The rows of the first step and of all others. The store's lock is held only while a step is read.

    A pager may wait between two steps. If gc forgets the checkpoints of a row in that time, the list ends with "forgotten".
    """
    while rows:
        yield from rows
        if isinstance(rows[-1], Forgotten) and not rows[-1].checkpoint:
            return
        sys.stdout.flush()
        with context.store.hold_shared_lock():
            rows = next(steps, [])
            at = next((at for at, row in enumerate(rows) if _is_damaged(row)), None)
            if at is not None and _has_forgotten(context, timeline.view):
                rows = [*rows[:at], Forgotten("")]


def _has_forgotten(context: Context, view: TurnView) -> bool:
    """True if the store has forgotten or rewritten a checkpoint since the view was made."""
    trees = {point.id: point.tree for point, _ in context.store.checkpoints()}
    return any(trees.get(identity) != point.tree for identity, point in view.points.items())


def _is_damaged(row: Row) -> bool:
    return isinstance(row, (Turn, Outside, Reset)) and row.damaged


def _selected_checkpoints(everything: "Iterable[tuple[Checkpoint, Marked]]", chosen: _Filter, options: "ParsedOptions") -> list[_Found]:
    """The selected checkpoints."""
    found = [(point, marked) for point, marked in everything if chosen.takes_point(point, marked)]
    del found[options.number or len(found) :]
    return found[::-1] if options.reverse else found


def _moment_since(text: str) -> int:
    found = moment_of(text)
    if found is None:
        raise errors.UsageError(f"--since: {text!r} is not a time", "examples: 1h, 30m, 14:30, yesterday, 2026-11-20 18:00")
    return found


def _list_json(
    view: TurnView, points: Sequence[_Found], rows: Sequence[Row], current: str, back: ChangesBack | None = None
) -> "dict[str, Iterator[Shape]]":
    from ..show import shapes
    return {
        "checkpoints": (shapes.checkpoint(point, marked, current, view.turn_of(point.id)) for point, marked in points),
        "turns": (shapes.turn(view.with_changes_of_subagents(row), back) for row in rows if isinstance(row, Turn)),
        "rows": map(shapes.row, rows),
    }  # fmt: skip


def _sessions_of_this_shell(context: Context) -> dict[str, int | None] | None:
    """The session in which a person typed this command, with those that it continues; None in a terminal."""
    session = os.environ.get(launch.INSIDE, "")
    if len(session) < _LEAST_SESSION:
        return None
    from ...history import conversation
    return conversation.session_and_ancestors(context, session)


def _print_rows(
    context: Context, timeline: _Timeline, rows: "Iterable[Row]", chosen: _Filter, options: "ParsedOptions", damaged: list[Row]
) -> None:
    """Print each row as soon as it is read. Rows that cannot be read are added to `damaged`."""
    view = timeline.view
    others = sum(map(chosen.is_elsewhere, view.turns))
    is_cut = chosen.selects_everything and not others
    highest, turns = (timeline.highest(), timeline.measured_turns()) if is_cut else (len(view.turns), view.turns)
    back = ChangesBack(context, view.seen) if view.turns and (os.environ.get(launch.INSIDE) or options.would) else None
    writer = RowWriter(view, terminal_width(), highest, turns=turns, back=back)
    if os.environ.get(launch.INSIDE):
        writer = RowWriter(view, terminal_width(), highest, _PATHS, names_sessions=False, back=back)
    is_there = False

    def read() -> Iterator[Row]:
        for row in rows:
            writer.move_to(timeline.view)
            damaged.extend([row] if _is_damaged(row) else [])
            yield row

    def lines() -> Iterator[Line]:
        nonlocal is_there
        marked = rows_with_mark(context, read(), lambda: timeline.view, is_oldest_first=options.reverse)
        for row in fold_undone(marked if chosen.selects_everything else read(), is_oldest_first=options.reverse):
            is_there = True
            yield from [Line(_short_line(writer, row))] if options.oneline else writer.lines(row)

    last = context.store.head(context.root.key, listed=True)
    if last is not None and chosen.selects_everything and not options.oneline and terminal_width() < PIPED:  # a program reads rows
        head = f"newest checkpoint {age_in_words(last.created_ns)}; {as_typed('status')} says what changed"
        print_lines([styled((cut_to(head, terminal_width()), DIM))])
    print_lines(lines())
    if others:
        print_line(f"{plural(others, 'turn')} of other sessions: a terminal lists them")
    if not chosen.selects_everything:
        if not is_there:
            print_line(f"no turn matches; {as_typed('list --all')} has every checkpoint")
    elif not timeline.view.turns:
        count = context.store.count_listed_checkpoints(context.root.key)
        counted = checkpoints_in_words(count, sum(point.trigger == checkpoints.SAFETY for point in timeline.view.points.values()))
        none = f"no checkpoints to show; {as_typed('save')} makes one"
        print_line(f"no turns yet; {counted}: {as_typed('list --all')}" if count else none)


def _print_count_elsewhere(context: Context) -> None:
    """One line about the checkpoints of other worktrees in this store, if there are any."""
    newest = context.store.listed_heads()
    others = [point for point in newest if point.worktree != context.root.key and not point.more.machine]
    if others:
        names = [printable(point.root) for point in others]
        subject = f"the worktree {names[0]} has" if len(names) == 1 else f"{len(names)} other worktrees have"
        print_lines([styled((f"{subject} checkpoints, too: {as_typed('list --all')}", DIM))])


def _print_former_roots(context: Context) -> None:
    """How to take over the checkpoints that the project may have from before it was moved. A hook begins without them if it is not sure."""
    from ...upkeep import adopt

    for old in adopt.find_former_roots(context)[:_FORMER_ROOTS]:
        print_line(f"if this project was at {printable(old)} before: casrewind adopt {shell_quoted(old)}")


def _worktree_names(points: "Iterable[Checkpoint]", own: bytes) -> dict[bytes, str]:
    """{key of another worktree: the name of its directory, or its path where two have that name}."""
    roots = {point.worktree: printable(point.root) for point in points if point.worktree != own}
    names = [root.rpartition("/")[2] for root in roots.values()]
    return {key: name if names.count(name) == 1 else root for (key, root), name in zip(roots.items(), names, strict=True)}


def _short_line(writer: RowWriter, row: ListRow) -> str:
    """A row in one short line."""
    found = writer.row_text(row)
    identity = getattr(row, "id", None) or getattr(row, "checkpoint", None) or getattr(row, "safety", None) or ""
    start = f"{found.mark:>3}  {identity:<15}  {found.when:>10}  "
    return (start + found.title_within(terminal_width() - len(start))).rstrip()


def _print_checkpoints(
    view: TurnView, found: Sequence[_Found], others: dict[bytes, str], current: str, options: "ParsedOptions", *, is_filtered: bool,
    prefix: str = "",
) -> None:  # fmt: skip
    """Print a table of checkpoints; with --oneline one short line for each. `others`: names of other worktrees. `prefix`: what
    stands in front of a turn's number."""
    writer = RowWriter(view)
    if options.oneline:
        for point, marked in found:
            what = first_line(writer.checkpoint_title(point, marked)) or point.trigger.replace("_", " ")
            worktree = f"{others[point.worktree]}: " if point.worktree in others else ""
            print_line(cut_to(f"{point.id}  {age_in_words(point.created_ns):>10}  {worktree}{what}", terminal_width()))
        return
    if not found:
        print_line("no checkpoint matches" if is_filtered else f"no checkpoints to show; {as_typed('save')} makes one")
        return
    names = ("id", "worktree", "turn", "when", "what", "files", "size", "changes")
    chosen = [True, bool(others), bool(view.turns), True, True, *[terminal_width() >= _NARROW] * 3]
    rows = []
    for point, marked in found:
        turn = view.turn_of(point.id)
        if turn is not None and not point.prompt:
            point = point._replace(prompt=turn.prompt)  # records of older versions have it at the start of a turn only
        what, last = first_line(writer.checkpoint_title(point, marked)), "  (saved or restored last)" if point.id == current else ""
        signs = ("* " if marked.pinned else "") + what + last
        row = (
            point.id, others.get(point.worktree, ""), "" if turn is None else f"{prefix}@{turn.n}",
            age_in_words(point.created_ns), signs, f"{point.files:,}", human_size(point.size), signed_counts(point.changes),
        )  # fmt: skip
        rows.append([cell for cell, is_there in zip(row, chosen, strict=True) if is_there])
    print_table([name for name, is_there in zip(names, chosen, strict=True) if is_there], rows, right=("files", "size"), last="what")
