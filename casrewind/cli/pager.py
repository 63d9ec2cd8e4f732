"""The pager: a program that shows long output page by page, as git starts it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._typing import TYPE_CHECKING, Any
from . import colour, output

if TYPE_CHECKING:
    import subprocess

DEFAULT = "less"
_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
"""Variables that a pager is given where they are not set: less then ends by itself when all fits on one screen."""


@contextmanager
def pager(options: Any) -> Iterator[None]:
    """Send what is printed in the with-block to the pager, if standard output is a terminal and one is wanted.

    `options.no_pager` (or `options.json`) turns it off; `options.color` is taken over, too. The block ends quietly when the
    person closes the pager. While it runs, an interrupt is the pager's to answer.
    """
    colour.choose(options)
    import signal

    command = _command() if _is_wanted(options) else None
    started = _start(command) if command is not None else None
    if started is None:
        yield
        return
    handler = _ignore_interrupts()
    saved = _redirect(started)
    try:
        with suppress(BrokenPipeError):
            yield
            sys.stdout.flush()
    finally:
        _put_back(saved)
        started.wait()
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


def _is_wanted(options: Any) -> bool:
    if getattr(options, "no_pager", False) or getattr(options, "json", False):
        return False
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _command() -> str | None:
    """The command of the pager; None for none: where it is "" or "cat", or is no program here."""
    import shlex
    import shutil

    for name in ("CASREWIND_PAGER", "PAGER"):
        if name in os.environ:
            command = os.environ[name].strip()
            break
    else:
        command = DEFAULT
    try:
        words = [word for word in shlex.split(command) if not word.partition("=")[0].isidentifier() or "=" not in word]
    except ValueError:
        return None  # an open quote
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return None
    return command


def _start(command: str) -> "subprocess.Popen[bytes] | None":
    import subprocess

    environment = {**_DEFAULTS, **os.environ, "COLUMNS": str(output.width())}
    try:
        return subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    except OSError:
        return None


def _ignore_interrupts() -> Any:
    """Leave interrupts to the pager. What was in place before; None where no handler can be set."""
    import signal

    try:
        return signal.signal(signal.SIGINT, lambda *_: None)
    except ValueError:  # not in the main thread
        return None


def _redirect(started: "subprocess.Popen[bytes]") -> int:
    """Connect standard output with the pager. The descriptor that it had."""
    assert started.stdin is not None
    sys.stdout.flush()
    output.set_width(output.width())
    colour.set_paged(is_paged=True)
    number = sys.stdout.fileno()
    saved = os.dup(number)
    os.dup2(started.stdin.fileno(), number)
    started.stdin.close()
    _buffer_lines(on=False)
    return saved


def _put_back(saved: int) -> None:
    """Connect standard output with the terminal again. What the pager did not take is dropped."""
    try:
        sys.stdout.flush()
    except OSError:
        output.drop_output()
        sys.stdout.flush()
    os.dup2(saved, sys.stdout.fileno())
    os.close(saved)
    _buffer_lines(on=True)
    output.set_width(None)
    colour.set_paged(is_paged=False)


def _buffer_lines(*, on: bool) -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=on)
