"""casrewind restore, jump, revert, undo and redo."""

import os
import sys
import time
from collections.abc import Callable, Sequence

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...messages import age, enumerated, plural, printable
from ...model.checkpoint import TAKEN_FROM
from ...model.history import REVERT, Step
from ...model.plan import NO_EDITS, Plan
from ...ops import restore as restores
from ...ops.execute import Restored
from ..plan.facts import branches_of, lost_rules, target_of, turn_title
from ..plan.question import PlanQuestion
from ..show import restored
from ..show.text import cut_to
from ..terminal.lines import print_json, print_line, print_lines
from ..terminal.questions import agreed, must_ask, question_stream
from . import OK, REMARKS, Done, words

if TYPE_CHECKING:
    from ...model.checkpoint import Checkpoint
    from ...model.turn_records import Turn
    from ...ops.context import Context
    from ...ops.edits import Edits
    from ...ops.rewind import Forks
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

CHANGES = "changes files"
_SESSION = 8  # characters of a session id in output
_PROMPT = 24  # characters of a prompt in the title of several turns


def restore(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind restore."""
    _check_hunks(options)
    if options.resume is not None:
        return _resume(context, options, done)
    if options.ref is None:
        raise errors.UsageError("restore: which checkpoint?", "casrewind list shows them, casrewind restore last restores the newest")
    if (running := words.Words(context, options).turn_without_end(options.ref)) is not None:
        if options.what != "code" or options.into:
            raise errors.CheckpointNotFound(f"{options.ref}: that turn has no end yet, so there is no checkpoint of the state after it")
        done()
        return _report_running_turn(running, options)
    point = words.restore_target(context, options)
    if options.into:
        return _restore_to(context, options, point, done)
    if options.durable:
        raise errors.UsageError("--durable goes with --to DIR: a restore of the worktree is always durable")
    if options.what != "code":
        from . import back

        return back.restore(context, options, point, done)
    return _restore_files(context, options, point, done)


def _restore_files(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    scope = words.paths_of(context, options.rest, [point], options)
    if options.dashed and not scope:
        raise errors.UsageError("restore REF -- needs at least one path behind the dashes")
    target, moved = target_of(context, point), words.Words(context, options).why_numbers_moved(options.ref or "")
    edits: Edits | None = None

    def restoring(*, dry_run: bool = False) -> Restored:
        return restores.restore(
            context, point, scope=scope, dry_run=dry_run, confirm=question, skip_damaged=options.skip_damaged, keeper=question.keeper,
            edits=edits,
        )  # fmt: skip

    def title() -> str:
        return f"restore {target.name}{branches_of(context, point)}"

    is_asked = not (options.dry_run or options.patch) and (must_ask(options, CHANGES) or bool(moved))
    if options.patch:
        target = target._replace(name=f"{target.name}, chosen hunks only")
    question = PlanQuestion(
        context, options, done, title, is_asked=is_asked, is_shown=options.patch, since=point, target=target, moved=moved
    )
    if options.patch:
        edits = _chosen_hunks(context, options, done, restoring(dry_run=True), moved)
        if edits == {} and not options.json:
            question.say_declined()
            return OK
    if options.dry_run:
        report = restoring(dry_run=True)
        done()
        if not options.json:
            print_lines(restored.unprotected_lines(lost_rules(context, report.actions)))
            print_line(f"{title()}:")
            print_lines(question.explained())
        question.find_outside_edits(report.actions)
        return _report(report, options, question)

    return carry_out(restoring, options, done, question)


def _check_hunks(options: "ParsedOptions") -> None:
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
    return hunk_questions.ask(compare.planned(context, restored.really_changes(plan.actions), plan.merged), stream)


def _report_running_turn(turn: "Turn", options: "ParsedOptions") -> int:
    """Report a restore to the state after a turn that has no end yet: the files as they are."""
    if options.json:
        report = Restored("restore", "", "", (), (), 0, dry_run=options.dry_run)
        print_json({**restored.shape(report), "running": turn.running, "mixed": turn.mixed})
    else:
        why = "still runs" if turn.running else "has no end yet"
        print_line(f'@{turn.n} "{restored.shortened(turn.prompt)}" {why}: the state after it is the files as they are now')
        print_line(f"nothing to do; casrewind restore @{turn.n} restores the state before it")
    return OK


def _resume(context: "Context", options: "ParsedOptions", done: Done) -> int:
    from ...ops.unfinished_restore import finish_restore

    if options.ref is not None or options.into or options.dry_run or options.dashed or options.keep_edits is not None:
        raise errors.UsageError(f"restore --{options.resume} takes nothing else: what to restore is known")
    report = finish_restore(context, forward=options.resume == "continue")
    done()
    return _report(report if options.resume == "continue" else report._replace(op="abort"), options)


def _restore_to(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    """Write directories; with --both, also a fork of the conversation for each."""
    from ...ops.restore_to import materialise

    if options.dashed:
        raise errors.UsageError("restore --to DIR writes the whole checkpoint: it takes no paths")
    if options.keep_edits:
        raise errors.UsageError("restore --to DIR changes no edits here: it takes no --keep-edits")
    if options.what == "chat":
        raise errors.UsageError("restore --to DIR writes files: it takes no --chat", "--both also forks the conversation")
    places = [os.path.normpath(os.path.join(options.directory, name)) for name in options.into]
    target = target_of(context, point)
    report = materialise(
        context, point, places, skip_damaged=options.skip_damaged, durable=options.durable, dry_run=options.dry_run
    )
    forks = _fork_into(context, options, point, places) if options.what == "both" else None
    done()
    if not options.json:
        given = dict(zip(places, options.into, strict=True))
        report = report._replace(written=tuple(each._replace(directory=given[each.directory]) for each in report.written))
    if forks is None:
        return _report(report, options, target=target)
    return _report_forks(report, forks, options, places, target)


def _fork_into(context: "Context", options: "ParsedOptions", point: "Checkpoint", places: Sequence[str]) -> "Forks":
    """Fork the conversation for directories that have their files. An error says that they have them."""
    from ...ops.rewind import fork_into

    try:
        return fork_into(context, point, places, dry_run=options.dry_run)
    except errors.CasrewindError as error:
        kind = next((kind for kind in (errors.StoreFull, errors.StoreDamaged) if isinstance(error, kind)), errors.AgentError)
        named = enumerated([printable(name) for name in options.into])
        what = f"the files {'would be' if options.dry_run else 'are'} in {named}, but not the conversation: {error.problem}"
        raise kind(what, "start a new session there" if kind is errors.AgentError else error.hint) from error


def _report_forks(
    report: Restored, forks: "Forks", options: "ParsedOptions", places: Sequence[str], target: restored.RestoreTarget
) -> int:
    """Report directories with the conversations that go on in them. `places`: the directories, as this process finds them."""
    from ..show.chat import fork_shape, forks_lines

    if not options.json:
        code = _report(report, options, target=target)
        print_lines(forks_lines(forks, places))
        return code
    made = [fork_shape(chat, os.path.abspath(place)) for chat, place in zip(forks.chats, places, strict=False)]
    print_json({
        **restored.shape(report, target=target, forks=made or [None] * len(places)),
        "agent": forks.agent, "session": forks.session, "prompts": list(forks.prompts), "notes": list(forks.notes),
    })  # fmt: skip
    return REMARKS if report.incomplete else OK


def carry_out(
    restoring: Callable[[], Restored], options: "ParsedOptions", done: Done, question: PlanQuestion, facts: "Shape | None" = None, *,
    is_titled: bool = False,
) -> int:
    """Do what `restoring` does, and report it; with its title, if `is_titled`, and as JSON with `facts`. A person may
    decline its question."""
    try:
        report = restoring()
    except restores.EditsKept:
        return carry_out(restoring, options, done, question, facts, is_titled=is_titled)
    except restores.Declined:
        question.say_declined()
        return OK
    done()
    is_named = is_titled or (options.typed is not None and not question.target.name)
    if not options.json and report.dry_run:
        print_lines(question.notes)
    if not options.json and is_named and (title := question.title()):
        print_line(f"{title}:")
        print_lines(question.explained() if report.dry_run else ())
    return _report(report, options, question, facts)


def _report(
    report: Restored, options: "ParsedOptions", question: PlanQuestion | None = None, facts: "Shape | None" = None, *,
    target: restored.RestoreTarget = restored.NO_TARGET,
) -> int:
    outside, target = (NO_EDITS, target) if question is None else (question.outside, question.target)
    if options.json:
        print_json({**restored.shape(report, outside.proved, target), **(facts or {})})
    else:
        print_lines(restored.restored_lines(report, target.name, state=target.state, is_inside=bool(os.environ.get(launch.INSIDE))))
        if report.dry_run:
            print_lines(restored.outside_lines(outside))
    return REMARKS if report.incomplete else OK

# -- turns


def revert(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind revert."""
    from ...ops.revert import MARKERS
    from ...ops.revert import revert as take_back

    _check_hunks(options)
    named = words.Words(context, options)
    turns, name = _named_turns(context, options, named)
    turns, unknown = _known_turns(options, turns)
    points = [point for turn in turns for point in named.states(turn)]
    scope = words.paths_of(context, [*options.paths, *options.rest], points, options, worktree=turns[0].to_now)
    changes = [change for turn in turns for change in named.filled(turn).changes or ()] if options.paths else []
    another = named.another_turn(options.paths, changes)
    if another is not None:
        several = f"casrewind revert {_range_with(turns, another)} reverses all from one to the other"
        raise errors.UsageError(f"{another} is another turn, and behind a turn revert takes paths", several)
    oldest = named.view.points[turns[-1].before or ""]
    moved = named.why_numbers_moved(f"@{turns[0].n}")
    name = f"{name}, chosen hunks only" if options.patch else name
    is_asked = not (options.dry_run or options.patch) and (must_ask(options, CHANGES) or bool(moved))
    edits: Edits | None = None
    one = turns[0].n if len(turns) == 1 else None
    question = PlanQuestion(
        context, options, done, lambda: f"revert {name}", is_asked=is_asked, anchor=oldest.id,
        what=" ".join(("revert", *(turn.id for turn in turns))), target=restored.RestoreTarget(name, one, oldest.created_ns),
        moved=moved, notes=restored.unknown_lines(unknown), is_shown=options.patch,
    )  # fmt: skip

    def agreed_twice(plan: Plan) -> bool:
        marked = [item.path for item in plan.merged if item.conflicts]
        return question(plan) and (not (marked and is_asked) or agreed(f"Write markers of conflicts into {restored.first_names(marked)}?"))

    def taking_back(*, dry_run: bool = options.dry_run) -> Restored:
        return take_back(
            context, named.view, turns, scope, shared=options.shared, running=options.running, conflicts=options.conflicts,
            skip_damaged=options.skip_damaged, dry_run=dry_run, confirm=agreed_twice if options.conflicts == MARKERS else question,
            edits=edits,
        )  # fmt: skip

    if options.patch:
        edits = _chosen_hunks(context, options, done, taking_back(dry_run=True), moved)
        if edits == {} and not options.json:
            question.say_declined()
            return OK
    facts = {
        "running": any(turn.running for turn in turns), "mixed": any(turn.mixed for turn in turns),
        "turns": [turn.n for turn in turns], "unknown_turns": [turn.n for turn in unknown],
    }  # fmt: skip
    return carry_out(taking_back, options, done, question, facts, is_titled=options.dry_run)


def _named_turns(context: "Context", options: "ParsedOptions", named: words.Words) -> "tuple[list[Turn], str]":
    """The turns that the words of a revert name, newest first, and what the title says of them. The paths are left in
    `options.paths`."""
    word = options.ref
    if options.session is not None:
        from ...ops.conversation import whole_session

        if word is not None:  # it is a path
            options.paths, options.ref = [word, *options.paths], None
        session = whole_session(context, options.session)
        turns = [turn for turn in named.view.turns if turn.session == session]
        if not turns:
            what = f"session {printable(options.session)!r} has no turns here"
            raise errors.CheckpointNotFound(what, "casrewind list shows the sessions")
        return turns, f"session {printable(session[:_SESSION])} ({_turns_in_words(turns)})"
    if word is None:
        raise errors.UsageError("revert: which turn?", "casrewind list shows them, casrewind revert @1 reverses the newest")
    ends = [end.removeprefix("@") for end in word.split("..")]
    if len(ends) == 2 and all(end.isascii() and end.isdigit() for end in ends):
        first, last = (named.view.turn(f"@{end}").n for end in ends)
        if first < last:
            what = f"{word}: the older turn comes first, and it has the higher number"
            raise errors.UsageError(what, f"casrewind revert @{last}..@{first}")
        turns = list(named.view.turns[last - 1 : first])
        return turns, f"@{first}..@{last} ({_turns_in_words(turns)})"
    side = named.side(word)
    if named.view.machine:
        what = f"{word} is a turn of {named.view.machine}: revert reverses turns of this machine"
        raise errors.UsageError(what, f"casrewind restore {words.quoted(word)} restores the state before it")
    if side.turn is None or side.side != "before" or side.point is None:
        raise errors.UsageError("revert takes turns, as in @2 or @4..@2", f"casrewind restore {words.quoted(word)} restores a state")
    return [side.turn], turn_title(side.turn)


def _turns_in_words(turns: "Sequence[Turn]") -> str:
    """Several turns in words."""
    ends = [cut_to(restored.shortened(turn.prompt), _PROMPT) for turn in (turns[-1], turns[0])]
    return f'{plural(len(turns), "turn")}: "{ends[0]}"' + (f' to "{ends[1]}"' if len(turns) > 1 else "")


def _known_turns(options: "ParsedOptions", turns: "Sequence[Turn]") -> "tuple[list[Turn], list[Turn]]":
    """Returns (turns with a known change, turns with an unknown one). Without --known, an unknown change raises
    CheckpointNotFound."""
    from ...model.turn_records import NOT_SAVED

    unknown = [turn for turn in turns if turn.not_saved or turn.before is None or not (turn.after or turn.to_now)]
    known = [turn for turn in turns if turn not in unknown]
    if unknown and len(turns) > 1 and not (options.known and known):
        one = unknown[0]
        why = NOT_SAVED if one.not_saved else f"the state {'before' if one.before is None else 'after'} it was forgotten"
        raise errors.CheckpointNotFound(
            f"what @{one.n} changed is not known: {why}",
            "--known reverses the other turns" if known else "casrewind list shows what is known"
        )
    return (known, unknown) if len(turns) > 1 else (list(turns), [])


def _range_with(turns: "Sequence[Turn]", another: str) -> str:
    numbers = sorted([turns[0].n, turns[-1].n, int(another.removeprefix("@"))])
    return f"@{numbers[-1]}..@{numbers[0]}"


# -- the newest restore


def undo(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind undo."""
    return _undo_or_redo(context, options, done, everything=options.all)


def redo(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind redo."""
    return _undo_or_redo(context, options, done)


def _undo_or_redo(context: "Context", options: "ParsedOptions", done: Done, **which: bool) -> int:
    """Undo or redo: list the steps, show the plan, or carry it out. On a terminal the command asks first."""
    from ...ops import undo as undos

    if options.list:
        done()
        _print_steps(context, options)
        return OK
    steps = _steps_of_history(context, options.command)
    if options.command == "undo" and not options.older:
        _refuse_older(context, steps)
    step = _restore_in_words(context, steps[-1]) if steps else ""
    title = f"{options.command} {step}".rstrip()
    is_asked = bool(steps) and not options.dry_run and must_ask(options, CHANGES)
    if steps:
        _refuse_foreign(context, options.command, steps[-1])
    anchor = steps[-1].safety if steps else ""
    question = PlanQuestion(
        context, options, done, lambda: title, is_asked=is_asked, anchor=anchor, what=options.command,
        target=restored.RestoreTarget(step, None, None),
    )  # fmt: skip
    change = undos.undo if options.command == "undo" else undos.redo
    return carry_out(
        lambda: change(context, confirm=question, dry_run=options.dry_run, **which), options, done, question,
        is_titled=bool(steps) and options.dry_run,
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
        f"nothing was undone: {what}, and undo would take back {_restore_in_words(context, steps[-1])}",
        "casrewind undo --older does that"
    )


def _refuse_foreign(context: "Context", command: str, step: Step) -> None:
    """Raise NothingToUndo in an agent's shell if another session made the step. A person may take back any step."""
    own = os.environ.get("CASREWIND_SESSION", "")
    made = context.store.checkpoint(step.safety)
    if own and made is not None and made.more.by_session not in ("", own):
        raise errors.NothingToUndo(
            f"nothing was changed: {_restore_in_words(context, step)} is of another session",
            f"a person takes it back in a terminal: "
            f"casrewind {command}"
        )


def _print_steps(context: "Context", options: "ParsedOptions") -> None:
    """Print all steps that can be undone or redone, newest first."""
    steps = _steps_of_history(context, options.command)[::-1]
    if options.json:
        print_json({"steps": [_step_json(context, step) for step in steps]})
        return
    for number, step in enumerate(steps, 1):
        print_line(f"{number:>3}  {options.command} {_restore_in_words(context, step)}")
    if not steps:
        print_line(f"nothing to {options.command}")


def _steps_of_history(context: "Context", command: str) -> Sequence[Step]:
    history = context.store.history(context.root.key)
    return history.undo if command == "undo" else history.redo


def _restore_in_words(context: "Context", step: Step) -> str:
    """The restore of a step in words: the restore to 'it works' (03:43, 30 min ago)."""
    store = context.store
    target, made = store.checkpoint(step.target), store.checkpoint(step.safety)
    where = restored.name_of(target, store.marks(step.target)) if target is not None else printable(step.target)
    when = ""
    if made is not None:
        by = f", by {made.more.by_agent} {printable(made.more.by_session[:_SESSION])}" if made.more.by_session else ""
        when = f" ({time.strftime('%H:%M', time.localtime(made.created_ns // 1_000_000_000))}, {age(made.created_ns)}{by})"
    if made is not None and made.meta.get(TAKEN_FROM):
        return f"what was taken from {printable(os.path.basename(made.meta[TAKEN_FROM]))}{when}"
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
