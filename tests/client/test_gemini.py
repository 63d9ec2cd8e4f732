"""Gemini CLI with hooks that `casrewind install gemini` put there: three turns, back, on in the fork, uninstalled."""

import json
import os
import re
import signal
from types import SimpleNamespace

import pytest

from support import real_clients, three_turns
from support.claude_client import wait
from support.codex_gemini_model import call
from support.gemini_client import GeminiClient
from support.picture import differences, picture
from support.three_turns import EFFECTS, triggers
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-gemini"), *real_clients.in_turn("gemini")]
further = real_clients.further("gemini")

FIRST, SECOND, THIRD = three_turns.turns("write_file", ["run_shell_command"], "run_shell_command")


def shell(command):
    return call("run_shell_command", command=command)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    found = GeminiClient(tmp_path_factory.mktemp("g"))
    yield found
    found.stop()
    assert found.model.strangers == [], "the client wanted something else than its model"


@pytest.fixture(scope="module")
def installed(client):
    plant(client.project, three_turns.FILES)
    found = SimpleNamespace(said=client.casrewind("install", "gemini", code=0).out)
    found.again = client.casrewind("install", "gemini", code=0).out
    found.settings = json.loads((client.config / "settings.json").read_bytes())
    found.doctor = client.casrewind("doctor", "gemini", "--json")
    return found


@pytest.fixture(scope="module")
def told(client, installed):
    """Three turns in one session, and pictures of the project before and after each."""
    client.model.script = three_turns.script(
        call("write_file", file_path=str(client.project / "alpha.txt"), content="alpha v1\n"),
        [shell("sed -i s/v1/v2/ alpha.txt")],
        shell(EFFECTS),
    )
    sessions = [None]
    pictures = three_turns.tell(client, lambda prompt, number: sessions.append(client.say(prompt, sessions[-1])))
    listed = client.casrewind.json("list")
    return SimpleNamespace(session=sessions[-1], pictures=pictures, points=client.points(), listed=listed, requests=list(client.model.requests))


@pytest.fixture(scope="module")
def gone_back(client, told):
    """`casrewind back 1 --both`, and the client resumed by the id that was printed."""
    return three_turns.go_back(client, told, lambda found: client.say("what now", found.id), "--session", told.session)


def test_install_and_doctor(client, installed):
    assert "settings.json" in installed.said and "already installed" in installed.again
    found = installed.doctor.json["agents"]["gemini"]
    assert (installed.doctor.code, found["problems"], found["version"]) == (0, [], "0.61.0")
    assert found["hook_test"]["ok"]
    assert {name: value for name, value in installed.settings.items() if name != "hooks"} == json.loads(client.settings)


def test_the_client_did_what_the_script_says(told):
    three_turns.check_script(told, [FIRST, SECOND, THIRD])


def test_the_list_has_a_row_for_each_turn_with_its_change(told):
    three_turns.check_list(told)


def test_every_prompt_and_every_turn_is_a_checkpoint_of_that_session(told):
    found = [trigger for trigger in triggers(told.points) if trigger not in ("session_start", "session_end")]
    assert found == ["prompt", "turn_end"] * 3, triggers(told.points)
    three_turns.check_points(told, "gemini")


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_each_has_the_files_of_its_moment(client, told, turn, tmp_path):
    three_turns.check_files(client, told, turn, tmp_path, left_out=[b".git"])


def test_back_has_the_files_of_before_the_prompt(told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run it"]
    assert gone_back.report["fork"]["resume"] == f"gemini --resume {gone_back.id}"


def test_the_client_goes_on_from_exactly_the_turns_before(gone_back):
    assert gone_back.request.told == [*FIRST, *SECOND, "user: what now"]
    assert "made/by_hand" not in str(gone_back.request.body["contents"]) and gone_back.answer == gone_back.id
    assert {point["session"] for point in gone_back.points} == {gone_back.id}


def test_the_original_conversation_keeps_every_byte(told, gone_back):
    assert gone_back.original_after == gone_back.original
    assert gone_back.original.startswith(gone_back.fork.replace(gone_back.id.encode(), told.session.encode()))
    assert gone_back.modes == {gone_back.path.name: 0o600}


def test_undo_has_the_files_of_after_the_turn(client, told, gone_back):
    three_turns.check_undo(client, told)


@further
def test_back_in_the_fork_goes_to_before_a_prompt_of_its_parent_too(client, told, gone_back):
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--both", "--yes", "--session", gone_back.id)
    assert report["prompts"] == ["please edit alpha", "what now"]
    assert differences(picture(client.project), told.pictures[1]) == {}, "the checkpoint was the parent's"
    client.say("once more", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, "user: once more"]


@further
def test_a_cancelled_turn_can_be_taken_back(client, told):
    """The client has no event for it; the end of the session is the next one."""
    before = picture(client.project)
    client.model.script["hang on"] = [[shell("echo half > half.txt; sleep 30")], ["Never."]]
    running = client.start("hang on", "-r", told.session)
    wait(lambda: (client.project / "half.txt").exists())
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=60)
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", told.session)
    assert report["prompts"] == ["hang on"] and differences(picture(client.project), before) == {}
    client.say("where are we", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, *SECOND, *THIRD, "user: where are we"]


@further
def test_a_session_is_cut_in_place_when_its_client_has_ended(client):
    """And another session of the project goes on undisturbed."""
    one, two = client.say("first of one"), client.say("first of two")
    client.say("second of one", one)
    other = client.transcript(two).read_bytes()
    report = client.casrewind.json("back", "1", "--in-place", "--yes", "--session", one)
    assert (report["prompts"], report["fork"]["session_id"]) == (["second of one"], one)
    assert client.transcript(two).read_bytes() == other
    client.say("and on", one)
    assert client.model.requests[-1].told == ["user: first of one", "assistant: OK.", "user: and on"]


def test_a_command_typed_in_the_client_is_answered_without_the_model(client, told):
    asked = len(client.model.requests)
    said = client.answer("/casrewind list -n 3")
    assert len(client.model.requests) == asked, "no request to the model"
    shown = str(said["warnings"])  # each prompt of this mode is a session of its own: all turns are of others
    assert re.search(r"restored to @\d", shown) and "turns of other sessions: a terminal lists them" in shown and "@1 " not in shown, said


@further
def test_the_aggressive_tier_saves_before_a_tool(client, told):
    client.casrewind("install", "gemini", "--tier", "aggressive", code=0)
    count = len(client.points())
    client.model.script["delete it"] = [[shell("echo x > just.txt"), shell("rm just.txt")], ["Deleted."]]
    client.say("delete it")
    assert "tool_batch" in triggers(client.points()[count:])


@further
def test_a_project_that_moved_keeps_its_checkpoints_and_its_conversation(client, told, gone_back):
    """The client finds sessions by the project's path, so there it is given the file."""
    three_turns.check_moved(client, told, lambda report: client.finish(client.start("moved on", "--session-file", report["fork"]["path"])))


def test_no_hook_failed_and_the_store_is_whole(client, told, gone_back):
    three_turns.check_whole(client)


def test_uninstall_gives_the_settings_of_before_back(client, told):
    assert (client.config / "settings.json").read_bytes() != client.settings
    client.casrewind("uninstall", "gemini", code=0)
    assert (client.config / "settings.json").read_bytes() == client.settings
    assert not any("casrewind" in name for name in os.listdir(client.config))
    before = len(client.points())
    client.say("is anybody there")
    assert len(client.points()) == before, "no hook is left"
