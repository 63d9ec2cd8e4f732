"""What a message says about a path, a number, a moment, a misspelt word or a system error.

The danger prevented here: a file name with control characters writes to the person's terminal, or an error leaves out
what was done to which file.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from . import errors

_SIMILAR = 0.75
"""How similar a suggestion is to the word, between 0 and 1: `udno` and `undo`, but not `branch` and `back`."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOSPC: "no space left", errno.EDQUOT: "your disk quota is used up: no space left",
    errno.EMFILE: "too many open files: allow this process more (ulimit -n), and try again",
    errno.ENFILE: "too many open files in the whole system: close some programs, and try again",
}  # fmt: skip


def printable(path: bytes | str | os.PathLike[str]) -> str:
    """A path for a message. Escapes undecodable bytes and control characters; never raises."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if text.isprintable() else "".join(escaped)


def session_in_words(agent: str, session: str) -> str:
    """A conversation for a message: its client, and as much of its id as tells it from others."""
    return printable(f"{agent} {session[:8]}".strip())


def shell_quoted(word: bytes | str) -> str:
    """A word quoted for a shell, and printable: a paste gives the same bytes (in bash, zsh and ksh, if there are control characters)."""
    import shlex

    raw = os.fsencode(word)
    if printable(raw) == raw.decode("utf-8", "replace"):
        return shlex.quote(raw.decode())
    return "$'" + "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\'" else f"\\x{byte:02x}" for byte in raw) + "'"


def shell_quoted_path(path: bytes | str) -> str:
    """A path quoted for a shell, which no command reads as an option or a magic word."""
    raw = os.fsencode(path)
    return shell_quoted(b"./" + raw if raw[:1] in (b"-", b":") else raw)


def store_error(error: OSError, doing: str, path: bytes | str) -> errors.CasrewindError:
    """The casrewind error for an OSError on a store file, or for a full disk anywhere."""
    reason = reason_of(error)
    if error.errno in _NO_SPACE:
        return errors.StoreFull(f"{reason} while {doing} {printable(path)}", "free some space and try again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return errors.StoreNotWritable(f"cannot finish {doing} {printable(path)}: {reason}", "make it writable, or give --store DIR")
    if error.errno == errno.ENOENT:
        return errors.StoreDamaged(
            f"damaged store: something is missing in it, {doing} {printable(path)} failed ({reason})",
            "casrewind verify --repair puts back what can be put back"
        )
    return errors.StoreError(f"failed while {doing} {printable(path)}: {reason}")


def write_error(error: OSError, what: str, hint: str = "") -> errors.CasrewindError:
    """The casrewind error for an OSError on a client's file. `hint` is for any cause but a full disk."""
    if is_disk_full(error):
        return errors.StoreFull(f"{reason_of(error)} while writing {what}", "free some space and try again")
    return errors.AgentError(f"cannot write {what}: {reason_of(error)}", hint)


@contextmanager
def store_errors(doing: str, path: bytes | str) -> Iterator[None]:
    """Convert an OSError to the casrewind error that names the action and the store file."""
    try:
        yield
    except OSError as error:
        raise store_error(error, doing, path) from error


def is_process_limit(error: OSError) -> bool:
    """True if an error is about this process's own limits (descriptors, memory), not about the file."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def reason_of(error: OSError) -> str:
    """The reason of a system error in words; for a limit, with advice."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


def is_disk_full(error: OSError) -> bool:
    """True if disk space or quota ran out."""
    return error.errno in _NO_SPACE


def most_similar(word: str, known: Iterable[str]) -> str:
    """The most similar known word, or "" if no word is similar."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), 1, _SIMILAR)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question with the most similar known word, or "" if no word is similar."""
    near = most_similar(word, known)
    return f"did you mean {near}?" if near else ""


def age_in_words(nanoseconds: int) -> str:
    """The time since a moment, for people."""
    since = time.time_ns() - nanoseconds
    return "in the future" if since < 0 else f"{duration_in_words(since)} ago"


def duration_in_words(nanoseconds: int) -> str:
    """A duration of at least 0, for people, rounded down."""
    seconds = nanoseconds / 1e9
    for step, unit in ((60, "s"), (60, "min"), (24, "h"), (365, "d")):
        if seconds < step:
            return f"{int(seconds)} {unit}"
        seconds /= step
    return plural(int(seconds), "year")


def format_moment(moment_ns: int) -> str:
    """A moment for people, in local time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_ns // 1_000_000_000))
    except (ValueError, OverflowError, OSError):
        return "then"


def first_line(text: str) -> str:
    """The first line of a text that has words."""
    return printable(" ".join(next((line for line in text.splitlines() if line.strip()), "").split()))


def enumerated(names: Sequence[str]) -> str:
    """"a", "a and b", "a, b and c"; "" for none."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def plural(number: int, word: str) -> str:
    """"1 file", "2 files"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
