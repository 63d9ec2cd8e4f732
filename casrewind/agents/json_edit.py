"""Edits JSON text in place: everything that an edit does not name is preserved byte for byte.

The danger prevented here: parsing and rewriting a settings file loses its layout, its comments, its number formats and
duplicate keys. So values are found by their position in the text. New values are laid out like their neighbours, and a
removal also removes the comma that is no longer needed.

Some clients read comments. Everything here reads a text in which `blank_comments` made each comment blank: then all positions
are those of the original. The caller knows if a client reads comments.
"""

import json
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from .._typing import Any, NamedTuple, NoReturn

_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*+")|(//[^\r\n]*|/\*.*?\*/)""", re.DOTALL)
"""A string or a comment."""
_MARGIN = re.compile(r"[ \t]*")
_FIRST_LINE = re.compile(r"[{\[][ \t]*\r?\n([ \t]+)\S")


JsonValue = Any
"""A value of JSON. The code that reads one checks its type."""
ExactValue = Any
"""As JsonValue, but an object is a tuple ("object", ((key, value), ...)), and a number ("number", its digits)."""


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


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


_VALUES = json.JSONDecoder(parse_constant=_refuse_constant)
_EXACT = json.JSONDecoder(
    object_pairs_hook=lambda pairs: ("object", tuple(pairs)),
    parse_float=lambda digits: ("number", digits),
    parse_int=lambda digits: ("number", digits),
    parse_constant=_refuse_constant,
)


@lru_cache(maxsize=8)
def blank_comments(text: str) -> str:
    """The text with blanks in place of comments. A document without comments is returned unchanged."""
    if "//" not in text and "/*" not in text:
        return text
    return _TOKEN.sub(lambda found: re.sub(r"[^\r\n]", " ", found[0]) if found[2] else found[0], text)


def comments(text: str) -> list[str]:
    """The comments of a document, in their order."""
    return [found[2] for found in _TOKEN.finditer(text) if found[2]]


def parse_with_comments(text: str) -> JsonValue:
    """The value of a whole document. Raises ValueError unless it is JSON, with or without comments (RecursionError if
    too deep)."""
    return _VALUES.decode(blank_comments(text))


def value_for_exact_comparison(text: str) -> ExactValue:
    """A document for exact comparison: order, duplicate keys and number formats count, comments do not."""
    return _EXACT.decode(blank_comments(text))


def value_at(text: str, start: int) -> JsonValue:
    """The value that starts at a position of a valid document."""
    return _VALUES.raw_decode(blank_comments(text), start)[0]


def value_start(text: str) -> int:
    """The start of the document's top-level value."""
    return _skip_space(blank_comments(text), 0)


def container_items(text: str, start: int) -> list[JsonItem]:
    """The members or elements of the object or array at `start` of a valid document."""
    text = blank_comments(text)
    is_object = text[start] == "{"
    found: list[JsonItem] = []
    at = _skip_space(text, start + 1)
    while text[at] not in "]}":
        key, begin = "", at
        if is_object:
            key, at = _VALUES.raw_decode(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)
        _, end = _VALUES.raw_decode(text, at)
        found.append(JsonItem(key, begin, at, end))
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return found


def repeated_keys(text: str) -> list[str]:
    """Keys that occur twice in one object, anywhere in a document. A program reads only the last of them."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        found.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]

    json.JSONDecoder(object_pairs_hook=collect).decode(blank_comments(text))
    return list(dict.fromkeys(found))


def cuts_of_items(text: str, within: Sequence[JsonItem], gone: Collection[int]) -> list[Removal]:
    """The pieces to cut so that the items with the indices `gone` disappear. At least one item must remain. Comments
    between items are kept."""
    kept = [index for index in range(len(within)) if index not in gone]
    found = []
    for index in sorted(gone):
        one = within[index]
        # with the comma before it, else with the comma after it
        start, end = (within[index - 1].end, one.start) if index > kept[0] else (one.end, within[index + 1].start)
        if comments(text[start:end]):
            comma = blank_comments(text).index(",", start)
            found += [Removal(one.start, one.end), Removal(comma, comma + 1)]
        else:
            found.append(Removal(min(start, one.start), max(end, one.end)))
    return found


def cut_of_all_items(text: str, within: Sequence[JsonItem]) -> Removal:
    """The piece to cut so that all items of a container disappear, with the white space around them."""
    start, end = within[0].start, within[-1].end
    while text[start - 1] in " \t\r\n":
        start -= 1
    while text[end] in " \t\r\n":
        end += 1
    return Removal(start, end)


def cut_pieces(text: str, pieces: Collection[Removal]) -> str:
    """The text without the given pieces, which must not overlap."""
    for piece in sorted(pieces, reverse=True):
        text = text[: piece.start] + text[piece.end :]
    return text


def append_item(text: str, start: int, value: object, key: str | None = None) -> str:
    """The text with an element (or, with `key`, a member) appended to the array or object at `start`. It is laid out
    like the container's other items; in an empty container, like the document."""
    unit, line = _indent_step(text), "\r\n" if "\r\n" in text else "\n"
    present = container_items(text, start)
    named = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if present:
        lead = blank_comments(text)[start + 1 : present[0].start]
        at = present[-1].end
        if "\n" not in lead:
            space = " " if ", " in text or ": " in text else ""
            return text[:at] + "," + space + _member_on_one_line(named, value, space) + text[at:]
        margin = lead.rpartition("\n")[2]
        return text[:at] + "," + line + margin + named + _laid_out_json(value, unit, margin, line) + text[at:]
    end = blank_comments(text).index("}" if key is not None else "]", start)
    if text[start + 1 : end].strip():  # a comment stands there
        margin = _margin_of_line(text, start)
        more = line + margin + unit + named + _laid_out_json(value, unit, margin + unit, line)
        return text[: start + 1] + more + text[start + 1 : end] + text[end:]
    if "\n" not in text.strip() and container_items(text, value_start(text)):
        space = " " if ": " in text else ""
        return text[: start + 1] + _member_on_one_line(named, value, space) + text[end:]
    margin = _margin_of_line(text, start)
    inside = margin + unit
    body = line + inside + named + _laid_out_json(value, unit, inside, line) + line + margin
    return text[: start + 1] + body + text[end:]


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _margin_of_line(text: str, at: int) -> str:
    match = _MARGIN.match(text, text.rfind("\n", 0, at) + 1)
    assert match is not None
    return match[0]


def _indent_step(text: str) -> str:
    """One step of indentation, as in the document's first indented line."""
    match = _FIRST_LINE.match(blank_comments(text), value_start(text))
    return match[1] if match is not None else "  "


def _laid_out_json(value: object, unit: str, margin: str, line: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", line + margin)


def _member_on_one_line(named: str, value: object, space: str) -> str:
    separators = ("," + space, ":" + space)
    return (named if space else named.replace('": ', '":')) + json.dumps(value, ensure_ascii=False, separators=separators)
