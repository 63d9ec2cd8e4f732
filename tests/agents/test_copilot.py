"""What only GitHub Copilot CLI does: payloads without a transcript, hooks among the events, and a directory for each session."""

import json
import os
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.agents import event
from casrewind.agents.copilot import CLIENT as copilot
from casrewind.model.cursor import Cursor
from support.transcripts import is_part_of

DATA = Path(__file__).parent / "data"
EVENTS = (DATA / "copilot" / "events.jsonl").read_bytes()
SESSION = json.loads(EVENTS.splitlines()[0])["data"]["sessionId"]


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
