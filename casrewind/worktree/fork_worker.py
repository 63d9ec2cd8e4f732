"""A forked worker process that does part of a job and returns bytes.

The worker only reads, so a crash costs only time. It inherits no lock, because it closes the descriptors that
hold locks.
The danger prevented here: a share of the job that neither process does. A share that the worker took but did not report
is repeated here.

In a program with threads, a fork may wait forever for a lock that another thread held. So the caller decides if forking
is safe.
"""

import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from .. import fsio

_SHARE = 256
"""Entries per share of the job. The slower process does fewer shares."""
_TICKET = 2
"""Bytes of a share's number in the pipe."""
_TAKEN = 1 << 30
"""Added to the number of a finished share. The numbers of entries are smaller than this."""
_END = struct.Struct("<4sQ")
"""Trailer of a complete result: marker and length. Missing if the worker did not finish."""
_WHOLE = b"done"
_MOST_DESCRIPTORS = 1024


class ForkWorker:
    """A forked process that computes bytes, in a file in memory. Call `result` once, and `close` in every case."""

    def __init__(self, work: Callable[[], bytes], keep: Iterable[int] = ()) -> None:
        """Start. `keep`: the descriptors that the work needs."""
        self._pid, self._file, self._ended = 0, -1, False
        with suppress(OSError):  # too many processes or descriptors: the caller does everything
            self._file = os.memfd_create("casrewind")
            self._pid = os.fork()
            if self._pid == 0:
                _run(work, self._file, {self._file, *keep})

    def result(self) -> bytes | None:
        """The result, or None if the worker was stopped, died or never started."""
        if self._pid == 0:
            return None
        self._ended = _has_ended(self._pid)
        data = os.pread(self._file, os.fstat(self._file).st_size, 0) if self._ended else b""
        end = len(data) - _END.size
        return data[:end] if end >= 0 and data[end:] == _END.pack(_WHOLE, end) else None

    def kill(self) -> None:
        """Stop the worker without waiting for its result."""
        if self._file >= 0:
            os.close(self._file)
        if self._pid > 0:
            if not self._ended:
                import signal

                with suppress(OSError):
                    os.kill(self._pid, signal.SIGKILL)
            with suppress(OSError):  # a client may set SIGCHLD to reap all children
                os.waitpid(self._pid, 0)


def in_two_processes(count: int, work: Callable[[int, int], list[int]], keep: Iterable[int]) -> list[int]:
    """The numbers that `work(start, end)` returns for all entries below `count`, computed by this process and a fork.
    `keep`: the descriptors that the work needs. Numbers are below 2^30. Raises the errors of `work`."""
    shares = -(-count // _SHARE)
    queue = _queue(shares)
    try:
        fork = ForkWorker(lambda: struct.pack(f"<{len(found := _process_shares(queue, work))}I", *found), (queue, *keep))
        try:
            reported = _process_shares(queue, work)
            result = fork.result()
        finally:
            fork.kill()
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
    """A pipe with the numbers of the shares: each process reads the next number until none is left."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        with suppress(BlockingIOError):  # the caller does the shares beyond the pipe's capacity
            fsio.write_all(writer, b"".join([number.to_bytes(_TICKET, "little") for number in range(min(shares, 1 << 8 * _TICKET))]))
    finally:
        os.close(writer)
    return reader


def _process_shares(queue: int, work: Callable[[int, int], list[int]]) -> list[int]:
    """Process shares until the queue is empty. Returns the numbers found and the finished shares."""
    found = []
    while ticket := os.read(queue, _TICKET):
        share = int.from_bytes(ticket, "little")
        found += work(share * _SHARE, (share + 1) * _SHARE)
        found.append(_TAKEN + share)
    return found


def _has_ended(pid: int) -> bool:
    """Wait until the worker has ended. False if it is stopped instead, perhaps forever."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    except OSError:  # a client may set SIGCHLD to reap all children
        return True
    return found is not None and found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


def _run(work: Callable[[], bytes], writer: int, keep: set[int]) -> None:
    """Run the worker process. Does not return."""
    try:
        at = 3
        for fd in sorted(keep):  # all others were inherited, including locks
            os.closerange(at, fd)
            at = max(at, fd + 1)
        os.closerange(at, _MOST_DESCRIPTORS)
        data = work()
        fsio.write_all(writer, data + _END.pack(_WHOLE, len(data)))
    finally:
        os._exit(0)
