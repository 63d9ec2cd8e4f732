"""Killed at any disk-changing call, a command leaves nothing that the next command cannot deal with.

At every point: the store is whole and has every acknowledged checkpoint; the worktree is as before, or as
it should become, or a restore is open, and then `--continue` and `--abort` lead exactly there. See support/fault_sweep.py.
"""

import pytest

from support.sample_start import by_turns, start_below

COMMANDS = {"first save": 60, "save": 30, "restore": 200, "undo": 150, "revert": 100, "keep edits": 100}
"""What is killed, and how many calls there must be at least for that to mean something."""
PUSHED = {"first save": 30, "save": 12, "restore": 44, "undo": 48, "revert": 27, "keep edits": 27}
"""Of how many calls a push takes one. Where it begins, the product's own bytes decide: others after every change of it."""
OTHERS = ("redo", "continue", "abort", "rebuild", "take")


def judge(report, operation, *, every=1):
    print(f"{operation}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, "
          f"{report['journals']} left a restore open, in the end {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    assert abs(report["expected"] - report["counted"] / every) < 2
    return report


@pytest.mark.turns(3)
@pytest.mark.parametrize("operation", COMMANDS)
def test_killed_at_every_call(sweep, operation):
    """A push takes a part of the calls, the long test below all of them."""
    every = PUSHED[operation]
    report = judge(sweep(operation, "kill", stride=every, offset=start_below(every), thorough_every=10, back_every=5), operation, every=every)
    assert report["counted"] >= COMMANDS[operation]
    if operation in ("restore", "undo", "revert", "keep edits"):
        assert report["journals"] > report["points"] / 4, "hardly any point was inside of the change"


@pytest.mark.turns(3)
@pytest.mark.parametrize("operation", by_turns(OTHERS, 1))
def test_killed_at_every_thirteenth_call(sweep, operation):
    judge(sweep(operation, "kill", stride=13, thorough_every=5, back_every=2), operation, every=13)


@pytest.mark.turns(2)
@pytest.mark.parametrize("operation", by_turns(("save", "undo"), 1))
def test_killed_with_half_of_the_bytes_written(sweep, operation):
    judge(sweep(operation, "tear", stride=31, thorough_every=5), operation, every=31)


@pytest.mark.long
@pytest.mark.parametrize("act", ("kill", "tear"))
@pytest.mark.parametrize("operation", (*COMMANDS, *OTHERS))
def test_killed_at_every_call_and_looked_at_closely(sweep, operation, act):
    judge(sweep(operation, act, thorough_every=2), operation)
