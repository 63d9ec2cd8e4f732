"""casrewind restore, and jump: restore with the conversation."""

import os
from collections.abc import Sequence

from ... import errors
from ..._typing import TYPE_CHECKING
from ...change import restore as restores
from ...change.result import Materialised, Restored
from ...change.worktree_change import WorktreeChange
from ...messages import enumerated, printable, shell_quoted
from ..grammar.options import (
    ASSUME_YES,
    DRY_RUN,
    EDITS,
    HUNKS,
    JSON,
    OPEN_FILES,
    PATHS,
    SKIP_DAMAGED,
    Command,
    Option,
    choice,
)
from ..plan.carry_out import CHANGES, ask_for_hunks, carry_out_and_print, print_restored, refuse_hunk_options
from ..plan.facts import branches_in_words, lost_rules, target_of
from ..plan.question import ChangeRequest, PlanQuestion
from ..show import restored
from ..show.left_out import lost_rule_lines
from ..show.rewound import fork_shape, forks_lines
from ..terminal.lines import print_json, print_line, print_lines
from ..terminal.questions import must_ask_or_raise
from . import OK, REMARKS, Done, words

if TYPE_CHECKING:
    from ...change.chosen_edits import ChosenEdits
    from ...change.rewind import Forks, RewindChange
    from ...context import Context
    from ...model.checkpoint import Checkpoint
    from ...model.turn_records import Turn
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=(
        "casrewind restore @1",
        "casrewind restore @1 src/app.py",
        "casrewind restore 10m --dry-run",
        "casrewind restore 2h --to ../before",
    ),
    options=(
        Option(("ref",), "the checkpoint (in a terminal, restore without REF opens the picker)", "REF", nargs="?"),
        PATHS,
        choice("what", "code", "--code", "restore the files (default)"),
        choice("what", "chat", "--chat", "restore the conversation"),
        choice("what", "both", "--both", "restore files and conversation; with --to: fork the conversation for each DIR"),
        *EDITS, HUNKS, DRY_RUN, SKIP_DAMAGED, OPEN_FILES, ASSUME_YES, JSON,
        Option(("--to",), "write the checkpoint into DIR, which must be new or empty; repeat for several", "DIR", "into", repeats=True),
        choice("resume", "continue", "--continue", "finish an interrupted restore"),
        choice("resume", "abort", "--abort", "reverse an interrupted restore"),
    ),
    usage=(
        "[--code | --chat | --both] [--keep-edits | --exact] [-n] [--skip-damaged] [--open-files] [-y] [--json] REF [--] [PATH ...]",
        "-p [-n] [--skip-damaged] [--open-files] [--json] REF [--] [PATH ...]",
        "[--both] [-n] [--skip-damaged] [--json] REF --to DIR [--to DIR ...]",
        "[--open-files] [--json] (--continue | --abort)",
    ),
    defaults={"what": "code"},
    more="Saves the current state first, so that casrewind undo can reverse the restore. In a terminal, restore shows the plan and asks.",
    behind="paths go",
    saves=True, tells_restore=True,
)



