"""Carries out a rewind for a command, after its questions, and prints what became of the conversation and the files."""

import os
import subprocess
from collections.abc import Callable

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...change.receipt import NOT_COMPARED, Receipt, find_receipt
from ...change.rewind import RewindChange, Rewound
from ...history.conversation import RewindTarget
from ...model.at_risk import NO_EDITS
from ..show import restored, shapes
from ..show.received import receipt_shape
from ..show.rewound import fork_shape, rewound_lines
from ..terminal.lines import OK, REMARKS, Done, note, print_json, print_lines
from .carry_out import carry_out_or_decline
from .question import PlanQuestion

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

_TOOLS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
    ("", ("termux-clipboard-set",)),
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
)
"""(variable that the tool requires, "" = none; command that reads the text from its standard input)."""
_PATIENCE = 5.0


def rewind_and_report(
    prepare: Callable[[], RewindChange], options: "ParsedOptions", done: Done, question: PlanQuestion, target: RewindTarget | None = None,
    arrives_in: "Context | None" = None,
) -> int:  # fmt: skip
    """Carry out the rewind that `prepare` returns, after its question, and report the result. `arrives_in`: the project that gets the
    files and the conversation of another machine."""
    report = carry_out_or_decline(prepare, question, dry_run=options.dry_run)
    if report is None:
        return OK
    done()
    if report.restored is not None and report.dry_run:
        question.find_outside_edits(report.restored.actions)
        question.find_inner_turns(report.restored.actions)
    if arrives_in is None or report.dry_run:
        return print_rewound(report, options, target, question)
    try:
        receipt = find_receipt(arrives_in)
    except errors.CasrewindError as error:  # the files and the conversation are here
        note(NOT_COMPARED.format(error))
        return max(REMARKS, print_rewound(report, options, target, question))
    return print_rewound(report, options, target, question, receipt)


def print_rewound(
    report: Rewound, options: "ParsedOptions", target: RewindTarget | None = None, question: PlanQuestion | None = None,
    receipt: Receipt | None = None,
) -> int:  # fmt: skip
    """Print what a rewind did, or would do, as text or JSON. Returns the exit code."""
    copied = None
    if getattr(options, "copy", False) and report.prompts and not report.dry_run:
        copied = _copy_to_clipboard("\n\n".join(report.prompts))
        if copied is None:
            note("no clipboard tool was found (wl-copy, xclip, xsel, pbcopy, tmux): nothing was copied")
    if options.json:
        came = {} if receipt is None else receipt_shape(receipt)
        print_json(_rewound_json(report, target, question) | came | ({"copied": copied is not None} if options.command == "back" else {}))
    else:
        goal, outside = (restored.NO_TARGET, NO_EDITS) if question is None else (question.target, question.outside)
        is_inside = bool(os.environ.get(launch.INSIDE))
        told = {line.text for line in question.notes} if question is not None and question.is_called else ()
        report = report._replace(notes=tuple(words for words in report.notes if words not in told))
        print_lines(rewound_lines(report, goal, outside=outside, copied=copied, is_inside=is_inside, receipt=receipt))
        if report.dry_run and question is not None:
            print_lines(restored.inner_lines(question.inner))
    is_whole = receipt is None or receipt.has_come
    return OK if is_whole and not (report.restored is not None and report.restored.incomplete) else REMARKS


def _rewound_json(report: Rewound, target: RewindTarget | None, question: PlanQuestion | None) -> shapes.Shape:
    chat = report.chat
    outside, goal = (NO_EDITS, restored.NO_TARGET) if question is None else (question.outside, question.target)
    inner = () if question is None else question.inner
    found = {} if report.restored is None else restored.restored_json(report.restored, outside.proved, goal, inner=inner)
    return {
        "foreign": [],
        **found,
        "fork": None if chat is None else fork_shape(chat),
        "prompts": list(report.prompts),
        "notes": list(report.notes),
        "dry_run": report.dry_run,
        **({} if target is None else _target_json(target)),
    }


def _target_json(target: RewindTarget) -> shapes.Shape:
    """The prompt of `back`: `number` counts the turns of its conversation, `turn` those of the list."""
    client = target.conversation.client
    return {
        "number": target.number, "turn": target.turn or None, "agent": client.name, "session": target.conversation.session,
    }  # fmt: skip


def _copy_to_clipboard(text: str) -> str | None:
    """Copy text to the clipboard. Returns the name of the tool, or None if no tool succeeded."""
    from ... import programs

    for variable, (name, *arguments) in _TOOLS:
        tool = programs.find_program(name, os.environ)
        if (variable and not os.environ.get(variable)) or tool is None:
            continue
        null = subprocess.DEVNULL  # a tool may keep running to serve the text: it must not hold our pipes
        try:
            done = subprocess.run(
                [tool, *arguments], input=text.encode("utf-8", "replace"), stdout=null, stderr=null, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return name
    return None
