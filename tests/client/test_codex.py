"""What is Codex's own: hooks that the user must trust, its event for a cancelled turn, and what its server does to a session."""

import json
import threading

import pytest

from support import real_clients, three_turns
from support.claude_client import wait
from support.codex_client import Server
from support.codex_gemini_model import codex_helper, codex_patch, codex_waits
from support.model_server import Held
from support.picture import differences, picture
from support.resumed_clients import Codex
from support.three_turns import triggers
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-codex"), *real_clients.in_turn("codex")]


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    """A user with the hooks of `casrewind install codex`, who trusts them."""
    found = Codex(tmp_path_factory.mktemp("x"))
    plant(found.client.project, three_turns.FILES)
    found.said = found.client.casrewind("install", "codex", code=0).out
    found.before = found.client.casrewind("doctor", "codex", "--json")
    found.run("is anybody there")
    found.unheard = found.client.points()
    found.client.trust()
    found.client.model.script = three_turns.script(found)
    yield found
    found.client.stop()
    assert found.client.model.strangers == [], "the client wanted something else than its model"


@pytest.fixture
def first(person):
    return three_turns.turns(person)[0]


def turn_of(person, session, number):
    return person.adapter.prompts(person.original(session))[number].prompt_id


def test_install_says_that_the_hooks_must_be_trusted_and_until_then_none_runs(person):
    assert "choose to trust them" in person.said and "hooks.json" in person.said
    found = json.loads((person.client.config / "hooks.json").read_bytes())["hooks"]
    assert {hook["timeout"] for event in ("Interrupt", "SessionEnd") for group in found[event] for hook in group["hooks"]} == {3}
    (problem,) = person.before.json["agents"]["codex"]["problems"]
    assert person.before.code != 0 and "because you have not trusted them yet" in problem and "UserPromptSubmit" in problem
    assert person.unheard == []


def test_a_cancelled_turn_ends_with_a_checkpoint_that_can_be_gone_back_to(person, first):
    client = person.client
    session = person.say("please create alpha")
    count = len(client.points())
    client.model.script["hang on"] = [[person.call("echo half > half.txt; sleep 30")], ["Never."]]
    person.kill("hang on", session, lambda: (client.project / "half.txt").exists())
    (half,) = [point for point in client.points()[count:] if point["trigger"] == "turn_end"]
    assert half["label"] is None and half["session"] == session, "its event Interrupt"
    told = [*first, "user: hang on", "call exec_command", "result"]
    person.say("still there", session)
    assert client.model.requests[-1].told == [*told, "user: still there"]
    chat = client.casrewind.json("restore", half["id"], "--chat", "--yes")
    person.resume(chat["fork"]["resume"], "and there")
    assert client.model.requests[-1].told == [*told, "user: and there"]


def test_a_session_that_the_client_itself_rewound_can_be_gone_back_in(person):
    """It writes another file for the session. That file names the first one, and has only the prompts since then."""
    client = person.client
    session = person.say("first of three")
    for prompt in ("second of three", "third of three"):
        person.say(prompt, session)
    with Server(client) as server:
        server.ask("thread/resume", threadId=session)
        server.ask("thread/revert", threadId=session, beforeTurnId=turn_of(person, session, 1))
    person.say("instead", session)
    assert client.model.requests[-1].told == ["user: first of three", "assistant: OK.", "user: instead"]
    report = client.casrewind.json("back", "1", "--yes", "--session", session)
    assert report["prompts"] == ["instead"]
    person.resume(report["fork"]["resume"], "and on")
    assert client.model.requests[-1].told == ["user: first of three", "assistant: OK.", "user: and on"]
    refused = client.casrewind("back", client.casrewind.turn("third of three"), "--yes", "--session", session, code=16)
    assert "is no longer in the conversation" in refused.err
    third = next(point["id"] for point in client.points() if point["prompt"] == "third of three")
    report = client.casrewind.json("restore", third, "--chat", "--yes")
    person.resume(report["fork"]["resume"], "so")
    told = ["user: first of three", "assistant: OK.", "user: second of three", "assistant: OK.", "user: so"]
    assert client.model.requests[-1].told == told, "from the bytes that were stored with that checkpoint"


