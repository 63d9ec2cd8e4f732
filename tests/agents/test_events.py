"""What is read of a payload, and what is refused. test_clients_table.py has what each recorded payload means."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from casrewind import agents, errors
from casrewind.agents import event as events
from casrewind.agents import payload as payloads
from casrewind.model.checkpoint import TRIGGERS
from support.sample_start import examples

DATA = Path(__file__).parent / "data"
CLAUDE, DROID = agents.load_conversation_client("claude"), agents.load_conversation_client("droid")
RUN = settings(derandomize=True, deadline=None, max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])

CASES = [(folder, path.stem) for folder in ("claude_hooks", "droid_hooks") for path in sorted((DATA / folder).glob("*.json"))]


def recorded(folder, name):
    whole = json.loads((DATA / folder / f"{name}.json").read_text())
    return whole["stdin"], whole["env"]


def client_of(folder):
    return {"claude_hooks": CLAUDE, "droid_hooks": DROID}[folder]


def payload(**fields):
    return json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", **fields}).encode()


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_the_same_payload_in_camel_case_is_the_same_event(folder, name):
    """Tool calls and what is below keep their names."""

    def camel(key):
        head, *rest = key.split("_")
        return key if key.isupper() else head + "".join(word.capitalize() for word in rest)

    stdin, env = recorded(folder, name)
    client = client_of(folder)
    renamed = json.dumps({camel(key): value for key, value in stdin.items()}).encode()
    assert events.read_event(client, renamed, env) == events.read_event(client, json.dumps(stdin).encode(), env)


@pytest.mark.parametrize("agent", ["claude", "droid"])
def test_an_unknown_event_is_nothing_to_do(agent):
    client = agents.load_conversation_client(agent)
    event = events.read_event(client, b'{"hook_event_name": "SomethingOfNextYear", "session_id": "s"}', {})
    assert event.trigger == "" and not any(events.makes_checkpoint(client, event, tier) for tier in events.TIERS)
    assert event.root is None and event.budget == 20.0


def test_an_unknown_tool_counts_as_one_that_changes_files():
    for client in (CLAUDE, DROID):
        event = events.read_event(client, payload(hook_event_name="PreToolUse", tool_name="mcp__x__look"), {})
        assert events.makes_checkpoint(client, event, "aggressive") and not events.makes_checkpoint(client, event, "balanced")
        assert not any(events.may_change_files(client, (tool,)) for tool in client.events.harmless_tools)
    assert events.may_change_files(CLAUDE, ("Read", "Bash")) and events.may_change_files(CLAUDE, ())
    assert not events.may_change_files(CLAUDE, ("Read", "Grep"))


def test_the_text_of_a_shell_command_decides_nothing():
    for command in ("ls", "rm -rf .", ""):
        event = events.read_event(CLAUDE, payload(hook_event_name="PreToolUse", tool_name="Bash", tool_input={"command": command}), {})
        assert events.makes_checkpoint(CLAUDE, event, "aggressive")


def test_the_event_can_be_named_on_the_command_line():
    assert events.read_event(CLAUDE, b'{"session_id": "s", "reason": "other"}', {}, "SessionEnd").trigger == "session_end"


@pytest.mark.parametrize(
    ("prompt", "command"),
    [
        ("/casrewind", ""), ("/casrewind back 1", "back 1"), ("  /casrewind   back  1 \n", "back  1"),
        ("/casrewind:casrewind list", "list"), ("/casrewind:back 1", "back 1"), ("/casrewind:undo", "undo"),
        ("/casrewind\nlist", None), ("/casrewind restore 1\nand then", None), ("\n/casrewind undo\r\n", "undo"),
        ("/casrewind undo\u2028x", None), ("/casrewinder", None), ("what is /casrewind", None), ("", None),
        ("/casrewind-x list", None), ("casrewind back", None),
    ],
)  # fmt: skip
def test_what_stands_behind_casrewind_is_a_command(prompt, command):
    assert events.parse_slash_command(prompt) == command
    event = events.read_event(CLAUDE, payload(prompt=prompt), {})
    assert event.command == command and event.trigger == ("prompt" if command is None else "")


def test_a_command_s_name_in_another_event_is_no_command():
    assert events.read_event(CLAUDE, payload(hook_event_name="Stop", prompt="/casrewind undo"), {}).command is None


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"CLAUDE_PROJECT_DIR": "/a"}, "/a"), ({"CLAUDE_PROJECT_DIR": ""}, None), ({}, None),
        ({"CLAUDE_PROJECT_DIR": "a"}, None), ({"CLAUDE_PROJECT_DIR": "/a\0b"}, None),
    ],
)  # fmt: skip
def test_the_root_is_what_the_environment_says_and_never_the_working_directory(environ, root):
    assert events.read_event(CLAUDE, payload(cwd="/a/sub"), environ).root == root


def test_droid_is_asked_for_its_own_variable_first():
    environ = {"CLAUDE_PROJECT_DIR": "/c", "FACTORY_PROJECT_DIR": "/f"}
    assert events.read_event(DROID, payload(), environ).root == "/f"


def test_only_named_variables_of_the_environment_are_in_an_event():
    stdin, env = recorded("claude_hooks", "SessionStart.startup")
    env = {**{name: f"SECRET-{name}" for name in env}, "ANTHROPIC_API_KEY": "SECRET-key"}
    assert "SECRET" not in repr(events.read_event(CLAUDE, json.dumps(stdin).encode(), env))


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"null", b"[]", b"7", b'"text"', b"{", b"{}", b'{"a": 1}', b"\xff\xfe", b"\0\0\0", b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"hook_event_name": 7}', b'{"hook_event_name": null}', b'{"hook_event_name": ""}', b'{"hook_event_name": ["Stop"]}',
        payload(session_id=7), payload(session_id=["s"]), payload(session_id={}),
        payload(transcript_path=1), payload(transcript_path="relative/x.jsonl"),
        payload(transcript_path="/a\0b"), payload(transcript_path="/a\ud800"),
        payload()[:-1], payload() + b"x", b'{"hook_event_name": ' + b"1" * 5000 + b"}",
    ],
    ids=lambda data: ascii(data[-40:]),
)  # fmt: skip
def test_what_is_no_event_is_refused(data):
    with pytest.raises(errors.MalformedEvent) as caught:
        events.read_event(CLAUDE, data, {})
    assert caught.value.exit_code == 16 and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "change, odd",
    [
        ({"prompt": 1.5}, "prompt"), ({"prompt_id": []}, "prompt_id"), ({"cwd": "x"}, "cwd"), ({"cwd": []}, "cwd"),
        ({"tool_name": []}, "tool"), ({"tool_calls": {}}, "tools"), ({"tool_calls": [1]}, "tools"),
        ({"tool_calls": [{"tool_name": 1}]}, "tool"), ({"source": 1}, "source"), ({"reason": {}}, "reason"),
        ({"agent_id": 1}, "subagent"), ({"CLAUDE_ENV_FILE": "x"}, "env_file"), ({"turn_id": True}, "turn_id"),
    ],
    ids=str,
)  # fmt: skip
def test_what_an_event_can_do_without_is_left_out_and_told(change, odd):
    event = events.read_event(CLAUDE, payload(**change), {})
    assert event.odd == (odd,) and event.name == "UserPromptSubmit" or event.trigger
    assert events.may_change_files(CLAUDE, event.tools), "a tool without a name may be any"
    assert events.read_event(CLAUDE, payload(), {}).odd == ()


def test_fields_that_are_null_are_not_there():
    event = events.read_event(CLAUDE, payload(transcript_path=None, prompt=None, tool_name=None, prompt_id=None), {})
    assert (event.transcript, event.prompt, event.tools, event.prompt_id) == ("", "", (), "")


def test_bytes_that_are_no_utf8_lose_no_event():
    data = payload(prompt="caf?").replace(b"?", b"\xe9")
    assert events.read_event(CLAUDE, data, {}).prompt == "caf�"
    assert events.read_event(CLAUDE, payload(prompt="half \ud83d"), {}).prompt == "half \ud83d"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8,
)
names = sorted({name for client in (CLAUDE, DROID) for alternates in client.events.fields.values() for name in alternates})


@RUN
@given(
    st.sampled_from([CLAUDE, DROID]),
    st.one_of(
        st.binary(max_size=200),
        st.dictionaries(st.sampled_from(names), json_values).map(lambda value: json.dumps(value).encode()),
        st.tuples(st.sampled_from(CASES), st.integers(0, 2000), st.binary(max_size=3)).map(
            lambda cut: json.dumps(recorded(*cut[0])[0]).encode()[: cut[1]] + cut[2]
        ),
    ),
    st.dictionaries(st.sampled_from(["CLAUDE_PROJECT_DIR", "FACTORY_PROJECT_DIR", "CLAUDE_PID"]), st.text(max_size=20)),
)
@example(CLAUDE, payload(), {"CLAUDE_PID": "9" * 5000})
@example(CLAUDE, payload(), {"CLAUDE_PID": "٣"})
def test_no_bytes_give_anything_but_an_event_or_malformed_event(client, data, environ):
    try:
        event = events.read_event(client, data, environ)
    except errors.MalformedEvent:
        return
    assert event.trigger in TRIGGERS | {""} and event.name
    assert os.fsencode(event.transcript) is not None and (event.root is None or os.fsencode(event.root))
    for tier in events.TIERS:
        events.makes_checkpoint(client, event, tier)


BIG = 50_000_000


@pytest.mark.parametrize("filler", [b"x", "😀".encode(), b"\\u00e9", b'\\"', b"\xff"])
def test_a_huge_payload_is_understood_by_its_head_without_much_memory(filler):
    stdin, env = recorded("claude_hooks", "PostToolBatch")
    head = json.dumps({**stdin, "tool_calls": "@"}).encode().partition(b'"@"')[0]
    data = head + b'[{"tool_name": "Write", "tool_input": {"content": "' + filler * (BIG // len(filler)) + b'"}}]}'
    tracemalloc.start()
    try:
        event = events.read_event(CLAUDE, data, env)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert event.partial and event.trigger == "tool_batch" and event.session == stdin["session_id"]
    assert event.transcript == stdin["transcript_path"] and event.prompt_id == stdin["prompt_id"]
    assert events.makes_checkpoint(CLAUDE, event, "aggressive")
    assert peak < BIG // 10


@pytest.mark.parametrize("filler", ["x", "é", "\n", "\\", '"', "😀", "\ud83d"])
def test_of_a_huge_prompt_the_beginning_is_known(filler):
    prompt = "please look at this: " + filler * payloads.LIMIT
    event = events.read_event(CLAUDE, payload(prompt=prompt), {})
    assert event.partial and event.trigger == "prompt"
    is_beginning = prompt.startswith(event.prompt)  # apart: a failure would print megabytes
    assert is_beginning and len(event.prompt) > 300


def test_of_another_huge_text_nothing_is_taken():
    """Half a path would be another path."""
    event = events.read_event(CLAUDE, payload(cwd="/a", transcript_path="/" + "x" * payloads.LIMIT), {})
    assert event.partial and event.cwd == "/a" and event.transcript == ""


RUBBISH = {  # (beginning, what is repeated, how often, end): whole, they would be a hundred megabytes of every worker
    "text": (b"", b"x", 9_000_000, b""), "blanks": (b"", b" ", 9_000_000, b""), "objects": (b"", b"{", 9_000_000, b""),
    "arrays": (b"", b"[", 9_000_000, b""), "nested": (b"", b'{"a":', 2_000_000, b""), "quotes": (b"", b'"', 9_000_000, b""),
    "members": (b"", b'{"x": 1,', 2_000_000, b""), "event behind": (b'{"":0,', b'"":0,', 2_000_000, b'"hook_event_name":"Stop"}'),
    "long text": (b'{"a":"', b"x", 9_000_000, b""), "long array": (b'{"a":[', b"1,", 5_000_000, b""),
    "strange keys": (b"", b'{["a"]:1,', 1_000_000, b""),
}  # fmt: skip


@pytest.mark.parametrize("kind", RUBBISH)
def test_huge_rubbish_is_refused(kind):
    beginning, repeated, times, end = RUBBISH[kind]
    with pytest.raises(errors.MalformedEvent):
        events.read_event(CLAUDE, beginning + repeated * times + end, {})


def test_a_payload_is_read_to_its_end_and_kept_as_far_as_it_is_looked_at():
    for size in (0, 5, 3_000_000, 30_000_000):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            with os.fdopen(writer, "wb") as file:
                file.write(b"x" * size)
            os._exit(0)
        os.close(writer)
        kept = payloads.read_to_end(reader)
        os.close(reader)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0  # the writer was never cut off
        assert kept == b"x" * min(size, len(kept)) and len(kept) >= min(size, payloads.LIMIT + 1)
        assert len(kept) <= payloads.LIMIT + (1 << 20)
