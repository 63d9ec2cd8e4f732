"""Whether output has colours: what the command line says, then variables, then what the output goes to."""

import os

from .._typing import Any, TextIO

AUTO, ALWAYS, NEVER = "auto", "always", "never"
CHOICES = (AUTO, ALWAYS, NEVER)


class _State:
    """What holds for this process: what was asked for, and whether a pager has taken the place of a terminal."""

    choice = AUTO
    is_paged = False


def choose(options: Any) -> None:
    """Take over what the command line says in `options.color`: "auto", "always" or "never"; without it "auto"."""
    _State.choice = getattr(options, "color", None) or AUTO


def set_paged(*, is_paged: bool) -> None:
    """Say that standard output goes to a pager on a terminal, or does no longer."""
    _State.is_paged = is_paged


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at a stream: on a terminal, or in a pager on one."""
    import sys

    return (_State.is_paged and stream is sys.stdout) or stream.isatty()


def is_on(stream: TextIO, *, for_programs: bool = False) -> bool:
    """Whether a stream takes colours.

    --color decides; then NO_COLOR; then FORCE_COLOR, which does not count for what programs read (`for_programs`); then
    whether the stream is a terminal that has colours.
    """
    if _State.choice != AUTO:
        return _State.choice == ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0") and not for_programs:
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"
