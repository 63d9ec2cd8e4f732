"""The picker's access to the workspace. Only one thread at a time may call it. It is independent of the screen."""

import contextlib
import io
import itertools
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from ... import errors, fsio
from ..._typing import TYPE_CHECKING, Any, NamedTuple
from ...model import checkpoint as checkpoints
from ...model import diff as diffs
from ...model.checkpoint import Checkpoint
from ...model.diff import Change
from ...model.manifest import DIR, FILE
from ...model.plan import Plan
from ...ops import compare, rewind
from ...ops.references import is_named, is_numbered, label_of
from ...store.catalog import Marked
from ...workspace import context_of, homes_of
from .. import output, patch, restore_output
from ..changes import details
from ..commands import back
from ..commands.checkpoints import print_marking
from ..output import age, plural

if TYPE_CHECKING:
    from ...ops.compare import ComparedFile, Comparison
    from ...workspace import Workspace


DAMAGED = -1
"""Replaces a number of files if the store is damaged and cannot count them."""
_SESSION = 6  # characters of a session id: enough to distinguish a project's sessions


class TimelineRow(NamedTuple):
    """One checkpoint of the timeline.

    `number` is its number in `casrewind list` (1 = newest); None for safety checkpoints and other worktrees'
    checkpoints. `title` is its label and prompt in one line. `of` is its agent and session, "" for a manual checkpoint.
    `session` is the number of the session in this timeline (0 = none). `elsewhere` is the name of another worktree, or
    "".
    """

    point: Checkpoint
    marked: Marked
    number: int | None
    title: str
    of: str
    session: int
    elsewhere: str


def make(found: Sequence[tuple[Checkpoint, Marked]], here: bytes) -> list[TimelineRow]:
    """The rows of checkpoints with their marks, newest first; `here` is the key of the worktree."""
    rows = []
    number = 0
    sessions: dict[str, int] = {}
    for point, marked in found:
        listed = is_numbered(point, here)
        number += listed
        session = sessions.setdefault(point.session, len(sessions) + 1) if point.session else 0
        of = f"{point.agent} {point.session[:_SESSION]}".strip()
        elsewhere = "" if point.worktree == here else fsio.printable(os.path.basename(point.root) or point.root)
        rows.append(TimelineRow(point, marked, number if listed else None, title(point, marked), of, session, elsewhere))
    return rows


def title(point: Checkpoint, marked: Marked) -> str:
    """The title of a checkpoint: its label and its prompt, else its trigger."""
    label = label_of(point, marked)
    if point.flags & checkpoints.DESCRIBED and not marked.label and point.own_prompt:
        label = ""  # a text typed by a person is more useful
    words = [f"[{label}]" if label and point.own_prompt else label, " ".join(point.own_prompt.split())]
    made = "saved by hand" if point.trigger == checkpoints.MANUAL else trigger(point)
    return fsio.printable(" ".join(word for word in words if word) or made)


def trigger(point: Checkpoint) -> str:
    """The trigger of a checkpoint, in words."""
    return point.trigger.replace("_", " ")


def about(row: TimelineRow, differing: int | None, current: str) -> str:
    """The line below the title: time, changes, trigger, session and marks.

    `differing` is the number of files that differ from now; None = unknown.
    """
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


def is_listed(row: TimelineRow) -> bool:
    """True if a row is shown by default: not a safety checkpoint, and of this worktree."""
    return row.number is not None


def choose(rows: Sequence[TimelineRow], words: str, paths: Mapping[str, Sequence[str]], *, everything: bool) -> list[TimelineRow]:
    """The rows that contain all words in title, prompt, session, id, trigger, or paths that changed with them.

    `paths` maps a checkpoint to the known changed paths, in lower case. `everything` includes the rows that are hidden
    by default.
    """
    shown = [row for row in rows if everything or is_listed(row)]
    wanted = words.casefold().split()
    if not wanted:
        return shown
    return [row for row in shown if _matches(row, wanted, paths.get(row.point.id, ()))]


