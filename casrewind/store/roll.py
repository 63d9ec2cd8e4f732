"""The roll: the names of the files on a worktree's sheet, in a file beside the index.

It can be read before the store is opened, by who wants to look at these files ahead of all else (worktree/ahead.py), and says nothing
but where to look: whoever has the sheet sees whether they are its names. So it is not synced, and goes with the index.
"""

import os
from contextlib import suppress

from .. import fsio

LEAST = 2000
"""Names on a roll: looking at fewer files takes no longer than a fork does."""
MOST = 4 << 20
"""Bytes of a roll: of a larger project the start of the program is no part that counts."""


def _path(store: str, worktree: bytes) -> str:
    return os.path.join(store, "index", f"roll-{worktree.hex()}")


def read(store: str, worktree: bytes) -> bytes:
    """The roll of a worktree in the store at this path, b"" when there is none."""
    try:
        found = fsio.read_file(_path(store, worktree), MOST + 1)
    except OSError:
        return b""
    return found if len(found) <= MOST else b""


def write(store: str, worktree: bytes, names: bytes) -> None:
    """Make the roll one of these names. Failing here loses nothing."""
    path = _path(store, worktree)
    with suppress(OSError):
        if len(names) > MOST or names.count(b"\0") < LEAST:
            os.unlink(path)
        elif read(store, worktree) != names:
            with fsio.drafted(os.path.join(store, "tmp")) as (draft, fd):
                fsio.write_all(fd, names)
                os.rename(draft, path)
