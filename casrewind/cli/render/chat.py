"""What a person reads of a conversation that was taken back: back, restore --chat and --both, rewrite-chat."""

from collections.abc import Callable, Iterable, Iterator

from ... import fsio
from ...model.plan import Plan
from ...model.rewind import FORK
from ...ops.rewind import Chat, Rewound
from . import travel
from .text import SHOWN, asked, plural, remark, say

_WIDTH = 160  # characters of a prompt that are shown


def rewound(report: Rewound, *, copied: str | None = None) -> None:
    """What was done, the files first, as it happened."""
    for note in report.notes:
        remark(f"casrewind: note: {note}")
    if report.restored is not None:
        travel.restored(report.restored, dry_list=report.dry_run)
        foreign(report.foreign)
    if report.dry_run:
        say(f"would take back {plural(len(report.prompts), 'prompt')} of the conversation")
    elif report.chat is None:
        say("nothing was said before that: start a new session in the client")
    else:
        _chat(report.chat)
    for line in to_be_taken(report):
        say(line)
    if copied is not None:
        say(f"  copied to the clipboard ({copied})")


def _chat(chat: Chat) -> None:
    name = "forked" if chat.mode == FORK else "rewritten"
    say(f"{name}: {chat.resume}")
    if chat.inside:
        say(f"  in the client: type {chat.inside}")
    if chat.backup is not None:
        say(f"  as it was: {fsio.show(chat.backup)}")


def to_be_taken(report: Rewound) -> Iterator[str]:
    """The prompts that are no longer part of it, a line each."""
    for prompt in report.prompts[:SHOWN]:
        words = fsio.show(" ".join(prompt.split()))
        yield f"  taken back: {words[:_WIDTH]}{'...' if len(words) > _WIDTH else ''}"
    if len(report.prompts) > SHOWN:
        yield f"  ... and {len(report.prompts) - SHOWN} more prompts"


def foreign(paths: Iterable[bytes]) -> None:
    """The paths that another session may have changed."""
    found = list(paths)
    if found:
        say(f"  changed while another session ran ({plural(len(found), 'path')}):")
    for path in found[:SHOWN]:
        say(f"    {fsio.show(path)}")
    if len(found) > SHOWN:
        say(f"    ... and {len(found) - SHOWN} more")


def confirming(what: str, done: Callable[[], None]) -> Callable[[Plan, tuple[bytes, ...]], bool]:
    """What shows a plan and asks."""

    def confirm(plan: Plan, strange: tuple[bytes, ...]) -> bool:
        done()
        return travel.ask(plan, what, lambda: foreign(strange))

    return confirm


def agree(what: str) -> bool:
    """Say something and ask whether to go on. Anything but yes is no."""
    say(what)
    try:
        answer = asked("Go on? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
