"""No transcript, however broken, makes a translator raise anything but AgentError or invent a line."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind import agents, errors
from casrewind.agents import transcript
from casrewind.model.cursor import Cursor
from support import known_clients, transcripts
from support.sample_start import examples, some

RUN = settings(derandomize=True, deadline=None, max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
RECORDED = [tuple(name.split("/")) for name in known_clients.RECORDINGS]
RUBBISH = [b"", b" ", b"\0" * 50, b"\xff\xfe{}", b"null", b"[]", b"7", b'"x"', b"{", b"[" * 3000, b'{"type":"user"}', b"NaN", b'{"a":1' + b"0" * 5000 + b"}"]

ids = st.sampled_from(["", "a", "b", "c", "d", "e"])
junk = st.sampled_from([None, 7, True, [], {}, "x", ["x"], [7], [None], {"type": 7}, "2026-11-20T23:31:06.967Z", "2026", "9999-99-99", -1e300])
contents = st.one_of(
    junk, st.sampled_from(["hello", "<task-notification>", "<bash-input>", "<command-name>"]),
    st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "tool_use", "tool_result"]), "id": ids | junk, "tool_use_id": ids | junk, "text": junk}), max_size=3),
)  # fmt: skip
claude_rows = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "attachment", "system", "last-prompt", "summary", "x"])},
    optional={
        "uuid": ids | junk, "parentUuid": ids | junk, "logicalParentUuid": ids | junk, "leafUuid": ids, "explicit": junk,
        "promptId": ids | junk, "promptSource": st.sampled_from(["typed", "sdk", "system"]) | junk, "timestamp": junk,
        "origin": st.just({"kind": "human"}) | junk, "isMeta": junk, "isSidechain": junk, "subtype": st.just("compact_boundary") | junk,
        "message": st.fixed_dictionaries({}, optional={"content": contents, "id": ids | junk}) | junk,
        "attachment": st.fixed_dictionaries({"type": st.just("queued_command")}, optional={"prompt": contents, "timestamp": junk}) | junk,
    },
)  # fmt: skip
droid_rows = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "session_start", "agent_turn_outcome", "x"])},
    optional={
        "id": ids | junk | st.just("context-a"), "parentId": ids | junk, "title": junk, "timestamp": junk,
        "message": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant"]) | junk}, optional={"content": contents, "hookParentId": ids | junk}
        ) | junk,
    },
)  # fmt: skip
pi_rows = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "session", "label", "session_info", "compaction", "x"])},
    optional={
        "id": ids | junk, "parentId": ids | junk, "version": st.sampled_from([1, 2, 3]) | st.none(), "name": junk, "timestamp": junk,
        "targetId": ids | junk, "label": junk, "cwd": junk,
        "message": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "toolResult", "bashExecution"]) | junk},
            optional={"content": contents | st.just([{"type": "toolCall", "id": "a"}]), "toolCallId": ids | junk},
        ) | junk,
    },
)  # fmt: skip
codex_rows = st.fixed_dictionaries(
    {"type": st.sampled_from(["response_item", "event_msg", "session_meta", "compacted", "x"])},
    optional={
        "timestamp": junk,
        "payload": st.fixed_dictionaries(
            {"type": st.sampled_from(["message", "function_call", "function_call_output", "task_started", "task_complete"]) | junk},
            optional={
                "role": st.sampled_from(["user", "assistant"]) | junk, "id": ids | junk, "session_id": ids | junk, "call_id": ids | junk,
                "turn_id": ids | junk, "content": contents, "history_base": st.just({"thread_id": "a"}) | junk,
                "internal_chat_message_metadata_passthrough": st.fixed_dictionaries({}, optional={"turn_id": ids | junk, "content_item_kinds": junk}) | junk,
            },
        ) | junk,
    },
)  # fmt: skip
gemini_messages = st.fixed_dictionaries(
    {"id": ids | junk, "type": st.sampled_from(["user", "gemini", "info"]) | junk}, optional={"content": contents, "timestamp": junk, "sessionId": junk}
)
gemini_rows = st.one_of(
    gemini_messages,
    st.fixed_dictionaries({"sessionId": ids | junk, "projectHash": junk}), st.fixed_dictionaries({"$rewindTo": ids | junk}),
    st.fixed_dictionaries({"$set": st.fixed_dictionaries({}, optional={"messages": st.lists(gemini_messages | junk, max_size=4) | junk, "summary": junk, "sessionId": junk}) | junk}),
)
made_up = {
    name: st.lists(rows.map(lambda row: json.dumps(row).encode()) | st.sampled_from(RUBBISH), max_size=9).map(b"\n".join)
    for name, rows in (
        ("claude", claude_rows), ("droid", droid_rows), ("pi", pi_rows), ("codex", codex_rows), ("gemini", gemini_rows),
    )
}


def spoil(data, seed):
    """A recorded transcript with bytes changed, lines lost, doubled, swapped and torn."""
    chance = random.Random(seed)
    rows = data.splitlines(keepends=True)
    for _ in range(chance.randrange(6)):
        at, other = chance.randrange(len(rows)), chance.randrange(len(rows))
        kind = chance.randrange(5)
        if kind == 0:
            del rows[at]
        elif kind == 1:
            rows.insert(other, rows[at])
        elif kind == 2:
            rows[at], rows[other] = rows[other], rows[at]
        elif kind == 3:
            rows.insert(at, chance.choice(RUBBISH) + b"\n")
        else:
            row = bytearray(rows[at])
            row[chance.randrange(len(row))] = chance.randrange(256)
            rows[at] = bytes(row)
        rows = rows or [b"\n"]
    data = b"".join(rows)
    return data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data


def check(name, data):
    agent = agents.load_conversation_client(name)
    for line in transcript.parse_lines(data):
        assert agent.kind_of_line(line.value) in transcript.KINDS
    found = agent.prompts(data)
    assert {prompt.start for prompt in found} <= {prompt.start for prompt in agent.prompts(data, every=True)}
    cuts = []
    for prompt in agent.prompts(data, every=True):
        try:
            cuts.append(agent.cut_before_prompt(data, prompt))
        except errors.AgentError:
            assert name == "gemini", "only there a prompt may have no line of its own"
    for trigger in ("prompt", "turn_end", "tool_batch", "compact", "session_end", "manual"):
        for cursor in (Cursor(event_id="c", prompt_id="a", message_id="b", tool_use_id="d", offset=9), Cursor(offset=5, prefix=b"p" * 32)):
            try:
                cuts.append(agent.cut_at_checkpoint(data, cursor, trigger))
            except errors.AgentError:
                continue
    title = agent.title_of(data)
    title.encode("utf-8", "surrogatepass")
    for cut in cuts:
        if cut is None:
            continue
        assert cut and cut.endswith(b"\n") and transcripts.is_part_of(cut, data)
        fork = agent.make_fork(data, cut, "new")
        changed = [row for row in fork.splitlines(keepends=True) if row not in cut.splitlines(keepends=True)]
        if name in ("claude", "droid", "pi"):  # the others name the session in many lines
            assert len(changed) <= (8 if name == "pi" else max(1, cut.count(b"session_start")))  # its header, labels and title
        assert agent.prompts(fork) == agent.prompts(cut) or name != "claude"  # there the first line's length changes
        assert [prompt.text for prompt in agent.prompts(fork)] == [prompt.text for prompt in agent.prompts(cut)]
        assert agent.prompts(agent.rewound_in_place(data, cut)) == agent.prompts(cut) or name == "pi"


@pytest.mark.parametrize("name", made_up)
def test_made_up_lines(name):
    @RUN
    @given(made_up[name])
    def attempt(data):
        check(name, data)

    attempt()


@pytest.mark.parametrize("name", [client.name for client in agents.load_conversation_clients()])
def test_any_bytes(name):
    @RUN
    @given(st.binary(max_size=300) | st.lists(st.sampled_from(RUBBISH)).map(b"\n".join))
    def attempt(data):
        check(name, data)

    attempt()


@pytest.mark.parametrize(("name", "recording"), RECORDED)
def test_spoiled_recordings(name, recording):
    for seed in some(range(25), 9):
        check(name, spoil(transcripts.recorded(name, recording), seed))


def test_a_line_that_cannot_be_read_is_a_line_still():
    data = b"\n".join(RUBBISH) + b"\ntorn"
    found = list(transcript.parse_lines(data))
    assert [data[line.start : line.end].removesuffix(b"\n") for line in found] == RUBBISH
    assert [line.value is not None for line in found] == [row == b'{"type":"user"}' for row in RUBBISH]
    assert list(transcript.parse_lines_backwards(data)) == found[::-1] and transcript.end_of_complete_lines(data) == len(data) - 4
    assert list(transcript.parse_lines(b"")) == list(transcript.parse_lines_backwards(b"")) == list(transcript.parse_lines(b"torn")) == []


def test_lines_with_a_word_in_them_are_found_from_the_end():
    data = b'{"a":1}\n{"b":"aa"}\n{"c":3}\n{"a":4}\n{"a":5'
    assert [line.value for line in transcript.parse_lines_containing(data, b'"a')] == [{"a": 4}, {"b": "aa"}, {"a": 1}]
    assert list(transcript.parse_lines_containing(data, b"x")) == list(transcript.parse_lines_containing(b"", b"a")) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-20T23:31:06.967Z", 1795217466967 * 10**6), ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.000001+00:00", 1000),
        ("1970-01-01T01:00:00+01:00", 0), ("1970-01-01T00:00:01", 10**9), ("", 0), ("soon", 0), (None, 0), (7, 0),
        ("9999-12-31T23:59:59.999999-23:59", 253402387139999999 * 1000), ("0001-01-01T00:00:00+23:59", -62135683140 * 10**9),
    ],
)  # fmt: skip
def test_times_are_nanoseconds(value, expected):
    assert transcript.time_ns(value) == expected
