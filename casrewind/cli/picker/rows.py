"""The timeline as values: one row for each checkpoint, what is said of it, and which rows a filter leaves."""

import os
from collections.abc import Container, Mapping, Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...ops.references import is_numbered, label_of
from ...store.catalog import Marked
from ...typed import NamedTuple
from ..output import age, plural

DAMAGED = -1
"""In place of a number of files: the store cannot tell."""
_SESSION = 6  # characters of a session's id: enough to tell a project's sessions apart


class Row(NamedTuple):
    """One checkpoint of the timeline.

    `number` is what `casrewind list` calls it (1 = newest), None for safety checkpoints and other worktrees'. `title` is
    its label and prompt in one line, `of` who made it and in which session ("" = by hand), `session` the number of the
    session among all of this timeline (0 = none), `elsewhere` the name of its worktree if it is another one.
    """

    point: Checkpoint
    marked: Marked
    number: int | None
    title: str
    of: str
    session: int
    elsewhere: str


def make(found: Sequence[tuple[Checkpoint, Marked]], here: bytes) -> list[Row]:
    """The rows of checkpoints with their marks, newest first; `here` is the key of the worktree."""
    rows = []
    number = 0
    sessions: dict[str, int] = {}
    for point, marked in found:
        listed = is_numbered(point, here)
        number += listed
        session = sessions.setdefault(point.session, len(sessions) + 1) if point.session else 0
        of = f"{point.agent} {point.session[:_SESSION]}".strip()
        elsewhere = "" if point.worktree == here else fsio.show(os.path.basename(point.root) or point.root)
        rows.append(Row(point, marked, number if listed else None, title(point, marked), of, session, elsewhere))
    return rows


def title(point: Checkpoint, marked: Marked) -> str:
    """What a checkpoint is called: its label and its prompt, else what it was made by."""
    label = label_of(point, marked)
    if point.flags & checkpoints.DESCRIBED and not marked.label and point.prompt:
        label = ""  # what a person typed says more
    words = [f"[{label}]" if label and point.prompt else label, " ".join(point.prompt.split())]
    made = "saved by hand" if point.trigger == checkpoints.MANUAL else trigger(point)
    return fsio.show(" ".join(word for word in words if word) or made)


def trigger(point: Checkpoint) -> str:
    """What a checkpoint was made by, in words."""
    return point.trigger.replace("_", " ")


def about(row: Row, differing: int | None, current: str) -> str:
    """The line below the title: when, what changes, by what, whose, and the marks. `differing` counts the files that are
    not as they are now; None = not known yet."""
    if row.elsewhere:
        change = f"worktree {row.elsewhere}"
    elif differing is None:
        change = "..."
    elif differing == DAMAGED:
        change = "damaged"
    else:
        change = plural(differing, "file") if differing else "as now"
    marks = [word for word, is_so in (("pinned", row.marked.pinned), ("current", row.point.id == current)) if is_so]
    by = "" if row.point.trigger == checkpoints.MANUAL or row.title == trigger(row.point) else trigger(row.point)
    words = (age(row.point.created_ns), change, *marks, by, row.of)
    return " · ".join(word for word in words if word)


def is_listed(row: Row) -> bool:
    """Whether a row is shown unless all are: no safety checkpoint, and of this worktree."""
    return row.number is not None


def choose(rows: Sequence[Row], words: str, paths: Mapping[str, Sequence[str]], *, everything: bool) -> list[Row]:
    """The rows that hold all of these words in title, prompt, session, id or trigger, or in one path that changed with them.

    `paths` are, by checkpoint, the paths known to have changed, in small letters. `everything` = unlisted ones, too.
    """
    shown = [row for row in rows if everything or is_listed(row)]
    wanted = words.casefold().split()
    if not wanted:
        return shown
    return [row for row in shown if _matches(row, wanted, paths.get(row.point.id, ()))]


def _matches(row: Row, wanted: Sequence[str], paths: Sequence[str]) -> bool:
    point = row.point
    text = " ".join((row.title, point.prompt, row.of, point.session, point.id, trigger(point), row.elsewhere)).casefold()
    return all(word in text or any(word in path for path in paths) for word in wanted)


def mentions(paths: Mapping[str, Sequence[str]], words: str) -> bool:
    """Whether one of these words is in one of these paths, so that a filter may leave other rows than before."""
    return any(word in path for word in words.casefold().split() for found in paths.values() for path in found)


def unread(rows: Sequence[Row], known: Container[str], most: int) -> list[tuple[Checkpoint, Checkpoint | None]]:
    """At most `most` checkpoints that are not `known`, the newest first, each with the one before it in its worktree (None
    for the oldest). `rows` are all of the timeline."""
    found: list[tuple[Checkpoint, Checkpoint | None]] = []
    waiting: dict[bytes, Checkpoint] = {}
    for row in rows:
        newer = waiting.pop(row.point.worktree, None)
        if newer is not None:
            found.append((newer, row.point))
        if len(found) + len(waiting) < most and row.point.id not in known:
            waiting[row.point.worktree] = row.point
        elif not waiting and len(found) == most:
            break
    return [*found, *((point, None) for point in waiting.values())]


def unknown(rows: Sequence[Row], known: Container[str]) -> list[Row]:
    """The rows of this worktree that are not `known` yet."""
    return [row for row in rows if not row.elsewhere and row.point.id not in known]
