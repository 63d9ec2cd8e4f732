"""The pager: shows long output page by page. It is started as git starts it.

The danger prevented here: a `less` of the project is run, because PATH has `.` or an empty entry. The pager gets a PATH
without such entries.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..._typing import TYPE_CHECKING, Any
from . import colour_decision
from .lines import drop_output, set_paged_columns
from .table import set_width, terminal_width

if TYPE_CHECKING:
    import subprocess

    from ..grammar.command_line import ParsedOptions

DEFAULT = "less"
_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
"""Default variables for the pager. With them, less exits by itself if all output fits on one screen."""


@contextmanager
def pager(options: "ParsedOptions") -> Iterator[None]:
    """Send the output of the with-block to the pager, if standard output is a terminal.

    `options.no_pager` or `options.json` disables it. It also applies `options.color`. The block ends without an error
    when the person closes the pager. While the pager runs, the pager handles interrupts.
    """
    colour_decision.set_colour_mode(options)
    command = _pager_command() if _has_pager_and_terminal(options) else None
    if command is None:
        yield
        return
    import signal

    started = _start_pager(command)
    if started is None:
        yield
        return
    handler = _ignore_interrupts()
    saved = _redirect_to_pager(started)
    try:
        with suppress(BrokenPipeError):
            yield
            sys.stdout.flush()
    finally:
        _redirect_to_terminal(saved)
        started.wait()
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


def _has_pager_and_terminal(options: "ParsedOptions") -> bool:
    if getattr(options, "no_pager", False) or getattr(options, "json", False):
        return False
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _pager_command() -> str | None:
    """The command of the pager. None if it is "", "cat" or not installed."""
    import shlex

    from ... import programs

    for name in ("CASREWIND_PAGER", "PAGER"):
        if name in os.environ:
            command = os.environ[name].strip()
            break
    else:
        command = DEFAULT
    try:
        words = [word for word in shlex.split(command) if not word.partition("=")[0].isidentifier() or "=" not in word]
    except ValueError:
        return None  # an unclosed quote
    if not words or words == ["cat"] or programs.find_program(words[0], os.environ) is None:
        return None
    return command


def _start_pager(command: str) -> "subprocess.Popen[bytes] | None":
    import subprocess

    from ... import programs

    path = programs.absolute_path(os.environ)
    environment = {**_DEFAULTS, **os.environ, "PATH": path, "COLUMNS": str(terminal_width())}
    try:
        return subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    except OSError:
        return None


def _ignore_interrupts() -> Any:  # the type of a handler is private to the stubs of `signal`
    """Ignore interrupts while the pager runs. Returns the previous handler, or None if no handler can be set."""
    import signal

    try:
        return signal.signal(signal.SIGINT, lambda *_: None)
    except ValueError:  # not in the main thread
        return None


def _redirect_to_pager(started: "subprocess.Popen[bytes]") -> int:
    """Redirect standard output to the pager. Returns a copy of the original descriptor."""
    assert started.stdin is not None
    sys.stdout.flush()
    set_width(terminal_width())
    set_paged_columns(terminal_width())
    colour_decision.record_if_paged(is_paged=True)
    number = sys.stdout.fileno()
    saved = os.dup(number)
    os.dup2(started.stdin.fileno(), number)
    started.stdin.close()
    _set_line_buffering(on=False)
    return saved


def _redirect_to_terminal(saved: int) -> None:
    """Redirect standard output to the terminal again. Unread output of the pager is discarded."""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
        sys.stdout.flush()
    os.dup2(saved, sys.stdout.fileno())
    os.close(saved)
    _set_line_buffering(on=True)
    set_width(None)
    set_paged_columns(0)
    colour_decision.record_if_paged(is_paged=False)


def _set_line_buffering(*, on: bool) -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=on)