def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind restore."""
    refuse_hunk_options(options)
    if options.resume is not None:
        return _finish_interrupted_restore(context, options, done)
    if options.ref is None:
        raise errors.UsageError("restore: which checkpoint?", "casrewind list shows them, casrewind restore last restores the newest")
    if (running := words.Words(context, options).turn_without_end(options.ref)) is not None:
        if options.what != "code" or options.into:
            raise errors.CheckpointNotFound(f"{options.ref}: that turn has no end yet, so there is no checkpoint of the state after it")
        done()
        return _print_that_turn_runs(running, options)
    point = words.take_restore_target(context, options)
    if options.into:
        return _restore_to(context, options, point, done)
    if options.what != "code":
        return _restore_chat_or_both(context, options, point, done)
    return _restore_files(context, options, point, done)


def _restore_files(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    scope = words.paths_of(context, options.rest, [point], options)
    if options.dashed and not scope:
        raise errors.UsageError("restore REF -- needs at least one path after the dashes")
    target, moved = target_of(context, point), words.Words(context, options).why_numbers_moved(options.ref or "")
    edits: ChosenEdits | None = None

    def prepare() -> WorktreeChange:
        return restores.prepare_restore(
            context, point, scope=scope, skip_damaged=options.skip_damaged, keep_edits=question.keep_edits, edits=edits
        )

    def title() -> str:
        return f"restore {target.name}{branches_in_words(context, point)}"

    is_asked = not (options.dry_run or options.patch) and (must_ask_or_raise(options, CHANGES) or bool(moved))
    if options.patch:
        target = target._replace(name=f"{target.name}, chosen hunks only")
    request = ChangeRequest(title, target=target, since=point, moved=moved)
    question = PlanQuestion(context, options, done, request, is_asked=is_asked, is_shown=options.patch)
    if options.patch:
        edits = ask_for_hunks(context, options, done, prepare().plan(), moved)
        if edits == {} and not options.json:
            question.print_that_nothing_changed()
            return OK
    if options.dry_run:
        report = prepare().plan()
        done()
        if not options.json:
            print_lines(lost_rule_lines(lost_rules(context, report)))
            print_line(f"{title()}:")
            print_lines(question.explanation_lines(report.turns))
        question.find_outside_edits(report.actions)
        code = print_restored(report, options, question)
    else:
        code = carry_out_and_print(prepare, options, done, question)
    if point.more.machine and not scope and not options.json and _has_conversation(context, point):
        machine, command = printable(point.more.machine), f"casrewind restore {shell_quoted(options.ref or point.id)} --both"
        print_line(f"{command} also brings the conversation of {machine}")
    return code


def _restore_chat_or_both(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    """casrewind restore --chat and --both, casrewind jump."""
    from ...change import rewind
    from ..plan.rewind_report import rewind_and_report

    both = options.what == "both"
    if options.keep_edits is not None and not both:
        raise errors.UsageError("restore --chat changes no files, so it does not accept --keep-edits or --exact")
    scope = words.paths_of(context, options.rest, [point], options)
    if options.dashed and not (scope and both):
        raise errors.UsageError("paths after -- limit which files change: give at least one, with --code or --both")
    moved = words.Words(context, options).why_numbers_moved(options.ref or "")
    asking = both and not options.dry_run and (must_ask_or_raise(options, "changes anything") or bool(moved))
    found = target_of(context, point)
    request = ChangeRequest(
        lambda: f"restore {found.name}{branches_in_words(context, point)}", "chat", target=found, since=point, moved=moved
    )
    question = PlanQuestion(context, options, done, request, is_asked=asking)

    def prepare() -> "RewindChange":
        return rewind.prepare_rewind(
            context, point, both=both, scope=scope, skip_damaged=options.skip_damaged, keep_edits=question.keep_edits
        )

    return rewind_and_report(prepare, options, done, question, arrives_in=context if both and point.more.machine else None)


def _has_conversation(context: "Context", point: "Checkpoint") -> bool:
    """True if a checkpoint of another machine has a conversation, or one before it has."""
    there = (one for one, _ in context.store.checkpoints() if one.worktree == point.worktree and one.seq <= point.seq)
    return any(one.transcript is not None for one in there)


def _print_that_turn_runs(turn: "Turn", options: "ParsedOptions") -> int:
    """Report a restore to the state after a turn that has no end yet: the files as they are."""
    if options.json:
        report = Restored("restore", "", "", (), (), 0, dry_run=options.dry_run)
        print_json({**restored.restored_json(report), "running": turn.running, "mixed": turn.mixed})
    else:
        why = "still runs" if turn.running else "has no end yet"
        print_line(f"@{turn.n} {restored.quoted_title(turn)} {why}: the state after it is the files as they are now")
        print_line(f"nothing to do; casrewind restore @{turn.n} restores the state before it")
    return OK


def _finish_interrupted_restore(context: "Context", options: "ParsedOptions", done: Done) -> int:
    from ...change.finish_restore import finish_restore

    if options.ref is not None or options.into or options.dry_run or options.dashed or options.keep_edits is not None:
        raise errors.UsageError(f"restore --{options.resume} takes no other words: casrewind knows what to restore")
    report = finish_restore(context, forward=options.resume == "continue", open_files=options.open_files)
    done()
    return print_restored(report if options.resume == "continue" else report._replace(op="abort"), options, is_unseen=True)


def _restore_to(context: "Context", options: "ParsedOptions", point: "Checkpoint", done: Done) -> int:
    """Write directories; with --both, also a fork of the conversation for each."""
    from ...change.restore_to import materialise

    if options.dashed:
        raise errors.UsageError("restore --to DIR writes the whole checkpoint, so it accepts no paths")
    if options.keep_edits:
        raise errors.UsageError("restore --to DIR leaves the project alone, so it does not accept --keep-edits")
    if options.what == "chat":
        raise errors.UsageError("restore --to DIR writes files, so it does not accept --chat", "--both also forks the conversation")
    places = [os.path.normpath(os.path.join(options.directory, name)) for name in options.into]
    target = target_of(context, point)
    report = materialise(context, point, places, skip_damaged=options.skip_damaged, dry_run=options.dry_run)
    forks = _fork_into(context, options, point, places) if options.what == "both" else None
    done()
    if options.json:
        _print_directories_json(report, forks, target, places)
    else:
        print_lines(restored.materialised_lines(report, target.name, options.into))
        if forks is not None:
            print_lines(forks_lines(forks, places))
    return REMARKS if report.incomplete else OK


def _fork_into(context: "Context", options: "ParsedOptions", point: "Checkpoint", places: Sequence[str]) -> "Forks":
    """Fork the conversation for directories that have their files. An error says that they have them."""
    from ...change.rewind import fork_into

    try:
        return fork_into(context, point, places, dry_run=options.dry_run)
    except errors.CasrewindError as error:
        kind = next((kind for kind in (errors.StoreFull, errors.StoreDamaged) if isinstance(error, kind)), errors.AgentError)
        named = enumerated([printable(name) for name in options.into])
        what = f"the files {'would be' if options.dry_run else 'are'} in {named}, but not the conversation: {error.problem}"
        raise kind(what, "start a new session there" if kind is errors.AgentError else error.hint) from error


def _print_directories_json(
    report: Materialised, forks: "Forks | None", target: restored.RestoreTarget, places: Sequence[str]
) -> None:
    """Print what was written, with the conversations that go on there. `places`: the directories, as this process finds them."""
    found, made = {}, []
    if forks is not None:
        found = {"agent": forks.agent, "session": forks.session, "prompts": list(forks.prompts), "notes": list(forks.notes)}
        made = [fork_shape(chat, os.path.abspath(place)) for chat, place in zip(forks.chats, places, strict=False)]
    print_json({**restored.materialised_json(report, target, made), **found})
