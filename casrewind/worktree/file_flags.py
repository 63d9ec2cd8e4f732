"""File flags that forbid changes to files and directories, even for root: immutable and append-only.

The danger prevented here: a restore stops halfway at a file that cannot be renamed or removed. So a restore checks
before it begins.
"""

import errno
import fcntl
import os
import stat
import struct

from .. import fsio

_GET_FLAGS = 2 << 30 | struct.calcsize("l") << 16 | ord("f") << 8 | 1
"""FS_IOC_GETFLAGS. On PowerPC and MIPS the number differs: the call fails, and no flags are found."""
_IMMUTABLE, _APPEND = 0x10, 0x20
_IMMUTABLE_BSD = getattr(stat, "UF_IMMUTABLE", 2) | getattr(stat, "SF_IMMUTABLE", 0x20000)
_APPEND_BSD = getattr(stat, "UF_APPEND", 4) | getattr(stat, "SF_APPEND", 0x40000)
_UNKNOWN = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Attributes:
    """Reads these flags. Remembers the file systems without them."""

    def __init__(self) -> None:
        """No file system is known yet."""
        self._without: set[int] = set()  # devices

    def of(self, name: bytes, directory: int, status: os.stat_result) -> str:
        """"immutable", "append-only" or "", for a name in an open directory with this lstat. "" if unreadable."""
        flags = getattr(status, "st_flags", 0)  # macOS and the BSDs
        if flags & (_IMMUTABLE_BSD | _APPEND_BSD):
            return "immutable" if flags & _IMMUTABLE_BSD else "append-only"
        if status.st_dev in self._without or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return ""
        try:
            fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
        except OSError as error:
            if fsio.is_ours(error):
                raise
            return ""
        try:
            return self.of_open(fd, status)
        finally:
            os.close(fd)

    def of_open(self, fd: int, status: os.stat_result) -> str:
        """As `of`, for an open file or directory."""
        if status.st_dev in self._without:
            return ""
        try:
            data = fcntl.ioctl(fd, _GET_FLAGS, bytes(struct.calcsize("l")))
        except OSError as error:
            if error.errno in _UNKNOWN:
                self._without.add(status.st_dev)
            return ""
        flags = struct.unpack_from("I", data)[0]  # an int, although the request number encodes a long
        return "immutable" if flags & _IMMUTABLE else "append-only" if flags & _APPEND else ""
