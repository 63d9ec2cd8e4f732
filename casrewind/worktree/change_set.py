"""The known changes of a watched worktree before a scan, and the result that the scan adds.

The danger prevented here: a directory counts as unchanged although it was not watched. A scan adds a watch to every
directory before it reads it, so later changes are reported. In doubt, everything is compared as if nothing had been
watched.
"""

import os

from .._typing import Any, NamedTuple, Protocol
from .stat_index import Basis, DirRecord, StatIndex


class AddWatch(Protocol):
    """Adds a watch to the directory at an absolute path."""

    def __call__(self, place: bytes, *, follow: bool) -> int:
        """The watch's number. With `follow`, a link at the path is followed. Raises OSError."""


class ChangedDirectories(NamedTuple):
    """Reported changes in a worktree since the last complete save. `root`: (device, inode) of the watched root. Paths
    are below the root. `changed`: directories with possible changes. `below`: directories unknown with their whole
    subtree. `full`: nothing is known."""

    root: tuple[int, int]
    changed: frozenset[bytes]
    below: frozenset[bytes]
    full: bool


PlainRecords = dict[bytes, tuple[Any, ...]]
"""{directory: the fields of its DirRecord, of many types}: `marshal`, which writes them, knows no named tuples."""


class WatchResult(NamedTuple):
    """The result of a save, in values that can be sent to another process.

    `entered`: (watch number, path) of newly watched directories. `rest`: directories with an outdated entry in the stat
    index, because they could not be entered or are gone. `failed`: why some directories are not watched. `is_known`:
    the stat index covers all results. `basis`: the basis of the new stat index, None if unchanged. `value`: a new stat
    index, b"" for the previous one. `records`: its newer records, by directory. `proof`: of the index (store/index.py).
    """

    entered: list[tuple[int, bytes]]
    rest: set[bytes]
    failed: str
    is_known: bool
    basis: Basis | None
    value: bytes
    records: PlainRecords
    proof: tuple[tuple[int, ...], str] | None

    def updated_index(self, before: StatIndex | None) -> StatIndex | None:
        """The stat index for the helper to keep: a new one, or the previous one with newer records."""
        if self.basis is None:
            return before
        index = StatIndex(self.value) if self.value or before is None else before
        index.basis = self.basis
        index.newer |= {path: DirRecord(*fields) for path, fields in self.records.items()}
        return index


class ChangeSet:
    """The known changes of a watched worktree, for one scan, and the results of that scan."""

    def __init__(self, add: AddWatch, changes: ChangedDirectories, memory: StatIndex | None = None) -> None:
        """`add` watches a directory. `memory`: the stat index that the changes are relative to."""
        self._add, self._root, self.memory = add, changes.root, memory
        self.changed, self.below, self.full = changes.changed, changes.below, changes.full or memory is None
        self._entered: list[tuple[int, bytes]] = []
        self._failed = ""
        self.rest: set[bytes] = set()
        self.proof: tuple[tuple[int, ...], str] | None = None
        """Proof that the index equals the last one written (store/index.py)."""
        self._is_known = False
        self._basis: Basis | None = None
        self._value = b""
        self._records: dict[bytes, DirRecord] = {}

    def discard_known_changes(self) -> None:
        """Discard the known changes: compare everything."""
        self.full = True

    def discard_known_changes_if_other_root(self, root: os.stat_result) -> None:
        """Discard the known changes if they belong to another root directory."""
        if (root.st_dev, root.st_ino) != self._root:
            self._failed, self.full = "the root was replaced by another directory", True

    def watch_directory(self, path: bytes, place: bytes, *, follow: bool = False) -> None:
        """Watch the directory `path`, located at `place`, before it is compared."""
        if self._failed:
            return
        try:
            self._entered.append((self._add(place, follow=follow), path))
        except (FileNotFoundError, NotADirectoryError):
            pass  # its parent has changed since, which is reported
        except OSError as error:
            self._failed = error.strerror or str(error)

    def record_that_all_is_saved(self, basis: Basis, value: bytes, records: dict[bytes, DirRecord]) -> None:
        """Record that all results are saved: in a new `value`, or in records newer than the memory."""
        self._is_known = True
        self._basis, self._value, self._records = (*basis,), value, records

    def replace(self, basis: Basis, value: bytes) -> None:
        """Record that a new value contains everything known so far."""
        self._basis, self._value, self._records = (*basis,), value, {}

    def result(self) -> WatchResult:
        """The results of the scan."""
        records: PlainRecords = {path: tuple(record) for path, record in self._records.items()}
        return WatchResult(self._entered, self.rest, self._failed, self._is_known, self._basis, self._value, records, self.proof)
