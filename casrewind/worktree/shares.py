"""Shares of the files of a sheet: what one process looks at before it takes the next.

Who is slow, or waits for a processor, takes fewer of them. The danger prevented here: one that is looked at by nobody. Whoever takes
one tells of it; those that were taken and never told of are looked at again.
"""

import os
import struct
from contextlib import suppress

from .. import fsio

STAMP = struct.Struct("<QqqQI")
"""A stamp as a sheet has it: size, mtime, ctime, inode, mode."""
SHARE = 256
"""Files in a share."""
TICKET = 2
"""Bytes of a share's number; a page of them, more than there ever are, is read and written in one go."""
TAKEN = 1 << 30
"""Plus the number of a share: told among the numbers of files, which are less."""


def lay_out(count: int) -> int:
    """A pipe that holds the numbers of so many shares, for whoever is first to read one, and then ends."""
    reader, writer = os.pipe()
    try:
        fsio.write_all(writer, b"".join([number.to_bytes(TICKET, "little") for number in range(count)]))
    finally:
        os.close(writer)
    return reader


def speaks(pid: int, reader: int) -> bool:
    """Wait until a fork says something at the other end of a pipe, or has closed it; False when it was stopped: it may be so for ever."""
    import select

    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while not poll.poll(1000):
        with suppress(OSError):  # a client may have had all children reaped unasked
            found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            if found is not None and found.si_code == os.CLD_STOPPED:
                return False
    return True
