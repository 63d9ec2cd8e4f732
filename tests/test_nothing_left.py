"""What tests/run.sh sees of what a run leaves behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "support/nothing_left.py"
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
ROOT = pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root has places of its own")


def run(script):
    done = subprocess.run(
        [sys.executable, SCRIPT, "sh", "-c", script], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATIENCE": "1"}, cwd="/",
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_it_exits_as_the_command_does(code):
    assert run(f"(sleep 0.5 &) ; exit {code}")[0] == code


@LINUX
def test_a_process_that_outlives_the_run_is_named_and_ended():
    code, said = run("setsid sleep 4242 > /dev/null 2>&1 & echo $! >&2; sleep 0.3")
    number, *lines = said.splitlines()
    assert (code, lines) == (1, ["LEFT BEHIND: process sleep 4242"])
    assert not os.path.exists(f"/proc/{number}")


@ROOT
def test_what_is_left_in_temporary_directories_and_as_mounts_is_named():
    code, said = run("echo a > /tmp/forgotten; echo b > /dev/shm/too; mkdir /tmp/m /tmp/pytest-of-root; mount -t tmpfs none /tmp/m")
    assert code == 1
    assert said.splitlines() == [
        f"LEFT BEHIND: {what}" for what in ("mount /tmp/m", "file in /tmp: forgotten", "file in /tmp: m", "file in /dev/shm: too")
    ]
    assert not os.path.exists("/tmp/forgotten") and not os.path.exists("/dev/shm/too")


@ROOT
def test_a_clone_below_tmp_has_a_tmp_of_its_own_too(tmp_path):
    """People try things in /tmp: what is there stays as it is, and the run finds its own files."""
    clone = tmp_path / "a clone"
    script = clone / "tests/support/nothing_left.py"
    script.parent.mkdir(parents=True)
    script.write_bytes(SCRIPT.read_bytes())
    words = f"cat {script.name} > /tmp/forgotten && pwd; touch made; ls /tmp >&2"
    done = subprocess.run(
        [sys.executable, str(script), "sh", "-c", words], capture_output=True, text=True, timeout=120, cwd=script.parent,
        env={**os.environ, "PATIENCE": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, f"{script.parent}\n"), done.stderr
    assert done.stderr.splitlines()[-1] == "LEFT BEHIND: file in /tmp: forgotten"
    assert not os.path.exists("/tmp/forgotten")
    assert sorted(os.listdir(script.parent)) == ["made", "nothing_left.py"]
