"""The benchmark of what a person waits for runs, on few checkpoints, and measures what it names. No test here looks at a time."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import terminal

TOP = Path(__file__).parent.parent.parent


def test_its_store_is_made(tmp_path, capsys):
    terminal._prepare(str(tmp_path), argparse.Namespace(tree=None, files=20, checkpoints=6))
    assert capsys.readouterr().out.startswith("20 files, 6 checkpoints, made in ")


@pytest.mark.long
def test_every_line_is_measured_and_nothing_is_left(tmp_path):
    pytest.importorskip("textual")
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": str(TOP)}
    words = [sys.executable, "-m", "benchmarks.terminal", "--files", "60", "--checkpoints", "12", "--rounds", "1"]
    done = subprocess.run(words, cwd=TOP, env=environ, capture_output=True, text=True, timeout=300, check=True)
    first, heading, *lines = done.stdout.splitlines()
    assert first.startswith("60 files, 12 checkpoints, made in ") and "x python -c pass" in heading
    measured = ["python -c pass", *(f"casrewind list{more}" for more in ("", ", terminal", " -n 20", " --json"))]
    assert [line[:28].rstrip() for line in lines] == [*measured, "picker: first paint", "picker: its timeline", "picker: edited since"]
    assert not any(tmp_path.iterdir())
