"""What the picker asks of the workspace. Everything here is called by one thread at a time; nothing here knows a screen."""

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator, Sequence

from ... import errors, fsio
from ...model import diff as diffs
from ...model.checkpoint import Checkpoint
from ...model.diff import Change
from ...model.manifest import DIR, FILE
from ...model.plan import Plan
from ...ops import compare, rewind
from ...ops.references import is_named
from ...store.catalog import Marked
from ...typed import TYPE_CHECKING, Any, NamedTuple
from ...workspace import homes_of, site_of
from .. import output, patch, restore_output
from ..commands import back, pin
from . import rows
from .rows import Row

if TYPE_CHECKING:
    from ...ops.compare import Comparison, Look
    from ...workspace import Workspace

CODE, CHAT, BOTH = "code", "chat", "both"
MOST_LINES = 2_000
"""Lines of a patch that are shown; `casrewind diff --patch` has all."""
_LARGE = 256 << 10  # bytes of a file above which its lines are not counted unasked
_TITLE = 60  # characters of a title in a question

UNDO_KEEPS = "The state before is kept for undo."
Ask = Callable[[str, list[str], str], bool]
"""Asks a person: a headline, what there is to know, and what is not lost by a yes."""


class Timeline(NamedTuple):
    """All rows, newest first, the id of the checkpoint that was saved or restored last, and what there is to know of a
    restore that was interrupted, nothing where none was."""

    rows: list[Row]
    current: str
    unfinished: list[str]


class Changes(NamedTuple):
    """What changes on the way to a checkpoint: from the worktree as it is now, or from the checkpoint `base`."""

    point: str
    base: str
    found: "Comparison"


class Board:
    """A workspace, the timeline, and the worktree as it was last looked at."""

    def __init__(self, workspace: "Workspace") -> None:
        """Nothing is read yet."""
        self._workspace = workspace
        self._look: Look | None = None
        self._counts: dict[bytes, int] = {}  # by tree: many checkpoints share one

    def timeline(self) -> Timeline:
        """Every checkpoint of the store."""
        found = self._workspace.checkpoints(every_worktree=True)
        return Timeline(rows.make(found, self._workspace.root.key), self._workspace.current(), unfinished(self._workspace))

    def resume(self, *, forward: bool) -> Any:
        """Finish an interrupted restore, or take it back."""
        done = self._workspace.resume(forward=forward)
        return done if forward else done._replace(op="abort")

    def look(self) -> None:
        """Scan the worktree; what is counted and shown from then on is against that."""
        self._look = compare.look(site_of(self._workspace))
        self._counts.clear()

    def counts(self, wanted: Sequence[Row]) -> dict[str, int]:
        """By checkpoint: how many files are not as they are now, DAMAGED where it cannot be told."""
        found = {}
        for row in wanted:
            try:
                if row.point.tree not in self._counts:
                    self._counts[row.point.tree] = len(files(self._changes(row.point, None)))
                found[row.point.id] = self._counts[row.point.tree]
            except errors.StoreDamaged:
                found[row.point.id] = rows.DAMAGED
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
            found[point.id] = [fsio.show(name).casefold() for name in names]
        return found

    def changes(self, point: Checkpoint, base: Checkpoint | None) -> Changes:
        """What changes on the way to `point`."""
        return Changes(point.id, base.id if base is not None else "", self._changes(point, base))

    def _changes(self, point: Checkpoint, base: Checkpoint | None) -> "Comparison":
        if base is not None:
            return self._workspace.diff(base, point)
        if self._look is None:
            self.look()
        assert self._look is not None
        return compare.towards(site_of(self._workspace), self._look, point)

    def restore(self, row: Row, what: str, scope: Sequence[bytes], ask: Ask) -> Any:
        """Restore files, conversation or both, once `ask` has agreed: Restored or Rewound. Raises Declined and others."""
        try:
            return self._restore(row, what, scope, ask, skip_damaged=False)
        except errors.StoreDamaged as error:
            question = "Damaged in the store. Leave alone what is damaged, and plan all the rest?"
            if what == CHAT or self._workspace.is_interrupted():
                raise
            _agreed(ask(question, [fsio.show(str(error))], ""))
        return self._restore(row, what, scope, ask, skip_damaged=True)

    def _restore(self, row: Row, what: str, scope: Sequence[bytes], ask: Ask, *, skip_damaged: bool) -> Any:
        point = row.point
        name = f"{point.id} ({_short(row.title)}, {output.age(point.created_ns)})"

        def confirm(plan: Plan, strange: tuple[bytes, ...] = ()) -> bool:
            headline = f"Restore {'chat and files' if what == BOTH else 'files'} of {name}: {summary(plan)}"
            return ask(headline, [*words(lambda: _planned(plan, strange)), *taken], UNDO_KEEPS)

        taken: list[str] = []
        if what == CODE:
            return self._workspace.restore(point, scope, confirm, skip_damaged=skip_damaged)
        planned = self._rewind(point, dry_run=True)
        taken = [*planned.notes, *back.to_be_taken(planned)]
        if what == BOTH:
            return self._rewind(
                point, both=True, scope=scope, confirm=confirm, skip_damaged=skip_damaged
            )
        taken_back = f"{output.plural(len(planned.prompts), 'prompt')} taken back, no file changed"
        _agreed(ask(f"Fork the conversation as it was at {name}: {taken_back}", taken, "The conversation itself stays as it is."))
        return self._rewind(point)

    def rewrite(self, row: Row, ask: Ask) -> Any:
        """Cut the conversation in its own session, once `ask` has agreed. Raises Declined and others."""
        planned = self._rewind(row.point, in_place=True, dry_run=True)
        taken_back = f"{output.plural(len(planned.prompts), 'prompt')} taken back, no file changed"
        headline = f"Cut the conversation in its own session at {row.point.id} ({_short(row.title)}): {taken_back}"
        details = [fsio.show(planned.transcript), *planned.notes, *back.to_be_taken(planned)]
        _agreed(ask(headline, details, "As it is now it is kept beside."))
        return self._rewind(row.point, in_place=True)

    def _rewind(self, point: Checkpoint, **options: Any) -> Any:
        return rewind.to_checkpoint(site_of(self._workspace), homes_of(self._workspace), point, **options)

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
    restore_output.show_plan(plan.actions, plan.kept)
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
        lines.append(fsio.show(data.replace(b"\t", b"        ")))
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
    return output.sizes(change)


def report(done: Any) -> list[str]:
    """What was done, as the commands say it."""
    if hasattr(done, "prompts"):
        return words(lambda: back.show(done))
    if hasattr(done, "marked"):
        return words(lambda: pin.show(done))
    return words(lambda: restore_output.show(done))


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
