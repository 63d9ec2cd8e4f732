"""libSystem, as a Mac has it, on Linux: C functions with the arguments of Apple's headers, which answer with the bytes of Apple's structures.

They ask Linux where it knows the same: processes, attributes, renames. What it does not know is kept in attributes of the file
(`user.mac.*`), so that it goes along with a rename and ends with the file: its ACL, its flags, and what a directory hands down.
"""

import ctypes
import errno
import fcntl
import os
import struct
import sys
from contextlib import contextmanager

import pytest

from casrewind import fsio, libsystem, locations
from casrewind.agents import client_process
from casrewind.worktree import displaced, root, safe_rename

INT, UINT, LONG, WORD, POINTER, TEXT = ctypes.c_int, ctypes.c_uint32, ctypes.c_ssize_t, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
BOOT = b"6F1B7E2C-3D5A-4C0E-9B57-0A2D4E8F1C33"
EPOCH = 1_700_000_000
HIDDEN, IMMUTABLE = 0x8000, 0x2
SYNCS = {51: "full", 85: "barrier"}
"""The commands of fcntl that reach the drive: F_FULLFSYNC and F_BARRIERFSYNC."""
HEADERS = {
    "fsync_volume_np": (INT, INT, INT),
    "renameatx_np": (INT, INT, TEXT, INT, TEXT, UINT),
    "getfsstat$INODE64": (INT, POINTER, INT, INT),
    "proc_pidinfo": (INT, INT, INT, WORD, POINTER, INT),
    "sysctlbyname": (INT, TEXT, POINTER, POINTER, POINTER, ctypes.c_size_t),
    "fcopyfile": (INT, INT, INT, POINTER, UINT),
    "fchflags": (INT, INT, UINT),
    "acl_get_fd": (POINTER, INT),
    "acl_set_fd": (INT, INT, POINTER),
    "acl_init": (POINTER, INT),
    "acl_size": (LONG, POINTER),
    "acl_copy_ext_native": (LONG, POINTER, POINTER, LONG),
    "acl_copy_int_native": (POINTER, POINTER),
    "acl_free": (INT, POINTER),
}
"""The answer and the arguments of each function."""
ACL, HANDS_DOWN, FLAGS = "user.mac.acl", "user.mac.hands-down", "user.mac.flags"


def entry(who, rights=0x2, flags=0x1):
    """One entry of an ACL (kauth_ace): who (16 bytes), flags (1: allow), rights (2: read)."""
    return struct.pack("=16sII", who, flags, rights)


CAROL, EVERYONE = entry(b"carol".ljust(16, b"\1")), entry(b"everyone".ljust(16, b"\2"), flags=0x11)  # 0x10: inherited


