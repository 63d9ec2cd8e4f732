"""Finds the helper (casrewind watch) of a project, and starts one for a hook.

Three dangers are prevented here. Two helpers could start for one project: a lock prevents the second. A client could
wait for the helper, because it inherits a pipe of the client's. A stopped or dead helper could look like a working
helper.
"""

import fcntl
import os
import stat
import sys
import time
from contextlib import suppress

from .. import environment, fsio, launch, locations
from .._typing import NamedTuple
from ..messages import printable
from . import protocol

_PATIENCE = 2.0
"""Seconds that doctor waits for an answer of a helper."""
_MOST = 4096  # bytes read of a lock file


def start_unless_running(root: str) -> None:
    """Start the helper of a root if none runs, and do not wait for it. Raises OSError."""
    if not sys.platform.startswith("linux") or launch.TRIAL in os.environ or runs_or_starts(root):
        return
    if locations.ownership_problem(environment.data_directory()) or locations.ownership_problem(environment.helpers_directory()):
        return  # a helper refuses to start there
    import subprocess

    command, null = [*launch.own_command(), "-C", root, "watch", "--auto"], subprocess.DEVNULL
    variables = {**os.environ, "CASREWIND_HOME": environment.data_directory()}  # absolute: the helper runs in another directory
    child = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/", env=variables)
    child.returncode = 0  # the child continues; this stops the ResourceWarning


def lock_path(root: str) -> str:
    """The path of the lock file that the helper of a root holds while it runs. The file contains the helper's state."""
    return os.path.join(environment.helpers_directory(), protocol.socket_name(os.fsencode(root)) + ".lock")


def runs_or_starts(root: str) -> bool:
    """True if a helper of a root runs or starts."""
    return content_if_locked(lock_path(root)) is not None


def write_helper_state(lock: int, *said: str) -> None:
    """Write this process's id and the lines `said` into a lock file. A helper adds the reason why it
    cannot watch, or ""."""
    with suppress(OSError):
        text = "\n".join([str(os.getpid()), *map(printable, said), ""]).encode("utf-8", "surrogateescape")
        os.pwrite(lock, text, 0)
        os.ftruncate(lock, len(text))


class HelperState(NamedTuple):
    """The helper of a root.

    `pid` is its process: 0 if unknown, None if no helper runs. `unwatched` is why it compares every file, or "".
    `wrong` is why hooks cannot reach it and what to do, or "".
    """

    pid: int | None
    unwatched: str
    wrong: str


def find_helper(root: str) -> HelperState:
    """Find the helper of a root and check that it answers. Raises nothing."""
    directory = environment.helpers_directory()
    where = printable(directory)
    try:
        status = os.lstat(directory)
    except OSError:
        return HelperState(None, "", "")
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        wrong = f"{where} is not a directory of yours that only you may write to, so hooks ask no helper there"
        return HelperState(None, "", f"{wrong}: remove it, and casrewind makes a new one")
    said = content_if_locked(lock_path(root))
    if said is None:
        return HelperState(None, "", "")
    number, _, rest = said.partition("\n")
    pid = int(number[:12]) if number.isascii() and number.isdigit() else 0
    answer = _why_no_working_helper_answers(directory, protocol.socket_name(os.fsencode(root)))
    end = f"hooks do the work themselves; kill -KILL {pid} ends it" if pid else "hooks do the work themselves"
    return HelperState(pid, rest.strip(), f"the helper of this project (process {pid or 'unknown'}) {answer}: {end}" if answer else "")


def content_if_locked(path: str) -> str | None:
    """The content of a lock file while a process holds the lock, else None."""
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


def _why_no_working_helper_answers(directory: str, name: str) -> str:
    """Why the process at a socket is no working helper, or "". A busy helper closes the connection at once."""
    import socket

    end = time.monotonic() + _PATIENCE
    there = os.open(directory, fsio.DIRECTORY_FLAGS)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            talk.settimeout(_PATIENCE)
            talk.connect(f"/proc/self/fd/{there}/{name}")
            if protocol.peer_user(talk) != os.geteuid():
                return "does not own its socket"
            talk.shutdown(socket.SHUT_WR)
            protocol.read_until(talk, 1, end)
            return ""
    except TimeoutError:
        return "does not answer"
    except ConnectionResetError:
        return ""  # a busy helper
    except OSError:
        return "cannot be reached, because its socket was replaced"
    finally:
        os.close(there)
