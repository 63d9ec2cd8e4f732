"""What a store notes of its pushes for hooks, the status line and `status`.

The danger prevented here: a hook loads the libraries of a remote, or asks the network, only to say how far behind the
remote is. These notes are one small file. If it is lost, it is not known when the last push was; pushes do not read it.
"""

import os
import time

from .. import locks
from .._typing import NamedTuple
from . import json_rows

CONFIG = "config"
"""The file of a remote's configuration in its directory in the store."""
PUSH_OR_PULL = "remote", "push or pull"
"""The lock of what talks to a remote, and its words (Store.hold_lock): pushes and pulls of a store follow each other."""
CLONING = "cloning"
"""The file that a clone has there until it is whole (remote/cut_clones.py)."""
JOINING = "joining"
"""The directory beside those of remotes with the notes and the claim of a store that joins one by itself."""
_NOTES = "notes" + json_rows.END
_CLAIM = "claim"


class PushNotes(NamedTuple):
    """`seq` is the number of the last record in the ledger that was pushed. Times are in nanoseconds since 1970, 0 = never:
    of the last push that ended well, of the last background push, or try to join, if that failed, with its `problem` ("" = it did not),
    and of the last `remote verify`, which found `damage` (the number of its problems). `refused`: a digest of the URL and the key with
    which the last try to join failed, "" if the key was not the reason."""

    seq: int = 0
    pushed_ns: int = 0
    failed_ns: int = 0
    problem: str = ""
    verified_ns: int = 0
    damage: int = 0
    refused: str = ""


def remote_directory(remotes: str) -> str:
    """The directory of a store's remote, or "". `remotes` is the store's directory of remotes."""
    try:
        names = sorted(os.listdir(remotes))
    except OSError:
        return ""
    places = (os.path.join(remotes, name) for name in names)
    return next((place for place in places if os.path.lexists(os.path.join(place, CONFIG))), "")


def noted_directory(remotes: str) -> str:
    """The directory with the notes of a store's remote, or of how it fails to join one."""
    return remote_directory(remotes) or os.path.join(remotes, JOINING)


def read_failed_join(remotes: str) -> PushNotes | None:
    """The notes of a store that has no remote, because it could not join one; None if that is not so."""
    notes = None if remote_directory(remotes) else read_push_notes(os.path.join(remotes, JOINING))
    return notes if notes is not None and notes.problem else None


def forget_failed_join(remotes: str) -> None:
    """Forget how a store failed to join a remote, now that it has one."""
    json_rows.remove_row(os.path.join(remotes, JOINING, _NOTES))


def read_push_notes(directory: str) -> PushNotes:
    """The notes in the directory of a remote."""
    return json_rows.read_row(os.path.join(directory, _NOTES), PushNotes) or PushNotes()


def write_push_notes(store: str, directory: str, notes: PushNotes) -> None:
    """Replace the notes. Raises OSError."""
    json_rows.write_row(store, os.path.join(directory, _NOTES), notes)


class PushClaim:
    """The claim of the one background push of a store, a lock of its own file. The time of that file is when the last
    background push began."""

    def __init__(self, directory: str, inherited: int | None = None) -> None:
        """`directory` is that of the remote. Makes the file. `inherited`: a descriptor that may be the claim of the process that
        started this one. Raises StoreError, OSError."""
        path = os.path.join(directory, _CLAIM)
        is_new = not os.path.lexists(path)
        if inherited is not None and not is_new and os.path.samestat(os.fstat(inherited), os.stat(path)):
            self.fd = inherited
            return
        fd = locks.open_lock(path)
        if fd is None:
            raise PermissionError(path)
        self.fd = fd
        if is_new:
            self.hurry_next_push()

    def take(self) -> bool:
        """Claim the push for this process. False if another process has it."""
        return locks.try_lock(self.fd)

    def release(self) -> None:
        """Give the claim back."""
        locks.unlock(self.fd)

    def close(self) -> None:
        """Close the file, which gives the claim back, too."""
        os.close(self.fd)

    def seconds_to_wait(self, interval: float) -> float:
        """Seconds until `interval` has passed since the last background push began. A time in the future does not count."""
        passed = time.time() - os.fstat(self.fd).st_mtime
        return interval - passed if 0 <= passed < interval else 0.0

    def note_push_begins(self) -> None:
        """Note that a background push begins now."""
        os.utime(self.fd)

    def hurry_next_push(self) -> None:
        """Let the next background push begin without a wait, also if a process waits for its time already."""
        os.utime(self.fd, (0, 0))
