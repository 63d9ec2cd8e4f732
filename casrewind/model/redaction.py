"""A text that is to be purged, and the spellings in which transcripts hold it.

The danger prevented here: a secret that is looked for as it is typed, and stands as JSON writes it, or as JSON inside of JSON.
"""

import json
from collections.abc import Callable

from .. import errors

MOST = 8 << 10
"""The most bytes of such a text."""
_LEAST = 4


class Redactor:
    """A text and its `forms`: as it is, as a JSON string holds it, as a JSON string inside of another one holds it (each with
    what is not ASCII as it is, and escaped), and as the store's log shows it. `reach`: bytes of the longest form, less one."""

    def __init__(self, text: bytes, shown: Callable[[bytes], str]) -> None:
        """`shown` writes as the log does. A newline at the end is not part of the text. Raises UsageError for what would be
        found too often, or cannot be looked for."""
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if len(text) < _LEAST or not text.strip():
            raise errors.UsageError(f"the text to purge has less than {_LEAST} bytes, or nothing but white space: it would be everywhere")
        if len(text) > MOST:
            raise errors.UsageError(f"the text to purge has more than {MOST:,} bytes: give a part of it that tells it from all else")
        self.forms = tuple(sorted(_forms(text) | {shown(text).encode()}, key=len, reverse=True))
        self.reach = len(self.forms[0]) - 1

    def is_in(self, data: bytes, *, cut: bool = False) -> bool:
        """True when some bytes hold it, or, `cut`, when they end with the first bytes of it, as many as a text must have."""
        return any(form in data for form in self.forms) or (cut and self._begins_at_end(data))

    def _begins_at_end(self, data: bytes) -> bool:
        counts = range(_LEAST, min(self.reach, len(data)) + 1)
        return any(data.endswith(form[:count]) for form in self.forms for count in counts if count < len(form))


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
