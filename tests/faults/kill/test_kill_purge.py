"""Killed at any disk-changing call, a purge has not begun, or is finished by the next purge or gc to the last byte.

Every point of both kinds of purge: the store verifies clean, no checkpoint is lost, what is not purged is what it was;
status says when a purge is unfinished. After the next purge a raw scan of the store, decompressed as well, has no hit.
See support/fault_sweep_purge.py.
"""

import pytest

from support.fault_sweep_purge import CASES
from support.sample_start import by_turns, marks_of

pytestmark = marks_of("kill_purge", ("errors_purge", "kill_purge"), 1)
"""A push kills, or has calls fail: the other one after another change of the product."""

LEAST = {"purge": 100, "purge text": 80}


def judge(report, operation):
    print(f"{operation}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, "
          f"left behind: {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    assert report["counted"] >= LEAST[operation]
    return report


@pytest.mark.turns(3)
@pytest.mark.parametrize("operation", by_turns(list(CASES), 1))
def test_killed_at_every_twenty_third_call(sweep, operation):
    report = judge(sweep(operation, "kill", stride=23, thorough_every=9, back_every=2), operation)
    assert set(report["states"]) >= {"before", "begun"}


@pytest.mark.turns(3)
@pytest.mark.parametrize("operation", by_turns(list(CASES)[::-1], 1))
def test_killed_with_half_of_the_bytes_written(sweep, operation):
    judge(sweep(operation, "tear", stride=41, thorough_every=6, back_every=2), operation)


@pytest.mark.long
@pytest.mark.parametrize("operation", CASES)
def test_killed_at_every_call(sweep, operation):
    report = judge(sweep(operation, "kill", thorough_every=20, back_every=2), operation)
    assert report["expected"] == report["counted"]
    assert set(report["states"]) == {"before", "begun", "purged"}


@pytest.mark.long
@pytest.mark.parametrize("act", ("kill", "tear"))
@pytest.mark.parametrize("operation", CASES)
def test_killed_at_every_call_and_looked_at_closely(sweep, operation, act):
    judge(sweep(operation, act, thorough_every=2), operation)