def _matches(row: TimelineRow, wanted: Sequence[str], paths: Sequence[str]) -> bool:
    point = row.point
    text = " ".join((row.title, point.prompt, row.of, point.session, point.id, trigger(point), row.elsewhere)).casefold()
    return all(word in text or any(word in path for path in paths) for word in wanted)


def mentions(paths: Mapping[str, Sequence[str]], words: str) -> bool:
    """True if one of the words is in one of the paths: then a filter may return other rows."""
    return any(word in path for word in words.casefold().split() for found in paths.values() for path in found)


def unread(rows: Sequence[TimelineRow], known: Container[str], most: int) -> list[tuple[Checkpoint, Checkpoint | None]]:
    """At most `most` checkpoints that are not `known`, newest first. `rows` contains the whole timeline.

    Each comes with the previous checkpoint of its worktree, or None for the oldest.
    """
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


def unknown(rows: Sequence[TimelineRow], known: Container[str]) -> list[TimelineRow]:
    """The rows of this worktree that are not `known`."""
    return [row for row in rows if not row.elsewhere and row.point.id not in known]


CODE, CHAT, BOTH = "code", "chat", "both"
MOST_LINES = 2_000
"""Lines of a patch in the picker; `casrewind diff --patch` prints all lines."""
_LARGE = 256 << 10  # bytes: lines of a larger file are not counted by default
_TITLE = 60  # characters of a title in a question

UNDO_KEEPS = "The state before is kept for undo."
Ask = Callable[[str, list[str], str], bool]
"""Asks a person. The arguments are a headline, details, and a text about the data that a yes preserves."""


class TimelineRows(NamedTuple):
    """All rows, newest first, the id of the checkpoint saved or restored last, and details of an
    interrupted restore.
    """

    rows: list[TimelineRow]
    current: str
    unfinished: list[str]


class RestorePreview(NamedTuple):
    """The changes of a restore, relative to the present worktree or to the checkpoint `base`."""

    point: str
    base: str
    found: "Comparison"


