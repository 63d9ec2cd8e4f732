"""Codex's rollouts, as recorded: what each line is, what the person typed, and where a rewind cuts."""

import json
from collections import Counter
from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents import session_files, transcript, transcript_position
from casrewind.agents import event as events
from casrewind.model.cursor import Cursor
from support import transcripts

codex = agents.load_conversation_client("codex")
DATA = Path(__file__).parent / "data"
PROMPTS = ["TURN1 please create a.txt", "TURN2 patch it", "TURN3 overwrite"]
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


def test_every_line_of_the_recorded_rollout_has_a_known_kind():
    found = Counter(codex.kind_of_line(line.value) for line in transcript.parse_lines(recorded()))
    assert found == {"bookkeeping": 36, "meta": 2, "prompt": 3, "assistant": 8, "tool_result": 4} | {"bookkeeping": found["bookkeeping"]}
    assert found["unknown"] == 0 and sum(found.values()) == 54


def test_what_the_person_typed_is_found_and_nothing_else():
    data = recorded()
    assert texts(data) == PROMPTS
    for prompt in codex.prompts(data):
        line = json.loads(data[prompt.start : data.index(b"\n", prompt.start)])
        assert line["payload"]["id"] == prompt.uuid and not prompt.queued and prompt.message_id == ""
        assert prompt.prompt_id.startswith("01a1fb49-") and prompt.time_ns > 1_795 * 10**15
    assert codex.title_of(data) == PROMPTS[0]


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


def test_a_cut_is_what_stands_in_front_of_a_prompt_s_turn():
    data = recorded()
    first, second, third = codex.prompts(data)
    assert codex.cut_before_prompt(data, first) is None
    rows = data.splitlines(keepends=True)
    assert codex.cut_before_prompt(data, second) == b"".join(rows[:22])
    assert codex.cut_before_prompt(data, third) == b"".join(rows[:37])
    for cut in (codex.cut_before_prompt(data, second), codex.cut_before_prompt(data, third)):
        assert b'"task_started"' in cut and cut.count(b'"task_started"') == cut.count(b'"task_complete"')


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


def test_a_fork_has_the_new_id_and_else_the_same_bytes():
    data = recorded()
    cut = codex.cut_before_prompt(data, codex.prompts(data)[1])
    old = json.loads(data.partition(b"\n")[0])["payload"]["id"]
    fork = codex.make_fork(data, cut, NEW)
    assert fork.replace(NEW.encode(), old.encode()) == cut and old.encode() not in fork
    assert texts(fork) == PROMPTS[:1]
    quoting = transcripts.join([META | {"payload": {"id": old}}, *turn("t", item(f'my "id":"{old}"'))])
    assert texts(codex.make_fork(quoting, quoting, NEW)) == [f'my "id":"{old}"'], "what the person said is as it was"


@pytest.mark.parametrize("name", ["native_fork", "reverted"])
def test_the_client_s_own_forks_keep_the_reference_to_the_other_file(name):
    data = recorded(name)
    head = json.loads(data.partition(b"\n")[0])["payload"]
    (prompt,) = codex.prompts(data)
    cut = codex.cut_before_prompt(data, prompt)
    assert cut is not None and texts(cut) == [], "what was said before is in the other file"
    found = json.loads(codex.make_fork(data, cut, NEW).partition(b"\n")[0])["payload"]
    assert (found["id"], found["history_base"]) == (NEW, head["history_base"])


def test_a_fork_s_path_is_where_the_client_looks_for_it(tmp_path):
    directory = tmp_path / ".codex" / "sessions" / "2026" / "11" / "20"
    directory.mkdir(parents=True)
    homes = session_files.Homes(str(tmp_path), {})
    path = codex.fork_path(str(directory / "rollout-2026-11-20T23-27-30-s.jsonl"), NEW, b"")
    session_files.refuse_unsafe_transcript_path(codex, path, NEW, homes)
    session_files.refuse_unsafe_transcript_path(codex, str(directory / f"rollout-2026-11-20T23-27-30-{NEW}_01a1.jsonl"), NEW, homes)
    for name in (f"{NEW}.jsonl", f"rollout-{NEW}.jsonl", f"rollout-2026-11-20T23-27-30-x{NEW}.jsonl", "../../../config.toml"):
        with pytest.raises(errors.AgentError, match="refused"):
            session_files.refuse_unsafe_transcript_path(codex, str(directory / name), NEW, homes)
    moved = session_files.Homes(str(tmp_path / "other"), {"CODEX_HOME": str(tmp_path / ".codex")})
    session_files.refuse_unsafe_transcript_path(codex, path, NEW, moved)


def test_an_interrupt_is_the_end_of_its_turn():
    payload = {"hook_event_name": "Interrupt", "session_id": "s", "turn_id": "t", "cwd": "/p", "transcript_path": None}
    event = events.read_event(codex, json.dumps(payload).encode(), {})
    assert (event.trigger, event.reason, event.prompt_id, event.transcript, event.odd) == ("turn_end", "interrupt", "t", "", ())
    assert events.makes_checkpoint(codex, event, "balanced") and not events.makes_checkpoint(codex, event, "minimal")
