"""Agents as data. This is all that hooks need of an agent; its code is in the module of the same name.

The danger prevented here: a hook loads the code of every client, and every prompt waits for it. So this module has
three agents, and `more_profiles` has the rest.
"""

import os
from collections.abc import Mapping

from .._typing import NamedTuple

TIERS = ("minimal", "balanced", "aggressive")
"""How often checkpoints are made. Each tier handles the events of the previous tier, and more."""
USUAL_TIER = "balanced"
"""The default tier of an installation."""


class Hook(NamedTuple):
    """One hook: the client's name of the event, the matcher (None = not supported), the client's timeout in seconds."""

    event: str
    matcher: str | None
    timeout: int


class HookFile(NamedTuple):
    """A client's file with hooks. `name`: its path below the settings directory. `key`: the key of the object with the
    events ("" = the file is that object). `flat`: an event's list has the hooks themselves instead of groups of hooks.
    `empty`: the text of a new file without hooks. `comments`: the client reads comments in it."""

    name: str
    key: str
    flat: bool = False
    empty: str = "{}\n"
    comments: bool = False


class Profile(NamedTuple):
    """A client's names, and the locations of its files.

    `events`: {event name: (trigger, lowest tier that handles it)}. Other events make no checkpoint.
    `by_tool`: events about a single tool, handled only if the tool may change files; `before_tool` precedes the tool's
    run.
    `harmless`: tools that never change files. A shell command is not harmless: its text does not show what it writes.
    `fields`: {our field name: the clients' names of it, the preferred first}.
    `event_ids`: the fields of a transcript line that can be its id, the preferred first.
    `root_variables`: environment variables with the project's root. `pid_variables`: those with the client's pid.
    `env_file_variables`: those with the file of exports for the agent's shell.
    `budgets`: {event: seconds that handling may take}; the default is event.BUDGET.
    `resume`: the command that opens a session; `resume_inside`: the text to type in the client, "" = not supported.
    "{session}" is replaced by the id.
    `home_variable`: the variable with the directory of the client's files. Without it, they are in `home` below the
    user's home, or below the directory in the variable `home_moved_by`. A project's settings are in `home` below its
    root.
    `sessions`: the subdirectory with one directory per project.
    `refusal`: a prompt hook's answer that withholds the prompt from the model; the user sees its member `refusal_text`.
    `companions`: suffixes of a session's other files, which are copied into a fork.
    `program`: the client's own command; `version`: the arguments that print its version.
    `files`: the files with hooks; for each event the client uses the first file that has it. `instead`: {file: another
    file}; the client reads the first file only if the other file is missing. `aside`: files that the client reads only
    in a project. An installation never writes them.
    `off`: the key that switches all hooks off. `plugins`: the list of installed plugins, "" = none.
    `commands`: the directory of the user's own commands, or None if the client cannot show ours.
    `hooks`: {tier: the hooks to install}.
    `extension`: the file that an installation writes below the directory of a client that loads extensions; "" =
    settings hold the hooks. `command_event`: the event that carries a `/casrewind` command; "" = it comes as a prompt.
    `project_home`: the directory of a project's settings below its root, "" = `home`.
    `sessions_variable`: the variable that names another directory of sessions, "" = none.
    `sessions_home`: the directory with `sessions`, below the user's home; "" = the client's directory.
    `transcript_name`: a pattern of the names of transcripts. "{session}" is replaced by the id, "{short}" by its start.
    `derived`: a transcript's path below the directory of sessions, for a client that may omit it; "" = it never does.
    `timeout_unit`: the number of the client's units in a second, for timeouts in its settings.
    `reasons`: (event, the reason that it implies) pairs. `on_key`: the keys that lead to a switch for hooks, () = none.
    `in_place`: "" or the reason why a session of this client is never rewritten. `advice`: the user's steps after an
    installation.
    `by_argument`: the payload lacks the event's name, so the hook's command line has it. `files_only`: conversations
    cannot be rewound. `shown`: an installation prints the settings and writes none.
    `notice`: the member of a hook's answer that the client shows to the person and not to the model, "" = none.
    `header`: the keys that lead to the session's id in a transcript's first line, () = that line has none.
    `format_version`: the newest known version of the transcript's format, 0 = it names none; `format_path`: the keys that
    lead to it in the first line.
    """

    name: str
    title: str
    events: Mapping[str, tuple[str, str]]
    by_tool: frozenset[str]
    before_tool: str
    harmless: frozenset[str]
    fields: Mapping[str, tuple[str, ...]]
    budgets: Mapping[str, float]
    home: str
    program: str
    hooks: Mapping[str, tuple[Hook, ...]]
    event_ids: tuple[str, ...] = ()
    root_variables: tuple[str, ...] = ()
    pid_variables: tuple[str, ...] = ()
    env_file_variables: tuple[str, ...] = ()
    resume: str = ""
    resume_inside: str = ""
    refusal: Mapping[str, object] = {"decision": "block"}
    refusal_text: str = "reason"
    home_variable: str = ""
    home_moved_by: str = ""
    sessions: str = ""
    companions: tuple[str, ...] = ()
    version: tuple[str, ...] = ("--version",)
    files: tuple[HookFile, ...] = ()
    instead: Mapping[str, str] = {}
    aside: tuple[HookFile, ...] = ()
    off: str = ""
    plugins: str = ""
    commands: str | None = None
    extension: str = ""
    project_home: str = ""
    command_event: str = ""
    sessions_variable: str = ""
    sessions_home: str = ""
    transcript_name: str = r"{session}\.jsonl"
    derived: str = ""
    timeout_unit: int = 1
    reasons: tuple[tuple[str, str], ...] = ()
    on_key: tuple[str, ...] = ()
    in_place: str = ""
    advice: tuple[str, ...] = ()
    by_argument: bool = False
    files_only: bool = False
    shown: bool = False
    notice: str = ""
    header: tuple[str, ...] = ()
    format_version: int = 0
    format_path: tuple[str, ...] = ()


