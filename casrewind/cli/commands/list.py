"""casrewind list: the turns of a worktree and what happened between them, or with --all every checkpoint."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...messages import age_in_words, plural, printable
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...model.turn_records import Forgotten, Outside, Reset, Row, SavedRow, Turn
from ...ops import lookup
from ...ops.checkpoint_names import REMOTE, ReferencePlace, is_listed, label_of, moment_of
from ...ops.context import Context
from ...ops.turn_view import TurnView
from ...store.catalog import Marked
from ..show.rows import RowWriter, first_line, is_shown, meta_lines, searchable_texts
from ..show.text import DIM, Line, cut_to, description, human_size, signed_counts, styled
from ..terminal.lines import note, print_json, print_line, print_lines
from ..terminal.table import print_table, set_width, terminal_width
from . import OK, Done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape
_LEAST_SESSION = 2
"""The fewest characters of a session's id; `1` only means that a hook runs this."""
_STEP = 100
"""Rows that are read at once."""
_COLUMNS, _PATHS = 76, 2
"""Columns of a row inside of a client: 80 less its indent. The paths that a row names there at most."""
_SET_COLUMNS = 50
"""With `-n`, so many of the newest turns set the columns, or as many as are listed: not all, so that not all are read."""
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
            from ...ops import conversation
            self._sessions = conversation.session_and_ancestors(context, conversation.whole_session(context, options.session))

    @property
    def selects_everything(self) -> bool:
        """True if everything is selected."""
        return not self._text and not self._since and self._sessions is None

    def takes_point(self, point: Checkpoint, marked: Marked) -> bool:
        """True for a selected checkpoint."""
        machine, key = self._place.machine, self._place.worktree
        if point.more.machine != machine or (machine and point.worktree != key):
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


def list_turns(context: Context, options: "ParsedOptions", done: Done) -> int:
    """casrewind list."""
    if not os.environ.get(launch.INSIDE):
        return _list(context, options, done)
    set_width(_COLUMNS)
    try:
        return _list(context, options, done)
    finally:
        set_width(None)


def _list(context: Context, options: "ParsedOptions", done: Done) -> int:
    if options.remote:
        return _list_remote(context, options, done)
    with context.store.holding():
        everything: Sequence[_Found] = ()
        view = _newest_view(context, options)
        if view is None:
            everything = context.store.checkpoints()
            view = TurnView(context, everything=everything, needs_operations=False)
        if any(turn.to_now for turn in view.turns):
            with suppress(errors.CasrewindError):  # then such a turn is not counted
                view.scan()
        chosen = _Filter(context, options, view, ReferencePlace(context.root.key, "", ""))
        steps = _selected_rows_in_parts(view, chosen, options)
        rows = [] if options.all and not options.json else next(steps, [])
    points = _selected_checkpoints(everything, chosen, options) if options.all or options.json else []
    done()
    damaged: list[Row] = []
    if options.json:
        print_json(_list_json(view, points, rows, lookup.current_id(context)))
        damaged += filter(_is_damaged, rows)
    elif options.all:
        names = _worktree_names((point for point, _ in points), context.root.key)
        _print_checkpoints(view, points, names, lookup.current_id(context), options, is_filtered=not chosen.selects_everything)
    else:
        from ..terminal.pager import pager

        with pager(options):
            _print_rows(context, view, _rows_until_forgotten(context, view, rows, steps), chosen, options, damaged)
            if not options.oneline:
                _print_count_elsewhere(context)
    if options.all:  # checkpoints themselves are read from the index
        return OK
    if view.is_damaged:
        note("restores are missing here, because the ledger is damaged: casrewind verify shows what is")
    return errors.StoreDamaged.exit_code if view.is_damaged or damaged else OK


def _newest_view(context: Context, options: "ParsedOptions") -> TurnView | None:
    """A view of the newest turns, if they are enough for these options. None: all checkpoints have to be read."""
    is_filtered = options.grep or options.since is not None or options.session is not None
    if options.number is None or options.all or options.json or is_filtered or os.environ.get(launch.INSIDE):
        return None
    from ...ops import newest_turns

    return newest_turns.read_rows(context, options.number, max(options.number, _SET_COLUMNS) + 1)


