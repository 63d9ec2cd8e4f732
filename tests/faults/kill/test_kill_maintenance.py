"""Killed at any disk-changing call, gc and repair leave nothing that the next command cannot deal with.

At every point of gc: whatever must stay is there and is what it was, what was to be forgotten is whole or gone, the space of
one pack at most is taken, and the next gc finishes and leaves what an uninterrupted one leaves. At every point of a repair:
repaired once more, the store is what an uninterrupted repair makes of it, with the same losses; no damaged byte is thrown
away. See support/fault_sweep_maintenance.py.
"""

import pytest

from support.fault_sweep_maintenance import GC, REPAIRS
from support.sample_start import by_turns, marks_of, start_below

pytestmark = marks_of("kill_maintenance", ("kill_maintenance", "errors_maintenance"), 1)
"""A push kills, or has calls fail: the other one after another change of the product."""

MAIN = {"gc": 150, "repair everything": 120}
"""What is killed at every thirteenth call, and how many calls there must be at least for that to mean something."""
OTHERS = tuple(operation for operation in (*GC, *REPAIRS) if operation not in MAIN)


def judge(report, operation, *, every=1):
    print(f"{operation}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, "
          f"left behind: {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    assert abs(report["expected"] - report["counted"] / every) < 2
    assert report["journals"] == (report["points"] if operation == "gc during a restore" else 0)
    return report


@pytest.mark.parametrize("operation", MAIN)
def test_killed_at_every_thirteenth_call(sweep, operation):
    """At which of thirteen it begins, the product's own bytes decide: others after every change of it."""
    report = judge(sweep(operation, "kill", stride=13, offset=start_below(13), thorough_every=10, back_every=2), operation, every=13)
    assert report["counted"] >= MAIN[operation]
    assert len(report["states"]) == (3 if operation == "gc" else 2)  # before, in the middle, done


@pytest.mark.parametrize("operation", by_turns(OTHERS, 2))
def test_killed_at_every_seventeenth_call(sweep, operation):
    judge(sweep(operation, "kill", stride=17, thorough_every=4, back_every=2), operation, every=17)


@pytest.mark.parametrize("operation", by_turns(list(MAIN), 1))
def test_killed_with_half_of_the_bytes_written(sweep, operation):
    judge(sweep(operation, "tear", stride=23, thorough_every=6, back_every=2), operation, every=23)


@pytest.mark.long
@pytest.mark.parametrize("operation", (*GC, *REPAIRS))
def test_killed_at_every_call(sweep, operation):
    judge(sweep(operation, "kill", thorough_every=12, back_every=2), operation)


@pytest.mark.release
@pytest.mark.parametrize("act", ("kill", "tear"))
@pytest.mark.parametrize("operation", (*GC, *REPAIRS))
def test_killed_at_every_call_and_looked_at_closely(sweep, operation, act):
    judge(sweep(operation, act, thorough_every=2), operation)
