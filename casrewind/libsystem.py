"""What only macOS has, asked of its C library, libSystem. No other module calls it, and only modules that run on macOS import this one.

The danger prevented here: an answer that is read as something else. So the length of each structure is checked, and a
function that this macOS does not have is an error (ENOSYS), as is every failure. Nothing here has run on a Mac: layouts
and numbers are those of Apple's headers, for 64-bit programs.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

_INT, _POINTER, _TEXT = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
_MAX_PID = 0x7FFFFFFF
_BSD_INFO, _SHORT_BSD_INFO = 3, 13  # PROC_PIDTBSDINFO, PROC_PIDT_SHORTBSDINFO
_BSD = struct.Struct("=16xI28x16s56xQQ")  # proc_bsdinfo: parent, name, start in seconds and microseconds
_SHORT = struct.Struct("=4xI8x16s32x")  # proc_bsdshortinfo: parent, name
_STATFS = struct.Struct("=72x16s1024s1024x32x")  # statfs: type, mount point
_MNT_NOWAIT = 2
_MORE_MOUNTS = 8
_FILESEC = struct.Struct("=36xII")  # kauth_filesec: number of entries, flags; the entries follow
_NO_ENTRIES = (0, 0xFFFFFFFF)
_NO_ACL = (errno.ENOENT, errno.ENOTSUP, errno.EOPNOTSUPP)
_COPYFILE_XATTR = 4
_LONGEST_VALUE = 256


def load_library() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


@cache
def find_function(names: tuple[str, ...], result: type, *arguments: type) -> Callable[..., int]:
    """The first function that the library has of these names. Raises OSError (ENOSYS) if it has none."""
    library = load_library()
    for name in names:
        found: Callable[..., int] | None = getattr(library, name, None)
        if found is not None:
            found.restype, found.argtypes = result, arguments  # type: ignore[attr-defined]
            return found
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), names[0])


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _check(answer: int) -> None:
    if answer != 0:
        raise _last_error()


# -- volumes


def sync_volume(fd: int, way: int) -> None:
    """Write everything of a file's volume (fsync_volume_np; `way`: its flags). Raises OSError."""
    _check(find_function(("fsync_volume_np",), _INT, _INT, _INT)(fd, way))


def find_rename_with_flags() -> Callable[[int, bytes, int, bytes, int], int]:
    """renameatx_np: (directory, name, directory, new name, flags) -> 0 or -1, with errno in ctypes. Raises OSError (ENOSYS)."""
    return find_function(("renameatx_np",), _INT, _INT, _TEXT, _INT, _TEXT, ctypes.c_uint)


def mounts() -> list[tuple[bytes, str]]:
    """(mount point, file system type) of every mount, in the order of mounting. Asks no file system: one on a server may
    not answer. Raises OSError."""
    # On Intel the plain name is that of the call with 32-bit inode numbers
    call = find_function(("getfsstat$INODE64", "getfsstat"), _INT, _POINTER, _INT, _INT)
    count = call(None, 0, _MNT_NOWAIT)
    while count >= 0:
        room = (count + _MORE_MOUNTS) * _STATFS.size
        found = ctypes.create_string_buffer(room)
        count = call(found, room, _MNT_NOWAIT)
        if 0 <= count * _STATFS.size < room:
            rows = _STATFS.iter_unpack(found.raw[: count * _STATFS.size])
            return [(_text(point), os.fsdecode(_text(kind))) for kind, point in rows]
    raise _last_error()


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


# -- processes and the system


def process_info(pid: int) -> tuple[int, bytes, str]:
    """Returns (pid of its parent, its name, its start time as an opaque word). The start time of another user's process is
    "": only root may read it. Raises ProcessLookupError if the process has ended, another OSError if the system does not
    say, as in a sandbox."""
    try:
        parent, name, seconds, microseconds = _BSD.unpack(_pid_info(pid, _BSD_INFO, _BSD.size))
    except PermissionError:
        parent, name = _SHORT.unpack(_pid_info(pid, _SHORT_BSD_INFO, _SHORT.size))
        return parent, _text(name), ""
    return parent, _text(name), f"{seconds}.{microseconds:06}"


