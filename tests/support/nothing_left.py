"""Run a command and see that it leaves nothing behind: `python -m support.nothing_left COMMAND ...`, as tests/run.sh does.

What is left over breaks runs to come, and is found on somebody's machine months later: processes (they become children of this
one), files in /tmp and /dev/shm, mounts, loop devices. As root on Linux the command has a /tmp and a /dev/shm of its own, so that it
is seen what is of this very run; else the directories are compared before and after. Exits as the command does, or with 1 and the
names when something is left; left processes are ended. The directory that stands for /tmp is kept when the command failed.
"""

import contextlib
import ctypes
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = float(os.environ.get("PATIENCE", "20"))
"""Seconds that processes may still take which nobody waits for: gc in the background."""
PRIVATE = ("/tmp", "/dev/shm")
_NEWNS, _REC, _PRIVATE, _BIND, _SUBREAPER = 0x20000, 0x4000, 1 << 18, 0x1000, 36


def _own_places(libc):
    """(the directory that stands for /tmp from now on, whether it and /dev/shm are this run's own)."""
    if sys.platform != "linux" or os.geteuid() != 0 or libc.unshare(_NEWNS) != 0:
        return "/tmp", False
    place = tempfile.mkdtemp(prefix="casrewind-run-", dir="/tmp")
    os.chmod(place, 0o1777)
    os.mkdir(f"{place}/tmp", 0o700)
    os.chmod(f"{place}/tmp", 0o1777)
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY)  # the way back to it, when it is covered by itself
    needed = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in _needed()}  # the way to them when they are covered
    _mount(libc, None, b"/", None, _REC | _PRIVATE)
    _mount(libc, b"none", b"/dev/shm", b"tmpfs", 0)
    _mount(libc, os.fsencode(f"{place}/tmp"), b"/tmp", None, _BIND)
    for path, fd in needed.items():
        os.makedirs(path, exist_ok=True)
        _mount(libc, f"/proc/self/fd/{fd}".encode(), os.fsencode(path), None, _BIND)
        os.close(fd)
    with contextlib.suppress(FileNotFoundError):
        os.chdir(os.getcwd())  # out of the covered /tmp
    return f"/proc/self/fd/{held}/tmp", True


def _needed():
    """The directories below /tmp without which nothing runs: a clone that was made there, its Python, the home."""
    clone = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    found = {os.path.realpath(path) for path in (clone, sys.prefix, sys.base_prefix, os.path.expanduser("~"))}
    return sorted(path for path in found if path.startswith("/tmp/") and os.path.isdir(path))  # a parent precedes what it holds


def _mount(libc, source, target, kind, flags):
    if libc.mount(source, target, kind, flags, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fsdecode(target))


def _look(own):
    """What there is outside of the command: {kind: names}."""
    mounts = open("/proc/self/mountinfo").read().splitlines() if sys.platform == "linux" else []
    loops = [open(path).read().strip() for path in glob.glob("/sys/block/loop*/loop/backing_file")]
    mine = lambda entry: own or entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    loops = {path for path in loops if path.startswith(PRIVATE) and os.path.exists(path)}  # else somebody else's, in places of theirs
    found = {"mount": {line.split()[4] for line in mounts}, "loop device on": loops}
    for place in PRIVATE:
        names = [entry.name for entry in os.scandir(place) if mine(entry)] if os.path.isdir(place) else []
        found[f"file in {place}:"] = {name for name in names if not name.startswith("pytest-of-")}
    return found


def _children():
    """{number: command line} of the processes whose parent is this one."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        numbers = [int(word) for word in file.read().split()]
    found = {}
    for number in numbers:
        with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as file:
            found[number] = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def _reap(until=None):
    """Wait for children, whoever started them, up to and with `until`; its status. None: for those that have ended."""
    while True:
        try:
            number, status = os.waitpid(-1, 0 if until else os.WNOHANG)
        except ChildProcessError:
            return None
        if number in (0, until):
            return status


def _processes():
    """The command lines of processes that do not come to an end. They are ended."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return set()
    end = time.monotonic() + PATIENCE
    _reap()
    while _children() and time.monotonic() < end:
        time.sleep(0.1)
        _reap()
    left = _children()
    while children := _children():  # theirs come to us when they are gone
        for number in children:
            os.kill(number, signal.SIGKILL)
        time.sleep(0.05)
        _reap()
    return set(left.values())


def main(command):
    libc = ctypes.CDLL(None, use_errno=True)
    place, own = _own_places(libc)
    if sys.platform == "linux":
        libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    before = _look(own)
    child = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: child.send_signal(number))
    status = _reap(child.pid)
    code = child.returncode = os.waitstatus_to_exitcode(status)
    left = [f"process {line}" for line in sorted(_processes())]
    left += [f"{kind} {name}" for kind, names in _look(own).items() for name in sorted(names - before[kind])]
    for line in left:
        print(f"LEFT BEHIND: {line}", file=sys.stderr)
    if own:
        libc.umount2(b"/tmp", 2)
        place = os.path.realpath(place)
        for path in _needed():  # only the directories that carried them, now empty
            with contextlib.suppress(OSError):
                while (path := os.path.relpath(path, "/tmp")) != ".":
                    os.rmdir(os.path.join(place, path))
                    path = os.path.dirname(os.path.join("/tmp", path))
        if code == 0 or not os.listdir(place):
            shutil.rmtree(os.path.dirname(place), ignore_errors=True)
        else:
            print(f"what was /tmp is kept in {place}", file=sys.stderr)
    return code if code > 0 else 128 - code if code else bool(left)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