def _list_remote(context: Context, options: "ParsedOptions", done: Done) -> int:
    """List the checkpoints of other machines, each machine below a line of its own."""
    from ..terminal.pager import pager

    with context.store.holding():
        everything = context.store.checkpoints()
        known = lookup.machines(everything)
        places = [ReferencePlace(key, name, "") for name, key in known.items()]
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
                part.print(options, lookup.current_id(context))
    return errors.StoreDamaged.exit_code if any(map(_is_damaged, (row for part in parts for row in part.rows))) else OK


class _MachineRows:
    """What is listed of one other machine."""

    def __init__(
        self, context: Context, options: "ParsedOptions", everything: Sequence[_Found], place: ReferencePlace, *, is_only: bool
    ) -> None:
        """Reads the rows. `is_only`: there is no other machine, so `remote:` names it, too."""
        self._place = place
        self._prefix = REMOTE if is_only else place.prefix
        self._own = [pair for pair in everything if pair[0].worktree == place.worktree]
        self._view = TurnView(context, everything=self._own, needs_operations=False, place=place)
        self._chosen = _Filter(context, options, self._view, place)
        self._selected_checkpoints = _selected_checkpoints(self._own, self._chosen, options) if options.all or options.json else []
        self.rows = (
            [row for step in _selected_rows_in_parts(self._view, self._chosen, options) for row in step]
            if options.json or not options.all
            else []
        )

    def shape(self, current: str) -> "Shape":
        """The machine as JSON."""
        from ..show import shapes

        root = shapes.path(self._own[0][0].root, "root")
        return {"machine": self._place.machine, **root, **_list_json(self._view, self._selected_checkpoints, self.rows, current)}

    def print(self, options: "ParsedOptions", current: str) -> None:
        """Print a line for the machine, and its rows."""
        newest, turns = self._own[0][0], self._view.turns
        if not options.oneline:
            count = plural(len(turns), "turn") if turns else plural(len(self._own), "checkpoint")
            where = f"{printable(self._place.machine)}: {count}, the newest {age_in_words(newest.created_ns)}, of {printable(newest.root)}"
            print_line(cut_to(where, terminal_width()))
        if options.all:
            is_filtered = not self._chosen.selects_everything
            _print_checkpoints(self._view, self._selected_checkpoints, {}, current, options, is_filtered=is_filtered, prefix=self._prefix)
            return
        writer = RowWriter(self._view, terminal_width(), len(turns), names_sessions=False, prefix=self._prefix)
        for row in self.rows:
            print_lines([Line(_short_line(writer, row))] if options.oneline else writer.lines(row))
        if not self.rows:
            print_line("  no turn matches" if turns else "  no turns: casrewind list --remote --all has every checkpoint")


def _selected_rows_in_parts(view: TurnView, chosen: _Filter, options: "ParsedOptions") -> Iterator[list[Row]]:
    """Yield the selected rows in parts. JSON and the reverse order need all rows in one part.

    `-n` counts turns, or rows if the view has no turns.
    """
    found = islice(view.rows(options.number, chosen.takes_row), None if view.turns else options.number)
    most = None if options.json or options.reverse else _STEP
    while rows := list(islice(found, most)):
        yield rows[::-1] if options.reverse else rows


def _rows_until_forgotten(context: Context, view: TurnView, rows: list[Row], steps: Iterator[list[Row]]) -> Iterator[Row]:
    """The rows of the first step and of all others. The store's lock is held only while a step is read.

    A pager may wait between two steps. If gc forgets the checkpoints of a row in that time, the list ends with "forgotten".
    """
    while rows:
        yield from rows
        if len(rows) < _STEP or (isinstance(rows[-1], Forgotten) and not rows[-1].checkpoint):
            return
        sys.stdout.flush()
        with context.store.holding():
            rows = next(steps, [])
            at = next((at for at, row in enumerate(rows) if _is_damaged(row)), None)
            if at is not None and _has_forgotten(context, view):
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


def _list_json(view: TurnView, points: Sequence[_Found], rows: Sequence[Row], current: str) -> "Shape":
    from ..show import shapes

    return {
        "checkpoints": [shapes.checkpoint(point, marked, current, view.turn_of(point.id)) for point, marked in points],
        "turns": [shapes.turn(row) for row in rows if isinstance(row, Turn)],
        "rows": [shapes.row(row) for row in rows],
    }  # fmt: skip