_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def is_id(session: str) -> bool:
    """True if a text is a valid session id. It becomes part of a file name and of a shell command."""
    return 0 < len(session) <= 128 and _ID_CHARACTERS.issuperset(session) and not session.startswith("-")


def home_of(profile: Profile, home: str, environ: Mapping[str, str]) -> str:
    """The directory of a client's own files, for a user with the home directory `home`."""
    moved = environ.get(profile.home_variable) if profile.home_variable else None
    if moved:
        return os.path.abspath(moved)
    other = environ.get(profile.home_moved_by) if profile.home_moved_by else None
    return _in_home(os.path.abspath(other or home), profile.home, environ)


_BASES = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME"}
"""Directories below a home directory, and the variables that name another directory instead."""


def _in_home(home: str, place: str, environ: Mapping[str, str]) -> str:
    for base, variable in _BASES.items():
        moved = environ.get(variable, "")
        if place.startswith(base + "/") and os.path.isabs(moved):
            return os.path.join(moved, place[len(base) + 1 :])
    return os.path.join(home, place)


def sessions_of(profile: Profile, home: str, environ: Mapping[str, str]) -> str:
    """The directory of a client's sessions, for a user with the home directory `home`."""
    if profile.sessions_home:
        return os.path.join(_in_home(os.path.abspath(home), profile.sessions_home, environ), profile.sessions)
    return os.path.join(home_of(profile, home, environ), profile.sessions)


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
    "background": ("background_tasks", "backgroundTasks"),
}
"""Field names of clients in Claude Code's family; the profiles use them."""


_LOWEST = {"session_start": "minimal", "prompt": "minimal", "tool_batch": "aggressive"}
"""{trigger: the lowest tier that handles it}, where that is not "balanced"."""
_BUDGETS = {"session_start": 2.0, "prompt": 5.0, "tool_batch": 10.0, "session_end": 1.0}
# The timeouts are the client's last resort: a hook has a shorter time limit of its own.
# A prompt hook may need 20 s for `/casrewind restore`; after a timeout the client would send that prompt to the model.
_TIMEOUT = 30
_TIMEOUTS = {"session_start": 10, "tool_batch": 15, "session_end": 5}
"""Seconds. Claude Code ends a session after 1.5 s where no hook asks for more."""


def events_of(names: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """`Profile.events` of {event: trigger}."""
    return {event: (trigger, _LOWEST.get(trigger, "balanced")) for event, trigger in names.items()}


def budgets_of(names: Mapping[str, str]) -> dict[str, float]:
    """`Profile.budgets` of {event: trigger}, in seconds."""
    return {event: _BUDGETS[trigger] for event, trigger in names.items() if trigger in _BUDGETS}


def hooks_of(
    names: Mapping[str, str], matchers: Mapping[str, str] = {}, timeouts: Mapping[str, int] = {}
) -> dict[str, tuple[Hook, ...]]:
    """`Profile.hooks` of {event: trigger}, {event: matcher} and {event: seconds, where they are not the usual ones}."""
    made = {
        event: Hook(event, matchers.get(event), timeouts.get(event, _TIMEOUTS.get(trigger, _TIMEOUT)))
        for event, trigger in names.items()
    }
    minimal = tuple(made[event] for event, trigger in names.items() if _LOWEST.get(trigger) == "minimal")
    balanced = (*minimal, *(made[event] for event, trigger in names.items() if trigger not in _LOWEST))
    aggressive = (*balanced, *(made[event] for event, trigger in names.items() if trigger == "tool_batch"))
    return {"minimal": minimal, "balanced": balanced, "aggressive": aggressive}


EVENTS: Mapping[str, str] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    "SubagentStop": "turn_end",
    "PreCompact": "compact",
    "SessionEnd": "session_end",
    "PreToolUse": "tool_batch",
}
"""{event: trigger} of the events that all clients in Claude Code's family have."""

