"""Claude Code in print mode, with hooks that `casrewind install claude` put there: three turns, back, on, uninstalled."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from support.claude_model import bash, call
from support.picture import differences, picture
from support.transcripts import is_part_of
from support.trees import Exec, plant

pytestmark = pytest.mark.xdist_group("client-print")

SETTINGS = b'{"theme" :  "dark",\n\t"env": {"A": "\\u00e9"},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}  }'
PROMPTS = ["please create alpha", "please edit alpha", "please run bash"]
FIRST = ["user: please create alpha", "assistant: Creating.", "call Write", "result", "assistant: It is there."]
SECOND = ["user: please edit alpha", "call Read", "result", "call Edit", "result", "assistant: Edited."]
THIRD = ["user: please run bash", "call Bash", "result", "assistant: Ran."]


@pytest.fixture(scope="module")
def told(start):
    """Three turns, each in a process of its own as scripts have it, and pictures of the project before and after each."""
    client = start()
    plant(client.project, {"kept.txt": b"kept", "bin/tool": Exec(b"#!/bin/sh\n"), "gone.txt": b"to be removed"})
    plant(client.config, {"settings.json": SETTINGS})
    client.casrewind("install", "claude", code=0)
    alpha = str(client.project / "alpha.txt")
    client.model.script = {
        "create alpha": [["Creating.", call("Write", file_path=alpha, content="alpha v1\n")], ["It is there."]],
        "edit alpha": [[call("Read", file_path=alpha)], [call("Edit", file_path=alpha, old_string="v1", new_string="v2")], ["Edited."]],
        "run bash": [[bash("mkdir made; echo made > made/by_bash; rm gone.txt; sed -i s/v2/v3/ alpha.txt; chmod 644 bin/tool")], ["Ran."]],
    }
    pictures, session = [picture(client.project)], None
    for turn, prompt in enumerate(PROMPTS):
        session = client.say(prompt, *(["--resume", session] if session else []))["session_id"]
        pictures.append(picture(client.project))
        client.wait_for_more(4 * turn, 4)  # the end of a session is not waited for longer than a second
    return SimpleNamespace(client=client, session=session, pictures=pictures, points=client.points())


@pytest.fixture(scope="module")
def gone_back(told):
    """`casrewind back 1 --both`, and the client resumed with the very command that was printed."""
    client = told.client
    transcript = client.transcript(told.session)
    found = SimpleNamespace(original=transcript.read_bytes())
    found.report = client.casrewind.json("back", "1", "--both", "--yes")
    found.picture = picture(client.project)
    fork = found.report["fork"]
    found.fork = Path(fork["path"]).read_bytes()
    found.answer = client.resume(fork["resume"], "what now")
    found.request = client.model.requests[-1]
    found.points = client.wait_for_more(len(told.points), 4)[len(told.points) :]
    found.original_after = transcript.read_bytes()
    return found


def test_the_client_did_what_the_script_says(told):
    assert told.client.model.requests[-1].told == FIRST + SECOND + THIRD[:-1]
    assert len({str(each) for each in told.pictures}) == 4
    assert (b"made/by_bash" in told.pictures[3], b"gone.txt" in told.pictures[3]) == (True, False)


def test_every_prompt_and_every_turn_is_a_checkpoint_of_that_session(told):
    triggers = [point["trigger"] for point in told.points]
    assert sorted(triggers[:2]) == ["prompt", "session_start"], "a first save of a project is made beside the client"
    assert triggers[2:] == ["turn_end", "session_end", *["session_start", "prompt", "turn_end", "session_end"] * 2]
    assert [point["prompt"] for point in told.points if point["trigger"] == "prompt"] == PROMPTS
    assert [point["prompt"] for point in told.points if point["trigger"] == "turn_end"] == PROMPTS
    assert {(point["agent"], point["session"]) for point in told.points} == {("claude", told.session)}
    assert {point["label"] for point in told.points} == {None}, "nobody else changed anything"


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_each_has_the_files_of_its_moment(told, turn, tmp_path):
    for trigger, wanted in (("prompt", told.pictures[turn]), ("turn_end", told.pictures[turn + 1])):
        point = [point for point in told.points if point["trigger"] == trigger][turn]
        found = picture(told.client.restored(point, tmp_path / trigger))
        assert differences(found, wanted) == {}, point


def test_back_has_the_files_of_before_the_prompt(told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run bash"]


def test_the_client_goes_on_from_exactly_the_turns_before(gone_back):
    fork = gone_back.report["fork"]["session_id"]
    assert gone_back.request.told == [*FIRST, *SECOND, "user: what now"]
    assert "made" not in str(gone_back.request.body["messages"][1:]), "nothing of the third turn, not in a reminder either"
    assert (gone_back.answer["session_id"], gone_back.answer["result"]) == (fork, "OK.")
    assert {point["session"] for point in gone_back.points} == {fork}
    assert [point["prompt"] for point in gone_back.points if point["trigger"] == "prompt"] == ["what now"]


def test_the_original_conversation_keeps_every_byte(told, gone_back):
    assert gone_back.original_after == gone_back.original
    *lines, title = gone_back.fork.splitlines(keepends=True)
    assert b"custom-title" in title and is_part_of(b"".join(lines), gone_back.original)
    assert sorted(path.name for path in told.client.transcript(told.session).parent.glob("*.jsonl")) == sorted(
        f"{session}.jsonl" for session in (told.session, gone_back.report["fork"]["session_id"])
    )


def test_back_in_the_fork_goes_to_before_its_own_prompt(told, gone_back):
    client = told.client
    client.model.script["wreck it"] = [[bash("rm -rf kept.txt bin alpha.txt")], ["Wrecked."]]
    client.resume(gone_back.report["fork"]["resume"], "wreck it")
    assert not (client.project / "kept.txt").exists()
    report = client.casrewind.json("back", "1", "--both", "--yes")
    assert differences(picture(client.project), told.pictures[2]) == {}
    client.resume(report["fork"]["resume"], "and now")
    assert client.model.requests[-1].told == [*FIRST, *SECOND, "user: what now", "assistant: OK.", "user: and now"]


def test_back_in_the_fork_goes_on_into_the_session_that_it_came_from(told, gone_back):
    client = told.client
    client.resume(gone_back.report["fork"]["resume"], "one more")
    prompts = client.model.requests[-1].prompts
    assert prompts[:2] == PROMPTS[:2] and prompts[-1] == "one more"
    report = client.casrewind.json("back", client.casrewind.turn(prompts[1]), "--both", "--yes")
    assert report["prompts"] == prompts[1:]
    assert differences(picture(client.project), told.pictures[1]) == {}
    client.resume(report["fork"]["resume"], "another way")
    assert client.model.requests[-1].told == [*FIRST, "user: another way"]


def test_back_in_place_keeps_the_session_and_a_copy_of_what_it_was(told, gone_back):
    client, fork = told.client, gone_back.report["fork"]
    client.resume(fork["resume"], "regrettable")
    prompts = client.model.requests[-1].prompts
    before = Path(fork["path"]).read_bytes()
    report = client.casrewind.json("back", "1", "--chat", "--in-place", "--yes")
    assert Path(report["fork"]["backup"]).read_bytes() == before
    assert (report["fork"]["session_id"], report["fork"]["path"]) == (fork["session_id"], fork["path"])
    client.resume(report["fork"]["resume"], "better")
    assert client.model.requests[-1].prompts == [*prompts[:-1], "better"]


def test_the_client_found_nothing_to_complain_of_and_asked_nobody_else(told, gone_back):
    assert told.client.model.strangers == []
    assert told.client.casrewind("status", code=0).err == "", "no hook failed"


def test_uninstall_gives_the_settings_of_before_back(told, gone_back):
    client = told.client
    assert (client.config / "settings.json").read_bytes() != SETTINGS
    assert (client.config / "commands" / "casrewind.md").exists()
    client.casrewind("uninstall", "claude", code=0)
    assert (client.config / "settings.json").read_bytes() == SETTINGS
    assert not any(b"casrewind" in name for name in picture(client.config))
    before = len(client.points())
    client.say("is anybody there")
    assert len(client.points()) == before, "no hook is left"
