"""The first of README's two commands, in a fresh copy of the repository: it sets itself up and does the main job."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.newcomer import CHECKOUT, pip_settings

TOP = Path(__file__).resolve().parent.parent.parent


@pytest.mark.long
def test_the_main_job_before_your_eyes(tmp_path):
    clone, scratch = tmp_path / "clone", tmp_path / "scratch"
    clone.mkdir()
    scratch.mkdir()
    for name in CHECKOUT:
        (shutil.copytree if (TOP / name).is_dir() else shutil.copy)(TOP / name, clone / name)
    environment = {
        **pip_settings(), "HOME": str(tmp_path), "TMPDIR": str(scratch), "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"], "PYTHON": os.path.join(sys.base_prefix, "bin", "python3"),
    }  # fmt: skip
    done = subprocess.run(["sh", "docs/try.sh"], cwd=clone, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nequal: " in done.stdout and "\nundone: " in done.stdout and "saved " in done.stdout
    assert list(scratch.iterdir()) == [], "it takes away what it made"
