"""Attributes that forbid changes to a file or directory whatever its mode says, to root too: immutable and append-only.

The danger prevented here: a restore stops half way at a file that no user can rename or remove. So a restore asks before it begins.
"""

import errno
import fcntl
import os
import stat
import struct

from .. import fsio

_GET_FLAGS = 2 << 30 | struct.calcsize("l") << 16 | ord("f") << 8 | 1
"""FS_IOC_GETFLAGS. Some architectures count otherwise (PowerPC, MIPS): there the kernel knows no such call, and nothing is found."""
_IMMUTABLE, _APPEND = 0x10, 0x20
_IMMUTABLE_BSD = getattr(stat, "UF_IMMUTABLE", 2) | getattr(stat, "SF_IMMUTABLE", 0x20000)
_APPEND_BSD = getattr(stat, "UF_APPEND", 4) | getattr(stat, "SF_APPEND", 0x40000)
_UNKNOWN = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Attributes:
    """What forbids changes. A file system that does not know such attributes is asked once."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self._without: set[int] = set()  # devices

    def of(self, name: bytes, directory: int, status: os.stat_result) -> str:
        """"immutable", "append-only", or "" for a name in an open directory, which has this lstat. Where it cannot be opened,
        nothing is found."""
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
        """The same of an open file or directory."""
        if status.st_dev in self._without:
            return ""
        try:
            told = fcntl.ioctl(fd, _GET_FLAGS, bytes(struct.calcsize("l")))
        except OSError as error:
            if error.errno in _UNKNOWN:
                self._without.add(status.st_dev)
            return ""
        flags = struct.unpack_from("I", told)[0]  # an int, whatever its number says
        return "immutable" if flags & _IMMUTABLE else "append-only" if flags & _APPEND else ""
