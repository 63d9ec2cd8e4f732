"""casrewind undo, and what redo shares with it."""

import os
from collections.abc import Iterable, Sequence

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...change import undo as undos
from ...model.at_risk import OutsideEdits
from ...model.plan import Action
from ...model.undo_history import UNDO, Step
from ..grammar.options import ASSUME_YES, DRY_RUN, JSON, OPEN_FILES, Command, flag
from ..plan.carry_out import CHANGES, carry_out_and_print
from ..plan.facts import step_in_words
from ..plan.question import ChangeRequest, PlanQuestion
from ..show import restored, shapes
from ..terminal.lines import print_json, print_line
from ..terminal.questions import must_ask_or_raise
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind undo", "casrewind undo --list"),
    options=(
        DRY_RUN,
        flag("--list", "list the restores that can be undone"),
        flag("--all", "also undo paths that were edited since the restore"),
        flag("--older", "undo an older restore, even if a newer back changed only a conversation"),
        OPEN_FILES, ASSUME_YES, JSON,
    ),
    more="Keeps your later edits. undo shows the plan and asks. Without a terminal, add --yes.",
    saves=True, tells_restore=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind undo."""
    return list_or_take_step(context, options, done, everything=options.all, older=options.older)


def list_or_take_step(context: "Context", options: "ParsedOptions", done: Done, **which: bool) -> int:
    """Undo or redo: list the steps, show the plan, or carry it out. On a terminal the command asks first."""
    if options.list:
        done()
        _print_steps(context, options)
        return OK
    steps = _steps_of_history(context, options.command)
    if options.command == "undo" and not options.older:
        undos.refuse_behind_rewind(context, lambda step: step_in_words(context, step))
    is_asked = bool(steps) and not options.dry_run and must_ask_or_raise(options, CHANGES)
    if steps:
        _refuse_foreign_step(context, options.command, steps[-1])
    anchor = steps[-1].safety if steps else ""

    def title() -> str:
        """Names the step that is the newest now: while a person thinks, another restore may be made."""
        steps = _steps_of_history(context, options.command)
        step = step_in_words(context, steps[-1]) if steps else ""
        question.target = restored.RestoreTarget(step, None, None)
        return f"{options.command} {step}".rstrip()

    def later(actions: Iterable[Action]) -> OutsideEdits:
        return undos.edited_since(context, _steps_of_history(context, options.command)[-1], actions)

    request = ChangeRequest(
        title, options.command, anchor=anchor, later=later if which.get("everything") and steps else None,
        kept=restored.REDO_KEEPS if options.command == UNDO else restored.UNDO_KEEPS,
        is_at_once=lambda: undos.is_newest_deed(context, os.environ.get(launch.INSIDE, "")),
    )  # fmt: skip
    question = PlanQuestion(context, options, done, request, is_asked=is_asked)
    title()
    prepare = undos.prepare_undo if options.command == "undo" else undos.prepare_redo
    is_titled = bool(steps) and options.dry_run
    return carry_out_and_print(lambda: prepare(context, **which), options, done, question, is_titled=is_titled)


def _refuse_foreign_step(context: "Context", command: str, step: Step) -> None:
    """Raise NothingToUndo in an agent's shell if another session made the step. A person may take back any step."""
    own = os.environ.get("CASREWIND_SESSION", "")
    made = context.store.checkpoint(step.safety)
    if own and made is not None and made.more.by_session not in ("", own):
        raise errors.NothingToUndo(
            f"nothing was changed: {step_in_words(context, step)} belongs to another session",
            f"you can take it back in a terminal: "
            f"casrewind {command}"
        )


def _print_steps(context: "Context", options: "ParsedOptions") -> None:
    """Print all steps that can be undone or redone, newest first."""
    steps = _steps_of_history(context, options.command)[::-1]
    if options.json:
        print_json({"steps": [_step_json(context, step) for step in steps]})
        return
    for number, step in enumerate(steps, 1):
        print_line(f"{number:>3}  {options.command} {step_in_words(context, step)}")
    if not steps:
        print_line(f"nothing to {options.command}")


def _steps_of_history(context: "Context", command: str) -> Sequence[Step]:
    history = context.store.history(context.root.key)
    return history.undo if command == "undo" else history.redo


def _step_json(context: "Context", step: Step) -> "Shape":
    made = context.store.checkpoint(step.safety)
    return {
        "target": step.target or None,
        "safety": step.safety or None,
        "made_at": None if made is None else shapes.time_of(made.created_ns),
    }
