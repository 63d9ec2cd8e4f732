"""Killed at any disk-changing call, a command leaves nothing that the next command cannot deal with.

Every point of every command: the store is whole and has every acknowledged checkpoint; the worktree is as before, or as
it should become, or a restore is open, and then `--continue` and `--abort` lead exactly there. See support/sweep.py.
"""

import pytest

COMMANDS = {"first save": 60, "save": 30, "restore": 200, "undo": 150}
"""What is killed at every call, and how many calls there must be at least for that to mean something."""
OTHERS = ("redo", "continue", "abort", "rebuild")


def judge(report, operation, *, every=1):
    print(f"{operation}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, "
          f"{report['journals']} left a restore open, in the end {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    assert abs(report["expected"] - report["counted"] / every) < 2
    return report


@pytest.mark.parametrize("operation", COMMANDS)
def test_killed_at_every_call(sweep, operation):
    """In a push an undo, which does what a restore does, at every other call."""
    every = 2 if operation == "undo" else 1
    report = judge(sweep(operation, "kill", stride=every, thorough_every=10, back_every=5), operation, every=every)
    assert report["counted"] >= COMMANDS[operation]
    if operation in ("restore", "undo"):
        assert report["journals"] > report["points"] / 3, "hardly any point was inside of the change"


@pytest.mark.parametrize("operation", OTHERS)
def test_killed_at_every_thirteenth_call(sweep, operation):
    judge(sweep(operation, "kill", stride=13, thorough_every=5, back_every=2), operation, every=13)


@pytest.mark.parametrize("operation", ("save", "undo"))
def test_killed_with_half_of_the_bytes_written(sweep, operation):
    judge(sweep(operation, "tear", stride=9, thorough_every=5), operation, every=9)


@pytest.mark.long
@pytest.mark.parametrize("act", ("kill", "tear"))
@pytest.mark.parametrize("operation", (*COMMANDS, *OTHERS))
def test_killed_at_every_call_and_looked_at_closely(sweep, operation, act):
    judge(sweep(operation, act, thorough_every=2), operation)
