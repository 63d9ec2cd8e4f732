"""What only Factory Droid's transcripts have: lines that look like prompts, and cursors by the message that a hook names."""


import pytest

from casrewind import agents
from casrewind.model.cursor import Cursor
from support import transcripts
from support.transcripts import join

droid = agents.load_conversation_client("droid")
PROMPTS = ["please create alpha", "please edit alpha", "please run bash"]
START = {"type": "session_start", "id": "s", "title": "old", "version": 2, "cwd": "/p", "isSessionTitleManuallySet": False}


def message(name, role, *content, **more):
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    time = {"timestamp": "2026-11-20T23:59:58.588Z"}
    return {"type": "message", "id": name, **time, "message": {"role": role, "content": blocks, **more}}


def call(name):
    return {"type": "tool_use", "id": name, "name": "Execute", "input": {}}


def answer(name):
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


def texts(data):
    return [prompt.text for prompt in droid.prompts(data)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (message("a", "user", "hello"), "prompt"),
        (message("a", "user", "<system-reminder>x</system-reminder>", "hello"), "prompt"),
        (message("a", "user", "<system-reminder>x</system-reminder>"), "meta"),
        (message("a", "user", {"type": "image"}), "prompt"),
        (message("a", "user"), "meta"),
        (message("a", "user", "hello", visibility="user_only"), "meta"),
        (message("a", "user", "hello", hookEventName="Stop"), "meta"),
        (message("context-a", "user", "hello"), "attachment"),
        (message("a", "user", answer("t")), "tool_result"),
        (message("a", "user", "[Request interrupted by user]"), "interrupt"),
        (message("a", "assistant", "hello"), "assistant"),
        (message("a", "robot", "hello"), "unknown"),
        (START, "bookkeeping"),
        ({"type": "agent_turn_outcome"}, "bookkeeping"),
        ({"type": "something-of-next-year", "id": "a"}, "unknown"), ({"type": "message"}, "unknown"), ({}, "unknown"), (None, "unknown"),
        ({"type": "message", "message": 7}, "unknown"), ({"type": ["message"]}, "unknown"),
    ],
)  # fmt: skip
def test_look_alikes_are_told_from_prompts(value, kind):
    assert droid.kind_of_line(value) == kind
    assert texts(join([value])) == ([] if kind != "prompt" else ["" if value["message"]["content"][-1]["type"] == "image" else "hello"])


def test_unanswered_calls_never_end_a_fork():
    head = [START, message("a", "user", "one"), message("b", "assistant", "hello"), message("c", "user", "two")]
    tail = [message("z", "user", "three")]
    for more in ([message("d", "assistant", call("t1"))], [message("d", "assistant", call("t1"), call("t2")), message("e", "user", answer("t1"))]):
        data = join([*head, *more, *tail])
        assert droid.cut_before_prompt(data, droid.prompts(data)[-1]) == join(head)
    whole = [message("d", "assistant", call("t1")), message("e", "user", answer("t1"))]
    data = join([*head, *whole, *tail])
    assert droid.cut_before_prompt(data, droid.prompts(data)[-1]) == join([*head, *whole])


def test_the_end_of_a_turn_is_the_message_that_the_hook_names():
    data = transcripts.droid()
    last = next(row["id"] for row in reversed(transcripts.values(data)) if row.get("message", {}).get("role") == "assistant")
    kept = droid.cut_at_checkpoint(data, Cursor(message_id=last, event_id=droid.prompts(data)[2].uuid, offset=1), "turn_end")
    assert transcripts.values(kept)[-1]["id"] == last and texts(kept) == PROMPTS


def test_a_prompt_that_never_came_into_the_transcript_is_cut_behind_the_last_line_that_did():
    data = transcripts.droid()
    end = transcripts.values(data)[24]["id"]
    kept = droid.cut_at_checkpoint(data, Cursor(message_id="never written", event_id=end, offset=1), "prompt")
    assert transcripts.values(kept)[-1]["id"] == end and texts(kept) == PROMPTS[:2]


def test_before_a_tool_its_call_is_not_in_the_fork():
    data = transcripts.droid()
    caller = transcripts.values(data)[28]
    assert caller["message"]["content"][1]["type"] == "tool_use"
    kept = droid.cut_at_checkpoint(data, Cursor(event_id=caller["id"], offset=1), "tool_batch")
    assert transcripts.values(kept)[-1]["id"] == droid.prompts(data)[2].uuid


def test_a_fork_has_its_own_id_and_title_in_its_first_line_and_every_other_line_as_it_was():
    data = transcripts.droid()
    kept = droid.cut_before_prompt(data, droid.prompts(data)[2])
    made = droid.make_fork(data, kept, "new-id")
    first, was = transcripts.values(made)[0], transcripts.values(data)[0]
    assert first == {**was, "id": "new-id", "title": "[Fork] Mock side reply"} and list(first) == list(was)
    assert made.partition(b"\n")[2] == kept.partition(b"\n")[2]
    again = droid.make_fork(made, made, "other")
    assert droid.title_of(again) == "[Fork] Mock side reply" and transcripts.values(again)[0]["id"] == "other"
