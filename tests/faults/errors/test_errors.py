"""A failing system call at any disk-changing call is survived and said, in one line, with an exit code.

At each point one call fails: once (no space, an I/O error, an interrupted call), from there on (no space), or only half
of the bytes are written. The command has then either succeeded or said why not; what it leaves is judged like what a
kill leaves (support/fault_sweep.py): nothing lost, the old state or the new one or a restore that can be continued and taken
back.
"""

from itertools import product

import pytest

from support import failing_calls
from support.failing_calls import FAULTS, HARMLESS, PUSHED, QUOTA
from support.sample_start import by_turns

PLANNED_CODES = {0, 1, 3, 11, 13, 20}
"""Success, some other failure, done but for rights that are named, busy or a restore open, no space, store damaged (it read garbage:
never 70, never 2)."""


def judge(report, operation, fault):
    return failing_calls.judge(report, operation, fault, PLANNED_CODES, f"{report['journals']} left a restore open")


@pytest.mark.parametrize(("fault", "operation"), by_turns(list(product(PUSHED, ("save", "restore", "undo", "revert"))), 2))
def test_failing_call(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    stride = {"save": 5, "restore": 23, "undo": 29, "revert": 17}[operation]
    report = sweep(operation, act, error=error, forever=forever, stride=stride, thorough_every=4, back_every=2)
    codes = judge(report, operation, fault)
    assert 0 in codes if fault in HARMLESS else set(codes) - {0}


@pytest.mark.parametrize("operation", by_turns(("save", "restore", "undo"), 1))
def test_a_quota_that_is_used_up_is_said(sweep, operation):
    act, error, forever = FAULTS[QUOTA[0]]
    stride = {"save": 17, "restore": 89, "undo": 83}[operation]
    codes = judge(sweep(operation, act, error=error, forever=forever, stride=stride, thorough_every=50), operation, QUOTA[0])
    assert set(codes) - {0}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", ("first save", "save", "restore", "undo", "revert", "redo", "continue", "abort", "rebuild"))
def test_failing_call_at_every_point(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    judge(sweep(operation, act, error=error, forever=forever, thorough_every=3), operation, fault)
