"""casrewind back: rewind a conversation, alone or with the files."""

import os

from ... import errors
from ..._typing import TYPE_CHECKING
from ...agents.hook_checks import how_to_connect
from ...change import back_without_chat, rewind
from ...change import restore as restores
from ...change.rewind import RewindChange, Rewound
from ...context import Context
from ...history import conversation, lookup, turns_elsewhere
from ...history.conversation import RewindTarget
from ...history.taken_back_turns import AllTakenBack, skipped_in_words
from ...history.worktree_timeline import WorktreeTimeline
from ...messages import age_in_words, enumerated
from ..grammar.options import (
    ASSUME_YES,
    DRY_RUN,
    EDITS,
    JSON,
    OPEN_FILES,
    SESSION,
    Command,
    Option,
    choice,
    flag,
    positive_number,
)
from ..plan.facts import branches_in_words, target_of
from ..plan.question import ChangeRequest, PlanQuestion
from ..plan.rewind_report import rewind_and_report
from ..show import restored
from ..show.restored import marks_in_brackets
from ..show.text import Line
from ..terminal.lines import print_line
from ..terminal.questions import YES, Proposal, ask_about_plan, can_person_answer, must_ask_or_raise
from . import OK, Done
from .words import Words

if TYPE_CHECKING:
    from ...context import Progress
    from ...settings import Settings
    from ..grammar.command_line import ParsedOptions


def _turn_or_machine(text: str) -> int | str:
    """The number of a turn, with or without `@`; the text itself if it names a machine, too. Raises ValueError."""
    machine, _, there = text.partition(":@")
    if there and machine not in ("", "after"):
        positive_number(there)
        return text
    return positive_number(text.removeprefix("@"))


COMMAND = Command(
    examples=("casrewind back", "casrewind back 3", "casrewind back 2 --code"),
    options=(
        Option(
            ("prompt",),
            "the turn's number in casrewind list, or remote:@N for another machine (default: the conversation's "
            "newest prompt that you have not taken back)",
            "N",
            convert=_turn_or_machine,
            nargs="?",
        ),
        choice("what", "code", "--code", "restore only the files"),
        choice("what", "chat", "--chat", "restore only the conversation"),
        choice("what", "both", "--both", "restore files and conversation (default)"),
        *EDITS, SESSION,
        flag("--in-place", "shorten the session itself, and keep a copy; close its client first"),
        flag("--copy", "copy the removed prompts to the clipboard"),
        flag("--nearest", "if the prompt has no checkpoint, use the nearest older one"),
        DRY_RUN, OPEN_FILES, ASSUME_YES, JSON,
    ),
    defaults={"what": "both"},
    more="A new session continues the conversation from before the prompt. The old session does not change.",
    saves=True, tells_restore=True,
)


def run(context: Context, options: "ParsedOptions", done: Done) -> int:
    """casrewind back."""
    files, chat = options.what != "chat", options.what != "code"
    if options.keep_edits is not None and not files:
        raise errors.UsageError("back --chat changes no files, so it does not accept --keep-edits or --exact")
    if options.in_place and not chat:
        raise errors.UsageError("back --in-place cuts the conversation: it excludes --code")
    if isinstance(options.prompt, str):
        return _back_on_other_machine(context, options, options.prompt, done)
    preferred = os.environ.get("CASREWIND_SESSION", "")
    try:
        target = conversation.find_prompt(context, options.prompt, options.session or "", preferred, files=files)
    except AllTakenBack:
        raise
    except errors.AgentError as error:
        return _back_without_conversation(context, options, done, error)
    changes = (files and target.was_seen) or options.in_place
    moved = "" if options.prompt is None or options.dry_run else Words(context, options).why_numbers_moved(f"@{options.prompt}")
    asking = not options.dry_run and _needs_agreement(options, target, moved, changes=changes)
    request = ChangeRequest(
        lambda: _plan_title(context, target, files=files), f"back {target.conversation.session} {target.prompt.uuid}",
        target=_restore_target_of(context, target, files=files),
        since=next((point for point in target.points[target.at :] if point is not None), None),
        anchor="" if (own := target.points[target.at]) is None else own.id,
        moved=moved, notes=_skipped_lines(target.skipped, target.turn),
    )  # fmt: skip
    question = PlanQuestion(context, options, done, request, is_asked=asking)

    def prepare() -> RewindChange:
        return rewind.prepare_back(
            context, target, both=files, chat=chat, in_place=options.in_place, nearest=options.nearest or asking,
            keep_edits=question.keep_edits,
        )

    if asking and not _agrees_before_plan(context, prepare(), options, target, moved, done, changes=changes):
        print_line("nothing was changed")
        return OK
    return rewind_and_report(prepare, options, done, question, target)


