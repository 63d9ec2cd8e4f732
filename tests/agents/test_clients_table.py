"""Every client's recorded payloads, and the event that each of them is.

A new client is a client, a module, a folder of recordings (`data/NAME_hooks`), and its rows here.
"""

import json
from pathlib import Path

import pytest

from casrewind import agents
from casrewind.agents import event as events
from casrewind.model.checkpoint import TRIGGERS

DATA = Path(__file__).parent / "data"
NONE, TOOLS, BALANCED, ALL = (), ("aggressive",), ("balanced", "aggressive"), ("minimal", "balanced", "aggressive")
"""The tiers that handle an event."""


def row(kind, tiers, session, turn="", prompt="", **more):
    """What a payload means: the kind of its checkpoint ("" = none) and the tiers that make it; how the ids of its session
    and of its turn begin ("" = none); the prompt; and further fields of the event."""
    return kind, tiers, session, turn, prompt, more


CODEX_DAY = "/home/dev/.codex/sessions/2026/11/30"
EXPECTED = {
    "claude": {
        "CwdChanged": row("", NONE, "4cfc4d12", turn="194cd840", cwd="/home/dev/proj/sub", root="/home/dev/proj"),
        "MessageDisplay": row("", NONE, "d2379543", turn="53dc5f70", turn_id="64a07342-3409-4ebb-b8e1-94c9c4bf72cc"),
        "Notification.idle_prompt": row("", NONE, "61f829df", turn="deadc887"),
        "Notification.permission_prompt": row("", NONE, "11627634", turn="1bf5308b"),
        "PermissionRequest": row("", NONE, "11627634", turn="1bf5308b", tools=("Bash",)),
        "PostCompact.auto": row("", NONE, "35f5280c", turn="42d61e80", source="auto"),
        "PostCompact.manual": row("", NONE, "61f829df", turn="ffe720d8", source="manual"),
        "PostToolBatch": row(
            "tool_batch", TOOLS, "d2379543", turn="53dc5f70", tools=("Write",), tool_use_id="toolu_mock_792c9651a2034726",
        ),
        "PostToolUse.Agent": row("", NONE, "61f829df", turn="bdae7975", tools=("Agent",), subagent=""),
        "PostToolUse.Bash": row("", NONE, "d2379543", turn="b9f1bdac", tools=("Bash",)),
        "PostToolUse.Edit": row("", NONE, "d2379543", turn="29be86a2", tools=("Edit",)),
        "PostToolUse.Read": row("", NONE, "d2379543", turn="29be86a2", tools=("Read",), tool_use_id="toolu_mock_a0802da3bebd4b8e"),
        "PostToolUse.Write": row("", NONE, "d2379543", turn="53dc5f70", tools=("Write",)),
        "PostToolUse.subagent-Write": row("", NONE, "61f829df", turn="bdae7975", tools=("Write",), subagent="a00838870c112be89"),
        "PostToolUseFailure": row("", NONE, "d2379543", turn="b9f1bdac", tools=("Bash",)),
        "PreCompact.auto": row("compact", BALANCED, "35f5280c", turn="42d61e80", source="auto"),
        "PreCompact.manual": row("compact", BALANCED, "61f829df", turn="ffe720d8", source="manual"),
        "PreToolUse.Agent": row("tool_batch", TOOLS, "61f829df", turn="bdae7975", tools=("Agent",)),
        "PreToolUse.Bash": row("tool_batch", TOOLS, "d2379543", turn="b9f1bdac", tools=("Bash",)),
        "PreToolUse.Edit": row("tool_batch", TOOLS, "d2379543", turn="29be86a2", tools=("Edit",), budget=10.0),
        "PreToolUse.Read": row("tool_batch", NONE, "d2379543", turn="29be86a2", tools=("Read",)),
        "PreToolUse.Write": row("tool_batch", TOOLS, "d2379543", turn="53dc5f70", tools=("Write",), subagent=""),
        "PreToolUse.subagent-Write": row("tool_batch", TOOLS, "61f829df", turn="bdae7975", tools=("Write",), subagent="a00838870c112be89"),
        "SessionEnd.clear": row("session_end", BALANCED, "f1520c7b", turn="8e365f30", reason="clear", budget=1.0),
        "SessionEnd.other": row("session_end", BALANCED, "d2379543", turn="53dc5f70", reason="other"),
        "SessionEnd.prompt_input_exit": row("session_end", BALANCED, "61f829df", turn="04e2dcf7", reason="prompt_input_exit"),
        "SessionEnd.resume": row("session_end", BALANCED, "a425d51e", turn="a348b9da", reason="resume"),
        "SessionStart.clear": row("session_start", ALL, "92b82c8b", source="clear"),
        "SessionStart.compact": row("session_start", ALL, "61f829df", turn="ffe720d8", source="compact"),
        "SessionStart.fork": row("session_start", ALL, "d96f9ed5", source="fork", prompt_id=""),
        "SessionStart.resume": row("session_start", ALL, "d2379543", source="resume"),
        "SessionStart.startup": row(
            "session_start", ALL, "d2379543", source="startup", prompt_id="",
            env_file="/home/dev/.claude/session-env/d2379543-0932-4cb0-b204-81c56b90e1a9/sessionstart-hook-0.sh",
        ),
        "Stop.background-running": row("turn_end", BALANCED, "61f829df", turn="bdae7975"),
        "Stop.plain": row("turn_end", BALANCED, "d2379543", turn="53dc5f70", env_file="", budget=20.0),
        "SubagentStart": row(
            "tool_batch", BALANCED, "61f829df", turn="bdae7975", subagent="a00838870c112be89", subagent_type="general-purpose", begins_subagent=True,
        ),
        "SubagentStop.compaction": row("", NONE, "61f829df", turn="ffe720d8", subagent="a3189b2ad33218fbe", ends_subagent=False),
        "SubagentStop.general-purpose": row(
            "turn_end", BALANCED, "61f829df", turn="bdae7975", subagent="a00838870c112be89", subagent_type="general-purpose", ends_subagent=True,
            subagent_transcript="/home/dev/.claude/projects/-home-dev-proj/61f829df-5402-4404-ae45-a225b8a62228/subagents/agent-a00838870c112be89.jsonl",
        ),
        "UserPromptExpansion": row("", NONE, "90b76746", turn="bbe2e008", prompt="/casrewind list 2", command=None),
        "UserPromptSubmit.prompt": row(
            "prompt", ALL, "d2379543", turn="53dc5f70", prompt="please create alpha", command=None, root="/home/dev/proj", pid=1066,
            budget=5.0, source="",
        ),
        "UserPromptSubmit.queued-mid-turn": row(
            "prompt", ALL, "bc48497a", turn="36487245", prompt="queued prompt while busy", command=None,
        ),
        "UserPromptSubmit.slash-command": row("", NONE, "90b76746", turn="bbe2e008", prompt="/casrewind list 2", command="list 2"),
        "UserPromptSubmit.task-notification": row(
            "turn_end", BALANCED, "61f829df", prompt_id="", source="task_notification", command=None,
        ),
    },
    "droid": {
        "PostToolUse.Create": row("tool_batch", TOOLS, "01a8a6ae", tools=("Create",), tool_use_id=""),
        "PostToolUse.Edit": row("tool_batch", TOOLS, "61b40f73", tools=("Edit",)),
        "PostToolUse.Execute": row("tool_batch", TOOLS, "01a8a6ae", tools=("Execute",)),
        "PostToolUse.Read": row("tool_batch", NONE, "61b40f73", tools=("Read",)),
        "PreToolUse.Create": row("tool_batch", TOOLS, "01a8a6ae", tools=("Create",)),
        "PreToolUse.Edit": row("tool_batch", TOOLS, "61b40f73", tools=("Edit",)),
        "PreToolUse.Execute": row("tool_batch", TOOLS, "01a8a6ae", tools=("Execute",)),
        "PreToolUse.Read": row("tool_batch", NONE, "61b40f73", tools=("Read",)),
        "SessionEnd.other": row("session_end", BALANCED, "01a8a6ae", reason="other"),
        "SessionStart.resume": row("session_start", ALL, "61b40f73", source="resume", parent="01a8a6ae-f238-42b2-856e-a882785ea91b"),
        "SessionStart.startup": row(
            "session_start", ALL, "01a8a6ae", source="startup", parent="",
            env_file="/home/dev/.factory/temp/env/droid-env-01a8a6ae-f238-42b2-856e-a882785ea91b-677b07a6-0d03-4e98-8df3-9123f7004966.sh",
        ),
        "Stop": row("turn_end", BALANCED, "01a8a6ae", message_id="b80f177a-8693-41f6-a959-113acabd56dd"),
        "UserPromptSubmit": row(
            "prompt", ALL, "b6bde4c6", prompt="please create alpha", message_id="6bedc668-6730-4afd-bf78-207659d4b259", prompt_id="",
            root="/home/dev/proj", pid=0,
        ),
    },
    "pi": {
        "Command": row(
            "", NONE, "01a204ad-6ebe", prompt="/casrewind list -n 3", message_id="c65c1da5", command="list -n 3",
            parent="01a204ad-65e5-77e9-a646-e49f31114c65",
        ),
        "PostToolBatch": row("tool_batch", TOOLS, "01a204ad-65e5", turn="6f5a73bc", tools=("bash", "write"), message_id="83129765"),
        "PreCompact": row(
            "compact", BALANCED, "01a204ad-6ebe", turn="b2f7af59", source="manual", message_id="7f4c3cf4",
            parent="01a204ad-65e5-77e9-a646-e49f31114c65",
        ),
        "PreToolUse.bash": row(
            "tool_batch", TOOLS, "01a204ad-65e5", turn="6f5a73bc", tools=("bash",), message_id="0e2ffb2c", before_tool=True,
        ),
        "PreToolUse.write": row(
            "tool_batch", TOOLS, "01a204ad-65e5", turn="6f5a73bc", tools=("write",), message_id="0e2ffb2c", before_tool=True,
        ),
        "SessionEnd.fork": row("session_end", BALANCED, "01a204ad-65e5", reason="fork", message_id="562acb5e"),
        "SessionEnd.quit": row(
            "session_end", BALANCED, "01a204ad-6ebe", reason="quit", message_id="c65c1da5",
            parent="01a204ad-65e5-77e9-a646-e49f31114c65",
        ),
        "SessionStart.fork": row(
            "session_start", ALL, "01a204ad-6ebe", source="fork", message_id="0dd387ba", parent="01a204ad-65e5-77e9-a646-e49f31114c65",
        ),
        "SessionStart.startup": row("session_start", ALL, "01a204ad-65e5", source="startup", message_id="fe67853b"),
        "Stop": row("turn_end", BALANCED, "01a204ad-65e5", turn="ea0aa9dd", message_id="0dd387ba"),
        "UserPromptSubmit.in-a-fork": row(
            "prompt", ALL, "01a204ad-6ebe", turn="61c75dab", prompt="in the fork", message_id="61c75dab",
            parent="01a204ad-65e5-77e9-a646-e49f31114c65",
        ),
        "UserPromptSubmit": row("prompt", ALL, "01a204ad-65e5", turn="ea0aa9dd", prompt="one", message_id="ea0aa9dd"),
    },
    "codex": {
        "PostToolUse.Bash": row("tool_batch", TOOLS, "01a1fb49-573f", turn="01a1fb49-5756", tools=("Bash",), tool_use_id="call_1_0"),
        "PostToolUse.apply_patch": row("tool_batch", TOOLS, "01a1fb49-573f", turn="01a1fb49-6353", tools=("apply_patch",)),
        "PreToolUse.Bash": row("tool_batch", TOOLS, "01a1fb49-573f", turn="01a1fb49-5756", tools=("Bash",), before_tool=True),
        "PreToolUse.apply_patch": row("tool_batch", TOOLS, "01a1fb49-573f", turn="01a1fb49-6353", tools=("apply_patch",)),
        "PreToolUse.subagent-apply_patch": row(
            "tool_batch", TOOLS, "01a22b35-e244", tools=("apply_patch",), subagent="01a22b35-e3ff-7a91-accc-801f6c72be58", prompt_id="", transcript="",
        ),
        "SessionEnd.other": row("session_end", BALANCED, "01a1fb49-573f", reason="other", prompt_id="", budget=1.0),
        "SessionStart.resume": row("session_start", ALL, "01a1fb49-573f", source="resume"),
        "SessionStart.startup": row("session_start", ALL, "01a1fb49-573f", source="startup", prompt_id=""),
        "Stop": row("turn_end", BALANCED, "01a1fb49-573f", turn="01a1fb49-5756"),
        "SubagentStart": row(
            "tool_batch", BALANCED, "01a22b35-e244", subagent="01a22b35-e3ff-7a91-accc-801f6c72be58", subagent_type="default", begins_subagent=True,
            prompt_id="", transcript="",
        ),
        "SubagentStop": row(
            "turn_end", BALANCED, "01a22b35-e244", subagent="01a22b35-e3ff-7a91-accc-801f6c72be58", subagent_type="default", ends_subagent=True,
            prompt_id="", subagent_transcript=f"{CODEX_DAY}/rollout-2026-11-30T06-48-01-01a22b35-e3ff-7a91-accc-801f6c72be58.jsonl",
        ),
        "UserPromptSubmit": row("prompt", ALL, "01a1fb49-573f", turn="01a1fb49-5756", prompt="TURN1 please create a.txt", budget=5.0),
    },
    "gemini": {
        "AfterAgent": row("turn_end", BALANCED, "7152325f", prompt_id=""),
        "AfterTool.replace": row("tool_batch", TOOLS, "7152325f", tools=("replace",)),
        "AfterTool.run_shell_command": row("tool_batch", TOOLS, "7152325f", tools=("run_shell_command",)),
        "AfterTool.write_file": row("tool_batch", TOOLS, "7152325f", tools=("write_file",), before_tool=False),
        "BeforeAgent": row("prompt", ALL, "7152325f", prompt="TURN1 please create a.txt", root="/home/dev/proj", budget=4.0),
        "BeforeTool.replace": row("tool_batch", TOOLS, "7152325f", tools=("replace",), before_tool=True),
        "BeforeTool.run_shell_command": row("tool_batch", TOOLS, "7152325f", tools=("run_shell_command",)),
        "BeforeTool.write_file": row("tool_batch", TOOLS, "7152325f", tools=("write_file",)),
        "PreCompress.auto": row("", NONE, "7152325f", source="auto"),
        "SessionEnd.exit": row("session_end", BALANCED, "7152325f", reason="exit"),
        "SessionStart.resume": row("session_start", ALL, "7152325f", source="resume"),
        "SessionStart.startup": row("session_start", ALL, "7152325f", source="startup"),
    },
    "copilot": {
        "agentStop": row("turn_end", BALANCED, "cbd68959"),
        "pascal.SessionEnd": row("", NONE, "08496f2b", reason="complete"),
        "pascal.SessionStart.new": row("", NONE, "08496f2b", source="new"),
        "pascal.Stop": row("", NONE, "08496f2b"),
        "pascal.UserPromptSubmit": row("", NONE, "08496f2b", prompt="TURN1 please"),
        "postToolUse.bash": row("tool_batch", TOOLS, "cbd68959", tools=("bash",)),
        "postToolUse.create": row("tool_batch", TOOLS, "cbd68959", tools=("create",)),
        "postToolUse.edit": row("tool_batch", TOOLS, "cbd68959", tools=("edit",)),
        "preToolUse.bash": row("tool_batch", TOOLS, "cbd68959", tools=("bash",), before_tool=True),
        "preToolUse.create": row("tool_batch", TOOLS, "cbd68959", tools=("create",), before_tool=True),
        "preToolUse.edit": row("tool_batch", TOOLS, "cbd68959", tools=("edit",), before_tool=True),
        "sessionEnd": row("session_end", BALANCED, "cbd68959", reason="complete"),
        "sessionStart.new": row("session_start", ALL, "cbd68959", source="new"),
        "sessionStart.resume": row("session_start", ALL, "cbd68959", source="resume"),
        "userPromptSubmitted": row("prompt", ALL, "cbd68959", prompt="TURN1 please create a.txt"),
    },
    "opencode": {
        "PostCompact": row("", NONE, "ses_e04a545baffe"),
        "PostToolUse": row("tool_batch", TOOLS, "ses_e04a545baffe", tools=("write",)),
        "PreCompact": row("compact", BALANCED, "ses_e04a545baffe"),
        "PreToolUse": row("tool_batch", TOOLS, "ses_e04a545baffe", tools=("write",), before_tool=True),
        "SessionStart": row("session_start", ALL, "ses_e04a545baffe"),
        "Stop": row("turn_end", BALANCED, "ses_e04a545baffe"),
        "UserPromptSubmit": row("prompt", ALL, "ses_e04a545baffe", prompt="TURN1 x", message_id="msg_1fb5abae1001r5NV41nzC5uj3i"),
    },
    "cursor": {
        "beforeSubmitPrompt": row("prompt", ALL, "8f1f0b7e", prompt="TURN1 please", turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
        "postToolUse": row("tool_batch", TOOLS, "8f1f0b7e", tools=("Write",), turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
        "preCompact": row("compact", BALANCED, "8f1f0b7e", source="auto", turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
        "preToolUse": row(
            "tool_batch", TOOLS, "8f1f0b7e", tools=("Shell",), before_tool=True, turn_id="1b2c3d4e-0000-4000-8000-000000000001",
        ),
        "sessionEnd": row("session_end", BALANCED, "8f1f0b7e", reason="completed", turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
        "sessionStart": row("session_start", ALL, "8f1f0b7e", turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
        "stop": row("turn_end", BALANCED, "8f1f0b7e", turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
        "subagentStop": row("turn_end", BALANCED, "8f1f0b7e", turn_id="1b2c3d4e-0000-4000-8000-000000000001"),
    },
}  # fmt: skip

BORROWED = {
    "PostToolBatch": ("", NONE),
    "PostToolUse.Agent": ("tool_batch", TOOLS),
    "PostToolUse.Bash": ("tool_batch", TOOLS),
    "PostToolUse.Edit": ("tool_batch", TOOLS),
    "PostToolUse.Read": ("tool_batch", NONE),
    "PostToolUse.Write": ("tool_batch", TOOLS),
    "PostToolUse.subagent-Write": ("tool_batch", TOOLS),
    "SubagentStart": ("", NONE),
}
"""Qwen Code and other clients with Claude Code's hooks have no recordings. They read those of Claude Code, with these
differences: there is one hook after each tool. No id of theirs names a turn."""
for borrower in ("qwen", "generic"):
    EXPECTED[borrower] = {
        name: row(*BORROWED.get(name, (kind, tiers)), session, "", prompt)
        for name, (kind, tiers, session, _, prompt, _) in EXPECTED["claude"].items()
    }

UNSEEN = {"droid": {"compact"}, "codex": {"compact"}, "copilot": {"compact"}, "opencode": {"session_end"}}
"""Kinds that a client tells of, and that were not recorded."""
CASES = [(agent, name) for agent, table in EXPECTED.items() for name in table]


def folder_of(agent):
    return DATA / f"{'claude' if agent in ('qwen', 'generic') else agent}_hooks"


def read(agent, name):
    """(what the client sent and its environment, the event)."""
    whole = json.loads((folder_of(agent) / f"{name}.json").read_text())
    environ = {"HOME": "/home/dev", **whole.get("env", {})}
    given = agents.load_client(agent).event_argument(whole.get("event", ""))
    return whole["stdin"], environ, events.read_event(agents.load_client(agent), json.dumps(whole["stdin"]).encode(), environ, given)


def test_every_client_is_in_the_table():
    assert set(EXPECTED) == set(agents.NAMES)
    assert {path.name.removesuffix("_hooks") for path in DATA.glob("*_hooks")} == set(EXPECTED) - {"qwen", "generic"}


def test_cursor_s_payloads_are_told_apart_from_claude_s():
    for path in (DATA / "cursor_hooks").glob("*.json"):
        assert agents.find_sender("claude", json.dumps(json.loads(path.read_bytes())["stdin"]).encode()).name == "cursor"
    assert agents.find_sender("claude", b'{"hook_event_name":"Stop"}').name == "claude"


@pytest.mark.parametrize("agent", EXPECTED)
def test_every_recorded_payload_is_in_the_table(agent):
    assert {path.stem for path in folder_of(agent).glob("*.json")} == set(EXPECTED[agent])


@pytest.mark.parametrize("agent", EXPECTED)
def test_every_kind_that_a_client_tells_of_is_recorded(agent):
    told = {kind for kind, *_ in EXPECTED[agent].values() if kind}
    assert set(agents.load_client(agent).events.triggers.values()) - told == UNSEEN.get(agent, set())


@pytest.mark.parametrize(("agent", "name"), CASES)
def test_a_recorded_payload_is_what_the_table_says(agent, name):
    kind, tiers, session, turn, prompt, more = EXPECTED[agent][name]
    client = agents.load_client(agent)
    stdin, environ, event = read(agent, name)
    assert (event.agent, event.trigger, event.prompt) == (agent, kind, prompt) and kind in TRIGGERS | {""}
    assert tuple(tier for tier in events.TIERS if events.makes_checkpoint(client, event, tier)) == tiers
    assert event.name in name.split(".") and stdin.get("hook_event_name", event.name) == event.name
    assert event.session in stdin.values() and event.session.startswith(session)
    found = getattr(event, agents.turn_id_field(agent) or "turn_id") if agents.turn_id_field(agent) else ""
    assert (found.startswith(turn) and found in stdin.values()) if turn else found == ""
    assert {field: getattr(event, field) for field in more} == more
    assert not event.partial and event.odd == ()


@pytest.mark.parametrize(("agent", "name"), CASES)
def test_its_paths_are_those_that_the_client_sent(agent, name):
    client = agents.load_client(agent)
    stdin, environ, event = read(agent, name)
    sent = next((stdin[field] for field in client.events.fields["transcript"] if stdin.get(field)), "")
    if (derived := client.find_unreported_transcript(event.session, "/home/dev", {})):
        assert event.transcript.startswith("/home/dev/") and event.transcript.endswith(client.sessions.derived.format(session=event.session))
    else:
        is_subagents = agent == "codex" and "agent_id" in stdin and "agent_transcript_path" not in stdin
        assert event.transcript == ("" if is_subagents else sent), "that of a subagent is not the session's"
    assert event.cwd == stdin.get("cwd", "")
    named = next((environ[name] for name in client.events.root_variables if environ.get(name)), None)
    assert event.root == (named or next(iter(stdin.get("workspace_roots", ())), None))
    assert (event.pid > 0) is (agent in ("claude", "opencode"))
