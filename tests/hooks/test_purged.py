"""Conversations that held a word which was purged: what of them can still be forked, and that the word is in none of it."""

import json

import pytest

from support.fake_client import Client
from support.secret_search import hits, secret
from support.trees import plant

IDS = {"session_id", "transcript_path", "cwd", "hook_event_name", "prompt_id", "tool_use_id"}
"""Fields of a payload that a purge does not edit, and those without which there is no event."""
EVENTS = (
    "SessionStart.startup", "UserPromptSubmit.prompt", "PreToolUse.Bash", "PostToolUse.Write", "PostToolBatch", "PreCompact.manual",
    "SubagentStop.general-purpose", "Stop.background-running", "Stop.plain", "SessionEnd.other", "UserPromptSubmit.slash-command",
)  # fmt: skip


def purge(casrewind, word):
    done = casrewind("purge", "--text", "-", "--yes", "--json", stdin=word.encode(), code=0)
    assert hits(casrewind.home + "/data", word.encode()) == {} and casrewind.json("verify")["ok"]
    return done.json


def forked(casrewind):
    """The lines of a fork before the newest prompt that is known."""
    with open(casrewind.json("back", "--chat", "--yes")["fork"]["path"], "rb") as file:
        return file.read().splitlines()


@pytest.mark.parametrize("number", [0, 2])
def test_the_client_s_own_file_is_left_alone_and_is_forked_as_before(told, casrewind, number):
    client, prompts, _ = told
    before, expected = client.transcript.read_bytes(), forked(casrewind)
    report = purge(casrewind, prompts[number].text[:12])
    assert report["places"]["transcripts"] > 0 and report["places"]["prompts"] > 0
    assert str(client.transcript) in [item["path"] for item in report["still_there"]]
    assert client.transcript.read_bytes() == before and len(forked(casrewind)) == len(expected)


def test_without_the_client_s_file_it_is_forked_from_what_was_stored_before_the_word(told, casrewind):
    client, prompts, _ = told
    word = prompts[2].text[:12]
    assert len(word) == 12 and hits(casrewind.home + "/data", word.encode())
    purge(casrewind, word)
    client.transcript.unlink()
    assert 'the prompt of @1 "***" is no longer in the conversation' in casrewind("back", "1", "--chat", "--yes", code=16).err
    lines = forked(casrewind)
    assert len(lines) > 3 and all(json.loads(line) for line in lines) and not any(word.encode() in line for line in lines)


def test_where_every_stored_transcript_held_it_that_is_said(told, casrewind):
    client, prompts, _ = told
    purge(casrewind, prompts[0].text[:12])
    client.transcript.unlink()
    assert "holds no prompt" in casrewind("back", "1", "--chat", "--yes", code=16).err


def put_everywhere(value, word):
    """A payload with a word in each of its texts, but not in ids."""
    if isinstance(value, dict):
        return {name: item if name in IDS else put_everywhere(item, word) for name, item in value.items()}
    if isinstance(value, list):
        return [put_everywhere(item, word) for item in value]
    return f"{value} {word}" if isinstance(value, str) else value


def test_a_word_in_all_that_events_and_commands_carry_is_in_no_byte_afterwards(casrewind, root):
    """Payloads, environment, git's branch, labels, targets, a command line, and events that cannot be handled."""
    word = secret("event", odd="-")
    client = Client(casrewind, root)
    plant(root, {"f": b"0", ".git/HEAD": f"ref: refs/heads/fix/{word}\n".encode()})
    casrewind("save", "-m", f"first {word}", code=0)
    client.transcript.write_bytes(client.transcript.read_bytes() + json.dumps({"type": "user", "said": word}).encode() + b"\n")
    for number, name in enumerate(EVENTS, 1):
        plant(root, {"f": b"%d" % number})
        payload = put_everywhere(json.loads(client.payload(name)), word)
        assert client.call(json.dumps(payload).encode(), AI_AGENT=word, CLAUDE_CODE_ENTRYPOINT=word)[0] == 0
    for wrong in ({"cwd": f"/nowhere/{word}"}, {"hook_event_name": word}, {"session_id": [word]}):
        client.send(client.payload("Stop.plain", **wrong), CLAUDE_PROJECT_DIR="")
    client.send(client.payload("Stop.plain"), word)
    casrewind("run", "--", "true", word, code=0)
    casrewind("pin", "last", f"pinned {word}", code=0)
    casrewind("restore", f"first {word}", "--yes", code=0)
    before = hits(casrewind.home + "/data", word)
    assert {name.rpartition("/")[2] for name in before} >= {"ledger", "data.mdb", "log"}, before
    report = purge(casrewind, word)
    assert hits(casrewind.home + "/data", word) == {}
    assert report["records"] == 0 and report["files"] == [] and all(report["places"].values()), report
