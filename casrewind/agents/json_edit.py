"""Edits JSON text in place: everything that an edit does not name is preserved byte for byte.

The danger prevented here: parsing and rewriting a settings file loses its layout, its number formats and duplicate
keys. So values are found by their position in the text. New values are laid out like their neighbours, and a removal
also removes the comma that is no longer needed.
"""

import json
import re
from collections.abc import Collection, Sequence

from .._typing import Any, NamedTuple, NoReturn

_SPACE = re.compile(r"[ \t\r\n]*")
_MARGIN = re.compile(r"[ \t]*")
_FIRST_LINE = re.compile(r"[{\[][ \t]*\r?\n([ \t]+)\S")


class JsonItem(NamedTuple):
    """A member of an object or an element of an array. `start` and `end` enclose all of it, including a member's key;
    `value` is the start of its value; `key` is "" for an element."""

    key: str
    start: int
    value: int
    end: int


class Removal(NamedTuple):
    """A piece of text to take out."""

    start: int
    end: int


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


_VALUES = json.JSONDecoder(parse_constant=_no_constant)
_EXACT = json.JSONDecoder(
    object_pairs_hook=lambda pairs: ("object", tuple(pairs)),
    parse_float=lambda digits: ("number", digits),
    parse_int=lambda digits: ("number", digits),
    parse_constant=_no_constant,
)


def parse(text: str) -> Any:
    """The value of a whole document. Raises ValueError unless it is strict JSON (RecursionError if too deep)."""
    return _VALUES.decode(text)


def exact(text: str) -> Any:
    """A document for exact comparison: order, duplicate keys and number formats count."""
    return _EXACT.decode(text)


def value_at(text: str, start: int) -> Any:
    """The value that starts at a position of a valid document."""
    return _VALUES.raw_decode(text, start)[0]


def top(text: str) -> int:
    """The start of the document's top-level value."""
    return _skip(text, 0)


def items(text: str, start: int) -> list[JsonItem]:
    """The members or elements of the object or array at `start` of a valid document."""
    is_object = text[start] == "{"
    found: list[JsonItem] = []
    at = _skip(text, start + 1)
    while text[at] not in "]}":
        key, begin = "", at
        if is_object:
            key, at = _VALUES.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _VALUES.raw_decode(text, at)
        found.append(JsonItem(key, begin, at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def repeated(text: str) -> list[str]:
    """Keys that occur twice in one object, anywhere in a document. A program reads only the last of them."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        found.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]

    json.JSONDecoder(object_pairs_hook=collect).decode(text)
    return list(dict.fromkeys(found))


def cuts(within: Sequence[JsonItem], gone: Collection[int]) -> list[Removal]:
    """The text to cut so that the items with the indices `gone` disappear. At least one item must remain."""
    kept = [index for index in range(len(within)) if index not in gone]
    found = []
    for index in sorted(gone):
        if index > kept[0]:  # with the comma before it, else with the comma after it
            found.append(Removal(within[index - 1].end, within[index].end))
        else:
            found.append(Removal(within[index].start, within[index + 1].start))
    return found


def without(text: str, pieces: Collection[Removal]) -> str:
    """The text without the given pieces, which must not overlap."""
    for piece in sorted(pieces, reverse=True):
        text = text[: piece.start] + text[piece.end :]
    return text


def append(text: str, start: int, value: Any, key: str | None = None) -> str:
    """The text with an element (or, with `key`, a member) appended to the array or object at `start`. It is laid out
    like the container's other items; in an empty container, like the document."""
    unit, line = _unit(text), "\r\n" if "\r\n" in text else "\n"
    present = items(text, start)
    named = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if present:
        lead = text[start + 1 : present[0].start]
        at = present[-1].end
        if "\n" not in lead:
            space = " " if ", " in text or ": " in text else ""
            return text[:at] + "," + space + _flat(named, value, space) + text[at:]
        margin = lead.rpartition("\n")[2]
        return text[:at] + "," + line + margin + named + _laid_out(value, unit, margin, line) + text[at:]
    end = text.index("}" if key is not None else "]", start)
    if "\n" not in text.strip() and items(text, top(text)):
        space = " " if ": " in text else ""
        return text[: start + 1] + _flat(named, value, space) + text[end:]
    margin = _margin_of_line(text, start)
    inside = margin + unit
    body = line + inside + named + _laid_out(value, unit, inside, line) + line + margin
    return text[: start + 1] + body + text[end:]


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _margin_of_line(text: str, at: int) -> str:
    match = _MARGIN.match(text, text.rfind("\n", 0, at) + 1)
    assert match is not None
    return match[0]


def _unit(text: str) -> str:
    """One step of indentation, as in the document's first indented line."""
    match = _FIRST_LINE.match(text, top(text))
    return match[1] if match is not None else "  "


def _laid_out(value: Any, unit: str, margin: str, line: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", line + margin)


def _flat(named: str, value: Any, space: str) -> str:
    separators = ("," + space, ":" + space)
    return (named if space else named.replace('": ', '":')) + json.dumps(value, ensure_ascii=False, separators=separators)
