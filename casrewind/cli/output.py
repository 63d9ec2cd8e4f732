"""Output for all commands: words and numbers, tables, progress, JSON and error messages.

Tables are printed without a library: its import is slower than printing thousands of rows.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from .. import errors
from .._typing import TYPE_CHECKING, Any, TextIO
from ..messages import is_full, printable, reason_of

if TYPE_CHECKING:  # a usage error needs none of these imports
    from rich.progress import Progress, TaskID

    from ..model.checkpoint import Checkpoint
    from ..model.diff import Counts
    from ..model.domain import Skip
    from ..store.catalog import Marked

INTERRUPTED, BUG = 130, 70
SHOWN = 20
"""Paths that a report names before it only counts them."""
_ESCAPED = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of characters that JSON does not escape, but that control a terminal or are invisible: controls, direction
changes, marks, joiners, line separators.
"""
is_limited = False
"""True if cli/main.py limited the memory of this process."""
SIGNS = {"added": "+", "modified": "~", "removed": "-", "type": "~"}
"""The sign for each kind of change to a path."""
COLOURS = {"+": "32", "-": "31", "~": "33", "R": "36"}
_BETWEEN = "   "
_LEAST = 16
"""Minimum columns for the last column of a table. In a narrower terminal it is printed on lines of its own."""
_ALONE = "  "
"""The indentation of such lines."""
PIPED = 5000
"""Columns if output is not a terminal: every row is one line."""
_PATIENCE = 0.5
"""Seconds before progress is shown. rich is not imported before."""

JSON_FORMAT = 1
"""The version of the JSON objects."""


class _State:
    """The output state of this process."""

    has_reported = False
    last_error = ""


# -- lines and JSON


def print_line(line: str = "") -> None:
    """Print one line to standard output. Characters outside the terminal's encoding are escaped."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def remark(line: str) -> None:
    """Print one line to standard error."""
    print(line, file=sys.stderr)


def note(line: str) -> None:
    """Print one note to standard error."""
    remark(f"casrewind: note: {line}")


def as_json(shape: dict[str, Any]) -> None:
    """Print one JSON object in UTF-8, regardless of the locale. Control characters are escaped."""
    import json
    import re
    import unicodedata

    def escaped(match: "re.Match[str]") -> str:
        character = match[0]
        return json.dumps(character)[1:-1] if unicodedata.category(character) in _ESCAPED else character

    shape = {"format": JSON_FORMAT, **shape}
    text = re.sub("[^\x00-\x7e]", escaped, json.dumps(shape, ensure_ascii=False).replace("\x7f", "\\u007f"))
    raw(text.encode("utf-8", "replace") + b"\n")
    _State.has_reported = True


def print_json_error(code: int) -> None:
    """Print the last error as a JSON object to standard output, unless the output already has a report."""
    if _State.has_reported:
        return
    message, hint = split_hint(_State.last_error)
    with suppress(OSError, ValueError):
        as_json({"error": {"code": code, "message": message, "hint": hint}})
        sys.stdout.flush()


def split_hint(message: str) -> tuple[str, str | None]:
    """Split an error message into (problem, hint or None)."""
    cut = max(message.rfind(mark) for mark in ("; ", ": ", ". ", "? ")) + 1
    hint = message[cut:].strip()
    if cut and ("casrewind " in hint or " --" in f" {hint}"):
        return message[:cut].rstrip(";:. "), hint
    return message, None


def raw(data: bytes) -> None:
    """Write bytes to standard output, after all earlier output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)

# -- words


def size(number: int) -> str:
    """Bytes for people."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(nanoseconds: int) -> str:
    """The time since a moment, for people."""
    seconds = (time.time_ns() - nanoseconds) / 1e9
    if seconds < 0:
        return "in the future"
    for step, unit in ((60, "s"), (60, "min"), (24, "h"), (365, "d")):
        if seconds < step:
            return f"{int(seconds)} {unit} ago"
        seconds /= step
    return f"{plural(int(seconds), 'year')} ago"


def plural(number: int, word: str) -> str:
    """"1 file", "2 files"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def signed(counts: "Counts") -> str:
    """"+1 ~2 -3"."""
    return f"+{counts.added} ~{counts.modified} -{counts.removed}"


def counted(counts: "Counts") -> str:
    """"1 added, 2 modified, 3 removed"."""
    return f"{counts.added} added, {counts.modified} modified, {counts.removed} removed"


def description(point: "Checkpoint", marked: "Marked") -> str:
    """A checkpoint's description. A person's text precedes an automatic text. Others of a turn name its prompt."""
    from ..model import checkpoint as checkpoints
    from ..model.turn_records import NOT_SAVED
    from ..ops.references import label_of

    if not point.is_saved:
        return f"{NOT_SAVED}: {point.prompt}" if point.prompt else NOT_SAVED
    own = point.prompt if point.trigger == checkpoints.PROMPT else ""
    described = point.flags & checkpoints.DESCRIBED and not marked.label
    found = (own if described else "") or label_of(point, marked) or own
    if own or not point.prompt:
        return found
    return f"{found or point.trigger.replace('_', ' ')}: {point.prompt}"


