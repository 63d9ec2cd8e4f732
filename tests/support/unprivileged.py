"""Commands as a user whom permissions hold: nobody where root runs the tests, else the user who runs them."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest

NOBODY = os.geteuid() or 65534
ALONE = os.geteuid() or 65535 - 1000
"""A user with no other process. The tests beside this one run commands as nobody, which count against that user's limits."""


def prefix_of(user):
    """The start of a command that runs as a user."""
    return () if os.geteuid() else ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")


PREFIX = prefix_of(NOBODY)


def require():
    """Skip the test where root cannot become nobody, or nobody cannot run this interpreter."""
    if os.geteuid() != 0:
        return
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv (util-linux)")
    probe = subprocess.run(
        [*PREFIX, sys.executable, "-c", "import casrewind.workspace"], capture_output=True, check=False
    )
    if probe.returncode:
        pytest.skip("nobody cannot run this interpreter")


@contextmanager
def open_directory(above=None):
    """A directory that nobody can reach, in `above`: pytest's own are closed to everybody but root."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="casrewind-nobody-", dir=above))
    try:
        place.chmod(0o755)
        yield place
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", str(place)], capture_output=True, check=False)  # else a plain user cannot remove it
        shutil.rmtree(place, ignore_errors=True)


def give(*places, user=NOBODY):
    """Let nobody, or another user, own directories and everything in them. What a plain user made is his already."""
    for place in places if os.geteuid() == 0 else ():
        subprocess.run(["chown", "-R", "-h", f"{user}:{user}", str(place)], check=True)


def run(*command, code=0):
    """Run any command as nobody."""
    done = subprocess.run([*PREFIX, *command], capture_output=True, check=False)
    assert done.returncode == code, done
    return done
