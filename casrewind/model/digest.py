"""Digests: a blob is named by the 32-byte BLAKE3 of its *uncompressed* bytes."""

from blake3 import blake3

SIZE = 32

Hasher = blake3
"""Incremental digest: `update` adds bytes, `digest` returns the digest so far."""


def of(data: bytes | bytearray | memoryview) -> bytes:
    """The digest of `data`."""
    return blake3(data).digest()
