"""What the fault tests need: the compiled shim, a fast file system, file systems of a given size, sweeps."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support.shim import compile_shim

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPOSITORY = os.path.dirname(TESTS)


@pytest.fixture
def casrewind(process):
    """The command in a process of its own: what goes wrong in it is not to stay in this one."""
    return process


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """The path of the fault shim."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the fault shim is written for Linux")
    made = compile_shim(str(tmp_path_factory.mktemp("shim")))
    if made is None:
        pytest.skip("no C compiler for the fault shim")
    return made


@contextmanager
def mounted(place, *arguments):
    """Something mounted at a directory, or over a file; skips where that may not be done."""
    if not os.path.exists(place):
        os.makedirs(place)
    done = subprocess.run(["mount", *arguments, str(place)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=False)  # a test may have done it


@pytest.fixture
def mount(tmp_path):
    """mount("name", "-t", "tmpfs", ...) gives a directory under tmp_path; all are unmounted at the end."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("only root may mount")
    opened = []

    def work(name, *arguments):
        opened.append(mounted(tmp_path / name, *arguments))
        return opened[-1].__enter__()

    yield work
    for one in reversed(opened):
        one.__exit__(None, None, None)


@pytest.fixture
def scratch(tmp_path):
    """A directory for many small writes: in memory where that can be had, else an ordinary one."""
    place = tmp_path / "scratch"
    place.mkdir()
    is_ours = os.geteuid() == 0 and sys.platform.startswith("linux")
    if is_ours and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m", "none", place], check=False).returncode == 0:
        yield place
        subprocess.run(["umount", "--lazy", place], check=True)
    else:
        yield place


class Sweepers:
    """Processes that answer sweeps, each sweep in a fork (support/fault_sweep.py). They are started when they are needed, and stay."""

    def __init__(self, shim):
        self._shim, self._running = shim, {}

    def ask(self, questions):
        """The answers to one question for each process."""
        try:
            for number, question in enumerate(questions):
                print(json.dumps(question), file=self._process(number).stdin, flush=True)
            return [json.loads(self._process(number).stdout.readline()) for number in range(len(questions))]
        except BaseException:  # an answer that comes too late would be taken for the next one
            self.end()
            raise

    def _process(self, number):
        if number not in self._running:
            self._running[number] = subprocess.Popen(
                [sys.executable, "-m", "support.fault_sweep"],
                env={
                    "PATH": os.environ["PATH"], "LD_PRELOAD": self._shim, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
                    "PYTHONPATH": os.pathsep.join([REPOSITORY, TESTS]), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8",
                },
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", start_new_session=True,
            )  # fmt: skip
        return self._running[number]

    def end(self):
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        self._running.clear()


@pytest.fixture(scope="session")
def sweepers(shim):
    opened = Sweepers(shim)
    yield opened
    opened.end()


@pytest.fixture
def sweep(sweepers, scratch):
    """sweep(operation, act, ...): the report of support/fault_sweep.py. A sweep of every point is long: two processes share it."""

    def work(operation, act, *, stride=1, offset=0, **more):
        parts = 2 if stride == 1 else 1
        questions = []
        for part in range(parts):
            directory = scratch / f"{operation}-{act}-{part}"
            directory.mkdir()
            specification = {"operation": operation, "act": act, "stride": parts * stride, "offset": offset + part * stride, **more}
            questions.append([str(directory), specification])
        reports = sweepers.ask(questions)
        assert not any("raised" in report for report in reports), reports
        names = {name for report in reports for name in report["states"]}
        return {
            "counted": reports[0]["counted"],
            "expected": sum(len(range(1 + offset + n * stride, each["counted"] + 1, parts * stride)) for n, each in enumerate(reports)),
            "states": {name: sum(report["states"].get(name, 0) for report in reports) for name in names},
            **{key: sum(report[key] for report in reports) for key in ("points", "fired", "journals")},
            "problems": [problem for report in reports for problem in report["problems"]],
            "answers": sorted(one for report in reports for one in report["answers"]),
        }

    return work
