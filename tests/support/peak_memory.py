"""How much memory a whole process took, its children included.

Run as a program of its own (`python peak_memory.py FIGURES COMMAND...`), so that nothing of the process that asks is in the
figures: what the kernel gives as a child's peak begins with the size of the one that started it.
"""

import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

STEP = 0.003
_PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1_000_000


class Peak(NamedTuple):
    """Bytes: the highest sum over the process and its descendants that a sample met, the highest that the kernel noted
    of one of these processes; how many samples, how many processes at most; seconds."""

    together: int
    alone: int
    samples: int
    processes: int
    seconds: float

    @property
    def bytes(self):
        return max(self.together, self.alone)

    def __str__(self):
        return (
            f"{self.together / MB:.0f} MB in all, {self.alone / MB:.0f} MB by the kernel's count of the biggest process "
            f"({self.samples} samples, {self.processes} processes, {self.seconds:.1f} s)"
        )


def measured(command, *arguments, code=0, **variables):
    """Run a support.command.Command as a process of its own: its Peak, what it printed. With `code` None it may end with any."""
    program = [sys.executable, "-m", "casrewind", "-C", command.root, *arguments]
    return measured_program(program, env={**command.environment, **variables}, code=code)


def measured_program(program, *, env, code=0):
    """Run any program: its Peak, what it printed."""
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", os.path.abspath(__file__), str(write), *program],
            env=env, pass_fds=[write], stdin=subprocess.DEVNULL, capture_output=True, timeout=280,
        )  # fmt: skip
    finally:
        os.close(write)
    with os.fdopen(read) as figures:
        told = figures.read()
    assert code in (done.returncode, None) and b"Traceback" not in done.stderr, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return Peak(**json.loads(told)), done.stdout.decode("utf-8", "replace")


def _children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += file.read().split()
    except OSError:
        pass  # it went away
    return [int(child) for child in found]


def _resident(pid):
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _tree(pid):
    found = [pid]
    for process in found:
        found += _children(process)
    return found


def _watch(program):
    """Start a program, watch it until it ends: (exit code, Peak)."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.execvp(program[0], program)
    together = samples = most = 0
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        processes = _tree(pid)
        together = max(together, sum(map(_resident, processes)))
        samples += 1
        most = max(most, len(processes))
        time.sleep(STEP)
    peak = Peak(together, usage.ru_maxrss * 1024, samples, most, time.monotonic() - started)
    return os.waitstatus_to_exitcode(status), peak


def main():
    code, peak = _watch(sys.argv[2:])
    os.write(int(sys.argv[1]), json.dumps(peak._asdict()).encode())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
