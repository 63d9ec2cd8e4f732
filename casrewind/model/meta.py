"""The meta of a save: keys and values that a program gives it, to find its checkpoint again."""

from collections.abc import Mapping

from .. import errors

MOST_KEYS = 16
MOST_BYTES = 4096
"""Of all keys and values together, in UTF-8."""
_WORD = 80
"""Characters of a key or value in an error."""


def checked_pairs(meta: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The keys and values, as a checkpoint holds them. Raises UsageError if they cannot be stored."""
    if not isinstance(meta, Mapping):
        raise errors.UsageError("meta is not a mapping of text to text", "as in meta={'episode': '7'}")
    if len(meta) > MOST_KEYS:
        raise errors.UsageError(f"meta has {len(meta)} keys, and a checkpoint stores at most {MOST_KEYS}", "give fewer keys")
    pairs = tuple(meta.items())
    size = sum(
        _checked_size(key, f"the key {key!r:.{_WORD}}") + _checked_size(value, f"the value of {key!r:.{_WORD}}") for key, value in pairs
    )
    if "" in meta:
        raise errors.UsageError("meta has an empty key", "give it a name")
    if size > MOST_BYTES:
        raise errors.UsageError(f"meta has {size:,} bytes, and a checkpoint stores at most {MOST_BYTES:,}", "give shorter values")
    return pairs


def _checked_size(text: object, name: str) -> int:
    """The bytes of a text. `name` names it in the error."""
    if not isinstance(text, str):
        raise errors.UsageError(f"{name} in meta is not text", "str() makes text of it")
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise errors.UsageError(f"{name} in meta is not valid Unicode", "replace the surrogates in it") from None
