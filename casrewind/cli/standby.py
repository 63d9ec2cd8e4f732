"""A fork of the helper (helper.py) that waits for the next hook.

What a fork touches first it gets a copy of, page by page, and that takes longer than all else that a hook has done for it: one that
waits has done so by then. The dangers prevented here: knowledge from before it was made, so it is told what is known when it is handed
its work; and one that waits for a helper that is gone, so it ends when nobody holds the other end.
"""

import marshal
import os
import signal
import socket
from contextlib import suppress

from ..typed import NamedTuple
from ..worktree.inotify import Known

_MOST = 1 << 15
"""Bytes of what is known that one message takes. Where more has changed the work is long enough for a fork of its own."""
_PATIENCE = 0.02


class Standby(NamedTuple):
    """One that waits: its process, the socket that it listens at, the pipe in which it will tell how it went; `queue`: of the events
    that it has (inotify.py)."""

    pid: int
    door: socket.socket
    report: int
    queue: int

    def hand_over(self, talk: socket.socket, known: Known | None) -> bool:
        """Have it do the work of who is at the other end of `talk`; False where that could not be, then it has nothing to do."""
        data = marshal.dumps(known)
        if len(data) > _MOST:
            return False
        try:
            self.door.settimeout(_PATIENCE)
            socket.send_fds(self.door, [data], [talk.fileno()])
        except OSError:
            return False
        self.door.close()
        return True

    def send_away(self) -> None:
        """Have it end."""
        self.door.close()
        os.close(self.report)
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)  # it may have been stopped; it does nothing that it could leave half done
        with suppress(OSError):
            os.waitpid(self.pid, 0)


class Waiting(NamedTuple):
    """The same, as the fork has it: where it waits, and where it tells how it went."""

    door: socket.socket
    report: int

    def wait(self) -> tuple[socket.socket | None, Known | None]:
        """(who is to be answered, what is known); None where there is nobody any more."""
        data, fds, _, _ = socket.recv_fds(self.door, _MOST, 1)
        self.door.close()
        if not fds:
            return None, None
        return socket.socket(fileno=fds[0]), marshal.loads(data)  # noqa: S302 - from the helper


def fork(queue: int) -> tuple[Standby | None, Waiting | None]:
    """Fork: (one that waits, None) in this process, (None, what it waits at) in the fork. (None, None) where none can be had."""
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        return None, None
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        ours.close()
        os.close(reader)
        return None, Waiting(theirs, writer)
    theirs.close()
    os.close(writer)
    if pid < 0:
        ours.close()
        os.close(reader)
        return None, None
    return Standby(pid, ours, reader, queue), None
