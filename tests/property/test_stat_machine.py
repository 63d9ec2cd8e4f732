"""A save with what is remembered, and one that reads everything, agree: whatever was edited, restored, swept or damaged before.
So do the compiled comparison of stamps and the one in Python, in the tree and in each byte of the stat file. A seed decides all
of it: two installations that print the same digest at the end saved the same trees."""

import hashlib
import os
import random
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from casrewind import Limits, errors
from casrewind import open as open_workspace
from casrewind.model import manifest
from casrewind.model import stamp as stamps
from casrewind.history import present_scan
from casrewind.upkeep import save as saves
from casrewind.store import stat_file
from casrewind.store.dry_run_writer import DryRunWriter
from casrewind.worktree import scan_state, stat_index
from support.random_edits import RandomEdits
from support.sample_start import by_turns
from support.trees import plant

TREE = {f"d{n}/e{m}/{k}": b"%d" % (n * m) for n in range(4) for m in range(3) for k in ("f0", "f1", "g/x")} | {
    "d0/.gitignore": b"*.o\n",
    "d1/e1/.gitignore": b".gitignore\nn1*\n",
}
LONG = 75_000
COMPARISONS = {stamps.positions_that_differ, stat_index.positions_that_differ}
"""Two where threaded_comparison.c was compiled."""


class Machine:
    """A project with two stores: one whose saves use the stat file, one whose saves read everything."""

    def __init__(self, root, settings, seed):
        plant(root, TREE)
        self.root, self.settings = str(root), settings
        self.other = settings._replace(data=settings.data + "-other")
        self.random, self.chaos = random.Random(seed), RandomEdits(root, seed)
        self.copies, self.counts = [], dict.fromkeys(("edits", "saves", "comparisons", "restores", "undos", "sweeps", "attacks"), 0)
        self.digest = hashlib.sha256()

    def open(self, settings):
        return open_workspace(self.root, settings)

    def place(self, workspace):
        return Path(stat_file.stat_file_path(os.path.join(workspace.store_path, "index"), workspace._context.root.key))

    def save(self):
        with self.open(self.settings) as workspace:
            self.compare_scans(workspace._context)
            point = saves.save(workspace._context, saves.Moment(trigger="prompt", pin=self.random.random() < 0.1)).checkpoint
            if self.random.random() < 0.2 and self.place(workspace).exists():
                self.copies = [*self.copies[-5:], self.place(workspace).read_bytes()]
        with self.open(self.other) as workspace:
            right = saves.save(workspace._context, saves.Moment(trigger="prompt"), rehash=True).checkpoint
            self.add_to_digest(workspace, right.tree)
            workspace.gc(Limits(max_age=None, max_count=1, keep_last=0)) if self.random.random() < 0.02 else None
        assert (point.tree, point.files, point.size) == (right.tree, right.files, right.size)
        self.counts["saves"] += 1

    def add_to_digest(self, workspace, tree):
        """Add what a tree has, but for its times."""
        for path, entry in sorted(manifest.walk(workspace._context.store.load_tree, tree)):
            content = None if entry.kind == manifest.DIR else entry.digest
            self.digest.update(repr((path, entry.kind, entry.mode, entry.size, entry.target, content)).encode())

    def compare_scans(self, context):
        """What each comparison of stamps would save at one moment is the same."""
        clock, found = SimpleNamespace(time_ns=lambda now=time.time_ns(): now), []
        for function in COMPARISONS if len(COMPARISONS) > 1 else ():
            with mock.patch.object(stat_index, "positions_that_differ", function), mock.patch.object(scan_state, "time", clock):
                scan = present_scan.scan_now(context, DryRunWriter(context.store.read))
            found.append((scan.tree, scan.domain, scan.known.updated_value(scan.records)))
        assert all(one == found[0] for one in found)
        self.counts["comparisons"] += len(found) > 1

    def edit(self):
        self.chaos.once()
        self.counts["edits"] += 1

    def restore(self):
        with self.open(self.settings) as workspace:
            points = [point for point, _ in workspace.checkpoints()]
            if points:
                try:
                    workspace.restore(self.random.choice(points))
                    self.counts["restores"] += 1
                except errors.CasrewindError:
                    pass  # a name that is in the way, say

    def undo(self):
        with self.open(self.settings) as workspace:
            try:
                workspace.undo() if self.random.random() < 0.6 else workspace.redo()
                self.counts["undos"] += 1
            except errors.CasrewindError:
                pass  # nothing to undo

    def sweep(self):
        with self.open(self.settings) as workspace:
            workspace.gc(Limits(max_age=None, max_count=self.random.randrange(1, 9), keep_last=0))
            self.counts["sweeps"] += 1

    def attack(self):
        """Put an old copy back, flip a byte, cut the file, remove it, or have the index made anew."""
        with self.open(self.settings) as workspace:
            place = self.place(workspace)
        if not place.exists():
            return
        data = bytearray(place.read_bytes())
        how = self.random.randrange(6)
        if how < 2 and self.copies:
            place.write_bytes(self.random.choice(self.copies))
        elif how == 2:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            place.write_bytes(data)
        elif how == 3:
            place.write_bytes(data[: self.random.randrange(len(data))])
        elif how == 4:
            place.unlink()
        elif self.random.random() < 0.3:
            (place.parent / "data.mdb").unlink()
        self.counts["attacks"] += 1

    def step(self):
        pick = self.random.random()
        if pick < 0.5:
            self.edit()
        elif pick < 0.86:
            self.save()
        elif pick < 0.92:
            self.restore()
        elif pick < 0.95:
            self.undo()
        elif pick < 0.97:
            self.sweep()
        elif pick < 0.99:
            self.attack()
        else:
            time.sleep(0.03)  # stamps grow old enough to be believed

    def go(self, steps):
        for _ in range(steps):
            self.step()
        with self.open(self.settings) as workspace:
            assert workspace.verify().problems == ()


def run(root, settings, seed, steps):
    machine = Machine(root, settings, seed)
    machine.go(steps)
    print(f"{steps} steps: " + ", ".join(f"{count} {what}" for what, count in machine.counts.items()), f"digest of the trees {machine.digest.hexdigest()[:16]}", sep="; ")
    shutil.rmtree(machine.chaos.out)
    return machine.counts


@pytest.mark.parametrize("seed", by_turns(range(3), 1))
def test_a_save_with_the_stat_file_and_one_that_reads_everything_agree(root, settings, seed):
    counts = run(root, settings, seed, 250)
    assert counts["saves"] > 50 and counts["attacks"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 100 + LONG // 750))
def test_many_steps_agree(root, settings, seed):
    run(root, settings, seed, 750)
