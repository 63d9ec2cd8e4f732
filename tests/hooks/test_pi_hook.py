"""The hook that Pi's extension calls, with recorded payloads: checkpoints, and `casrewind at`."""

import json
import shutil
import subprocess
import sys

import pytest

from support import forked_command, transcripts
from support.fake_client import DATA
from support.trees import plant

SESSION = "01a20188-d0c2-70b0-9289-d2da06b498a4"


class PiHooks:
    """A project, Pi's directory with a recorded session, and the hook."""

    def __init__(self, casrewind, root):
        self.casrewind, self.root = casrewind, root
        self.directory = f"{casrewind.home}/.pi/agent/sessions/--project--"
        self.transcript = f"{self.directory}/2026-11-22T04-34-33-282Z_{SESSION}.jsonl"
        plant(root, {"a": b"1", "b": b"2"})
        subprocess.run(["mkdir", "-p", self.directory], check=True)
        shutil.copy(DATA / "pi" / "tree-steer.jsonl", self.transcript)
        casrewind("save", code=0)

    def send(self, payload, out=b""):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        assert forked_command.call(["hook", "pi"], self.casrewind.environment, stdin=data, cwd="/", timeout=60) == (0, out, b""), payload

    def event(self, name, **fields):
        place = {"session_id": SESSION, "transcript_path": self.transcript, "cwd": str(self.root)}
        self.send({"hook_event_name": name, **place, **fields})

    def at(self, *entries, session=SESSION):
        return self.casrewind.json("at", "--session", session, "--entry", ",".join(entries))

    def points(self):
        return self.casrewind.json("list")["checkpoints"]


@pytest.fixture
def hooks(casrewind, root):
    return PiHooks(casrewind, root)


def prompt(text):
    return next(one for one in transcripts_prompts() if one.text.startswith(text))


def transcripts_prompts():
    from casrewind.agents.pi import CLIENT as pi

    return pi.prompts(transcripts.recorded("pi", "tree-steer"), every=True)


def test_at_finds_the_checkpoint_of_an_entry_and_no_other(hooks):
    second = prompt("TURN2")
    hooks.event("UserPromptSubmit", prompt_id=second.uuid, leaf_id=second.uuid, prompt=second.text)
    plant(hooks.root, {"a": b"changed", "c": b"3"})
    hooks.event("PreToolUse", prompt_id=second.uuid, leaf_id="answer", tool_name="bash", tool_use_id="t")
    hooks.event("PostToolBatch", prompt_id=second.uuid, leaf_id="result", tool_calls=[{"tool_name": "bash", "tool_use_id": "t"}])
    hooks.event("Stop", prompt_id=second.uuid, leaf_id="last")
    stop, *_, asked, _ = hooks.points()
    hooks.event("SessionEnd", prompt_id=second.uuid, leaf_id="last", reason="quit")
    found = hooks.at(second.uuid)
    assert (found["checkpoint"], found["written"], found["removed"], found["problem"]) == (asked["id"], 1, 1, None)
    assert found["plan"].splitlines() == ["  - c", "  ~ a (7 B -> 1 B)"], "removals first"
    assert hooks.at("nothing")["plan"] == hooks.at("last")["plan"] == ""
    assert hooks.at("last")["checkpoint"] == stop["id"], "that of the answer, and not of the session's end"
    assert hooks.at("last", session="a copy of it")["checkpoint"] == stop["id"]
    assert (hooks.at("nothing")["checkpoint"], hooks.at("")["checkpoint"]) == (None, None)
    assert hooks.at("last")["written"] == 0 and not hooks.at("last")["undo"]
    assert hooks.at("answer", "result")["checkpoint"] is not None
    assert hooks.casrewind("at", "--json", code=64).out != "x"
    assert "would write 1 path and remove 1" in hooks.casrewind("at", "--session", SESSION, "--entry", second.uuid, code=0).out


