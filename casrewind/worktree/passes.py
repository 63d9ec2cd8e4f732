"""What decides a scan, and what its directories share and add up to."""

import struct
import time
from collections.abc import Callable, Iterator

from ..model.domain import RuleRef, Skip
from ..model.stamp import Stamp
from ..typed import NamedTuple
from .files import ScanSink
from .ignore import RuleFile, Rules
from .mounts import Mounts
from .stat_index import DirRecord, StatIndex, Watcher

_REPORT_EVERY = 500


_READ = struct.Struct("<QqqQIQ32sI")  # a stamp, size, digest, length of the name


class Options(NamedTuple):
    """What decides a scan besides the tree itself.

    `outside`: rule files that lie outside the tree. `unstored`: further ones, whose bytes must not get into the store. `excluded`:
    (device, inode) of directories that are never entered (stores). `max_file_size` in bytes. `as_of`: the time of the event
    (nanoseconds since 1970; 0 = now); a file that changed after it is late. `processes`: the most that look at once.
    `faults`: settings and rules for the whole tree that could not be read. `rules_lost`: the project's own rules are among these, and
    the rules that the newest checkpoint recorded stay in force.
    """

    outside: tuple[RuleFile, ...] = ()
    ignore_case: bool = False
    default_excludes: bool = True
    max_file_size: int = 1 << 30
    excluded: frozenset[tuple[int, int]] = frozenset()
    as_of: int = 0
    processes: int = 1
    faults: tuple[Skip, ...] = ()
    rules_lost: bool = False
    unstored: tuple[RuleFile, ...] = ()

    def rules(self, outside: tuple[RuleFile, ...] = ()) -> Rules:
        """The rules at the root, before the rule files of the tree. `outside` are the rule files in force from outside the tree."""
        return Rules.top(
            outside, ignore_case=self.ignore_case, default_excludes=self.default_excludes, max_file_size=self.max_file_size
        )


class Fresh(NamedTuple):
    """A file whose bytes were read in this scan: where, its stamp then (NONE: it did not hold still), its size, its
    digest."""

    place: bytes
    name: bytes
    stamp: Stamp
    size: int
    digest: bytes


class Read:
    """All files that were read in a scan, in order, in as little memory as that takes: there may be a million of them."""

    def __init__(self) -> None:
        """None yet."""
        self._directories: list[tuple[bytes, bytearray, bytearray]] = []

    def add(self, place: bytes, name: bytes, stamp: Stamp, size: int, digest: bytes) -> None:
        """Add a file of a directory: they come one directory after the other."""
        if not self._directories or self._directories[-1][0] != place:
            self._directories.append((place, bytearray(), bytearray()))
        _, rows, names = self._directories[-1]
        rows += _READ.pack(*stamp, size, digest, len(name))
        names += name

    def __iter__(self) -> Iterator[Fresh]:
        return self.other_than(lambda _, __: False)

    def other_than(self, is_as_read: Callable[[bytes, tuple[int, ...]], bool]) -> Iterator[Fresh]:
        """Those of which that is not so, asked of every path and stamp."""
        for place, rows, names in self._directories:
            at, before = 0, place + b"/" if place else b""
            for row in _READ.iter_unpack(rows):
                stamp, (size, digest, length) = row[:5], row[5:]
                name = bytes(names[at : at + length])
                at += length
                if not is_as_read(before + name, stamp):
                    yield Fresh(place, name, Stamp(*stamp), size, digest)


Report = Callable[[int], None]
"""Told now and then how many entries were looked at."""


class Pass:
    """What all directories of one scan share, and what they add up to."""

    def __init__(
        self, mounts: Mounts, sink: ScanSink, options: Options, index: StatIndex, report: Report | None, watch: Watcher | None
    ) -> None:
        """`mounts` are those below the root; the racy rule counts from now on."""
        self.mounts, self.sink, self.options, self.index = mounts, sink, options, index
        self.watch, self.doubtful = watch, False  # doubtful: a file has got a second name, where is the first?
        self.left: set[bytes] = set()  # the directories that were scanned to their ends
        self.start = time.time_ns()
        self.skipped: list[Skip] = []
        self.rules: list[RuleRef] = []
        self.fresh = Read()
        self.records: dict[bytes, DirRecord] = {}
        self.trees: dict[bytes, bytes] = {}
        self.reused: set[bytes] = set()  # digests that new trees have from the index
        self.entries = self.files = self.size = self.ignored = 0
        self._report, self.seen, self._next = report, 0, 0

    def add(self, entries: int, files: int, size: int, ignored: int) -> None:
        """Add what a directory, or a whole part of the worktree, has: paths of the manifest, files and their bytes among
        them, and what was ignored."""
        self.entries += entries
        self.files += files
        self.size += size
        self.ignored += ignored

    def saw(self, entries: int) -> None:
        """Count entries looked at."""
        self.seen += entries
        if self._report is not None and self.seen >= self._next:
            self._next = self.seen + _REPORT_EVERY
            self._report(self.seen)
