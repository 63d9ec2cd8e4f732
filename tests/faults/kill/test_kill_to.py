"""Killed at any disk-changing call, `restore --to` leaves no directory that take believes to be whole and is not.

So a part of a checkpoint never looks as if the rest of it had been removed there. See support/fault_sweep_to.py.
"""

import pytest

from support.sample_start import marks_of, start_below

pytestmark = marks_of("kill_to", ("kill_room", "kill_to", "kill_prune"), 1)
"""A push has one of the three, another one after another change of the product."""

EVERY = 5
"""Of how many calls a push takes one."""


def judge(report, every=1):
    print(f"{report['counted']} calls, {report['expected']} points, in the end {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"] and report["counted"] > 40
    if every == 1:
        assert {"unknown unknown", "whole unknown"} <= report["states"].keys()


def test_a_kill_leaves_no_part_that_looks_whole(sweep):
    judge(sweep("restore to", "kill", stride=EVERY, offset=start_below(EVERY), thorough_every=10), EVERY)


def test_a_kill_leaves_no_part_that_looks_whole_where_there_are_no_attributes(sweepers, mount, tmp_path):
    place = tmp_path / "there"
    mount("there/made", "-t", "ramfs", "none")
    specification = {"operation": "restore to", "act": "kill", "stride": EVERY, "offset": start_below(EVERY), "thorough_every": 10}
    [report] = sweepers.ask([[str(place), specification]])
    assert "raised" not in report, report
    judge({**report, "expected": report["points"]}, EVERY)


@pytest.mark.long
@pytest.mark.parametrize("act", ("kill", "tear"))
def test_a_kill_at_every_call_leaves_no_part_that_looks_whole(sweep, act):
    judge(sweep("restore to", act, thorough_every=3))