def test_at_says_which_checkpoint_the_newest_restore_brought(hooks):
    second = prompt("TURN2")
    hooks.event("UserPromptSubmit", prompt_id=second.uuid, leaf_id=second.uuid, prompt=second.text)
    plant(hooks.root, {"a": b"changed"})
    hooks.event("Stop", prompt_id=second.uuid, leaf_id="last")
    assert not hooks.at(second.uuid)["is_restored"]
    hooks.casrewind("restore", hooks.at(second.uuid)["checkpoint"], "-y", code=0)
    assert (hooks.at(second.uuid)["is_restored"], hooks.at("last")["is_restored"], hooks.at("nothing")["is_restored"]) == (True, False, False)
    hooks.casrewind("undo", "-y", code=0)
    assert not hooks.at(second.uuid)["is_restored"]


def test_at_lists_the_newest_prompts_and_what_going_back_to_each_would_change(hooks):
    second, third = prompt("TURN2"), prompt("TURN3")
    for number, one in enumerate((second, third)):
        hooks.event("UserPromptSubmit", prompt_id=one.uuid, leaf_id=one.uuid, prompt=one.text)
        plant(hooks.root, {f"new{number}": b"1", "a": b"turn %d" % number})
        hooks.event("Stop", prompt_id=one.uuid, leaf_id=f"last{number}")
    hooks.event("UserPromptSubmit", prompt_id="another", leaf_id="another", prompt="in another session", session_id="other")
    (hooks.root / "b").unlink()
    found = hooks.casrewind.json("at", "--session", SESSION, "-n", "5")["turns"]
    assert [(row["n"], row["entry"], row["written"], row["removed"]) for row in found] == [(2, third.uuid, 2, 1), (3, second.uuid, 2, 2)]
    assert [row["prompt"] for row in found] == [third.text, second.text] and all(row["age"].endswith(" ago") for row in found)
    for row in found:
        there = hooks.at(row["entry"])
        assert (there["written"], there["removed"]) == (row["written"], row["removed"]), "as the plan says"
    assert len(hooks.casrewind.json("at", "--session", SESSION, "-n", "1")["turns"]) == 1
    assert hooks.casrewind.json("at", "--session", "nobody", "-n", "5")["turns"] == []
    assert "@2  2 written, 1 removed" in hooks.casrewind("at", "--session", SESSION, "-n", "1", code=0).out


def test_a_command_is_answered_only_where_the_extension_hands_it_over(hooks):
    hooks.event("UserPromptSubmit", prompt_id="x", leaf_id="x", prompt="/casrewind restore last")
    assert hooks.points()[0]["prompt"] == "/casrewind restore last", "a message is a prompt, whatever its text is"
    done = subprocess.run(
        [sys.executable, "-m", "casrewind", "hook", "pi"], capture_output=True, cwd="/", env=hooks.casrewind.environment,
        input=json.dumps({"hook_event_name": "Command", "cwd": str(hooks.root), "prompt": "/casrewind list"}).encode(),
    )  # fmt: skip
    assert "/casrewind r" in json.loads(done.stdout)["reason"]


def test_at_finds_the_prompt_of_a_turn_of_this_session(hooks):
    """What `/casrewind back N` asks in Pi: N is a turn of the list."""
    second = prompt("TURN2")
    hooks.event("UserPromptSubmit", prompt_id=second.uuid, leaf_id=second.uuid, prompt=second.text)
    hooks.event("Stop", prompt_id=second.uuid, leaf_id="last")
    hooks.event("UserPromptSubmit", prompt_id="another", leaf_id="another", prompt="in another session", session_id="other")
    found = hooks.casrewind.json("at", "--session", SESSION, "--turn", "2")
    assert (found["entry"], found["checkpoint"]) == (second.uuid, hooks.casrewind.json("list")["turns"][1]["before"])
    refused = hooks.casrewind("at", "--session", SESSION, "--turn", "1", code=16)
    assert '@1 "in another session" is a turn of pi other' in refused.err and "its turns are @2" in refused.err
    hooks.casrewind("at", "--session", SESSION, "--turn", "3", code=15)
