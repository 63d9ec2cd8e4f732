"""What came into a worktree from another machine last: one small JSON file for each worktree."""

import os
from contextlib import suppress

from .._typing import NamedTuple
from . import json_rows

_DIRECTORY = "arrivals"


class Arrival(NamedTuple):
    """A checkpoint of another machine whose files and conversation were brought here."""

    checkpoint: str
    """Its id."""
    machine: str
    """The name of the machine."""
    root: str
    """The path of the project there."""
    session: str
    """The session that the conversation is here, "" = none was written."""
    transcript: str
    """The path of its transcript here."""
    whole: bool
    """All files of the checkpoint were asked for, and no edits were kept."""


def record_arrival(store: str, worktree: bytes, arrival: Arrival) -> None:
    """Put an arrival in place of the worktree's last one. `store` is the store's directory, `worktree` a key. If it cannot be written,
    nothing is kept."""
    with suppress(OSError):
        json_rows.write_row(store, _path_of(store, worktree), arrival)


def read_arrival(store: str, worktree: bytes) -> Arrival | None:
    """What came last, None if nothing did."""
    return json_rows.read_row(_path_of(store, worktree), Arrival)


def _path_of(store: str, worktree: bytes) -> str:
    return os.path.join(store, _DIRECTORY, worktree.hex() + json_rows.END)
