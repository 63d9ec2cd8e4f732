"""JSON read by the scanner in C that `json` is a coat of, and a flat object written, without the coat.

Importing `json` imports `re` and `enum`, for what is only needed where there is no such scanner: half of what a hook costs that
has nothing to do. What is understood, and what is refused, is the same: what is refused is read once more, by `json`.
"""

from ._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from json import loads

    _text: Callable[[str], str] | None = None
else:
    _SPACE = " \t\n\r"

    class _Rules:
        """How `json.loads` reads when it is told nothing."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float = float
        parse_int = int
        parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__

    try:
        from _json import make_scanner

        _scan = make_scanner(_Rules)
    except ImportError:  # another interpreter
        _scan = None

    def loads(text: str) -> Any:
        """The value that a text is. Raises ValueError, RecursionError."""
        if _scan is not None:
            try:
                at = len(text) - len(text.lstrip(_SPACE))
                value, end = _scan(text, at)
                if not text[end:].strip(_SPACE):
                    return value
            except (StopIteration, ValueError, SystemError):
                pass  # the last: it would raise json's own error, which is not there yet
        import json

        return json.loads(text)


    try:
        from _json import encode_basestring_ascii as _text
    except ImportError:
        _text = None


def flat(value: dict[str, str | int | bool]) -> str:
    """An object of texts, numbers and truths, as `json.dumps` writes it. Raises TypeError for anything else."""
    if _text is None:
        import json

        return json.dumps(value)
    parts = []
    for name, item in value.items():
        if not isinstance(item, (str, int)):
            raise TypeError(f"{name} is no text, no number and no truth")
        told = _text(item) if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else str(item)
        parts.append(f"{_text(name)}: {told}")
    return "{" + ", ".join(parts) + "}"


__all__ = ["flat", "loads"]
