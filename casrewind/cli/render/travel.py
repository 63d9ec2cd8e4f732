"""What a person reads of going back: restore, undo, redo."""

from collections.abc import Callable, Sequence
from itertools import chain, islice

from ... import fsio
from ...model.diff import Change
from ...model.plan import Action, Kept, Plan
from ...ops.execute import Restored
from .. import shapes
from .text import COLOURS, SHOWN, SIGNS, asked, paint, plural, remark, say
from .timeline import sizes


def plan(actions: Sequence[Action], left: Sequence[Kept]) -> None:
    """What a restore will do: for --dry-run and before asking. What it removes comes first: of many paths only some are shown."""
    count = sum(shapes.numbers(actions))
    removed = (action for action in shapes.really_changes(actions) if action.after is None)
    written = (action for action in shapes.really_changes(actions) if action.after is not None)
    for action in islice(chain(removed, written), SHOWN):
        change = Change(action.path, action.before, action.after)
        sign = SIGNS[change.status]
        say(f"  {paint(sign, COLOURS[sign])}  {fsio.show(action.path)}{sizes(change)}")
    if count > SHOWN:
        say(f"  ... and {count - SHOWN} more; --dry-run --json lists all of them")
    _kept(left)


def _kept(left: Sequence[Kept]) -> None:
    for item in left[:SHOWN]:
        (say if item.benign else remark)(f"  left alone: {fsio.show(item.path)}: {fsio.show(item.reason)}")
    if len(left) > SHOWN:
        say(f"  ... and {len(left) - SHOWN} more paths left alone")


def restored(report: Restored, dry_list: bool = False) -> None:  # noqa: FBT001, FBT002 - one caller, one meaning
    """restore, undo, redo."""
    wrote, removed = shapes.numbers(report.actions)
    actions = wrote + removed
    if dry_list:
        say(f"would restore {plural(wrote, 'path')} and remove {removed}; {plural(report.unchanged, 'path')} would stay")
        plan(report.actions, report.kept)
        return
    name = {"restore": "restored", "undo": "undone", "redo": "redone", "abort": "taken back"}.get(report.op, "written")
    if report.op == "materialise":
        say(f"written: {plural(wrote, 'path')}")
    elif not actions and report.kept and not report.unchanged:
        say(f"nothing was {name}")
    elif not actions:
        say(f"nothing to do: the worktree has it already ({plural(report.unchanged, 'path')} unchanged)")
    else:
        say(f"{name}: {plural(wrote, 'path')} written, {removed} removed, {report.unchanged} unchanged")
    _kept(report.kept)
    if report.op == "restore" and report.safety:
        say(f"  the state before is {report.safety}; casrewind undo goes back to it")
    if report.op == "undo" and any(item.reason == "edited since" for item in report.kept):
        if actions:
            say(f"  to put those back too: casrewind restore {report.target} -- PATH ...")
        else:
            say("  to put those back too: casrewind undo --all")
    elif report.op == "undo" and actions:
        say("  casrewind redo takes the undo back")


def ask(plan_to_do: Plan, reference: str, more: Callable[[], None] = lambda: None) -> bool:
    """Show a plan, and `more`, and ask. Anything but yes is no."""
    say(f"restoring {fsio.show(reference)!r} will change:")
    plan(plan_to_do.actions, plan_to_do.kept)
    more()
    try:
        answer = asked("Go on? The state before is kept for undo. [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
