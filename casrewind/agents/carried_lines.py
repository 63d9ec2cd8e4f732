"""What of a session's lines a fork carries: the conversation, and not the settings of the session.

The danger prevented here: a sandbox runs its agent without any question, because it is a sandbox. Its conversation goes on
at home, and the careful agent there acts without asking, because the file said so. Nobody attacked, and nobody saw it. So a
fork carries the conversation only, and starts with the settings that a new session has here.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

from .._typing import NamedTuple
from . import transcript
from .transcript import Value

_STATE = re.compile(r"permission|approv|sandbox|autonom|yolo|bypass|allowall|allowedtools|trusted|escalat", re.IGNORECASE)
"""Names of fields that say what an agent may do unasked, in any client and any version."""


class CarriedLines(NamedTuple):
    """What travels with a conversation of one client."""

    without_id: frozenset[str] = frozenset()
    """The types of lines that travel though they have no id."""
    has_id: tuple[tuple[str, ...], ...] = (("id",),)
    """The keys that lead to the id of a line."""
    holders: tuple[tuple[str, ...], ...] = ((),)
    """The keys that lead to the objects of a line whose fields may be settings; () is the line itself."""
    state: frozenset[str] = frozenset()
    """Fields of these objects that are settings, besides those whose name says so."""
    only: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = ()
    """Objects of which only these fields travel, by the keys that lead to them."""
    instead: Mapping[tuple[str, ...], object] = {}
    """{(type of a line, keys that lead to a field): what the field says instead, where the client refuses a line without it}. It
    allows nothing. With None the field does not travel."""
    whole: frozenset[str] = frozenset()
    """Types of lines that hold only a setting, although their name does not say so."""
    empty: Value | None = None
    """What a line of such a type says instead: it keeps its id and says nothing. None: it is treated as any other line."""
    type_of: Callable[[Value], str] = lambda value: transcript.text_or_empty(value.get("type"))
    """The type of a line."""
    keeps_places: bool = False
    """True if another file names a position in this one: the bytes that go are spaces instead."""
    strictest: Callable[[bytes], bytes] = lambda _: b""
    """The line that a file gets at its end where the client would take the settings of another one. Raises AgentError."""


def carried(data: bytes, what: CarriedLines) -> bytes:
    """A conversation's lines without the settings of its session. A line without a setting keeps its bytes. What is no JSON object
    has no id that is known here, and does not travel. Raises AgentError for a session that cannot start as a new one."""
    parts = []
    for line in transcript.parse_lines(data if data.endswith(b"\n") else data + b"\n"):
        before, kept = data[line.start : line.end], b""
        if line.value is not None and (_has_id(line.value, what) or what.type_of(line.value) in what.without_id):
            value = _without_settings(line.value, what)
            kept = before if value == line.value else transcript.encode_line(value)
        parts.append(_fill(kept, len(before)) if what.keeps_places and kept != before else kept)
    return b"".join(parts) + what.strictest(data)


def _fill(line: bytes, length: int) -> bytes:
    """A line with spaces before its end, `length` bytes long. One that would be longer does not travel."""
    return (line[:-1] if len(line) <= length else b"").ljust(length - 1) + b"\n"


def _has_id(value: Value, what: CarriedLines) -> bool:
    return any(transcript.text_or_empty(transcript.member_at_keys(value, keys)) for keys in what.has_id)


def _without_settings(value: Value, what: CarriedLines) -> Value:
    sort = what.type_of(value)
    if what.empty is not None and (sort in what.whole or _says_so(sort)):
        return {**{name: one for name, one in value.items() if not is_setting(name, what)}, **what.empty}
    for keys in what.holders:
        value = _with_object_changed(value, keys, lambda held: {name: one for name, one in held.items() if not is_setting(name, what)})
    for keys, names in what.only:
        value = _with_object_changed(value, keys, partial(_only_fields, names))
    for path, said in what.instead.items():
        if path[0] == sort:
            value = _with_object_changed(value, path[1:-1], partial(_with_field, path[-1], said))
    return value


def _only_fields(names: frozenset[str], held: Value) -> Value:
    return {name: one for name, one in held.items() if name in names}


def _with_field(field: str, said: object, held: Value) -> Value:
    """A copy of an object in which a field has this value; None removes the field. An object without the field stays as it is."""
    return {name: said if name == field else one for name, one in held.items() if name != field or said is not None}


def is_setting(name: str, what: CarriedLines) -> bool:
    """True if a field of this name is a setting of the session."""
    return name in what.state or _says_so(name)


def _says_so(name: str) -> bool:
    return _STATE.search(name.replace("_", "").replace("-", "")) is not None


def _with_object_changed(value: Value, keys: tuple[str, ...], change: Callable[[Value], Value]) -> Value:
    """The line with the object at these keys changed; the line itself if it has none."""
    if not keys:
        return change(value)
    held = value.get(keys[0])
    if not isinstance(held, dict):
        return value
    return {**value, keys[0]: _with_object_changed(held, keys[1:], change)}
