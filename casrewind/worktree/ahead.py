"""A look at a worktree's files ahead of all else: in a fork, while this process still imports what a save needs and opens the store.

The fork knows the names only, from the roll (store/roll.py): those that the sheet had when it was made, in its order. It gives back the
stamps that it found, and decides nothing: whoever has opened the store compares them with the sheet's, if that has the very names
of the roll and the root is the directory that the fork has looked at. The dangers prevented here: an answer that is older than
the question, so it is good for one look only, and for a short while; and a fork that somebody waits for (it holds none of the
client's pipes, and nobody waits for it who has not asked).
"""

import os
import struct
import time
from contextlib import suppress

from .. import fsio
from .shares import SHARE, STAMP, TAKEN, TICKET, lay_out, speaks

_HEAD = struct.Struct("<QQ")  # device and inode of the root
_END = b"end!"
_NOTHING = bytes(STAMP.size)  # no file has it: no mode is 0
_FRESH = 2.0
"""Seconds for which what was seen is good enough: about as long as a look at many files takes."""
_MOST_DESCRIPTORS = 1024


class Ahead:
    """A look that has begun. One `serves`, then `numbers`; `close` whatever happens. `shares`: the pipe of those not taken yet."""

    def __init__(self, root: str, names: bytes) -> None:
        """Begin to look at these names, with NULs between them, below the directory `root`. Raises nothing: without a fork it serves
        nobody."""
        self._names, self._began = names, time.monotonic()
        self._pid, self._reader, self.shares = 0, -1, -1
        with suppress(OSError):  # too many processes, or open files
            self.shares = lay_out(-(-(names.count(b"\0") + 1) // SHARE))
            self._reader, writer = os.pipe()
            try:
                self._pid = os.fork()
                if self._pid == 0:
                    _do(root, names, self.shares, writer)
            finally:
                os.close(writer)

    def serves(self, names: bytes, root: int) -> bool:
        """Whether it looks at these very files below the directory open as `root`, and has not been asked before."""
        asked, self._began = self._began, float("-inf")
        if not self._pid or time.monotonic() - asked > _FRESH or names != self._names:
            return False
        status = os.fstat(root)
        self._root = status.st_dev, status.st_ino
        return True

    def numbers(self, remembered: bytes) -> list[int]:
        """Which of the files that it has looked at do not have the stamps `remembered` of them all; behind those of a share the
        share (TAKEN). Nothing when it did not come to its end."""
        parts = []
        while speaks(self._pid, self._reader):
            part = os.read(self._reader, 1 << 18)
            if not part:
                break
            parts.append(part)
        data = b"".join(parts)
        if not data.endswith(_END) or data[: _HEAD.size] != _HEAD.pack(*self._root):
            return []
        found: list[int] = []
        at, end = _HEAD.size, len(data) - len(_END)
        while at < end:
            number = int.from_bytes(data[at : at + TICKET], "little")
            first = number * SHARE * STAMP.size
            then = remembered[first : first + SHARE * STAMP.size]
            now = data[at + TICKET : at + TICKET + len(then)]
            if now != then:
                pairs = zip(STAMP.iter_unpack(now), STAMP.iter_unpack(then), strict=True)
                found += [number * SHARE + place for place, (new, old) in enumerate(pairs) if new != old]
            found.append(TAKEN + number)
            at += TICKET + len(then)
        return found

    def close(self) -> None:
        """Let go of it; its work is not waited for if nobody asked."""
        for fd in (self._reader, self.shares):
            if fd >= 0:
                os.close(fd)
        pid, self._pid, self._reader, self.shares = self._pid, 0, -1, -1
        if pid:
            import _signal as signal  # type: ignore[import-not-found]  # `signal` imports what makes enumerations

            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):  # a client may have had all children reaped unasked
                os.waitpid(pid, 0)


def _do(root: str, names: bytes, shares: int, writer: int) -> None:
    """What the fork does; it does not return."""
    try:
        at = 0
        for fd in sorted((shares, writer)):
            os.closerange(at, fd)
            at = fd + 1
        os.closerange(at, _MOST_DESCRIPTORS)
        fsio.write_all(writer, _look(root, names.split(b"\0"), shares))
    finally:
        os._exit(0)


def _look(root: str, names: list[bytes], shares: int) -> bytes:
    """The stamps of the files of every share that nobody else has taken."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    status = os.fstat(fd)
    parts = [_HEAD.pack(status.st_dev, status.st_ino)]
    look, pack = os.stat, STAMP.pack
    while ticket := os.read(shares, TICKET):
        parts.append(ticket)
        first = int.from_bytes(ticket, "little") * SHARE
        for name in names[first : first + SHARE]:
            try:
                now = look(name, dir_fd=fd, follow_symlinks=False)
                stamp = pack(now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mode)
            except (OSError, struct.error):
                stamp = _NOTHING
            parts.append(stamp)
    parts.append(_END)
    return b"".join(parts)
