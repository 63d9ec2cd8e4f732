"""The running bisects: which checkpoints each of them needs. One small JSON file each.

The danger prevented here: gc forgets a state that is looked at next. A row names its process, so that the row of one that was
killed holds nothing.
"""

import os
from contextlib import suppress

from .. import fastjson, fsio
from .._typing import NamedTuple
from ..model import digest as digests

VERSION = 1
_DIRECTORY = "bisects"
_END = ".json"
_LONGEST = 64 << 10  # bytes of a row


class BisectRow(NamedTuple):
    """A running bisect: the `pid` of its process and when that began (an opaque word, "" if unknown), the key of the worktree
    in hex, and the first and last number (`Checkpoint.seq`) of the checkpoints that it needs."""

    pid: int
    pid_start: str
    worktree: str
    first: int
    last: int


class BisectRows:
    """The rows of one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, row: BisectRow) -> None:
        """Record a bisect, in place of what was recorded for its process. Raises OSError."""
        with suppress(FileExistsError):
            fsio.make_directory(self._place)
        shape: dict[str, str | int | bool] = {"version": VERSION, **row._asdict()}
        with fsio.drafted(os.path.join(self._store, "tmp")) as (draft, fd):
            fsio.write_all(fd, fastjson.flat(shape).encode() + b"\n")
            os.rename(draft, self._path(row))

    def all(self) -> list[BisectRow]:
        """All rows."""
        found = []
        with suppress(OSError):
            rows = (_read(os.path.join(self._place, name)) for name in os.listdir(self._place) if name.endswith(_END))
            found = [row for row in rows if row is not None]
        return found

    def forget(self, row: BisectRow) -> None:
        """Remove a row. Errors are ignored: once its process is gone, the row holds nothing."""
        with suppress(OSError):
            os.unlink(self._path(row))

    def _path(self, row: BisectRow) -> str:
        name = digests.of(f"{row.pid} {row.pid_start}".encode("utf-8", "surrogatepass"))
        return os.path.join(self._place, name[:12].hex() + _END)


def _read(path: str) -> BisectRow | None:
    try:
        value = fastjson.loads(fsio.read_file(path, _LONGEST).decode())
        row = BisectRow._make(value[name] for name in BisectRow._fields)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    wanted = BisectRow.__annotations__
    return row if all(type(item) is wanted[name] for name, item in row._asdict().items()) else None
