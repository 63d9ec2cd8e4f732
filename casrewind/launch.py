"""The command line that starts this installation of casrewind: for clients' hooks and for processes that a hook starts.

The danger prevented here: Python imports a module from the project, or from the PYTHONPATH of an agent's shell, instead
of ours or its own. So the interpreter runs with -I, which ignores environment variables, user packages and the working
directory. `__main__.py` finds our package relative to itself.
"""

import os
import sys

INSIDE = "CASREWIND_INSIDE"
"""A hook sets it for a command that the hook runs. The value is the session in which a person typed the
command, else 1."""
TRIAL = "CASREWIND_TRIAL"
"""Set for a hook that doctor tries: it must not start a process that outlives it."""
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")


def own_command() -> list[str]:
    """The command line of this installation, independent of PATH, environment and working directory."""
    if not os.path.isfile(_SCRIPT):  # in an archive: only Python's import system can read it
        return [sys.executable, "-P", "-m", "casrewind"]
    return [sys.executable, "-I", _SCRIPT]