def test_a_fork_that_the_client_made_can_be_gone_back_in(person, first):
    client = person.client
    client.model.script["another way"] = [[person.call("echo other > other.txt")], ["Done."]]
    session = person.say("please create alpha")
    person.say("please edit alpha", session)
    with Server(client) as server:
        forked = server.ask("thread/fork", threadId=session, beforeTurnId=turn_of(person, session, 1))["thread"]["id"]
    before = picture(client.project)
    person.say("another way", forked)
    assert client.model.requests[-1].told == [*first, "user: another way", "call exec_command", "result"]
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", forked)
    assert (report["prompts"], differences(picture(client.project), before)) == (["another way"], {})
    person.resume(report["fork"]["resume"], "where are we")
    assert client.model.requests[-1].told == [*first, "user: where are we"]


@real_clients.further("codex")
def test_a_conversation_is_compacted_and_turns_before_it_can_be_gone_back_to(person, first):
    client = person.client
    session = person.say("please create alpha")
    person.say("please edit alpha", session)
    count = len(client.points())
    with Server(client) as server:
        server.ask("thread/resume", threadId=session)
        server.ask("thread/compact/start", threadId=session)
        server.until(lambda message: message.get("method") == "turn/completed")
    assert "compact" in triggers(client.points()[count:])
    person.say("after it", session)
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--yes", "--session", session)
    assert report["prompts"] == ["please edit alpha", "after it"]
    person.resume(report["fork"]["resume"], "so")
    assert client.model.requests[-1].told == [*first, "user: so"]


@real_clients.further("codex")
def test_each_subagent_has_a_row_and_is_taken_back_alone(person):
    """Two work at once. What a patch of one changed is its own; what a shell wrote then may be the other's."""
    client = person.client
    plant(client.project, {"app.py": b"one\n\n\n\nfive\n"})
    both, first, second = threading.Event(), threading.Event(), threading.Event()
    client.model.script |= {
        "do both": [
            [codex_helper("red_job", "subtask: red"), codex_helper("green_job", "subtask: green")],
            [codex_waits()], Held(second, ("All.",)),
        ],  # fmt: skip
        "subtask: red": [Held(both, (codex_patch("*** Update File: app.py", "@@", "-one", "+ONE", "*** Add File: red", "+r"),)), [person.call("echo x > by-shell")], Held(first, ("Done.",))],
        "subtask: green": [Held(both, (codex_patch("*** Add File: green", "+g"),)), Held(first, ("Done.",))],
    }

    ended = [point["trigger"] for point in client.points()].count("turn_end")
    running = client.start("do both")
    client.wait_for("tool_batch", 2)  # both have begun
    both.set()
    wait(lambda: all((client.project / name).exists() for name in ("red", "green", "by-shell")))
    first.set()
    client.wait_for("turn_end", ended + 2)
    second.set()
    client.finish(running)
    turn = client.casrewind.json("show", "@1")["turn"]
    found = {one["prompt"]: (one["paths"], [each["path"] for each in one["among"]]) for one in turn["subagents"]}
    assert found == {"red_job": (["app.py", "by-shell", "red"], ["by-shell"]), "green_job": (["by-shell", "green"], ["by-shell"])}
    assert turn["changes"] == {"added": 3, "modified": 1, "removed": 0} and not turn["cut_short"]
    (red,) = [one["name"] for one in turn["subagents"] if one["prompt"] == "red_job"]
    client.casrewind("revert", red, "-y", code=3)
    assert [(client.project / name).exists() for name in ("red", "green", "by-shell")] == [False, True, True]
    assert (client.project / "app.py").read_text() == "one\n\n\n\nfive\n"
    client.casrewind("undo", "-y", code=0)
    report = client.casrewind.json("back", "1", "--both", "--yes")
    assert report["prompts"] == ["do both"] and not (client.project / "green").exists()
