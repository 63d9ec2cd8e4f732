"""GitHub Copilot CLI with hooks that `casrewind install copilot` put there: three turns, back, on in the fork, uninstalled."""

import json
import os
import shutil
import signal
from types import SimpleNamespace

import pytest

from casrewind.agents.copilot import CLIENT as copilot
from support import real_clients, three_turns
from support.chat_model import call
from support.claude_client import wait
from support.copilot_client import CopilotClient
from support.picture import differences, picture
from support.three_turns import PROMPTS
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-copilot"), *real_clients.in_turn("copilot")]
further = real_clients.further("copilot")

FIRST, SECOND, THIRD = three_turns.turns("create", ["edit"], "bash")
EFFECTS = "mkdir made; python3 -c \"open('made/by_program','w').write('x')\"; rm gone.txt; sed -i s/v2/v3/ alpha.txt; chmod 644 bin/tool"


def execute(command):
    return call("bash", command=command, description="side effects")


def triggers(points):
    return [point["trigger"] for point in points if point["trigger"] != "session_start"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    found = CopilotClient(tmp_path_factory.mktemp("cp"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def told(client):
    """Three turns in one session, and pictures of the project before and after each."""
    plant(client.project, three_turns.FILES)
    plant(client.config, {"hooks/other.json": b'{"version": 1, "hooks": {}}'})
    client.casrewind("install", "copilot", "--tier", "aggressive", code=0)
    alpha = str(client.project / "alpha.txt")
    client.model.script = three_turns.script(
        call("create", path=alpha, file_text="alpha v1\n"),
        [call("edit", path=alpha, old_str="v1", new_str="v2")],
        execute(EFFECTS),
    )

    def take(prompt, number):
        client.say(prompt, *(["--continue"] if number else []))
        client.wait_for("turn_end", number + 1)

    pictures = three_turns.tell(client, take)
    points = client.points()
    (session,) = {point["session"] for point in points}
    listed = client.casrewind.json("list")
    return SimpleNamespace(session=session, pictures=pictures, points=points, listed=listed, requests=list(client.model.requests))


@pytest.fixture(scope="module")
def gone_back(client, told):
    """`casrewind back 1 --both`, and the client resumed by the line that was printed."""
    return three_turns.go_back(client, told, lambda found: client.resume(found.report["fork"]["resume"], "what now"))


def test_doctor_knows_the_client_and_its_hooks(client, told):
    found = client.casrewind.json("doctor", "copilot")["agents"]["copilot"]
    assert (found["problems"], found["version"]) == ([], "1.0.102")
    assert found["hook_test"]["ok"]


def test_the_client_did_what_the_script_says(told):
    three_turns.check_script(told, [FIRST, SECOND, THIRD])


def test_the_list_has_a_row_for_each_turn_with_its_change(told):
    three_turns.check_list(told)


def test_every_prompt_is_a_checkpoint_with_the_files_of_its_moment(client, told, tmp_path):
    assert client.prompts()[:3] == PROMPTS
    for turn in range(3):
        three_turns.check_files(client, told, turn, tmp_path)


def test_the_tool_tier_saves_before_a_tool(told):
    assert "tool_batch" in triggers(told.points) or all(point["changes"] for point in told.points)


def test_back_has_the_files_of_before_the_prompt_and_the_client_goes_on_from_there(told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run it"]
    assert gone_back.report["fork"]["resume"] == f"copilot --resume={gone_back.id}"
    assert gone_back.request.told == [*FIRST, *SECOND, "user: what now"]
    assert "by_program" not in str(gone_back.request.body["messages"])
    assert {point["session"] for point in gone_back.points} == {gone_back.id}


def test_the_original_conversation_keeps_every_byte(gone_back):
    assert gone_back.original_after == gone_back.original
    head, _, rest = gone_back.fork.partition(b"\n")
    assert gone_back.original.partition(b"\n")[2].startswith(rest), "but for the event that names the session"
    assert json.loads(head)["data"]["sessionId"] == gone_back.id
    assert b"please run it" not in gone_back.fork
    assert gone_back.modes == {gone_back.path.name: 0o600}


def test_undo_takes_the_files_back(client, told, gone_back):
    three_turns.check_undo(client, told)


@further
def test_the_fork_s_prompts_have_their_parents_checkpoints(client, told, gone_back):
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--both", "--yes", "--session", gone_back.id)
    assert report["prompts"] == ["please edit alpha", "what now"]
    assert differences(picture(client.project), told.pictures[1]) == {}
    client.resume(report["fork"]["resume"], "where are we")
    assert client.model.requests[-1].told == [*FIRST, "user: where are we"]


def test_a_command_typed_in_the_client_is_answered_without_the_model(client, told, gone_back):
    asked = len(client.model.requests)
    answer = client.say("/casrewind list", f"--resume={told.session}", code=None)
    assert len(client.model.requests) == asked, "no request to the model"
    assert all(prompt[:10] in answer for prompt in PROMPTS)  # a turn that is taken back has less room
    assert [prompt.text for prompt in copilot.prompts(client.transcript(told.session).read_bytes())] == PROMPTS


@further
def test_a_client_killed_in_the_middle_of_a_tool(client, told, gone_back):
    before = picture(client.project)
    client.model.script["hang on"] = [[execute("echo half > half.txt; sleep 30")], ["Never."]]
    running = client.start("--allow-all-tools", f"--resume={told.session}", "-p", "hang on")
    wait(lambda: (client.project / "half.txt").exists())
    wait(lambda: "hang on" in [prompt.text for prompt in copilot.prompts(client.transcript(told.session).read_bytes())])
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", told.session)
    assert (report["prompts"], differences(picture(client.project), before)) == (["hang on"], {})
    client.resume(report["fork"]["resume"], "still there")
    assert client.model.requests[-1].told == [*FIRST, *SECOND, *THIRD, "user: still there"]


@further
def test_two_sessions_do_not_mix(client, told, gone_back):
    client.model.script["other work"] = [[execute("echo other > other.txt")], ["Done."]]
    client.say("other work")
    other = client.points()[-1]["session"]
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", other)
    assert (report["prompts"], report["fork"]) == (["other work"], None)
    assert not (client.project / "other.txt").exists()
    assert [prompt.text for prompt in copilot.prompts(client.transcript(told.session).read_bytes())][:3] == PROMPTS


def test_in_place_cuts_the_session_itself(client, told, gone_back):
    transcript = client.transcript(told.session)
    before = transcript.read_bytes()
    report = client.casrewind.json("back", client.casrewind.turn("please run it"), "--in-place", "--yes", "--session", told.session)
    assert report["fork"]["session_id"] == told.session
    (kept,) = transcript.parent.glob("*before-rewind*")
    assert kept.read_bytes() == before
    client.say("on we go", f"--resume={told.session}")
    assert client.model.requests[-1].told == [*FIRST, *SECOND, "user: on we go"]


@further
def test_a_project_that_was_moved_keeps_its_checkpoints(client, told, gone_back):
    moved = client.project.with_name("moved")
    client.project.rename(moved)
    try:
        client.casrewind.root = str(moved)
        assert len(client.points()) >= len(told.points)
    finally:
        moved.rename(client.project)
        client.casrewind.root = str(client.project)
    assert len(client.points()) >= len(told.points)


def test_no_hook_failed_and_the_store_is_whole(client, told, gone_back):
    three_turns.check_whole(client)
    assert client.model.strangers == []


def test_uninstall_gives_the_settings_of_before_back(client, told, gone_back):
    client.casrewind("uninstall", "copilot", code=0)
    assert os.listdir(client.config / "hooks") == ["other.json"]
    before = len(client.points())
    client.say("is anybody there")
    assert len(client.points()) == before, "no hook is left"
    shutil.rmtree(client.config / "hooks")
