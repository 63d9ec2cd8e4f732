"""The output of undo and redo: the title of a plan, and a list of steps."""

from .. import fsio
from .._typing import Any
from ..model.history import REVERT, Step
from ..workspace import context_of
from . import json_output
from .output import age, as_json, print_line
from .restore_output import name_of, shortened


def title_of(workspace: Any, command: str) -> str:
    """The newest step in words: undo the restore to 'it works' (03:43, 30 min ago). "undo" alone without a step."""
    steps = _steps(workspace, command)
    return f"{command} {_restore_of(workspace, steps[-1])}" if steps else command


def print_steps(workspace: Any, options: Any) -> None:
    """Print all steps that can be undone or redone, newest first."""
    steps = _steps(workspace, options.command)[::-1]
    if options.json:
        as_json({"steps": [_shape(workspace, step) for step in steps]})
        return
    for number, step in enumerate(steps, 1):
        print_line(f"{number:>3}  {options.command} {_restore_of(workspace, step)}")
    if not steps:
        print_line(f"nothing to {options.command}")


def _steps(workspace: Any, command: str) -> tuple[Step, ...]:
    history = context_of(workspace).store.history(workspace.root.key)
    return history.undo if command == "undo" else history.redo


def _restore_of(workspace: Any, step: Step) -> str:
    """The restore of a step in words: the restore to 'it works' (03:43, 30 min ago)."""
    import time

    store = context_of(workspace).store
    target, made = store.checkpoint(step.target), store.checkpoint(step.safety)
    where = name_of(target, store.marks(step.target)) if target is not None else fsio.printable(step.target)
    when = ""
    if made is not None:
        when = f" ({time.strftime('%H:%M', time.localtime(made.created_ns // 1_000_000_000))}, {age(made.created_ns)})"
    if made is not None and made.more.op == REVERT and target is not None:
        return f'the revert of "{shortened(target.prompt)}"{when}'
    return f"the restore to {where}{when}"


def _shape(workspace: Any, step: Step) -> json_output.Shape:
    made = context_of(workspace).store.checkpoint(step.safety)
    return {
        "target": step.target or None,
        "safety": step.safety or None,
        "made_at": None if made is None else json_output.time_of(made.created_ns),
    }
