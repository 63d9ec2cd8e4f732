"""Rows of turns as text, for 40 columns and for 400.

A terminal of fewer than 72 columns gets two lines a row; without sessions, one of fewer than 62. Output that is no terminal gets one
line a row: nothing is cut, and at most three paths are named. Of the paths, removals are first, with a minus.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...agents.transcript import TAG
from ...messages import age_in_words, enumerated, first_line, format_moment, plural, printable
from ...model.checkpoint import MANUAL, RUN, SAFETY, TAKEN_FROM, Checkpoint
from ...model.diff import Change, counted_changes
from ...model.taken_back import FoldedPairs, ListRow, UndonePair, fold_undone
from ...model.turn_records import (
    BACKGROUND,
    NOT_SAVED,
    OPERATIONS,
    TYPED,
    LookedAt,
    Outside,
    Reset,
    Row,
    SavedRow,
    Turn,
)
from ...model.undo_history import RESTORE, REVERT
from ...store.catalog import Marked
from ...typed_commands import as_typed
from .changes import RENAMED, changes_with_renames, shown_path, unclear_notes
from .restored import marks_in_brackets, name_of, quoted_title
from .row_columns import COUNTS, RowLayout, RowText, lines_in_columns, narrow_lines
from .text import DIM, PIPED, SIGNS, Line, column_width, cut_to, description, styled

if TYPE_CHECKING:
    from ...history.changes_back import ChangesBack
    from ...history.turn_view import Maker, TurnView

NOTHING, NOT_COUNTED = "nothing changed", "not counted"
_NARROW, _WIDE = 72, 100
_NAMES = 10
"""Paths that a row names at most."""
_NAMED_TURNS = 8
"""Turns that a few words about rows name."""
_PIPED_NAMES = 3
"""The same in output that is no terminal."""
_LEAST_TITLE = 18
"""Columns of a title in a row of one line."""
_OPERATION = 26
"""Columns of "undone: the restore to @2": a row of what is no turn has the columns of the others."""
_LEAST_PATHS = 13
_CURRENT, _UNKNOWN_WAY = "(current)", "not known"
_COUNTED_FILES = 99
"""More files than that are not counted out: prompts need the columns, and the plan has the number."""
_WAY = 15
"""Columns of "would change 99" and of "changes over 99"."""
_WHEN = 10
"""Columns of "12 min ago"."""
_PIPED_PATHS = 26
"""Columns of paths in output that is no terminal. Longer ones are not cut there."""
_MOST_ID = 13
"""Characters of a session's id, at most."""
_KINDS = {TYPED: "typed in the client (!)", BACKGROUND: "work in the background of @{}"}
_DONE = {
    "restored": "restored to {}", "undone": "undone: {}", "redone": "redone: {}", "reverted": "reverted {}",
    "taken": "taken from a copy of {}", "aborted": "taken back, interrupted: {}",
}  # fmt: skip
_DONE_FROM = {"taken": "taken from {}", "undone": "undone: taken from {}", "redone": "redone: taken from {}"}


class RowWords(NamedTuple):
    """What every list says of a row: `list`, `log`, a client's list and the picker."""

    title: str
    ending: str = ""
    """Words behind the title, which are never cut: the marks of a turn."""
    note: str = ""
    """What is special about the changes, in brackets."""
    is_pinned: bool = False
    meta: str = ""
    """The meta of a save, a line for each key."""


