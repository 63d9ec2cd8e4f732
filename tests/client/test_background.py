"""What is not a person's turn: a subagent that works on in the background, and a turn that ends with the API's error."""

import threading
from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_model import bash, call
from support.model_server import PATIENCE, Held, Refused
from support.picture import differences, picture

pytestmark = [pytest.mark.xdist_group("client-background"), *real_clients.at_times("background")]

DELEGATED = ["user: please delegate", "call Agent", "result", "assistant: Delegated."]


@pytest.fixture(scope="module")
def delegated(start):
    """A subagent that writes a file after the turn that started it has ended; then a prompt."""
    client = start()
    client.casrewind("install", "claude", code=0)
    gate = threading.Event()
    agent = call("Agent", description="sub job", prompt="subtask: write beta", subagent_type="general-purpose")
    client.model.script = {
        "please delegate": [[agent], ["Delegated."], ["Heard of it."]],
        "subtask: write beta": [Held(gate, (bash("echo beta > beta"),)), ["Beta is there."]],
    }
    found = SimpleNamespace(client=client)
    terminal = client.terminal()
    terminal.say("please delegate")
    found.turn, found.before = client.points(), picture(client.project)
    gate.set()
    terminal.until(lambda: len([request for request in client.model.requests if request.told[:1] == DELEGATED[:1]]) == 3)
    client.wait_for_more(len(found.turn), 3, "turn_end")
    terminal.wait_until_idle()
    found.later = [point for point in client.points()[len(found.turn) :] if point["trigger"] != "tool_batch"]  # that is its start
    found.after = picture(client.project)
    terminal.say("thanks")
    found.reports, found.files = {}, {}
    for number in (1, 2):
        found.reports[number] = client.casrewind.json("back", str(number), "--both", "--yes")
        found.files[number] = picture(client.project)
    client.resume(found.reports[1]["fork"]["resume"], "what now")
    found.request = client.model.requests[-1].told
    return found


def test_what_a_subagent_wrote_in_the_background_is_in_a_checkpoint_that_says_so(delegated, tmp_path):
    assert [(point["trigger"], point["prompt"]) for point in delegated.turn if point["trigger"] != "tool_batch"] == [
        ("session_start", None), ("prompt", "please delegate"), ("turn_end", "please delegate"),
    ]  # fmt: skip
    assert set(differences(delegated.before, delegated.after)) == {b"beta"}
    (point,) = [point for point in delegated.later if point["changes"]["added"]]
    assert "in the background" in point["label"]
    assert differences(picture(delegated.client.restored(point, tmp_path / "there")), delegated.after) == {}


def test_the_news_of_its_end_is_no_prompt_of_a_person(delegated):
    assert {point["trigger"] for point in delegated.later} == {"turn_end"}
    assert delegated.reports[1]["prompts"] == ["thanks"]
    assert delegated.reports[2]["prompts"] == ["please delegate", "thanks"] and delegated.reports[2]["fork"] is None
    assert differences(delegated.files[1], delegated.after) == {} and differences(delegated.files[2], delegated.before) == {}
    assert delegated.request[: len(DELEGATED)] == DELEGATED and delegated.request[-1] == "user: what now"


def test_what_a_turn_did_before_the_api_failed_is_in_the_next_checkpoint(start, tmp_path):
    client = start()
    client.casrewind("install", "claude", code=0)
    client.model.script = {"this fails": [[bash("echo done > done")], Refused()]}
    running = client.start("this fails")
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode != 0 and "refused by the script" in out + err
    points = client.wait_for_more(0, 3, "session_end")
    assert sorted(point["trigger"] for point in points) == ["prompt", "session_end", "session_start"], "no hook told of the turn's end"
    assert points[-1]["changes"] == {"added": 1, "modified": 0, "removed": 0}
    found = picture(client.restored(points[-1], tmp_path / "there"))
    assert differences(found, picture(client.project)) == {} and b"done" in found
