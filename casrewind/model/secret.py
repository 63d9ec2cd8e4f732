"""A text that is to be hidden: the spellings in which transcripts hold it, and where they stand.

The danger prevented here: a secret that is looked for as it is typed, and stands as JSON writes it, or as JSON inside of
JSON; and a line that is no JSON any more because half of an escape was covered.
"""

import json
from collections.abc import Callable, Iterable

from .. import errors

MOST = 8 << 10
"""The most bytes of such a text."""
_LEAST = 4
_FILLS = b"*#=+~^@%$&"

Span = tuple[int, int]
"""Where something stands: from here up to, and without, there."""


class Secret:
    """A text and its `forms`: as it is, as a JSON string holds it, as a JSON string inside of another one holds it (each with
    what is not ASCII as it is, and escaped), and as the store's log shows it. `fill` is the byte that it is covered with."""

    def __init__(self, text: bytes, shown: Callable[[bytes], str]) -> None:
        """`shown` writes as the log does. A newline at the end is not part of the text. Raises UsageError for what would cover
        too much, or cannot be looked for."""
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if len(text) < _LEAST or not text.strip():
            raise errors.UsageError(f"the text to purge has less than {_LEAST} bytes, or nothing but white space: it would be everywhere")
        if len(text) > MOST:
            raise errors.UsageError(f"the text to purge has more than {MOST:,} bytes: give a part of it that tells it from all else")
        self.forms = tuple(sorted(_forms(text) | {shown(text).encode()}, key=len, reverse=True))
        self.reach = len(self.forms[0]) - 1
        self.fill = bytes([next((c for c in _FILLS if not any(c in form for form in self.forms)), _FILLS[0])])

    def is_in(self, data: bytes) -> bool:
        """True when some bytes hold it."""
        return any(form in data for form in self.forms)

    def spans(self, data: bytes, *, as_json: bool = False) -> list[Span]:
        """Where it stands in some bytes, what overlaps or touches as one. `as_json`: an escape is covered whole or not."""
        found = []
        for form in self.forms:
            at = data.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = data.find(form, at + 1)
        if as_json:
            found = [_whole_escapes(data, span) for span in found]
        return joined(found)

    def begins_at_end(self, data: bytes) -> int:
        """How many bytes at the end of some that were cut are the beginning of it; 0 = none."""
        for count in range(min(self.reach, len(data)), 0, -1):
            if any(len(form) > count and data.endswith(form[:count]) for form in self.forms):
                return count
        return 0

    def hide(self, data: bytes, spans: Iterable[Span]) -> bytes:
        """The same bytes with some parts covered; as long as before."""
        covered = bytearray(data)
        for start, end in spans:
            covered[start:end] = self.fill * (end - start)
        return bytes(covered)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same places, sorted, those that overlap or touch as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _forms(text: bytes) -> set[bytes]:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return {text}  # no JSON holds it
    once = {_escaped(decoded, ascii_only=flag) for flag in (True, False)}
    twice = {_escaped(form, ascii_only=flag) for form in once for flag in (True, False)}
    return {text} | {form.encode() for form in once | twice}


def _escaped(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _whole_escapes(data: bytes, span: Span) -> Span:
    """A place, larger where it would begin or end in the middle of an escape."""
    start, end = span
    if _backslashes(data, start) % 2:
        start -= 1
    if _backslashes(data, end) % 2 and end < len(data):
        end += 1
    return start, end


def _backslashes(data: bytes, end: int) -> int:
    """How many backslashes stand one after the other before `end`."""
    count = 0
    while count < end and data[end - 1 - count] == 0x5C:
        count += 1
    return count
