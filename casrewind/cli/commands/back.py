"""casrewind back and rewrite-chat, and restore --chat and --both: a conversation goes back, alone or with the files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator

from ... import errors, fsio
from ..._typing import Any
from ...agents.prompts import Prompt
from ...model.plan import Plan
from ...model.rewind import FORK
from ...ops import rewind
from ...ops.rewind import Chat, Rewound
from ...workspace import context_of, homes_of
from .. import json_output, restore_output
from ..output import SHOWN, age, agreed, as_json, asks, note, plural, print_line, remark
from . import OK, REMARKS, Done

_WORD = "REWRITE"
_SESSION = 8  # characters of a session's id that are shown
_WIDTH = 160  # characters of a prompt that are shown
_TOOLS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
    ("", ("termux-clipboard-set",)),
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
)
"""(the variable without which it is of no use, "" = none; the command that takes the text on its input)."""
_PATIENCE = 5.0


def back(workspace: Any, options: Any, done: Done) -> int:
    """casrewind back."""
    from ...ops.restore import Declined

    files, chat = options.what != "chat", options.what != "code"
    if options.in_place and not chat:
        raise errors.UsageError("back --in-place cuts the conversation: it excludes --code")
    asking = _asks(options, files or options.in_place)
    title = [f"back to before prompt {options.number}"]

    def announce(prompt: Prompt, agent: str, session: str) -> None:
        when = f"{age(prompt.time_ns)}, " if prompt.time_ns else ""
        title[0] = f'back to before "{restore_output.shortened(prompt.text)}" ({when}{agent} {session[:_SESSION]})'

    try:
        report = rewind.back(
            context_of(workspace),
            homes_of(workspace),
            options.number,
            session=options.session or "",
            preferred=os.environ.get("CASREWIND_SESSION", ""),
            both=files,
            chat=chat,
            in_place=options.in_place,
            nearest=options.nearest,
            choose=agree if asking else None,
            agree=agree if asking else None,
            confirm=_confirming(workspace, lambda: title[0], done) if asking and files else None,
            announce=announce,
        )
    except Declined:
        print_line("nothing was changed")
        return OK
    done()
    return _rewound(report, options)


def restore(workspace: Any, options: Any, point: Any, done: Done) -> int:
    """casrewind restore --chat and --both, casrewind jump."""
    from ...ops.restore import Declined

    both = options.what == "both"
    if options.to is not None:
        raise errors.UsageError(f"restore --to DIR writes files only: it takes no --{options.what}")
    scope = workspace.paths(options.rest, [point], options.directory)
    if options.dashed and not (scope and both):
        raise errors.UsageError("paths behind -- limit what is done to files: they go with --code or --both, and are not none")
    asking = both and not options.dry_run and _asks(options, both)
    try:
        report = rewind.to_checkpoint(
            context_of(workspace),
            homes_of(workspace),
            point,
            both=both,
            scope=scope,
            dry_run=options.dry_run,
            skip_damaged=options.skip_damaged,
            confirm=_confirming(workspace, lambda: f"restore to {restore_output.title_of(workspace, point)}", done) if asking else None,
        )
    except Declined:
        print_line("nothing was changed")
        return OK
    done()
    return _rewound(report, options)


def rewrite(workspace: Any, options: Any, done: Done) -> int:
    """casrewind rewrite-chat."""
    point = workspace.checkpoint(options.ref)
    context, homes = context_of(workspace), homes_of(workspace)
    planned = rewind.to_checkpoint(context, homes, point, in_place=True, dry_run=True)
    done()
    for line in removed_prompts(planned):
        remark(line)
    remark(f"The conversation of {point.id} will be cut in its own session; as it is now it is kept beside:")
    remark(f"  {fsio.printable(planned.transcript)}")
    sys.stderr.write(f"Type {_WORD} to do it: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != _WORD:
        raise errors.UsageError(f"nothing was changed: rewrite-chat wants the word {_WORD} typed, on standard input")
    return _rewound(rewind.to_checkpoint(context, homes, point, in_place=True), options)


def _asks(options: Any, changes: bool) -> bool:  # noqa: FBT001 - one meaning
    """Whether a person is asked. Raises UsageError where nobody can be."""
    return changes and asks(options, f"{options.command} asks before it changes anything, and there is no terminal")


def _rewound(report: Any, options: Any) -> int:
    copied = None
    if getattr(options, "copy", False) and report.prompts:
        copied = _copy("\n\n".join(report.prompts))
        if copied is None:
            note("no clipboard tool was found (wl-copy, xclip, xsel, pbcopy, tmux): nothing was copied")
    if options.json:
        as_json(_shape(report) | ({"copied": copied is not None} if hasattr(options, "copy") else {}))
    else:
        print_rewound(report, copied=copied)
    return REMARKS if report.restored is not None and report.restored.incomplete else OK


def print_rewound(report: Rewound, *, copied: str | None = None) -> None:
    """What was done, the files first, as it happened."""
    for line in report.notes:
        note(line)
    if report.restored is not None:
        restore_output.print_restored(report.restored)
        foreign(report.foreign)
    if report.dry_run:
        print_line(f"would take back {plural(len(report.prompts), 'prompt')} of the conversation")
    elif not report.transcript:
        pass  # the conversation was not asked for
    elif report.chat is None:
        print_line("nothing was said before that: start a new session in the client")
    else:
        _chat(report.chat)
    for line in removed_prompts(report):
        print_line(line)
    if copied is not None:
        print_line(f"  copied to the clipboard ({copied})")


def _chat(chat: Chat) -> None:
    name = "forked" if chat.mode == FORK else "rewritten"
    print_line(f"{name}: {chat.resume}")
    if chat.inside:
        print_line(f"  in the client: type {chat.inside}")
    if chat.backup is not None:
        print_line(f"  as it was: {fsio.printable(chat.backup)}")


def removed_prompts(report: Rewound) -> Iterator[str]:
    """The prompts that are no longer part of it, a line each."""
    for prompt in report.prompts[:SHOWN]:
        words = fsio.printable(" ".join(prompt.split()))
        yield f"  taken back: {words[:_WIDTH]}{'...' if len(words) > _WIDTH else ''}"
    if len(report.prompts) > SHOWN:
        yield f"  ... and {len(report.prompts) - SHOWN} more prompts"


def foreign(paths: Iterable[bytes]) -> None:
    """The paths that another session may have changed."""
    found = list(paths)
    if found:
        print_line(f"  changed while another session ran ({plural(len(found), 'path')}):")
    for path in found[:SHOWN]:
        print_line(f"    {fsio.printable(path)}")
    if len(found) > SHOWN:
        print_line(f"    ... and {len(found) - SHOWN} more")


def _confirming(workspace: Any, title: Callable[[], str], done: Callable[[], None]) -> Callable[[Plan, tuple[bytes, ...]], bool]:
    """A function that shows a plan and asks."""

    def confirm(plan: Plan, strange: tuple[bytes, ...]) -> bool:
        done()
        return restore_output.confirm(workspace, plan, title(), lambda: foreign(strange))

    return confirm


def agree(what: str) -> bool:
    """Say something and ask whether to go on. Anything but yes is no."""
    print_line(what)
    return agreed("Go on?")


def _shape(report: Rewound) -> json_output.Shape:
    chat = report.chat
    found = {} if report.restored is None else restore_output.shape(report.restored)
    fork = None
    if chat is not None:
        where = {**json_output.path(os.fsencode(chat.path)), **json_output.path_or_none(chat.backup, "backup")}
        fork = {"session_id": chat.session, **where, "resume": chat.resume, "mode": chat.mode}
    return {
        **found,
        "foreign": [raw.decode("utf-8", "replace") for raw in report.foreign],
        "fork": fork,
        "prompts": list(report.prompts),
        "notes": list(report.notes),
        "dry_run": report.dry_run,
    }


def _copy(text: str) -> str | None:
    """Put text on the clipboard; the tool that took it, None when there is none or none did."""
    for variable, command in _TOOLS:
        if (variable and not os.environ.get(variable)) or shutil.which(command[0]) is None:
            continue
        null = subprocess.DEVNULL  # some of them stay to serve the text: they must hold none of our pipes
        try:
            done = subprocess.run(
                command, input=text.encode("utf-8", "replace"), stdout=null, stderr=null, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command[0]
    return None
