"""The two ways in which bytes and modes reach a file of the user."""

import os
from collections.abc import Iterable

from .. import fsio

_HOLE = 1 << 16  # bytes of zeros in a row from which a hole is made


def content(fd: int, pieces: Iterable[bytes]) -> None:
    """Write a file's bytes; long runs of zeros become holes."""
    length = hole = 0
    for piece in pieces:
        length += len(piece)
        if len(piece) >= _HOLE and not piece.strip(b"\0"):
            hole = os.lseek(fd, len(piece), os.SEEK_CUR)
        else:
            fsio.write_all(fd, piece)
    if hole == length:  # nothing was written behind it
        os.ftruncate(fd, length)


def chmod(name: bytes, directory: int, mode: int) -> None:
    """chmod of a file or directory that may be unreadable, never of what a link points to."""
    try:
        fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    except PermissionError:
        if hasattr(os, "O_PATH"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            try:
                os.chmod(f"/proc/self/fd/{fd}", mode)  # fchmod refuses such a descriptor
            finally:
                os.close(fd)
        else:
            os.chmod(name, mode, dir_fd=directory, follow_symlinks=False)
        return
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
