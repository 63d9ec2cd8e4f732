"""Writes a path or a pattern as one line of a rule file.

The danger prevented here: a name that becomes another rule, or two. A line feed in a name ended its rule, and what stood
behind it ignored the sources of the project. A carriage return or a space at the end, and `#`, `!` or a byte order mark at
the beginning mean something else in a rule file. What cannot be written exactly is refused.
"""

from .. import errors
from ..messages import printable
from .rules import LONGEST_RULE

_SPECIAL = b"*?[\\"
_BOM = b"\xef\xbb\xbf"
_MOST_ADDED = len(b"!/**")


def rule_for_path(path: bytes) -> bytes:
    """The rule that matches this path below the root, and no other. With `/` behind it, a directory only; with `/**`, all
    that is below it. b"" is the root. Raises UnsafePath for a path that no rule can name."""
    if b"\n" in path:
        raise errors.UnsafePath(
            f"{printable(path)}: nothing was changed: no rule can name it, because a rule ends at a line feed",
            "a rule for the directory that it is in counts for it, too",
        )
    text = b"".join(b"\\" + bytes((byte,)) if byte in _SPECIAL else bytes((byte,)) for byte in path)
    return _check_length(b"/" + _with_exact_end(text) if text else b"", path)


def rule_for_pattern(pattern: bytes) -> bytes:
    """A pattern, as in a .gitignore, as a rule that ignores what it matches. Raises UnsafePath for a pattern that a rule
    file would read as something else."""
    if b"\n" in pattern or b"\0" in pattern:
        raise errors.UnsafePath(f"{printable(pattern)}: nothing was changed: no rule can contain a line feed or a NUL")
    if pattern[:1] == b"!":
        raise errors.UnsafePath(
            f"{printable(pattern)}: nothing was changed: a ! at its beginning reverses a pattern",
            "include and exclude reverse each other; a name that begins with ! is written \\!",
        )
    if _has_open_backslash(pattern):
        raise errors.UnsafePath(f"{printable(pattern)}: nothing was changed: a backslash at its end matches nothing")
    start = b"\\" if pattern[:1] == b"#" or pattern.startswith(_BOM) else b""
    return _check_length(start + _with_exact_end(pattern), pattern)


def _check_length(rule: bytes, given: bytes) -> bytes:
    if len(rule) > LONGEST_RULE - _MOST_ADDED:
        raise errors.UnsafePath(f"{printable(given[:80])}...: nothing was changed: a rule has {LONGEST_RULE >> 10} KiB at most")
    return rule


def _with_exact_end(text: bytes) -> bytes:
    """The text with a last byte that a rule file does not drop: the only byte of a set, or behind a backslash."""
    if text.endswith(b"\r"):
        text = text[:-1]
        return (text[:-1] if _has_open_backslash(text) else text) + b"[\r]"
    if text.endswith(b" ") and not _has_open_backslash(text[:-1]):
        return text[:-1] + b"\\ "
    return text


def _has_open_backslash(text: bytes) -> bool:
    """True if a backslash at the end escapes what follows."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1
