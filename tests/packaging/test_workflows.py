"""The workflow of the public repository can be read, and names tests and options that there are. It cannot run here."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from support import folding_filesystem

TOP = Path(__file__).parents[2]
TEXT = (TOP / ".github/workflows/macos.yml").read_text("utf-8")


@pytest.fixture
def steps():
    """The shell lines of each step that has some."""
    (job,) = yaml.safe_load(TEXT)["jobs"].values()
    assert all(len(set(step) & {"uses", "run"}) == 1 for step in job["steps"])
    return [step["run"].splitlines() for step in job["steps"] if "run" in step]


def test_it_says_first_that_it_has_not_run():
    assert TEXT.startswith("# This workflow has not run yet")


def test_every_step_runs_tests_that_are_there_with_options_that_there_are(steps, pytestconfig):
    lines = [shlex.split(line) for step in steps for line in step if "tests/run.sh" in line]
    assert len(lines) == len(steps)
    paths = [word for line in lines for word in line if word.startswith("tests/")]
    assert [path for path in paths if not (TOP / path).exists()] == []
    for option in {word for line in lines for word in line if word.startswith("--")}:
        pytestconfig.getoption(option)
    variables = {word.partition("=")[0] for line in lines for word in line if word.startswith("CASREWIND_")}
    assert variables == {f"CASREWIND_TEST_DISK_FOLDS_{folds.upper()}" for folds in folding_filesystem.DISKS}


def test_every_volume_is_made_attached_and_used(steps):
    made = {}
    for step in steps:
        words = [shlex.split(line) for line in step]
        for create in (line for line in words if line[:2] == ["hdiutil", "create"]):
            (attach,) = (line for line in words if line[:2] == ["hdiutil", "attach"])
            roots = {line[line.index("--roots") + 1] for line in words if "--roots" in line}
            assert attach[2] == create[-1] and roots == {attach[attach.index("-mountpoint") + 1]}
            made[create[create.index("-fs") + 1]] = re.sub(r"\W", "", attach[2])
    assert set(made) == {"Case-sensitive APFS", "HFS+", "ExFAT"} and len(set(made.values())) == 3