class TimelineModel:
    """A workspace, its timeline, and the worktree at its last scan."""

    def __init__(self, workspace: "Workspace") -> None:
        """Reads nothing yet."""
        self._workspace = workspace
        self._look: ComparedFile | None = None
        self._counts: dict[bytes, int] = {}  # by tree: many checkpoints have the same tree

    def timeline(self) -> TimelineRows:
        """The rows of all checkpoints in the store."""
        found = self._workspace.checkpoints(every_worktree=True)
        return TimelineRows(make(found, self._workspace.root.key), self._workspace.current(), unfinished(self._workspace))

    def resume(self, *, forward: bool) -> Any:
        """Continue an interrupted restore, or abort it."""
        done = self._workspace.resume(forward=forward)
        return done if forward else done._replace(op="abort")

    def look(self) -> None:
        """Scan the worktree. Later counts and changes are relative to this scan."""
        self._look = compare.scan_worktree(context_of(self._workspace))
        self._counts.clear()

    def counts(self, wanted: Sequence[TimelineRow]) -> dict[str, int]:
        """The number of files that differ from now, by checkpoint. DAMAGED if the store cannot count them."""
        found = {}
        for row in wanted:
            try:
                if row.point.tree not in self._counts:
                    self._counts[row.point.tree] = len(files(self._changes(row.point, None)))
                found[row.point.id] = self._counts[row.point.tree]
            except errors.StoreDamaged:
                found[row.point.id] = DAMAGED
        return found

    def paths(self, wanted: Sequence[tuple[Checkpoint, Checkpoint | None]]) -> dict[str, list[str]]:
        """The paths that changed since the previous checkpoint, by checkpoint, in lower case."""
        found = {}
        for point, older in wanted:
            try:
                if older is None:
                    names = [path for path, _ in self._workspace.entries(point)]
                else:
                    names = [change.path for change in self._workspace.diff(older, point).changes]
            except errors.StoreDamaged:
                names = []
            found[point.id] = [fsio.printable(name).casefold() for name in names]
        return found

    def changes(self, point: Checkpoint, base: Checkpoint | None) -> RestorePreview:
        """The changes of a restore of `point`."""
        return RestorePreview(point.id, base.id if base is not None else "", self._changes(point, base))

    def _changes(self, point: Checkpoint, base: Checkpoint | None) -> "Comparison":
        if base is not None:
            return self._workspace.diff(base, point)
        if self._look is None:
            self.look()
        assert self._look is not None
        return compare.towards(context_of(self._workspace), self._look, point)

    def restore(self, row: TimelineRow, what: str, scope: Sequence[bytes], ask: Ask) -> Any:
        """Restore files, conversation or both after `ask` returns True. Returns Restored or Rewound. Raises Declined
        and others.
        """
        try:
            return self._restore(row, what, scope, ask, skip_damaged=False)
        except errors.StoreDamaged as error:
            question = "Damaged in the store. Leave alone what is damaged, and plan all the rest?"
            if what == CHAT or self._workspace.is_interrupted():
                raise
            _agreed(ask(question, [fsio.printable(str(error))], ""))
        return self._restore(row, what, scope, ask, skip_damaged=True)

    def _restore(self, row: TimelineRow, what: str, scope: Sequence[bytes], ask: Ask, *, skip_damaged: bool) -> Any:
        point = row.point
        name = f"{point.id} ({_short(row.title)}, {output.age(point.created_ns)})"

        def confirm(plan: Plan, strange: tuple[bytes, ...] = ()) -> bool:
            headline = f"Restore {'chat and files' if what == BOTH else 'files'} of {name}: {summary(plan)}"
            return ask(headline, [*words(lambda: _planned(plan, strange)), *taken], UNDO_KEEPS)

        taken: list[str] = []
        if what == CODE:
            return self._workspace.restore(point, scope, confirm, skip_damaged=skip_damaged)
        planned = self._rewind(point, dry_run=True)
        taken = [*planned.notes, *back.removed_prompts(planned)]
        if what == BOTH:
            return self._rewind(
                point, both=True, scope=scope, confirm=confirm, skip_damaged=skip_damaged
            )
        taken_back = f"{output.plural(len(planned.prompts), 'prompt')} taken back, no file changed"
        _agreed(ask(f"Fork the conversation as it was at {name}: {taken_back}", taken, "The conversation itself stays as it is."))
        return self._rewind(point)

    def rewrite(self, row: TimelineRow, ask: Ask) -> Any:
        """Rewind the conversation in its own session after `ask` returns True. Raises Declined and others."""
        planned = self._rewind(row.point, in_place=True, dry_run=True)
        taken_back = f"{output.plural(len(planned.prompts), 'prompt')} taken back, no file changed"
        headline = f"Cut the conversation in its own session at {row.point.id} ({_short(row.title)}): {taken_back}"
        details = [fsio.printable(planned.transcript), *planned.notes, *back.removed_prompts(planned)]
        _agreed(ask(headline, details, "As it is now it is kept beside."))
        return self._rewind(row.point, in_place=True)

    def _rewind(self, point: Checkpoint, **options: Any) -> Any:
        return rewind.to_checkpoint(context_of(self._workspace), homes_of(self._workspace), point, **options)

    def undo(self, *, everything: bool = False) -> Any:
        """Undo the newest restore. `everything` also undoes later edits."""
        return self._workspace.undo(everything=everything)

    def redo(self) -> Any:
        """Redo the newest undo."""
        return self._workspace.redo()

    def pin(self, point: Checkpoint, marked: Marked) -> Any:
        """Pin the checkpoint, or unpin it."""
        return self._workspace.unpin(point) if is_named(point, marked) else self._workspace.pin(point)

    def label(self, point: Checkpoint, label: str) -> Any:
        """Pin a checkpoint, and label it."""
        return self._workspace.pin(point, label)


