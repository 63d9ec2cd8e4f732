"""Cursor. Only its files are saved and restored: its conversations are known to the client alone."""

from . import client

_TRIGGERS = {
    "sessionStart": "session_start",
    "beforeSubmitPrompt": "prompt",
    "stop": "turn_end",
    "subagentStop": "turn_end",
    "preCompact": "compact",
    "sessionEnd": "session_end",
    "preToolUse": "tool_batch",
    "postToolUse": "tool_batch",
}


class CursorClient(client.Client):
    """Cursor. It also calls the hooks in Claude Code's settings, with events of both names."""

    name = "cursor"
    title = "Cursor"
    program = "cursor-agent"
    events = client.ClientEvents(
        triggers={**client.EVENTS, "PostToolUse": "tool_batch", **_TRIGGERS},
        before_tool="preToolUse",
        by_tool=frozenset({"preToolUse", "postToolUse", "PreToolUse", "PostToolUse"}),
        harmless_tools=frozenset({"Read", "Grep", "Glob", "LS", "WebSearch", "WebFetch"}),
        fields={**client.FIELDS, "session": ("conversation_id", "session_id"), "turn_id": ("generation_id",), "transcript": (),
                "roots": ("workspace_roots",)},
        root_variables=("CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
        refusal={"continue": False, "user_message": ""},
    )
    places = client.ClientPlaces(home=".cursor")
    settings = client.ClientSettings(
        hooks=client.make_hooks(_TRIGGERS),
        files=(client.HookFile("hooks.json", "hooks", flat=True, empty='{\n  "version": 1\n}\n'),),
    )


CLIENT = CursorClient()