def _agrees_before_plan(
    context: Context, change: RewindChange, options: "ParsedOptions", target: RewindTarget, moved: str, done: Done, *, changes: bool
) -> bool:
    """Ask what no plan of files says: whether the session itself may be cut, whether the nearest checkpoint will do, and whether the
    conversation alone may go back."""
    asked = [(change.rewrites, ""), ("" if options.nearest else change.nearest, "")]
    if not changes:
        asked.append((_plan_title(context, target, files=options.what != "chat"), moved))
    done()
    return all(_show_and_ask(what, more) for what, more in asked if what)


def _back_without_conversation(context: Context, options: "ParsedOptions", done: Done, error: errors.AgentError) -> int:
    """casrewind back --code, if the conversation cannot be had: it was not asked for. Raises `error` if it was, and CheckpointError if its
    newest turn is in another root."""
    preferred = os.environ.get("CASREWIND_SESSION", "")
    if options.what != "code" or options.prompt is None:
        turns_elsewhere.refuse_if_of_session(context, options.session or "", preferred)
    if options.what == "chat":
        raise error
    found = back_without_chat.find_turn(context, options.prompt, options.session or "", preferred)
    if found is None:
        raise error
    if options.what == "both":
        number = "" if options.prompt is None else f" {options.prompt}"
        raise errors.AgentError(error.problem, f"casrewind back{number} --code takes the files back") from error
    turn, point = found.turn, found.point
    target, moved = target_of(context, point), ""
    if options.prompt is not None and not options.dry_run:
        moved = Words(context, options).why_numbers_moved(f"@{turn.n}")
    request = ChangeRequest(
        lambda: f"back {target.name}{branches_in_words(context, point)}", f"back --code {turn.id}", target=target, since=point, moved=moved,
        notes=_skipped_lines(found.skipped, turn.n),
    )  # fmt: skip
    is_asked = not options.dry_run and (must_ask_or_raise(options, "changes anything") or bool(moved))
    question = PlanQuestion(context, options, done, request, is_asked=is_asked)

    def prepare() -> RewindChange:
        return back_without_chat.prepare_turn_back(context, found, keep_edits=question.keep_edits)

    return rewind_and_report(prepare, options, done, question)


def _back_on_other_machine(context: Context, options: "ParsedOptions", word: str, done: Done) -> int:
    """casrewind back MACHINE:@N: the files and the conversation of a checkpoint of another machine come here."""
    files, chat = options.what != "chat", options.what != "code"
    if options.in_place:
        raise errors.UsageError(f"back {word} restores the conversation of another machine, so it does not accept --in-place")
    point = lookup.checkpoint(context, word)
    found = target_of(context, point)
    request = ChangeRequest(
        lambda: f"back {found.name}{branches_in_words(context, point)}", f"back {options.what} {word}", target=found, since=point
    )
    is_asked = files and not options.dry_run and must_ask_or_raise(options, "changes anything")
    question = PlanQuestion(context, options, done, request, is_asked=is_asked)

    def prepare() -> RewindChange:
        if chat:
            return rewind.prepare_rewind(context, point, both=files, keep_edits=question.keep_edits)
        planned = Rewound(None, (), None, (), dry_run=True, transcript="")
        return RewindChange(context, restores.prepare_restore(context, point, keep_edits=question.keep_edits), None, planned)

    try:
        return rewind_and_report(prepare, options, done, question, arrives_in=context if files and chat else None)
    except errors.AgentError as error:
        hint = f"casrewind back {word} --code takes the files over" if options.what == "both" else error.hint
        raise errors.AgentError(error.problem, hint) from error


