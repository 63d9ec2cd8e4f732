"""The command line beside a plain model of it, through random histories: see walk.py, which runs any of them again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.sample_start import by_turns

PROGRAM = Path(__file__).parent / "walk.py"


def walk(place, *words):
    done = subprocess.run([sys.executable, PROGRAM, "--place", place, *words], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    print(done.stdout.strip())


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", by_turns([1, 2], 1))
def test_a_few_histories(tmp_path, seed):
    walk(tmp_path, "--seed", str(seed), "--steps", "110", "--each", "55")


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_twenty_thousand_steps(tmp_path):
    walk(tmp_path, "--seed", "1000", "--steps", "20000", "--go-on")


@pytest.mark.turns(3)
def test_a_command_line_that_does_otherwise_is_found(tmp_path):
    """A restore that makes a file which no checkpoint holds: the history is cut to a few steps, and printed."""
    broken = tmp_path / "casrewind"
    broken.mkdir()
    real = PROGRAM.parents[2] / "casrewind" / "__main__.py"
    (broken / "__main__.py").write_text(
        "import subprocess, sys\n"
        f"code = subprocess.call([sys.executable, '-I', {str(real)!r}, *sys.argv[1:]])\n"
        "if code == 0 and 'restore' in sys.argv and not {'--to', '--dry-run'} & {*sys.argv}:\n"
        "    open(sys.argv[sys.argv.index('-C') + 1] + '/stray', 'w').close()\n"
        "sys.exit(code)\n"
    )
    words = ["--seed", "1", "--steps", "600", "--each", "60", "--shrink", "1", "--place", tmp_path]
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, cwd="/", env={**os.environ, "CASREWIND_TOP": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1 and "DIFFERENCE with --seed" in done.stdout and "$ casrewind restore" in done.stdout, done.stdout[-3000:]
