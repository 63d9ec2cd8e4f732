"""A failing system call at any disk-changing call of a purge is survived and said, in one line, with an exit code.

What it leaves is judged like what a kill leaves (support/sweep_purge.py). Success is only said when not one byte is left.
"""

import errno

import pytest

from support.sweep_purge import CASES

FAULTS = {
    "no space, once": ("fail", errno.ENOSPC, False),
    "no space from then on": ("fail", errno.ENOSPC, True),
    "input/output error": ("fail", errno.EIO, False),
    "interrupted call": ("fail", errno.EINTR, False),
    "half of it written": ("half", 0, False),
}
PLANNED_CODES = {0, 1, 11, 13, 20}
"""Success, some other failure, busy, no space; and an index that could not be made anew."""


def judge(report, operation, fault):
    codes = {}
    for at, code, err in report["answers"]:
        codes[code] = codes.get(code, 0) + 1
        lines = [line for line in err.splitlines() if not line.startswith("casrewind: note: ")]
        assert code in PLANNED_CODES, (at, code, err)
        assert len(lines) == (code != 0), (at, code, err)
        assert code == 0 or lines[0].startswith("casrewind: "), (at, code, err)
        assert code != 20 or "the index cannot be rebuilt" in err, (at, code, err)
        if code != 0 and fault.startswith("no space"):
            assert code == 13 and "space" in err, (at, code, err)
    print(f"{operation}, {fault}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, exit codes "
          f"{codes}, left behind: {report['states']}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    return codes


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", CASES)
def test_failing_call(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    stride = {"purge": 41, "purge text": 37}[operation]
    codes = judge(sweep(operation, act, error=error, forever=forever, stride=stride, thorough_every=5, back_every=2), operation, fault)
    harmless = fault in ("interrupted call", "half of it written")  # such calls are made again, or gone on with
    assert 0 in codes if harmless else set(codes) - {0}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", CASES)
def test_failing_call_at_every_point(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    judge(sweep(operation, act, error=error, forever=forever, thorough_every=9), operation, fault)
