"""The ways in which bytes and modes reach a file of the user."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from .. import fsio

_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_PIECE = 1 << 20
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


def copy(fd: int, name: bytes, directory: int) -> None:
    """Write the bytes of another file, and give the file its owner where that is allowed. Raises OSError."""
    source = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    try:
        content(fd, iter(lambda: os.read(source, _PIECE), b""))
        there, here = os.fstat(source), os.fstat(fd)
        if (there.st_uid, there.st_gid) != (here.st_uid, here.st_gid):
            with suppress(OSError):
                os.fchown(fd, there.st_uid, there.st_gid)
    finally:
        os.close(source)


def chmod(name: bytes, directory: int, mode: int) -> None:
    """chmod of a file, which may be unreadable; links are not followed. Set-id and sticky bits are cleared."""
    _change_mode(name, directory, mode, 0)


def chmod_directory(name: bytes, directory: int, mode: int) -> None:
    """The same for a directory, but its set-id and sticky bits stay: without the sticky bit, users who may write to the directory
    could remove each other's files."""
    _change_mode(name, directory, mode, _SPECIAL)


def _change_mode(name: bytes, directory: int, mode: int, keep: int) -> None:
    try:
        fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    except PermissionError:
        if hasattr(os, "O_PATH"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            try:
                os.chmod(f"/proc/self/fd/{fd}", mode | os.fstat(fd).st_mode & keep)  # fchmod refuses such a descriptor
            finally:
                os.close(fd)
        else:
            present = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            os.chmod(name, mode | present & keep, dir_fd=directory, follow_symlinks=False)
        return
    try:
        os.fchmod(fd, mode | os.fstat(fd).st_mode & keep)
    finally:
        os.close(fd)
