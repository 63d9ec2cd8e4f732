"""Further agents as data. A hook reads this module only for an agent that `profiles` does not have."""

from .profiles import FIELDS, PROFILES, Hook, HookFile, Profile

_CODEX_MINIMAL = (Hook("SessionStart", None, 10), Hook("UserPromptSubmit", None, 30))
_CODEX_BALANCED = (
    *_CODEX_MINIMAL,
    Hook("Stop", None, 30),
    Hook("Interrupt", None, 3),
    Hook("SubagentStop", None, 30),
    Hook("PreCompact", None, 30),
    Hook("SessionEnd", None, 3),  # Codex lowers more than 3 s, here and at Interrupt, with a warning
)

CODEX = Profile(
    name="codex",
    title="Codex",
    events={
        "SessionStart": ("session_start", "minimal"),
        "UserPromptSubmit": ("prompt", "minimal"),
        "Stop": ("turn_end", "balanced"),
        "Interrupt": ("turn_end", "balanced"),
        "SubagentStop": ("turn_end", "balanced"),
        "PreCompact": ("compact", "balanced"),
        "SessionEnd": ("session_end", "balanced"),
        "PreToolUse": ("tool_batch", "aggressive"),
        "PostToolUse": ("tool_batch", "aggressive"),
    },
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"update_plan", "view_image", "web_search", "request_user_input"}),
    fields={**FIELDS, "prompt_id": ("turn_id", "turnId")},  # a turn has one prompt, and those typed while it ran
    event_ids=(),
    root_variables=(),
    pid_variables=(),
    env_file_variables=(),
    budgets={
        "SessionStart": 2.0, "UserPromptSubmit": 5.0, "PreToolUse": 10.0, "PostToolUse": 10.0, "Interrupt": 2.0, "SessionEnd": 1.0,
    },
    resume="codex resume {session}",
    resume_inside="",
    title_prefix="",
    refusal={"decision": "block"},
    refusal_text="reason",
    home_variable="CODEX_HOME",
    home_moved_by="",
    home=".codex",
    sessions="sessions",
    companions=(),
    program="codex",
    version=("--version",),
    files=(HookFile("hooks.json", "hooks"),),
    instead={},
    aside=(),
    off="",
    plugins="",
    commands=None,
    hooks={
        "minimal": _CODEX_MINIMAL,
        "balanced": _CODEX_BALANCED,
        "aggressive": (*_CODEX_BALANCED, Hook("PreToolUse", None, 15), Hook("PostToolUse", None, 15)),
    },
    transcript_name=r"rollout-[0-9T-]{{19}}-{session}(_[0-9a-f-]+)?\.jsonl",
    reasons=(("Interrupt", "interrupt"),),
    in_place="Codex keeps a copy of each session's turns, which would still show what was cut",
    advice=("Codex asks before it runs new hooks: start codex and choose to trust them (later: /hooks); until then it runs none",),
    header=("payload", "id"),
)

# Its event PreCompress comes before every request to the model, not only before a compaction. So it is not used.
_GEMINI_MINIMAL = (Hook("SessionStart", None, 10), Hook("BeforeAgent", None, 30))
_GEMINI_BALANCED = (*_GEMINI_MINIMAL, Hook("AfterAgent", None, 30), Hook("SessionEnd", None, 5))

