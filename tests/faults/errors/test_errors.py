"""A failing system call at any disk-changing call is survived and said, in one line, with an exit code.

At each point one call fails: once (no space, an I/O error, an interrupted call), from there on (no space), or only half
of the bytes are written. The command has then either succeeded or said why not; what it leaves is judged like what a
kill leaves (support/sweep.py): nothing lost, the old state or the new one or a restore that can be continued and taken
back.
"""

import errno

import pytest

FAULTS = {
    "no space, once": ("fail", errno.ENOSPC, False),
    "no space from then on": ("fail", errno.ENOSPC, True),
    "input/output error": ("fail", errno.EIO, False),
    "interrupted call": ("fail", errno.EINTR, False),
    "half of it written": ("half", 0, False),
}
PLANNED_CODES = {0, 1, 11, 13, 20}
"""Success, some other failure, busy or a restore open, no space, store damaged (it read garbage: never 70, never 2)."""


def judge(report, operation, fault):
    codes = {}
    for at, code, err in report["answers"]:
        codes[code] = codes.get(code, 0) + 1
        lines = [line for line in err.splitlines() if not line.startswith("casrewind: note: ")]
        assert code in PLANNED_CODES, (at, code, err)
        assert len(lines) == (code != 0), (at, code, err)
        assert code == 0 or lines[0].startswith("casrewind: "), (at, code, err)
        if code != 0 and fault.startswith("no space"):
            assert code == 13 and "space" in err, (at, code, err)
    print(f"{operation}, {fault}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, exit codes "
          f"{codes}, {report['journals']} left a restore open")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    return codes


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", ("save", "restore", "undo"))
def test_failing_call(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    stride = {"save": 5, "restore": 23, "undo": 29}[operation]
    report = sweep(operation, act, error=error, forever=forever, stride=stride, thorough_every=4, back_every=2)
    codes = judge(report, operation, fault)
    harmless = fault in ("interrupted call", "half of it written")  # such calls are made again, or gone on with
    assert 0 in codes if harmless else set(codes) - {0}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", ("first save", "save", "restore", "undo", "redo", "continue", "abort", "rebuild"))
def test_failing_call_at_every_point(sweep, operation, fault):
    act, error, forever = FAULTS[fault]
    judge(sweep(operation, act, error=error, forever=forever, thorough_every=3), operation, fault)
