"""One whole process: how long, how much processor, how much memory, and whether it worked."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

_INTERVAL = 0.004
"""Seconds between two looks at the memory of a process tree."""


class Failed(Exception):
    """A command that did not work. The message is its name and the end of what it said."""


class Finished(NamedTuple):
    """A process that ended well. Times in seconds, memory in bytes.

    `processor`: user and system time of the process and the children that it waited for. `largest`: the peak resident
    size of the largest single process among them. `together`: the peak of the whole tree of processes, shared pages
    divided among those that share them; None when it was not watched or the system cannot say.
    """

    seconds: float
    processor: float
    largest: int
    together: int | None
    out: str


def run(command, cwd, environ, *, watched=False, given=b""):
    """Run a command to its end, with the bytes `given` on its standard input. Watching its memory takes time of its own:
    do not use `seconds` then. Raises Failed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _input(given) as source:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=environ, stdin=source, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        try:
            together, (_, status, used) = _watch(process.pid) if watched else (None, os.wait4(process.pid, 0))
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            said = (_text(err) or _text(out)).splitlines()
            raise Failed(f"{command[0]} ended with {process.returncode}: {said[-1].strip() if said else 'it said nothing'}")
        return Finished(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * _UNIT, together, _text(out))


@contextlib.contextmanager
def _input(given):
    with tempfile.TemporaryFile() if given else open(os.devnull, "rb") as source:
        if given:
            source.write(given)
            source.seek(0)
        yield source


_UNIT = 1 if sys.platform == "darwin" else 1024


def _text(file):
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip()


def _watch(pid):
    """(peak of the memory of a process and all below it or None, what wait4 said)."""
    peak = None
    while True:
        ended = os.wait4(pid, os.WNOHANG)
        if ended[0]:
            return peak, ended
        found = [_memory(one) for one in _tree(pid)]
        if any(size is not None for size in found):
            peak = max(peak or 0, sum(size or 0 for size in found))
        time.sleep(_INTERVAL)


def _tree(pid):
    """A process and everything below it that still runs."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children") as file:
                    waiting += map(int, file.read().split())
        except OSError:
            pass  # it ended just now, or this system has no /proc
    return found


def _memory(pid):
    """The proportional set size of a process in bytes, or None."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def disk(places):
    """(bytes allocated on disk, bytes in files) below the given directories, each file once."""
    allocated, size, seen = 0, 0, set()
    for place in places:
        for directory, _, names in os.walk(place):
            for path in [directory, *(os.path.join(directory, name) for name in names)]:
                status = os.lstat(path)
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    allocated += status.st_blocks * 512
                    size += status.st_size if path != directory else 0
    return allocated, size
