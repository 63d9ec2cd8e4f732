"""The command line that starts this installation of casrewind: for clients' hooks and for processes that a hook starts.

The danger prevented here: Python imports a module from the project, or from the PYTHONPATH of an agent's shell, instead
of ours or its own. So the interpreter runs with -I, which ignores environment variables, user packages and the working
directory. `__main__.py` finds our package relative to itself.
"""

import os
import sys
from contextlib import suppress

INSIDE = "CASREWIND_INSIDE"
"""A hook sets it for a command that the hook runs. The value is the session in which a person typed the
command, else UNKNOWN_SESSION."""
UNKNOWN_SESSION = "1"
TYPED_NAME = "CASREWIND_TYPED_NAME"
"""Set beside INSIDE: what a person types there for casrewind, as `/casrewind`."""
TRIAL = "CASREWIND_TRIAL"
"""Set for a hook that doctor tries: it must not start a process that outlives it."""
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")


def own_command() -> list[str]:
    """The command line of this installation, independent of PATH, environment and working directory."""
    if not os.path.isfile(_SCRIPT):  # in an archive: only Python's import system can read it
        return [sys.executable, "-P", "-m", "casrewind"]
    return [sys.executable, "-I", _SCRIPT]


def spawn_in_background(command: list[str], stdin: int = -1) -> int:
    """Start a command in its own session. `stdin`: the open file that it has as its standard input, none by default. It has no
    other file of this process: not one that a client left open, and would wait for. Returns its id. Raises OSError."""
    for name in os.listdir("/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd"):
        with suppress(OSError):  # the descriptor of this list is closed
            if int(name) > 2:
                os.set_inheritable(int(name), False)
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    given = null if stdin < 0 else [(os.POSIX_SPAWN_DUP2, stdin, 0), *null[1:]]
    # no subprocess: its import takes as long as a small save
    return os.posix_spawn(command[0], command, os.environ, file_actions=given, setsid=True)
