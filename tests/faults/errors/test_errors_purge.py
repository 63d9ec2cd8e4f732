"""A failing system call at any disk-changing call of a purge is survived and said, in one line, with an exit code.

What it leaves is judged like what a kill leaves (support/fault_sweep_purge.py). Success is only said when not one byte is left.
"""

from itertools import product

import pytest

from support import failing_calls
from support.failing_calls import FAULTS, HARMLESS, PUSHED, QUOTA
from support.fault_sweep_purge import CASES
from support.sample_start import by_turns, marks_of

pytestmark = marks_of("errors_purge", ("errors_purge", "kill_purge"), 1)
"""A push kills, or has calls fail: the other one after another change of the product."""

PLANNED_CODES = {0, 1, 11, 13, 20}
"""Success, some other failure, busy, no space; and an index that could not be made anew."""


def judge(report, operation, fault):
    left = f"left behind: {report['states']}"
    return failing_calls.judge(report, operation, fault, PLANNED_CODES, left, damage="the index cannot be rebuilt")


@pytest.mark.parametrize(("fault", "operation"), by_turns(list(product(PUSHED, CASES)), 2))
def test_failing_call(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    stride = {"purge": 41, "purge text": 37}[operation]
    codes = judge(sweep(operation, act, error=error, forever=forever, stride=stride, thorough_every=5, back_every=2), operation, fault)
    assert 0 in codes if fault in HARMLESS else set(codes) - {0}


@pytest.mark.parametrize("operation", by_turns(list(CASES), 1))
def test_a_quota_that_is_used_up_is_said(sweep, operation):
    act, error, forever = FAULTS[QUOTA[0]]
    stride = {"purge": 97, "purge text": 83}[operation]
    codes = judge(sweep(operation, act, error=error, forever=forever, stride=stride, thorough_every=50), operation, QUOTA[0])
    assert set(codes) - {0}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", CASES)
def test_failing_call_at_every_point(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    judge(sweep(operation, act, error=error, forever=forever, thorough_every=9), operation, fault)
