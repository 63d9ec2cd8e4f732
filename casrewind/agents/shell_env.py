"""Variables for the shell commands of an agent: which session they run in.

The danger prevented here: a name that becomes a command. The file is read by a shell, so everything in it is quoted; it
may be somebody else's, so it is only ever added to.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

_SPECIAL = str.maketrans({character: "\\" + character for character in '\\"$`'})
_MOST = 1 << 20  # bytes of a file that is looked through for what is there already


def of_session(agent: str, session: str, transcript: str, root: str) -> dict[str, str]:
    """The variables of a session, those that are known."""
    named = {"AGENT": agent, "SESSION": session, "TRANSCRIPT_PATH": transcript, "PROJECT_ROOT": root}
    return {f"CASREWIND_{name}": value for name, value in named.items() if value}


def lines(variables: Mapping[str, str]) -> bytes:
    """What a shell has to read to have these variables. A value with a line break or NUL in it is left out."""
    kept = {name: value for name, value in variables.items() if not set("\n\r\0").intersection(value)}
    return b"".join(os.fsencode(f'export {name}="{value.translate(_SPECIAL)}"\n') for name, value in kept.items())


def append(path: str, data: bytes) -> None:
    """Put lines at the end of a file that the client reads, unless it has them. Raises OSError."""
    from .. import fsio

    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return  # no client names anything else
        if data in fsio.read_file(path, _MOST):
            return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        fsio.write_all(fd, data)
    finally:
        os.close(fd)
