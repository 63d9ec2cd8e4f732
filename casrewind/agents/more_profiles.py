"""Further agents as data. A hook reads this module only for an agent that `profiles` does not have."""

from .profiles import EVENTS, FIELDS, PROFILES, HookFile, Profile, budgets_of, events_of, hooks_of

_CODEX = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    "Interrupt": "turn_end",
    "SubagentStop": "turn_end",
    "PreCompact": "compact",
    "SessionEnd": "session_end",
    "PreToolUse": "tool_batch",
    "PostToolUse": "tool_batch",
}
CODEX = Profile(
    name="codex",
    title="Codex",
    events=events_of(_CODEX),
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"update_plan", "view_image", "web_search", "request_user_input"}),
    fields={**FIELDS, "prompt_id": ("turn_id", "turnId")},  # a turn has one prompt, and those typed while it ran
    budgets={**budgets_of(_CODEX), "Interrupt": 2.0},
    home=".codex",
    program="codex",
    hooks=hooks_of(_CODEX, timeouts={"Interrupt": 3, "SessionEnd": 3}),  # Codex lowers more than 3 s with a warning
    resume="codex resume {session}",
    home_variable="CODEX_HOME",
    sessions="sessions",
    files=(HookFile("hooks.json", "hooks"),),
    transcript_name=r"rollout-[0-9T-]{{19}}-{session}(_[0-9a-f-]+)?\.jsonl",
    reasons=(("Interrupt", "interrupt"),),
    in_place="Codex keeps a copy of each session's turns, which would still show what was cut",
    advice=("Codex asks before it runs new hooks: start codex and choose to trust them (later: /hooks); until then it runs none",),
    header=("payload", "id"),
)

# Its event PreCompress comes before every request to the model, not only before a compaction. So it is not used.
_GEMINI = {
    "SessionStart": "session_start",
    "BeforeAgent": "prompt",
    "AfterAgent": "turn_end",
    "SessionEnd": "session_end",
    "BeforeTool": "tool_batch",
    "AfterTool": "tool_batch",
}
GEMINI = Profile(
    name="gemini",
    title="Gemini CLI",
    events=events_of(_GEMINI),
    by_tool=frozenset({"BeforeTool", "AfterTool"}),
    before_tool="BeforeTool",
    harmless=frozenset(
        {"read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search", "google_web_search"}
        | {"web_fetch", "write_todos", "ask_user", "enter_plan_mode", "exit_plan_mode"}
    ),
    fields=FIELDS,
    # a prompt has no id: its checkpoint is recognised by its time, so the hook must end within prompts.NEAR_NS
    budgets={**budgets_of(_GEMINI), "BeforeAgent": 4.0},
    home=".gemini",
    program="gemini",
    hooks=hooks_of(_GEMINI, {"BeforeTool": "*", "AfterTool": "*"}),
    event_ids=("id",),
    root_variables=("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    resume="gemini --resume {session}",
    home_moved_by="GEMINI_CLI_HOME",
    sessions="tmp",
    files=(HookFile("settings.json", "hooks", comments=True),),
    transcript_name=r"session-[0-9T-]{{16}}-{short}\.jsonl",
    timeout_unit=1000,
    on_key=("hooksConfig", "enabled"),
    header=("sessionId",),
)

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
    events=events_of(_COPILOT),
    by_tool=frozenset({"preToolUse", "postToolUse"}),
    before_tool="preToolUse",
    harmless=frozenset({"view", "glob", "grep", "rg", "report_intent", "web_fetch", "list_bash", "ask_user"}),
    fields={**FIELDS, "name": ("hook_event_name",), "session": ("sessionId", "session_id"), "tool": ("toolName", "tool_name"),
            "transcript": ("transcriptPath", "transcript_path")},
    budgets=budgets_of(_COPILOT),
    home=".copilot",
    program="copilot",
    hooks=hooks_of(_COPILOT),
    event_ids=("id",),
    root_variables=("COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    resume="copilot --resume={session}",
    resume_inside="/resume {session}",
    home_variable="COPILOT_HOME",
    sessions="session-state",
    files=(HookFile("hooks/casrewind.json", "hooks", flat=True, empty='{\n  "version": 1\n}\n'),),
    off="disableAllHooks",
    transcript_name=r"{session}/events\.jsonl",
    derived="{session}/events.jsonl",
    project_home=".github",
    by_argument=True,
    header=("data", "sessionId"),
    format_version=1,
    format_path=("data", "version"),
)

_CLAUDE = {**EVENTS, "PostToolUse": "tool_batch"}
OPENCODE = Profile(
    name="opencode",
    title="OpenCode",
    events=events_of(_CLAUDE),
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"read", "glob", "grep", "list", "webfetch", "websearch", "codesearch", "todowrite", "todoread", "skill"}),
    fields=FIELDS,
    budgets=budgets_of(_CLAUDE),
    home=".config/opencode",
    program="opencode",
    hooks=hooks_of(_CLAUDE),
    event_ids=("id",),
    pid_variables=("OPENCODE_PID",),
    resume="opencode --session {session}",
    refusal={},  # it shows a plugin's refusal as an unexpected error
    refusal_text="",
    home_variable="OPENCODE_CONFIG_DIR",
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
    events=events_of({**_CLAUDE, **_CURSOR}),  # it also calls the hooks in Claude Code's settings
    by_tool=frozenset({"preToolUse", "postToolUse", "PreToolUse", "PostToolUse"}),
    before_tool="preToolUse",
    harmless=frozenset({"Read", "Grep", "Glob", "LS", "WebSearch", "WebFetch"}),
    fields={**FIELDS, "session": ("conversation_id", "session_id"), "turn_id": ("generation_id",), "transcript": (),
            "cwd": ("cwd",), "roots": ("workspace_roots",)},
    budgets=budgets_of({**_CLAUDE, **_CURSOR}),
    home=".cursor",
    program="cursor-agent",
    hooks=hooks_of(_CURSOR),
    root_variables=("CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    refusal={"continue": False},
    refusal_text="user_message",
    sessions="projects",
    files=(HookFile("hooks.json", "hooks", flat=True, empty='{\n  "version": 1\n}\n'),),
    files_only=True,
)

GENERIC = Profile(
    name="generic",
    title="a client with Claude Code's hooks",
    events=events_of(_CLAUDE),
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"Read", "ReadFile", "Grep", "Glob", "LS", "WebSearch", "WebFetch", "read_file", "glob", "grep_search"}),
    fields={**FIELDS, "transcript": ()},
    budgets=budgets_of(_CLAUDE),
    home="",
    program="",
    hooks=hooks_of(_CLAUDE, {"PreToolUse": "*", "PostToolUse": "*"}),
    root_variables=("CLAUDE_PROJECT_DIR",),
    version=(),
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
    files=(HookFile("settings.json", "hooks", comments=True),),
    aside=(HookFile("settings.local.json", "hooks", comments=True),),
    off="disableAllHooks",
    timeout_unit=1000,
    shown=False,
)

ALL = {
    **PROFILES,
    **{profile.name: profile for profile in (CODEX, GEMINI, COPILOT, OPENCODE, CURSOR, QWEN, GENERIC)},
}
"""Every known agent."""
