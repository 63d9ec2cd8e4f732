"""casrewind list prints rows as they are read: a pager shows the first ones at once, and the store's lock is free meanwhile."""

import fcntl
import json
import os
import subprocess
import sys

import pytest

from casrewind.workspace import Settings
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess
from support.trees import plant

pytestmark = pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="no small pipes here")

TURNS = 260
PIPE = 4096


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """More turns than are read at once. The last test forgets most of them."""
    base = tmp_path_factory.mktemp("many")
    root, home = base / "project", base / "home"
    plant(root, {"f": b"0"})
    with opened(root, Settings(home=str(home), data=str(home / "data"), environ={"HOME": str(home)})) as workspace:
        agent = AgentTurns(workspace, root)
        for number in range(TURNS):
            agent.prompt(f"p{number}", f"prompt {number}")
            plant(root, {"f": b"%d" % (number + 1)})
            agent.stop(f"p{number}")
    return InProcess(root, home)


@pytest.fixture
def waiting(many):
    """`casrewind list` that waits for the reader of its output, after the first lines."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE)
    process = subprocess.Popen([sys.executable, "-m", "casrewind", "-C", many.root, "list"], env=many.environment, stdout=writer)
    os.close(writer)
    with open(reader, encoding="utf-8") as lines:
        yield process, lines
    process.kill()
    process.wait()


def numbers(text):
    return [int(line.split()[0][1:]) for line in text if line.lstrip().startswith("@")]


@pytest.mark.turns(6)
def test_all_rows_are_printed_in_steps_and_at_once(many):
    assert numbers(many("list", code=0).out.splitlines()) == list(range(1, TURNS + 1))
    assert numbers(many("list", "--reverse", code=0).out.splitlines()) == list(range(TURNS, 0, -1))
    assert numbers(many("list", "-n", "150", code=0).out.splitlines()) == list(range(1, 151))
    assert [turn["n"] for turn in many.json("list")["turns"]] == list(range(1, TURNS + 1))
    assert len(numbers(many("list", "--grep", "prompt 1", code=0).out.splitlines())) == 111
    assert many("list", "--oneline", code=0).out.count("\n") == TURNS


def test_a_reader_that_leaves_ends_the_work(waiting):
    process, lines = waiting
    assert lines.readline()
    lines.close()
    assert process.wait(30) in (0, 141, -13)


def test_a_save_and_gc_go_on_while_a_reader_waits_and_what_they_forget_ends_the_list(waiting, many):
    process, lines = waiting
    shown = [lines.readline()]
    assert shown[0].split()[0] == "@1" and process.poll() is None, "the others are still to come"
    plant(many.root, {"g": b"1"})
    many("save", "-m", "meanwhile", code=0)
    assert json.loads(many("gc", "--max-count", "20", "--json", code=0).out)
    shown += lines.read().splitlines()
    assert process.wait() == 0
    assert shown[-1].strip() == "older checkpoints are not here" and numbers(shown) == list(range(1, len(shown)))
    assert len(shown) < TURNS
