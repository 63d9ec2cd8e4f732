"""More profiles: GitHub Copilot CLI, OpenCode, Cursor, Qwen Code, and one for any client with Claude Code's hooks."""

from .profiles import FIELDS, Hook, HookFile, Profile

_BUDGETS = {"session_start": 2.0, "prompt": 5.0, "tool_batch": 10.0, "session_end": 1.0}
_TIMEOUTS = {"session_start": 10, "tool_batch": 15, "session_end": 5}
_TIMEOUT = 30
_LOWEST = {"session_start": "minimal", "prompt": "minimal", "tool_batch": "aggressive"}


def _events(names: dict[str, str]) -> dict[str, tuple[str, str]]:
    """{event: (trigger, lowest tier)} of {event: trigger}."""
    return {event: (trigger, _LOWEST.get(trigger, "balanced")) for event, trigger in names.items()}


def _budgets(names: dict[str, str]) -> dict[str, float]:
    return {event: _BUDGETS[trigger] for event, trigger in names.items() if trigger in _BUDGETS}


def _hooks(names: dict[str, str], matchers: dict[str, str], unit: int = 1) -> dict[str, tuple[Hook, ...]]:
    """{tier: hooks} of {event: trigger}; `unit`: the client's units of time per second."""
    made = {
        event: Hook(event, matchers.get(event), _TIMEOUTS.get(trigger, _TIMEOUT) * unit) for event, trigger in names.items()
    }
    minimal = tuple(made[event] for event, trigger in names.items() if _LOWEST.get(trigger) == "minimal")
    balanced = (*minimal, *(made[event] for event, trigger in names.items() if trigger not in _LOWEST))
    aggressive = (*balanced, *(made[event] for event, trigger in names.items() if trigger == "tool_batch"))
    return {"minimal": minimal, "balanced": balanced, "aggressive": aggressive}


_CLAUDE = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    "SubagentStop": "turn_end",
    "PreCompact": "compact",
    "SessionEnd": "session_end",
    "PreToolUse": "tool_batch",
    "PostToolUse": "tool_batch",
}
_COPILOT = {
    "sessionStart": "session_start",
    "userPromptSubmitted": "prompt",
    "agentStop": "turn_end",
    "subagentStop": "turn_end",
    "preCompact": "compact",
    "sessionEnd": "session_end",
    "preToolUse": "tool_batch",
    "postToolUse": "tool_batch",
}
COPILOT: Profile = Profile(
    name="copilot",
    title="GitHub Copilot CLI",
    events=_events(_COPILOT),
    by_tool=frozenset({"preToolUse", "postToolUse"}),
    before_tool="preToolUse",
    harmless=frozenset({"view", "glob", "grep", "rg", "report_intent", "web_fetch", "list_bash", "ask_user"}),
    fields={**FIELDS, "name": ("hook_event_name",), "session": ("sessionId", "session_id"), "tool": ("toolName", "tool_name"),
            "transcript": ("transcriptPath", "transcript_path")},
    event_ids=("id",),
    root_variables=("COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    pid_variables=(),
    env_file_variables=(),
    budgets=_budgets(_COPILOT),
    resume="copilot --resume={session}",
    resume_inside="/resume {session}",
    title_prefix="[Fork] ",
    refusal={"decision": "block"},
    refusal_text="reason",
    home_variable="COPILOT_HOME",
    home_moved_by="",
    home=".copilot",
    sessions="session-state",
    companions=(),
    program="copilot",
    version=("--version",),
    files=(HookFile("hooks/casrewind.json", "hooks", flat=True, empty='{\n  "version": 1\n}\n'),),
    instead={},
    aside=(),
    off="disableAllHooks",
    plugins="",
    commands=None,
    hooks=_hooks(_COPILOT, {}),
    transcript="{session}/events.jsonl",
    derived=True,
    project_home=".github",
    by_argument=True,
)

OPENCODE: Profile = Profile(
    name="opencode",
    title="OpenCode",
    events=_events(_CLAUDE),
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"read", "glob", "grep", "list", "webfetch", "websearch", "codesearch", "todowrite", "todoread", "skill"}),
    fields=FIELDS,
    event_ids=("id",),
    root_variables=(),
    pid_variables=("OPENCODE_PID",),
    env_file_variables=(),
    budgets=_budgets(_CLAUDE),
    resume="opencode --session {session}",
    resume_inside="",
    title_prefix="[Fork] ",
    refusal={},  # it shows a plugin's refusal as an unexpected error
    refusal_text="",
    home_variable="OPENCODE_CONFIG_DIR",
    home_moved_by="",
    home=".config/opencode",
    sessions="opencode.db.sessions",
    companions=(),
    program="opencode",
    version=("--version",),
    files=(),
    instead={},
    aside=(),
    off="",
    plugins="",
    commands=None,
    hooks=_hooks(_CLAUDE, {}),
    sessions_home=".local/share/opencode",
    derived=True,
    project_home=".opencode",
    extension="plugins/casrewind.js",
)

