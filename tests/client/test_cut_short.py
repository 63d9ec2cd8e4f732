"""What no hook tells of: a client that is killed, a command that is interrupted, and one that the person runs in the client."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_client import wait
from support.claude_model import bash
from support.picture import differences, picture

pytestmark = [pytest.mark.xdist_group("client-cut-short"), *real_clients.at_times("cut_short")]

NOBODY = "assistant: No response requested."  # the client's own words behind what the model did not answer
FIRST = ["user: number one", "call Bash", "result", "assistant: Did one."]


def prepare(client):
    """A client whose model runs a command that takes a minute, or until a file is there; the command writes `half` first."""
    client.casrewind("install", "claude", code=0)
    end = client.project.parent / "end"
    client.model.script = {
        "number one": [[bash("echo one > one")], ["Did one."]],
        "takes long": [["On it.", bash(f"echo half > half; timeout 60 sh -c 'while [ ! -e {end} ]; do sleep 0.1; done'")], ["Not reached."]],
    }
    return end


@pytest.fixture(scope="module")
def killed(start):
    """A client that is killed while its tool runs; then the session goes on, and goes back."""
    client = start()
    end = prepare(client)
    found = SimpleNamespace(client=client)
    session = client.say("number one")["session_id"]
    client.wait_for_more(0, 4)
    found.before = picture(client.project)
    running = client.start("this takes long", "--resume", session)
    transcript = client.transcript(session)
    wait(lambda: (client.project / "half").exists() and b"echo half" in transcript.read_bytes())
    running.kill()
    running.communicate()
    found.points = client.points()
    found.transcript = transcript.read_bytes()
    found.after = picture(client.project)
    found.at_once = client.casrewind.json("back", "1", "--chat")
    client.say("and now", "--resume", session)
    found.next_points = client.wait_for_more(len(found.points), 4)[len(found.points) :]
    found.later = client.casrewind.json("back", "1", "--both", "--yes")
    found.later_files = picture(client.project)
    found.earlier = client.casrewind.json("back", "2", "--both", "--yes")
    found.earlier_files = picture(client.project)
    found.chat = client.casrewind.json("restore", found.next_points[0]["id"], "--chat")
    found.chat_bytes = Path(found.chat["fork"]["path"]).read_bytes()
    found.requests = []
    for report in (found.at_once, found.later, found.earlier, found.chat):
        client.resume(report["fork"]["resume"], "what now")
        found.requests.append(client.model.requests[-1].told)
    end.touch()
    return found


def test_the_kill_came_in_the_middle_of_a_tool(killed):
    assert killed.points[-1]["prompt"] == "this takes long"
    assert b'"tool_use"' in killed.transcript.splitlines()[-1], "the call is the last that was written"
    assert set(differences(killed.before, killed.after)) == {b"half"}


def test_what_it_wrote_is_in_the_next_checkpoint_which_says_so(killed, tmp_path):
    assert killed.next_points[0]["trigger"] == "session_start"
    assert killed.next_points[0]["changes"] == {"added": 1, "modified": 0, "removed": 0}
    assert "cut short" in killed.next_points[0]["label"]
    assert differences(picture(killed.client.restored(killed.next_points[0], tmp_path / "there")), killed.after) == {}


def test_the_client_takes_forks_of_that_conversation(killed):
    at_once, later, earlier, _ = killed.requests
    assert at_once == earlier == [*FIRST, "user: what now"]
    assert later == [*FIRST, "user: this takes long", "assistant: On it.", "call Bash", "result", NOBODY, "user: what now"]
    assert differences(killed.later_files, killed.after) == {} and differences(killed.earlier_files, killed.before) == {}


def test_no_fork_ends_in_a_call_that_nobody_answered(killed):
    """The checkpoint was made when the call was the last line of the conversation."""
    assert killed.requests[3] == [*FIRST, "user: this takes long", "assistant: On it.", "user: what now"]
    assert b"echo half" in killed.transcript and b"echo half" not in killed.chat_bytes


@pytest.fixture(scope="module")
def interrupted(start):
    """A command in bash mode, and Esc while a tool runs; then a prompt."""
    client = start()
    end = prepare(client)
    found = SimpleNamespace(client=client)
    terminal = client.terminal()
    terminal.say("number one")
    points = len(client.points())
    terminal.keys("!")
    terminal.wait_for("! for")
    terminal.type("echo mine > mine")
    terminal.until(lambda: (client.project / "mine").exists())
    client.wait_for_more(points, 1)
    terminal.wait_until_idle()
    found.typed = client.points()[points:]
    found.with_mine = picture(client.project)
    points = len(client.points())
    terminal.type("this takes long")
    terminal.until(lambda: (client.project / "half").exists())
    terminal.wait_for("esc to interrupt")
    terminal.keys("Escape")
    terminal.wait_for("Interrupted")
    found.with_half = picture(client.project)
    terminal.say("and now")
    found.points = client.points()[points:]
    found.request = client.model.requests[-1].told
    found.answers, found.files = [], []
    known = set(client.config.glob("projects/*/*.jsonl"))
    forks = []
    for command in ("/casrewind back 1", "/casrewind undo", "/casrewind back 2"):
        found.answers.append(terminal.order(command))
        found.files.append(picture(client.project))
        forks.append(set(client.config.glob("projects/*/*.jsonl")) - known)
    (first,) = forks[0]
    found.resume = first.stem
    client.say("what now", "--resume", found.resume)
    found.resumed = client.model.requests[-1].told
    end.touch()
    return found


def test_what_a_command_typed_in_bash_mode_wrote_is_in_the_next_checkpoint_which_says_so(interrupted, tmp_path):
    (point,) = interrupted.typed
    assert point["changes"] == {"added": 1, "modified": 0, "removed": 0} and point["prompt"] is None
    assert "typed in the client" in point["label"]
    found = picture(interrupted.client.restored(point, tmp_path / "there"))
    assert differences(found, interrupted.with_mine) == {} and b"mine" in found


def test_what_an_interrupted_command_wrote_is_in_the_next_checkpoint_which_says_so(interrupted, tmp_path):
    long, after, _ = interrupted.points
    assert [point["prompt"] for point in (long, after)] == ["this takes long", "and now"], "no hook told of the end of that turn"
    assert after["changes"] == {"added": 1, "modified": 0, "removed": 0}
    assert long["label"] is None and "cut short" in after["label"]
    assert differences(picture(interrupted.client.restored(after, tmp_path / "there")), interrupted.with_half) == {}


def test_back_over_the_interruption_and_back_to_behind_it(interrupted):
    behind, undone, over = interrupted.files
    assert differences(behind, interrupted.with_half) == {}
    assert differences(undone, interrupted.with_half) == {}
    assert differences(over, interrupted.with_mine) == {}
    assert interrupted.resumed == [*interrupted.request[:-1], NOBODY, "user: what now"]
