"""What every command prints with: words and numbers for people, tables, questions, progress, JSON, and what is said of an error.

Thousands of rows are printed in less time than a library for tables is imported in.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from .. import errors, fsio
from .._typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # to say what is wrong with a command line none of these is needed
    from rich.progress import Progress, TaskID

    from ..model.checkpoint import Checkpoint
    from ..model.diff import Change, Counts
    from ..model.domain import Skip
    from ..store.catalog import Marked

INTERRUPTED, BUG = 130, 70
SHOWN = 20
"""How many paths a report names before it only counts them."""
_ESCAPED = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of characters that JSON does not escape, but that a terminal obeys or that are invisible: controls, changes of
direction, marks and tags, joiners, line separators."""
SIGNS = {"added": "+", "modified": "~", "removed": "-", "type": "~"}
"""What a command does to a path: it comes, changes, or goes."""
COLOURS = {"+": "32", "-": "31", "~": "33", "R": "36"}
_BETWEEN = "   "
_LEAST = 16
"""Columns of the terminal that what stands last has to have; with fewer it goes into lines of its own."""
_ALONE = "  "
"""What such lines begin with."""
PIPED = 5000
"""Columns where nobody looks: every row is one line."""
_PATIENCE = 0.5
"""Seconds after which progress is shown of what goes on for longer. Before that, rich is not imported."""

JSON_FORMAT = 1
"""The version of the JSON objects."""


class _State:
    """What this process printed and was told."""

    color = "auto"
    has_reported = False
    last_error = ""



# -- lines and JSON


def print_line(line: str = "") -> None:
    """One line on standard output, whatever bytes the terminal's encoding cannot show."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def remark(line: str) -> None:
    """One line on standard error."""
    print(line, file=sys.stderr)


def note(line: str) -> None:
    """One line on standard error that something is to be known."""
    remark(f"casrewind: note: {line}")


def as_json(shape: dict[str, Any]) -> None:
    """One JSON object on standard output, in UTF-8 whatever the locale is; no control character is left as it is."""
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
    """The last error as a JSON object on standard output, unless a report was printed there."""
    if _State.has_reported:
        return
    message, hint = split_hint(_State.last_error)
    with suppress(OSError, ValueError):
        as_json({"error": {"code": code, "message": message, "hint": hint}})
        sys.stdout.flush()


def split_hint(message: str) -> tuple[str, str | None]:
    """(what is wrong, what to do about it) of an error message."""
    for mark in ("; ", ": ", ". "):
        what, found, hint = message.rpartition(mark)
        if found and ("casrewind " in hint or " --" in f" {hint}"):
            return what, hint
    return message, None


def raw(data: bytes) -> None:
    """Bytes on standard output, behind what was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)

# -- questions


def asks(options: Any, refusal: str) -> bool:
    """Whether a person is asked. Raises UsageError, which begins with `refusal`, where nobody can be."""
    if options.yes:
        return False
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise errors.UsageError(f"{refusal}: say --yes")
    return True


_AGENTS = (
    "CASREWIND_INSIDE", "CASREWIND_SESSION", "CLAUDECODE", "AI_AGENT", "CURSOR_AGENT", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCODE",
)  # fmt: skip
"""Variables that are set in the shell of an agent or a hook."""


def may_ask(options: Any) -> bool:
    """True if a person can be asked, where no answer is needed to go on: on a terminal, and not for an agent, a hook or a script."""
    if options.yes or options.json or any(os.environ.get(name) for name in _AGENTS):
        return False
    return sys.stdin.isatty() and sys.stderr.isatty()


def asked(question: str) -> str:
    """What the person types. Python itself writes a question to standard error, which may go to nowhere. Raises EOFError."""
    stream = sys.stdout if sys.stdout.isatty() or not sys.stderr.isatty() else sys.stderr
    stream.write(question)
    stream.flush()
    return input()


def agreed(question: str, show: Callable[[], None] | None = None) -> bool:
    """Ask. Anything but yes is no; `d` calls `show`, if it is given, and asks again."""
    while True:
        try:
            answer = asked(f"{question} {'[y/N]' if show is None else '[y/N/d]'} ").strip().lower()
        except EOFError:
            return False
        if show is None or answer != "d":
            return answer in ("y", "yes")
        show()


def agreed_for_good() -> bool:
    """Ask before something is removed for good. Anything but yes is no."""
    return agreed("Go on? This cannot be taken back.")

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
    """How long ago, for people."""
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


def sizes(change: "Change") -> str:
    """What else there is to say of a changed path: mode, kind, size."""
    from . import changes

    found = changes.details(change.old, change.new)
    return f"  ({found})" if found else ""


def description(point: "Checkpoint", marked: "Marked") -> str:
    """What was said of a checkpoint: what a person typed says more than what it was made for."""
    from ..model import checkpoint as checkpoints
    from ..ops.references import label_of

    described = point.flags & checkpoints.DESCRIBED and not marked.label
    return (point.prompt if described else "") or label_of(point, marked) or point.prompt


