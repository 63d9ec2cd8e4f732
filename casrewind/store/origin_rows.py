"""The directories that restore --to wrote: which checkpoint is in each. One small JSON file each.

The danger prevented here: a change is taken over from a directory that was not made from the checkpoint it is compared
with. So a row counts only for the same directory at the same path. The rows may be lost: no checkpoint needs them.
"""

import os
from contextlib import suppress

from .. import fastjson, fsio
from .._typing import NamedTuple
from ..model import digest as digests

VERSION = 1
_DIRECTORY = "origins"
_END = ".json"
_LONGEST = 64 << 10  # bytes of a row


class Origin(NamedTuple):
    """A directory that has a checkpoint's files: its real path, its inode number, the id of the `checkpoint`, the path of
    the project (`root`) and the key of its worktree in hex, and when it was written (nanoseconds since 1970)."""

    directory: str
    ino: int
    checkpoint: str
    root: str
    worktree: str
    written_ns: int


class OriginRows:
    """The rows of one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, origin: Origin) -> None:
        """Record a directory, in place of what was recorded for its path. Raises OSError."""
        with suppress(FileExistsError):
            fsio.make_directory(self._place)
        row: dict[str, str | int | bool] = {"version": VERSION, **origin._asdict()}
        with fsio.drafted(os.path.join(self._store, "tmp")) as (draft, fd):
            fsio.write_all(fd, fastjson.flat(row).encode() + b"\n")
            os.rename(draft, self._path(origin.directory))

    def find(self, directory: str) -> Origin | None:
        """The row of a real path."""
        return _read(self._path(directory))

    def all(self) -> list[Origin]:
        """All rows, newest first."""
        found = []
        with suppress(OSError):
            rows = (_read(os.path.join(self._place, name)) for name in os.listdir(self._place) if name.endswith(_END))
            found = [row for row in rows if row is not None]
        return sorted(found, key=lambda row: row.written_ns, reverse=True)

    def forget(self, directory: str) -> None:
        """Remove the row of a real path. Errors are ignored."""
        with suppress(OSError):
            os.unlink(self._path(directory))

    def _path(self, directory: str) -> str:
        return os.path.join(self._place, digests.of(os.fsencode(directory))[:12].hex() + _END)


def _read(path: str) -> Origin | None:
    try:
        value = fastjson.loads(fsio.read_file(path, _LONGEST).decode())
        origin = Origin._make(value[name] for name in Origin._fields)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    wanted = Origin.__annotations__
    return origin if all(type(item) is wanted[name] for name, item in origin._asdict().items()) else None
