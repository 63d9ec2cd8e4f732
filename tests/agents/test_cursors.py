"""A cursor is taken from a file that somebody else is writing, whatever is there, and compared with it later."""

import json
import os

import pytest
from blake3 import blake3

from casrewind import agents
from casrewind.agents import transcript, transcript_position
from casrewind.agents import event as events
from casrewind.model.cursor import WINDOW, Cursor
from support import transcripts

claude, droid = agents.load_conversation_client("claude"), agents.load_conversation_client("droid")


def event(agent=claude, name="UserPromptSubmit", **fields):
    return events.read_event(agent, json.dumps({"hook_event_name": name, "session_id": "s", **fields}).encode(), {})


def hashed(data):
    return blake3(data).digest()


@pytest.mark.parametrize("name", transcripts.CLAUDE)
def test_a_cursor_is_the_identity_of_the_moment_and_the_end_of_the_last_whole_line(name, tmp_path):
    data = transcripts.claude(name)
    path = tmp_path / "t.jsonl"
    path.write_bytes(data + b'{"type":"user","uuid":"torn')
    moment = event(transcript_path=str(path), prompt_id="p", turn_id="t", prompt="x")
    cursor = transcript_position.cursor_at(claude, str(path), moment)
    assert cursor == transcript_position.cursor_at(claude, path.read_bytes(), moment)
    assert cursor == Cursor(
        agent="claude", session="s", transcript=os.fsencode(path), prompt_id="p", turn_id="t",
        event_id=[row["uuid"] for row in transcripts.values(data) if row.get("uuid")][-1],
        offset=len(data), prefix=hashed(data[:WINDOW]), tail=hashed(data[-WINDOW:]),
    )  # fmt: skip
    assert transcript.still_has_bytes_before(path.read_bytes(), cursor) and transcript.still_has_bytes_before(data + b"more\n", cursor)
    assert not transcript.still_has_bytes_before(data[:-1], cursor) and not transcript.still_has_bytes_before(b"x" + data[1:], cursor)
    assert not transcript.still_has_bytes_before(data[:-2] + b"x\n", cursor)


def test_droid_s_lines_are_named_by_their_id():
    moment = event(droid, message_id="m")
    cursor = transcript_position.cursor_at(droid, transcripts.droid(), moment)
    assert cursor.event_id == transcripts.values(transcripts.droid())[-1]["id"] and cursor.message_id == "m"


def test_every_prefix_of_a_transcript_gives_a_cursor_that_holds():
    data = transcripts.claude(transcripts.QUEUED)
    for end in range(0, len(data), 1009):
        cursor = transcript_position.cursor_at(claude, data[:end], event())
        assert cursor.offset <= end and data[:end].rfind(b"\n") + 1 == cursor.offset
        assert transcript.still_has_bytes_before(data, cursor) and transcript.still_has_bytes_before(data[: cursor.offset], cursor)


def test_of_a_huge_transcript_only_the_ends_are_read(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    line = json.dumps({"type": "user", "uuid": "last"}).encode() + b"\n"
    with open(path, "wb") as file:
        file.write(b'{"first":1}\n')
        file.truncate(3_000_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + line)
    read = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: read.append(size) or real(fd, size, offset))
    cursor = transcript_position.cursor_at(claude, str(path), event())
    assert cursor.event_id == "last" and cursor.offset == 3_000_000_001 + len(line) and sum(read) < 2_000_000
    assert len(cursor.prefix) == len(cursor.tail) == 32


def test_a_last_line_longer_than_is_looked_through_gives_no_offset(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"uuid":"a"}\n' + b"x" * 3_000_000)
    assert transcript_position.cursor_at(claude, str(path), event(prompt_id="p")) == Cursor(agent="claude", session="s", prompt_id="p")


def test_what_is_no_file_gives_a_cursor_with_ids_alone(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "real").write_bytes(b'{"uuid":"a"}\n')
    (tmp_path / "link").symlink_to("real")
    for name in ("missing", "fifo", "directory", "empty", "link", "x" * 300, "nul\0"):
        cursor = transcript_position.cursor_at(claude, str(tmp_path / name), event(prompt_id="p"))
        assert cursor == Cursor(agent="claude", session="s", prompt_id="p"), name
    assert transcript_position.cursor_at(claude, "", event(prompt_id="p")).offset == 0


def test_before_a_tool_runs_its_result_is_not_part_of_the_moment():
    batch = {"tool_calls": [{"tool_name": "Write", "tool_use_id": "t1"}, {"tool_name": "Bash", "tool_use_id": "t2"}]}
    assert transcript_position.cursor_at(claude, b"", event(name="PostToolBatch", **batch)).tool_use_id == "t2"
    assert transcript_position.cursor_at(claude, b"", event(name="PreToolUse", tool_name="Bash", tool_use_id="t1")).tool_use_id == ""
