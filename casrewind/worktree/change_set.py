"""What is known of a watched worktree before a scan, and what the scan adds to it.

The danger prevented here: a directory that counts as untouched because nothing watched it. A scan has every directory watched
before it looks at it, so a later change is reported; and where there is any doubt, of which the helper knows as well as the scan,
everything is compared as if nothing had been watched.
"""

import os

from .._typing import Any, NamedTuple, Protocol
from .stat_index import Basis, DirRecord, StatIndex


class AddWatch(Protocol):
    """Has the directory at a path of the system watched."""

    def __call__(self, place: bytes, *, follow: bool) -> int:
        """The watch's number. With `follow` a link at the path is followed. Raises OSError."""


class ChangedDirectories(NamedTuple):
    """What was reported of a worktree since the last save that knew all of it.

    `root`: (device, inode) of the root that is watched. `changed`: the directories in which something may have changed, `below`: those
    of which, with all below them, nothing is known; as paths below the root. `full`: nothing is known.
    """

    root: tuple[int, int]
    changed: frozenset[bytes]
    below: frozenset[bytes]
    full: bool


class WatchResult(NamedTuple):
    """What a save adds: values that another process can be told.

    `entered`: the numbers and paths of the directories that are watched from now on. `rest`: the directories of which the stat
    index still says what they are not: those that could not be entered, or are gone. `failed`: why not all of the worktree is
    watched. `is_known`: all that was found is remembered. `basis`: what the stat index stands for now, None for what it stood for
    before. `value`: a stat index that takes the place of the one before, b"" when that stays, with the newer `records`, by directory.
    `proof`: of the index (store/index.py).
    """

    entered: list[tuple[int, bytes]]
    rest: set[bytes]
    failed: str
    is_known: bool
    basis: Basis | None
    value: bytes
    records: dict[bytes, tuple[Any, ...]]
    proof: tuple[tuple[int, ...], str] | None

    def memory(self, before: StatIndex | None) -> StatIndex | None:
        """The stat index that a helper keeps now, which may be the one before with newer records."""
        if self.basis is None:
            return before
        index = StatIndex(self.value) if self.value or before is None else before
        index.basis = self.basis
        index.newer |= {path: DirRecord(*fields) for path, fields in self.records.items()}
        return index


class ChangeSet:
    """One scan's view of a watched worktree: what is known of it, and what the scan finds."""

    def __init__(self, add: AddWatch, changes: ChangedDirectories, memory: StatIndex | None = None) -> None:
        """`add` watches a directory. `memory`: the stat index that the changes are counted from."""
        self._add, self._root, self.memory = add, changes.root, memory
        self.changed, self.below, self.full = changes.changed, changes.below, changes.full or memory is None
        self._entered: list[tuple[int, bytes]] = []
        self._failed = ""
        self.rest: set[bytes] = set()
        self.proof: tuple[tuple[int, ...], str] | None = None
        """That the index is what was written last (store/index.py)."""
        self._is_known = False
        self._basis: Basis | None = None
        self._value = b""
        self._records: dict[bytes, DirRecord] = {}

    def distrust(self) -> None:
        """Everything has to be compared."""
        self.full = True

    def check_root(self, root: os.stat_result) -> None:
        """Compare the root: of another one nothing is known."""
        if (root.st_dev, root.st_ino) != self._root:
            self._failed, self.full = "another directory has come into the place of the root", True

    def add_watch(self, path: bytes, place: bytes, *, follow: bool = False) -> None:
        """Have the directory `path`, which is at `place`, watched before it is compared."""
        if self._failed:
            return
        try:
            self._entered.append((self._add(place, follow=follow), path))
        except (FileNotFoundError, NotADirectoryError):
            pass  # its parent has changed since, and that is reported
        except OSError as error:
            self._failed = error.strerror or str(error)

    def set_remembered(self, basis: Basis, value: bytes, records: dict[bytes, DirRecord]) -> None:
        """All that was found is remembered: in a new `value`, or in these records that are newer than the memory."""
        self._is_known = True
        self._basis, self._value, self._records = (*basis,), value, records

    def replace(self, basis: Basis, value: bytes) -> None:
        """What was known already is in a new value."""
        self._basis, self._value, self._records = (*basis,), value, {}

    def result(self) -> WatchResult:
        """What was found."""
        records: dict[bytes, tuple[Any, ...]] = {path: tuple(record) for path, record in self._records.items()}
        return WatchResult(self._entered, self.rest, self._failed, self._is_known, self._basis, self._value, records, self.proof)