def skipped(found: "Sequence[Skip]") -> None:
    """What a checkpoint does not hold, and why."""
    if not found:
        return
    from ..model import domain as domains

    by_reason: dict[str, list[bytes]] = {}
    for skip in found:
        by_reason.setdefault(skip.reason, []).append(skip.path)
    for reason, places in sorted(by_reason.items()):
        names = ", ".join(fsio.printable(place) for place in places[:3]) + (", ..." if len(places) > 3 else "")
        kind = domains.kind_of(reason)
        line = f"  not captured ({fsio.printable(reason)}): {len(places)}: {names}"
        if kind == domains.UNREADABLE_RULES:
            line = f"  not counted ({fsio.printable(reason)}; a restore of this deletes nothing below): {len(places)}: {names}"
        if kind == domains.SETTINGS:
            line = f"  not counted ({fsio.printable(reason)}): {len(places)}: {names}"
        if reason == domains.UNSTABLE:
            line = f"  captured while changing, may be torn: {len(places)}: {names}"
        if reason == domains.LATE:
            line = f"  captured, but changed after the moment this was made for: {len(places)}: {names}"
        (remark if domains.is_fault(reason) else print_line)(line)


def reset() -> None:
    """Forget what an earlier command of this process printed and set."""
    _State.has_reported, _State.last_error = False, ""


def is_colourful(stream: TextIO) -> bool:
    """Whether a stream takes colours."""
    from . import colour

    return colour.is_on(stream)


def paint(text: str, code: str) -> str:
    """Text in a colour, where standard output takes one."""
    return f"\x1b[{code}m{text}\x1b[0m" if is_colourful(sys.stdout) else text

# -- tables


_fixed_width: list[int] = []


def set_width(columns: int | None) -> None:
    """Say how many columns there are while a pager stands between this process and the terminal; None: ask the terminal."""
    _fixed_width[:] = [] if columns is None else [columns]


def width() -> int:
    """How many columns there are to print on: those of the terminal, `PIPED` where standard output is none."""
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
    """Print `rows` below the names of their columns; those named in `right` end at their right sides.

    The column `last` has words: it gets the room that the others leave. What is longer goes on in further lines, or is cut
    with `cut`. Nothing in a row may hold a line break or a control character.
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
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf") else
        2 if unicodedata.east_asian_width(c) in ("W", "F") else 1
        for c in text
    )  # fmt: skip


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` columns, broken between words where that can be; at least one line."""
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
    """A text in at most `width` columns; one that was cut ends in an ellipsis."""
    if cells(text) <= width:
        return text
    return _pieces(text, max(width - 1, 1))[0] + "…"


def _rule() -> str:
    """What a line under a heading is made of."""
    try:
        "─".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "-"
    return "─"

# -- progress


class Reporter:
    """Shows what is going on, when it goes on for long. Call it as the operations do; `close` at the end."""

    def __init__(self) -> None:
        """Nothing is shown, and rich is not imported, before the patience ends."""
        self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """So much of something is done; `total` 0 = its end is not known."""
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
        """Take the progress off the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._task, self._what = None, None, ""  # behind a question it may go on


def reporter(*, quiet: bool) -> Reporter | None:
    """A reporter when somebody looks at stderr, else None."""
    return Reporter() if sys.stderr.isatty() and not quiet else None


# -- when something goes wrong


def print_error(message: str) -> None:
    """One line on standard error; what a name holds cannot command a terminal."""
    _State.last_error = message
    print(f"casrewind: {fsio.printable(message)}", file=sys.stderr)


def print_hook_failures(*directories: str) -> None:
    """Say what hooks could not do, as the logs of the data directory and of a store have it: the newest line, and how many
    there are. It is said once."""
    directories = tuple(directory for directory in directories if os.path.exists(os.path.join(directory, "log")))
    if not directories:
        return
    from ..store.failure_log import FailureLog

    lines = [line for directory in directories for line in FailureLog(directory).unseen()]
    if lines:
        more = f" ({len(lines)} of these since you were told last; the store's log has them all)" if len(lines) > 1 else ""
        print_error(f"note: a hook could not do all of its work: {lines[-1]}{more}")


def interrupted() -> int:
    """The person, or whoever started us, wants no more of it."""
    print_error("interrupted")
    return INTERRUPTED


def half_done() -> None:
    """A restore was stopped in the middle: what can be done about it."""
    print_error("the restore is half done: casrewind restore --continue finishes it, --abort takes it back")


def is_interrupt(error: BaseException | None) -> bool:
    """True when an error came up while an interrupt was on its way out: one that arrives just behind a close, say, has
    the descriptor closed a second time."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def system_error(error: OSError | MemoryError) -> int:
    """The system refused something that no room has an answer to: say what and where."""
    if isinstance(error, MemoryError):
        print_error("not enough memory: allow this process more (ulimit -v), and try again")
        return errors.CasrewindError.exit_code
    if fsio.is_full(error):  # everything that is written to a store or a worktree has its own answer to this
        drop_output()
        print_error(f"{fsio.reason_of(error)} to write the output to: free some space and try again")
        return errors.StoreFull.exit_code
    where = f" at {fsio.printable(error.filename)}" if error.filename else ""
    print_error(f"cannot go on{where}: {fsio.reason_of(error)}")
    return errors.CasrewindError.exit_code


def bug(error: Exception, argv: list[str]) -> int:
    """Something that casrewind did not expect: a log that can be pasted into a report, and its path."""
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


def drop_output() -> None:
    """Send what standard output still holds to nowhere, so that the flush at exit cannot fail."""
    with suppress(OSError, ValueError):  # a stream without a descriptor has nothing to flush to
        number = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def fill_standard_streams() -> None:
    """Put /dev/null where no standard stream is open: the next file opened, one of the store's perhaps, would get its
    descriptor, and what is printed would land in it."""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open as long as the process runs
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
