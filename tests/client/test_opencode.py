"""OpenCode with the plugin that `casrewind install opencode` put there: three turns, back, on in the fork, uninstalled."""

import os
import signal
from types import SimpleNamespace

import pytest

from casrewind.agents.opencode import CLIENT as opencode
from support import real_clients, three_turns
from support.chat_model import call
from support.claude_client import wait
from support.opencode_client import OpencodeClient
from support.picture import differences, picture
from support.three_turns import PROMPTS
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-opencode"), *real_clients.in_turn("opencode")]
further = real_clients.further("opencode")

FIRST, SECOND, THIRD = three_turns.turns("write", ["read", "edit"], "bash")
EFFECTS = "mkdir made; python3 -c \"open('made/by_program','w').write('x')\"; rm gone.txt; sed -i s/v2/v3/ alpha.txt; chmod 644 bin/tool"


def execute(command):
    return call("bash", command=command, description="side effects")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    found = OpencodeClient(tmp_path_factory.mktemp("oc"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def told(client):
    """Three turns in one session, and pictures of the project before and after each."""
    plant(client.project, three_turns.FILES)
    client.casrewind("install", "opencode", "--tier", "aggressive", code=0)
    alpha = str(client.project / "alpha.txt")
    client.model.script = three_turns.script(
        call("write", filePath=alpha, content="alpha v1\n"),
        [call("read", filePath=alpha), call("edit", filePath=alpha, oldString="v1", newString="v2")],
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
    """`casrewind back 1 --both`, and the client resumed by the session that was printed."""
    found = SimpleNamespace(original=client.rows(told.session))
    found.report = client.casrewind.json("back", "1", "--both", "--yes")
    found.picture = picture(client.project)
    found.id = found.report["fork"]["session_id"]
    found.fork = opencode.read_transcript_if_no_file(found.report["fork"]["path"])
    client.resume(found.report["fork"]["resume"], "what now")
    found.request = client.model.requests[-1]
    found.points = client.points()[len(told.points) :]
    found.original_after = client.rows(told.session)
    return found


def test_doctor_asks_the_client_whether_it_loads_the_plugin(client, told):
    found = client.casrewind.json("doctor", "opencode")["agents"]["opencode"]
    assert (found["problems"], found["version"]) == ([], "1.18.33")
    assert found["hook_test"]["ok"]


def test_the_client_did_what_the_script_says(told):
    three_turns.check_script(told, [FIRST, SECOND, THIRD])


def test_the_list_has_a_row_for_each_turn_with_its_change(told):
    three_turns.check_list(told)


def test_every_prompt_is_a_checkpoint_with_the_files_of_its_moment(client, told, tmp_path):
    assert client.prompts()[:3] == PROMPTS
    for turn in range(3):
        three_turns.check_files(client, told, turn, tmp_path)


def test_back_has_the_files_of_before_the_prompt_and_the_client_goes_on_from_there(told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run it"]
    assert gone_back.request.told == [*FIRST, *SECOND, "user: what now"]
    assert "by_program" not in str(gone_back.request.body["messages"])
    assert {point["session"] for point in gone_back.points} == {gone_back.id}


def test_the_original_conversation_keeps_every_row(gone_back):
    assert gone_back.original_after == gone_back.original
    assert b"please run it" not in gone_back.fork
    assert [prompt.text for prompt in opencode.prompts(gone_back.fork)] == PROMPTS[:2]


def test_undo_takes_the_files_back(client, told, gone_back):
    three_turns.check_undo(client, told)


@further
def test_the_fork_s_prompts_have_their_parents_checkpoints(client, told, gone_back):
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--both", "--yes", "--session", gone_back.id)
    assert report["prompts"] == ["please edit alpha", "what now"]
    assert differences(picture(client.project), told.pictures[1]) == {}


@further
def test_a_turn_s_end_has_the_conversation_of_its_moment(client, told, gone_back):
    point = next(point for point in told.points if point["trigger"] == "turn_end")
    report = client.casrewind.json("restore", point["id"], "--chat")
    kept = opencode.prompts(opencode.read_transcript_if_no_file(report["fork"]["path"]))
    assert [prompt.text for prompt in kept] == PROMPTS[:1]


@further
def test_a_client_killed_in_the_middle_of_a_tool(client, told, gone_back):
    before = picture(client.project)
    client.model.script["hang on"] = [[execute("echo half > half.txt; sleep 30")], ["Never."]]
    running = client.start("run", "--session", told.session, "hang on")
    wait(lambda: (client.project / "half.txt").exists())
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", told.session)
    assert (report["prompts"], differences(picture(client.project), before)) == (["hang on"], {})
    client.resume(report["fork"]["resume"], "still there")
    assert client.model.requests[-1].told == [*FIRST, *SECOND, *THIRD, "user: still there"]


@further
def test_two_sessions_do_not_mix(client, told, gone_back):
    client.model.script["other work"] = [[execute("echo other > other.txt")], ["Done."]]
    client.say('other work, "quoted"')
    other = client.points()[-1]["session"]
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", other)
    assert (report["prompts"], report["fork"]) == (['other work, "quoted"'], None)
    assert not (client.project / "other.txt").exists()


def test_in_place_is_refused(client, told, gone_back):
    refused = client.casrewind("back", "--in-place", "--yes", "--session", told.session, code=16)
    assert "only it writes there" in refused.err


def test_no_hook_failed_and_the_store_is_whole(client, told, gone_back):
    three_turns.check_whole(client)


def test_uninstall_takes_the_plugin_away(client, told, gone_back):
    client.casrewind("uninstall", "opencode", code=0)
    assert not (client.config / "plugins").exists()
