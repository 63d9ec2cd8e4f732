"""Cursor, Qwen Code and other clients with such hooks: no client is run, only the command lines that an installation writes.

The payloads are made from the clients' documentation. Files are saved and restored; conversations stay the client's own.
"""

import json
import subprocess

import pytest

from casrewind import agents

from support.picture import differences, picture
from support.trees import plant

SETTINGS = {"cursor": ".cursor/hooks.json", "qwen": ".qwen/settings.json"}
NAMES = {
    "cursor": {"start": "sessionStart", "prompt": "beforeSubmitPrompt", "end": "stop", "tool": "preToolUse", "compact": "preCompact"},
    "other": {"start": "SessionStart", "prompt": "UserPromptSubmit", "end": "Stop", "tool": "PreToolUse", "compact": "PreCompact"},
}


class Told:
    """A project, a client's settings, and the hooks in them."""

    def __init__(self, agent, casrewind, root, home):
        self.agent, self.casrewind, self.root = agent, casrewind, root
        self.names = NAMES.get(agent, NAMES["other"])
        said = casrewind("install", agent, "--tier", "aggressive", code=0).out
        text = (home / SETTINGS[agent]).read_text() if agent in SETTINGS else said
        self.hooks = json.loads(text)["hooks"]
        plant(root, {"kept": b"kept", "gone": b"to be removed"})

    def event(self, kind, session="s1", out=b"", **fields):
        event = self.names[kind]
        group = self.hooks[event][0]
        line = group["command"] if "command" in group else group["hooks"][0]["command"]
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(self.root), **fields}
        if self.agent == "cursor":
            payload = {
                "hook_event_name": event, "conversation_id": session, "generation_id": "g", "cursor_version": "2.1.0",
                "workspace_roots": [str(self.root)], **fields,
            }  # fmt: skip
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=json.dumps(payload).encode(), capture_output=True, cwd="/", timeout=60,
            env=self.casrewind.environment,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, out, b"")

    def points(self):
        return self.casrewind.json("list")["checkpoints"][::-1]


@pytest.fixture(params=["cursor", "qwen", "generic"])
def told(request, casrewind, root, home):
    return Told(request.param, casrewind, root, home)


@pytest.mark.turns(3)
def test_three_turns_are_checkpoints_and_their_files_come_back(told, root, tmp_path):
    pictures = []
    told.event("start")
    for number in range(3):
        pictures.append(picture(root))
        told.event("prompt", prompt=f"turn {number}")
        subprocess.run(f"echo v{number} > made{number}; rm -f gone; chmod 600 kept", shell=True, cwd=root, check=True)
        told.event("end")
    prompts = [point for point in told.points() if point["trigger"] == "prompt"]
    assert [point["prompt"] for point in prompts] == ["turn 0", "turn 1", "turn 2"]
    assert {(point["agent"], point["session"]) for point in prompts} == {(told.agent, "s1")}
    wrecked = picture(root)
    for number in (2, 0):
        told.casrewind("restore", prompts[number]["id"], "--yes", code=0)
        assert differences(picture(root), pictures[number]) == {}
    told.casrewind("undo", "--yes", code=0)
    told.casrewind("undo", "--yes", code=0)
    assert differences(picture(root), wrecked) == {}
    refused = told.casrewind("back", "1", "--yes", code=16)
    assert "casrewind back 1 --code takes the files back" in refused.err
    told.casrewind("back", "1", "--code", "--yes", code=0)


def test_two_sessions_are_told_apart(told, root):
    for number, session in enumerate(("s1", "s2")):
        told.event("prompt", session, prompt="go on")
        plant(root, {f"by{number}": b"x"})
        told.event("end", session)
    assert [point["session"] for point in told.points()] == ["s1", "s1", "s2", "s2"]


def test_the_tool_tier_saves_before_a_tool(told, root):
    told.event("prompt", prompt="go on")
    for tool in ("Read", "Write"):
        plant(root, {f"before-{tool}": b"x"})
        told.event("tool", tool_name=tool)
    assert [point["trigger"] for point in told.points()] == ["prompt", "tool_batch"]


def test_a_compaction_has_a_checkpoint(told, root):
    told.event("prompt", prompt="go on")
    plant(root, {"more": b"x"})
    told.event("compact", trigger="auto")
    assert [point["trigger"] for point in told.points()] == ["prompt", "compact"]


def test_cursor_s_events_in_claude_s_hooks_are_cursor_s(casrewind, root, home):
    casrewind("install", "claude", code=0)
    plant(root, {"a": b"1"})
    line = json.loads((home / ".claude/settings.json").read_text())["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    payload = {
        "hook_event_name": "UserPromptSubmit", "conversation_id": "s", "generation_id": "g", "cursor_version": "2.1.0",
        "workspace_roots": [str(root)], "prompt": "hello",
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=json.dumps(payload).encode(), capture_output=True, cwd="/", timeout=60, env=casrewind.environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (point,) = casrewind.json("list")["checkpoints"]
    assert (point["agent"], point["prompt"]) == ("cursor", "hello")


@pytest.mark.parametrize("agent", sorted(SETTINGS))
def test_doctor_tries_the_hooks(casrewind, agent):
    casrewind("install", agent, code=0)
    found = casrewind.json("doctor", agent)["agents"][agent]
    assert found["hook_test"]["ok"] and found["problems"] == []
    assert set(found["hooks"][0]["events"]) == {hook.event for hook in agents.load_client(agent).hooks_of("balanced")}


def test_the_hooks_for_any_client_are_printed_and_nothing_is_written(casrewind, home):
    before = picture(home)
    printed = casrewind("install", "generic", code=0).out
    assert set(json.loads(printed)["hooks"]) == {hook.event for hook in agents.load_client("generic").hooks_of("balanced")}
    assert len(casrewind.json("install", "generic")["hooks"]) == 6 and not casrewind.json("uninstall", "generic")["changed"]
    assert "hook generic" in casrewind("uninstall", "generic", code=0).out
    assert differences(picture(home), before) == {}
