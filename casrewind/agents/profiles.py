"""The agents that there are, as data. A hook needs no more of an agent than this; its code is in the module of its name."""

from .profile import FIELDS, File, Hook, Profile

# The timeouts are the client's last resort: a hook keeps a budget of its own below them and is never awaited that long.
# A prompt hook answers `/casrewind restore` after up to 20 s; a shorter timeout would send that prompt to the model.
_MINIMAL = (Hook("SessionStart", None, 10), Hook("UserPromptSubmit", None, 30))
_BALANCED = (
    *_MINIMAL,
    Hook("Stop", None, 30),
    Hook("SubagentStop", None, 30),
    Hook("PreCompact", None, 30),
    Hook("SessionEnd", None, 5),  # Claude Code ends a session after 1.5 s where no hook asks for more
)
_BEFORE_TOOL = Hook("PreToolUse", "*", 15)

CLAUDE = Profile(
    name="claude",
    title="Claude Code",
    events={
        "SessionStart": ("session_start", "minimal"),
        "UserPromptSubmit": ("prompt", "minimal"),
        "Stop": ("turn_end", "balanced"),
        "StopFailure": ("turn_end", "balanced"),
        "SubagentStop": ("turn_end", "balanced"),
        "PreCompact": ("compact", "balanced"),
        "SessionEnd": ("session_end", "balanced"),
        "PreToolUse": ("tool_batch", "aggressive"),
        "PostToolBatch": ("tool_batch", "aggressive"),
    },
    by_tool=frozenset({"PreToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset(
        {"Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch", "TodoRead", "TodoWrite"}
        | {"TaskList", "TaskGet", "TaskOutput", "BashOutput", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}
    ),
    fields=FIELDS,
    event_ids=("uuid",),
    root_variables=("CLAUDE_PROJECT_DIR",),
    pid_variables=("CLAUDE_PID",),
    env_file_variables=("CLAUDE_ENV_FILE",),
    budgets={"SessionStart": 2.0, "UserPromptSubmit": 5.0, "PreToolUse": 10.0, "PostToolBatch": 10.0, "SessionEnd": 1.0},
    resume="claude --resume {session}",
    resume_inside="/resume {session}",
    title_prefix="[Fork] ",
    refusal={"decision": "block"},
    refusal_text="reason",
    home_variable="CLAUDE_CONFIG_DIR",
    home_moved_by="",
    home=".claude",
    sessions="projects",
    companions=(),
    program="claude",
    version=("--version",),
    files=(File("settings.json", "hooks"),),
    instead={},
    aside=(File("settings.local.json", "hooks"),),
    off="disableAllHooks",
    plugins="plugins/installed_plugins.json",
    commands="commands",
    hooks={
        "minimal": _MINIMAL,
        "balanced": _BALANCED,
        "aggressive": (*_BALANCED, _BEFORE_TOOL, Hook("PostToolBatch", None, 15)),
    },
)

DROID = Profile(
    name="droid",
    title="Factory Droid",
    events={
        "SessionStart": ("session_start", "minimal"),
        "UserPromptSubmit": ("prompt", "minimal"),
        "Stop": ("turn_end", "balanced"),
        "SubagentStop": ("turn_end", "balanced"),
        "PreCompact": ("compact", "balanced"),
        "SessionEnd": ("session_end", "balanced"),
        "PreToolUse": ("tool_batch", "aggressive"),
        "PostToolUse": ("tool_batch", "aggressive"),  # it has no event for a whole batch
    },
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"Read", "LS", "Grep", "Glob", "WebSearch", "FetchUrl", "TodoWrite", "AskUser", "ExitSpecMode"}),
    fields=FIELDS,
    event_ids=("id",),
    root_variables=("FACTORY_PROJECT_DIR", "DROID_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    pid_variables=(),
    env_file_variables=("CLAUDE_ENV_FILE",),
    budgets={"SessionStart": 2.0, "UserPromptSubmit": 5.0, "PreToolUse": 10.0, "PostToolUse": 10.0, "SessionEnd": 1.0},
    resume="droid --resume {session}",
    resume_inside="",
    title_prefix="[Fork] ",
    refusal={"continue": False},  # a decision is not looked at
    refusal_text="stopReason",
    home_variable="",
    home_moved_by="FACTORY_HOME_OVERRIDE",
    home=".factory",
    sessions="sessions",
    companions=(".settings.json",),
    program="droid",
    version=("--version",),
    files=(File("hooks.json", ""), File("hooks/hooks.json", ""), File("settings.json", "hooks")),
    instead={"hooks/hooks.json": "hooks.json"},
    aside=(),
    off="hooksDisabled",
    plugins="",
    commands=None,
    hooks={
        "minimal": _MINIMAL,
        "balanced": _BALANCED,
        "aggressive": (*_BALANCED, _BEFORE_TOOL, Hook("PostToolUse", "*", 15)),
    },
)

PROFILES = {profile.name: profile for profile in (CLAUDE, DROID)}
