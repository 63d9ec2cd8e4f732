"""What is Factory Droid's own: print mode without an event for a prompt, `/casrewind back` in a front end, and its own rewind."""

import re
from types import SimpleNamespace

import pytest

from support import real_clients, three_turns
from support.picture import differences, picture
from support.resumed_clients import Droid
from support.three_turns import PROMPTS, triggers

pytestmark = [pytest.mark.xdist_group("client-droid"), *real_clients.in_turn("droid")]


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    found = Droid(tmp_path_factory.mktemp("d"))
    found.install()
    yield found
    found.client.stop()


@pytest.fixture(scope="module")
def told(person):
    return three_turns.tell(person)


@pytest.fixture(scope="module")
def printed(person, told):
    """A prompt in print mode, as scripts have it, in the session of the three turns."""
    person.run("what now", told.session)
    return SimpleNamespace(points=person.client.points()[len(told.points) :], requests=list(person.client.model.requests))


def test_a_fork_s_settings_go_along(person, told):
    fork = person.client.casrewind.json("back", "1", "--chat", "--yes", "--session", told.session)["fork"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in person.client.config.glob(f"sessions/*/{fork['session_id']}*")}
    assert modes == {f"{fork['session_id']}.jsonl": 0o600, f"{fork['session_id']}.settings.json": 0o600}


def test_in_print_mode_there_is_no_prompt_hook_and_back_says_so(person, told, printed):
    """So the files of before such a prompt are those of the newest checkpoint before it, on request."""
    assert triggers(printed.points) == ["session_start", "turn_end", "session_end"]
    refused = person.client.casrewind("back", "--both", "--yes", "--session", told.session, code=15)
    assert "no checkpoint was made for that prompt" in refused.err


def test_back_that_is_typed_in_a_front_end_takes_its_turn_back(person, told, printed):
    client = person.client
    client.model.script["spoil it"] = [[person.call("echo spoilt > alpha.txt")], ["Spoilt."]]
    before = picture(client.project)
    with person.talk(told.session) as talk:
        talk.say("spoil it")
        asked = len(client.model.requests)
        assert "@1  spoil it" in str(talk.say("/casrewind"))
        answer = str(talk.say("/casrewind back 1"))  # a small turn: there is no plan
        assert len(client.model.requests) == asked and differences(picture(client.project), before) == {}
        assert person.prompts(told.session) == [*PROMPTS, "what now", "spoil it"], "what was for us is no prompt"
    (fork,) = set(re.findall(r"droid --resume ([0-9a-f-]{36})", answer))
    person.run("where were we", fork)
    assert client.model.requests[-1].told == [*printed.requests[-1].told, "assistant: OK.", "user: where were we"]


def test_the_client_s_own_rewind_is_a_new_session_whose_first_turns_are_those_of_the_old_one(person, told):
    """It knows nothing of what a shell command did, and leaves it there; here it can still be taken back."""
    client, first = person.client, three_turns.turns(person)[0]
    second = person.adapter.prompts(person.original(told.session))[1]
    params = {"sessionId": told.session, "messageId": second.message_id, "filesToRestore": [], "filesToDelete": [], "forkTitle": "x"}
    with person.talk(told.session) as talk:
        session = talk.front.ask("execute_rewind", **params)["newSessionId"]
    client.model.script["another way"] = [[person.call("echo other > other.txt; rm alpha.txt")], ["Done."]]
    before = picture(client.project)
    with person.talk(session) as talk:
        talk.say("another way")
    assert client.model.requests[-1].told == [*first, "user: another way", "call Execute", "result"]
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", session)
    assert (report["prompts"], differences(picture(client.project), before)) == (["another way"], {})
    person.resume(report["fork"]["resume"], "where are we")
    assert client.model.requests[-1].told == [*first, "user: where are we"]
    report = client.casrewind.json("back", client.casrewind.turn(PROMPTS[0]), "--both", "--yes", "--session", session)
    assert (report["prompts"], report["fork"]) == (PROMPTS[:1] + ["another way"], None)
    assert differences(picture(client.project), told.pictures[0]) == {}, "the checkpoint was the old session's"
    client.casrewind("undo", "--yes", code=0)
    assert differences(picture(client.project), before) == {}
