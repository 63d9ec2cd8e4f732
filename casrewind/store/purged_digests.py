"""What the next push has to know of a purge: which blobs went, and not a digest of any of them.

The danger prevented here: a purge removes a secret, and leaves its digest in the store. Whoever finds that can test for a known
content. So each digest is hashed once more, with a salt of its own store, and the next push removes the file.
"""

import os
from collections.abc import Callable, Iterable

from ..model import digest as digests

_SALT = 32
_ROW = 16


def encode(gone: Iterable[bytes], before: bytes = b"") -> bytes:
    """The bytes of the file for these digests, and for those of an earlier purge, whose file is `before`."""
    salt = before[:_SALT] if len(before) >= _SALT else os.urandom(_SALT)
    rows = {before[at : at + _ROW] for at in range(_SALT, len(before) - _ROW + 1, _ROW)} if len(before) >= _SALT else set()
    rows |= {_row_of(salt, digest) for digest in gone}
    return salt + b"".join(sorted(rows))


def matcher(data: bytes) -> Callable[[bytes], bool]:
    """A function that tells whether a digest is one of those in the file with these bytes."""
    salt = data[:_SALT]
    rows = {data[at : at + _ROW] for at in range(_SALT, len(data) - _ROW + 1, _ROW)}
    return lambda digest: bool(rows) and _row_of(salt, digest) in rows


def _row_of(salt: bytes, digest: bytes) -> bytes:
    hasher = digests.keyed(salt)
    hasher.update(digest)
    return hasher.digest()[:_ROW]
