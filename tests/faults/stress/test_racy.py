"""No edit is missed, however soon after a save it comes: 65 rounds of save, edit of the same size, save, edit again.

Once with the times that the file system gives, once with whole seconds in every stat result (the fault shim): then
nearly every edit of these rounds leaves the very stamp that the file had before.
"""

import json
import os
import subprocess
import sys

import pytest

from support.race_after_save import rounds

ROUNDS = 65
PUT_BACK = 50
TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.turns(2)
def test_edits_right_after_a_save(scratch):
    found = rounds(str(scratch), ROUNDS)
    print(found)
    assert found["missed"] == []
    assert found["rounds"] == ROUNDS


def in_process(shim, scratch, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "support.race_after_save", str(scratch), *arguments],
        capture_output=True, text=True, cwd=scratch,
        env={
            "PATH": os.environ["PATH"], "LD_PRELOAD": shim, "SHIM_SECONDS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.turns(2)
def test_edits_right_after_a_save_with_whole_seconds(shim, scratch):
    found = in_process(shim, scratch, "rounds", str(ROUNDS))
    print(found)
    assert found["missed"] == []
    assert found["same stamp"] > ROUNDS / 2, "the rounds were too slow to be a test"


def test_mtime_put_back_after_an_edit(scratch):
    from support.race_after_save import put_back

    found = put_back(str(scratch), PUT_BACK)
    print(found)
    assert found == {"edited": PUT_BACK, "missed": []}


def test_mtime_put_back_after_an_edit_with_whole_seconds(shim, scratch):
    """The edit comes seconds after the save, when the stamps are believed: the change time tells of it."""
    found = in_process(shim, scratch, "put_back", str(PUT_BACK))
    print(found)
    assert found == {"edited": PUT_BACK, "missed": []}


@pytest.mark.long
def test_ten_thousand_rounds(scratch):
    found = rounds(str(scratch), 10_000)
    print(found)
    assert found["missed"] == []
    assert found["rounds"] == 10_000


@pytest.mark.long
def test_ten_thousand_rounds_with_whole_seconds(shim, scratch):
    found = in_process(shim, scratch, "rounds", "10000")
    print(found)
    assert found["missed"] == []
    assert found["same stamp"] > 5000, "the rounds were too slow to be a test"
