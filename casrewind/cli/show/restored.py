"""The output of a restore: its plan and its result, as text and as JSON. Also used by `back` and the picker."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

from ... import errors, launch
from ..._typing import TYPE_CHECKING, Any, NamedTuple
from ...gitignore.rules import is_protecting
from ...messages import printable
from ...model.checkpoint import Checkpoint
from ...model.diff import Change
from ...model.plan import Action, Kept, Plan
from ...ops.execute import Restored
from ...store.catalog import Marked
from ..terminal.lines import paint, print_line, remark
from ..terminal.questions import agreed
from .text import SHOWN, age, cut_to, plural

if TYPE_CHECKING:
    from ...model.turn_records import Turn
    from ...workspace import Workspace
    from .changes import Row

_TITLE = 40
"""Characters of a label or prompt in the title of a plan."""
_OUTSIDE = 3  # paths that no turn made, by name
_NAMED = 10
"""Paths that a result names in a client."""


class RestoreTarget(NamedTuple):
    """What a restore goes to. `name`: in words, with its turn, age and id. `turn`: the number of its turn, or None.
    `made_ns`: when the checkpoint was made, in nanoseconds since 1970, or None."""

    name: str
    turn: int | None
    made_ns: int | None


NO_TARGET = RestoreTarget("", None, None)
_DONE = {"restore": "restored", "revert": "reverted", "undo": "undone", "redo": "redone", "abort": "taken back"}


def print_restored(report: Restored, name: str = "") -> None:
    """Print the result of a restore, undo or redo, or of a dry run. `name`: what it was, behind "restored"."""
    wrote, removed = numbers(report.actions)
    actions = wrote + removed
    if report.dry_run:
        print_line(f"would restore {plural(wrote, 'path')} and remove {removed}; {plural(report.unchanged, 'path')} would stay")
        print_plan(report.actions, report.kept)
        return
    verb = _DONE.get(report.op, "written")
    if report.op == "materialise":
        print_line(f"written: {plural(wrote, 'path')}")
    elif not actions and report.kept and not report.unchanged:
        print_line(f"nothing was {verb}")
    elif not actions:
        print_line(f"nothing to do: the worktree has it already ({plural(report.unchanged, 'path')} unchanged)")
    else:
        counts = f"{plural(wrote, 'path')} written, {removed} removed, {report.unchanged} unchanged"
        if name:
            print_line(f"{verb} {name}")
        print_line(f"  {counts}" if name else f"{verb}: {counts}")
        if os.environ.get(launch.INSIDE):  # nobody may have seen the plan
            _print_changed(report.actions)
    if name and not actions and not report.dry_run:
        print_line(f"  asked for: {report.op} {name}")
    _kept(report.kept, report.actions)
    if report.op in ("restore", "revert") and report.safety:
        print_line(f"  the state before is {report.safety}; casrewind undo goes back to it")
    if report.op == "undo" and any(item.reason == "edited since" for item in report.kept):
        if actions:
            print_line(f"  to put those back too: casrewind restore {report.target} -- PATH ...")
        else:
            print_line("  to put those back too: casrewind undo --all")
    elif report.op == "undo" and actions:
        print_line("  casrewind redo takes the undo back")


def _print_changed(actions: Sequence[Action]) -> None:
    """Print the first changes that were made, removals first."""
    found = [row for side in _sides(actions) for row in side]
    for row in found[:_NAMED]:
        print_line(f"  {row.text()}")
    if len(found) > _NAMED:
        print_line(f"  ... and {len(found) - _NAMED:,} more; casrewind list names the restore")


def _sides(actions: Sequence[Action]) -> "tuple[list[Row], list[Row]]":
    """The lines of these actions: removals, and the rest. A new or removed directory is one line."""
    from .changes import rows

    found = rows([Change(action.path, action.before, action.after) for action in really_changes(actions)])
    return [row for row in found if row.sign == "-"], [row for row in found if row.sign != "-"]


def print_plan(actions: Sequence[Action], left: Sequence[Kept]) -> None:
    """Print the changes of a plan, removals first, and only some of many."""
    for side in _sides(actions):
        for row in side[:SHOWN]:
            print_line(f"  {row.text()}")
        if len(side) > SHOWN:
            print_line(f"  ... and {len(side) - SHOWN:,} more; --dry-run --json lists all of them")
    _kept(left)


def _kept(left: Sequence[Kept], done: Sequence[Action] = ()) -> None:
    """Print the paths that were left alone, and those of `done` that were not restored as planned."""
    named = {item.path for item in left[:SHOWN]}
    restored = {action.path for action in done if action.path in named} if named else set()
    for item in left[:SHOWN]:
        what = "note" if item.path in restored else "left alone"
        (print_line if item.benign else remark)(f"  {what}: {printable(item.path)}: {printable(item.reason)}")
    if len(left) > SHOWN:
        print_line(f"  ... and {len(left) - SHOWN} more paths, left alone or noted; --json lists all of them")


def confirm(workspace: "Workspace", plan_to_do: Plan, title: str, more: Callable[[], None] = lambda: None) -> bool:
    """Show a plan with its title and totals, then `more`, and ask. Any answer but yes is no; `d` shows the patch."""
    with _on_terminal():
        _warn(workspace, plan_to_do.actions, print_line)
        print_line(f"{title}: {totals(plan_to_do.actions)}")
        print_plan(plan_to_do.actions, plan_to_do.kept)
        more()
    return agreed("Go on? The state before is kept for undo.", lambda: _show_patch(workspace, plan_to_do.actions))


def unasked(workspace: "Workspace", plan_to_do: Plan) -> bool:
    """The answer to a plan without a question: yes. Warns first about what the plan stops protecting."""
    _warn(workspace, plan_to_do.actions, remark)
    return True


def print_outside(paths: Sequence[bytes]) -> None:
    """Name the paths of a plan with edits that no turn made."""
    if paths:
        more = f" and {len(paths) - _OUTSIDE:,} more" if len(paths) > _OUTSIDE else ""
        print_line(f"  also takes back edits that no turn made: {', '.join(map(printable, paths[:_OUTSIDE]))}{more}")


def foreign(paths: Iterable[bytes]) -> None:
    """Print the paths that another session may have changed."""
    found = list(paths)
    if found:
        print_line(f"  changed while another session ran ({plural(len(found), 'path')}):")
    for path in found[:SHOWN]:
        print_line(f"    {printable(path)}")
    if len(found) > SHOWN:
        print_line(f"    ... and {len(found) - SHOWN} more")


def lines_of(speak: Callable[[], None]) -> list[str]:
    """The output of a function, as lines."""
    kept = io.StringIO()
    with redirect_stdout(kept), redirect_stderr(kept):
        speak()
    return [line for line in kept.getvalue().split("\n") if line]


def warn(workspace: "Workspace", actions: Iterable[Action]) -> None:
    """Say what these actions would stop protecting."""
    _warn(workspace, actions, print_line)


def _warn(workspace: "Workspace", actions: Iterable[Action], tell: Callable[[str], None]) -> None:
    touched = [action for action in actions if is_protecting(action.path)]
    if not touched:
        return
    from ...ops import inclusion
    from ...workspace import context_of

    rules = inclusion.find_lost_rules(context_of(workspace), touched)
    if rules:
        names = ", ".join(printable(rule.text) for rule in rules[:SHOWN]) + (", ..." if len(rules) > SHOWN else "")
        files = ", ".join(printable(file) for file in dict.fromkeys(rule.file for rule in rules))
        tell(f"NOTE: {names} would no longer be protected: this removes rules of {files} (casrewind include)")


def _show_patch(workspace: "Workspace", actions: Sequence[Action]) -> None:
    """Print the changes of a plan as a patch."""
    from ...ops import compare
    from ...workspace import context_of
    from .comparison import PATCH, Form, print_comparison

    with _on_terminal():
        print_comparison(compare.planned(context_of(workspace), really_changes(actions)), Form(PATCH))


@contextmanager
def _on_terminal() -> Iterator[None]:
    """Redirect output to the terminal: to standard error, if standard output is not a terminal."""
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield
    else:
        with redirect_stdout(sys.stderr):
            yield


def totals(actions: Iterable[Action]) -> str:
    """The numbers of written and removed paths: 2 written, 39 REMOVED."""
    written, removed = numbers(actions)
    lost = paint(f"{removed:,} REMOVED", "1;31") if removed else ""
    return ", ".join(part for part in (f"{written:,} written" if written or not removed else "", lost) if part)


def title_of(workspace: "Workspace", point: Checkpoint) -> str:
    """A checkpoint in words: its name, its turn, its age and its id."""
    return target_of(workspace, point).name.removeprefix("to ")


def target_of(workspace: "Workspace", point: Checkpoint) -> RestoreTarget:
    """A checkpoint as the target of a restore."""
    name, turn = name_of(point, workspace.marks(point)), _turn_of(workspace, point)
    number = "" if turn is None else f"@{turn.n}" if turn.before == point.id else f"after:@{turn.n}"
    details = filter(None, (number, age(point.created_ns), "" if point.id in name else point.id))
    return RestoreTarget(f"to {name} ({', '.join(details)})", None if turn is None else turn.n, point.created_ns)


def _turn_of(workspace: "Workspace", point: Checkpoint) -> "Turn | None":
    """The turn that a checkpoint is the state before or after of, if it can be read."""
    if not point.session or point.worktree != workspace.root.key:
        return None
    from ...ops.turn_view import TurnView
    from ...workspace import context_of

    with suppress(errors.CasrewindError):
        turn = TurnView(context_of(workspace), needs_operations=False).turn_of(point.id)
        return turn if turn is not None and point.id in (turn.before, turn.after) else None
    return None


def branches_of(workspace: "Workspace", point: Checkpoint) -> str:
    """A checkpoint's branch and git's own in words, "" if they are equal or unknown. A restore changes no branch."""
    if not point.more.branch:
        return ""
    from ...worktree import git_head

    branch, _ = git_head.read(workspace.root.git_dir, workspace.root.common_dir)
    if branch in ("", point.more.branch):
        return ""
    return f", saved on branch {printable(point.more.branch)}, while git stays on {printable(branch)}"


def name_of(point: Checkpoint, marked: Marked) -> str:
    """A checkpoint's name in a plan: its label or prompt, else its id and trigger."""
    from ...model.checkpoint import MANUAL, PROMPT
    from ...ops.references import is_labelled, label_of

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
    return cut_to(printable(" ".join(text.split())), _TITLE)


