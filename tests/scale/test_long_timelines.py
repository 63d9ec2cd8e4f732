"""What a person and a hook ask of a store all day is as much work in a long timeline as in a short one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import open as open_workspace
from support import function_calls
from support.fake_client import Client
from support.trees import plant

TOP = str(Path(__file__).parent.parent.parent)
MORE = 1.15
"""By how much the work may grow where a timeline is longer: rows of an index lie deeper, numbers have more digits."""


def works(casrewind, root, *words, payload=b""):
    """(functions called before the first rows, in all; what it prints)."""
    done = subprocess.run(
        [sys.executable, function_calls.__file__, *words], input=payload, capture_output=True, cwd=root, timeout=60,
        env={**casrewind.environment, "CLAUDE_PROJECT_DIR": str(root), "CASREWIND_BUDGET": "50s", "PYTHONPATH": TOP},
    )  # fmt: skip
    first, whole = map(int, done.stderr.splitlines()[-1].split())
    return first, whole, done.stdout.decode()


@pytest.mark.turns(3)
def test_a_hook_and_a_status_are_as_much_work_in_a_timeline_thirty_times_as_long(casrewind, root, settings):
    plant(root, {"f": b"1"})
    client, found, made = Client(casrewind, root), [], 0
    client.send(client.payload("SessionStart.startup"))
    client.wait_for(1)
    for number in (6, 200):
        with open_workspace(str(root), settings) as workspace:
            for made in range(made, number):
                workspace.save(f"by hand {made}")
        now = []
        for name in ("SessionStart.resume", "UserPromptSubmit.prompt", "Stop.plain"):
            for step in ("first", "measured"):
                plant(root, {"f": b"%s %d" % (step.encode(), number)})
                before = len(client.points())
                now.append(works(casrewind, root, "hook", "claude", payload=client.payload(name, prompt_id=f"{step} {number}"))[1])
                client.wait_for(before + 1)
        works(casrewind, root, "status", "--json")
        _, whole, printed = works(casrewind, root, "status", "--json")
        assert json.loads(printed)["checkpoints"] == len(client.points()) > number
        found.append([*now, whole])
    assert all(long < MORE * short for short, long in zip(*found, strict=True)), found


@pytest.mark.turns(3)
def test_the_first_rows_wait_for_no_more_of_a_long_timeline(casrewind, root, settings):
    """A list in a pipe gets its newest rows when the newest checkpoints are read. All others follow."""
    plant(root, {"f": b""})
    casrewind("run", "--", "true", code=0)
    found = []
    for first, last in ((0, 300), (300, 400)):
        with open_workspace(str(root), settings) as workspace:
            for step in range(first, last):
                plant(root, {"f": b"edit %d" % step})
                workspace.save(f"edit {step}")
        for words in (("list",), ("log", "f")):
            rows, whole, printed = works(casrewind, root, *words)
            assert printed.count("saved: edit") == last and whole > MORE * rows, "all of them are listed, and not before the first"
            found.append(rows)
    assert all(long < MORE * short for short, long in zip(found[:2], found[2:], strict=True)), found