_CURSOR = {
    "sessionStart": "session_start",
    "beforeSubmitPrompt": "prompt",
    "stop": "turn_end",
    "subagentStop": "turn_end",
    "preCompact": "compact",
    "sessionEnd": "session_end",
    "preToolUse": "tool_batch",
    "postToolUse": "tool_batch",
}
CURSOR: Profile = Profile(
    name="cursor",
    title="Cursor",
    events={**_events(_CLAUDE), **_events(_CURSOR)},  # it also calls the hooks in Claude Code's settings
    by_tool=frozenset({"preToolUse", "postToolUse", "PreToolUse", "PostToolUse"}),
    before_tool="preToolUse",
    harmless=frozenset({"Read", "Grep", "Glob", "LS", "WebSearch", "WebFetch"}),
    fields={**FIELDS, "session": ("conversation_id", "session_id"), "turn_id": ("generation_id",), "transcript": (),
            "cwd": ("cwd",), "roots": ("workspace_roots",)},
    event_ids=(),
    root_variables=("CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    pid_variables=(),
    env_file_variables=(),
    budgets={**_budgets(_CLAUDE), **_budgets(_CURSOR)},
    resume="",
    resume_inside="",
    title_prefix="",
    refusal={"continue": False},
    refusal_text="user_message",
    home_variable="",
    home_moved_by="",
    home=".cursor",
    sessions="projects",
    companions=(),
    program="cursor-agent",
    version=("--version",),
    files=(HookFile("hooks.json", "hooks", flat=True, empty='{\n  "version": 1\n}\n'),),
    instead={},
    aside=(),
    off="",
    plugins="",
    commands=None,
    hooks=_hooks(_CURSOR, {}),
    files_only=True,
)

_TOOLS = {"PreToolUse": "*", "PostToolUse": "*"}
GENERIC: Profile = Profile(
    name="generic",
    title="a client with Claude Code's hooks",
    events=_events(_CLAUDE),
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"Read", "ReadFile", "Grep", "Glob", "LS", "WebSearch", "WebFetch", "read_file", "glob", "grep_search"}),
    fields={**FIELDS, "transcript": ()},
    event_ids=(),
    root_variables=("CLAUDE_PROJECT_DIR",),
    pid_variables=(),
    env_file_variables=(),
    budgets=_budgets(_CLAUDE),
    resume="",
    resume_inside="",
    title_prefix="",
    refusal={"decision": "block"},
    refusal_text="reason",
    home_variable="",
    home_moved_by="",
    home="",
    sessions="",
    companions=(),
    program="",
    version=(),
    files=(),
    instead={},
    aside=(),
    off="",
    plugins="",
    commands=None,
    hooks=_hooks(_CLAUDE, _TOOLS),
    files_only=True,
    shown=True,
)
QWEN: Profile = GENERIC._replace(
    name="qwen",
    title="Qwen Code",
    root_variables=("QWEN_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    home=".qwen",
    program="qwen",
    version=("--version",),
    files=(HookFile("settings.json", "hooks"),),
    aside=(HookFile("settings.local.json", "hooks"),),
    off="disableAllHooks",
    hooks=_hooks(_CLAUDE, _TOOLS, unit=1000),
    shown=False,
)