GEMINI = Profile(
    name="gemini",
    title="Gemini CLI",
    events={
        "SessionStart": ("session_start", "minimal"),
        "BeforeAgent": ("prompt", "minimal"),
        "AfterAgent": ("turn_end", "balanced"),
        "SessionEnd": ("session_end", "balanced"),
        "BeforeTool": ("tool_batch", "aggressive"),
        "AfterTool": ("tool_batch", "aggressive"),
    },
    by_tool=frozenset({"BeforeTool", "AfterTool"}),
    before_tool="BeforeTool",
    harmless=frozenset(
        {"read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search", "google_web_search"}
        | {"web_fetch", "write_todos", "ask_user", "enter_plan_mode", "exit_plan_mode"}
    ),
    fields=FIELDS,
    event_ids=("id",),
    root_variables=("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    pid_variables=(),
    env_file_variables=(),
    # a prompt has no id: its checkpoint is recognised by its time, so the hook must end within prompts.NEAR_NS
    budgets={"SessionStart": 2.0, "BeforeAgent": 4.0, "BeforeTool": 10.0, "AfterTool": 10.0, "SessionEnd": 1.0},
    resume="gemini --resume {session}",
    resume_inside="",
    title_prefix="",
    refusal={"decision": "block"},
    refusal_text="reason",
    home_variable="",
    home_moved_by="GEMINI_CLI_HOME",
    home=".gemini",
    sessions="tmp",
    companions=(),
    program="gemini",
    version=("--version",),
    files=(HookFile("settings.json", "hooks"),),
    instead={},
    aside=(),
    off="",
    plugins="",
    commands=None,
    hooks={
        "minimal": _GEMINI_MINIMAL,
        "balanced": _GEMINI_BALANCED,
        "aggressive": (*_GEMINI_BALANCED, Hook("BeforeTool", "*", 15), Hook("AfterTool", "*", 15)),
    },
    transcript_name=r"session-[0-9T-]{{16}}-{short}\.jsonl",
    timeout_unit=1000,
    on_key=("hooksConfig", "enabled"),
    header=("sessionId",),
)

_BUDGETS = {"session_start": 2.0, "prompt": 5.0, "tool_batch": 10.0, "session_end": 1.0}
_TIMEOUTS = {"session_start": 10, "tool_batch": 15, "session_end": 5}
_TIMEOUT = 30
_LOWEST = {"session_start": "minimal", "prompt": "minimal", "tool_batch": "aggressive"}


def _events(names: dict[str, str]) -> dict[str, tuple[str, str]]:
    """{event: (trigger, lowest tier)} of {event: trigger}."""
    return {event: (trigger, _LOWEST.get(trigger, "balanced")) for event, trigger in names.items()}


def _budgets(names: dict[str, str]) -> dict[str, float]:
    return {event: _BUDGETS[trigger] for event, trigger in names.items() if trigger in _BUDGETS}


def _hooks(names: dict[str, str], matchers: dict[str, str]) -> dict[str, tuple[Hook, ...]]:
    """{tier: hooks} of {event: trigger}."""
    made = {event: Hook(event, matchers.get(event), _TIMEOUTS.get(trigger, _TIMEOUT)) for event, trigger in names.items()}
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
COPILOT = Profile(
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
    transcript_name=r"{session}/events\.jsonl",
    derived="{session}/events.jsonl",
    project_home=".github",
    by_argument=True,
    header=("data", "sessionId"),
    format_version=1,
    format_path=("data", "version"),
)

OPENCODE = Profile(
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
    sessions="",
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
    transcript_name=r"opencode\.db\.sessions/{session}\.jsonl",
    derived="opencode.db.sessions/{session}.jsonl",
    project_home=".opencode",
    extension="plugins/casrewind.js",
    in_place="OpenCode keeps its sessions in a database, and only it writes there",
    header=("id",),
    format_version=1,  # it names its own version
    format_path=("info", "version"),
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
CURSOR = Profile(
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
GENERIC = Profile(
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
QWEN = GENERIC._replace(
    name="qwen",
    title="Qwen Code",
    root_variables=("QWEN_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    home=".qwen",
    program="qwen",
    version=("--version",),
    files=(HookFile("settings.json", "hooks"),),
    aside=(HookFile("settings.local.json", "hooks"),),
    off="disableAllHooks",
    timeout_unit=1000,
    shown=False,
)

ALL = {
    **PROFILES,
    **{profile.name: profile for profile in (CODEX, GEMINI, COPILOT, OPENCODE, CURSOR, QWEN, GENERIC)},
}
"""Every known agent."""
