"""How this very casrewind is started: by a client for its hooks, by a hook for what it does not wait for.

The dangers prevented here: a module of the project's, or one on a PYTHONPATH that an agent's shell has set, that is taken
for one of ours or of the standard library; and seconds a day that go by while every hook looks through the packages of
somebody's whole environment. So the interpreter is started alone (-I: no variable, no directory of anybody's counts; -S:
no `site`), and finds our package and what it needs by the place of this file.
"""

import os
import sys

INSIDE = "CASREWIND_INSIDE"
"""Set for a command that is run by a hook."""
TRIAL = "CASREWIND_TRIAL"
"""Set for a hook that doctor tries: it may start nothing that outlives it."""
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")


def command() -> list[str]:
    """The words to run casrewind by, whatever the PATH, the environment and the working directory are."""
    if not os.path.isfile(_SCRIPT):  # in an archive: only the import machinery knows the way
        return [sys.executable, "-P", "-m", "casrewind"]
    return [sys.executable, "-I", "-S", _SCRIPT]
