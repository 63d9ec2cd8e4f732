"""What a running bisect keeps from gc, and until when."""

import contextlib
import os

import pytest

from casrewind.model.retention import Limits
from casrewind.upkeep import bisect_pins, gc
from casrewind.store.bisect_rows import BisectRow
from support.trees import plant

LIMITS = Limits(max_age=None, max_count=1, keep_last=0)


@pytest.fixture
def points(workspace, root):
    """Five checkpoints that nothing keeps, newest first."""
    for number in range(5):
        plant(root, {"n": b"%d" % number})
        workspace.save()
    return [point for point, _ in workspace.checkpoints()]


def test_gc_keeps_them_and_those_between_until_the_end(workspace, points):
    context = workspace._context
    with bisect_pins.keep_from_gc(context, [points[1], points[3]]):
        gc.collect(context, LIMITS)
        assert [point.id for point, _ in workspace.checkpoints()] == [point.id for point in points[:4]]
    gc.collect(context, LIMITS)
    assert len(workspace.checkpoints()) == 1


def test_gc_that_decided_before_keeps_them_too(workspace, points, monkeypatch):
    """A row is no record of the ledger, by which gc sees that something happened in between."""
    context, decide, dropped = workspace._context, gc._decide_what_to_forget, []
    with contextlib.ExitStack() as stack:

        def decide_and_be_late(*given):
            found = decide(*given)
            if not dropped:
                dropped.append(len(found[0].dropped))
                stack.enter_context(bisect_pins.keep_from_gc(context, points))
            return found

        monkeypatch.setattr(gc, "_decide_what_to_forget", decide_and_be_late)
        gc.collect(context, LIMITS)
        assert dropped == [4] and len(workspace.checkpoints()) == 5
    gc.collect(context, LIMITS)
    assert len(workspace.checkpoints()) == 1


def test_another_process_with_the_pid_is_not_the_owner(workspace, points):
    context = workspace._context
    row = BisectRow(os.getpid(), "another start", points[0].worktree.hex(), 0, 1 << 60)
    context.store.bisects.record(row)
    gc.collect(context, LIMITS, dry_run=True)
    assert context.store.bisects.all() == [row] and bisect_pins.needed_by_bisects(context) == set()
    gc.collect(context, LIMITS)
    assert context.store.bisects.all() == [] and len(workspace.checkpoints()) == 1


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"version":1}', b'{"pid":"x"}', b"\xff" * 100, b"[" * 20_000,
     b'{"pid":1,"pid_start":"","worktree":"no hex","first":0,"last":9}'])
def test_a_damaged_row_is_no_row(workspace, points, garbage):
    context = workspace._context
    with bisect_pins.keep_from_gc(context, points):
        place = os.path.join(workspace.store_path, "bisects")
        (name,) = os.listdir(place)
        with open(os.path.join(place, name), "wb") as file:
            file.write(garbage)
        gc.collect(context, LIMITS)
        assert len(workspace.checkpoints()) == 1
    assert os.listdir(place) == []
