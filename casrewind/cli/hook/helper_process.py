"""Finds the helper (casrewind watch) of a project, and starts one for a hook.

Three dangers are prevented here. Two helpers could start for one project: a lock decides which one works. A client could wait for
the helper, because it inherits a pipe of the client's. And a stopped or dead helper could be taken for one that works.
"""

import fcntl
import os
import stat
import sys
import time
from contextlib import suppress

from ... import fsio, launch
from ..._typing import NamedTuple
from .. import environment
from . import protocol

_PATIENCE = 2.0
"""Seconds that doctor gives a helper for a sign of life."""
_MOST = 4096  # bytes of what a helper says of itself


def start(root: str) -> None:
    """Start the helper of a root, if there is none; it is not waited for. Raises OSError."""
    if not sys.platform.startswith("linux") or launch.TRIAL in os.environ or is_there(root):
        return
    if fsio.ownership_problem(environment.data_directory()) or fsio.ownership_problem(environment.helpers()):
        return  # no helper would begin there
    import subprocess

    command, null = [*launch.argv(), "-C", root, "watch", "--auto"], subprocess.DEVNULL
    variables = {**os.environ, "CASREWIND_HOME": environment.data_directory()}  # a relative one would be another from where it runs
    child = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/", env=variables)
    child.returncode = 0  # it goes on without us; nobody is to warn that it was not waited for


def lock_of(root: str) -> str:
    """The path of the file that the helper of a root holds a lock on while it lives, and writes into what it is."""
    return os.path.join(environment.helpers(), protocol.name_of(os.fsencode(root)) + ".lock")


def is_there(root: str) -> bool:
    """Whether a helper of a root lives, or is about to."""
    return holder(lock_of(root)) is not None


def write_state(lock: int, *said: str) -> None:
    """Write into a lock file that this process holds it, and what else is to be known: of a helper, why it looks at every file ("":
    it need not)."""
    with suppress(OSError):
        text = "\n".join([str(os.getpid()), *map(fsio.printable, said), ""]).encode("utf-8", "surrogateescape")
        os.pwrite(lock, text, 0)
        os.ftruncate(lock, len(text))


class HelperState(NamedTuple):
    """The helper of a root. `pid` is its process, 0 where it has not said so, None where there is no helper. `unwatched` is why it
    looks at every file, "" where it need not. `wrong` is what keeps hooks from it and what to do, "" where nothing does."""

    pid: int | None
    unwatched: str
    wrong: str


def find_helper(root: str) -> HelperState:
    """Look for the helper of a root, and whether it lives. Raises nothing."""
    directory = environment.helpers()
    where = fsio.printable(directory)
    try:
        status = os.lstat(directory)
    except OSError:
        return HelperState(None, "", "")
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        wrong = f"{where} is not a directory of yours that only you may write to, so hooks ask no helper there"
        return HelperState(None, "", f"{wrong}: remove it, and casrewind makes it anew")
    said = holder(lock_of(root))
    if said is None:
        return HelperState(None, "", "")
    number, _, rest = said.partition("\n")
    pid = int(number[:12]) if number.isascii() and number.isdigit() else 0
    answer = _ping(directory, protocol.name_of(os.fsencode(root)))
    end = f"hooks do their own work meanwhile; kill -KILL {pid} ends it" if pid else "hooks do their own work meanwhile"
    return HelperState(pid, rest.strip(), f"the helper of this project (process {pid or 'unknown'}) {answer}: {end}" if answer else "")


def holder(path: str) -> str | None:
    """What the holder of a lock says of itself, None where nobody holds it."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(lock, _MOST).decode("utf-8", "replace")
    except OSError:
        pass
    finally:
        os.close(lock)
    return None


def _ping(directory: str, name: str) -> str:
    """What is wrong with who listens at a socket, "" when it is a helper that lives. One that has work to do hangs up at once."""
    import socket

    end = time.monotonic() + _PATIENCE
    there = os.open(directory, fsio.DIRECTORY_FLAGS)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            talk.settimeout(_PATIENCE)
            talk.connect(f"/proc/self/fd/{there}/{name}")
            if protocol.peer(talk) != os.geteuid():
                return "is not who listens at its socket"
            talk.shutdown(socket.SHUT_WR)
            protocol.receive(talk, 1, end)
            return ""
    except TimeoutError:
        return "does not answer"
    except ConnectionResetError:
        return ""  # it hung up
    except OSError:
        return "cannot be reached, because something else has come into the place of its socket"
    finally:
        os.close(there)
