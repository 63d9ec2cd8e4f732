"""Words and numbers for people: the small pieces that every report is made of."""

import os
import sys
import time

from ...model.diff import Counts
from ...typed import Any, TextIO

SHOWN = 20
"""How many paths a report names before it only counts them."""
_ESCAPED = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of characters that JSON does not escape, but that a terminal obeys or that are invisible: controls, changes of
direction, marks and tags, joiners, line separators."""
SIGNS = {"added": "A", "modified": "M", "removed": "D", "type": "T"}
COLOURS = {"A": "32", "D": "31", "M": "33", "T": "35"}


def say(line: str = "") -> None:
    """One line on standard output, whatever bytes the terminal's encoding cannot show."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def remark(line: str) -> None:
    """One line on standard error."""
    print(line, file=sys.stderr)


def as_json(shape: dict[str, Any]) -> None:
    """One JSON object on standard output, in UTF-8 whatever the locale is; no control character is left as it is."""
    import json
    import re
    import unicodedata

    def escaped(match: "re.Match[str]") -> str:
        character = match[0]
        return json.dumps(character)[1:-1] if unicodedata.category(character) in _ESCAPED else character

    text = re.sub("[^\x00-\x7e]", escaped, json.dumps(shape, ensure_ascii=False).replace("\x7f", "\\u007f"))
    raw(text.encode("utf-8", "replace") + b"\n")


def raw(data: bytes) -> None:
    """Bytes on standard output, behind what was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def asked(question: str) -> str:
    """What the person types. Python itself writes a question to standard error, which may go to nowhere. Raises EOFError."""
    sys.stdout.write(question)
    sys.stdout.flush()
    return input()


def confirmed() -> bool:
    """Ask before something is removed for good. Anything but yes is no."""
    try:
        answer = asked("Go on? This cannot be taken back. [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


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


def is_colourful(stream: TextIO) -> bool:
    """Whether a stream takes colours: a terminal that knows them, and nobody said NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """Text in a colour, on a terminal that takes one."""
    return f"\x1b[{colour}m{text}\x1b[0m" if is_colourful(sys.stdout) else text


def signed(counts: Counts) -> str:
    """"+1 ~2 -3"."""
    return f"+{counts.added} ~{counts.modified} -{counts.removed}"


def counted(counts: Counts) -> str:
    """"1 added, 2 modified, 3 removed"."""
    return f"{counts.added} added, {counts.modified} modified, {counts.removed} removed"
