"""Renames that lose nothing: exchange two names, or rename only to a free name.

The danger prevented here: plain rename silently deletes an existing target, even one created a moment ago. Linux has
renameat2, macOS renameatx_np. On file systems without them, a hard link adds the new name (it fails if the name
exists), and `exchange_names` returns False.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from ..fsio import find_system_call

_EXCHANGE_LINUX, _NOREPLACE_LINUX = 2, 1
_SWAP_MACOS, _EXCL_MACOS = 2, 4
_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "loongarch64": 276, "ppc64le": 357, "s390x": 347}
"""Of renameat2, by machine: the C library musl has no function for it up to 1.2.5. A process of 32 bits has other numbers."""
_ARGUMENTS = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)

_Call = Callable[[int, bytes, int, bytes, int], int]


def _find_system_call() -> tuple[_Call | None, int, int]:
    """Returns (system call, its exchange flag, its no-replace flag)."""
    if sys.platform == "darwin":
        from .. import libsystem

        with suppress(OSError):
            return libsystem.find_rename_with_flags(), _SWAP_MACOS, _EXCL_MACOS
        return None, 0, 0
    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "renameat2", None)
    if call is not None:
        call.argtypes, call.restype = _ARGUMENTS, ctypes.c_int
    elif sys.maxsize > 1 << 32 and (number := _NUMBERS.get(os.uname().machine)):
        call = find_system_call(number, *_ARGUMENTS)
    return (None, 0, 0) if call is None else (call, _EXCHANGE_LINUX, _NOREPLACE_LINUX)


_CALL, _EXCHANGE, _NOREPLACE = _find_system_call()


def _rename_with_flags(directory: int, source: bytes, target: bytes, flags: int) -> bool:
    """False if the kernel or the file system does not support the flag."""
    if _CALL is None:
        return False
    if _CALL(directory, source, directory, target, flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(target))


def exchange_names(directory: int, one: bytes, other: bytes) -> bool:
    """Atomically exchange two names in an open directory. False if unsupported. Raises OSError, also for a missing
    name."""
    return _rename_with_flags(directory, one, other, _EXCHANGE)


def rename_without_replacing(directory: int, source: bytes, target: bytes) -> None:
    """Rename inside an open directory. Raises FileExistsError if the new name exists."""
    if _rename_with_flags(directory, source, target, _NOREPLACE):
        return
    mode = os.stat(source, dir_fd=directory, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        os.mkdir(target, 0o700, dir_fd=directory)  # a directory can only replace an empty directory
        os.rename(source, target, src_dir_fd=directory, dst_dir_fd=directory)
        return
    try:
        os.link(source, target, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _claim_and_rename(directory, source, target)
        return
    os.unlink(source, dir_fd=directory)


def is_free_or_same(directory: int, one: bytes, other: bytes) -> bool:
    """True if `other` is free, or names the same file as `one` (on a case-folding file system)."""
    status = os.stat(one, dir_fd=directory, follow_symlinks=False)
    try:
        there = os.stat(other, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return (status.st_dev, status.st_ino) == (there.st_dev, there.st_ino)


def _claim_and_rename(directory: int, source: bytes, target: bytes) -> None:
    """For file systems without hard links: create an empty file with the name, then rename over it."""
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    os.close(fd)
    os.rename(source, target, src_dir_fd=directory, dst_dir_fd=directory)
