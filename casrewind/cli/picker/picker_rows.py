"""The rows of the picker's timeline: turns, what lies between them, and the checkpoints inside of an unfolded turn.

The danger prevented here: a row that describes one moment and restores another. Each row names one checkpoint as its
target, or none. This module knows no screen and reads no store.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ..._typing import NamedTuple
from ...history.checkpoint_names import is_kept_by_mark, label_of
from ...messages import first_line, plural, printable
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...model.diff import Change, Counts, count
from ...model.taken_back import UndonePair
from ...model.turn_records import Forgotten, LookedAt, Outside, Reset, Row, SavedRow, Turn
from ...store.catalog import UNMARKED, Marked
from ..show.rows import RowWords, safety_title, searchable_texts, subagent_event, why_unknown, words_of

_SESSION_CHARACTERS = 4
"""Characters of a session's id: enough to tell a project's sessions apart."""


class PickerRow(NamedTuple):
    """One line of the timeline.

    `key` identifies it over a reload. `item` is what it shows. `seq` is the place of its checkpoint in the ledger.
    `target`: the id of the checkpoint that this row restores, "" = none. `is_final`: its changes are known, or never
    will be. `is_inside`: it is a checkpoint inside of an unfolded turn. `ending`: that it was undone, or redone.
    """

    key: str
    item: Row | LookedAt | Checkpoint
    seq: int
    target: str
    is_final: bool
    is_inside: bool = False
    ending: str = ""


class PickerTimeline(NamedTuple):
    """All rows, newest first, and what they are made of.

    `points` and `marks`: the checkpoints of this worktree and their marks by id. `inside`: see `rows_inside_turns`. `sides`:
    see `sides_of`. `sessions`: {session: its number}. `turns`: the number of turns. `elsewhere`: the checkpoints of
    other worktrees, newest first. `unfinished`: details of an interrupted restore. `is_complete`: the rows between
    older turns are known, too. `named`: `points`, and those of other machines that were restored here. `total`: how many
    checkpoints the worktree has, if only the newest of them were read; they are in `points`, and their turns in `turns`.
    """

    rows: list[PickerRow]
    points: Mapping[str, Checkpoint]
    marks: Mapping[str, Marked]
    inside: Mapping[str, list[PickerRow]]
    sides: Mapping[str, Turn]
    sessions: Mapping[str, int]
    turns: int
    elsewhere: list[PickerRow]
    unfinished: list[str]
    is_complete: bool
    named: Mapping[str, Checkpoint] = {}
    total: int | None = None
    origin_of: Callable[[str], str] = lambda _: ""
    """See TurnView.origin_of."""
    unsaved: str = ""
    """Whether the files of now are saved, "" = the worktree was not scanned since."""


def row_of(item: Row | LookedAt | UndonePair, points: Mapping[str, Checkpoint], newest: str) -> PickerRow:
    """The line of a row of the turn view. `newest`: the id of the newest checkpoint."""
    if isinstance(item, UndonePair):
        return row_of(item.done, points, newest)._replace(ending=item.ending)
    if isinstance(item, Turn):
        return PickerRow("turn " + item.id, item, points[item.id].seq, item.before or "", item.changes is not None)
    if isinstance(item, Outside):
        seen = item.checkpoint or newest
        return PickerRow(f"outside {item.kind} {item.checkpoint}", item, points[seen].seq, item.before or seen, is_final=True)
    if isinstance(item, Reset):
        return PickerRow(f"reset {item.safety} {item.at_ns}", item, points[item.safety].seq, item.safety, is_final=True)
    if isinstance(item, SavedRow):
        return PickerRow("saved " + item.checkpoint, item, points[item.checkpoint].seq, item.checkpoint, is_final=True)
    if isinstance(item, LookedAt):
        return PickerRow("looked at", item, item.seq, "", is_final=True)
    return PickerRow("forgotten " + item.checkpoint, item, points[item.checkpoint].seq, "", is_final=True)


def point_row(point: Checkpoint) -> PickerRow:
    """The line of a checkpoint."""
    return PickerRow("point " + point.id, point, point.seq, point.id, is_final=True, is_inside=True)


def rows_inside_turns(turns: Sequence[Turn], points: Mapping[str, Checkpoint], shown: Collection[str]) -> dict[str, list[PickerRow]]:
    """{id of a turn: its checkpoints and those that fold away behind it, newest first}. `shown` have rows of their own.

    What is older than all turns belongs to the oldest one. Without a turn there is "", which has them all.
    """
    owners = {identity: turn.id for turn in turns for identity in turn.checkpoints}
    opened = sorted(((points[turn.id].seq, turn.id) for turn in turns), reverse=True)
    found: dict[str, list[PickerRow]] = {}
    at = 0
    for point in sorted(points.values(), key=lambda point: -point.seq):
        while at < len(opened) - 1 and opened[at][0] > point.seq:
            at += 1
        owner = owners.get(point.id)
        if owner is None and point.id in shown:
            continue
        found.setdefault(owner or (opened[at][1] if opened else ""), []).append(point_row(point))
    return found


def visible_rows(timeline: PickerTimeline, unfolded: Collection[str], *, everything: bool) -> Iterator[PickerRow]:
    """The rows with the checkpoints of the `unfolded` turns; with `everything`, of all turns and other worktrees."""
    elsewhere = list(reversed(timeline.elsewhere)) if everything else []
    if not timeline.turns:
        elsewhere += [row for row in timeline.inside.get("", ()) if everything or not timeline.rows]
        elsewhere.sort(key=lambda row: row.seq)
    for row in timeline.rows:
        while elsewhere and elsewhere[-1].seq > row.seq:
            yield elsewhere.pop()
        yield row
        if isinstance(row.item, Turn) and (everything or row.key in unfolded):
            yield from timeline.inside.get(row.item.id, ())
    yield from reversed(elsewhere)


def rows_with_words(timeline: PickerTimeline, rows: Iterable[PickerRow], words: str) -> list[PickerRow]:
    """The rows that contain all words in their title, prompts, session, id, label or changed paths."""
    wanted = words.casefold().split()
    return [row for row in rows if _has_all_words(timeline, row, wanted)]


def _has_all_words(timeline: PickerTimeline, row: PickerRow, wanted: Sequence[str]) -> bool:
    item = row.item
    parts = [number_of_turn(row), row_title(timeline, row), agent_and_session(row), row.target]
    if not isinstance(item, Checkpoint):
        parts.append(searchable_texts(item, _row_words(timeline, item)))
    if isinstance(item, Turn):
        parts += [item.session, item.id, item.branch]
        parts += [label_of(timeline.points[one], timeline.marks[one]) for one in item.checkpoints]
    text = "\n".join(parts).casefold()
    rest = [word for word in wanted if word not in text]
    if not rest:
        return True
    paths = [printable(change.path).casefold() for change in changes_of(row) or ()]
    return all(any(word in path for path in paths) for word in rest)


# -- the words of a row


def number_of_turn(row: PickerRow) -> str:
    """"@3" for a turn, else ""."""
    return f"@{row.item.n}" if isinstance(row.item, Turn) else ""


def row_title(timeline: PickerTimeline, row: PickerRow) -> str:
    """What a row is, in one line: the words of `list`. A turn has its label in front, and "…" for a prompt of more lines."""
    item = row.item
    if isinstance(item, Checkpoint):
        return _point_title(timeline, item, timeline.marks.get(item.id, UNMARKED))
    found = _row_words(timeline, item).title
    if not isinstance(item, Turn):
        return found
    label = _turn_label(timeline, item)
    return (f"[{label}] " if label else "") + found + (" …" if len(item.prompt.strip().splitlines()) > 1 else "")


def _row_words(timeline: PickerTimeline, item: Row | LookedAt) -> RowWords:
    return words_of(item, timeline.named or timeline.points, timeline.marks, timeline.sides)


def title_ending(timeline: PickerTimeline, row: PickerRow) -> str:
    """The words after a title that are never left out: that a turn runs, was cut short or taken back."""
    return "" if isinstance(row.item, Checkpoint) else _row_words(timeline, row.item).ending + row.ending


def remark_on(timeline: PickerTimeline, row: PickerRow) -> str:
    """The words after a title: its ending, and what is special about its changes."""
    note = "" if isinstance(row.item, Checkpoint) else _row_words(timeline, row.item).note
    return title_ending(timeline, row) + (f" {note}" if note else "")


def _turn_label(timeline: PickerTimeline, turn: Turn) -> str:
    """The label that a person gave to the checkpoint before a turn."""
    point = timeline.points.get(turn.before or "")
    marked = timeline.marks.get(turn.before or "", UNMARKED)
    if point is None or not label_of(point, marked) or (point.flags & checkpoints.DESCRIBED and not marked.label):
        return ""
    return first_line(label_of(point, marked))


def _point_title(timeline: PickerTimeline, point: Checkpoint, marked: Marked) -> str:
    label, origin = label_of(point, marked), timeline.origin_of(point.id)
    if not marked.label:
        named = timeline.named or timeline.points
        title = safety_title(point, named, timeline.marks, timeline.sides, origin=origin) or subagent_event(point, timeline.sides)
        if title:
            return title
    if point.flags & checkpoints.DESCRIBED and not marked.label and point.own_prompt:
        label = ""  # a text typed by a person is more useful
    made = "saved" if point.trigger == checkpoints.MANUAL else point.trigger.replace("_", " ")
    words = [made, f"[{first_line(label)}]" if label else "", first_line(point.own_prompt)]
    return " ".join(word for word in words if word)


def time_of(timeline: PickerTimeline, row: PickerRow) -> int | None:
    """When it was, in nanoseconds since 1970; None = now, or unknown."""
    item = row.item
    if isinstance(item, Turn):
        return item.at_ns
    if isinstance(item, Outside):
        return item.seen_ns
    if isinstance(item, Checkpoint):
        return item.created_ns
    if isinstance(item, Forgotten):
        return timeline.points[item.checkpoint].created_ns
    return item.at_ns


def changes_of(row: PickerRow) -> tuple[Change, ...] | None:
    """The known changes of a row; None if they are not known."""
    return row.item.changes if isinstance(row.item, Turn | Outside | Reset) else None


def change_counts(row: PickerRow) -> Counts | None:
    """The numbers of changes of a row, as `list` counts them. None: not known."""
    changes = changes_of(row)
    return None if changes is None else count(changes)


def words_for_counts(row: PickerRow) -> str:
    """The words in place of numbers."""
    item = row.item
    if isinstance(item, SavedRow):
        return plural(item.files, "file")
    if not isinstance(item, Turn):
        return ""
    if item.damaged:
        return "damaged"
    return why_unknown(item) if row.is_final else "..."


def agent_and_session(row: PickerRow) -> str:
    """The agent and the session; the worktree of a checkpoint of another one."""
    item = row.item
    return f"{item.agent} {short_session(row)}".strip() if isinstance(item, Turn | Checkpoint) else ""


def short_session(row: PickerRow) -> str:
    """The first characters of a row's session, "" = none."""
    return session_of(row)[:_SESSION_CHARACTERS]


def session_of(row: PickerRow) -> str:
    """The session that a row belongs to, "" = none."""
    return row.item.session if isinstance(row.item, Turn | Checkpoint) else ""


def is_turn_with_changes(row: PickerRow) -> bool:
    """True for a turn that changed something, or may have, unless it was taken back: a row that a person looks for."""
    item = row.item
    return isinstance(item, Turn) and not item.taken_back and not item.changed_nothing


def is_pinned(timeline: PickerTimeline, row: PickerRow) -> bool:
    """True if a row has the sign of what is pinned. A checkpoint has it for a label that keeps it, too."""
    if not isinstance(row.item, Checkpoint):
        return _row_words(timeline, row.item).is_pinned
    marked = timeline.marks.get(row.item.id, UNMARKED)
    return marked.pinned or (row.item.id in timeline.points and is_kept_by_mark(row.item, marked))
