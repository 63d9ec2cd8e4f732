"""GitHub Copilot CLI: a recorded session, where it is cut, and how a fork is written."""

import json
import os
from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents import event, transcript
from casrewind.agents.copilot import CLIENT as copilot
from casrewind.model.cursor import Cursor
from support.transcripts import is_part_of

ALL = {client.name: client for client in agents.load_clients()}

DATA = Path(__file__).parent / "data"
EVENTS = (DATA / "copilot" / "events.jsonl").read_bytes()
PROMPTS = ["TURN1 please create a.txt", "TURN2 patch", "TURN3"]
SESSION = json.loads(EVENTS.splitlines()[0])["data"]["sessionId"]


def recorded():
    return sorted((DATA / "copilot_hooks").glob("[a-z]*.json"))


def read(path):
    found = json.loads(path.read_bytes())
    return event.read_event(copilot, json.dumps(found["stdin"]).encode(), {"HOME": "/home/dev", **found["env"]}, found["event"])


def test_a_command_for_us_is_answered_with_a_block():
    payload = json.dumps({"sessionId": SESSION, "cwd": "/p", "prompt": "/casrewind back 1"}).encode()
    found = event.read_event(copilot, payload, {}, "userPromptSubmitted")
    assert (found.command, found.trigger) == ("back 1", "") and copilot.refusing_answer("x") == {"decision": "block", "reason": "x"}


@pytest.mark.parametrize("session", ["", "../x", "a/b", "-x"])
def test_no_path_is_made_of_an_id_that_is_none(session):
    payload = json.dumps({"sessionId": session, "cwd": "/p"}).encode()
    assert event.read_event(copilot, payload, {"HOME": "/home/dev"}, "agentStop").transcript == ""


def test_the_home_directory_can_be_moved():
    payload = json.dumps({"sessionId": "s", "cwd": "/p"}).encode()
    found = event.read_event(copilot, payload, {"HOME": "/home/dev", "COPILOT_HOME": "/moved"}, "agentStop")
    assert found.transcript == "/moved/session-state/s/events.jsonl"


def test_the_prompts_of_the_recorded_session():
    found = copilot.prompts(EVENTS)
    assert [prompt.text[:5] for prompt in found] == ["TURN1", "TURN2", "TURN3"]
    assert all(prompt.message_id and prompt.time_ns > 1_795 * 10**15 and not prompt.queued for prompt in found)
    assert all(copilot.kind_of_line(line.value) in transcript.KINDS for line in transcript.parse_lines(EVENTS))


def test_a_cut_is_the_lines_before_a_prompt_and_its_hooks():
    first, second, third = copilot.prompts(EVENTS)
    assert copilot.cut_before_prompt(EVENTS, first) is None
    for prompt, kept in ((second, 1), (third, 2)):
        cut = copilot.cut_before_prompt(EVENTS, prompt)
        assert EVENTS.startswith(cut) and cut.endswith(b"\n") and len(copilot.prompts(cut)) == kept
        assert prompt.text.encode() not in cut
    with pytest.raises(errors.AgentError):
        copilot.cut_before_prompt(EVENTS, first._replace(uuid="gone"))


def test_an_unanswered_call_is_left_out():
    lines = EVENTS.splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if b'"tool.execution_start"' in line)
    found = copilot.cut_at_checkpoint(EVENTS, Cursor(event_id=json.loads(lines[at])["id"]), "tool_batch")
    assert b'"toolRequests":[{' not in found and len(copilot.prompts(found)) == 1


def test_the_end_of_a_turn_has_the_turn_s_hooks():
    lines = EVENTS.splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if b'"hookType":"agentStop"' in line)
    cut = copilot.cut_at_checkpoint(EVENTS, Cursor(event_id=json.loads(lines[at])["id"]), "turn_end")
    assert cut == copilot.cut_before_prompt(EVENTS, copilot.prompts(EVENTS)[1])
    with pytest.raises(errors.AgentError):
        copilot.cut_at_checkpoint(EVENTS, Cursor(event_id="gone", offset=9, prefix=b"p" * 32), "turn_end")


def test_a_fork_is_a_directory_beside_the_original(tmp_path):
    old = tmp_path / SESSION
    old.mkdir()
    (old / "events.jsonl").write_bytes(EVENTS)
    (old / "workspace.yaml").write_bytes((DATA / "copilot" / "workspace.yaml").read_bytes())
    cut = copilot.cut_before_prompt(EVENTS, copilot.prompts(EVENTS)[1])
    fork = copilot.make_fork(EVENTS, cut, "new-id")
    assert json.loads(fork.splitlines()[0])["data"]["sessionId"] == "new-id"
    assert is_part_of(b"".join(fork.splitlines(keepends=True)[1:]), EVENTS)
    original = str(old / "events.jsonl")
    new = copilot.fork_path(original, "new-id", fork)
    path = copilot.write_fork(original, "new-id", fork, new, "/", {})
    assert Path(path).read_bytes() == fork and os.stat(path).st_mode & 0o777 == 0o600
    about = (tmp_path / "new-id" / "workspace.yaml").read_text()
    assert "id: new-id\n" in about and 'name: "[Fork] TURN1 please create a.txt"\n' in about and SESSION not in about
    assert sorted(os.listdir(tmp_path / "new-id")) == ["checkpoints", "events.jsonl", "files", "workspace.yaml"]
    with pytest.raises(errors.AgentError):
        copilot.write_fork(original, "new-id", fork, new, "/", {})


def test_torn_and_spoiled_sessions_raise_nothing_else():
    for size in range(0, len(EVENTS), 997):
        data = EVENTS[:size] + b"\xff{]\n" + EVENTS[size:]
        for prompt in copilot.prompts(data):
            copilot.cut_before_prompt(data, prompt)
        copilot.title_of(data)


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem)
def test_a_payload_cut_anywhere_is_an_event_or_malformed(path):
    payload = json.dumps(json.loads(path.read_bytes())["stdin"]).encode()
    for size in range(len(payload)):
        with pytest.raises(errors.MalformedEvent):
            event.read_event(copilot, payload[:size], {"HOME": "/home/dev"}, "agentStop")


HOSTILE = [None, 7, True, [], {}, "", "\0", "../..", "x" * 10**5, "\ud800", [None], -1e300]


@pytest.mark.parametrize("name", ["copilot", "opencode", "cursor", "qwen", "generic"])
def test_fields_with_hostile_values_are_an_event_or_malformed(name):
    client = ALL[name]
    for kind in client.events.triggers:
        for names in client.events.fields.values():
            for field in names:
                for value in HOSTILE:
                    payload = json.dumps({"hook_event_name": kind, client.events.fields["session"][0]: "s", field: value}).encode()
                    try:
                        found = event.read_event(client, payload, {"HOME": "/home/dev"}, kind)
                    except errors.MalformedEvent:
                        continue
                    assert found.transcript == "" or found.transcript.startswith("/")
                    assert found.cwd == "" or found.cwd.startswith("/")


def test_cursor_s_payloads_are_told_apart_from_claude_s():
    for path in (DATA / "cursor_hooks").glob("*.json"):
        found = json.loads(path.read_bytes())
        payload = json.dumps(found["stdin"]).encode()
        assert agents.find_sender("claude", payload).name == "cursor"
    assert agents.find_sender("claude", b'{"hook_event_name":"Stop"}').name == "claude"


def test_the_conversations_of_files_only_clients_are_refused():
    for name in ("cursor", "qwen", "generic"):
        with pytest.raises(errors.AgentError, match="casrewind restore REF"):
            agents.load_conversation_client(name)
