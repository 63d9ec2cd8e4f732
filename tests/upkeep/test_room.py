"""A budget of bytes that holds: what a save does when the store is full, and that it goes on whatever has to stay."""

import os
import subprocess

import pytest

from casrewind import Limits
from casrewind import errors as failures
from casrewind import open as open_workspace
from casrewind.store import budget
from casrewind.store.budget import GcState, gc_threshold, gc_target, copy_limit, bytes_reserved_for_gc
from support.picture import differences, picture
from support.trees import plant

MB = 1 << 20
BUDGET = 24 * MB


@pytest.fixture
def small(root, settings):
    """A project whose store may take 24 MiB."""
    limits = Limits(None, None, max_size=BUDGET)
    with open_workspace(str(root), settings._replace(limits=limits)) as opened:
        yield opened


def on_disk(workspace):
    """Bytes that the store takes, as du sees it."""
    done = subprocess.run(["du", "-s", "-B1", workspace.store_path], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def write(root, name, size):
    (root / name).write_bytes(os.urandom(size))


@pytest.mark.turns(2)
def test_a_store_stays_under_its_budget_whatever_is_saved(small, root):
    plant(root, {"small": b"stays"})
    peak = 0
    for n in range(24):
        write(root, "artefact", 2 * MB)
        (root / "count").write_bytes(b"%d" % n)
        saved = small.save(f"turn {n}", described=True)
        assert saved.created
        peak = max(peak, on_disk(small))
    assert peak <= BUDGET
    points = [point for point, _ in small.checkpoints()]
    assert 4 <= len(points) < 24
    assert [point.label for point in points] == [f"turn {n}" for n in range(23, 23 - len(points), -1)]
    assert small.verify().problems == ()


def test_what_a_full_store_keeps_restores_exactly(small, root):
    pictures = {}
    for n in range(16):
        write(root, "artefact", 2 * MB)
        (root / "count").write_bytes(b"%d" % n)
        pictures[small.save(f"turn {n}", described=True).checkpoint.id] = picture(root)
    for point, _ in small.checkpoints():
        small.restore(point)
        assert differences(picture(root), pictures[point.id]) == {}


def test_a_save_larger_than_what_the_oldest_leave_makes_its_room_at_once(small, root):
    for n in range(7):
        write(root, f"{n}", 2 * MB)
        small.save(f"turn {n}", described=True)
        os.unlink(root / f"{n}")
    write(root, "large", 11 * MB)
    small.save("large", described=True)
    labels = [point.label for point, _ in small.checkpoints()]
    assert labels[0] == "large"
    assert len(labels) >= 2
    assert on_disk(small) <= BUDGET


def test_pinned_checkpoints_beyond_the_budget_stay_saves_go_on_and_it_is_said(small, root):
    for n in range(8):
        write(root, "artefact", 4 * MB)
        small.save(f"pinned {n}", pin=True)
    assert on_disk(small) > BUDGET
    for n in range(6):
        write(root, "artefact", 1 * MB)
        assert small.save(f"turn {n}", described=True).created
    found = small.gc()
    assert found.floor > BUDGET
    assert "unpin" in found.notes[0]
    labels = {point.label for point, _ in small.checkpoints()}
    assert {f"pinned {n}" for n in range(8)} <= labels
    assert "turn 5" in labels
    assert any("cannot be kept to its budget" in reason for reason in small.status().reasons)
    for n in range(7):
        small.unpin(f"pinned {n}")
    assert small.gc().floor == 0
    assert on_disk(small) <= BUDGET
    assert not any("budget" in reason for reason in small.status().reasons)


@pytest.mark.parametrize("budget", [0, 1, 4096, 3 * MB])
def test_a_budget_smaller_than_one_checkpoint_takes_nothing(root, settings, budget):
    limits = Limits(None, None, max_size=budget)
    with open_workspace(str(root), settings._replace(limits=limits)) as workspace:
        for n in range(4):
            write(root, "artefact", 4 * MB)
            assert workspace.save(f"turn {n}", described=True).created
        found = workspace.gc()
        assert found.dropped == ()
        assert "smaller than what the newest checkpoint" in found.notes[0]
        assert len(workspace.checkpoints()) == 4
        assert workspace.gc(dry_run=True).floor > budget
        assert found.floor > budget
        before = GcState.read(workspace.store_path)
        write(root, "artefact", 4 * MB)
        workspace.save("and on", described=True)
        assert GcState.read(workspace.store_path) == before  # nobody tries again at every save


def test_a_dry_run_says_what_does_not_fit(small, root):
    for n in range(6):
        write(root, "artefact", 2 * MB)
        small.save(f"turn {n}", described=True)
    tight = Limits(None, None, max_size=8 * MB)
    would = small.gc(tight, dry_run=True)
    assert [item.checkpoint.label for item in would.dropped] == ["turn 2", "turn 1", "turn 0"]
    assert would.dropped[0].reason == f"no room in the budget of {8 * MB:,} bytes"
    assert len(small.checkpoints()) == 6
    did = small.gc(tight)
    assert did.dropped == would.dropped
    assert on_disk(small) <= 8 * MB


def test_undo_works_across_a_gc_for_room(small, root):
    write(root, "a", 2 * MB)
    first = small.save("first", described=True).checkpoint
    write(root, "a", 2 * MB)
    small.save("second", described=True)
    before = picture(root)
    small.restore(first)
    for n in range(12):
        write(root, f"more-{n}", 2 * MB)
        small.save(f"turn {n}", described=True)
        os.unlink(root / f"more-{n}")
    small.undo()
    assert differences(picture(root), before) == {}


def test_a_file_that_cannot_fit_is_refused_before_it_is_read(root, settings, monkeypatch):
    sparse = root / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(700 * MB)
    with open_workspace(str(root), settings) as workspace:
        monkeypatch.setattr(budget, "free_bytes", lambda _: 600 * MB)
        with pytest.raises(failures.StoreFull, match=f"file of {700 * MB:,} bytes: {600 * MB:,} bytes may be written"):
            workspace.save()
        assert os.listdir(os.path.join(workspace.store_path, "packs")) == []
        assert on_disk(workspace) < MB
        assert workspace.checkpoints() == []


def test_a_first_save_that_does_not_fit_leaves_nothing(root, settings, monkeypatch):
    for number in range(12):
        write(root, f"f{number}", MB)
    with open_workspace(str(root), settings) as workspace:
        monkeypatch.setattr(budget, "free_bytes", lambda _: 6 * MB)
        with pytest.raises(failures.StoreFull, match=f"more than the {6 * MB:,} bytes that may be written are needed"):
            workspace.save()
        assert os.listdir(os.path.join(workspace.store_path, "packs")) == []
        assert on_disk(workspace) < MB
        assert workspace.checkpoints() == []


def test_the_waters_are_in_order():
    for budget in (0, 1, 1000, MB, 100 * MB, 1 << 30, 5 << 30, 1 << 50):
        assert 0 <= gc_target(budget) <= gc_threshold(budget) <= budget - bytes_reserved_for_gc(budget) <= budget
        assert copy_limit(budget) <= max(bytes_reserved_for_gc(budget), budget // 8)
