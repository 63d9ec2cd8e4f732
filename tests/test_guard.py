"""The guard of tests/conftest.py: no test reaches the real home, and one that tries is an error."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_home_is_nowhere_and_no_variable_leaks_in(no_real_home):
    import pwd

    assert os.environ["HOME"].startswith(str(no_real_home)) and not os.path.exists(os.environ["HOME"])
    assert os.path.expanduser("~") != pwd.getpwuid(os.getuid()).pw_dir
    assert [name for name in os.environ if name.startswith(("CASREWIND_", "XDG_"))] == []


def test_a_command_gets_the_tests_home(root, home, casrewind):
    store = casrewind("save", code=0) and casrewind.json("status")["store"]
    assert store.startswith(str(home) + "/") and not os.environ["HOME"].startswith(str(home))


@pytest.fixture
def suite(tmp_path):
    """Run a test of its own under a copy of the guard: (exit code, what pytest said)."""
    (tmp_path / "suite").mkdir()
    shutil.copy(HERE / "conftest.py", tmp_path / "suite")

    def run(body, **variables):
        (tmp_path / "suite/test_it.py").write_text(body)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", os.devnull, "--basetemp", "../base", "-o", f"pythonpath={shlex.quote(str(HERE))}", "."],
            cwd=tmp_path / "suite", env={"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE.parent), **variables}, capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


WRITES = """
import casrewind
def test_it(tmp_path):
    with casrewind.open(tmp_path) as workspace:
        workspace.save()
"""


def test_a_test_that_writes_to_the_home_directory_is_an_error(suite, tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    code, said = suite(WRITES, HOME=str(real), CASREWIND_HOME=str(real / "data"), XDG_DATA_HOME=str(real / "xdg"))
    assert code == 1 and "a test wrote to the home directory" in said
    assert list(real.iterdir()) == [], "the real home was reached all the same"


def test_a_test_that_chooses_its_own_home_is_none(suite):
    body = WRITES.replace("(tmp_path)", "(tmp_path, settings)", 1).replace("open(tmp_path)", "open(tmp_path / 'p', settings)")
    code, said = suite(body.replace("    with", "    (tmp_path / 'p').mkdir()\n    with"))
    assert code == 0, said


def test_what_a_test_closed_can_be_removed_after_the_run(suite, tmp_path):
    body = """
import os
def test_it(tmp_path):
    (tmp_path / "closed/inside").mkdir(parents=True)
    os.chmod(tmp_path / "closed/inside", 0)
    os.chmod(tmp_path / "closed", 0)
    assert False
"""
    assert suite(body)[0] == 1
    (closed,) = (tmp_path / "base").glob("test_it0/closed")
    assert [path.stat().st_mode & 0o777 for path in (closed, closed / "inside")] == [0o700, 0o700]
