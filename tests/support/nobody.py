"""Commands as a user who is not root: root may do everything, so what permissions forbid shows only there."""

import os
import shutil
import subprocess
import sys

import pytest

NOBODY = 65534
PREFIX = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def require():
    """Skip the test where nobody cannot be had, or cannot run this interpreter."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv (util-linux)")
    probe = subprocess.run([*PREFIX, sys.executable, "-c", "import casrewind.workspace"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("nobody cannot run this interpreter")


def give(*places):
    """Let nobody own directories and everything in them; let everybody pass through what is above them."""
    for place in places:
        for above in place.parents:
            if above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
                above.chmod(above.stat().st_mode | 0o011)
        subprocess.run(["chown", "-R", "-h", f"{NOBODY}:{NOBODY}", str(place)], check=True)


def run(*command, code=0):
    """Run any command as nobody."""
    done = subprocess.run([*PREFIX, *command], capture_output=True, check=False)
    assert done.returncode == code, done
    return done
