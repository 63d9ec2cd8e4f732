"""What a restore prints: its plan before a person is asked, what it did, and the same as JSON. Also for `back` and the picker."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

from .. import fsio
from .._typing import Any
from ..model import paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.manifest import DIR
from ..model.plan import Action, Kept, Plan
from ..ops.execute import Restored
from ..store.catalog import Marked
from .output import SHOWN, age, agreed, cut_to, paint, plural, print_line, remark, sizes

_COLOURS = {"+": "32", "~": "33", "-": "31"}
_TITLE = 40
"""Characters of a label or prompt in the title of a plan."""


def print_restored(report: Restored) -> None:
    """What was restored, undone or redone, or would be, for a person."""
    wrote, removed = numbers(report.actions)
    actions = wrote + removed
    if report.dry_run:
        print_line(f"would restore {plural(wrote, 'path')} and remove {removed}; {plural(report.unchanged, 'path')} would stay")
        print_plan(report.actions, report.kept)
        return
    name = {"restore": "restored", "undo": "undone", "redo": "redone", "abort": "taken back"}.get(report.op, "written")
    if report.op == "materialise":
        print_line(f"written: {plural(wrote, 'path')}")
    elif not actions and report.kept and not report.unchanged:
        print_line(f"nothing was {name}")
    elif not actions:
        print_line(f"nothing to do: the worktree has it already ({plural(report.unchanged, 'path')} unchanged)")
    else:
        print_line(f"{name}: {plural(wrote, 'path')} written, {removed} removed, {report.unchanged} unchanged")
    _kept(report.kept)
    if report.op == "restore" and report.safety:
        print_line(f"  the state before is {report.safety}; casrewind undo goes back to it")
    if report.op == "undo" and any(item.reason == "edited since" for item in report.kept):
        if actions:
            print_line(f"  to put those back too: casrewind restore {report.target} -- PATH ...")
        else:
            print_line("  to put those back too: casrewind undo --all")
    elif report.op == "undo" and actions:
        print_line("  casrewind redo takes the undo back")


def print_plan(actions: Sequence[Action], left: Sequence[Kept]) -> None:
    """What a plan changes, removals first: of many paths only some are shown. A directory that comes or goes whole is one line."""
    removed, written = _rows(actions)
    for rows, count in (removed, written):
        for row in rows:
            print_line(f"  {paint(row.sign, _COLOURS[row.sign])}  {row.text()}")
        if count > len(rows):
            print_line(f"  ... and {count - len(rows):,} more; --dry-run --json lists all of them")
    _kept(left)


class _Row:
    """A line of a plan: a path, or a directory with all in it."""

    def __init__(self, action: Action) -> None:
        status = Change(action.path, action.before, action.after).status
        self.sign = {"added": "+", "removed": "-"}.get(status, "~")
        self._action, self._files, self._last = action, 0, action

    def add(self, action: Action) -> None:
        """Count a path below this directory."""
        entry = action.after or action.before
        if entry is not None and entry.kind != DIR:
            self._files += 1
            self._last = action

    def text(self) -> str:
        """The path, and what else there is to say of it."""
        entry = self._action.after or self._action.before
        path = fsio.printable(self._action.path)
        if entry is None or entry.kind != DIR or None not in (self._action.before, self._action.after):
            return path + sizes(Change(self._action.path, self._action.before, self._action.after))
        if self._files == 1:
            return fsio.printable(self._last.path)
        return f"{path}/ ({self._files:,} files)" if self._files else f"{path}/"


def _rows(actions: Sequence[Action]) -> tuple[tuple[list[_Row], int], tuple[list[_Row], int]]:
    """((rows of what is removed, how many there are), (rows of what is written, how many)). At most `SHOWN` rows of each."""
    whole: dict[bytes, _Row | None] = {}
    shown: tuple[list[_Row], list[_Row]] = ([], [])
    counts = [0, 0]
    for action in really_changes(actions):
        above = next((parent for parent in paths.parents(action.path) if parent in whole), None)
        if above is not None:
            row = whole[above]
            if row is not None:
                row.add(action)
            continue
        side = 0 if action.after is None else 1
        counts[side] += 1
        made = _Row(action) if len(shown[side]) < SHOWN else None
        if made is not None:
            shown[side].append(made)
        entry = action.before if action.after is None else action.after
        if entry is not None and entry.kind == DIR and None in (action.before, action.after):
            whole[action.path] = made
    return (shown[0], counts[0]), (shown[1], counts[1])


def _kept(left: Sequence[Kept]) -> None:
    for item in left[:SHOWN]:
        (print_line if item.benign else remark)(f"  left alone: {fsio.printable(item.path)}: {fsio.printable(item.reason)}")
    if len(left) > SHOWN:
        print_line(f"  ... and {len(left) - SHOWN} more paths left alone")


def confirm(workspace: Any, plan_to_do: Plan, title: str, more: Callable[[], None] = lambda: None) -> bool:
    """Show a plan below its title and its totals, and `more`, and ask. Anything but yes is no; `d` shows the patch."""
    with _on_terminal():
        print_line(f"{title}: {totals(plan_to_do.actions)}")
        print_plan(plan_to_do.actions, plan_to_do.kept)
        more()
    return agreed("Go on? The state before is kept for undo.", lambda: show_patch(workspace, plan_to_do.actions))


def show_patch(workspace: Any, actions: Sequence[Action]) -> None:
    """What a plan changes, as a patch."""
    from ..ops import compare
    from ..workspace import context_of
    from .comparison import PATCH, Form, print_comparison

    with _on_terminal():
        print_comparison(compare.planned(context_of(workspace), really_changes(actions)), Form(PATCH))


@contextmanager
def _on_terminal() -> Iterator[None]:
    """Send what is printed to the terminal that a person looks at: standard error, if standard output is none."""
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield
    else:
        with redirect_stdout(sys.stderr):
            yield


def totals(actions: Iterable[Action]) -> str:
    """How many paths are written and removed: 2 written, 39 REMOVED."""
    written, removed = numbers(actions)
    lost = paint(f"{removed:,} REMOVED", "1;31") if removed else ""
    return ", ".join(part for part in (f"{written:,} written" if written or not removed else "", lost) if part)


def title_of(workspace: Any, point: Checkpoint) -> str:
    """A checkpoint for the title of a plan: its name, its age and its id."""
    name = name_of(point, workspace.marks(point))
    return f"{name} ({age(point.created_ns)}{'' if point.id in name else f', {point.id}'})"


def name_of(point: Checkpoint, marked: Marked) -> str:
    """What a plan calls a checkpoint: its label, the prompt that it was made for, else its id and what made it."""
    from ..model.checkpoint import MANUAL, PROMPT
    from ..ops.references import is_labelled, label_of

    label = label_of(point, marked)
    if label and is_labelled(point, marked):
        return f"'{shortened(label)}'"
    if point.prompt:
        return f'{"before" if point.trigger == PROMPT else "after"} "{shortened(point.prompt)}"'
    if label:
        return f"'{shortened(label)}'"
    return point.id if point.trigger == MANUAL else f"the {point.trigger.replace('_', ' ')} {point.id}"


def shortened(text: str) -> str:
    """The first words of a text, in one line."""
    return cut_to(fsio.printable(" ".join(text.split())), _TITLE)


def really_changes(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions that change something: one that only opens a directory for the others is not news."""
    return (found for found in actions if found.before != found.after or found.source != found.path)


def numbers(actions: Iterable[Action]) -> tuple[int, int]:
    """How many paths these actions write, and how many they remove."""
    written = removed = 0
    for found in really_changes(actions):
        written += found.after is not None
        removed += found.after is None
    return written, removed


def shape(report: Restored) -> dict[str, Any]:
    """What was restored, undone or redone, as JSON."""
    from . import json_output

    written, removed = numbers(report.actions)
    return {
        "restored": written,
        "removed": removed,
        "unchanged": report.unchanged,
        "skipped": [{**json_output.path(item.path), "reason": item.reason} for item in report.kept],
        "foreign": [],
        "safety": report.safety or None,
        "target": report.target or None,
        "dry_run": report.dry_run,
        "changes": [
            json_output.change(Change(found.path, found.before, found.after)) for found in really_changes(report.actions)
        ],
    }
