"""gc decides what to forget while others work. What they do before it has the store to itself counts, too."""

import fcntl
import json
import os
import subprocess
import sys
import time

import pytest

from casrewind.workspace import Workspace
from support.trees import plant


def is_asking(store):
    """Somebody holds the gate alone: gc has decided, and waits for those inside to leave."""
    with open(os.path.join(store, "locks", "gate"), "rb") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def interrupted(root, workspace, casrewind):
    """Run gc, do something between its decision and its forgetting; what gc said."""

    def run(between):
        arguments = [sys.executable, "-m", "casrewind", "-C", str(root), "gc", "--max-count", "2", "--json"]
        with workspace._context.store.hold_shared_lock():
            gc = subprocess.Popen(arguments, env=casrewind.environment, stdout=subprocess.PIPE)
            end = time.monotonic() + 60
            while not is_asking(workspace.store_path):
                assert time.monotonic() < end and gc.poll() is None
                time.sleep(0.001)
            between()
        said = gc.communicate(timeout=60)[0]
        assert gc.returncode == 0
        return json.loads(said)

    return run


@pytest.fixture
def points(root, workspace):
    """Five checkpoints, the oldest first."""
    found = []
    for number in range(5):
        plant(root, {"file": b"%d" % number})
        found.append(workspace.save().checkpoint)
    return found


def left(workspace):
    return {point.id for point, _ in workspace.checkpoints() if point.trigger != "safety"}


def test_what_is_saved_between_changes_nothing_of_the_decision(root, settings, workspace, points, interrupted):
    made = []

    def between():
        with Workspace(str(root), settings, create=False) as other:
            plant(root, {"file": b"new"})
            made.append(other.save().checkpoint.id)

    assert interrupted(between)["dropped"] == 3
    assert left(workspace) == {points[3].id, points[4].id, *made}
    assert not workspace.verify().problems


def test_what_is_pinned_between_stays(workspace, points, interrupted):
    assert interrupted(lambda: workspace.pin(points[1]))["dropped"] == 2
    assert left(workspace) == {points[1].id, points[3].id, points[4].id}


def test_what_a_restore_between_has_need_of_stays(root, workspace, points, interrupted):
    interrupted(lambda: workspace.restore(points[0]))
    assert points[0].id in left(workspace)
    assert (root / "file").read_bytes() == b"0"
    workspace.undo()
    assert (root / "file").read_bytes() == b"4"
    workspace.redo()
    assert (root / "file").read_bytes() == b"0"
    assert not workspace.verify().problems
