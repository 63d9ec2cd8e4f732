"""casrewind restore, jump, revert, undo and redo."""

import os
import sys
import time
from collections.abc import Callable, Sequence

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...messages import age, printable
from ...model.history import REVERT, Step
from ...model.plan import NO_EDITS
from ...ops import restore as restores
from ...ops.execute import Restored
from ..plan.facts import branches_of, lost_rules, target_of
from ..plan.question import PlanQuestion
from ..show import restored
from ..terminal.lines import as_json, print_line, print_lines
from ..terminal.questions import must_ask, question_stream
from . import OK, REMARKS, Done, words

if TYPE_CHECKING:
    from ...model.checkpoint import Checkpoint
    from ...model.turn_records import Turn
    from ...ops.context import Context
    from ...ops.edits import Edits
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

_CHANGES = "changes files"
_SESSION = 8  # characters of a session id in output


def restore(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind restore."""
    if options.patch:
        _check_hunks(options)
    if options.resume is not None:
        return _resume(context, options, done)
    if options.ref is None:
        raise errors.UsageError("restore: which checkpoint?", "casrewind list shows them, casrewind restore last restores the newest")
    if (running := words.Words(context, options).unended(options.ref)) is not None:
        if options.what != "code" or options.to is not None:
            raise errors.CheckpointNotFound(f"{options.ref}: that turn has no end yet, so there is no checkpoint of the state after it")
        done()
        return _as_it_is(running, options)
    point = words.restored(context, options)
    if options.what != "code":
        from . import back

        return back.restore(context, options, point, done)
    if options.to is not None:
        return _restore_to(context, options, point, done)
    return _restore_files(context, options, point, done)


def _restore_files(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    scope = words.paths_of(context, options.rest, [point], options)
    if options.dashed and not scope:
        raise errors.UsageError("restore REF -- needs at least one path behind the dashes")
    target, moved = target_of(context, point), words.Words(context, options).moved(options.ref or "")
    edits: Edits | None = None

    def restoring(*, dry_run: bool = False) -> Restored:
        skips = options.skip_damaged
        return restores.restore(context, point, scope=scope, dry_run=dry_run, confirm=question, skip_damaged=skips, edits=edits)

    def title() -> str:
        return f"restore {target.name}{branches_of(context, point)}"

    is_asked = not (options.dry_run or options.patch) and (must_ask(options, _CHANGES) or bool(moved))
    if options.patch:
        target = target._replace(name=f"{target.name}, chosen hunks only")
    question = PlanQuestion(
        context, options, done, title, is_asked=is_asked, is_shown=options.patch, since=point, target=target, moved=moved
    )
    if options.patch:
        edits = _chosen_hunks(context, options, done, restoring(dry_run=True), moved)
        if edits == {} and not options.json:
            question.declined()
            return OK
    if options.dry_run:
        report = restoring(dry_run=True)
        done()
        if not options.json:
            print_lines(restored.unprotected_lines(lost_rules(context, report.actions)))
            print_line(f"{title()}:")
        question.look(report.actions)
        return _report(report, options, question)

    return _carry_out(restoring, options, done, question)


def _check_hunks(options: "ParsedOptions") -> None:
    """Raise UsageError for what hunks cannot be chosen with, or if nobody can be asked."""
    others = {"--chat": options.what == "chat", "--both": options.what == "both", "--to": options.to, f"--{options.resume}": options.resume}
    if other := next((name for name, given in others.items() if given), ""):
        raise errors.UsageError(f"{other} and -p exclude each other: hunks are parts of files")
    if options.yes:
        raise errors.UsageError("-p asks about each hunk: it takes no --yes")
    if options.typed is not None:
        raise errors.UsageError("-p asks about each hunk, and here nobody can answer", "type it in a terminal")


def _chosen_hunks(context: "Context", options: "ParsedOptions", done: Done, plan: Restored, moved: str) -> "Edits | None":
    """What a person chooses of a plan; None if there is nothing to choose from."""
    from ...ops import compare
    from ..plan import hunk_questions

    done()
    if not plan.actions:
        return None
    stream = sys.stderr if options.json else question_stream()
    if moved:
        print_line(moved, stream)
    return hunk_questions.ask(compare.planned(context, restored.really_changes(plan.actions)), stream)


def _as_it_is(turn: "Turn", options: "ParsedOptions") -> int:
    """Report a restore to the state after a turn that has no end yet: the files as they are."""
    if options.json:
        report = Restored("restore", "", "", (), (), 0, dry_run=options.dry_run)
        as_json({**restored.shape(report), "running": turn.running, "mixed": turn.mixed})
    else:
        why = "still runs" if turn.running else "has no end yet"
        print_line(f'@{turn.n} "{restored.shortened(turn.prompt)}" {why}: the state after it is the files as they are now')
        print_line(f"nothing to do; casrewind restore @{turn.n} restores the state before it")
    return OK


def _resume(context: "Context", options: "ParsedOptions", done: Done) -> int:
    from ...ops.unfinished_restore import finish_restore

    if options.ref is not None or options.to or options.dry_run or options.dashed:
        raise errors.UsageError(f"restore --{options.resume} takes nothing else: what to restore is known")
    report = finish_restore(context, forward=options.resume == "continue")
    done()
    return _report(report if options.resume == "continue" else report._replace(op="abort"), options)


def _restore_to(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    from ...ops.restore_to import materialise

    if options.dashed or options.dry_run:
        raise errors.UsageError("restore --to DIR writes the whole checkpoint: it takes no paths and no --dry-run")
    place = os.path.normpath(os.path.join(options.directory, options.to or ""))
    report = materialise(context, point, place, skip_damaged=options.skip_damaged)
    done()
    return _report(report, options)


def _carry_out(
    restoring: Callable[[], Restored], options: "ParsedOptions", done: Done, question: PlanQuestion, facts: "Shape | None" = None, *,
    is_titled: bool = False,
) -> int:
    """Do what `restoring` does, and report it; with its title, if `is_titled`, and as JSON with `facts`. A person may
    decline its question."""
    try:
        report = restoring()
    except restores.Declined:
        question.declined()
        return OK
    done()
    is_named = is_titled or (options.typed is not None and not question.target.name)
    if not options.json and is_named and (title := question.title()):
        print_line(f"{title}:")
    return _report(report, options, question, facts)


def _report(report: Restored, options: "ParsedOptions", question: PlanQuestion | None = None, facts: "Shape | None" = None) -> int:
    outside, target = (NO_EDITS, restored.NO_TARGET) if question is None else (question.outside, question.target)
    if options.json:
        as_json({**restored.shape(report, outside.proved, target), **(facts or {})})
    else:
        print_lines(restored.restored_lines(report, target.name, is_inside=bool(os.environ.get(launch.INSIDE))))
        if report.dry_run:
            print_lines(restored.outside_lines(outside))
    return REMARKS if report.incomplete else OK

# -- one turn


def revert(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind revert."""
    from ...ops.revert import revert as take_back
    from ..show.rows import end_of

    named = words.Words(context, options)
    assert options.ref is not None
    side = named.side(options.ref)
    if side.turn is None or side.side != "before" or side.point is None:
        raise errors.UsageError("revert takes one turn, as in @2", f"casrewind restore {words.quoted(options.ref)} restores a state")
    before, turn = side.point, named.filled(side.turn)
    scope = words.paths_of(context, [*options.paths, *options.rest], named.states(turn), options, worktree=turn.to_now)
    another = named.another_turn(options.paths, turn.changes or ())
    if another is not None:
        raise errors.UsageError(f"revert takes one turn at a time, and {another} is another", f"casrewind revert {another} after it")
    moment = turn.ended_ns or turn.started_ns
    when = f"{age(moment)}, " if moment is not None else ""
    end = f", {ended}" if (ended := end_of(turn)) else ""
    name = f'@{turn.n} "{restored.shortened(turn.prompt)}" ({when}{before.id}){end}'
    moved = named.moved(options.ref)
    is_asked = not options.dry_run and (must_ask(options, _CHANGES) or bool(moved))
    question = PlanQuestion(
        context, options, done, lambda: f"revert {name}", is_asked=is_asked, anchor=before.id, what=f"revert {turn.id}",
        target=restored.RestoreTarget(name, turn.n, before.created_ns), moved=moved,
    )  # fmt: skip
    facts = {"running": turn.running, "mixed": turn.mixed}
    return _carry_out(
        lambda: take_back(context, named.view, [turn], scope, shared=options.shared, dry_run=options.dry_run, confirm=question),
        options, done, question, facts, is_titled=options.dry_run,
    )  # fmt: skip


# -- the newest restore


def undo(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind undo."""
    return _take_back(context, options, done, everything=options.all)


def redo(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind redo."""
    return _take_back(context, options, done)


def _take_back(context: "Context", options: "ParsedOptions", done: Done, **which: bool) -> int:
    """Undo or redo: list the steps, show the plan, or carry it out. On a terminal the command asks first."""
    from ...ops import undo as undos

    if options.list:
        done()
        _print_steps(context, options)
        return OK
    steps = _steps(context, options.command)
    if options.command == "undo" and not options.older:
        _refuse_older(context, steps)
    title = f"{options.command} {_restore_of(context, steps[-1])}" if steps else options.command
    is_asked = bool(steps) and not options.dry_run and must_ask(options, _CHANGES)
    if steps:
        _refuse_foreign(context, options.command, steps[-1])
    anchor = steps[-1].safety if steps else ""
    question = PlanQuestion(context, options, done, lambda: title, is_asked=is_asked, anchor=anchor, what=options.command)
    change = undos.undo if options.command == "undo" else undos.redo
    return _carry_out(
        lambda: change(context, confirm=question, dry_run=options.dry_run, **which), options, done, question, is_titled=bool(steps)
    )


def _refuse_older(context: "Context", steps: Sequence[Step]) -> None:
    """Raise NothingToUndo if the newest operation changed only a conversation: undo would mean an older one."""
    from ...ops.undo import newer_rewind

    newest = newer_rewind(context)
    if newest is None:
        return
    what = f"the newest back ({age(newest.created_ns)}, {newest.agent} {printable(newest.parent[:_SESSION])}) changed no file"
    if not steps:
        raise errors.NothingToUndo(f"nothing to undo: {what}, and its old conversation is still there")
    raise errors.NothingToUndo(
        f"nothing was undone: {what}, and undo would take back {_restore_of(context, steps[-1])}",
        "casrewind undo --older does that"
    )


def _refuse_foreign(context: "Context", command: str, step: Step) -> None:
    """Raise NothingToUndo in an agent's shell if another session made the step. A person may take back any step."""
    own = os.environ.get("CASREWIND_SESSION", "")
    made = context.store.checkpoint(step.safety)
    if own and made is not None and made.more.by_session not in ("", own):
        raise errors.NothingToUndo(
            f"nothing was changed: {_restore_of(context, step)} is of another session",
            f"a person takes it back in a terminal: "
            f"casrewind {command}"
        )


def _print_steps(context: "Context", options: "ParsedOptions") -> None:
    """Print all steps that can be undone or redone, newest first."""
    steps = _steps(context, options.command)[::-1]
    if options.json:
        as_json({"steps": [_step_json(context, step) for step in steps]})
        return
    for number, step in enumerate(steps, 1):
        print_line(f"{number:>3}  {options.command} {_restore_of(context, step)}")
    if not steps:
        print_line(f"nothing to {options.command}")


def _steps(context: "Context", command: str) -> Sequence[Step]:
    history = context.store.history(context.root.key)
    return history.undo if command == "undo" else history.redo


def _restore_of(context: "Context", step: Step) -> str:
    """The restore of a step in words: the restore to 'it works' (03:43, 30 min ago)."""
    store = context.store
    target, made = store.checkpoint(step.target), store.checkpoint(step.safety)
    where = restored.name_of(target, store.marks(step.target)) if target is not None else printable(step.target)
    when = ""
    if made is not None:
        by = f", by {made.more.by_agent} {printable(made.more.by_session[:_SESSION])}" if made.more.by_session else ""
        when = f" ({time.strftime('%H:%M', time.localtime(made.created_ns // 1_000_000_000))}, {age(made.created_ns)}{by})"
    if made is not None and made.more.op == REVERT and target is not None:
        return f'the revert of "{restored.shortened(target.prompt)}"{when}'
    return f"the restore to {where}{when}"


def _step_json(context: "Context", step: Step) -> "Shape":
    from ..show import shapes

    made = context.store.checkpoint(step.safety)
    return {
        "target": step.target or None,
        "safety": step.safety or None,
        "made_at": None if made is None else shapes.time_of(made.created_ns),
    }
