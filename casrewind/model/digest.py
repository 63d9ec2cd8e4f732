"""Digests: the 32-byte BLAKE3 of a blob's *uncompressed* bytes is its name."""

from blake3 import blake3

SIZE = 32
"""Length of a digest in bytes."""

EMPTY = blake3(b"").digest()
"""The digest of no bytes at all."""

Hasher = blake3
"""Takes a digest piece by piece: `update` adds bytes, `digest` is that of all that were added so far."""


def of(data: bytes | bytearray | memoryview) -> bytes:
    """The digest of `data`."""
    return blake3(data).digest()
