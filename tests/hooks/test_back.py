"""`casrewind back`: the files and the conversation of the moment before a prompt, the original conversation untouched."""

import json
import os
from pathlib import Path

import pytest

from casrewind.agents.carried_lines import carried
from casrewind.agents.claude import CLIENT as claude
from support.picture import picture
from support.trees import plant


def test_back_brings_files_and_conversation_of_that_moment(told, root, casrewind):
    client, prompts, pictures = told
    original = client.transcript.read_bytes()
    found = casrewind.json("back", "1", "--both", "--yes")
    assert picture(root) == pictures[2]
    fork = Path(found["fork"]["path"]).read_bytes()
    assert [prompt.text for prompt in claude.prompts(fork)] == [prompt.text for prompt in prompts[:2]]
    assert found["prompts"] == [prompts[2].text]
    assert found["fork"]["mode"] == "fork" and found["fork"]["backup"] is None and found["foreign"] == []
    assert found["fork"]["resume"] == f"claude --resume {found['fork']['session_id']}"
    assert os.path.dirname(found["fork"]["path"]) == str(client.transcript.parent)
    assert os.stat(found["fork"]["path"]).st_mode & 0o777 == 0o600
    assert client.transcript.read_bytes() == original
    kept = set(carried(original, claude.carried_lines()).splitlines())
    assert [line for line in fork.splitlines() if line not in kept and b"custom-title" not in line] == []
    casrewind("undo", "--yes", code=0)
    assert (root / "f").read_bytes() == b"wrecked"


def test_the_conversation_alone_leaves_the_files(told, root, casrewind):
    client, prompts, _ = told
    found = casrewind("back", "2", "--chat", code=0)
    assert "forked: claude --resume " in found.out and prompts[1].text[:20] in found.out
    assert (root / "f").read_bytes() == b"wrecked"


def test_the_files_alone_leave_the_conversation(told, root, casrewind):
    client, _, pictures = told
    before = sorted(os.listdir(client.transcript.parent))
    found = casrewind.json("back", "1", "--code", "--yes")
    assert picture(root) == pictures[2] and found["fork"] is None and found["prompts"] == []
    assert sorted(os.listdir(client.transcript.parent)) == before
    assert "start a new session" not in casrewind("back", "1", "--code", "--yes", code=0).out
    assert "--code" in casrewind("back", "1", "--code", "--in-place", "--yes", code=64).err


def test_both_is_what_back_does_by_itself(told, root, casrewind):
    _, _, pictures = told
    assert "--yes" in casrewind("back", "1", code=64).err
    found = casrewind.json("back", "1", "--yes")
    assert picture(root) == pictures[2] and found["fork"] is not None


@pytest.mark.parametrize("what", [(), ("--code",), ("--chat",)])
def test_a_dry_run_shows_the_plan_asks_nothing_and_changes_nothing(told, root, casrewind, what):
    client, prompts, _ = told
    before, sessions = picture(root), sorted(os.listdir(client.transcript.parent))
    found = casrewind("back", "-n", "2", *what, code=0)
    assert found.err == "" and "Go on?" not in found.out and "undo takes this back" not in found.out
    assert ("would restore" in found.out) == (what != ("--chat",))
    assert ("would take back 2 prompts" in found.out) == (what != ("--code",))
    shape = casrewind.json("back", "--dry-run", "2", *what)
    assert shape["dry_run"] is True and shape["fork"] is None and shape["prompts"] == [p.text for p in prompts[1:]] * (what != ("--code",))
    assert picture(root) == before and sorted(os.listdir(client.transcript.parent)) == sessions
    assert "nothing to undo" in casrewind("undo", "--yes", code=15).err


def test_before_the_first_prompt_there_is_no_conversation_and_it_is_said(told, root, casrewind):
    _, _, pictures = told
    found = casrewind("back", "3", "--both", "--yes", code=0)
    assert "start a new session" in found.out
    assert picture(root) == pictures[0]


def test_a_transcript_that_is_gone_is_forked_from_the_stored_bytes(told, casrewind):
    client, prompts, _ = told
    client.transcript.unlink()
    found = casrewind.json("back", "1", "--chat")
    with open(found["fork"]["path"], "rb") as file:
        assert [prompt.text for prompt in claude.prompts(file.read())] == [prompt.text for prompt in prompts[:2]]


def test_more_prompts_than_there_are_and_no_conversation_are_16(told, root, casrewind, tmp_path):
    refused = casrewind("back", "4", "--chat", code=15).err
    assert "no turn '@4': this worktree has 3" in refused
    assert casrewind("back", "0", "--chat", code=64).out == ""
    other = tmp_path / "other"
    plant(other, {"f": b"1"})
    casrewind.root = str(other)
    casrewind("save", code=0)
    assert "casrewind install" in casrewind("back", "--chat", code=16).err


def test_a_prompt_without_a_checkpoint_is_refused_unless_the_nearest_is_asked_for(told, root, casrewind):
    client, prompts, pictures = told
    text = client.transcript.read_bytes()
    changed = text.replace(prompts[2].text.encode(), b"never seen by a hook")
    assert changed != text
    client.transcript.write_bytes(changed)
    before = sorted(os.listdir(client.transcript.parent))
    refused = casrewind("back", "--both", "--yes", code=15)
    assert "--nearest" in refused.err and (root / "f").read_bytes() == b"wrecked"
    assert sorted(os.listdir(client.transcript.parent)) == before
    found = casrewind("back", "--both", "--yes", "--nearest", code=0)
    assert "the nearest before it" in found.err
    assert picture(root) in pictures


def test_files_are_not_touched_without_a_yes_where_nobody_can_be_asked(told, root, casrewind):
    assert "--yes" in casrewind("back", "1", "--both", code=64).err
    assert (root / "f").read_bytes() == b"wrecked"


def test_back_typed_in_the_client(told, root):
    client, prompts, pictures = told
    session = json.loads(client.transcript.read_bytes().splitlines()[0])["sessionId"]
    assert "to go on from there: /resume " in client.typed("/casrewind back 1", session_id=session)
    assert picture(root) == pictures[2]
