"""What only Gemini's transcripts have: changes of messages, rewinds, imports, and cursors without an id."""

from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents import settings_edit, transcript_position
from casrewind.agents import event as events
from casrewind.model.cursor import Cursor
from support import transcripts

gemini = agents.load_conversation_client("gemini")
DATA = Path(__file__).parent / "data"
PROMPTS = ["TURN1 please create a.txt", "TURN2 patch it", "TURN3 overwrite"]
NEW = "11111111-2222-4333-8444-555555555555"
HEAD = {"sessionId": "s", "projectHash": "h", "startTime": "2026-11-20T23:32:13.901Z", "kind": "main"}


def recorded():
    return (DATA / "gemini" / "three_turns.jsonl").read_bytes()


def texts(data, **options):
    return [prompt.text for prompt in gemini.prompts(data, **options)]


def user(name, text):
    return {"id": name, "timestamp": "2026-11-20T23:32:14.366Z", "type": "user", "content": [{"text": text}]}


def model(name, text="answer"):
    return {"id": name, "timestamp": "2026-11-20T23:32:14.476Z", "type": "gemini", "content": text}


def result(name):
    return {"id": name, "type": "user", "content": [{"functionResponse": {"id": "f", "response": {}}}]}


def everything(*messages):
    return {"$set": {"messages": list(messages)}}


SNAPSHOT = "<scratchpad>short</scratchpad>\n<state_snapshot>\n<goal>three files</goal>\n</state_snapshot>"
SHELL = "I ran the following shell command:\n```sh\nls\n```\n\nThis produced the following result:\n```\na.txt\n```"
CONTEXT = user("env", "<session_context>\nToday is")


def test_what_a_hook_told_the_model_is_no_part_of_the_prompt():
    """The client keeps it as a further part of the prompt's message; a person may type such a text, too."""
    told = {"text": "<hook_context>casrewind: since your last answer</hook_context>"}
    line = {**user("a", "go on"), "content": [{"text": "go on"}, told]}
    assert texts(transcripts.join([line, {**line, "id": "b", "content": [told]}])) == ["go on", told["text"]]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (user("a", "hello"), "prompt"), (user("a", "<session_context>\nx"), "meta"), (user("a", " "), "meta"), (user("", "x"), "unknown"),
        ({**user("a", ""), "content": "plain"}, "prompt"), ({**user("a", ""), "content": [{"inlineData": {}}]}, "prompt"),
        (user("a", SNAPSHOT), "compact_summary"), (user("a", SHELL), "bash_mode"), (user("a", "I ran the following shell command: ls"), "prompt"),
        (user("a", "Here is the user's editor context as a JSON object. This is for your information only."), "meta"),
        ({**user("a", ""), "content": 7}, "meta"), (result("a"), "tool_result"), (model("a"), "assistant"),
        ({"id": "a", "type": "info", "content": "x"}, "system"), ({"id": "a", "type": ["user"]}, "unknown"),
        (HEAD, "bookkeeping"), ({"$set": 7}, "bookkeeping"), ({"$rewindTo": 7}, "bookkeeping"), ({}, "unknown"), (None, "unknown"),
    ],
)  # fmt: skip
def test_look_alikes_are_told_from_prompts(value, kind):
    assert gemini.kind_of_line(value) == kind
    assert len(texts(transcripts.join([value]))) == (kind == "prompt")


def test_a_rewind_in_the_client_removes_prompts_and_an_unknown_one_removes_all():
    rows = [HEAD, user("a", "one"), model("b"), user("c", "two"), model("d"), {"$rewindTo": "c"}, user("e", "other")]
    data = transcripts.join(rows)
    assert (texts(data), texts(data, every=True)) == (["one", "other"], ["one", "two", "other"])
    assert gemini.cut_before_prompt(data, gemini.prompts(data)[1]) == transcripts.join(rows[:6])
    assert gemini.cut_before_prompt(data, gemini.prompts(data, every=True)[1]) == transcripts.join(rows[:3])
    assert texts(transcripts.join([*rows[:5], {"$rewindTo": "nothing"}, user("e", "other")])) == ["other"]


def test_a_rewind_to_a_message_of_an_unknown_kind_leaves_what_is_before_it():
    rows = [HEAD, user("a", "one"), model("b"), {"id": "n", "type": "news"}, user("c", "two"), {"$rewindTo": "n"}, user("e", "other")]
    assert texts(transcripts.join(rows)) == ["one", "other"]


def test_prompts_before_a_compaction_can_be_gone_back_to():
    rows = [HEAD, user("a", "one"), model("b"), user("c", "two"), model("d"), everything(user("x", "<session_context>"), model("d")), user("e", "on")]
    data = transcripts.join(rows)
    assert texts(data) == ["one", "two", "on"]
    assert gemini.cut_before_prompt(data, gemini.prompts(data)[1]) == transcripts.join(rows[:3])


