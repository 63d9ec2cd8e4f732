"""JSON without the import of `json`: reads any text, writes flat objects.

Importing `json` also imports `re` and `enum`, which is half the cost of a hook without work to do. The C scanner that
`json` uses is called directly. If it refuses a text or is missing, `json` reads the text: results and errors are the
same.
"""

from ._typing import TYPE_CHECKING, Any

JsonObject = dict[str, Any]
"""An object of JSON or TOML. The code that reads a value checks its type."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from json import loads

    _text: Callable[[str], str] | None = None
else:
    _SPACE = " \t\n\r"

    class _Rules:
        """The defaults of `json.loads`."""

        strict = True
        object_hook = object_pairs_hook = array_hook = None
        parse_float = float
        parse_int = int
        parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__

    try:
        from _json import make_scanner

        _scan = make_scanner(_Rules)
    except (AttributeError, ImportError):  # another interpreter, or a scanner that asks for a rule of a later Python
        _scan = None

    def loads(text: str) -> Any:  # as `json.loads` has it
        """The value of a JSON text. Raises ValueError, RecursionError."""
        if _scan is not None:
            try:
                at = len(text) - len(text.lstrip(_SPACE))
                value, end = _scan(text, at)
                if not text[end:].strip(_SPACE):
                    return value
            except (StopIteration, ValueError, SystemError):
                pass  # SystemError: the scanner cannot raise the error of `json`, which is not imported yet
        import json

        return json.loads(text)


    try:
        from _json import encode_basestring_ascii as _text
    except ImportError:
        _text = None


def encode_flat(value: dict[str, str | int | bool]) -> str:
    """A flat object as `json.dumps` writes it. Raises TypeError for values other than str, int and bool."""
    if _text is None:
        import json

        return json.dumps(value)
    parts = []
    for name, item in value.items():
        if not isinstance(item, (str, int)):
            raise TypeError(f"{name} must be str, int or bool")
        written = _text(item) if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else str(item)
        parts.append(f"{_text(name)}: {written}")
    return "{" + ", ".join(parts) + "}"


__all__ = ["encode_flat", "loads"]
