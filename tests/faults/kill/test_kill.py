"""Killed at any disk-changing call, a command leaves nothing that the next command cannot deal with.

Every point of every command: the store is whole and has every acknowledged checkpoint; the worktree is as before, or as
it should become, or a restore is open, and then `--continue` and `--abort` lead exactly there. See support/sweep.py.
"""

import pytest

COMMANDS = ("first save", "save", "restore", "undo")
OTHERS = ("redo", "continue", "abort", "rebuild")


def judge(report, operation, *, every=1):
    print(f"{operation}: {report['counted']} calls, {report['points']} points, {report['fired']} fired, "
          f"{report['journals']} left a restore open, in the end {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["points"] == len(range(1, report["counted"] + 1, every))
    assert report["fired"] == report["points"]
    return report


@pytest.mark.parametrize("operation", COMMANDS)
def test_killed_at_every_call(sweep, operation):
    report = judge(sweep(operation, "kill", thorough_every=10, back_every=4), operation)
    assert report["fired"] == report["counted"]
    if operation in ("restore", "undo"):
        assert report["journals"] > report["counted"] / 3, "hardly any point was inside of the change"


@pytest.mark.parametrize("operation", OTHERS)
def test_killed_at_every_seventh_call(sweep, operation):
    judge(sweep(operation, "kill", stride=7, thorough_every=5, back_every=2), operation, every=7)


@pytest.mark.parametrize("operation", ("save", "undo"))
def test_killed_with_half_of_the_bytes_written(sweep, operation):
    judge(sweep(operation, "tear", stride=9, thorough_every=5), operation, every=9)


@pytest.mark.long
@pytest.mark.parametrize("act", ("kill", "tear"))
@pytest.mark.parametrize("operation", (*COMMANDS, *OTHERS))
def test_killed_at_every_call_and_looked_at_closely(sweep, operation, act):
    report = judge(sweep(operation, act, thorough_every=2), operation)
    assert report["fired"] == report["counted"]


def test_enough_points_are_tried(sweep):
    """The case is large enough to mean something."""
    counted = {operation: sweep(operation, "kill", stride=10_000)["counted"] for operation in COMMANDS}
    print(counted)
    assert sum(counted.values()) >= 300
    assert counted["restore"] >= 200
