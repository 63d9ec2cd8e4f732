"""casrewind as macOS has it, on Linux: the package, and only the package, finds in os, sys, fcntl and ctypes what it finds there.

`CASREWIND_TEST_AS=macos sh tests/run.sh tests/store` runs tests so. Hooks start the interpreter with -I, which reads no variable:
the emulation belongs to an interpreter. `make_interpreter` makes one beside that of the tests, with the same packages. Each process
that is started with it is on a Mac, whatever its environment. The tests themselves keep the Linux that they judge with.

To add a call of libSystem, write it as `_renameatx_np` is written and name it in `_SYMBOLS`. The tables say what else there is and is not.
What no emulation shows: what APFS folds, what a full sync costs, errors and flags of another kernel.
"""

import builtins
import contextlib
import errno
import fcntl
import importlib.machinery
import os
import sys
import sysconfig
import types
import unicodedata

_ABSENT_FILES = ("/proc", "/sys")
_ABSENT_MODULES = ("casrewind.worktree.threaded_comparison",)
"""The one here is compiled for Linux."""
_ABSENT_FROM_OS = frozenset(
    "O_PATH O_TMPFILE O_DIRECT O_NOATIME copy_file_range eventfd fdatasync getrandom getresuid getresgid getxattr listxattr memfd_create"
    " pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity sched_setaffinity setns setresuid setresgid setxattr"
    " splice unshare".split()
)
_ABSENT_FROM_LIBRARY = frozenset("mallopt malloc_trim mount prctl renameat2 statx syncfs syscall unshare".split())
_TAKE_PATH = "access chdir chmod chown listdir lstat mkdir open readlink rename scandir stat statvfs unlink".split()
"""Functions of os whose first argument is a path."""
_SYSCTL = {"kern.bootsessionuuid": "/proc/sys/kernel/random/boot_id"}
_F_GETPATH, _F_FULLFSYNC, _F_BARRIERFSYNC = 50, 51, 85
_SWAP, _EXCL = 2, 4
_EXCHANGE, _NOREPLACE = 2, 1
"""The flags of renameatx_np, and those of renameat2."""


def is_on():
    """True in a process that the interpreter of `make_interpreter` runs."""
    return "_as_macos" in sys.modules


class _Instead(types.ModuleType):
    """A module for the package: the real one, but for these values and what is absent. A test that patches one patches both."""

    def __init__(self, real, values, absent=frozenset()):
        super().__init__(real.__name__, real.__doc__)
        vars(self).update(_real=real, _values=values, _absent=absent)

    def __getattr__(self, name):
        if name in self._absent or name.startswith(("POSIX_FADV_", "XATTR_")):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on macOS")
        return self._values[name] if name in self._values else getattr(self._real, name)

    def __setattr__(self, name, value):
        setattr(self._real, name, value)

    def __delattr__(self, name):
        delattr(self._real, name)


def _without_absent_files(module, name):
    """A function of a module, for which there is no /proc and no /sys."""

    def call(path, *arguments, **more):
        words = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if any(words == place or words.startswith(place + "/") for place in _ABSENT_FILES):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return getattr(module, name)(path, *arguments, **more)

    return call


# -- os, fcntl and ctypes of macOS


def _os():
    values = {name: _without_absent_files(os, name) for name in _TAKE_PATH}
    values |= {"chmod": _chmod, "posix_spawn": _posix_spawn}
    values["supports_follow_symlinks"] = os.supports_follow_symlinks | {_chmod, values["stat"], values["chown"]}
    return _Instead(os, values, _ABSENT_FROM_OS)


def _chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    """It can change the name itself there."""
    if follow_symlinks:
        os.chmod(path, mode, dir_fd=dir_fd)
        return
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _posix_spawn(path, command, *arguments, **more):
    """Starts sysctl, too, which prints one value."""
    if path == "/usr/sbin/sysctl":
        path, command = "/bin/cat", ["cat", _SYSCTL[command[-1]]]
    return os.posix_spawn(path, command, *arguments, **more)


def _fcntl():
    values = {"F_FULLFSYNC": _F_FULLFSYNC, "F_BARRIERFSYNC": _F_BARRIERFSYNC, "F_GETPATH": _F_GETPATH, "fcntl": _call_fcntl}
    return _Instead(fcntl, values)


def _call_fcntl(fd, command, argument=0):
    if command in (_F_FULLFSYNC, _F_BARRIERFSYNC):
        os.fsync(fd)
        return 0
    if command == _F_GETPATH:
        return _as_listed(os.readlink(f"/proc/self/fd/{fd}".encode())).ljust(len(argument), b"\0")
    return fcntl.fcntl(fd, command, argument)


def _as_listed(path):
    """A path as the disk has it. The link in /proc has the spelling in which it was opened."""
    above, name = os.path.split(path)
    if not name:
        return path
    above = _as_listed(above)
    text = os.fsdecode(name)
    others = {text.swapcase(), unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)} - {text}
    if not any(os.path.lexists(os.path.join(above, os.fsencode(other))) for other in others):
        return os.path.join(above, name)  # a directory is listed only on a disk that folds: tests count what is listed
    with os.scandir(above) as entries:
        names = {entry.name: entry.inode() for entry in entries}
    if name not in names:
        inode = os.lstat(os.path.join(above, name)).st_ino
        name = next((other for other in names if names[other] == inode), name)
    return os.path.join(above, name)


