"""Further agents as data. A hook reads this module only for an agent that `profiles` does not have."""

from .profiles import FIELDS, PROFILES, Hook, HookFile, Profile

_CODEX_MINIMAL = (Hook("SessionStart", None, 10), Hook("UserPromptSubmit", None, 30))
_CODEX_BALANCED = (
    *_CODEX_MINIMAL,
    Hook("Stop", None, 30),
    Hook("Interrupt", None, 3),
    Hook("SubagentStop", None, 30),
    Hook("PreCompact", None, 30),
    Hook("SessionEnd", None, 3),  # Codex lowers more than 3 s, here and at Interrupt, and says so
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
)

ALL = {**PROFILES, **{profile.name: profile for profile in (CODEX, GEMINI)}}
"""Every known agent."""
