"""What a sweep with failing calls is judged by, whatever the operation: the faults, and what a command may answer to them."""

import errno

FAULTS = {
    "no space, once": ("fail", errno.ENOSPC, False),
    "no space from then on": ("fail", errno.ENOSPC, True),
    "quota used up": ("fail", errno.EDQUOT, False),
    "quota used up from then on": ("fail", errno.EDQUOT, True),
    "input/output error": ("fail", errno.EIO, False),
    "interrupted call": ("fail", errno.EINTR, False),
    "half of it written": ("half", 0, False),
}
QUOTA = tuple(fault for fault in FAULTS if fault.startswith("quota"))
PUSHED = tuple(fault for fault in FAULTS if fault not in QUOTA)
"""What is tried at many points in a push. Quota is taken like space and only said in other words: a few points do."""
HARMLESS = frozenset({"interrupted call", "half of it written"})
"""Such calls are made again, or gone on with."""


def judge(report, operation, fault, planned, left, *, damage="", lossy=False):
    """Hold every answer to one line of reason and an exit code in `planned`; {exit code: how often}.

    With 20 the reason has `damage` in it; `lossy`: 20 without a reason means done, and something was lost before. `left`
    says what was left behind, for the figures.
    """
    codes = {}
    for at, code, err in report["answers"]:
        codes[code] = codes.get(code, 0) + 1
        lines = [line for line in err.splitlines() if not line.startswith("casrewind: note: ")]
        if code == 3:  # done, but for the rights of a file, which are named
            lines = [line for line in lines if not (line.startswith("  note: ") and " cannot be set (" in line)]
        is_done = code in (0, 3) or (lossy and code == 20 and not lines)
        assert code in planned, (at, code, err)
        assert len(lines) == (not is_done), (at, code, err)
        assert is_done or lines[0].startswith("casrewind: "), (at, code, err)
        assert code != 20 or is_done or damage in err, (at, code, err)
        if not is_done and fault.startswith(("no space", "quota")):
            assert code == 13 and "space" in err, (at, code, err)
            assert ("quota" in err) == fault.startswith("quota"), (at, code, err)
    print(f"{operation}, {fault}: {report['counted']} calls, {report['expected']} points, {report['fired']} fired, exit codes "
          f"{codes}, {left}")
    assert not report["problems"], f"{len(report['problems'])} problems, the first: {report['problems'][0]}"
    assert report["fired"] == report["points"] == report["expected"]
    return codes
