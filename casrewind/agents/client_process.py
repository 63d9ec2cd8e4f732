"""A client's process, and the variables by which its shell commands know their session.

The danger prevented here: a value that is executed as a command. A shell reads the file of the variables, so all values
are quoted. The file may belong to another program, so lines are only appended.
"""

import errno
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple

_SPECIAL = str.maketrans({character: "\\" + character for character in '\\"$`'})
_SETTINGS_BYTES = 1 << 20  # bytes of an existing file that are searched for the lines


class ClientProcess(NamedTuple):
    """A process. Its start time distinguishes it from a later process with the same pid; "" if unknown."""

    pid: int
    start: str


class _Running(NamedTuple):
    """A process that runs: its parent's pid, its name, and its start time as an opaque word ("" if it is not ours to know)."""

    parent: int
    name: bytes
    start: str


def client_process(pid: int) -> ClientProcess | None:
    """The client with the pid that an event reports; None if the event reports none."""
    return ClientProcess(pid, _start_time_of(pid)) if pid > 1 else None


_SHELLS = frozenset({b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"fish"})


def caller_behind_shell(parent: int = 0) -> ClientProcess | None:
    """The parent process (or the process `parent`), or the parent's parent if the parent is a shell. Used for clients
    that do not report their pid. None if unknown."""
    pid = parent or os.getppid()
    with suppress(OSError):
        found = _look_up(pid)
        if found.name in _SHELLS:
            pid = found.parent
            found = _look_up(pid)
        return ClientProcess(pid, found.start) if pid > 1 and found.start else None
    return None


def is_alive_or_unknown(process: ClientProcess | None) -> bool:
    """True if a process still runs, or if that is unknown."""
    if process is None:
        return True
    try:
        if process.start:
            return _look_up(process.pid).start == process.start
        os.kill(process.pid, 0)
    except (FileNotFoundError, ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def session_variables(agent: str, session: str, transcript: str, root: str) -> dict[str, str]:
    """The known variables of a session."""
    named = {"AGENT": agent, "SESSION": session, "TRANSCRIPT_PATH": transcript, "PROJECT_ROOT": root}
    return {f"CASREWIND_{name}": value for name, value in named.items() if value}


def export_lines(variables: Mapping[str, str]) -> bytes:
    """The shell lines that export these variables. Values with a line break or NUL are omitted."""
    kept = {name: value for name, value in variables.items() if not set("\n\r\0").intersection(value)}
    return b"".join(os.fsencode(f'export {name}="{value.translate(_SPECIAL)}"\n') for name, value in kept.items())


def append_unless_there(path: str, data: bytes) -> None:
    """Append lines to a file that the client reads, unless it has them. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return  # clients name only regular files
        if data in fsio.read_file(path, _SETTINGS_BYTES):
            return
    with fsio.closing(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)) as fd:
        fsio.write_all(fd, data)


def _start_time_of(pid: int) -> str:
    """A process's start time as an opaque word, "" if unknown. Pids are reused; pid and start time are unique."""
    with suppress(OSError):
        return _look_up(pid).start
    return ""


def _look_up(pid: int) -> _Running:
    """Look up a process. Raises FileNotFoundError or ProcessLookupError if it has ended, another OSError if the system does not say."""
    if sys.platform == "darwin":
        from .. import libsystem

        return _Running(*libsystem.process_info(pid))
    with open(f"/proc/{pid}/stat", "rb") as file:
        before, _, after = file.read().rpartition(b")")
    fields = after.split()
    try:
        return _Running(int(fields[1]), before.partition(b"(")[2], fields[19].decode())
    except (IndexError, ValueError) as error:
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