class FakeLibSystem:
    """`refuse`: {name of a function: errno that it answers}. `lacks`: functions that it has not. `calls`: (name, arguments) of each call.
    `of_others`, `hidden_by_sandbox`: pids. `started`: {pid: (seconds, microseconds)} that another process has now."""

    def __init__(self):
        self.calls, self.refuse, self.lacks = [], {}, set()
        self.boot, self.volumes = BOOT, [(b"/", b"apfs")]
        self.of_others, self.hidden_by_sandbox, self.started = set(), set(), {}
        self.before_sync = lambda fd, kind: None
        self.acls = {}
        """By handle: the entries. Empty when nothing leaks."""
        self._handles, self._made = 0x10000, []

    def __getattr__(self, name):
        """A function of the library, as dlsym finds it."""
        if name not in HEADERS or name in self.lacks:
            raise AttributeError(name)
        work, (answer, *arguments) = getattr(self, "do_" + name.partition("$")[0]), HEADERS[name]

        def call(*given):
            self.calls.append((name, given))
            try:
                if name in self.refuse:
                    raise OSError(self.refuse[name], "")
                return work(*given)
            except OSError as error:
                ctypes.set_errno(error.errno)
                return {POINTER: None}.get(answer, 0 if name == "proc_pidinfo" else -1)

        made = ctypes.CFUNCTYPE(answer, *arguments, use_errno=True)(call)
        self._made.append(made)
        return made

    def count(self, name):
        return sum(called == name for called, _ in self.calls)

    # -- volumes

    def do_fsync_volume_np(self, fd, way):
        os.sync()
        return 0

    def do_renameatx_np(self, directory, name, to, new, flags):
        if RENAME(directory, name, to, new, {2: 2, 4: 1}[flags]) != 0:
            raise OSError(ctypes.get_errno(), "")
        return 0

    def do_getfsstat(self, buffer, size, flags):
        assert flags == 2, "a server that does not answer would be waited for"
        rows = [struct.pack("=72x16s1024s1024x32x", kind, point) for point, kind in self.volumes]
        if buffer is None:
            return len(rows)
        rows = rows[: size // 2168]
        ctypes.memmove(buffer, b"".join(rows), 2168 * len(rows))
        return len(rows)

    # -- processes and the system

    def do_proc_pidinfo(self, pid, flavor, argument, buffer, size):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                before, _, after = file.read().rpartition(b")")
        except OSError:
            raise OSError(errno.ESRCH, "") from None
        fields = after.split()
        if fields[0] in (b"Z", b"X"):
            raise OSError(errno.ESRCH, "")
        if pid in self.hidden_by_sandbox or (flavor == 3 and pid in self.of_others):
            raise OSError(errno.EPERM, "")
        parent, name, ticks = int(fields[1]), before.partition(b"(")[2], int(fields[19])
        seconds, microseconds = self.started.get(pid, (EPOCH + ticks // 100, ticks % 100 * 10_000))
        if flavor == 3:
            data = struct.pack("=16xI28x16s56xQQ", parent, name[:15], seconds, microseconds)
        else:
            assert flavor == 13
            data = struct.pack("=4xI8x16s32x", parent, name[:15])
        if size < len(data):
            raise OSError(errno.ENOMEM, "")
        ctypes.memmove(buffer, data, len(data))
        return len(data)

    def do_sysctlbyname(self, name, buffer, size, new, new_size):
        assert name == b"kern.bootsessionuuid" and new is None
        data = self.boot + b"\0"
        room = ctypes.cast(size, ctypes.POINTER(ctypes.c_size_t))
        assert room[0] >= len(data)
        ctypes.memmove(buffer, data, len(data))
        room[0] = len(data)
        return 0

    # -- what a file has beside its bytes

    def do_fcopyfile(self, source, target, state, flags):
        assert state is None and flags == 4, "an ACL that is copied so keeps what was inherited"
        for name in set(attributes(target)) - set(attributes(source)):
            os.removexattr(target, name)
        for name in attributes(source):
            os.setxattr(target, name, os.getxattr(source, name))
        return 0

    def do_fchflags(self, fd, flags):
        os.setxattr(fd, FLAGS, b"%d" % flags)
        return 0

    def do_acl_get_fd(self, fd):
        found = kept(fd, ACL)
        if found is None:  # nobody has set one: it has what its directory hands down to a new file
            found = kept(os.path.dirname(os.readlink(f"/proc/self/fd/{fd}")), HANDS_DOWN) or b""
        if not found:
            raise OSError(errno.ENOENT, "")
        return self._handle(found)

    def do_acl_set_fd(self, fd, acl):
        os.setxattr(fd, ACL, self.acls[acl])
        return 0

    def do_acl_init(self, count):
        return self._handle(b"")

    def do_acl_size(self, acl):
        return 44 + len(self.acls[acl])

    def do_acl_copy_ext_native(self, buffer, acl, size):
        data = struct.pack("=I32xII", 0x012CC16D, len(self.acls[acl]) // 24, 0) + self.acls[acl]
        assert size >= len(data)
        ctypes.memmove(buffer, data, len(data))
        return len(data)

    def do_acl_copy_int_native(self, data):
        magic, count, _ = struct.unpack("=I32xII", ctypes.string_at(data, 44))
        assert magic == 0x012CC16D
        return self._handle(ctypes.string_at(data, 44 + 24 * count)[44:])

    def do_acl_free(self, acl):
        del self.acls[acl]
        return 0

    def _handle(self, entries):
        self._handles += 0x1_0000_0010  # a pointer of 64 bits
        self.acls[self._handles] = entries
        return self._handles


def attributes(fd):
    """What a person's tools keep beside a file: what stands for the ACL and the flags is none of it."""
    return [name for name in os.listxattr(fd) if name.startswith("user.") and not name.startswith("user.mac.")]


def kept(file, name):
    try:
        return os.getxattr(file, name)
    except OSError:
        return None


class _Status:
    """A status with the flags of a Mac."""

    def __init__(self, status, flags):
        self._status, self.st_flags = status, flags

    def __getattr__(self, name):
        return getattr(self._status, name)


class _OnMac:
    """A module of which some names are others, and some are missing."""

    def __init__(self, module, lacks=(), **other):
        self._module, self._lacks = module, lacks
        self.__dict__.update(other)

    def __getattr__(self, name):
        if name in self._lacks:
            raise AttributeError(name)
        return getattr(self._module, name)


def _fstat(fd):
    return _Status(os.fstat(fd), int(kept(fd, FLAGS) or 0))


RENAME = ctypes.CDLL(None, use_errno=True).renameat2 if hasattr(ctypes.CDLL(None), "renameat2") else None


@contextmanager
def installed():
    """casrewind takes this system for a Mac, as far as it asks libSystem. Yields the library."""
    fake, mac = FakeLibSystem(), _OnMac(sys, platform="darwin")

    def control(fd, command, *more):
        if command not in SYNCS:
            return fcntl.fcntl(fd, command, *more)
        fake.before_sync(fd, SYNCS[command])
        os.fsync(fd)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsystem, "load_library", lambda: fake)
        for module in (fsio, locations, client_process, displaced, root, safe_rename):
            patch.setattr(module, "sys", mac)
        patch.setattr(fsio, "fcntl", _OnMac(fcntl, fcntl=control))
        patch.setattr(displaced, "os", _OnMac(os, ("listxattr", "getxattr", "setxattr", "removexattr"), fstat=_fstat))
        libsystem.find_function.cache_clear()
        for name, value in zip(("_CALL", "_EXCHANGE", "_NOREPLACE"), safe_rename._find_system_call(), strict=True):
            patch.setattr(safe_rename, name, value)
        try:
            yield fake
        finally:
            libsystem.find_function.cache_clear()