_CLAUDE = {**EVENTS, "PostToolBatch": "tool_batch"}
CLAUDE = Profile(
    name="claude",
    title="Claude Code",
    events=events_of({**_CLAUDE, "StopFailure": "turn_end"}),
    by_tool=frozenset({"PreToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset(
        {"Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch", "TodoRead", "TodoWrite"}
        | {"TaskList", "TaskGet", "TaskOutput", "BashOutput", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}
    ),
    fields=FIELDS,
    budgets=budgets_of(_CLAUDE),
    home=".claude",
    program="claude",
    hooks=hooks_of(_CLAUDE, {"PreToolUse": "*"}),
    event_ids=("uuid",),
    root_variables=("CLAUDE_PROJECT_DIR",),
    pid_variables=("CLAUDE_PID",),
    env_file_variables=("CLAUDE_ENV_FILE",),
    resume="claude --resume {session}",
    resume_inside="/resume {session}",
    home_variable="CLAUDE_CONFIG_DIR",
    sessions="projects",
    files=(HookFile("settings.json", "hooks"),),
    aside=(HookFile("settings.local.json", "hooks"),),
    off="disableAllHooks",
    plugins="plugins/installed_plugins.json",
    commands="commands",
    notice="systemMessage",
)

_DROID = {**EVENTS, "PostToolUse": "tool_batch"}  # it has no event for a whole batch
DROID = Profile(
    name="droid",
    title="Factory Droid",
    events=events_of(_DROID),
    by_tool=frozenset({"PreToolUse", "PostToolUse"}),
    before_tool="PreToolUse",
    harmless=frozenset({"Read", "LS", "Grep", "Glob", "WebSearch", "FetchUrl", "TodoWrite", "AskUser", "ExitSpecMode"}),
    fields=FIELDS,
    budgets=budgets_of(_DROID),
    home=".factory",
    program="droid",
    hooks=hooks_of(_DROID, {"PreToolUse": "*", "PostToolUse": "*"}),
    event_ids=("id",),
    root_variables=("FACTORY_PROJECT_DIR", "DROID_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    env_file_variables=("CLAUDE_ENV_FILE",),
    resume="droid --resume {session}",
    refusal={"continue": False},  # Droid ignores a decision
    refusal_text="stopReason",
    home_moved_by="FACTORY_HOME_OVERRIDE",
    sessions="sessions",
    companions=(".settings.json",),
    files=(HookFile("hooks.json", ""), HookFile("hooks/hooks.json", ""), HookFile("settings.json", "hooks")),
    instead={"hooks/hooks.json": "hooks.json"},
    off="hooksDisabled",
    header=("id",),
    format_version=2,
    format_path=("version",),
)

PI = Profile(
    name="pi",
    title="Pi",
    events=events_of(_CLAUDE),
    by_tool=frozenset({"PreToolUse", "PostToolBatch"}),
    before_tool="PreToolUse",
    harmless=frozenset({"read", "grep", "find", "ls"}),
    fields={**FIELDS, "message_id": ("leaf_id",)},  # the entry of the session's tree that the conversation stood at
    budgets=budgets_of(_CLAUDE),
    home=".pi/agent",
    program="pi",
    hooks=CLAUDE.hooks,
    event_ids=("id",),
    resume="pi --session {session}",
    home_variable="PI_CODING_AGENT_DIR",
    sessions="sessions",
    extension="extensions/casrewind.js",
    project_home=".pi",
    command_event="Command",
    transcript_name=r"(.*_)?{session}\.jsonl",
    sessions_variable="PI_CODING_AGENT_SESSION_DIR",
    header=("id",),
    format_version=3,
    format_path=("version",),
)

PROFILES = {profile.name: profile for profile in (CLAUDE, DROID, PI)}
"""The agents of this module; `more_profiles` has the rest."""
