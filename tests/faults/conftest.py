"""What the fault tests need: the compiled shim, a fast file system, file systems of a given size, sweeps."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support.shim import compile_shim

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPOSITORY = os.path.dirname(TESTS)


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


@pytest.fixture
def sweep(shim, scratch):
    """sweep(operation, act, ...): the reports of support/sweep.py, over two processes, added up."""

    def work(operation, act, *, stride=1, **more):
        running = []
        for part in range(2):
            directory = scratch / f"{operation}-{act}-{part}"
            directory.mkdir()
            specification = {"operation": operation, "act": act, "stride": 2 * stride, "offset": part * stride, **more}
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "support.sweep", str(directory), json.dumps(specification)],
                    env={
                        "PATH": os.environ["PATH"], "LD_PRELOAD": shim, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
                        "PYTHONPATH": os.pathsep.join([REPOSITORY, TESTS]), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8",
                    },
                    stdout=subprocess.PIPE, cwd=directory,
                )
            )  # fmt: skip
        outputs = [process.communicate()[0] for process in running]
        assert [process.returncode for process in running] == [0, 0]
        one, two = (json.loads(output) for output in outputs)
        states = {name: one["states"].get(name, 0) + two["states"].get(name, 0) for name in {*one["states"], *two["states"]}}
        return {
            "counted": one["counted"],
            "expected": sum(len(range(1 + n * stride, each["counted"] + 1, 2 * stride)) for n, each in enumerate((one, two))),
            "states": states,
            **{key: one[key] + two[key] for key in ("points", "fired", "journals", "problems")},
            "answers": sorted(one["answers"] + two["answers"]),
        }

    return work
