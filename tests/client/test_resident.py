"""Claude Code with hooks that `casrewind install claude --resident` put there: three turns, the helper killed in the second."""

import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from support.claude_client import wait
from support.claude_model import bash
from support.helper_processes import helpers
from support.model_server import PATIENCE, Held
from support.picture import differences, picture
from support.trees import plant

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("client-resident"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the helper is for Linux only"),
]
PROMPTS = ["please make one", "please make two", "please make three"]


@pytest.fixture(scope="module")
def told(start):
    """Three turns in one session, each in a process of the client's of its own; the files at every prompt and turn's end."""
    client = start()
    plant(client.project, {"kept.txt": b"kept", "gone.txt": b"to be removed"})
    client.casrewind("install", "claude", "--resident", code=0)
    gate = threading.Event()
    client.model.script = {
        "make one": [[bash("mkdir one; echo 1 > one/file")], ["Made."]],
        "make two": [Held(gate, (bash("echo 2 > two; rm gone.txt; echo more >> kept.txt"),)), ["Made."]],
        "make three": [[bash("mv one three; echo 3 > three/more")], ["Made."]],
    }
    found = SimpleNamespace(client=client, pictures=[picture(client.project)], pids=[])
    try:
        session = client.say(PROMPTS[0])["session_id"]
        found.pictures.append(picture(client.project))
        client.wait_for_more(0, 4)
        found.pids += wait(lambda: helpers(client.project))

        running = client.start(PROMPTS[1], "--resume", session)
        client.wait_for_more(4, 2)
        os.kill(found.pids[0], signal.SIGKILL)
        gate.set()
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, (out, err)
        found.pictures.append(picture(client.project))
        client.wait_for_more(4, 4)
        found.between = helpers(client.project)

        client.say(PROMPTS[2], "--resume", session)
        found.pictures.append(picture(client.project))
        client.wait_for_more(8, 4)
        found.pids += wait(lambda: helpers(client.project))
        found.points, found.doctor = client.points(), client.casrewind("doctor", "claude", "--json").json
    finally:
        for pid in helpers(client.project):
            os.kill(pid, signal.SIGKILL)
    return found


def test_there_is_one_helper_until_it_is_killed_and_then_another(told):
    assert told.between == [] and len(told.pids) == 2 and told.pids[0] != told.pids[1]
    assert told.doctor["helper"] == {"process": told.pids[1], "watching": True, "reason": None, "problems": []}
    assert told.doctor["ok"]


def test_every_prompt_and_every_turn_has_its_checkpoint_once(told):
    triggers = [point["trigger"] for point in told.points]
    assert sorted(triggers[:2]) == ["prompt", "session_start"]
    assert triggers[2:] == ["turn_end", "session_end", *["session_start", "prompt", "turn_end", "session_end"] * 2]
    assert [point["prompt"] for point in told.points if point["trigger"] == "prompt"] == PROMPTS


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_each_has_the_files_of_its_moment(told, turn, tmp_path):
    for trigger, wanted in (("prompt", told.pictures[turn]), ("turn_end", told.pictures[turn + 1])):
        point = [point for point in told.points if point["trigger"] == trigger][turn]
        assert differences(picture(told.client.restored(point, tmp_path / trigger)), wanted) == {}, point


def test_nothing_went_wrong_where_nobody_was_looking(told):
    assert told.client.casrewind("list", code=0).err == ""
    assert told.client.casrewind.json("verify")["ok"]


def test_uninstalled_nobody_starts_one_any_more(told):
    client = told.client
    client.casrewind("uninstall", "claude", code=0)
    client.say("is anybody there")
    assert helpers(client.project) == []
