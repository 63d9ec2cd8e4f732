"""What the picker asks of the workspace. Everything here is called by one thread at a time; nothing here knows a screen."""

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
"""In place of a number of files: the store cannot tell."""
_SESSION = 6  # characters of a session's id: enough to tell a project's sessions apart


class TimelineRow(NamedTuple):
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
    """What a checkpoint is called: its label and its prompt, else what it was made by."""
    label = label_of(point, marked)
    if point.flags & checkpoints.DESCRIBED and not marked.label and point.prompt:
        label = ""  # what a person typed says more
    words = [f"[{label}]" if label and point.prompt else label, " ".join(point.prompt.split())]
    made = "saved by hand" if point.trigger == checkpoints.MANUAL else trigger(point)
    return fsio.printable(" ".join(word for word in words if word) or made)


def trigger(point: Checkpoint) -> str:
    """What a checkpoint was made by, in words."""
    return point.trigger.replace("_", " ")


def about(row: TimelineRow, differing: int | None, current: str) -> str:
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


def is_listed(row: TimelineRow) -> bool:
    """Whether a row is shown unless all are: no safety checkpoint, and of this worktree."""
    return row.number is not None


def choose(rows: Sequence[TimelineRow], words: str, paths: Mapping[str, Sequence[str]], *, everything: bool) -> list[TimelineRow]:
    """The rows that hold all of these words in title, prompt, session, id or trigger, or in one path that changed with them.

    `paths` are, by checkpoint, the paths known to have changed, in small letters. `everything` = unlisted ones, too.
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
    """Whether one of these words is in one of these paths, so that a filter may leave other rows than before."""
    return any(word in path for word in words.casefold().split() for found in paths.values() for path in found)


def unread(rows: Sequence[TimelineRow], known: Container[str], most: int) -> list[tuple[Checkpoint, Checkpoint | None]]:
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


def unknown(rows: Sequence[TimelineRow], known: Container[str]) -> list[TimelineRow]:
    """The rows of this worktree that are not `known` yet."""
    return [row for row in rows if not row.elsewhere and row.point.id not in known]


CODE, CHAT, BOTH = "code", "chat", "both"
MOST_LINES = 2_000
"""Lines of a patch that are shown; `casrewind diff --patch` has all."""
_LARGE = 256 << 10  # bytes of a file above which its lines are not counted unasked
_TITLE = 60  # characters of a title in a question

UNDO_KEEPS = "The state before is kept for undo."
Ask = Callable[[str, list[str], str], bool]
"""Asks a person: a headline, what there is to know, and what is not lost by a yes."""


class TimelineRows(NamedTuple):
    """All rows, newest first, the id of the checkpoint that was saved or restored last, and what there is to know of a
    restore that was interrupted, nothing where none was."""

    rows: list[TimelineRow]
    current: str
    unfinished: list[str]


class RestorePreview(NamedTuple):
    """What changes on the way to a checkpoint: from the worktree as it is now, or from the checkpoint `base`."""

    point: str
    base: str
    found: "Comparison"


class TimelineModel:
    """A workspace, the timeline, and the worktree as it was last looked at."""

    def __init__(self, workspace: "Workspace") -> None:
        """Nothing is read yet."""
        self._workspace = workspace
        self._look: ComparedFile | None = None
        self._counts: dict[bytes, int] = {}  # by tree: many checkpoints share one

    def timeline(self) -> TimelineRows:
        """Every checkpoint of the store."""
        found = self._workspace.checkpoints(every_worktree=True)
        return TimelineRows(make(found, self._workspace.root.key), self._workspace.current(), unfinished(self._workspace))

    def resume(self, *, forward: bool) -> Any:
        """Finish an interrupted restore, or take it back."""
        done = self._workspace.resume(forward=forward)
        return done if forward else done._replace(op="abort")

    def look(self) -> None:
        """Scan the worktree; what is counted and shown from then on is against that."""
        self._look = compare.scan_worktree(context_of(self._workspace))
        self._counts.clear()

    def counts(self, wanted: Sequence[TimelineRow]) -> dict[str, int]:
        """By checkpoint: how many files are not as they are now, DAMAGED where it cannot be told."""
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
        """By checkpoint: the paths that are not as in the one before it, in small letters."""
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
        """What changes on the way to `point`."""
        return RestorePreview(point.id, base.id if base is not None else "", self._changes(point, base))

    def _changes(self, point: Checkpoint, base: Checkpoint | None) -> "Comparison":
        if base is not None:
            return self._workspace.diff(base, point)
        if self._look is None:
            self.look()
        assert self._look is not None
        return compare.towards(context_of(self._workspace), self._look, point)

    def restore(self, row: TimelineRow, what: str, scope: Sequence[bytes], ask: Ask) -> Any:
        """Restore files, conversation or both, once `ask` has agreed: Restored or Rewound. Raises Declined and others."""
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
        """Cut the conversation in its own session, once `ask` has agreed. Raises Declined and others."""
        planned = self._rewind(row.point, in_place=True, dry_run=True)
        taken_back = f"{output.plural(len(planned.prompts), 'prompt')} taken back, no file changed"
        headline = f"Cut the conversation in its own session at {row.point.id} ({_short(row.title)}): {taken_back}"
        details = [fsio.printable(planned.transcript), *planned.notes, *back.removed_prompts(planned)]
        _agreed(ask(headline, details, "As it is now it is kept beside."))
        return self._rewind(row.point, in_place=True)

    def _rewind(self, point: Checkpoint, **options: Any) -> Any:
        return rewind.to_checkpoint(context_of(self._workspace), homes_of(self._workspace), point, **options)

    def undo(self, *, everything: bool = False) -> Any:
        """Take the newest restore back, with `everything` also what was edited since."""
        return self._workspace.undo(everything=everything)

    def redo(self) -> Any:
        """Take the newest undo back."""
        return self._workspace.redo()

    def pin(self, point: Checkpoint, marked: Marked) -> Any:
        """Pin what is not kept, unpin what is."""
        return self._workspace.unpin(point) if is_named(point, marked) else self._workspace.pin(point)

    def label(self, point: Checkpoint, label: str) -> Any:
        """Pin a checkpoint, and name it."""
        return self._workspace.pin(point, label)


def unfinished(workspace: "Workspace") -> list[str]:
    """What there is to know of a restore that was interrupted, nothing where none was."""
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
    """A plan in numbers."""
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
    """The changes that are of files and links: a directory by itself is not what somebody looks for."""
    return [change for change in found.changes if any(e is not None and e.kind != DIR for e in (change.old, change.new))]


def counts(found: "Comparison") -> str:
    """What happens to how many files."""
    counted = diffs.count(files(found))
    if counted == (0, 0, 0):
        return "no file differs"
    return f"{counted.added} come back, {counted.modified} change, {counted.removed} go"


def patch_of(found: "Comparison", change: Change) -> list[str]:
    """A change as lines for a person: its patch, sizes where there is none to show, nothing that commands a terminal."""
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
    """By path: how many lines come and go, "" for what has no lines or is large."""
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
    """What else there is to say of a changed path."""
    if change.old is None or change.new is None:
        entry = change.new or change.old
        return f"  {output.size(entry.size)}" if entry is not None and entry.kind == FILE else ""
    found = details(change.old, change.new)
    return f"  ({found})" if found else ""


def report(done: Any) -> list[str]:
    """What was done, as the commands say it."""
    if hasattr(done, "prompts"):
        return words(lambda: back.print_rewound(done))
    if hasattr(done, "marked"):
        return words(lambda: print_marking(done))
    return words(lambda: restore_output.print_restored(done))


def incomplete(done: Any) -> bool:
    """Whether something that was wanted was left undone."""
    restored = getattr(done, "restored", done)
    return bool(getattr(restored, "incomplete", False))


def words(speak: Callable[[], None]) -> list[str]:
    """What something would print, in lines."""
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept), contextlib.redirect_stderr(kept):
        speak()
    return list(_lines(kept.getvalue()))


def _lines(printed: str) -> Iterator[str]:
    for line in printed.split("\n"):
        if line:
            yield line
