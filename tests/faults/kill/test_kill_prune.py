"""Killed, or refused, at any disk-changing call, `stores --prune-missing` leaves whole stores and nothing that looks like
one; the other stores are untouched; given again it finishes. See support/fault_sweep_prune.py."""

import pytest

from support.sample_start import marks_of

pytestmark = marks_of("kill_prune", ("kill_room", "kill_to", "kill_prune"), 1)
"""A push has one of the three, another one after another change of the product."""


def judge(report, *, least):
    print(f"prune: {report['counted']} calls, {report['points']} points, {report['fired']} fired, left behind: {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    assert report["counted"] >= least
    return report


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_every_call(sweep, stride):
    report = judge(sweep("prune", "kill", stride=stride, thorough_every=10), least=60)
    assert set(report["states"]) == {"nothing", "one", "removed"}


@pytest.mark.parametrize(
    ("error", "stride"), [(28, 5), *(pytest.param(error, 1, marks=pytest.mark.long) for error in (5, 13, 28))]
)
def test_every_call_may_fail(sweep, error, stride):
    report = judge(sweep("prune", "fail", error=error, stride=stride, thorough_every=10), least=60)
    assert {code for _, code, _ in report["answers"]} <= {0, 1, 3, 13}
    assert all("\n" not in err.strip() for _, _, err in report["answers"])
