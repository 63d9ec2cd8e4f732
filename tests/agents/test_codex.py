"""What only Codex's rollouts have: turns with a beginning and an end, an interruption, and files that go on from another file."""

import json
from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents import transcript_position
from casrewind.agents import event as events
from casrewind.model.cursor import Cursor
from support import transcripts

codex = agents.load_conversation_client("codex")
DATA = Path(__file__).parent / "data"
NEW = "11111111-2222-4333-8444-555555555555"


def recorded(name="three_turns"):
    return (DATA / "codex" / f"{name}.jsonl").read_bytes()


def texts(data):
    return [prompt.text for prompt in codex.prompts(data)]


def item(text, turn="t", **more):
    extra = {"turn_id": turn, "content_item_kinds": ["user.text"]}
    message = {"type": "message", "id": f"msg-{text}", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"timestamp": "2026-11-20T23:27:30.841Z", "type": "response_item", "payload": {
        **message, "internal_chat_message_metadata_passthrough": extra, **more,
    }}  # fmt: skip


def call(name):
    return {"type": "response_item", "payload": {"type": "function_call", "name": "exec_command", "call_id": name, "arguments": "{}"}}


def answer(name):
    return {"type": "response_item", "payload": {"type": "function_call_output", "call_id": name, "output": "done"}}


def turn(name, *inside, end="task_complete"):
    def event(kind):
        return {"type": "event_msg", "payload": {"type": kind, "turn_id": name}}

    return [event("task_started"), *inside, *([event(end)] if end else [])]


META = {"type": "session_meta", "payload": {"id": "s", "session_id": "s", "cwd": "/p"}}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (item("hello"), "prompt"),
        (item("<environment_context>x", internal_chat_message_metadata_passthrough={"content_item_kinds": ["environments.x"]}), "meta"),
        (item("hello", internal_chat_message_metadata_passthrough={}), "prompt"),
        (item("<environment_context>x", internal_chat_message_metadata_passthrough={}), "meta"),
        (item("# AGENTS.md instructions for /p", internal_chat_message_metadata_passthrough=7), "meta"),
        (item("<turn_aborted>\nThe user interrupted"), "interrupt"),
        (item("hello", role="assistant"), "assistant"), (item("hello", role="developer"), "meta"),
        (call("a"), "assistant"), (answer("a"), "tool_result"), ({"type": "compacted", "payload": {}}, "compact_summary"),
        ({"type": "event_msg", "payload": 7}, "bookkeeping"), ({"type": "response_item", "payload": {"type": ["x"]}}, "unknown"),
        ({"type": "something-of-next-year"}, "unknown"), ({}, "unknown"), (None, "unknown"),
    ],
)  # fmt: skip
def test_look_alikes_are_told_from_prompts(value, kind):
    assert codex.kind_of_line(value) == kind
    assert len(texts(transcripts.join([value]))) == (kind == "prompt")


def test_a_prompt_typed_during_a_turn_is_cut_in_the_turn():
    data = transcripts.join([META, *turn("t", item("one"), call("a"), answer("a"), item("more"))])
    one, more = codex.prompts(data)
    assert (one.queued, more.queued, more.prompt_id) == (False, True, "t")
    assert codex.cut_before_prompt(data, more) == transcripts.join([META, *turn("t", item("one"), call("a"), answer("a"), end="")])
    assert codex.cut_before_prompt(data, one) is None


def test_calls_without_a_result_are_left_out_at_the_end_of_a_cut():
    head = [META, *turn("t", item("one"), call("a"), answer("a")), *turn("u", item("two", "u"), end="")]
    data = transcripts.join([*head, call("b"), call("c"), answer("b"), item("more", "u")])
    assert codex.cut_before_prompt(data, codex.prompts(data)[2]) == transcripts.join(head)
    data = transcripts.join([*head, call("b"), call("c"), answer("b"), answer("c"), item("more", "u")])
    assert codex.cut_before_prompt(data, codex.prompts(data)[2]).endswith(transcripts.join([answer("c")]))


def test_an_item_of_another_kind_that_names_a_call_answers_it():
    """A search for tools is answered by `tool_search_output`."""
    for kind in ("tool_search_output", "of-next-year"):
        said = {"type": "response_item", "payload": {"type": kind, "call_id": "b"}}
        rows = [META, *turn("t", item("one"), call("b"), said, {"type": "event_msg", "payload": {"type": "token_count"}}, end="")]
        data = transcripts.join([*rows, item("more")])
        assert codex.cut_before_prompt(data, codex.prompts(data)[1]) == transcripts.join(rows)


