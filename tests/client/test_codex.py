"""Codex CLI with hooks that `casrewind install codex` put there: three turns, back, on in the fork, uninstalled."""

import json
import os
import re
import signal
from types import SimpleNamespace

import pytest

from casrewind.agents.codex import CLIENT as codex
from support import real_clients, three_turns
from support.claude_client import wait
from support.codex_client import CodexClient, Server
from support.codex_gemini_model import call
from support.picture import differences, picture
from support.three_turns import EFFECTS, triggers
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-codex"), *real_clients.in_turn("codex")]
further = real_clients.further("codex")

HOOKS = b'{ "hooks": {"Stop" :[{"hooks":[{"type":"command","command":"true","timeout":5}]}],\n\t"Interrupt":[]  } }'
FIRST, SECOND, THIRD = three_turns.turns("exec_command", ["exec_command"], "exec_command")


def shell(command):
    return call("exec_command", cmd=command)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    found = CodexClient(tmp_path_factory.mktemp("x"))
    yield found
    found.stop()
    assert found.model.strangers == [], "the client wanted something else than its model"


@pytest.fixture(scope="module")
def installed(client):
    """What install and doctor said, before and after the user trusted the hooks."""
    plant(client.project, three_turns.FILES)
    plant(client.config, {"hooks.json": HOOKS})
    found = SimpleNamespace(said=client.casrewind("install", "codex", code=0).out)
    found.again = client.casrewind("install", "codex", code=0).out
    found.before = client.casrewind("doctor", "codex", "--json")
    client.say("is anybody there")
    found.unheard = client.points()
    client.trust()
    found.after = client.casrewind("doctor", "codex", "--json")
    client.model.requests.clear()
    return found


@pytest.fixture(scope="module")
def told(client, installed):
    """Three turns in one session, and pictures of the project before and after each."""
    client.model.script = three_turns.script(shell("echo alpha v1 > alpha.txt"), [shell("sed -i s/v1/v2/ alpha.txt")], shell(EFFECTS))
    sessions = [None]
    pictures = three_turns.tell(client, lambda prompt, number: sessions.append(client.say(prompt, sessions[-1])))
    listed = client.casrewind.json("list")
    return SimpleNamespace(session=sessions[-1], pictures=pictures, points=client.points(), listed=listed, requests=list(client.model.requests))


@pytest.fixture(scope="module")
def gone_back(client, told):
    """`casrewind back 1 --both`, and the client resumed by the id that was printed."""
    return three_turns.go_back(client, told, lambda found: client.say("what now", found.id), "--session", told.session)


def test_install_says_that_the_hooks_must_be_trusted(client, installed):
    assert "choose to trust them" in installed.said and "hooks.json" in installed.said
    assert "already installed" in installed.again
    found = json.loads((client.config / "hooks.json").read_bytes())["hooks"]
    assert {hook["timeout"] for event in ("Interrupt", "SessionEnd") for group in found[event] for hook in group["hooks"]} == {3}


def test_doctor_asks_the_client_whether_it_runs_the_hooks(installed):
    before, after = (found.json["agents"]["codex"] for found in (installed.before, installed.after))
    assert installed.before.code != 0 and installed.after.code == 0, (before["problems"], after["problems"])
    (problem,) = before["problems"]
    assert "because you have not trusted them yet" in problem and "UserPromptSubmit" in problem
    assert after["problems"] == [] and after["hook_test"]["ok"] and after["version"] == "0.169.0"
    assert installed.unheard == [], "until then the client runs none of them"


def test_the_client_did_what_the_script_says(told):
    three_turns.check_script(told, [FIRST, SECOND, THIRD])


def test_the_list_has_a_row_for_each_turn_with_its_change(told):
    three_turns.check_list(told)


def test_every_prompt_and_every_turn_is_a_checkpoint_of_that_session(told):
    one = ["session_start", "prompt", "turn_end", "session_end"]
    found = [trigger for trigger in triggers(told.points) if trigger not in ("session_start", "session_end")]
    assert found == ["prompt", "turn_end"] * 3, (one, triggers(told.points))
    three_turns.check_points(told, "codex")


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_each_has_the_files_of_its_moment(client, told, turn, tmp_path):
    three_turns.check_files(client, told, turn, tmp_path, left_out=[b".git"])