def _ctypes():
    import ctypes

    class Library(ctypes.CDLL):
        """libSystem as far as the package knows it, from the C library that is here."""

        def __getattr__(self, name):
            if name in _SYMBOLS:
                vars(self)[name] = _Function(_SYMBOLS[name], super().__getattr__)
                return vars(self)[name]
            if name in _ABSENT_FROM_LIBRARY:
                raise AttributeError(f"dlsym: {name}: symbol not found")
            return super().__getattr__(name)

    return _Instead(ctypes, {"CDLL": Library})


class _Function:
    """A function of the library; its types are set and change nothing."""

    def __init__(self, call, find):
        self._call, self._find = call, find

    def __call__(self, *arguments):
        return self._call(self._find, *arguments)


def _renameatx_np(find, old_fd, old, new_fd, new, flags):
    return find("renameat2")(old_fd, old, new_fd, new, (_EXCHANGE if flags & _SWAP else 0) | (_NOREPLACE if flags & _EXCL else 0))


def _fsync_volume_np(find, fd, _):
    return find("syncfs")(fd)


def _proc_pidinfo(_, pid, flavor, argument, room, size):
    """What libproc.h calls PROC_PIDTBSDINFO, as far as it is read: the parent, the name, the start."""
    import ctypes
    import struct

    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            before, _, after = file.read().rpartition(b")")
    except OSError:
        return _fail(errno.ESRCH, 0)
    if flavor != 3:
        return _fail(errno.EINVAL, 0)
    words = after.split()
    ticks = int(words[19])
    found = struct.pack("=16xI28x16s56xQQ", int(words[1]), before.partition(b"(")[2], ticks // 100, ticks % 100 * 10_000)
    ctypes.memmove(room, found, size)
    return len(found)


def _sysctlbyname(_, name, room, size, *new):
    with open(_SYSCTL[name.decode()], "rb") as file:
        value = file.read().strip() + b"\0"
    room[: len(value)] = value
    size._obj.value = len(value)
    return 0


def _getfsstat(_, room, size, how):
    """Types and mount points of the mounts; no more are asked for than there is room."""
    import ctypes
    import struct

    with open("/proc/self/mountinfo", "rb") as file:
        rows = [line.split() for line in file]
    if room is None:
        return len(rows)
    found = [(row[row.index(b"-") + 1], row[4].decode("unicode_escape").encode("latin-1")) for row in rows]
    packed = b"".join(struct.pack("=72x16s1024s1056x", *one) for one in found)[:size]
    ctypes.memmove(room, packed, len(packed))
    return len(packed) // 2168


def _fcopyfile(_, source, target, state, what):
    """The attributes alone (4); none where the disk has none."""
    names = []
    with contextlib.suppress(OSError):
        names = os.listxattr(source) if what == 4 else []
    for name in names:
        if name.startswith("user."):
            os.setxattr(target, name, os.getxattr(source, name))
    return 0


def _fchflags(_, fd, flags):
    """Only tests that make flags up get here: nothing shows them."""
    return 0


def _acl_get_fd(_, fd):
    """No file has one."""
    return _fail(errno.ENOENT, 0)


def _fail(number, answer):
    import ctypes

    ctypes.set_errno(number)
    return answer


_SYMBOLS = {
    "acl_get_fd": _acl_get_fd, "fchflags": _fchflags, "fcopyfile": _fcopyfile, "fsync_volume_np": _fsync_volume_np, "getfsstat": _getfsstat,
    "proc_pidinfo": _proc_pidinfo, "renameatx_np": _renameatx_np, "sysctlbyname": _sysctlbyname,
}  # fmt: skip


# -- how the package gets them


_MAKE = {"sys": lambda: _Instead(sys, {"platform": "darwin"}), "os": _os, "fcntl": _fcntl, "ctypes": _ctypes}
_made = {}


def _import(name, *arguments, **more):
    module = builtins.__import__(name, *arguments, **more)
    found = getattr(module, "__name__", "")
    if found not in _MAKE:
        return module
    if found not in _made:
        _made[found] = _MAKE[found]()
    return _made[found]


_BUILTINS = {**vars(builtins), "__import__": _import, "open": _without_absent_files(builtins, "open")}


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        vars(module)["__builtins__"] = _BUILTINS
        super().exec_module(module)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "casrewind":
            return None
        if name in _ABSENT_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install():
    """From now on each module of casrewind that this process imports is on a Mac."""
    assert not any(name.partition(".")[0] == "casrewind" for name in sys.modules), "too late"
    sys.meta_path.insert(0, _Finder())


def make_interpreter():
    """Make an environment of this interpreter that is on a Mac, with the packages of this one. Returns the path of its interpreter."""
    place = os.path.join(sys.prefix, "as-macos")
    python, packages = os.path.join(place, "bin", "python"), sysconfig.get_path("purelib", vars={"base": place})
    for directory in (os.path.dirname(python), packages):
        os.makedirs(directory, exist_ok=True)
    with open(os.path.join(sys.prefix, "pyvenv.cfg")) as own, open(os.path.join(place, "pyvenv.cfg"), "w") as file:
        file.write(own.read())
    for target, link in ((os.path.realpath(sys.executable), python), (os.path.abspath(__file__), os.path.join(packages, "_as_macos.py"))):
        if not os.path.lexists(link):
            os.symlink(target, link)
    with open(os.path.join(packages, "as_macos.pth"), "w") as file:
        file.write(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\nimport _as_macos; _as_macos.install()\n")
    return python


if __name__ == "__main__":
    print(make_interpreter())
