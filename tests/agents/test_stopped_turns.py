"""When a person stopped a turn: what a client notes in its transcript. The others report it to a hook, or write nothing of it."""

import datetime
import json
import os

import pytest

from casrewind import agents
from casrewind.agents import transcript
from support.known_clients import CONVERSATIONS, RECORDINGS
from support.recorded_session import DATA, RECORDED

WORDS = {"type": "text", "text": "[Request interrupted by user for tool use]"}
NOTES = {
    "claude": {"type": "user", "uuid": "esc", "interruptedMessageId": "m", "message": {"role": "user", "content": [WORDS]}},
    "droid": {"type": "message", "id": "esc", "message": {"role": "user", "content": [WORDS]}},
    "copilot": {"type": "abort", "id": "esc", "data": {"reason": "user initiated"}},
    "codex": {
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<turn_aborted>\nThe user interrupted"}]},
    },
}
"""The line that says so, by the client's own schema."""
AT = datetime.datetime(2026, 11, 21, 12, 0, 0, 5000, datetime.UTC)
AT_NS = int(AT.timestamp()) * 10**9 + 5 * 10**6


def line(value, seconds=0):
    return json.dumps({**value, "timestamp": (AT + datetime.timedelta(seconds=seconds)).isoformat()}).encode() + b"\n"


def told(tmp_path, name, data, written_ns=AT_NS):
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    os.utime(path, ns=(written_ns, written_ns))
    return agents.stopped_ns(name, str(path))


def newest_line(name, data, kind):
    """The newest line of this kind that a client recorded, as it would write it a second after the note."""
    client = agents.load_conversation_client(name)
    values = [found.value for found in transcript.parse_lines(data) if client.kind_of_line(found.value) == kind]
    return line(values[-1], 1)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_no_recording_of_turns_that_ended_tells_a_stop(tmp_path, recording):
    data = (DATA / f"{recording}.jsonl").read_bytes()
    for end in (len(data), *(at for at in range(0, len(data), max(len(data) // 20, 1)))):
        assert told(tmp_path, recording.partition("/")[0], data[:end]) == 0


@pytest.mark.parametrize("name", NOTES)
def test_the_note_of_a_client_tells_the_time_until_the_agent_goes_on(tmp_path, name):
    data = (DATA / f"{RECORDED[name]}.jsonl").read_bytes() + line(NOTES[name])
    later = newest_line(name, data, transcript.PROMPT)
    assert told(tmp_path, name, data) == AT_NS
    assert told(tmp_path, name, data + later, AT_NS + 10**9) == AT_NS, "a prompt that was typed behind it is no work of the agent"
    assert told(tmp_path, name, data + newest_line(name, data, transcript.ASSISTANT), AT_NS + 10**9) == 0
    assert told(tmp_path, name, data + b'{"type": "half a li', AT_NS) == AT_NS


@pytest.mark.parametrize("name", NOTES)
def test_a_client_that_noted_it_is_idle_until_a_prompt_is_typed(tmp_path, name):
    recorded = (DATA / f"{RECORDED[name]}.jsonl").read_bytes()
    for data, is_idle in (
        (recorded, False),
        (recorded + line(NOTES[name]), True),
        (recorded + line(NOTES[name]) + newest_line(name, recorded, transcript.PROMPT), False),
        (recorded + line(NOTES[name]) + newest_line(name, recorded, transcript.ASSISTANT), False),
    ):
        (tmp_path / "session.jsonl").write_bytes(data)
        assert agents.ends_interrupted(name, str(tmp_path / "session.jsonl")) == is_idle


@pytest.mark.parametrize("name", NOTES)
@pytest.mark.parametrize("wrong", [-3600, -3, 3, 3600])
def test_a_clock_that_is_not_that_of_the_file_tells_nothing(tmp_path, name, wrong):
    data = (DATA / f"{RECORDED[name]}.jsonl").read_bytes() + line(NOTES[name])
    assert told(tmp_path, name, data, AT_NS + wrong * 10**9) == 0
    without = json.dumps(NOTES[name]).encode() + b"\n"
    assert told(tmp_path, name, (DATA / f"{RECORDED[name]}.jsonl").read_bytes() + without) == 0, "a note without a time"


@pytest.mark.parametrize("name", [*CONVERSATIONS, "cursor", "generic", "nobody"])
def test_what_is_no_transcript_tells_nothing(tmp_path, name):
    for data in (b"", b"\n\n", b"\0" * 5000, b"[]\n7\nnull\n", b"\xff\xfe\n" * 10, b'{"type": ["user"], "message": 7}\n'):
        assert told(tmp_path, name, data) == 0
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / "session.jsonl", tmp_path / "link")
    for path in ("pipe", "link", "gone", ".", "a\0b"):
        assert agents.stopped_ns(name, str(tmp_path / path)) == 0
        assert not agents.ends_interrupted(name, str(tmp_path / path))
