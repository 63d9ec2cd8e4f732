"""What a restore prints: its plan before a person is asked, what it did, and the same as JSON. Also for `back` and the picker."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from .. import fsio
from .._typing import Any
from ..model.diff import Change
from ..model.plan import Action, Kept, Plan
from ..ops.execute import Restored
from .changes import rows
from .output import SHOWN, SIGNS, agreed, plural, print_line, remark


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
    """What a restore will do: for --dry-run and before asking. What it removes comes first: of many paths only some are shown."""
    planned = [Change(found.path, found.before, found.after) for found in really_changes(actions)]
    found = sorted(rows(planned), key=lambda row: row.sign != SIGNS["removed"])
    for row in found[:SHOWN]:
        print_line(f"  {row.text()}")
    if len(found) > SHOWN:
        print_line(f"  ... and {sum(row.files for row in found[SHOWN:])} more; --dry-run --json lists all of them")
    _kept(left)


def _kept(left: Sequence[Kept]) -> None:
    for item in left[:SHOWN]:
        (print_line if item.benign else remark)(f"  left alone: {fsio.printable(item.path)}: {fsio.printable(item.reason)}")
    if len(left) > SHOWN:
        print_line(f"  ... and {len(left) - SHOWN} more paths left alone")


def confirm(plan_to_do: Plan, reference: str, more: Callable[[], None] = lambda: None) -> bool:
    """Show a plan, and `more`, and ask. Anything but yes is no."""
    print_line(f"restoring {fsio.printable(reference)!r} will change:")
    print_plan(plan_to_do.actions, plan_to_do.kept)
    more()
    return agreed("Go on? The state before is kept for undo.")


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
