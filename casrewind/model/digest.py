"""Digests: a blob is named by the 32-byte BLAKE3 of its *uncompressed* bytes."""

from blake3 import blake3

SIZE = 32

Hasher = blake3
"""Incremental digest: `update` adds bytes, `digest` returns the digest so far."""


def of(data: bytes | bytearray | memoryview) -> bytes:
    """The digest of `data`."""
    return blake3(data).digest()


def keyed(key: bytes) -> Hasher:
    """An incremental digest that only a holder of this key (32 bytes) can compute."""
    return blake3(key=key)


def derived_key(context: str, key: bytes) -> bytes:
    """A key of 32 bytes for one purpose, named by `context`."""
    return blake3(key, derive_key_context=context).digest()