def cursor_at(data, end, **more):
    payload = {"hook_event_name": "Stop", "session_id": "s", **more}
    event = events.read_event(codex, json.dumps(payload).encode(), {})
    return transcript_position.cursor_at(codex, data[:end], event)


def test_a_turn_that_ended_is_whole_although_its_hook_ran_before_its_last_line():
    data = recorded()
    rows = data.splitlines(keepends=True)
    ended = [at for at, row in enumerate(rows) if b'"task_complete"' in row]
    first = codex.prompts(data)[0]
    cursor = cursor_at(data, len(b"".join(rows[: ended[0]])), turn_id=first.prompt_id)
    assert cursor.prompt_id == first.prompt_id
    assert codex.cut_at_checkpoint(data, cursor, "turn_end") == b"".join(rows[: ended[0] + 1])


def test_a_cancelled_turn_ends_at_its_last_line():
    rows = [META, *turn("t", item("one"), call("a"), answer("a"), end="turn_aborted"), *turn("u", item("two"))]
    data = transcripts.join(rows)
    assert codex.cut_at_checkpoint(data, Cursor(prompt_id="t"), "turn_end") == transcripts.join(rows[:6])


def test_other_checkpoints_are_found_by_tool_or_by_hash():
    data = recorded()
    rows = data.splitlines(keepends=True)
    assert codex.cut_at_checkpoint(data, Cursor(tool_use_id="call_1_0"), "tool_batch") == b"".join(rows[:15])
    end = len(b"".join(rows[:21]))
    assert codex.cut_at_checkpoint(data, cursor_at(data, end), "session_end") == data[:end]
    assert codex.cut_at_checkpoint(data, Cursor(), "session_start") is None
    with pytest.raises(errors.AgentError, match="not in this transcript"):
        codex.cut_at_checkpoint(data, Cursor(offset=9, prefix=b"x" * 32), "compact")


def test_an_id_in_what_the_person_said_stays_in_a_fork():
    quoting = transcripts.join([META, *turn("t", item('my "id":"s"'))])
    assert texts(codex.make_fork(quoting, quoting, NEW)) == ['my "id":"s"']


@pytest.mark.parametrize("name", ["native_fork", "reverted"])
def test_the_client_s_own_forks_keep_the_reference_to_the_other_file(name):
    data = recorded(name)
    head = json.loads(data.partition(b"\n")[0])["payload"]
    (prompt,) = codex.prompts(data)
    cut = codex.cut_before_prompt(data, prompt)
    assert cut is not None and texts(cut) == [], "what was said before is in the other file"
    found = json.loads(codex.make_fork(data, cut, NEW).partition(b"\n")[0])["payload"]
    assert (found["id"], found["history_base"]) == (NEW, head["history_base"])


def test_an_interrupt_is_the_end_of_its_turn():
    payload = {"hook_event_name": "Interrupt", "session_id": "s", "turn_id": "t", "cwd": "/p", "transcript_path": None}
    event = events.read_event(codex, json.dumps(payload).encode(), {})
    assert (event.trigger, event.reason, event.prompt_id, event.transcript, event.odd) == ("turn_end", "interrupt", "t", "", ())
    assert events.makes_checkpoint(codex, event, "balanced") and not events.makes_checkpoint(codex, event, "minimal")


def test_a_subagents_rollout_has_its_task_and_the_paths_of_patches_that_were_applied(tmp_path):
    def patch(status, **changes):
        return {"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "FileChange", "changes": changes, "status": status}}}

    moved = {"/p/old": {"type": "update", "unified_diff": "", "move_path": "/p/new"}}
    lines = [META | {"payload": META["payload"] | {"agent_path": "/root/first/red_job"}}, patch("completed", **{"/p/a": {"type": "add", "content": ""}}),
             patch("failed", **{"/p/b": {"type": "add"}}), patch("completed", **moved), patch("completed", **{"/p/a": 7}), item('a "FileChange" of mine')]  # fmt: skip
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(transcripts.join(lines))
    assert set(codex.written_by_tools(path.read_bytes())) == {"/p/a", "/p/old", "/p/new"}
    assert codex.task_of_subagent(str(path)) == "red_job"
    path.write_bytes(transcripts.join([META]))
    assert (codex.task_of_subagent(str(path)), codex.task_of_subagent(str(tmp_path / "gone")), codex.written_by_tools(b"{")) == ("", "", ())
