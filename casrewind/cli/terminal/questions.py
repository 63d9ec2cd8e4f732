"""Questions to a person on a terminal. One key answers a question about what undo takes back; what cannot be taken back
needs a line.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from ... import errors
from ..._typing import TYPE_CHECKING, NamedTuple, TextIO
from ..show.text import Line
from .lines import drop_output, print_line, print_lines

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

_FIRST_STEPS = """No checkpoints of this project yet.

  s   save one now                              casrewind save
  i   save before every prompt of Claude Code   casrewind install claude
  q   quit"""


_AGENTS = (
    "CASREWIND_INSIDE", "CASREWIND_SESSION", "CLAUDECODE", "AI_AGENT", "CURSOR_AGENT", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCODE",
)  # fmt: skip
"""Variables that are set in the shell of an agent or a hook."""


def must_ask_or_raise(options: "ParsedOptions", deed: str) -> bool:
    """True if a person has to agree first: always, but with --yes. `deed`: what the command asks before.

    Raises UsageError if nobody can answer. One rule for every command that changes files or removes something.
    """
    if options.yes or options.typed is not None:  # hook/typed_line.py has the answer of a person who typed it in a client
        return False
    if not can_person_answer():
        why = "an agent runs it" if _has_terminal() else "there is no terminal"
        raise errors.UsageError(f"{options.command} asks before it {deed}, and {why}", "add --yes to go ahead")
    return True


def can_person_answer() -> bool:
    """True if a person can answer a question: on a terminal, and not in the shell of an agent or in a hook."""
    return _has_terminal() and not any(os.environ.get(name) for name in _AGENTS)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def may_ask_optional_question(options: "ParsedOptions") -> bool:
    """True if an optional question can be asked."""
    return not options.yes and not options.json and can_person_answer()


def read_answer(question: str, stream: "TextIO | None" = None) -> str:
    """Ask and read an answer. `input` itself may write the question to a discarded stream. Raises EOFError."""
    stream = stream or question_stream()
    stream.write(question)
    stream.flush()
    return input()


class Proposal(NamedTuple):
    """What a person is asked to agree to. The picker asks it in a dialog, any other command on the terminal."""

    headline: Line
    lines: Sequence[Line] = ()
    """The details below the headline."""
    notes: Sequence[Line] = ()
    """What stands above it."""
    kept: str = ""
    """A sentence on what a yes preserves."""
    patch: "Callable[[], Iterable[Line]] | None" = None
    """The lines of what would change, which the answer `d` shows."""
    may_keep: bool = False
    """True if the person may choose another plan, which keeps their edits."""


YES, KEEP_EDITS, NO = "y", "e", ""
"""Answers of a person."""
_YES = ("y", "yes")
Ask = Callable[[Proposal], str]
"""Asks a person, and returns YES, NO, or KEEP_EDITS if the proposal offers that. Any other answer is no."""


def ask_about_plan(proposal: Proposal, pager: Callable[[], AbstractContextManager[None]] = nullcontext) -> str:
    """Show a proposal on the terminal, and ask. `d` shows the patch in a pager, then the proposal again, and asks again."""
    stream, patch = question_stream(), proposal.patch

    def show_proposal() -> None:
        print_lines([*proposal.notes, proposal.headline, *proposal.lines], stream)

    def show_patch() -> None:
        assert patch is not None
        with pager():
            print_lines(patch(), stream)
        show_proposal()  # the patch has moved it off the screen

    show_proposal()
    question = f"Go on? {proposal.kept}".rstrip()
    return _ask_for_letter(question, None if patch is None else show_patch, may_keep=proposal.may_keep)


def question_stream() -> TextIO:
    """Where a person reads a question: standard error, if standard output alone is no terminal."""
    return sys.stdout if sys.stdout.isatty() or not sys.stderr.isatty() else sys.stderr


def agreed(question: str) -> bool:
    """Ask. Any answer but yes is no."""
    return _ask_for_letter(question, None, may_keep=False) == YES


def _ask_for_letter(question: str, show: Callable[[], None] | None, *, may_keep: bool) -> str:
    letters = f"[y/N{'/e' if may_keep else ''}{'' if show is None else '/d'}]"
    while True:
        try:
            answer = _ask_for_key(f"{question} {letters} ").lower()
        except EOFError:
            return NO
        if answer in _YES:
            return YES
        if answer == KEEP_EDITS and may_keep:
            return KEEP_EDITS
        if show is None or answer != "d":
            return NO
        show()


def _ask_for_key(question: str) -> str:
    """Ask, and read one key, or a line if standard input has no keys. Raises EOFError."""
    import termios

    from .single_key import read_key

    try:
        return read_key(sys.stdin.fileno(), question, question_stream())
    except (termios.error, ValueError):
        return read_answer(question).strip()


def agreed_for_good() -> bool:
    """Ask before a permanent removal. Any answer but a line with yes is no: a key is pressed too easily."""
    from .single_key import drop_typed

    drop_typed(sys.stdin.fileno())
    try:
        return read_answer("Go on? This cannot be undone. [y/N] ").strip().lower() in _YES
    except EOFError:
        return False


def offer_first_steps() -> list[str]:
    """Offer the first steps in a project without checkpoints. Returns the words of the chosen command, or []."""
    print_line(_FIRST_STEPS)
    try:
        answer = read_answer("What now? [s/i/q] ").strip().lower()
    except (EOFError, OSError):  # the input ends, or the terminal is gone
        answer = ""
        try:
            print_line()
            sys.stdout.flush()
        except OSError:
            drop_output()
    if answer == "s":
        return ["save"]
    if answer == "i":
        return ["install", "claude"]
    return []
