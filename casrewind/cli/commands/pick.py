"""casrewind without a command, on a terminal: the picker, on a full screen or with a plain prompt."""

import os
import shlex
import sys
from collections.abc import Callable

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history.turn_view import TurnView
from ...messages import printable
from ..grammar.command_line import CommandLine
from ..grammar.options import Command
from ..picker.state import hint_with_keys
from ..plan.facts import interrupted_restore_details
from ..show.text import Line
from ..terminal.lines import (
    INTERRUPTED,
    print_error,
    print_half_done_restore,
    print_line,
    remark,
    report_interrupt,
    reporter,
)
from ..terminal.questions import Proposal, ask_about_plan, read_answer
from . import OK, REMARKS, Done, diff, pin, redo, restore, rewrite_chat, undo
from . import list as listing

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(examples=(), options=(), saves=True, tells_restore=True)
_LEAST_WIDTH = 40
"""Minimum columns for a full screen."""
_PAGE = 10
_HELP = (
    "c REF code   t REF chat   b REF both   i REF chat in place   c REF PATH... chosen files   d REF what would change\n"
    "d REF REF from one to the other   u undo   U undo all   r redo   p REF pin   l REF LABEL   a all   m more   q quit"
)
_WAYS = {
    "u": (undo.run, ["undo"]),
    "U": (undo.run, ["undo", "--all"]),
    "r": (redo.run, ["redo"]),
    "continue": (restore.run, ["restore", "--continue"]),
    "abort": (restore.run, ["restore", "--abort"]),
}
_WHAT = {"c": "--code", "t": "--chat", "b": "--both"}


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """Choose a checkpoint and restore it, on a full screen or with a plain prompt."""
    if not has_screen():
        return _ask_at_plain_prompt(context, options, done)
    try:
        from ..picker import app
    except ImportError as error:  # installed without its dependencies
        remark(f"casrewind: note: no full screen ({error}): a plain prompt instead")
        return _ask_at_plain_prompt(context, options, done)
    name = printable(os.path.basename(context.root.path))
    code, outcome, incomplete = app.run(context, options.relay, name, keep_edits=options.configured_keep_edits)
    for line in outcome:
        print_line(line)
    if code == INTERRUPTED:
        if context.store.is_interrupted(context.root.key):
            print_half_done_restore()
        return report_interrupt()
    return code or (REMARKS if incomplete else OK)


def has_screen() -> bool:
    """True if the terminal can show a full screen and is wide enough.

    Standard error has to be a terminal, too: textual draws on it.
    """
    try:
        columns = os.get_terminal_size().columns
        if not sys.stderr.isatty():
            return False
    except OSError:
        return False
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown") and columns >= _LEAST_WIDTH


def _ask_at_plain_prompt(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """List, ask and run commands until the input ends or a line is empty. Returns the last exit code."""
    shown = reporter(quiet=options.quiet)
    if shown is not None:
        options.relay.listener, options.relay.done = shown, shown.close
    return _Prompt(context, options, done).ask_until_done()


class _Prompt:
    def __init__(self, context: "Context", options: "ParsedOptions", done: Done) -> None:
        self._context, self._options, self._done = context, options, done
        self._rows = _PAGE
        self._all = not TurnView(context, needs_operations=False).turns

    def ask_until_done(self) -> int:
        code, is_changed = OK, True
        while True:
            if is_changed and (lines := interrupted_restore_details(self._context)):
                for line in ("A restore was interrupted here.", *lines, "continue finishes it, abort takes it back"):
                    print_line(line)
            self._run_command(listing.run, ["list", "-n", str(self._rows), *(["--all"] if self._all else [])])
            print_line(_HELP)
            try:
                answer = read_answer("What now? [q] ").strip()
            except EOFError:
                print_line()
                return code
            if answer in ("", "q", "quit", "\x1b"):
                return code
            is_changed = False
            try:
                found = self._run_answer(answer)
                if found is not None:
                    code, is_changed = found, True
            except errors.CasrewindError as error:
                print_error(error.problem, hint_with_keys(error.hint))
            except ValueError as error:
                print_error(str(error))

    def _run_answer(self, answer: str) -> int | None:
        """Run one command. Returns its exit code, or None if it only shows data."""
        verb, *given = shlex.split(answer)
        if verb == "a":
            self._all = not self._all
        elif verb == "m":
            self._rows += _PAGE
        elif verb in _WAYS and not given:
            return self._run_command(*_WAYS[verb])
        elif verb in _WHAT and given:
            return self._restore_past_damage(["restore", given[0], _WHAT[verb]], given[1:])
        elif verb == "i" and len(given) == 1:
            return self._run_command(rewrite_chat.run, ["rewrite-chat", given[0]])
        elif verb == "d" and given:
            self._run_command(diff.run, ["diff", "--patch", *given[:2]], given[2:])
        elif (verb == "p" and len(given) == 1) or (verb == "l" and len(given) > 1):
            return self._run_command(pin.run, ["pin", given[0], *([" ".join(given[1:])] if verb == "l" else [])])
        else:
            remark(f"casrewind: {answer!r} is not one of the answers")
        return None

    def _restore_past_damage(self, line: list[str], paths: list[str]) -> int:
        """Restore. If a part of the target is damaged, ask whether all the rest may be restored."""
        try:
            return self._run_command(restore.run, line, paths)
        except errors.StoreDamaged as error:
            if line[-1] == "--chat" or self._context.store.is_interrupted(self._context.root.key):
                raise
            print_error(error.problem)
            if not ask_about_plan(Proposal(Line("Leave the damaged files alone, and plan everything else?"))):
                print_line("nothing was changed")
                return OK
            return self._run_command(restore.run, [*line, "--skip-damaged"], paths)

    def _run_command(self, command: Callable[..., int], line: list[str], paths: list[str] | None = None) -> int:
        options = CommandLine([*line, "--", *paths] if paths else line).parse_line()
        options.directory, options.quiet = self._options.directory, self._options.quiet
        options.configured_keep_edits = self._options.configured_keep_edits
        return command(self._context, options, self._done)
