"""Carries out a change of files for a command, after its question, and prints what was done. With -p, a person chooses hunks first."""

import os
import sys
from collections.abc import Callable

from ... import errors, launch
from ..._typing import TYPE_CHECKING, TypeVar
from ...change.result import Restored
from ...change.worktree_change import Confirm, PlannedChange, WorktreeChange, ask_and_carry_out
from ...errors import Declined
from ...model.at_risk import NO_EDITS
from ..show import restored
from ..show.text import Line
from ..terminal.lines import OK, REMARKS, Done, print_json, print_line, print_lines
from ..terminal.questions import question_stream
from .question import PlanQuestion

if TYPE_CHECKING:
    from ...change.chosen_edits import ChosenEdits
    from ...context import Context
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

CHANGES = "changes files"
Result = TypeVar("Result")


def refuse_hunk_options(options: "ParsedOptions") -> None:
    """Raise UsageError if -p stands beside an option that it excludes, or if there is no terminal to ask on."""
    if not options.patch:
        return
    if options.command == "restore":
        if options.keep_edits:
            raise errors.UsageError("--keep-edits and -p exclude each other: with -p, you choose what is kept")
        others = {f"--{options.what}": options.what != "code", "--to": options.into, f"--{options.resume}": options.resume}
        if other := next((name for name, given in others.items() if given), ""):
            raise errors.UsageError(f"{other} and -p exclude each other: hunks are parts of files")
    if options.yes:
        raise errors.UsageError("-p asks about each hunk: it takes no --yes")
    if options.typed is not None:
        raise errors.UsageError("-p asks about each hunk, so it needs a terminal", "type it in a terminal")


def ask_for_hunks(context: "Context", options: "ParsedOptions", done: Done, plan: Restored, moved: str) -> "ChosenEdits | None":
    """What a person chooses of a plan; None if there is nothing to choose from."""
    from ...history import compare
    from . import hunk_questions

    done()
    if not plan.actions:
        return None
    stream = sys.stderr if options.json else question_stream()
    if moved:
        print_line(moved, stream)
    return hunk_questions.ask_for_each_change(
        compare.comparison_of_plan(context, restored.really_changes(plan.actions), plan.merged, read=plan.read), stream
    )


def carry_out_or_decline(
    prepare: "Callable[[], PlannedChange[Result]]", question: PlanQuestion, confirm: Confirm | None = None, *, dry_run: bool
) -> "Result | None":
    """What came of the change that `prepare` returns. None if the person declines: then the question has said so."""
    try:
        return ask_and_carry_out(prepare, confirm or question, asks=question.waits, dry_run=dry_run)
    except Declined:
        question.print_that_nothing_changed()
        return None


def carry_out_and_print(
    prepare: Callable[[], WorktreeChange], options: "ParsedOptions", done: Done, question: PlanQuestion, facts: "Shape | None" = None, *,
    confirm: Confirm | None = None, is_titled: bool = False,
) -> int:  # fmt: skip
    """Carry out the change that `prepare` returns, or plan it with --dry-run. Print the report, with a title if `is_titled`; JSON also has
    `facts`. `confirm` asks in place of `question`. Returns the exit code."""
    report = carry_out_or_decline(prepare, question, confirm, dry_run=options.dry_run)
    if report is None:
        return OK
    done()
    if report.dry_run:
        question.find_outside_edits(report.actions)
    is_named = is_titled or (options.typed is not None and not question.target.name)
    if not options.json and report.dry_run:
        print_lines(question.notes)
    if not options.json and is_named and (title := question.title_if_not_shown()):
        print_lines([Line(f"{title}:")])
        print_lines(question.explanation_lines(report.turns) if report.dry_run else ())
    return print_restored(report, options, question, facts)


def print_restored(
    report: Restored, options: "ParsedOptions", question: PlanQuestion | None = None, facts: "Shape | None" = None, *,
    is_unseen: bool = False,
) -> int:  # fmt: skip
    """Print what was done, or would be, in words or as JSON with `facts`. `is_unseen`: no plan was shown. Returns the exit code."""
    outside, target = (NO_EDITS, restored.NO_TARGET) if question is None else (question.outside, question.target)
    if question is not None and report.dry_run:
        question.find_inner_turns(report.actions)
    inner = () if question is None else question.inner
    if options.json:
        print_json({**restored.restored_json(report, outside.proved, target, inner=inner), **(facts or {})})
    else:
        is_inside = is_unseen or bool(os.environ.get(launch.INSIDE))
        print_lines(restored.restored_lines(report, target.name, state=target.state, is_inside=is_inside))
        if report.dry_run:
            print_lines([*restored.outside_lines(outside), *restored.inner_lines(inner)])
    return REMARKS if report.incomplete else OK