def test_back_has_the_files_of_before_the_prompt(told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run it"]
    assert gone_back.report["fork"]["resume"] == f"codex resume {gone_back.id}"


def test_the_client_goes_on_from_exactly_the_turns_before(gone_back):
    assert gone_back.request.told == [*FIRST, *SECOND, "user: what now"]
    assert "by_hand" not in str(gone_back.request.body["input"]) and gone_back.answer == gone_back.id
    assert {point["session"] for point in gone_back.points} == {gone_back.id}


def test_the_original_conversation_keeps_every_byte(told, gone_back):
    assert gone_back.original_after == gone_back.original
    assert gone_back.original.startswith(gone_back.fork.replace(gone_back.id.encode(), told.session.encode()))
    assert gone_back.modes == {gone_back.path.name: 0o600}


def test_undo_has_the_files_of_after_the_turn(client, told, gone_back):
    three_turns.check_undo(client, told)


def test_back_in_the_fork_is_before_its_own_prompt_and_then_before_its_parents(client, told, gone_back):
    client.model.script["wreck it"] = [[shell("rm kept.txt alpha.txt bin/tool; rmdir bin")], ["Wrecked."]]
    client.say("wreck it", gone_back.id)
    assert not (client.project / "kept.txt").exists()
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", gone_back.id)
    assert differences(picture(client.project), told.pictures[2]) == {}
    client.say("and now", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, *SECOND, "user: what now", "assistant: OK.", "user: and now"]
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--both", "--yes", "--session", gone_back.id)
    assert report["prompts"] == ["please edit alpha", "what now", "wreck it"]
    assert differences(picture(client.project), told.pictures[1]) == {}, "the checkpoint was the parent's"
    client.say("once more", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, "user: once more"]


def test_a_session_is_never_rewritten(client, told):
    before = client.transcript(told.session).read_bytes()
    refused = client.casrewind("back", "--in-place", "--yes", "--session", told.session, code=16)
    assert "leave --in-place out" in refused.err
    assert client.transcript(told.session).read_bytes() == before


def test_a_cancelled_turn_ends_with_a_checkpoint_and_can_be_taken_back(client, told):
    before, count = picture(client.project), len(client.points())
    client.model.script["hang on"] = [[shell("echo half > half.txt; sleep 30")], ["Never."]]
    running = client.start("hang on", "resume", told.session)
    wait(lambda: (client.project / "half.txt").exists())
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=60)
    found = client.points()[count:]
    assert "turn_end" in triggers(found), "its event Interrupt"
    half = next(point for point in found if point["trigger"] == "turn_end")
    assert half["label"] is None and half["session"] == told.session
    client.say("still there", told.session)
    assert client.model.requests[-1].told[-4:] == ["user: hang on", "call exec_command", "result", "user: still there"]
    report = client.casrewind.json("back", client.casrewind.turn("hang on"), "--both", "--yes", "--session", told.session)
    assert report["prompts"] == ["hang on", "still there"] and differences(picture(client.project), before) == {}
    client.say("where are we", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, *SECOND, *THIRD, "user: where are we"]
    chat = client.casrewind.json("restore", half["id"], "--chat", "--yes")
    client.say("and there", chat["fork"]["session_id"])
    assert client.model.requests[-1].told[-4:] == ["user: hang on", "call exec_command", "result", "user: and there"]


def test_a_command_typed_in_the_client_is_answered_without_the_model(client, told):
    asked = len(client.model.requests)
    with Server(client) as server:
        server.ask("thread/resume", threadId=told.session)
        said = server.say(told.session, "/casrewind list -n 3")
    ran = [message["params"]["run"] for message in said if message.get("method") == "hook/completed"]
    answer = str([run for run in ran if run["eventName"] == "userPromptSubmit"])
    assert len(set(re.findall(r"@\d+  ", answer))) > 1 and "turns of other sessions" in answer, answer
    assert len(client.model.requests) == asked, "no request to the model"
    assert "/casrewind" not in str([prompt.text for prompt in codex.prompts(client.transcript(told.session).read_bytes())])


