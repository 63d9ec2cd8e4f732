"""Half of a job, done by a fork of this process while it does the other half itself.

For looking, not for doing: the fork gives back numbers, or bytes that were made of what it inherited, and whatever becomes
of it costs time and nothing else. It inherits no lock (a lock lives as long as anybody holds its descriptor) and leaves before
anything of the program that it is a copy of can notice. The danger prevented here: a program with threads whose fork waits for ever
for a lock that one of them held. So who calls decides whether there is one: the command does, on systems where that is sound.
"""

import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from .. import fsio
from .shares import speaks

_END = struct.Struct("<4sQ")
"""Behind what is made: that it is whole, and its length. Without it the fork did not come to its end."""
_WHOLE = b"made"
_MOST_DESCRIPTORS = 1024


class Maker:
    """A fork that makes something. Ask for it once, and `close` whatever happens."""

    def __init__(self, work: Callable[[], bytes], keep: Iterable[int] = ()) -> None:
        """Begin. `keep`: the descriptors that the work needs."""
        self._pid, self._ended = 0, False
        self._reader, writer = os.pipe()
        try:
            with suppress(OSError):  # too many processes: then there is no other half
                self._pid = os.fork()
                if self._pid == 0:
                    _do(work, writer, {writer, *keep})
        finally:
            os.close(writer)

    def comes(self) -> bool:
        """Wait until it has something to say; False when it was stopped, or there is none."""
        return self._pid > 0 and speaks(self._pid, self._reader)

    def made(self) -> bytes | None:
        """What was made, None when nothing came of it."""
        parts = []
        while self.comes():
            part = os.read(self._reader, 1 << 18)
            if not part:
                self._ended = True
                break
            parts.append(part)
        data = b"".join(parts)
        end = len(data) - _END.size
        return data[:end] if end >= 0 and data[end:] == _END.pack(_WHOLE, end) else None

    def close(self) -> None:
        """Let go of it; its work is not waited for if nobody asked."""
        os.close(self._reader)
        if self._pid:
            if not self._ended:
                import signal

                with suppress(OSError):
                    os.kill(self._pid, signal.SIGKILL)
            with suppress(OSError):  # a client may have had all children reaped unasked
                os.waitpid(self._pid, 0)


class Aside(Maker):
    """A fork that works out numbers below 2^32."""

    def __init__(self, work: Callable[[], Iterable[int]], keep: Iterable[int]) -> None:
        """Begin. `keep`: the descriptors that the work needs."""
        self._work = work
        super().__init__(lambda: b"".join([number.to_bytes(4, "little") for number in work()]), keep)

    def numbers(self) -> list[int]:
        """What came of it; worked out here and now when nothing did."""
        data = self.made()
        return list(self._work()) if data is None else list(struct.unpack(f"<{len(data) // 4}I", data))


def _do(work: Callable[[], bytes], writer: int, keep: set[int]) -> None:
    """What the fork does; it does not return."""
    try:
        keep_only(keep)
        data = work()
        fsio.write_all(writer, data + _END.pack(_WHOLE, len(data)))
    finally:
        os._exit(0)


def keep_only(keep: Iterable[int]) -> None:
    """Close every descriptor but these and the first three: what came over the fork, locks among it."""
    at = 3
    for fd in sorted(keep):
        os.closerange(at, fd)
        at = max(at, fd + 1)
    os.closerange(at, _MOST_DESCRIPTORS)
