"""What a container does to processes, without one: its first process ends, and with it every other."""

import os
import shutil
import subprocess

import pytest


def first_process():
    """The start of a command that runs as the first process of a namespace of processes, with mounts of its own."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no namespace of processes can be made here")
    return command