def test_a_session_that_the_client_itself_rewound_can_be_gone_back_in(client):
    """It writes another file for the session. That file names the first one, and has only the prompts since then."""
    session = client.say("first of three")
    for prompt in ("second of three", "third of three"):
        client.say(prompt, session)
    turn = codex.prompts(client.transcript(session).read_bytes())[1].prompt_id
    with Server(client) as server:
        server.ask("thread/resume", threadId=session)
        server.ask("thread/revert", threadId=session, beforeTurnId=turn)
    client.say("instead", session)
    assert client.model.requests[-1].told == ["user: first of three", "assistant: OK.", "user: instead"]
    report = client.casrewind.json("back", "1", "--yes", "--session", session)
    assert report["prompts"] == ["instead"]
    client.say("and on", report["fork"]["session_id"])
    assert client.model.requests[-1].told == ["user: first of three", "assistant: OK.", "user: and on"]
    refused = client.casrewind("back", client.casrewind.turn("third of three"), "--yes", "--session", session, code=16)
    assert "is no longer in the conversation" in refused.err
    third = next(point["id"] for point in client.points() if point["prompt"] == "third of three")
    report = client.casrewind.json("restore", third, "--chat", "--yes")
    client.say("so", report["fork"]["session_id"])
    told = ["user: first of three", "assistant: OK.", "user: second of three", "assistant: OK.", "user: so"]
    assert client.model.requests[-1].told == told, "from the bytes that were stored with that checkpoint"


def test_a_fork_that_the_client_made_can_be_gone_back_in(client, told):
    client.model.script["another way"] = [[shell("echo other > other.txt")], ["Done."]]
    first = client.say("please create alpha")
    second = client.say("please edit alpha", first)
    assert first == second
    turn = codex.prompts(client.transcript(first).read_bytes())[1].prompt_id
    with Server(client) as server:
        forked = server.ask("thread/fork", threadId=first, beforeTurnId=turn)["thread"]["id"]
    before = picture(client.project)
    client.say("another way", forked)
    assert client.model.requests[-1].told == [*FIRST, "user: another way", "call exec_command", "result"]
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", forked)
    assert (report["prompts"], differences(picture(client.project), before)) == (["another way"], {})
    client.say("where are we", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, "user: where are we"]


@further
def test_two_sessions_in_one_project_keep_their_own_conversations(client):
    one, two = client.say("first of one"), client.say("first of two")
    client.say("second of one", one)
    client.say("second of two", two)
    for session, name in ((one, "one"), (two, "two")):
        report = client.casrewind.json("back", "--yes", "--session", session)
        assert report["prompts"] == [f"second of {name}"]
        client.say("and on", report["fork"]["session_id"])
        assert client.model.requests[-1].told == [f"user: first of {name}", "assistant: OK.", "user: and on"]


@further
def test_a_conversation_is_compacted_and_turns_before_it_can_be_gone_back_to(client):
    session = client.say("please create alpha")
    client.say("please edit alpha", session)
    count = len(client.points())
    with Server(client) as server:
        server.ask("thread/resume", threadId=session)
        server.ask("thread/compact/start", threadId=session)
        server.until(lambda message: message.get("method") == "turn/completed")
    assert "compact" in triggers(client.points()[count:])
    client.say("after it", session)
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--yes", "--session", session)
    assert report["prompts"] == ["please edit alpha", "after it"]
    client.say("so", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, "user: so"]


@further
def test_the_aggressive_tier_saves_before_a_tool(client, told):
    client.casrewind("install", "codex", "--tier", "aggressive", code=0)
    client.trust()
    plant(client.project, {"just.txt": b"made by hand"})
    count = len(client.points())
    client.model.script["delete it"] = [[shell("echo x > just.txt"), shell("rm just.txt")], ["Deleted."]]
    client.say("delete it")
    assert "tool_batch" in triggers(client.points()[count:])
    client.casrewind("install", "codex", code=0)


@further
def test_a_project_that_moved_keeps_its_checkpoints_and_its_conversation(client, told, gone_back):
    three_turns.check_moved(client, told, lambda report: client.say("moved on", report["fork"]["session_id"]))


def test_no_hook_failed_and_the_store_is_whole(client, told, gone_back):
    three_turns.check_whole(client)


def test_uninstall_gives_the_settings_of_before_back(client, told):
    assert (client.config / "hooks.json").read_bytes() != HOOKS
    client.casrewind("uninstall", "codex", code=0)
    assert (client.config / "hooks.json").read_bytes() == HOOKS
    assert not any("casrewind" in name for name in os.listdir(client.config))
    before = len(client.points())
    client.say("is anybody there")
    assert len(client.points()) == before, "no hook is left"
