"""The result of a rewind as lines: what it did to files, how the conversation goes on, and the prompts that are gone."""

import os
from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING
from ...messages import enumerated, plural, printable, session_in_words, shell_quoted_path
from ...model.at_risk import NO_EDITS, OutsideEdits
from ...model.rewind_record import FORK, IN_PLACE
from .received import receipt_lines
from .restored import NO_TARGET, RestoreTarget, foreign_lines, outside_lines, restored_lines, way_back_lines
from .text import SHOWN, Line

if TYPE_CHECKING:
    from ...change.receipt import Receipt
    from ...change.rewind import Chat, Forks, Rewound
    from .shapes import Shape

_DONE = {FORK: "forked", IN_PLACE: "rewritten"}
_WIDTH = 160
"""Characters of a prompt in output."""


def rewound_lines(
    report: "Rewound", target: RestoreTarget = NO_TARGET, *, outside: OutsideEdits = NO_EDITS, copied: str | None = None,
    is_inside: bool = False, receipt: "Receipt | None" = None,
) -> Iterator[Line]:  # fmt: skip
    """What was done, then how the conversation goes on, then how to undo it. `is_inside`: a person reads it in a client.
    `outside`: the paths that were edited outside of a turn. `copied`: the tool that has the removed prompts, or None."""
    for words in report.notes:
        yield Line(f"casrewind: note: {words}", is_remark=True)
    if report.dry_run and target.name:
        yield Line(f"back {target.name}:")
    if report.restored is not None and _is_only_conversation(report):
        yield Line(f"back {target.name}: no file changed".lstrip())
    elif report.restored is not None:
        # the conversation that goes on from here is not told: it ends before
        done = report.restored if not report.transcript else report.restored._replace(tells_agent=False)
        yield from restored_lines(done, target.name, state=target.state, is_inside=is_inside, has_way_back=False)
        if report.dry_run or is_inside:
            yield from outside_lines(outside)
        yield from foreign_lines(report.restored.foreign)
    elif target.name and not report.dry_run:
        yield Line(f"back {target.name}")
    if receipt is not None:
        yield from receipt_lines(receipt)
    if report.dry_run and report.machine:
        yield Line(f"would bring the conversation of {printable(report.machine)} here")
    elif report.dry_run and report.transcript:
        yield Line(f"would take back {plural(len(report.prompts), 'prompt')} of the conversation")
    yield from removed_prompts(report)
    if copied is not None:
        yield Line(f"  copied to the clipboard ({copied})")
    if not report.dry_run:
        yield from _next_lines(report, is_inside=is_inside)


def _is_only_conversation(report: "Rewound") -> bool:
    """True if a conversation was taken back whose files were as before: nothing is to be said of them."""
    done = report.restored
    has_files = done is not None and (done.actions or done.kept or done.edited or done.incomplete)
    return bool(report.transcript) and not (report.dry_run or has_files)


def _next_lines(report: "Rewound", *, is_inside: bool) -> Iterator[Line]:
    """How the conversation goes on, if it was requested, and how to undo it."""
    if report.transcript:
        yield from _conversation_lines(report.chat, is_inside=is_inside)
    if report.restored is not None:
        yield from way_back_lines(report.restored)


def _conversation_lines(chat: "Chat | None", *, is_inside: bool) -> Iterator[Line]:
    if chat is None:
        yield Line(f"{'  ' if is_inside else ''}there is nothing before that: start a new session in the client")
    elif is_inside and chat.inside:
        yield Line(f"  to go on from there: {chat.inside}", is_whole=True)
    elif is_inside:
        yield Line(f"  to go on from there, in a terminal: {chat.resume}", is_whole=True)
    else:
        yield Line(f"{_DONE.get(chat.mode, 'continue the conversation')}: {chat.resume}", is_whole=True)
    if chat is not None and chat.backup is not None:
        yield Line(f"  as it was: {printable(chat.backup)}", is_whole=True)


def forks_lines(forks: "Forks", directories: Sequence[str]) -> Iterator[Line]:
    """How the conversation goes on in each of the directories that a checkpoint was written into. `directories`: as the shell
    of the person finds them."""
    for words in forks.notes:
        yield Line(f"casrewind: note: {words}", is_remark=True)
    if forks.is_empty:
        yield Line("there is nothing before that: start a new session there")
    elif forks.dry_run:
        places = enumerated(list(map(printable, directories)))
        yield Line(f"would fork the conversation {session_in_words(forks.agent, forks.session)} for {places}")
    for directory, chat in zip(directories, forks.chats, strict=False):
        yield Line(f"forked: {command_to_continue(directory, chat)}", is_whole=True)
    yield from removed_prompts(forks)


def command_to_continue(directory: str, chat: "Chat") -> str:
    """The line of a shell with which a conversation goes on in a directory."""
    return f"cd {shell_quoted_path(directory)} && {chat.resume}"


def fork_shape(chat: "Chat", directory: str = "") -> "Shape":
    """A conversation that a rewind made, as JSON; with a directory, also the line that opens it there."""
    from . import shapes

    where = {**shapes.path(os.fsencode(chat.path)), **shapes.path_or_none(chat.backup, "backup")}
    more = {"command": command_to_continue(directory, chat)} if directory else {}
    return {"session_id": chat.session, **where, "resume": chat.resume, "mode": chat.mode, **more}


def removed_prompts(report: "Rewound | Forks") -> Iterator[Line]:
    """The prompts that the conversation no longer contains, one line each."""
    for prompt in report.prompts[:SHOWN]:
        words = printable(" ".join(prompt.split()))
        yield Line(f"  taken back: {words[:_WIDTH]}{'...' if len(words) > _WIDTH else ''}")
    if len(report.prompts) > SHOWN:
        yield Line(f"  ... and {len(report.prompts) - SHOWN} more prompts")
