"""A table of the index: bytes to bytes, each value under a seal.

The danger prevented here: a flipped bit that is a wrong answer. LMDB has no checksums.
"""

from collections.abc import Iterator

from ..model import digest as digests
from ..typed import Any
from .datafile import IndexUnusable

_SEAL = 8


class Table:
    """One table inside one transaction: bytes to bytes. Values are sealed unless asked for raw: LMDB has no checksums,
    and a flipped bit would otherwise be a wrong answer instead of a rebuild."""

    __slots__ = ("_handle", "_transaction")

    def __init__(self, transaction: Any, handle: Any) -> None:
        """Of LMDB, both; inside a transaction only, which gives its own memory (`buffers`): it is copied here."""
        self._transaction, self._handle = transaction, handle

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises IndexUnusable when its seal is broken."""
        value = self._transaction.get(key, db=self._handle)
        return None if value is None else _unseal(key, bytes(value))

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._transaction.put(key, value + _seal(key, value), db=self._handle)

    def delete(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        self._transaction.delete(key, db=self._handle)

    def is_empty(self) -> bool:
        """True when there is no row."""
        with self._transaction.cursor(db=self._handle) as cursor:
            return not cursor.first()

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in the order of keys, from the first key not below `start`."""
        with self._transaction.cursor(db=self._handle) as cursor:
            if not cursor.set_range(start):
                return
            for key, value in cursor:
                yield bytes(key), _unseal(bytes(key), bytes(value))

    def backwards(self) -> tuple[int, Iterator[tuple[bytes, bytes]]]:
        """(how many rows there are; (key, value) from the last key to the first, each seal looked at when it is its turn)."""
        rows = self.items_raw(b"")
        return len(rows), ((key, _unseal(key, value)) for key, value in reversed(rows))

    def get_raw(self, key: bytes) -> bytes | None:
        """As get, for values without a seal."""
        value = self._transaction.get(key, db=self._handle)
        return None if value is None else bytes(value)

    def items_raw(self, start: bytes) -> list[tuple[bytes, bytes]]:
        """As items, at once and with seals that nobody looked at: for many rows whose damage would do no harm."""
        with self._transaction.cursor(db=self._handle) as cursor:
            return [(bytes(key), bytes(value)) for key, value in cursor] if cursor.set_range(start) else []

    def put_many_raw(self, items: list[tuple[bytes, bytes]]) -> None:
        """Set many values without a seal."""
        with self._transaction.cursor(db=self._handle) as cursor:
            cursor.putmulti(sorted(items))


def _seal(key: bytes, value: bytes) -> bytes:
    return digests.of(len(key).to_bytes(2, "little") + key + value)[:_SEAL]


def _unseal(key: bytes, value: bytes) -> bytes:
    body = value[:-_SEAL]
    if _seal(key, body) != value[-_SEAL:]:
        raise IndexUnusable("a row of the index is damaged")
    return body


Tables = dict[bytes, Table]
