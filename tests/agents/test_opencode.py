"""What only OpenCode does: sessions are rows of a database, and a fork is a file that the client imports."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.agents import event
from casrewind.agents.opencode import CLIENT as opencode
from casrewind.agents.opencode import fork_as_import
from casrewind.agents.prompt_matching import SHOWN, CheckpointPrompt, prompt_of_checkpoint
from support import opencode_database

DATA = Path(__file__).parent / "data"
LINES = (DATA / "opencode" / "session.jsonl").read_bytes()
SESSION = json.loads(LINES.splitlines()[0])["id"]


def test_a_prompt_that_begins_with_casrewind_is_a_prompt():
    payload = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "/casrewind list"}).encode()
    assert event.read_event(opencode, payload, {}).trigger == "prompt"


TYPED = {
    '"fix the bug"': "fix the bug",  # opencode run "fix the bug"
    '"say \\"x\\" twice"': 'say "x" twice',
    '"\\"all of it\\""': '"all of it"',
    '"first\nsecond line"': "first\nsecond line",
    '"fix this" "and that"': '"fix this" "and that"',
    '"one" and "two"': '"one" and "two"',
    '"word"': '"word"',  # the command line marks no argument without a space
    'fix "the bug"': 'fix "the bug"',
    '""': '""',
    '"': '"',
    '" ': '" ',
}
"""{a prompt to the value that the client has: as the person typed it}."""


@pytest.mark.parametrize("sent", TYPED)
def test_the_marks_of_the_command_line_are_not_of_the_prompt(sent, tmp_path):
    payload = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", "message_id": "m", "prompt": sent}).encode()
    recorded = event.read_event(opencode, payload, {})
    rows = [json.loads(line) for line in LINES.splitlines()[:2]]
    rows[1]["parts"] = [{**rows[1]["parts"][0], "type": "text", "text": sent}]
    opencode_database.write(tmp_path, DATA, rows)
    (found,) = opencode.prompts(opencode.read_stored_transcript(str(tmp_path / "opencode.db.sessions" / f"{SESSION}.jsonl")))
    assert recorded.prompt == found.text == TYPED[sent]
    for text in (recorded.prompt, sent):  # as an older casrewind recorded it
        seen = CheckpointPrompt("", found.message_id, text[:SHOWN], 0)
        assert prompt_of_checkpoint([found], seen) == 0


def test_what_the_client_imports_has_new_ids_that_agree(tmp_path):
    cut = opencode.cut_before_prompt(LINES, opencode.prompts(LINES)[1])
    session = opencode.new_session_id()
    assert re.fullmatch(r"ses_[0-9a-f]{12}[0-9A-Za-z]{14}", session) and session < "ses_f"
    fork = opencode.make_fork(LINES, cut, session)
    found = fork_as_import(fork, session, str(tmp_path))
    assert (found["info"]["id"], found["info"]["directory"]) == (session, str(tmp_path))
    assert found["info"]["title"].startswith("[Fork] ")
    names = [message["info"]["id"] for message in found["messages"]]
    assert not set(names) & set(re.findall(r"msg_\w{26}", LINES.decode()))
    for message in found["messages"]:
        assert message["info"]["sessionID"] == session
        assert message["info"].get("parentID", names[0]) == names[0]
        assert {part["messageID"] for part in message["parts"]} == {message["info"]["id"]}
    assert [prompt.message_id for prompt in opencode.prompts(fork)] == [names[0][:16]]


def test_a_message_of_an_unknown_role_is_imported_with_the_others(tmp_path):
    rows = [json.loads(line) for line in LINES.splitlines()]
    rows[1]["info"]["role"] = "narrator"
    found = fork_as_import("".join(json.dumps(row) + "\n" for row in rows).encode(), opencode.new_session_id(), str(tmp_path))
    assert [message["info"]["role"] for message in found["messages"]] == [row["info"]["role"] for row in rows[1:]]


def database(directory):
    return opencode_database.write(directory, DATA, [json.loads(line) for line in LINES.splitlines()])


def test_a_session_is_read_from_the_database(tmp_path):
    path = database(tmp_path)
    place = tmp_path / "opencode.db.sessions"
    found = opencode.read_stored_transcript(str(place / f"{SESSION}.jsonl"))
    assert opencode.prompts(found)[0].text == opencode.prompts(LINES)[0].text
    assert len(found.splitlines()) == len(LINES.splitlines())
    assert opencode.read_stored_transcript(str(place / "ses_none.jsonl")) == opencode.read_stored_transcript(str(tmp_path / "x.jsonl")) == b""
    second = opencode.prompts(LINES)[1].uuid
    with sqlite3.connect(path) as opened:
        opened.execute("update session set revert = ?", (json.dumps({"messageID": second}),))
    opened.close()
    assert len(opencode.prompts(opencode.read_stored_transcript(str(place / f"{SESSION}.jsonl")))) == 1, "what the client's own undo took back"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(errors.AgentError):
        opencode.read_stored_transcript(str(place / f"{SESSION}.jsonl"))
