"""A benchmark, run as a person runs it, with whatever it makes for itself below one directory."""

import os
import subprocess
import sys
from pathlib import Path

from support.sample_start import marks_of

TOP = Path(__file__).parent.parent.parent

NAMES = ("compare", "history", "directories", "growth", "hooks", "in_one_process", "remote", "scale")
"""The benchmarks whose tests take seconds."""


def marks(name):
    """The marks of the tests of a benchmark: a push runs three, others after a change of the product, `--run-long` all."""
    return marks_of(name, NAMES, 3)


def run(module, *arguments, scratch, **variables):
    """(exit code, stdout, stderr) of a benchmark."""
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(scratch), "HOME": os.environ["HOME"], "PYTHONPATH": str(TOP), **variables}
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=TOP, env=environ, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr
