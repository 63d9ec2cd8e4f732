"""The agents that there are, as data. A hook needs no more of an agent than this; its code is in the module of its name."""


from collections.abc import Mapping

from .._typing import NamedTuple

TIERS = ("minimal", "balanced", "aggressive")
"""How many checkpoints; each tier takes what the ones before it take, and more."""
USUAL_TIER = "balanced"
"""What is installed when nobody says otherwise."""


class Hook(NamedTuple):
    """One hook: the client's name of the event, the matcher (None: the event has none), the client's timeout in seconds."""

    event: str
    matcher: str | None
    timeout: int


class HookFile(NamedTuple):
    """A file of a client's that holds hooks: its path below the directory, and the key of the object with the events
    ("": the file is that object)."""

    name: str
    key: str


class Profile(NamedTuple):
    """What a client calls things, and where it keeps them.

    `events`: its event names to (trigger, the first tier that takes it). An event that is not named makes no checkpoint.
    `by_tool`: those of them that are about a single tool; taken only when that tool may change files. `before_tool`: the
    one of these that comes before it runs.
    `harmless`: the tools that are known not to change files. Every other one counts as changing them, and a shell
    command is never looked into: what it writes cannot be told from its text.
    `fields`: our name of a payload's field to the names that clients gave it, best first.
    `event_ids`: the fields of a transcript line that can be its id, best first.
    `root_variables`, `pid_variables`, `env_file_variables`: where the environment tells the project's root, the client's
    pid, the file whose exports the agent's shell reads.
    `budgets`: seconds that an event may take, pipe.BUDGET for the others.
    `resume`: the command that opens a session, `resume_inside`: what is typed in the client for it, "" where there is
    nothing; "{session}" stands for the id. The client's files are where the variable `home_variable` says, else in
    `home` below the user's home, or below the home that the variable `home_moved_by` names ("": there is no such
    variable); settings of a project are in `home` below its root. `sessions` is the directory among those files which has
    one directory per project.
    `refusal` is the answer with which a prompt hook keeps a prompt from the model, `refusal_text` the member of it that the
    person is shown.
    `companions`: the endings of other files of a session that lie beside its transcript and go with it into a fork.

    `program` is the client's own command, `version` the arguments with which it tells its version and ends.
    `files` hold hooks. For each event the client takes the first of them that says something of it; a file that is
    `instead` of another counts only where that is missing. Those `aside` count as well, in a project only; an installation
    puts nothing there. `off` is the key that switches all hooks off. `plugins` lists the installed plugins, "" = no such file.
    `commands` is the directory of the person's own commands, or None where the client can show none of ours.
    `hooks`: {tier: the hooks that an installation puts there}.

    A client without hooks in its settings loads an extension: `extension` is the file that an installation writes, below
    the client's directory ("": settings hold the hooks). `command_event` is the event that hands over a `/casrewind`
    command, "" where that comes as a prompt. `dated`: the name of a transcript has a date and "_" before the id.
    `project_home` is where settings of a project are below its root, "" = in `home`.
    `sessions_variable` names another directory of sessions ("": there is no such variable).
    """

    name: str
    title: str
    events: Mapping[str, tuple[str, str]]
    by_tool: frozenset[str]
    before_tool: str
    harmless: frozenset[str]
    fields: Mapping[str, tuple[str, ...]]
    event_ids: tuple[str, ...]
    root_variables: tuple[str, ...]
    pid_variables: tuple[str, ...]
    env_file_variables: tuple[str, ...]
    budgets: Mapping[str, float]
    resume: str
    resume_inside: str
    title_prefix: str
    refusal: Mapping[str, object]
    refusal_text: str
    home_variable: str
    home_moved_by: str
    home: str
    sessions: str
    companions: tuple[str, ...]
    program: str
    version: tuple[str, ...]
    files: tuple[HookFile, ...]
    instead: Mapping[str, str]
    aside: tuple[HookFile, ...]
    off: str
    plugins: str
    commands: str | None
    hooks: Mapping[str, tuple[Hook, ...]]
    extension: str = ""
    project_home: str = ""
    command_event: str = ""
    dated: bool = False
    sessions_variable: str = ""


FIELDS: Mapping[str, tuple[str, ...]] = {
    "name": ("hook_event_name", "hookEventName"),
    "session": ("session_id", "sessionId"),
    "parent": ("previous_session_id", "previousSessionId"),
    "transcript": ("transcript_path", "transcriptPath"),
    "cwd": ("cwd",),
    "prompt_id": ("prompt_id", "promptId"),
    "message_id": ("message_id", "messageId"),
    "turn_id": ("turn_id", "turnId"),
    "tool_use_id": ("tool_use_id", "toolUseId"),
    "prompt": ("prompt",),
    "tool": ("tool_name", "toolName"),
    "tools": ("tool_calls", "toolCalls"),
    "source": ("source", "trigger"),
    "reason": ("reason",),
    "subagent": ("agent_id", "agentId"),
    "subagent_type": ("agent_type", "agentType"),
    "env_file": ("CLAUDE_ENV_FILE",),
}
"""The names that the clients of Claude Code's family give to fields; profiles start from these."""


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
    files=(HookFile("settings.json", "hooks"),),
    instead={},
    aside=(HookFile("settings.local.json", "hooks"),),
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
    files=(HookFile("hooks.json", ""), HookFile("hooks/hooks.json", ""), HookFile("settings.json", "hooks")),
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

PI = Profile(
    name="pi",
    title="Pi",
    events={
        "SessionStart": ("session_start", "minimal"),
        "UserPromptSubmit": ("prompt", "minimal"),
        "Stop": ("turn_end", "balanced"),
        "SubagentStop": ("turn_end", "balanced"),
        "PreCompact": ("compact", "balanced"),
        "SessionEnd": ("session_end", "balanced"),
        "PreToolUse": ("tool_batch", "aggressive"),
        "PostToolBatch": ("tool_batch", "aggressive"),
    },
    by_tool=frozenset({"PreToolUse", "PostToolBatch"}),
    before_tool="PreToolUse",
    harmless=frozenset({"read", "grep", "find", "ls"}),
    fields={**FIELDS, "message_id": ("leaf_id",)},  # the entry of the session's tree that the conversation stood at
    event_ids=("id",),
    root_variables=(),
    pid_variables=(),
    env_file_variables=(),
    budgets={"SessionStart": 2.0, "UserPromptSubmit": 5.0, "PreToolUse": 10.0, "PostToolBatch": 10.0, "SessionEnd": 1.0},
    resume="pi --session {session}",
    resume_inside="",
    title_prefix="[Fork] ",
    refusal={"decision": "block"},
    refusal_text="reason",
    home_variable="PI_CODING_AGENT_DIR",
    home_moved_by="",
    home=".pi/agent",
    sessions="sessions",
    companions=(),
    program="pi",
    version=("--version",),
    files=(),
    instead={},
    aside=(),
    off="",
    plugins="",
    commands=None,
    hooks={
        "minimal": _MINIMAL,
        "balanced": _BALANCED,
        "aggressive": (*_BALANCED, _BEFORE_TOOL, Hook("PostToolBatch", None, 15)),
    },
    extension="extensions/casrewind.js",
    project_home=".pi",
    command_event="Command",
    dated=True,
    sessions_variable="PI_CODING_AGENT_SESSION_DIR",
)

PROFILES = {profile.name: profile for profile in (CLAUDE, DROID, PI)}
