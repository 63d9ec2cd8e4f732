"""Gives the command line that starts this installation of casrewind: for a client's hooks, and for processes that a hook starts.

The danger prevented here: a module of the project, or one on a PYTHONPATH that an agent's shell has set, is imported in place
of one of ours or of Python's. So the interpreter runs with -I: it ignores environment variables, the user's own packages and the
working directory. `__main__.py` finds our package by its own place.
"""

import os
import sys

INSIDE = "CASREWIND_INSIDE"
"""Set for a command that is run by a hook."""
TRIAL = "CASREWIND_TRIAL"
"""Set for a hook that doctor tries: it may start nothing that outlives it."""
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")


def argv() -> list[str]:
    """The words to run casrewind by, whatever the PATH, the environment and the working directory are."""
    if not os.path.isfile(_SCRIPT):  # in an archive: only the import machinery knows the way
        return [sys.executable, "-P", "-m", "casrewind"]
    return [sys.executable, "-I", _SCRIPT]
