"""The journal of a restore in progress, one file per worktree.

The danger prevented here: a killed restore leaves a mixed worktree without a record of it. The journal is durable
before the first change to the worktree and removed after the last. What it names (target, safety checkpoint, plan) is
durable before it. A journal without a running restore means: interrupted, continue or abort.
"""

import os
import struct

from .. import errors, fsio
from ..messages import store_errors
from ..model import digest as digests
from ..model import undo_history
from .layout import Layout

MAGIC = b"CRJ1"
_HEAD = struct.Struct("<4sI")  # magic, length of the body
_CHECK = 16
_JOURNAL_BYTES = 1 << 16  # bytes of a journal; a longer file is a damaged one
_KEY = 32  # characters of a journal's name: the worktree's key in hex


def encode(operation: undo_history.Operation) -> bytes:
    """A journal as bytes."""
    body = undo_history.encode_operation(operation)
    data = _HEAD.pack(MAGIC, len(body)) + body
    return data + digests.of(data)[:_CHECK]


def decode(data: bytes) -> undo_history.Operation:
    """The operation in a journal's bytes. Raises StoreDamaged."""
    if len(data) < _HEAD.size + _CHECK or digests.of(data[:-_CHECK])[:_CHECK] != data[-_CHECK:]:
        raise errors.StoreDamaged("damaged journal: its bytes are not what was written", "run casrewind verify")
    magic, length = _HEAD.unpack_from(data)
    if magic != MAGIC or length != len(data) - _HEAD.size - _CHECK:
        raise errors.StoreDamaged("damaged journal: not a journal", "run casrewind verify")
    return undo_history.decode_operation(data[_HEAD.size : -_CHECK])


class Journals:
    """The journals of one store."""

    def __init__(self, layout: Layout) -> None:
        """`layout` is the store's."""
        self._layout = layout

    def read(self, worktree: bytes) -> undo_history.Operation | None:
        """The journal of a worktree, or None if no restore is open."""
        try:
            data = fsio.read_file(self._layout.journal_path(worktree), _JOURNAL_BYTES)
        except FileNotFoundError:
            return None
        operation = decode(data)
        if operation.worktree != worktree:
            raise errors.StoreDamaged("damaged journal: it is another worktree's", "run casrewind verify")
        return operation

    def names(self) -> list[str]:
        """The names of all journals: worktree keys in hex."""
        try:
            found = os.listdir(self._layout.journals)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if len(name) == _KEY and not name.strip("0123456789abcdef"))

    def read_all(self) -> list[undo_history.Operation]:
        """All open restores, of any worktree. Raises StoreDamaged if a journal cannot be read."""
        found = [self.read(bytes.fromhex(name)) for name in self.names()]
        return [operation for operation in found if operation is not None]

    def write(self, operation: undo_history.Operation) -> None:
        """Write a journal, durably. Raises StoreError."""
        with store_errors("writing the journal in", self._layout.journals):
            fsio.replace_file(self._layout.journals, operation.worktree.hex(), encode(operation), temporary=self._layout.temporary)

    def set_journal_aside(self, worktree: bytes) -> str:
        """Rename a journal that cannot be read, so that it blocks nothing. Returns the new path."""
        path = self._layout.journal_path(worktree)
        aside = f"{path}.damaged-{os.urandom(4).hex()}"
        with store_errors("setting aside the journal", path):
            os.rename(path, aside)
            fsio.sync_directory(self._layout.journals)
        return aside

    def remove(self, worktree: bytes) -> None:
        """Remove a worktree's journal, durably."""
        with store_errors("closing the journal in", self._layout.journals):
            os.unlink(self._layout.journal_path(worktree))
            fsio.sync_directory(self._layout.journals)
