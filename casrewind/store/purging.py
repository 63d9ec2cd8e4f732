"""The note of a purge under way: a file in the store, there from before the first byte goes until the last one is gone.

The danger prevented here: a purge that was killed and looks done. The ledger that no longer names what was purged is the
moment from which it counts; the note says which ledger that is, so that whoever comes next knows on which side of that
moment it stopped. Nothing of what is purged is in the note, not even its digest.
"""

import os
import struct

from .. import errors, fsio
from ..model import digest as digests

MAGIC = b"CRX1"
_BODY = struct.Struct("<4s16s")  # magic, id of the ledger from which on it counts
_CHECK = 16
NAME = "purging"


def encode(identity: bytes) -> bytes:
    """The note's bytes; `identity` is the id of the ledger that the purge writes."""
    body = _BODY.pack(MAGIC, identity)
    return body + digests.of(body)[:_CHECK]


def decode(data: bytes) -> bytes:
    """The ledger's id in a note; raises StoreDamaged."""
    if len(data) != _BODY.size + _CHECK or digests.of(data[:-_CHECK])[:_CHECK] != data[-_CHECK:]:
        raise errors.StoreDamaged("damaged note of a purge: its bytes are not what was written; run casrewind gc")
    magic, identity = _BODY.unpack_from(data)
    if magic != MAGIC:
        raise errors.StoreDamaged("damaged note of a purge: no such note; run casrewind gc")
    return bytes(identity)


class Note:
    """The note in one store directory."""

    def __init__(self, store: str, temporary: str) -> None:
        """`temporary` is the directory for unfinished files."""
        self._store, self._temporary = store, temporary
        self._path = os.path.join(store, NAME)

    def read(self) -> bytes | None:
        """The id of the ledger that the purge writes, None when none is under way, b"" when the note cannot be read."""
        try:
            return decode(fsio.read_file(self._path, 200))
        except FileNotFoundError:
            return None
        except (OSError, errors.StoreDamaged):
            return b""

    def write(self, identity: bytes) -> None:
        """Put the note there, durable when this returns. Raises OSError."""
        fsio.replace_file(self._store, NAME, encode(identity), temporary=self._temporary)

    def remove(self) -> None:
        """Take the note away, durable when this returns. Raises OSError."""
        os.unlink(self._path)
        fsio.sync_directory(self._store)
