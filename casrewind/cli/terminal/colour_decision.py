"""Decides if output has colours: by the command line, then by variables, then by the stream."""

import os

from ..._typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

AUTO, ALWAYS, NEVER = "auto", "always", "never"
_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


class _Choice:
    """What holds for this process: what was asked for, and whether a pager has taken the place of a terminal."""

    choice = AUTO
    is_paged = False


def set_colour_mode(options: "ParsedOptions") -> None:
    """Set the colour mode from `options.color`: "auto", "always" or "never". Without the option it is "auto"."""
    _Choice.choice = getattr(options, "color", None) or AUTO


def record_if_paged(*, is_paged: bool) -> None:
    """Record if standard output is now read by a pager on a terminal."""
    _Choice.is_paged = is_paged


def is_read_by_person(stream: TextIO) -> bool:
    """True if a person reads the stream, on a terminal or in a pager."""
    import sys

    return (_Choice.is_paged and stream is sys.stdout) or stream.isatty()


def has_colours(stream: TextIO, *, for_programs: bool = False) -> bool:
    """True if a stream has colours.

    --color decides first, then NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE. These two are ignored for output that programs
    read (`for_programs`). Without them, the stream has to be a terminal with colours.
    """
    if _Choice.choice != AUTO:
        return _Choice.choice == ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if not for_programs and any(os.environ.get(name, "0") not in ("", "0") for name in _FORCING):
        return True
    return is_read_by_person(stream) and os.environ.get("TERM") != "dumb"