def skipped(found: "Sequence[Skip]") -> None:
    """Print the paths that a checkpoint does not contain, and why."""
    if not found:
        return
    from ..model import domain as domains

    by_reason: dict[str, list[bytes]] = {}
    for skip in found:
        by_reason.setdefault(skip.reason, []).append(skip.path)
    for reason, places in sorted(by_reason.items()):
        names = ", ".join(printable(place) for place in places[:3]) + (", ..." if len(places) > 3 else "")
        kind = domains.kind_of(reason)
        line = f"  not captured ({printable(reason)}): {len(places)}: {names}"
        if kind == domains.UNREADABLE_RULES:
            line = f"  not counted ({printable(reason)}; a restore of this deletes nothing below): {len(places)}: {names}"
        if kind == domains.SETTINGS:
            line = f"  not counted ({printable(reason)}): {len(places)}: {names}"
        if reason == domains.UNSTABLE:
            line = f"  captured while changing, may be torn: {len(places)}: {names}"
        if reason == domains.LATE:
            line = f"  captured, but changed after the moment this was made for: {len(places)}: {names}"
        (remark if domains.is_fault(reason) else print_line)(line)


def is_colourful(stream: TextIO) -> bool:
    """True if a stream has colours."""
    from . import colour

    return colour.is_on(stream)


def paint(text: str, code: str) -> str:
    """The text in a colour, if standard output has colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if is_colourful(sys.stdout) else text

# -- tables


_fixed_width: list[int] = []


def set_width(columns: int | None) -> None:
    """Set the width while a pager is between this process and the terminal. None: ask the terminal."""
    _fixed_width[:] = [] if columns is None else [columns]


def width() -> int:
    """The columns of the terminal, or `PIPED` if standard output is not a terminal."""
    if _fixed_width:
        return _fixed_width[0]
    if not sys.stdout.isatty():
        return PIPED
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given[:5]) > 0:
        return int(given[:5])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def table(names: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str], last: str, cut: bool = False) -> None:
    """Print `rows` below the names of their columns. The columns in `right` are aligned to the right.

    The column `last` contains words and fills the remaining width. A longer text continues on further lines, or is cut
    with `cut`. A row must not contain line breaks or control characters.
    """
    room = width()
    at = list(names).index(last)
    widths = [_widest(column) for column in zip(names, *rows, strict=True)]
    others = sum(widths) - widths[at] + len(_BETWEEN) * (len(names) - 1)
    is_alone = room - others < min(_LEAST, widths[at])
    if is_alone:
        between = _BETWEEN if others - len(_BETWEEN) <= room else " "
        widths[at] = max(room - len(_ALONE), 1)
    else:
        between, widths[at] = _BETWEEN, min(widths[at], room - others)
    sides = [name in right for name in names]
    heading = _joined(names, widths, sides, between, at if is_alone else None)
    print_line(f"\x1b[1m{heading}\x1b[0m" if is_colourful(sys.stdout) else heading)
    kept = [size for place, size in enumerate(widths) if not (is_alone and place == at)]
    print_line(_rule() * min(sum(kept) + len(between) * (len(kept) - 1), room))
    for row in rows:
        for line in _lines(row, widths, sides, between, at, is_alone=is_alone, cut=cut):
            print_line(line)


def _lines(
    row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], between: str, at: int, *, is_alone: bool, cut: bool
) -> Iterator[str]:
    if row[at].isascii() and len(row[at]) <= widths[at]:
        parts = [row[at]]
    else:
        parts = [cut_to(row[at], widths[at])] if cut else folded(row[at], widths[at])
    if is_alone:
        yield _joined(row, widths, sides, between, at)
        for part in parts:
            if part:
                yield _ALONE + part
        return
    yield _joined([*row[:at], parts[0], *row[at + 1 :]], widths, sides, between, None)
    for part in parts[1:]:
        yield _joined([*("" for _ in row[:at]), part], widths, sides, between, None)


def _widest(column: Sequence[str]) -> int:
    return max(map(len if "".join(column).isascii() else cells, column))


def _joined(row: Sequence[str], widths: Sequence[int], sides: Sequence[bool], between: str, without: int | None) -> str:
    padded = []
    for place, (text, width, is_right) in enumerate(zip(row, widths, sides, strict=False)):
        if place == without:
            continue
        wide = width if text.isascii() else width - cells(text) + len(text)
        padded.append(text.rjust(wide) if is_right else text.ljust(wide))
    return between.join(padded).rstrip()


def cells(text: str) -> int:
    """The width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf") else
        2 if unicodedata.east_asian_width(c) in ("W", "F") else 1
        for c in text
    )  # fmt: skip


