"""Half of a job, done by a fork of this process while this process does the other half.

The fork only looks: it returns numbers, and whatever becomes of it costs time and nothing else. It inherits no lock (a lock lives as
long as a process holds its descriptor) and ends before anything of the program that it is a copy of can notice. The danger prevented
here: a share of the job that neither process does. A share that the fork took and did not report is done again here.

A fork of a program with threads may wait for ever for a lock that one of them held. So the caller decides whether there is one: the
command makes one on systems where that is sound.
"""

import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from .. import fsio

_SHARE = 256
"""Entries that a process takes at a time: the slower process takes fewer shares."""
_TICKET = 2
"""Bytes of a share's number in the pipe."""
_TAKEN = 1 << 30
"""Plus the number of a share: reported among the numbers of entries, which are less."""
_END = struct.Struct("<4sQ")
"""Behind a result: that it is whole, and its length. Without it the fork did not come to its end."""
_WHOLE = b"done"
_MOST_DESCRIPTORS = 1024


class ForkWorker:
    """A fork that makes some bytes. Ask for them once with `result`, and `close` in every case."""

    def __init__(self, work: Callable[[], bytes], keep: Iterable[int] = ()) -> None:
        """Begin. `keep`: the descriptors that the work needs."""
        self._pid, self._ended = 0, False
        self._reader, writer = os.pipe()
        try:
            with suppress(OSError):  # too many processes: then the caller does all of it
                self._pid = os.fork()
                if self._pid == 0:
                    _run(work, writer, {writer, *keep})
        finally:
            os.close(writer)

    def result(self) -> bytes | None:
        """What was made, None when the fork was stopped, has died, or was never made."""
        parts = []
        while self._pid > 0 and _wait_readable(self._pid, self._reader):
            part = os.read(self._reader, 1 << 18)
            if not part:
                self._ended = True
                break
            parts.append(part)
        data = b"".join(parts)
        end = len(data) - _END.size
        return data[:end] if end >= 0 and data[end:] == _END.pack(_WHOLE, end) else None

    def close(self) -> None:
        """End the fork; a result that was not asked for is not waited for."""
        os.close(self._reader)
        if self._pid > 0:
            if not self._ended:
                import signal

                with suppress(OSError):
                    os.kill(self._pid, signal.SIGKILL)
            with suppress(OSError):  # a client may have had all children reaped unasked
                os.waitpid(self._pid, 0)


def in_two_processes(count: int, work: Callable[[int, int], list[int]], keep: Iterable[int]) -> list[int]:
    """All numbers that `work(start, end)` returns for the entries below `count`, done by this process and a fork of it.

    `keep`: the descriptors that the work needs. Numbers are below 2^30. Raises what `work` raises.
    """
    shares = -(-count // _SHARE)
    queue = _queue(shares)
    try:
        fork = ForkWorker(lambda: struct.pack(f"<{len(found := _take_shares(queue, work))}I", *found), (queue, *keep))
        try:
            reported = _take_shares(queue, work)
            result = fork.result()
        finally:
            fork.close()
    finally:
        os.close(queue)
    if result is not None:
        reported += struct.unpack(f"<{len(result) // 4}I", result)
    done = {number - _TAKEN for number in reported if number >= _TAKEN}
    found = [number for number in reported if number < _TAKEN]
    for share in range(shares):
        if share not in done:
            found += work(share * _SHARE, (share + 1) * _SHARE)
    return found


def _queue(shares: int) -> int:
    """A pipe that holds the numbers of the shares, each for the process that reads it first, and then ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        with suppress(BlockingIOError):  # what does not fit into the pipe is done last, by the caller
            fsio.write_all(writer, b"".join([number.to_bytes(_TICKET, "little") for number in range(min(shares, 1 << 8 * _TICKET))]))
    finally:
        os.close(writer)
    return reader


def _take_shares(queue: int, work: Callable[[int, int], list[int]]) -> list[int]:
    """Do one share after the other until none is left: the numbers found, and those of the shares."""
    found = []
    while ticket := os.read(queue, _TICKET):
        share = int.from_bytes(ticket, "little")
        found += work(share * _SHARE, (share + 1) * _SHARE)
        found.append(_TAKEN + share)
    return found


def _wait_readable(pid: int, reader: int) -> bool:
    """Wait until a fork writes to a pipe or closes it; False when it was stopped: it may stay so for ever."""
    import select

    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while not poll.poll(1000):
        with suppress(OSError):  # a client may have had all children reaped unasked
            found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            if found is not None and found.si_code == os.CLD_STOPPED:
                return False
    return True


def _run(work: Callable[[], bytes], writer: int, keep: set[int]) -> None:
    """The fork's part; it does not return."""
    try:
        at = 3
        for fd in sorted(keep):  # every other descriptor came over the fork, locks among them
            os.closerange(at, fd)
            at = max(at, fd + 1)
        os.closerange(at, _MOST_DESCRIPTORS)
        data = work()
        fsio.write_all(writer, data + _END.pack(_WHOLE, len(data)))
    finally:
        os._exit(0)
