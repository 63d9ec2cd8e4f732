"""What all directories of one scan share: what it may use, its totals, and what it found."""

import time
from collections.abc import Callable

from ..model.domain import RuleRef, Skip
from .last_record import LastRecord
from .reader import ReadFiles, ScanSink, Worktree
from .scan_policy import ScanPolicy
from .stat_index import DirRecord, StatIndex

_REPORT_EVERY = 500
"""Entries between two reports of progress."""

Report = Callable[[str, int, int], None]
"""Called now and then with (activity, entries read, total; 0 = unknown)."""


class ScanState:
    """Shared state and totals of all directories of one scan."""

    def __init__(self, tree: Worktree, sink: ScanSink, policy: ScanPolicy, index: StatIndex, report: Report | None) -> None:
        """`tree` is open, its mounts are those of now. The racy rule counts from now on."""
        self.mounts, self.sink, self.policy, self.index = tree.mounts, sink, policy, index
        self.never_entered = policy.never_entered(tree.root)
        self.start = time.time_ns()
        self.skipped: list[Skip] = []
        self.rules: list[RuleRef] = []
        self.chooser = policy.new_rule_chooser()
        self.last_record = LastRecord(sink, policy.last_tree)
        self.fresh = ReadFiles()
        self.records: dict[bytes, DirRecord] = {}
        self.pairs: dict[bytes, bool] = {}
        """Databases and companions that were read together (database_pair.py): path -> whole. Nothing reads them one by one."""
        self.trees: dict[bytes, bytes] = {}
        self.reused: set[bytes] = set()  # digests in new trees, taken from the index
        self.entries = self.files = self.size = self.ignored = 0
        self._report, self.seen, self._next = report, 0, 0

    def add(self, entries: int, files: int, size: int, ignored: int) -> None:
        """Add the totals of a directory or subtree: paths that are no directories, files, bytes, ignored entries."""
        self.entries += entries
        self.files += files
        self.size += size
        self.ignored += ignored

    def count_processed_and_report(self, entries: int) -> None:
        """Count processed entries and report progress."""
        self.seen += entries
        if self._report is not None and self.seen >= self._next:
            self._next = self.seen + _REPORT_EVERY
            self._report("scanning", self.seen, 0)