def _needs_agreement(options: "ParsedOptions", target: RewindTarget, moved: str, *, changes: bool) -> bool:
    """True if a person has to agree: to changes, to another session's turn, or because the numbers moved. Raises UsageError."""
    if changes and must_ask_or_raise(options, "changes anything"):
        return True
    return (target.is_other and _require_person(target)) or bool(moved)


def open_for_unreported_conversation(
    error: errors.WorkspaceNotFound, options: "ParsedOptions", settings: "Settings", reporter: "Progress | None"
) -> Context:
    """Open a project without a store, if its client has a conversation: the store records its rewind. Else raises `error`, with what
    a person does to have one."""
    from ...agents import session_files
    from ...settings import find_root, open_context

    root = find_root(options.directory, settings)
    if session_files.find_newest_transcript(session_files.Homes(settings.home, settings.environ), root.path, options.session or "") is None:
        connect = how_to_connect(root.path, settings.home, settings.environ)
        raise errors.WorkspaceNotFound(error.problem, f"{connect}; {error.hint}") from error
    return open_context(options.directory, settings, create=True, progress=reporter)


def _skipped_lines(skipped: tuple[int, ...], turn: int) -> list[Line]:
    """What stands above the plan if newer turns are taken back already."""
    words = skipped_in_words(skipped, turn)
    return [Line(words)] if words else []


def _plan_title(context: Context, target: RewindTarget, *, files: bool) -> str:
    """The target of a rewind, as the first line of its plan."""
    point = target.points[target.at]
    branches = "" if point is None else branches_in_words(context, point)
    return f"back {_restore_target_of(context, target, files=files).name}{branches}"


def _unfinished_in_words(context: Context, target: RewindTarget, *, files: bool) -> str:
    """The turns that a rewind takes back and that still run, or were cut short. Without `files`, those of the conversation."""
    if not target.turn:
        return ""
    turns = WorktreeTimeline(context, needs_operations=False).with_turns(target.turn).turns[: target.turn]
    taken = [turn._replace(taken_back=False) for turn in turns if files or turn.session == target.conversation.session]
    named = enumerated([f"@{turn.n}{marks_in_brackets(turn)}" for turn in taken if turn.marks])
    return f", taking back {named}" if named else ""


def _restore_target_of(context: Context, target: RewindTarget, *, files: bool) -> restored.RestoreTarget:
    """The target of a rewind: its prompt, its turn and age, and the turns without an end that it takes back."""
    point = target.points[target.at]
    moment = target.prompt.time_ns or (0 if point is None else point.created_ns)
    details = filter(None, (_turn_and_conversation(target), age_in_words(moment) if moment else ""))
    unfinished = _unfinished_in_words(context, target, files=files)
    name = f'to before "{restored.first_words(target.prompt.text)}" ({", ".join(details)}){unfinished}'
    state = f"@{target.turn}" if target.turn else ""
    return restored.RestoreTarget(name, target.turn or None, None if point is None else point.created_ns, state)


def _turn_and_conversation(target: RewindTarget) -> str:
    """The number of a turn, if it has one. Its conversation, if nobody named it: @3 of claude 355c4eec, another session."""
    if target.turn and not target.is_other:
        return f"@{target.turn}"
    other = ", another session" if target.is_other else ""
    return f"{f'@{target.turn} of ' if target.turn else ''}{target.conversation_in_words}{other}"


def _require_person(target: RewindTarget) -> bool:
    """True: a turn of another session is asked about, and `--yes` is no answer. Raises UsageError without a terminal."""
    if not can_person_answer():
        raise errors.UsageError(
            f"@{target.turn} is a turn of another session, {target.conversation_in_words}",
            f"to go back there, add --session {target.conversation.session}",
        )
    return True


def _show_and_ask(what: str, *more: str) -> bool:
    """Show `what` and ask. Any answer but yes is no."""
    return ask_about_plan(Proposal(Line(what), [Line(f"  {words}") for words in more if words])) == YES
