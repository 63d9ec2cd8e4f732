"""Commands as a user who is not root: root may do everything, so what permissions forbid shows only there."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest

NOBODY = 65534
PREFIX = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def require():
    """Skip the test where nobody cannot be had, or cannot run this interpreter."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
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
        shutil.rmtree(place, ignore_errors=True)


def give(*places):
    """Let nobody own directories and everything in them."""
    for place in places:
        subprocess.run(["chown", "-R", "-h", f"{NOBODY}:{NOBODY}", str(place)], check=True)


def run(*command, code=0):
    """Run any command as nobody."""
    done = subprocess.run([*PREFIX, *command], capture_output=True, check=False)
    assert done.returncode == code, done
    return done