def test_compress_and_a_shell_command_typed_in_the_client_are_no_prompts():
    """After /compress the client makes a new list of all messages: a summary, and the last turns with new ids."""
    head = [HEAD, everything(CONTEXT), user("a", "one"), model("b"), user("c", "two"), model("d")]
    kept = [user("k", "two"), model("l")]
    summary = everything(CONTEXT, user("s", SNAPSHOT), model("t", "Got it. Thanks for the additional context!"), *kept)
    rows = [*head, user("x", SHELL), summary, user("e", "three"), model("f")]
    data = transcripts.join(rows)
    assert texts(data) == texts(data, every=True) == ["one", "two", "three"]
    assert gemini.cut_before_prompt(data, gemini.prompts(data)[2]) == transcripts.join(rows[:8])
    assert gemini.cut_before_prompt(data, gemini.prompts(data)[1]) == transcripts.join(rows[:4])
    assert texts(transcripts.join([*rows, everything(CONTEXT, user("s2", SNAPSHOT), user("k2", "two"), user("e2", "three"))])) == ["one", "two", "three"]


def test_a_rewind_to_the_copy_of_a_prompt_removes_the_prompt():
    summary = everything(CONTEXT, user("s", SNAPSHOT), model("t"), user("k", "go on"), model("l"))
    rows = [HEAD, user("a", "go on"), model("b"), user("c", "go on"), model("d"), summary, {"$rewindTo": "k"}, user("e", "other")]
    found = gemini.prompts(transcripts.join(rows))
    assert [prompt.uuid for prompt in found] == ["a", "e"], "the last of those with its words"


def test_copies_that_have_lines_of_their_own_are_no_prompts():
    """Before the client shortens the output of tools, it writes each message once more, and then the list of them."""
    copies = [user("env2", "<session_context>\nToday is"), user("k", "one"), model("l"), user("m", "two")]
    lines = [row for copy in copies for row in (copy, {"$set": {"lastUpdated": "x"}})]
    rows = [HEAD, everything(CONTEXT), user("a", "one"), model("b"), user("c", "two"), *lines, everything(*copies), model("n"), user("e", "two")]
    data = transcripts.join(rows)
    assert [prompt.uuid for prompt in gemini.prompts(data)] == ["a", "c", "e"]


def test_an_imported_prompt_is_listed_and_cannot_be_cut_at():
    data = transcripts.join([HEAD, everything(user("a", "one"), model("b"), user("c", "two")), user("e", "on")])
    assert texts(data) == ["one", "two", "on"]
    with pytest.raises(errors.AgentError, match="imported"):
        gemini.cut_before_prompt(data, gemini.prompts(data)[1])
    assert gemini.cut_before_prompt(data, gemini.prompts(data)[2]) is not None


def cursor_at(data, end):
    event = events.read_event(gemini, b'{"hook_event_name": "AfterAgent", "session_id": "s"}', {})
    return transcript_position.cursor_at(gemini, data[:end], event)


def test_a_checkpoint_is_found_by_hash_and_in_a_fork_by_id():
    data = recorded()
    second = gemini.prompts(data)[1]
    cursor = cursor_at(data, second.start)
    assert gemini.cut_at_checkpoint(data, cursor, "turn_end") == data[: second.start]
    fork = gemini.make_fork(data, gemini.cut_before_prompt(data, gemini.prompts(data)[2]), NEW)
    found = gemini.cut_at_checkpoint(fork, cursor, "turn_end")
    assert texts(found) == PROMPTS[:1] and found == fork[: len(found)]
    assert gemini.cut_at_checkpoint(data, Cursor(), "session_start") is None
    with pytest.raises(errors.AgentError, match="not in this transcript"):
        gemini.cut_at_checkpoint(data, Cursor(offset=9, prefix=b"x" * 32, event_id="x"), "turn_end")


def test_an_id_in_what_was_said_stays_in_a_fork():
    quoting = transcripts.join([HEAD, user("a", '"s"'), {**model("b"), "toolCalls": [{"args": {"sessionId": "s"}}]}])
    assert gemini.make_fork(quoting, quoting, NEW).splitlines()[1:] == quoting.splitlines()[1:]


def test_the_title_is_the_client_s_summary():
    assert gemini.title_of(recorded() + transcripts.join([{"$set": {"summary": "A summary"}}])) == "A summary"


def test_no_hook_asks_for_the_event_that_comes_without_a_compaction_too():
    assert "PreCompress" not in settings_edit.make_hook_entries(gemini, "aggressive")


def test_hooks_that_are_switched_off_are_seen():
    (file,) = gemini.settings.files
    assert settings_edit.find_off_switch('{"hooksConfig": {"enabled": false}}', gemini, file)
    for text in ("{}", '{"hooksConfig": {"enabled": true}}', '{"hooksConfig": 7}', '{"hooksConfig": {"enabled": null}}'):
        assert not settings_edit.find_off_switch(text, gemini, file)
