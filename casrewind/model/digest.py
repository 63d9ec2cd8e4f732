"""Digests: the 32-byte BLAKE3 of a blob's *uncompressed* bytes is its name."""

from blake3 import blake3

SIZE = 32
"""Length of a digest in bytes."""

EMPTY = blake3(b"").digest()
"""The digest of no bytes at all."""


def of(data: bytes | bytearray | memoryview) -> bytes:
    """The digest of `data`."""
    return blake3(data).digest()


class Hasher:
    """A digest taken piece by piece."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        """Start with no bytes."""
        self._state = blake3()

    def update(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes."""
        self._state.update(data)

    def digest(self) -> bytes:
        """The digest of everything added so far."""
        return self._state.digest()