def really_changes(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions that change content. An action that only opens a directory for other actions is excluded."""
    return (found for found in actions if found.before != found.after or found.source != found.path)


def numbers(actions: Iterable[Action]) -> tuple[int, int]:
    """Returns (number of paths written, number of paths removed)."""
    written = removed = 0
    for found in really_changes(actions):
        written += found.after is not None
        removed += found.after is None
    return written, removed


def shape(report: Restored, outside: Sequence[bytes] = (), target: RestoreTarget = NO_TARGET) -> dict[str, Any]:
    """The result of a restore, undo or redo, as JSON. `outside`: the paths with edits that no turn made."""
    from . import shapes

    written, removed = numbers(report.actions)
    made_at = None if target.made_ns is None else shapes.time_of(target.made_ns)
    return {
        "restored": written,
        "removed": removed,
        "unchanged": report.unchanged,
        "skipped": [{**shapes.path(item.path), "reason": item.reason} for item in report.kept],
        "foreign": [],
        "edited_outside": [path.decode("utf-8", "replace") for path in outside],
        "safety": report.safety or None,
        "target": report.target or None,
        "turn": target.turn,
        "target_made_at": made_at,
        "dry_run": report.dry_run,
        "changes": [
            shapes.change(Change(found.path, found.before, found.after)) for found in really_changes(report.actions)
        ],
    }