class RowWriter:
    """Turns rows of one view into lines."""

    def __init__(
        self, view: "TurnView", columns: int = PIPED, highest: int | str = 1, names: int = _NAMES, *, names_sessions: bool = True,
        prefix: str = "", turns: Sequence[Turn] | None = None, back: "ChangesBack | None" = None,
    ) -> None:  # fmt: skip
        """`columns`: those of the output. `highest`: the highest number that is printed. `names`: the paths that a row names
        at most. `names_sessions`: a turn's row has its agent and session. `prefix`: what stands in front of a number.
        `turns`: the turns whose sessions determine the columns; None = all turns. `back`: it counts for each turn what a restore
        to before it would change, which then stands in place of the paths."""
        self._view, self._columns = view, columns
        self._names = names if columns < PIPED else min(names, _PIPED_NAMES)
        self._highest, self._prefix, self._back = highest, prefix, back
        self._sides = sides_of(view.turns)
        self._names_sessions = names_sessions
        self._turns = view.turns if turns is None else turns
        self._agents = {turn.agent for turn in self._turns if turn.agent != RUN}
        self._length = _id_length({(turn.agent, turn.session) for turn in self._turns})
        self._layout = self._measured_layout()

    def move_to(self, view: "TurnView") -> None:
        """Turn rows of another view of the same timeline into lines. The columns stay."""
        if view is not self._view:
            self._view, self._sides = view, sides_of(view.turns)

    def lines(self, row: ListRow, *, paths: bool = True) -> Iterator[Line]:
        """The lines of a row in the columns of the list. With `paths`, they name the changed paths."""
        found = self.row_text(row)
        if not paths and found.total:
            found = found._replace(counts=f"{found.counts} {found.note}".rstrip(), paths=(), total=0, note="")
        found = found._replace(paths=found.paths[: self._names])
        is_narrow = self._layout.title < _LEAST_TITLE or (self._layout.session and self._layout.width < _NARROW)
        for line in (narrow_lines if is_narrow else lines_in_columns)(found, self._layout):
            yield styled((line.text, DIM)) if found.is_dim else line
        for text in found.below:
            yield styled((cut_to(self.indent + text, self._layout.width), DIM))

    @property
    def indent(self) -> str:
        """The spaces in front of a title."""
        return " " * (self._layout.mark + 4)

    def row_text(self, row: ListRow) -> RowText:
        """The words of a row, and what stands beside them."""
        if isinstance(row, UndonePair):
            done = self.row_text(row.done)
            return done._replace(ending=done.ending + row.ending, is_dim=True)
        if isinstance(row, FoldedPairs):
            return RowText("", f"{row.number:,} more, undone: {as_typed('list --all')}", is_dim=True)
        words = self.words(row)
        title = ("* " if words.is_pinned else "") + words.title
        if isinstance(row, Turn):
            text = RowText(f"{self._prefix}{row.name}", title, ending=words.ending, note=words.note, is_dim=row.taken_back)
            return self._turn_text(row, text)
        if isinstance(row, Outside):
            seen = "now" if row.seen_ns is None else ("seen " if self._layout.width >= _WIDE else "") + age_in_words(row.seen_ns)
            return self._with_changes(RowText("", title, seen, note=words.note), row)
        if isinstance(row, SavedRow):
            return RowText("", title, age_in_words(row.at_ns), plural(row.files, "file"))
        if isinstance(row, Reset):
            found = RowText("", title, age_in_words(row.at_ns), note=words.note, ending=words.ending)
            return self._with_changes(found, row)._replace(paths=(), total=0) if _has_counts(row) else found._replace(counts=NOT_COUNTED)
        return RowText("", title, age_in_words(row.at_ns), is_dim=True) if isinstance(row, LookedAt) else RowText("", title)

    def words(self, row: Row | LookedAt) -> RowWords:
        """What every list says of a row."""
        return words_of(row, self._view.named, self._view.marks, self._sides)

    def checkpoint_title(self, point: Checkpoint, marked: Marked) -> str:
        """What a list of all checkpoints says of one."""
        if not marked.label and (title := self.safety_title(point) or subagent_event(point, self._sides)):
            return f"{title}: {point.prompt}" if point.prompt and point.trigger == SAFETY else title
        return description(point, marked) or ("" if point.trigger == MANUAL else point.trigger.replace("_", " "))

    def safety_title(self, point: Checkpoint) -> str:
        """See the function `safety_title`."""
        return safety_title(point, self._view.named, self._view.marks, self._sides, origin=self._view.origin_of(point.id))

    def session_of(self, turn: Turn) -> str:
        """The agent and the short id of a turn's session."""
        return printable(f"{turn.agent} {turn.session[: self._length]}".strip())

    def made_by(self, maker: "Maker") -> str:
        """Who made a change, in words."""
        if maker.operation is not None:
            done = maker.operation
            origin = self._view.origin_of(done.safety)
            return done_title(maker.by, done.target, done.safety, self._view.named, self._view.marks, self._sides, origin=origin)
        if maker.by == "outside" and maker.turns:
            return _KINDS[BACKGROUND].format(maker.turns[0].n)
        return " or ".join(f"@{turn.n} {turn.title}" for turn in maker.turns) or "edited outside of a turn"

    def _turn_text(self, turn: Turn, found: RowText) -> RowText:
        when = "" if turn.at_ns is None else age_in_words(turn.at_ns)
        below = tuple(f"+ {first_line(text)}" for text in turn.also)
        older = self._view.turns[turn.n].branch if turn.n < len(self._view.turns) and not turn.subagent else ""
        if turn.branch and older and turn.branch != older:
            below += (f"branch {printable(older)} -> {printable(turn.branch)}",)
        if turn.not_saved:
            below += (f"{NOT_SAVED}: with edits of the turns beside it",)
        if told := elsewhere_in_words(turn):
            below += (told,)
        found = found._replace(when=when, session=self._short_session(turn), below=below)
        if self._back is not None:
            return self._with_way_back(found, turn, self._back)
        if _has_counts(turn):
            found = self._with_changes(found, turn)
            return found._replace(counts=f"so far {found.counts}") if turn.running else found
        if turn.running:
            return found._replace(counts="so far", paths=(NOT_COUNTED,), total=1)
        return found._replace(counts=why_unknown(turn))

    def _with_way_back(self, found: RowText, turn: Turn, back: "ChangesBack") -> RowText:
        """The row with what the turn changed, and how many files would change if somebody went back to before it."""
        counted = back.count(turn)
        told = self._with_changes(found, turn) if turn.changes and not turn.damaged else found
        if counted is None:
            return told._replace(paths=(_UNKNOWN_WAY,), total=1, note="")
        number = counted.written + counted.removed
        way = f"changes over {_COUNTED_FILES}" if number > _COUNTED_FILES else f"would change {number}"
        return told._replace(paths=(way if number else _CURRENT,), total=1, note="")

    def _with_changes(self, found: RowText, row: Turn | Outside | Reset) -> RowText:
        """The row with its counts and paths. A file that came back under another name is one."""
        if row.changes is None:
            return found._replace(counts="cannot be read: damaged in the store")
        renames = self._view.find_renames(row)
        told = [change for change, rename in changes_with_renames(counted_changes(row.changes), renames) if rename is None]
        numbers = dict.fromkeys("+~-", 0) | {RENAMED: len(renames)}
        for change in told:
            numbers[SIGNS[change.status]] += 1
        counts = " ".join(f"{sign}{number:,}" for sign, number in numbers.items() if number)
        removed = [f"-{printable(shown_path(change))}" for change in told if change.new is None]
        moved = [f"{printable(item.source)} -> {printable(item.path)}" for item in renames]
        names = (*removed, *moved, *(printable(shown_path(change)) for change in told if change.new is not None))[:_NAMES]
        return found._replace(counts=counts or NOTHING, paths=names, total=len(told) + len(renames))

    def _short_session(self, turn: Turn) -> str:
        if not self._names_sessions:
            return ""
        is_short = self._columns < _WIDE and len(self._agents) == 1
        return printable(turn.session[: self._length]) if is_short and turn.session else self.session_of(turn)

    def _measured_layout(self) -> RowLayout:
        columns = self._columns
        mark = column_width(f"{self._prefix}@{self._highest}")
        session = max((column_width(self._short_session(turn)) for turn in self._turns), default=0)
        if columns >= PIPED:
            return RowLayout(columns, mark, 34, _WHEN + 5, _PIPED_PATHS, session)
        when = _WHEN + (5 if columns >= _WIDE else 0)
        left = columns - mark - when - COUNTS - session - (12 if session else 10)
        title = min(max(left * 9 // 16, min(_OPERATION, left - _LEAST_PATHS)), 44) if self._back is None else left - _WAY
        return RowLayout(columns, mark, title, when, left - title, session)


def checkpoints_in_words(number: int, safety: int) -> str:
    """How many checkpoints a worktree has: those that a person or an agent saved, and safety checkpoints."""
    return plural(number, "checkpoint") + (f" and {safety:,} safety {'one' if safety == 1 else 'ones'}" if safety else "")


def is_shown(row: Row | LookedAt) -> bool:
    """False for a save without a label while a turn ran: it folds behind the turn."""
    return not (isinstance(row, SavedRow) and row.during and not row.label)


def rows_in_words(rows: Sequence[Row]) -> str:
    """Rows in a few words: "@1, @2, 1 other change and 30 turns that changed nothing". A save is no change."""
    turns = [row for row in rows if isinstance(row, Turn)]
    names = [f"@{row.n}{' (running)' if row.running else ''}" for row in turns if not row.changed_nothing]
    others = sum(isinstance(row, Outside | Reset) for row in fold_undone(rows))
    counts = (
        (len(names) - _NAMED_TURNS, "other turn", ""), (others, "other change" if names else "change", ""),
        (sum(row.changed_nothing for row in turns), "turn", " that changed nothing"),
    )  # fmt: skip
    return enumerated([*names[:_NAMED_TURNS], *(plural(number, word) + more for number, word, more in counts if number > 0)])


def reviewed_lines(what: str, before: Sequence[Row], left: Sequence[Row], *, names_old: bool = True) -> Iterator[Line]:
    """That `what` was marked as looked at, and what that makes of rows that were new `before`, and of those that are new now.
    `names_old`: with what is no longer new."""
    new, old = {_identity(row) for row in left}, {_identity(row) for row in before}
    yield Line(f"marked as reviewed: {what}")
    parts = (
        ("no longer new", [row for row in before if _identity(row) not in new]),
        ("new again", [row for row in left if _identity(row) not in old]),
        ("still new", [row for row in left if _identity(row) in old]),
    )
    told = [(name, words) for name, rows in parts if (words := rows_in_words(rows))]
    yield from (Line(f"{name}: {words}") for name, words in told if names_old or name != "no longer new")
    if all(name == "no longer new" for name, _ in told):
        yield Line("nothing is new now")


def _identity(row: Row) -> tuple[str, int]:
    """What a row has in every list of one moment."""
    if isinstance(row, Turn):
        return row.id, 0
    return (row.safety, row.at_ns) if isinstance(row, Reset) else (row.checkpoint, 1)


def words_of(row: Row | LookedAt, points: Mapping[str, Checkpoint], marks: Mapping[str, Marked], sides: Mapping[str, Turn]) -> RowWords:
    """What every list says of a row. `points` and `marks` by id; `sides`: see `sides_of`."""
    if isinstance(row, Turn):
        pinned = any(one is not None and marks[one].pinned for one in (row.before, row.after))
        word = "unknown" if row.subagent else "shared"
        note = _note_on_changes(row.changes, shared=row.unsure, word=word, purged=len(row.purged), unclear=row.unclear, damaged=row.damaged)
        return RowWords(row.title, marks_in_brackets(row), note, pinned)
    if isinstance(row, Outside):
        note = _note_on_changes(row.changes, purged=len(row.purged), unclear=row.unclear, damaged=row.damaged)
        return RowWords(outside_title(row), note=note)
    if isinstance(row, SavedRow):
        point = points[row.checkpoint]
        description = point.label  # casrewind run in an agent's shell writes a label that keeps nothing
        noted = ", ".join(meta_lines(point))
        title = first_line(f"saved: {row.label}" if row.label else description or (f"saved: {noted}" if noted else "saved"))
        return RowWords(title + _while_running(row.during), is_pinned=marks[row.checkpoint].pinned, meta="\n".join(meta_lines(point)))
    if isinstance(row, Reset):
        machine = points[row.target].more.machine if row.target in points else ""
        ending = f" of {printable(machine)}" if machine else ""  # a long prompt in front of it is cut
        title = done_title(row.kind, row.target, row.safety, points, marks, sides, origin=row.reversed.origin, is_short=True)
        title = title.removesuffix(ending) + (", with what was edited after it" if row.loose else "")
        return RowWords(title + _while_running(row.during), ending, _note_on_changes(row.changes, unclear=row.unclear, damaged=row.damaged))
    return RowWords("-- reviewed up to here" if isinstance(row, LookedAt) else "older checkpoints are not here")


def searchable_texts(row: Row | LookedAt, words: RowWords) -> str:
    """The texts of a row that a filter searches."""
    if isinstance(row, Turn):
        return "\n".join((row.prompt, *row.also))
    label = row.label if isinstance(row, SavedRow) else ""  # a title has its first line
    return f"{words.title}\n{label}\n{words.meta}"


def meta_lines(point: Checkpoint) -> list[str]:
    """The meta of a checkpoint: key=value."""
    return [f"{key}={value}" for key, value in point.more.meta]


def outside_title(row: Outside) -> str:
    """What changed the files while no turn ran."""
    edited = f"edited by {printable(row.by)} or you" if row.by else "edited outside of a turn" if row.checkpoint else "edited since"
    return _KINDS.get(row.kind, edited).format(row.of)


def sides_of(turns: Sequence[Turn]) -> dict[str, Turn]:
    """{id of a checkpoint: the turn before or after which it is the state, or the subagent before which}. Before counts first, then the
    newest turn."""
    oldest_first = turns[::-1]
    found = {turn.after: turn for turn in oldest_first if turn.after}
    found |= {one.before: one for turn in oldest_first for one in turn.subagents if one.before}
    return found | {turn.before: turn for turn in oldest_first if turn.before}


def done_title(
    kind: str, target: str, safety: str, points: Mapping[str, Checkpoint], marks: Mapping[str, Marked], sides: Mapping[str, Turn], *,
    origin: str = "", is_short: bool = False
) -> str:  # fmt: skip
    """A restore, undo, redo or revert with its target: before or after a prompt, or a name; a take with its directory. For
    undo and redo: that of their restore, whose safety checkpoint is `origin` ("" = unknown). `points` and `marks` by id; `sides`: see
    `sides_of`. `is_short`: a turn's number stands for its prompt."""
    if kind in _DONE_FROM and (place := _taken_from(safety, points)):
        return _DONE_FROM[kind].format(place)
    return _DONE[kind].format(_name_of_goal(kind, target, points, marks, sides, origin=origin, is_short=is_short))


def safety_title(
    point: Checkpoint, points: Mapping[str, Checkpoint], marks: Mapping[str, Marked], sides: Mapping[str, Turn], *, origin: str = ""
) -> str:
    """The name of a safety checkpoint: before the restore to @2. "" for others. The arguments are those of `done_title`."""
    op = point.more.op if point.trigger == SAFETY else ""
    if not op:
        return ""
    kind = OPERATIONS.get(op, OPERATIONS[RESTORE])
    if place := _taken_from(point.id, points):
        return f"before what was taken from {place}"
    goal = _name_of_goal(kind, point.more.target, points, marks, sides, origin=origin, is_short=True)
    return f"before the {op} {'to' if kind == OPERATIONS[RESTORE] else 'of'} {goal}"


def subagent_event(point: Checkpoint, sides: Mapping[str, Turn]) -> str:
    """What a checkpoint says of the subagent that began or ended at it: its task, else its type. "" if none did. `sides`: see
    `sides_of`."""
    more, turn = point.more, sides.get(point.id)
    if not more.subagent or not point.is_saved:
        return ""
    name = turn.title if turn is not None and turn.subagent else first_line(more.subagent_task or more.subagent_type)
    return f"subagent {'ended' if point.trigger == 'turn_end' else 'began'}: {name}"


def _taken_from(safety: str, points: Mapping[str, Checkpoint]) -> str:
    """The name of the directory that a take brought changes of, by its safety checkpoint; else ""."""
    place = points[safety].meta.get(TAKEN_FROM, "") if safety in points else ""
    return printable(place.rpartition("/")[2])


def _name_of_goal(
    kind: str, target: str, points: Mapping[str, Checkpoint], marks: Mapping[str, Marked], sides: Mapping[str, Turn], *,
    origin: str, is_short: bool,
) -> str:  # fmt: skip
    """What an operation goes to, or takes back: see `done_title`."""
    if kind == "aborted" and target in points and points[target].more.op:
        origin, target = target, points[target].more.target
    is_revert = kind == "reverted" or (origin in points and points[origin].more.op == REVERT)
    turn = sides.get(target)
    is_before = turn is not None and target == turn.before
    if turn is not None and (is_before or not is_revert):
        if is_short:
            name = turn.name if is_before else f"after:{turn.name}"
        else:
            name = quoted_title(turn) if is_revert else f"{'before' if is_before else 'after'} {quoted_title(turn)}"
    elif target in points and not is_revert:
        name = name_of(points[target], marks[target])
    else:
        name = printable(target) or "an earlier state"
    if kind in ("undone", "redone", "aborted"):
        name = f"the {'revert of' if is_revert else 'restore to'} {name}"
    return name


def end_in_words(turn: Turn) -> str:
    """A turn's marks, and what more a person has to know of its end: it still runs, was not seen, or not saved. Else ""."""
    more = ""
    if turn.not_saved:
        more = f"{NOT_SAVED}: its change may contain edits of the turns beside it"
    elif turn.running:
        return f"running{'' if turn.agent == RUN else ', or stopped with Esc'}: what it changed so far"
    elif turn.mixed:
        until = "now" if turn.ended_ns is None else format_moment(turn.ended_ns)[11:]
        more = f"{'' if turn.cut_short else 'its end was not seen; '}with what was edited until {until}"
    return "; ".join(filter(None, (", ".join(turn.marks), more)))


def elsewhere_in_words(turn: Turn) -> str:
    """Where the work of a subagent is that has a worktree of its own; else ""."""
    return f"it works in {printable(turn.place)}, which has a list of its own" if turn.place else ""


def why_unknown(turn: Turn) -> str:
    """Why the changes of a turn are unknown."""
    if turn.before is None:
        return "its start was forgotten"
    return NOT_COUNTED if turn.to_now else "its end was forgotten"


def _has_counts(row: Turn | Reset) -> bool:
    return row.changes is not None or row.damaged


def _note_on_changes(
    changes: Sequence[Change] | None,
    *,
    purged: int = 0,
    damaged: bool,
    shared: Collection[bytes] = (),
    word: str = "shared",
    unclear: Sequence[Change] = (),
) -> str:
    """What is special about the changes of a row, "" if nothing is, or if they are not known."""
    if changes is None:
        return ""
    notes = []
    told = counted_changes(changes) if shared else []
    count = sum(change.path in shared for change in told)
    if count:
        notes.append(word if len(told) == 1 else f"{count} {word}")
    if purged:
        notes.append(f"{purged} purged")
    notes += unclear_notes(unclear)
    if damaged:
        notes.append("some of it is damaged")
    return f"({', '.join(notes)})" if notes else ""


def _while_running(during: Sequence[int]) -> str:
    return f" (while {' and '.join(f'@{number}' for number in during)} ran)" if during else ""


def _id_length(sessions: "set[tuple[str, str]]") -> int:
    """The characters that tell these sessions apart."""
    length = TAG
    while length < _MOST_ID and len({(agent, session[:length]) for agent, session in sessions}) < len(sessions):
        length += 1
    return length