def _pid_info(pid: int, flavor: int, size: int) -> bytes:
    if not 0 < pid <= _MAX_PID:  # C would take another number for it
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    found = ctypes.create_string_buffer(size)
    call = find_function(("proc_pidinfo",), _INT, _INT, _INT, ctypes.c_uint64, _POINTER, _INT)
    ctypes.set_errno(0)
    if call(pid, flavor, 0, found, size) != size:
        raise _last_error()
    return found.raw


def read_system_value(name: str) -> bytes:
    """A text of the system (sysctl), for example kern.bootsessionuuid. Raises OSError."""
    found, size = ctypes.create_string_buffer(_LONGEST_VALUE), ctypes.c_size_t(_LONGEST_VALUE)
    call = find_function(("sysctlbyname",), _INT, _TEXT, _POINTER, _POINTER, _POINTER, ctypes.c_size_t)
    _check(call(name.encode(), found, ctypes.byref(size), None, 0))
    return _text(found.raw[: size.value])


# -- what a file has beside its bytes


def copy_attributes(source: int, target: int) -> None:
    """Give an open file the extended attributes of another one, and no others: Finder tags and comments, the resource fork,
    com.apple.*. Raises OSError; then it may have some of them."""
    _check(find_function(("fcopyfile",), _INT, _INT, _INT, _POINTER, ctypes.c_uint32)(source, target, None, _COPYFILE_XATTR))


def set_flags(fd: int, flags: int) -> None:
    """Set the flags (st_flags) of an open file. Raises OSError."""
    _check(find_function(("fchflags",), _INT, _INT, ctypes.c_uint)(fd, flags))


def read_acl(fd: int) -> bytes:
    """The entries of the ACL of an open file or directory, as the system encodes it; b"" if it has none, or cannot have
    one. Raises OSError."""
    acl = find_function(("acl_get_fd",), _POINTER, _INT)(fd)
    if not acl:
        if ctypes.get_errno() not in _NO_ACL:
            raise _last_error()
        return b""
    with _freed(acl):
        size = find_function(("acl_size",), ctypes.c_ssize_t, _POINTER)(acl)
        if size < _FILESEC.size:
            raise _last_error()
        found = ctypes.create_string_buffer(size)
        copied = find_function(("acl_copy_ext_native",), ctypes.c_ssize_t, _POINTER, _POINTER, ctypes.c_ssize_t)(found, acl, size)
        if not _FILESEC.size <= copied <= size:
            raise _last_error()
    return b"" if _FILESEC.unpack_from(found)[0] in _NO_ENTRIES else found.raw[:copied]


def set_acl(fd: int, acl: bytes) -> None:
    """Give an open file or directory an ACL that `read_acl` returned; b"" takes away the one that it has, also what it
    inherited. Raises OSError, also if it has another one then.

    fcopyfile with an ACL is not used: it leaves what was inherited, and hides most errors.
    """
    if _entries_of(read_acl(fd)) == _entries_of(acl):
        return
    made = find_function(("acl_copy_int_native",), _POINTER, _TEXT)(acl) if acl else find_function(("acl_init",), _POINTER, _INT)(0)
    if not made:
        raise _last_error()
    with _freed(made):
        _check(find_function(("acl_set_fd",), _INT, _INT, _POINTER)(fd, made))
    if _entries_of(read_acl(fd)) != _entries_of(acl):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def _entries_of(acl: bytes) -> bytes:
    return acl[_FILESEC.size :]


@contextmanager
def _freed(acl: int) -> Iterator[None]:
    try:
        yield
    finally:
        find_function(("acl_free",), _INT, _POINTER)(acl)
