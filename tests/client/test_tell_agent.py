"""What the model's server sees after a turn was taken back from outside: the text of the hook, once, in the sessions that need it."""

import json
from types import SimpleNamespace

import pytest

from support import claude_model, real_clients, resumed_clients
from support.sample_start import by_turns
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-told"), pytest.mark.timeout(600), *real_clients.at_times("tell_agent")]

TOLD = "casrewind: since your last answer"
MADE = "make a helper"
COMMAND = "echo made >> helper.py"


def request(client, prompt):
    """The newest request for an answer to a prompt, as JSON."""
    (*_, found) = (request for request in client.model.requests if request.prompts and prompt in request.prompts[-1])
    return json.dumps(found.body, ensure_ascii=False)


def times(client, prompt):
    """How often the request of a prompt says that something was taken back."""
    return request(client, prompt).count(TOLD)


def told(client, prompt):
    """What the request of a prompt says of what was taken back."""
    text = request(client, prompt).replace("\\", "")
    return text[text.rindex(TOLD) :][:600] if TOLD in text else ""


@pytest.mark.parametrize("kind", [*by_turns(list(resumed_clients.ALL[1:-1]), 1), pytest.param(resumed_clients.Opencode, marks=pytest.mark.long)], ids=lambda kind: kind.__name__)
def test_a_turn_that_was_taken_back_is_told_once(tmp_path_factory, kind):
    person = kind(tmp_path_factory.mktemp("t"))
    client = person.client
    try:
        plant(client.project, {"kept.txt": b"kept\n"})
        person.install()
        client.casrewind("save", code=0)
        client.model.script = {MADE: [[person.call(COMMAND)], ["Made."]]}
        with person.talk() as talk:
            talk.say(MADE)
            assert (client.project / "helper.py").exists() and times(client, MADE) == 0
            assert "the agent will be told (hooks.tell_agent)" in client.casrewind("revert", "@1", "--yes", code=0).out
            talk.say("go on")
            assert times(client, "go on") == 1
            assert f'took back your turn "{MADE}"' in told(client, "go on") and 'Gone: "helper.py"' in told(client, "go on")
            talk.say("and on")
            assert times(client, "and on") == 1, "it stays in the conversation, and is not said again"
            report = client.casrewind.json("back", "2", "--chat", "--yes", "--session", talk.session)
        assert report["prompts"] == ["go on", "and on"], "the text is no part of the prompt"
    finally:
        client.stop()


@pytest.fixture(scope="module")
def went(start):
    """Claude Code on two terminals in one project: how often the request of each prompt has the text."""
    client = start()
    plant(client.project, {"kept.txt": b"kept\n"})
    client.casrewind("install", "claude", code=0)
    client.model.script = {MADE: [[claude_model.bash(COMMAND)], ["Made."]]}
    first, second = client.terminal(), client.terminal()
    found = SimpleNamespace(client=client, times={}, texts={})

    def say(terminal, prompt):
        terminal.say(prompt)
        found.times[prompt], found.texts[prompt] = times(client, prompt), told(client, prompt)

    def restored(*words):
        return client.casrewind(*words, "--yes", code=0).out

    say(first, MADE)
    say(second, "a question")
    found.session = next(point["session"] for point in client.points() if point["prompt"] == MADE)
    restored("revert", "@2")
    say(first, "go on")
    say(second, "you too")
    say(first, "and on")
    restored("undo")
    restored("redo")
    say(first, "after an undo")
    settings = client.home / ".config" / "casrewind" / "config.toml"
    plant(settings.parent, {settings.name: b"[hooks]\ntell_agent = false\n"})
    restored("undo")
    say(first, "switched off")
    settings.unlink()
    say(first, MADE + " once more")
    report = client.casrewind.json("back", "1", "--session", found.session, "--yes")
    found.fork = report["fork"]["session_id"]
    client.resume(report["fork"]["resume"], "in the fork")
    found.times["in the fork"] = times(client, "in the fork")
    say(first, "where it was forked")
    return found


def test_the_session_whose_turn_it_was_is_told_at_its_next_prompt_alone(went):
    assert [went.times[prompt] for prompt in (MADE, "go on", "and on")] == [0, 1, 1]
    assert f'the user took back your turn "{MADE}"' in went.texts["go on"] and 'Gone: "helper.py"' in went.texts["go on"]


def test_another_session_is_told_without_that_prompt(went):
    assert [went.times[prompt] for prompt in ("a question", "you too")] == [0, 1]
    assert "took back another session's turn" in went.texts["you too"] and MADE not in went.texts["you too"]


def test_what_was_done_and_reversed_between_two_prompts_is_not_told(went):
    assert went.times["after an undo"] == 1


def test_nothing_is_told_where_the_setting_is_off(went):
    assert went.times["switched off"] == 1


def test_a_fork_is_not_told_of_its_own_restore_and_the_conversation_that_goes_on_is(went):
    assert went.times["in the fork"] == went.times[MADE + " once more"] == 1
    assert went.times["where it was forked"] == 2
