"""Killed, or refused, at any disk-changing call, a save that makes room in a full store, and gc to a size, lose nothing that
has to stay; given again they finish. See support/fault_sweep_budget.py."""

from itertools import product

import pytest

from support.sample_start import by_turns, marks_of

pytestmark = marks_of("kill_room", ("kill_room", "kill_to", "kill_prune"), 1)
"""A push has one of the three, another one after another change of the product."""

ERRORS = {"no space": 28, "input/output error": 5, "interrupted": 4}
OPERATIONS = "save that makes room", "gc to a size"


def judge(report, operation):
    print(f"{operation}: {report['counted']} calls, {report['points']} points, {report['fired']} fired, "
          f"left behind: {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    assert report["counted"] >= 60
    return report


@pytest.mark.parametrize("stride", [23, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_every_call(sweep, operation, stride):
    judge(sweep(operation, "kill", stride=stride, thorough_every=10), operation)


@pytest.mark.parametrize("stride", [23, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("error", "operation"), by_turns(list(product(ERRORS, OPERATIONS)), 2))
def test_every_call_may_fail(sweep, operation, stride, error):
    report = judge(sweep(operation, "fail", error=ERRORS[error], stride=stride, thorough_every=10), operation)
    assert {code for _, code, _ in report["answers"]} <= {0, 1, 11, 13, 20}
    assert all("\n" not in err.strip() for _, code, err in report["answers"] if code)
