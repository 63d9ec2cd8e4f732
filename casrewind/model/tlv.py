"""Tag-length-value encoding, used by every record that may gain fields in a later version.

A record is a sequence of fields: a tag (u16), a length (u32) and that many bytes, little-endian. A reader skips
unknown tags. A repeated tag, or a length beyond the end, is damage.
"""

import struct
from collections.abc import Iterable, Iterator

from .. import errors

HEAD = struct.Struct("<HI")
"""A field's tag and length."""
_INT = struct.Struct("<q")

Value = bytes | int | str


def text(value: str) -> bytes:
    """Text as bytes. Escaped undecodable bytes are restored; half a surrogate pair becomes "?"."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a client that cut a prompt in the middle of a character
        return value.encode("utf-8", "replace")


def encode(fields: Iterable[tuple[int, Value]]) -> bytes:
    """Encode (tag, value) pairs in the given order. Integers are signed, 64 bits."""
    parts: list[bytes] = []
    for tag, value in fields:
        data = _INT.pack(value) if isinstance(value, int) else text(value) if isinstance(value, str) else value
        parts += (HEAD.pack(tag, len(data)), data)
    return b"".join(parts)


class Fields:
    """A decoded record; `what` names it in errors."""

    __slots__ = ("_values", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        """Raises ManifestCorrupt if the bytes are not a record."""
        self._what = what
        self._values: dict[int, bytes] = {}
        position, end, head, found = 0, len(data), HEAD.size, self._values
        while position + head <= end:
            tag, length = HEAD.unpack_from(data, position)
            position += head + length
            if tag in found:
                raise self._damage_error(f"field {tag} twice")
            found[tag] = data[position - length : position]
        if position != end:
            raise self._damage_error("cut short")

    def _damage_error(self, why: str) -> errors.ManifestCorrupt:
        return errors.ManifestCorrupt(f"damaged {self._what}: {why}", "run casrewind verify")

    def has_any(self, tags: Iterable[int]) -> bool:
        """True if the record has a field with one of these tags."""
        return not self._values.keys().isdisjoint(tags)

    def bytes_or_empty(self, tag: int, length: int | None = None) -> bytes:
        """The bytes of a field, b"" if absent. `length`, if given, is the required length of a present field."""
        value = self._values.get(tag, b"")
        if length is not None and tag in self._values and len(value) != length:
            raise self._damage_error(f"field {tag} has {len(value)} bytes instead of {length}")
        return value

    def required_bytes(self, tag: int, length: int | None = None) -> bytes:
        """The bytes of a required field. `length`, if given, is the required length."""
        value = self._values.get(tag)
        if value is None:
            raise self._damage_error(f"field {tag} missing")
        if length is not None and len(value) != length:
            raise self._damage_error(f"field {tag} has {len(value)} bytes instead of {length}")
        return value

    def number(self, tag: int) -> int:
        """An integer field, 0 when absent."""
        value = self._values.get(tag)
        if value is None:
            return 0
        if len(value) != _INT.size:
            raise self._damage_error(f"field {tag} is not a number")
        return int.from_bytes(value, "little", signed=True)

    def text(self, tag: int) -> str:
        """A text field, "" when absent."""
        return self._values.get(tag, b"").decode("utf-8", "surrogateescape")


def encode_list(items: Iterable[bytes]) -> bytes:
    """Encode byte strings, each after its u32 length."""
    parts: list[bytes] = []
    for item in items:
        parts += (struct.pack("<I", len(item)), item)
    return b"".join(parts)


def decode_list(data: bytes, name: str) -> list[bytes]:
    """Decode the result of encode_list. Raises ManifestCorrupt."""
    return list(items_of_list(data, name))


def items_of_list(data: bytes, name: str) -> Iterator[bytes]:
    """As decode_list, one item at a time."""
    position, end = 0, len(data)
    while position < end:
        if position + 4 > end:
            raise errors.ManifestCorrupt(f"damaged {name}: a list is cut short", "run casrewind verify")
        length = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if position + length > end:
            raise errors.ManifestCorrupt(f"damaged {name}: a list is cut short", "run casrewind verify")
        yield data[position : position + length]
        position += length
