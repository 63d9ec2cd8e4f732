"""Scans without a store: what one scan remembered is what the next one has."""

import time

from casrewind.model import manifest
from casrewind.store.dry_run_writer import DryRunWriter
from casrewind.worktree import scan as scans
from casrewind.worktree.reader import Worktree
from casrewind.worktree.scan_policy import ScanPolicy
from casrewind.worktree.stat_index import StatIndex


class Sink(DryRunWriter):
    """Counts what a scan reads."""

    def __init__(self):
        super().__init__(lambda _: b"")
        self.read_files = []
        self.trees_made = 0

    def put_file(self, data):
        self.read_files.append(data)
        return super().put_file(data)

    def put_stream(self, source, size):
        self.read_files.append(size)
        return super().put_stream(source, size)

    def put_tree(self, data):
        self.trees_made += 1
        return super().put_tree(data)


class Scanner:
    """Scans again and again with what the scan before remembered."""

    def __init__(self, root):
        self.root, self.policy = str(root), ScanPolicy()
        self.sink, self.index = Sink(), StatIndex()

    def __call__(self, **options):
        self.sink.read_files, self.sink.trees_made = [], 0
        self.index.begin_scan()
        with Worktree(self.root) as tree:
            found = scans.scan(tree, self.sink, self.policy._replace(**options), self.index)
        self.index = StatIndex(found.known.updated_value(found.records))
        return found

    def entries(self, found):
        return dict(manifest.walk(self.sink.load_tree, found.tree))

    def rules(self, *files):
        """The digest of the rules in force in a directory that has no rule files, `files` being those of the root."""
        return self.policy.rules().extend(files).digest


def settle():
    """Let stamps grow older than the racy margin, on the clock that gives them."""
    time.sleep(0.05)