def _sessions_of_this_shell(context: Context) -> dict[str, int | None] | None:
    """The session in which a person typed this command, with those that it continues; None in a terminal."""
    session = os.environ.get(launch.INSIDE, "")
    if len(session) < _LEAST_SESSION:
        return None
    from ...ops import conversation

    return conversation.session_and_ancestors(context, session)


def _print_rows(
    context: Context, view: TurnView, rows: "Iterable[Row]", chosen: _Filter, options: "ParsedOptions", damaged: list[Row]
) -> None:
    """Print each row as soon as it is read. Rows that cannot be read are added to `damaged`."""
    others = sum(map(chosen.is_elsewhere, view.turns))
    is_cut = options.number is not None and chosen.selects_everything and not others
    highest = min(options.number or 0, len(view.turns)) if is_cut else len(view.turns)
    turns = view.turns[: max(highest, _SET_COLUMNS)] if is_cut else view.turns
    inside = bool(os.environ.get(launch.INSIDE))
    writer = (
        RowWriter(view, terminal_width(), highest, _PATHS, names_sessions=False)
        if inside
        else RowWriter(view, terminal_width(), highest, turns=turns)
    )
    is_there = False
    for row in rows:
        is_there = True
        damaged += [row] if _is_damaged(row) else []
        print_lines([Line(_short_line(writer, row))] if options.oneline else writer.lines(row))
    if others:
        print_line(f"{plural(others, 'turn')} of other sessions: a terminal lists them")
    if not chosen.selects_everything:
        if not is_there:
            print_line("no turn matches; casrewind list --all has every checkpoint")
    elif not view.turns:
        print_line(_without_turns(context.store.count(context.root.key)))


def _print_count_elsewhere(context: Context) -> None:
    """One line about the checkpoints of other worktrees in this store, if there are any."""
    newest = context.store.listed_heads()
    others = [point for point in newest if point.worktree != context.root.key and not point.more.machine]
    if others:
        names = [printable(point.root) for point in others]
        subject = f"the worktree {names[0]} has" if len(names) == 1 else f"{len(names)} other worktrees have"
        print_lines([styled((f"{subject} checkpoints, too: casrewind list --all", DIM))])


def _worktree_names(points: "Iterable[Checkpoint]", own: bytes) -> dict[bytes, str]:
    """{key of another worktree: the name of its directory, or its path where two have that name}."""
    roots = {point.worktree: printable(point.root) for point in points if point.worktree != own}
    names = [root.rpartition("/")[2] for root in roots.values()]
    return {key: name if names.count(name) == 1 else root for (key, root), name in zip(roots.items(), names, strict=True)}


def _without_turns(count: int) -> str:
    if not count:
        return "no checkpoints to show; casrewind save makes one"
    return f"no turns yet; {plural(count, 'checkpoint')}: casrewind list --all"


def _short_line(writer: RowWriter, row: Row) -> str:
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
    if options.oneline:
        for point, marked in found:
            what = first_line(description(point, marked)) or point.trigger.replace("_", " ")
            worktree = f"{others[point.worktree]}: " if point.worktree in others else ""
            line = f"{point.id}  {age_in_words(point.created_ns):>10}  {worktree}{what}"
            print_line(cut_to(line, terminal_width()))
        return
    if not found:
        print_line("no checkpoint matches" if is_filtered else "no checkpoints to show; casrewind save makes one")
        return
    names = ("id", "worktree", "turn", "when", "what", "files", "size", "changes")
    chosen = [True, bool(others), bool(view.turns), True, True, *[terminal_width() >= _NARROW] * 3]
    rows = []
    for point, marked in found:
        turn = view.turn_of(point.id)
        if turn is not None and not point.prompt:
            point = point._replace(prompt=turn.prompt)  # records of older versions have it at the start of a turn only
        what = description(point, marked) or ("" if point.trigger == checkpoints.MANUAL else point.trigger.replace("_", " "))
        signs = ("* " if marked.pinned else "") + first_line(what) + ("  (current)" if point.id == current else "")
        row = (
            point.id, others.get(point.worktree, ""), "" if turn is None else f"{prefix}@{turn.n}",
            age_in_words(point.created_ns), signs, f"{point.files:,}", human_size(point.size), signed_counts(point.changes),
        )  # fmt: skip
        rows.append([cell for cell, is_there in zip(row, chosen, strict=True) if is_there])
    print_table([name for name, is_there in zip(names, chosen, strict=True) if is_there], rows, right=("files", "size"), last="what")

