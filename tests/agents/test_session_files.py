"""Sessions on disk and in memory: found by looking, written whole or not at all, alive or not."""

import json
import os
import subprocess
import sys

import pytest

from casrewind import agents, errors
from casrewind.agents import client_process, session_files, transcript
from casrewind.agents.client_process import ClientProcess
from support import transcripts

claude, droid = agents.load_conversation_client("claude"), agents.load_conversation_client("droid")
ID = "0c97d5cb-e102-417b-a32b-74c8f75a1c00"


def test_an_agent_is_had_by_its_name():
    assert agents.NAMES == ("claude", "droid", "pi", "codex", "gemini", "copilot", "opencode", "cursor", "qwen", "generic")
    for name in agents.NAMES:
        assert agents.load_client(name).name == name
    for client in agents.load_conversation_clients():
        assert agents.load_conversation_client(client.name) is client
    with pytest.raises(errors.UnknownAgent, match="claude, droid") as caught:
        agents.load_conversation_client("agent")
    assert caught.value.exit_code == 16


def write_fork(client, original, session, data):
    path = client.fork_path(original, session, data)
    return client.write_fork(original, session, data, path, "/", {})


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a b", "-x", "a\0", "é", "x" * 200, "a;b", "$(a)", "*"])
def test_what_is_no_id_is_written_nowhere(name, tmp_path):
    with pytest.raises(errors.AgentError):
        write_fork(claude, str(tmp_path / "t.jsonl"), name, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_fork_is_written_beside_its_original_for_the_owner_alone(tmp_path):
    original = tmp_path / "original.jsonl"
    original.write_bytes(transcripts.claude(transcripts.TYPED))
    umask = os.umask(0)
    try:
        path = write_fork(claude, str(original), ID, b"{}\n")
    finally:
        os.umask(umask)
    assert path == str(tmp_path / f"{ID}.jsonl") and (tmp_path / f"{ID}.jsonl").read_bytes() == b"{}\n"
    assert os.stat(path).st_mode & 0o7777 == 0o600
    assert sorted(os.listdir(tmp_path)) == sorted([f"{ID}.jsonl", "original.jsonl"])
    assert original.read_bytes() == transcripts.claude(transcripts.TYPED)


def test_the_directories_of_a_session_are_made_for_the_owner_alone(tmp_path):
    """A client may delete the directory with the last session of a project."""
    umask = os.umask(0)
    try:
        write_fork(claude, str(tmp_path / "projects" / "-gone" / "original.jsonl"), ID, b"{}\n")
    finally:
        os.umask(umask)
    assert [os.stat(tmp_path / path).st_mode & 0o7777 for path in ("projects", "projects/-gone")] == [0o700, 0o700]


def test_a_session_that_is_there_is_never_overwritten(tmp_path):
    (tmp_path / f"{ID}.jsonl").write_bytes(b"mine")
    with pytest.raises(errors.AgentError, match="exists already"):
        write_fork(claude, str(tmp_path / "t.jsonl"), ID, b"{}\n")
    assert (tmp_path / f"{ID}.jsonl").read_bytes() == b"mine"
    (tmp_path / f"{ID}.jsonl").unlink()
    (tmp_path / f"{ID}.jsonl").symlink_to("nowhere")
    with pytest.raises(errors.AgentError, match="exists already"):
        write_fork(claude, str(tmp_path / "t.jsonl"), ID, b"{}\n")


def test_droid_s_settings_go_with_the_fork(tmp_path):
    (tmp_path / "old.jsonl").write_bytes(transcripts.droid())
    (tmp_path / "old.settings.json").write_bytes(b'{"model": "x"}')
    write_fork(droid, str(tmp_path / "old.jsonl"), ID, b"{}\n")
    assert json.loads((tmp_path / f"{ID}.settings.json").read_bytes()) == {"model": "x"}
    write_fork(droid, str(tmp_path / "gone.jsonl"), "other", b"{}\n")
    assert not (tmp_path / "other.settings.json").exists()


def test_a_fork_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(errors.AgentError, match="cannot write the session"):
        write_fork(claude, str(tmp_path / "file" / "t.jsonl"), ID, b"{}\n")
    (tmp_path / "file").unlink()
    (tmp_path / "old.settings.json").mkdir()  # a companion that cannot be copied
    with pytest.raises(errors.AgentError):
        write_fork(droid, str(tmp_path / "old.jsonl"), ID, b"{}\n")
    assert os.listdir(tmp_path) == ["old.settings.json"]


def test_the_commands_that_open_a_session():
    assert claude.sessions.resume.format(session="x") == "claude --resume x" and claude.sessions.resume_inside.format(title="x") == "/resume x"
    assert droid.sessions.resume.format(session="x") == "droid --resume x" and droid.sessions.resume_inside.format(session="x") == ""


def test_a_fork_s_title_has_the_mark_once():
    for title in ("t", "[Fork] t", "[Fork] [Fork] t"):
        assert transcript.fork_title(title) == "[Fork] t"
    assert transcript.fork_title("") == "[Fork] "


def test_a_client_is_alive_until_it_ends_and_not_when_its_number_is_another_s():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    from casrewind.agents import event as events

    moment = events.read_event(claude, b'{"hook_event_name":"Stop"}', {"CLAUDE_PID": str(child.pid)})
    client = client_process.client_process(moment.pid)
    assert client.pid == child.pid
    assert client_process.is_alive_or_unknown(client) and client_process.is_alive_or_unknown(ClientProcess(child.pid, ""))
    if client.start:
        assert not client_process.is_alive_or_unknown(ClientProcess(child.pid, client.start + "1"))
    child.communicate(b"\n")
    assert not client_process.is_alive_or_unknown(client) and not client_process.is_alive_or_unknown(ClientProcess(child.pid, ""))


def test_a_client_that_nobody_knows_counts_as_alive():
    from casrewind.agents import event as events

    for environ in ({}, {"CLAUDE_PID": "x"}, {"CLAUDE_PID": "0"}, {"CLAUDE_PID": "1"}, {"CLAUDE_PID": "-5"}):
        assert client_process.client_process(events.read_event(claude, b'{"hook_event_name":"Stop"}', environ).pid) is None
    assert client_process.is_alive_or_unknown(None)
