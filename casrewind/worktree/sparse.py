"""Writes the bytes of a file; long runs of zeros become holes."""

import os
from collections.abc import Iterable

from .. import fsio

HOLE = 1 << 16
"""The shortest run of zero bytes that becomes a hole."""


def write_piece(fd: int, piece: bytes) -> bool:
    """Write the next bytes of a new file. True if they became a hole: without later bytes, `set_length_after_hole` is needed."""
    if len(piece) >= HOLE and not piece.strip(b"\0"):
        os.lseek(fd, len(piece), os.SEEK_CUR)
        return True
    fsio.write_all(fd, piece)
    return False


def set_length_after_hole(fd: int) -> None:
    """End a file in the hole that was written last."""
    os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))


def write_content(fd: int, pieces: Iterable[bytes]) -> None:
    """Write a new file's bytes."""
    is_hole = False
    for piece in pieces:
        is_hole = write_piece(fd, piece)
    if is_hole:
        set_length_after_hole(fd)
