"""Runs of pytest with tests that run out of time: each is named, and all others have their results."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the state of a process is read from /proc")
TESTS = """
import os, signal, subprocess, time
import pytest

def wait_without_a_line():
    while True:
        pass

LINES = wait_without_a_line.__code__
wait_without_a_line.__code__ = LINES.replace(co_linetable=bytes([0xF8 | len(LINES.co_code) // 2 - 1]))

HELD = []

def tell(process_does):
    HELD.append(subprocess.Popen(["sh", "-c", process_does]))

@pytest.mark.parametrize("number", range(30))
def test_quick(number):
    pass
"""
ITSELF = TESTS + """
@pytest.mark.timeout(2)
def test_stopped_and_continued():
    tell("sleep 4; kill -CONT $PPID")
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)

@pytest.mark.timeout(1)
def test_at_an_instruction_without_a_line():
    wait_without_a_line()

@pytest.mark.timeout(5)
def test_between_two_phases():
    pass

@pytest.mark.timeout(1, method="thread")
def test_that_ends_its_process():
    time.sleep(60)
"""
CONFTEST = """
import time
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if item.name == "test_between_two_phases" and call.when == "call":
        time.sleep(6)
    return (yield)
"""
WATCHED = TESTS + """
@pytest.mark.timeout(2)
def test_stopped():
    os.kill(os.getpid(), signal.SIGSTOP)

@pytest.mark.timeout(2)
def test_stopped_for_good():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # between two stops there was time for a report on a busy machine
    tell("while kill -STOP $PPID; do sleep 0.02; done")
    time.sleep(60)
"""


def run(place, tests, grace):
    """(the outcome of each test, by name; all that was said)."""
    (place / "test_it.py").write_text(tests)
    (place / "conftest.py").write_text(CONFTEST)
    (place / "pytest.ini").write_text("[pytest]\ntimeout = 300\nfilterwarnings = error\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "3", "--dist", "loadgroup", "-p", "support.late_tests", "-p", "no:cacheprovider", "-rA", "-v"],
        cwd=place, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "CASREWIND_TEST_GRACE": str(grace)},
    )  # fmt: skip
    outcomes = {}
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR) test_it\.py::(\S+)", done.stdout, re.MULTILINE):
        outcomes.setdefault(name, []).append(outcome)
    assert "INTERNALERROR" not in done.stdout and done.returncode == 1, done.stdout + done.stderr
    assert sum(found == ["PASSED"] for name, found in outcomes.items() if name.startswith("test_quick")) == 30, done.stdout
    return {name: found for name, found in outcomes.items() if not name.startswith("test_quick")}, done.stdout


def test_who_can_tell_that_it_is_late_does_and_the_run_goes_on(tmp_path):
    outcomes, said = run(tmp_path, ITSELF, 200)
    assert outcomes.pop("test_between_two_phases") == ["PASSED"], "all of it was done in time, but for what pytest does itself"
    late = ("test_stopped_and_continued", "test_at_an_instruction_without_a_line", "test_that_ends_its_process")
    assert outcomes == {name: ["FAILED"] for name in late}
    assert "os.kill(os.getpid(), signal.SIGSTOP)\n" in said and "def wait_without_a_line():\n" in said, "where they stood"
    assert said.count("replacing crashed worker") == 1


def test_who_says_nothing_is_continued_or_killed_and_the_run_goes_on(tmp_path):
    outcomes, said = run(tmp_path, WATCHED, 4)
    assert outcomes == {"test_stopped": ["FAILED"], "test_stopped_for_good": ["FAILED"]}
    assert "os.kill(os.getpid(), signal.SIGSTOP)\n" in said, "where the first of them stood"
    assert "said nothing more: the worker was killed" in said and said.count("replacing crashed worker") == 1