def unfinished(workspace: "Workspace") -> list[str]:
    """Details of an interrupted restore, [] if no restore was interrupted."""
    if not workspace.is_interrupted():
        return []
    journal = workspace.status().journal
    if journal is None:
        return ["What it was is damaged: taking it back sets it aside."]
    begun = output.age(journal.created_ns)
    return [
        f"The {journal.op} of {journal.target}, begun {begun}, is half done: some paths are as before, some as they should become.",
        f"The state before is {journal.safety}. What was edited since is kept, and named, whichever way it goes.",
    ]


def _short(title: str) -> str:
    return title if len(title) <= _TITLE else title[: _TITLE - 1].rstrip() + "…"


def summary(plan: Plan) -> str:
    """The totals of a plan."""
    written, removed = restore_output.numbers(plan.actions)
    left = f", {len(plan.kept)} left alone" if plan.kept else ""
    return f"{output.plural(written, 'path')} written, {removed} removed{left}"


def _agreed(answer: bool) -> None:  # noqa: FBT001 - an answer
    if not answer:
        from ...ops.restore import Declined

        raise Declined


def _planned(plan: Plan, strange: tuple[bytes, ...]) -> None:
    restore_output.print_plan(plan.actions, plan.kept)
    back.foreign(strange)


def files(found: "Comparison") -> list[Change]:
    """The changes of files and links, without directories."""
    return [change for change in found.changes if any(e is not None and e.kind != DIR for e in (change.old, change.new))]


def counts(found: "Comparison") -> str:
    """The number of files for each kind of change."""
    counted = diffs.count(files(found))
    if counted == (0, 0, 0):
        return "no file differs"
    return f"{counted.added} come back, {counted.modified} change, {counted.removed} go"


def patch_of(found: "Comparison", change: Change) -> list[str]:
    """A change as lines of text: its patch, or its sizes if it has no patch. Control sequences are removed."""
    lines: list[str] = []
    binary = False
    for data in patch.lines(found, change):
        if len(lines) == MOST_LINES:
            lines.append(f"... more than {MOST_LINES} lines; casrewind diff --patch shows them all")
            break
        binary = binary or data.startswith(b"Binary files ")
        lines.append(fsio.printable(data.replace(b"\t", b"        ")))
    if binary:
        old, new = (output.size(e.size) if e is not None and e.kind == FILE else "absent" for e in (change.old, change.new))
        lines.append(f"{old} -> {new}")
    return lines


def line_counts(found: "Comparison", changes: Sequence[Change]) -> dict[bytes, str]:
    """Added and removed lines by path, "" for a large file or an entry without lines."""
    counted = {}
    for change in changes:
        shown = ""
        if all(e is None or e.size <= _LARGE for e in (change.old, change.new)):
            signs = [line[:1] for line in itertools.dropwhile(lambda line: line[:2] != b"@@", patch.lines(found, change))]
            if signs:
                shown = f"  +{signs.count(b'+')} -{signs.count(b'-')}"
        counted[change.path] = shown
    return counted


def sizes(change: Change) -> str:
    """Further details of a changed path."""
    if change.old is None or change.new is None:
        entry = change.new or change.old
        return f"  {output.size(entry.size)}" if entry is not None and entry.kind == FILE else ""
    found = details(change.old, change.new)
    return f"  ({found})" if found else ""


def report(done: Any) -> list[str]:
    """The report of an operation, in the words of the commands."""
    if hasattr(done, "prompts"):
        return words(lambda: back.print_rewound(done))
    if hasattr(done, "marked"):
        return words(lambda: print_marking(done))
    return words(lambda: restore_output.print_restored(done))


def incomplete(done: Any) -> bool:
    """True if a part of the operation was not done."""
    restored = getattr(done, "restored", done)
    return bool(getattr(restored, "incomplete", False))


def words(speak: Callable[[], None]) -> list[str]:
    """The output of a function, as lines."""
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept), contextlib.redirect_stderr(kept):
        speak()
    return list(_lines(kept.getvalue()))


def _lines(printed: str) -> Iterator[str]:
    for line in printed.split("\n"):
        if line:
            yield line
