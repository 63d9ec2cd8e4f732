"""Factory Droid with hooks that `casrewind install droid` put there: three turns, back, on in the fork, uninstalled."""

import json
import os
import re
from types import SimpleNamespace

import pytest

from casrewind.agents.droid import CLIENT as droid
from support import real_clients, three_turns
from support.claude_client import wait
from support.claude_model import call
from support.droid_client import DroidClient
from support.picture import differences, picture
from support.three_turns import EFFECTS, PROMPTS, triggers
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-droid"), *real_clients.in_turn("droid")]

HOOKS = b'{ "Stop" :[{"hooks":[{"type":"command","command":"true"}]}],\n\t"Notification":[]  }'
FIRST, SECOND, THIRD = three_turns.turns("Create", ["Read", "Edit"], "Execute")


def execute(command):
    return call("Execute", command=command, summary="Side effects", riskLevel="low", riskLevelReason="a few small files")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    found = DroidClient(tmp_path_factory.mktemp("d"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def told(client):
    """Three turns in one session, and pictures of the project before and after each."""
    plant(client.project, three_turns.FILES)
    plant(client.config, {"hooks.json": HOOKS})
    client.casrewind("install", "droid", code=0)
    alpha = str(client.project / "alpha.txt")
    client.model.script = three_turns.script(
        call("Create", file_path=alpha, content="alpha v1\n"),
        [call("Read", file_path=alpha), call("Edit", file_path=alpha, old_str="v1", new_str="v2")],
        execute(EFFECTS),
    )
    front = client.front()
    wait(client.points)  # nobody waits for the first save of a project when a session starts
    pictures = three_turns.tell(client, lambda prompt, number: front.say(prompt))
    front.close()
    requests = list(client.model.requests)
    return SimpleNamespace(session=front.session, pictures=pictures, points=client.points(), requests=requests)


@pytest.fixture(scope="module")
def gone_back(client, told):
    """`casrewind back 1 --both`, and the client resumed by the id that was printed, in print mode as scripts have it."""
    return three_turns.go_back(client, told, lambda found: client.print("what now", "-s", found.id), "--session", told.session)


def test_the_client_did_what_the_script_says(told):
    three_turns.check_script(told, [FIRST, SECOND, THIRD])
    assert (b"made/by_hand" in told.pictures[3], b"gone.txt" in told.pictures[3]) == (True, False)


def test_every_prompt_and_every_turn_is_a_checkpoint_of_that_session(told):
    assert triggers(told.points) == ["session_start", *["prompt", "turn_end"] * 3, "session_end"]
    three_turns.check_points(told, "droid")


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_each_has_the_files_of_its_moment(client, told, turn, tmp_path):
    three_turns.check_files(client, told, turn, tmp_path)


def test_back_has_the_files_of_before_the_prompt(told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run it"]
    assert gone_back.report["fork"]["resume"] == f"droid --resume {gone_back.id}"


def test_the_client_goes_on_from_exactly_the_turns_before(gone_back):
    assert gone_back.request.told == [*FIRST, *SECOND, "user: what now"]
    assert "by_hand" not in str(gone_back.request.body["messages"]), "nothing of the third turn, not in a reminder either"
    assert (gone_back.answer["session_id"], gone_back.answer["result"]) == (gone_back.id, "OK.")
    assert {point["session"] for point in gone_back.points} == {gone_back.id}


def test_the_original_conversation_keeps_every_byte(client, told, gone_back):
    assert gone_back.original_after == gone_back.original
    head, _, rest = gone_back.fork.partition(b"\n")
    assert gone_back.original.partition(b"\n")[2].startswith(rest), "but for the line that names the session"
    assert json.loads(head) == json.loads(gone_back.original.partition(b"\n")[0]) | {
        "id": gone_back.id, "title": json.loads(head)["title"],
    }  # fmt: skip
    assert gone_back.modes == {f"{gone_back.id}.jsonl": 0o600, f"{gone_back.id}.settings.json": 0o600}


def test_in_print_mode_there_is_no_prompt_hook_and_back_says_so(client, gone_back):
    """So the files of before such a prompt are those of the newest checkpoint before it, on request."""
    assert triggers(gone_back.points) == ["session_start", "turn_end", "session_end"]
    refused = client.casrewind("back", "--both", "--yes", code=15)
    assert "no checkpoint was made for that prompt" in refused.err


def test_the_fork_goes_on_in_a_front_end_and_back_there_is_before_its_own_prompt(client, told, gone_back):
    client.model.script["wreck it"] = [[execute("rm -rf kept.txt bin alpha.txt")], ["Wrecked."]]
    front = client.front(gone_back.id)
    front.say("wreck it")
    assert not (client.project / "kept.txt").exists()
    front.close()
    report = client.casrewind.json("back", "1", "--both", "--yes")
    assert differences(picture(client.project), told.pictures[2]) == {}
    client.print("and now", "-s", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, *SECOND, "user: what now", "assistant: OK.", "user: and now"]


def test_a_command_typed_in_the_client_is_answered_without_the_model(client, told, gone_back):
    client.model.script["spoil it"] = [[execute("echo spoilt > alpha.txt")], ["Spoilt."]]
    front = client.front(told.session)  # the one that was left behind is as good as ever
    front.say("spoil it")
    asked = len(client.model.requests)
    listed = str(front.say("/casrewind"))
    assert "@1  spoil it" in listed
    answer = str(front.say("/casrewind back 1"))  # a small turn: there is no plan
    assert len(client.model.requests) == asked, "no request to the model"
    assert (client.project / "alpha.txt").read_bytes() == b"alpha v2\n"
    kept = client.transcript(told.session).read_bytes()
    assert [prompt.text for prompt in droid.prompts(kept)] == [*PROMPTS, "spoil it"], "what was for us is no prompt"
    front.close()
    (fork,) = set(re.findall(r"droid --resume ([0-9a-f-]{36})", answer))
    client.print("where were we", "-s", fork)
    assert client.model.requests[-1].told == [*FIRST, *SECOND, *THIRD, "user: where were we"]


def test_a_client_killed_in_the_middle_of_a_tool(client, told):
    """Neither its turn's end nor the session's was ever told of; what the tool did so far is not lost, and can be undone."""
    before = picture(client.project)
    client.model.script["hang on"] = [[execute("echo half > half.txt; sleep 9")], ["Never."]]
    front = client.front(told.session)
    front.send("add_user_message", text="hang on")
    wait(lambda: (client.project / "half.txt").exists())
    front.kill()
    report = client.casrewind.json("back", "1", "--both", "--yes")
    assert differences(picture(client.project), before) == {}
    assert report["prompts"][-1] == "hang on"
    client.print("still there", "-s", report["fork"]["session_id"])
    assert client.model.requests[-1].told[-1] == "user: still there"
    assert not any("hang on" in text for text in client.model.requests[-1].told)
    client.casrewind("undo", "--yes", code=0)
    assert (client.project / "half.txt").read_bytes() == b"half\n"


def test_the_client_s_own_rewind_is_a_new_session_whose_first_turns_are_those_of_the_old_one(client, told):
    """It knows nothing of what a shell command did, and leaves it there; here it can still be taken back."""
    front = client.front(told.session)
    second = droid.prompts(client.transcript(told.session).read_bytes())[1]
    params = {"sessionId": told.session, "messageId": second.message_id, "filesToRestore": [], "filesToDelete": [], "forkTitle": "x"}
    session = front.ask("execute_rewind", **params)["newSessionId"]
    front.close()
    client.model.script["another way"] = [[execute("echo other > other.txt; rm alpha.txt")], ["Done."]]
    before = picture(client.project)
    front = client.front(session)
    front.say("another way")
    front.close()
    assert client.model.requests[-1].told == [*FIRST, "user: another way", "call Execute", "result"]
    report = client.casrewind.json("back", "1", "--both", "--yes")
    assert (report["prompts"], differences(picture(client.project), before)) == (["another way"], {})
    client.print("where are we", "-s", report["fork"]["session_id"])
    assert client.model.requests[-1].told == [*FIRST, "user: where are we"]
    report = client.casrewind.json("back", client.casrewind.turn(PROMPTS[0]), "--both", "--yes", "--session", session)
    assert (report["prompts"], report["fork"]) == (PROMPTS[:1] + ["another way"], None)
    assert differences(picture(client.project), told.pictures[0]) == {}, "the checkpoint was the old session's"
    client.casrewind("undo", "--yes", code=0)
    assert differences(picture(client.project), before) == {}


def test_no_hook_failed_and_the_store_is_whole(client, told, gone_back):
    three_turns.check_whole(client)


def test_uninstall_gives_the_settings_of_before_back(client, told):
    assert (client.config / "hooks.json").read_bytes() != HOOKS
    client.casrewind("uninstall", "droid", code=0)
    assert (client.config / "hooks.json").read_bytes() == HOOKS
    assert (client.config / "settings.json").read_bytes() == client.settings
    assert not any("casrewind" in name for name in os.listdir(client.config))
    before = len(client.points())
    client.print("is anybody there")
    assert len(client.points()) == before, "no hook is left"
