"""Prints lines, notes, JSON, error messages and reports of bugs."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

from ... import errors, launch
from ..._typing import TYPE_CHECKING, TextIO
from ...messages import is_disk_full, printable, reason_of

if TYPE_CHECKING:  # a usage error needs none of these imports
    from ..show.text import Line
    from .progress import Reporter

OK, REMARKS, INTERRUPTED, BUG = 0, 3, 130, 70
Done = Callable[[], None]
"""Clears the progress display before something is printed."""
_ESCAPED = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of characters that JSON does not escape, but that control a terminal or are invisible: controls, direction
changes, marks, joiners, line separators.
"""
_TAB = b" " * 8
is_limited = False
"""True if cli/main.py limited the memory of this process."""

JSON_FORMAT = 1
"""The version of the JSON objects."""
_ITEMS = 500
"""Items of a list of JSON that are encoded at once."""


class _State:
    """The output state of this process."""

    has_reported = False
    last_error = "", ""
    paged_columns = 0


# -- lines and JSON


def print_line(line: str = "", stream: "TextIO | None" = None) -> None:
    """Print one line as `print_lines` does."""
    for part in _parts_that_fit(line, _columns_of(sys.stdout if stream is None else stream)):
        print_as_it_is(part, stream)


def print_as_it_is(text: str, stream: "TextIO | None" = None) -> None:
    """Print a text that fits already, or that nothing may break. Characters outside the terminal's encoding are escaped."""
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        print(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"), file=stream)


def print_lines(found: "Iterable[Line]", stream: "TextIO | None" = None) -> None:
    """Print lines, by default to standard output, in colours if it has colours. Remarks go to standard error. On a terminal, a line
    that is too long is broken between words."""
    stream = sys.stdout if stream is None else stream
    has_colours: bool | None = None
    for line in _folded(found, stream):
        if line.styles and has_colours is None:
            has_colours = is_colourful(stream)
        if line.is_remark:
            print(line.text, file=sys.stderr)
        elif line.is_content:
            _print_bytes_of_file(line, stream)
        elif line.styles and has_colours:
            print_as_it_is("".join(f"\x1b[{style}m{text}\x1b[0m" if style else text for text, style in line.parts()), stream)
        else:
            print_as_it_is(line.text, stream)


def _folded(found: "Iterable[Line]", stream: TextIO) -> "Iterator[Line]":
    """The lines as they fit on the terminals that they are printed to."""
    width, remark_width = _columns_of(stream), _columns_of(sys.stderr)
    if not (width or remark_width):
        yield from found
        return
    from ..show.text import folded_line

    for line in found:
        columns = remark_width if line.is_remark else width
        yield from [line] if not columns or line.is_content or line.is_whole else folded_line(line, columns)


def _parts_that_fit(line: str, columns: int) -> Iterable[str]:
    """A line in the lines that a terminal of so many columns has room for; 0 columns: none is there. A text of lines stays as it is."""
    if not columns or "\n" in line or (len(line) <= columns and line.isascii()):  # most lines need no import
        return (line,)
    from ..show.text import Line, folded_line

    return (part.text for part in folded_line(Line(line), columns))


def set_paged_columns(columns: int) -> None:
    """Set the columns of the terminal behind a pager that reads standard output. 0: no pager does."""
    _State.paged_columns = columns


def _columns_of(stream: TextIO) -> int:
    """The columns of a terminal, or of a client's answer, 0 = none is there, or nobody knows them."""
    if _State.paged_columns and stream is sys.stdout:
        return _State.paged_columns
    if os.environ.get(launch.INSIDE):
        from ..show.text import IN_CLIENT

        return IN_CLIENT
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def _print_bytes_of_file(line: "Line", stream: TextIO) -> None:
    """Print a line with bytes of a file: as they are for a program, without control characters for a terminal."""
    from . import colour_decision

    is_shown, is_coloured = colour_decision.is_read_by_person(stream), colour_decision.has_colours(stream, for_programs=True)
    whole = b""
    for text, style in line.parts():
        data = text.encode("utf-8", "surrogateescape")
        if is_shown:
            sign, data = (data[:1], data[1:]) if not whole else (b"", data)
            data = printable(sign + data.replace(b"\t", _TAB)).encode("utf-8", "backslashreplace")
        whole += b"\x1b[%bm%b\x1b[m" % (style.encode(), data) if style and is_coloured else data
    stream.flush()
    stream.buffer.write(whole + b"\n")


def remark(line: str) -> None:
    """Print one line to standard error, as `print_lines` does."""
    print("\n".join(_parts_that_fit(line, _columns_of(sys.stderr))), file=sys.stderr)


def note(line: str) -> None:
    """Print one note to standard error."""
    remark(f"casrewind: note: {line}")


def print_json(shape: Mapping[str, object]) -> None:
    """Print one JSON object in UTF-8, regardless of the locale. Control characters are escaped. An iterator in `shape` is a
    list: its items are made and printed some at a time, which saves memory."""
    import json
    import re
    import unicodedata

    def escaped(match: "re.Match[str]") -> str:
        character = match[0]
        return json.dumps(character)[1:-1] if unicodedata.category(character) in _ESCAPED else character

    for part in _json_parts({"format": JSON_FORMAT, **shape}):
        text = re.sub("[^\x00-\x7e]", escaped, part.replace("\x7f", "\\u007f"))
        write_bytes(text.encode("utf-8", "replace"))
    write_bytes(b"\n")
    _State.has_reported = True


def _json_parts(shape: Mapping[str, object]) -> Iterator[str]:
    """Yield the text of an object: a value, or some items of a list, at a time."""
    import json

    before = "{"
    for key, value in shape.items():
        yield f"{before}{json.dumps(key)}: "
        before = ", "
        if isinstance(value, list | Iterator):
            items, between = iter(value), ""
            yield "["
            while lot := list(islice(items, _ITEMS)):
                yield between + json.dumps(lot, ensure_ascii=False)[1:-1]
                between = ", "
            yield "]"
        else:
            yield json.dumps(value, ensure_ascii=False)
    yield "}"


def print_json_error(code: int) -> None:
    """Print the last error as a JSON object to standard output, unless the output already has a report."""
    if _State.has_reported:
        return
    message, hint = _State.last_error
    with suppress(OSError, ValueError):
        print_json({"error": {"code": code, "message": message, "hint": hint or None}})
        sys.stdout.flush()


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output, after all earlier output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def is_colourful(stream: TextIO) -> bool:
    """True if a stream has colours."""
    from . import colour_decision

    return colour_decision.has_colours(stream)


def reporter(*, quiet: bool) -> "Reporter | None":
    """What shows progress if standard error is a terminal, else None."""
    if quiet or not sys.stderr.isatty():
        return None
    from .progress import Reporter

    return Reporter()


# -- errors


def print_error(problem: str, hint: str = "") -> None:
    """Print a line to standard error, with control characters escaped. A terminal shows the hint on its own line."""
    _State.last_error = problem, hint
    if os.environ.get(launch.TYPED_NAME):
        from ...typed_commands import advice_as_typed

        hint = advice_as_typed(hint)
    lines = [problem, hint] if sys.stderr.isatty() and hint else [errors.problem_with_hint(problem, hint)]
    remark(f"casrewind: {printable(lines[0])}")
    for line in lines[1:]:
        remark(f"  {printable(line)}")


def print_hook_failures(*directories: str) -> None:
    """Print the newest hook failure in the logs of these directories, and the number of failures, once."""
    directories = tuple(directory for directory in directories if os.path.exists(os.path.join(directory, "log")))
    if not directories:
        return
    from ...store.failure_log import FailureLog

    lines = [line for directory in directories for line in FailureLog(directory).take_unseen_lines()]
    if lines:
        more = f" ({len(lines)} of these since the last message; the store's log has them all)" if len(lines) > 1 else ""
        print_error(f"note: a hook could not do all of its work: {lines[-1]}{more}")


def report_interrupt() -> int:
    """Report an interrupt. Returns the exit code."""
    print_error("interrupted")
    return INTERRUPTED


def print_half_done_restore() -> None:
    """Explain how to continue or abort an interrupted restore."""
    print_error("the restore is half done", "casrewind restore --continue finishes it, --abort takes it back")


def is_interrupt(error: BaseException | None) -> bool:
    """True if the error was raised during the handling of an interrupt, such as a second close of a descriptor."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def system_error(error: OSError | MemoryError) -> int:
    """Print an operating system error that no other module handles: the problem and the file."""
    if isinstance(error, MemoryError):
        if is_limited:
            print_error("not enough memory: this needs more than 4 GiB", "leave large directories out, with .casrewindignore")
        else:
            print_error("not enough memory", "allow this process more (ulimit -v), and try again")
        return errors.CasrewindError.exit_code
    if is_disk_full(error):  # writes to a store or a worktree handle this themselves
        drop_output()
        print_error(f"{reason_of(error)} to write the output to", "free some space and try again")
        return errors.StoreFull.exit_code
    where = f" at {printable(error.filename)}" if error.filename else ""
    print_error(f"cannot go on{where}: {reason_of(error)}")
    return errors.CasrewindError.exit_code


def report_bug(error: Exception, argv: list[str]) -> int:
    """Report an unexpected exception: write a log for a bug report, and print its path."""
    import platform
    import tempfile
    import traceback

    from ... import __version__

    text = (
        f"casrewind {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"arguments: {argv!r}\n\n" + "".join(traceback.format_exception(error))
    )
    try:
        with tempfile.NamedTemporaryFile("w", prefix="casrewind-bug-", suffix=".log", delete=False) as file:
            file.write(text)
        print_error(f"this is a bug in casrewind: {type(error).__name__}: {error}", f"please report it with {file.name}")
    except OSError:
        print_error(f"this is a bug in casrewind: {text}")
    return BUG


def drop_output(stream: "TextIO | None" = None) -> None:
    """Discard what is buffered for standard output, or another stream, so that the flush at exit cannot fail."""
    with suppress(AttributeError, OSError, ValueError):  # a stream without a descriptor has no buffer to discard
        number = (sys.stdout if stream is None else stream).fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def reset_output() -> None:
    """Reset the state of an earlier command in this process, and open /dev/null for closed standard streams. Otherwise
    output could be written into a file of the store."""
    _State.has_reported, _State.last_error = False, ("", "")
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open as long as the process runs
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