def folded(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken between words if possible. Returns at least one line."""
    found, line = [], ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) <= width:
            line += " " + word
            continue
        if line:
            found.append(line)
        *whole, line = _pieces(word, width)
        found += whole
    return [*found, line]


def _pieces(word: str, width: int) -> list[str]:
    if cells(word) <= width:
        return [word]
    found = [""]
    for character in word:
        if cells(found[-1]) + cells(character) > width and found[-1]:
            found.append("")
        found[-1] += character
    return found


def cut_to(text: str, width: int) -> str:
    """The text in at most `width` columns. A cut text ends in an ellipsis."""
    if cells(text) <= width:
        return text
    return _pieces(text, max(width - 1, 1))[0] + "…"


def _rule() -> str:
    """The character of a line under a heading."""
    try:
        "─".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "-"
    return "─"

# -- progress


class Reporter:
    """Shows the progress of a long operation. Operations call it; call `close` at the end."""

    def __init__(self) -> None:
        """Show nothing, and do not import rich, before the delay ends."""
        self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that `done` of `total` units are finished; `total` 0 means that the total is unknown."""
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            self._bar = self._start()
        if what != self._what or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._what = self._bar.add_task(what, total=total or None), what
        self._bar.update(self._task, completed=done, total=total or None)

    @staticmethod
    def _start() -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=Console(file=sys.stderr, color_system="auto" if is_colourful(sys.stderr) else None), transient=True,
        )  # fmt: skip
        bar.start()
        return bar

    def close(self) -> None:
        """Clear the progress display."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._task, self._what = None, None, ""  # the progress may continue after a question


def reporter(*, quiet: bool) -> Reporter | None:
    """A reporter if standard error is a terminal, else None."""
    return Reporter() if sys.stderr.isatty() and not quiet else None


# -- errors


def print_error(message: str) -> None:
    """Print a line to standard error, with control characters escaped. A terminal shows the hint on its own line."""
    _State.last_error = message
    problem, hint = split_hint(message) if sys.stderr.isatty() else (message, None)
    print(f"casrewind: {printable(problem)}", file=sys.stderr)
    if hint is not None:
        print(f"  {printable(hint)}", file=sys.stderr)


def print_hook_failures(*directories: str) -> None:
    """Print the newest hook failure in the logs of these directories, and the number of failures, once."""
    directories = tuple(directory for directory in directories if os.path.exists(os.path.join(directory, "log")))
    if not directories:
        return
    from ..store.failure_log import FailureLog

    lines = [line for directory in directories for line in FailureLog(directory).unseen()]
    if lines:
        more = f" ({len(lines)} of these since you were told last; the store's log has them all)" if len(lines) > 1 else ""
        print_error(f"note: a hook could not do all of its work: {lines[-1]}{more}")


def interrupted() -> int:
    """Report an interrupt. Returns the exit code."""
    print_error("interrupted")
    return INTERRUPTED


def half_done() -> None:
    """Explain how to continue or abort an interrupted restore."""
    print_error("the restore is half done: casrewind restore --continue finishes it, --abort takes it back")


def is_interrupt(error: BaseException | None) -> bool:
    """True if the error was raised during the handling of an interrupt, such as a second close of a descriptor."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def system_error(error: OSError | MemoryError) -> int:
    """Print an operating system error that no other module handles: the problem and the file."""
    if isinstance(error, MemoryError):
        if is_limited:
            print_error("not enough memory: this needs more than 4 GiB; leave large directories out, with .casrewindignore")
        else:
            print_error("not enough memory: allow this process more (ulimit -v), and try again")
        return errors.CasrewindError.exit_code
    if is_full(error):  # writes to a store or a worktree handle this themselves
        drop_output()
        print_error(f"{reason_of(error)} to write the output to: free some space and try again")
        return errors.StoreFull.exit_code
    where = f" at {printable(error.filename)}" if error.filename else ""
    print_error(f"cannot go on{where}: {reason_of(error)}")
    return errors.CasrewindError.exit_code


def bug(error: Exception, argv: list[str]) -> int:
    """Report an unexpected exception: write a log for a bug report, and print its path."""
    import platform
    import tempfile
    import traceback

    from .. import __version__

    text = (
        f"casrewind {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"arguments: {argv!r}\n\n" + "".join(traceback.format_exception(error))
    )
    try:
        with tempfile.NamedTemporaryFile("w", prefix="casrewind-bug-", suffix=".log", delete=False) as file:
            file.write(text)
        print_error(f"this is a bug in casrewind: {type(error).__name__}: {error}; please report it with {file.name}")
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


def begin() -> None:
    """Reset the state of an earlier command in this process, and open /dev/null for closed standard streams. Otherwise
    output could be written into a file of the store."""
    _State.has_reported, _State.last_error = False, ""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open as long as the process runs
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
