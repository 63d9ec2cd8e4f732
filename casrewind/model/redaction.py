"""Redaction: finds a text to purge in all spellings that transcripts use.

The danger prevented here: a secret is searched for as typed, but stored JSON-escaped, or as JSON within JSON.
"""

import json
from collections.abc import Callable

from .. import errors

MOST = 8 << 10
"""Maximum bytes of a text to purge."""
_LEAST = 4


class Redactor:
    """A text to purge and its spellings (`forms`). The forms are: raw, as in a JSON string, as in a JSON string
    within a JSON string, and as in the store's log. Each JSON form exists with non-ASCII characters raw and escaped.
    `reach`: bytes of the longest form, minus one."""

    def __init__(self, text: bytes, shown: Callable[[bytes], str]) -> None:
        """`shown` formats bytes as the log does. Ignores a trailing newline. Raises UsageError for a wrong length."""
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if len(text) < _LEAST or not text.strip():
            raise errors.UsageError(f"the text to purge has fewer than {_LEAST} bytes, or only white space: it would match everywhere")
        if len(text) > MOST:
            raise errors.UsageError(f"the text to purge has more than {MOST:,} bytes: give a distinctive part of it")
        self.forms = tuple(sorted(_forms(text) | {shown(text).encode()}, key=len, reverse=True))
        self.reach = len(self.forms[0]) - 1

    def is_in(self, data: bytes, *, cut: bool = False) -> bool:
        """True if the bytes contain the text. With `cut`, also if they end with its beginning (of
        the minimum length)."""
        return any(form in data for form in self.forms) or (cut and self._begins_at_end(data))

    def _begins_at_end(self, data: bytes) -> bool:
        counts = range(_LEAST, min(self.reach, len(data)) + 1)
        return any(data.endswith(form[:count]) for form in self.forms for count in counts if count < len(form))


def _forms(text: bytes) -> set[bytes]:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return {text}  # JSON cannot contain it
    once = {_escaped(decoded, ascii_only=flag) for flag in (True, False)}
    twice = {_escaped(form, ascii_only=flag) for form in once for flag in (True, False)}
    return {text} | {form.encode() for form in once | twice}


def _escaped(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]
