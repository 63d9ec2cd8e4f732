"""Any other client with Claude Code's hooks. Only its files are saved and restored."""

from . import client

_TRIGGERS = {**client.EVENTS, "PostToolUse": "tool_batch"}


class GenericClient(client.Client):
    """A client with Claude Code's hooks. Its settings are unknown."""

    name = "generic"
    title = "a client with Claude Code's hooks"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="PreToolUse",
        by_tool=frozenset({"PreToolUse", "PostToolUse"}),
        harmless_tools=frozenset(
            {"Read", "ReadFile", "Grep", "Glob", "LS", "WebSearch", "WebFetch", "read_file", "glob", "grep_search"}
        ),
        fields={**client.FIELDS, "transcript": ()},
        root_variables=("CLAUDE_PROJECT_DIR",),
    )
    places = client.ClientPlaces(home="")
    settings = client.ClientSettings(hooks=client.make_hooks(_TRIGGERS, {"PreToolUse": "*", "PostToolUse": "*"}))


CLIENT = GenericClient()
