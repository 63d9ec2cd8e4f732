"""Variables for an agent's shell commands that name their session.

The danger prevented here: a value that is executed as a command. A shell reads the file, so all values are quoted. The
file may belong to another program, so lines are only appended.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

_SPECIAL = str.maketrans({character: "\\" + character for character in '\\"$`'})
_MOST = 1 << 20  # bytes of an existing file that are searched for the lines


def of_session(agent: str, session: str, transcript: str, root: str) -> dict[str, str]:
    """The known variables of a session."""
    named = {"AGENT": agent, "SESSION": session, "TRANSCRIPT_PATH": transcript, "PROJECT_ROOT": root}
    return {f"CASREWIND_{name}": value for name, value in named.items() if value}


def lines(variables: Mapping[str, str]) -> bytes:
    """The shell lines that export these variables. Values with a line break or NUL are omitted."""
    kept = {name: value for name, value in variables.items() if not set("\n\r\0").intersection(value)}
    return b"".join(os.fsencode(f'export {name}="{value.translate(_SPECIAL)}"\n') for name, value in kept.items())


def append(path: str, data: bytes) -> None:
    """Append lines to a file that the client reads, unless it has them. Raises OSError."""
    from .. import fsio

    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return  # clients name only regular files
        if data in fsio.read_file(path, _MOST):
            return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        fsio.write_all(fd, data)
    finally:
        os.close(fd)
