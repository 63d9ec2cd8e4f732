"""What casrewind knows of a client: four records with its names and places, and methods for what it does in its own way.

The danger prevented here: a hook loads the code of every client, and every prompt waits for it. So each client is one
module, and a hook imports the module of its own client only. This module imports next to nothing.
"""

import os
from collections.abc import Mapping, Sequence

from .._typing import TYPE_CHECKING, NamedTuple
from .payload import BUDGET

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines
    from .hook_records import ClientAnswer, InstalledHook
    from .transcript import Prompt, ShellCalls, Value

TIERS = ("minimal", "balanced", "aggressive")
"""How often checkpoints are made. Each tier handles the events of the previous tier, and more."""
USUAL_TIER = "balanced"
"""The default tier of an installation."""
_LOWEST = {"": "minimal", "session_start": "minimal", "prompt": "minimal", "tool_batch": "aggressive"}
"""{trigger: the lowest tier that handles it}, where that is not "balanced"."""
_BUDGETS = {"session_start": 2.0, "prompt": 5.0, "tool_batch": 10.0, "session_end": 1.0}
"""{trigger: seconds that handling may take}, where that is not payload.BUDGET."""
# The timeouts are the client's last resort: a hook has a shorter time limit of its own.
# A prompt hook may need 20 s for `/casrewind restore`; after a timeout the client would send that prompt to the model.
_TIMEOUT = 30
_TIMEOUTS = {"session_start": 10, "tool_batch": 15, "session_end": 5}
"""Seconds. Claude Code ends a session after 1.5 s where no hook asks for more."""


class Hook(NamedTuple):
    """One hook that an installation writes."""

    event: str
    """The client's name of the event."""
    matcher: str | None
    """The tools that it is for; None = the client does not support that."""
    timeout: int
    """Seconds after which the client ends the hook."""


class HookFile(NamedTuple):
    """A client's file with hooks."""

    name: str
    """Its path below the settings directory."""
    key: str
    """The key of the object with the events; "" = the file is that object."""
    flat: bool = False
    """An event's list has the hooks themselves instead of groups of hooks."""
    empty: str = "{}\n"
    """The text of a new file without hooks."""
    comments: bool = False
    """The client reads comments in it."""


SUBAGENT_START, SUBAGENT_STOP = "SubagentStart", "SubagentStop"
"""The events that begin and end a subagent, where a client tells of them."""
EVENTS: Mapping[str, str] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    SUBAGENT_STOP: "turn_end",
    "PreCompact": "compact",
    "SessionEnd": "session_end",
    "PreToolUse": "tool_batch",
}
"""{event: trigger} of the events that all clients in Claude Code's family have."""
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
    "subagent_transcript": ("agent_transcript_path", "agentTranscriptPath"),
    "env_file": ("CLAUDE_ENV_FILE",),
    "background": ("background_tasks", "backgroundTasks"),
}
"""The names of fields in payloads of Claude Code's family."""


class ClientEvents(NamedTuple):
    """What a client's hooks report, and how a hook may answer."""

    triggers: Mapping[str, str]
    """{event: trigger}. Other events make no checkpoint."""
    before_tool: str
    """The event before a tool's run."""
    by_tool: frozenset[str]
    """Events about a single tool. They are handled only if the tool may change files."""
    harmless_tools: frozenset[str]
    """Tools that never change files. A shell command is not harmless: its text does not show what it writes."""
    fields: Mapping[str, tuple[str, ...]] = FIELDS
    """{our name of a field: the client's names of it, the preferred first}."""
    budgets: Mapping[str, float] = {}
    """{event: seconds that handling may take}, where that is not usual for its trigger."""
    turn_field: str = ""
    """The id of events that names a whole turn, from its prompt to its end, or "". An id that names a message
    must not be taken for it, or every end belongs to no prompt."""
    subagents_have_turns: bool = False
    """The events of a subagent name a turn of its own, and its own transcript unless they name that as a subagent's."""
    root_variables: tuple[str, ...] = ()
    """Environment variables with the project's root, the preferred first."""
    pid_variables: tuple[str, ...] = ()
    """Environment variables with the client's pid."""
    env_file_variables: tuple[str, ...] = ()
    """Environment variables with the file of exports for the agent's shell."""
    refusal: Mapping[str, object] = {"decision": "block", "reason": ""}
    """A prompt hook's answer that withholds the prompt from the model, or {}. Its member that is "" here holds the text for
    the user."""
    tells_model: bool = False
    """A prompt hook may answer with a text for the model."""


class ClientPlaces(NamedTuple):
    """Where a client keeps its settings."""

    home: str
    """The directory of its files, below the user's home."""
    home_variable: str = ""
    """The variable that names another directory of its files."""
    home_moved_by: str = ""
    """The variable that names another directory in which `home` is."""
    project_home: str = ""
    """The directory of a project's settings below its root, "" = `home`."""


class ClientSettings(NamedTuple):
    """What an installation writes into a client's settings. Without `files` and `extension` it prints the hooks."""

    hooks: tuple[Hook, ...]
    """The hooks of the last tier."""
    files: tuple[HookFile, ...] = ()
    """The files with hooks. For each event the client uses the first file that has it."""
    aside: tuple[HookFile, ...] = ()
    """Files with hooks that the client reads only in a project. An installation never writes them."""
    extension: str = ""
    """The file of ours that the client loads instead of hooks in its settings, below the directory of its files."""
    off_key: str = ""
    """The key that switches all hooks off, or ""."""
    timeout_unit: int = 1
    """The number of units in a second, for timeouts in the settings."""


class SessionFormat(NamedTuple):
    """Where a client keeps its sessions, and what their transcripts look like."""

    directory: str
    """The directory of the sessions, below the client's home."""
    resume: str
    """The command that opens a session. "{session}" is replaced by the id."""
    resume_inside: str = ""
    """The same as text to type in the client, "" = it has none. "{title}" is the session's title."""
    variable: str = ""
    """The variable that names another directory of sessions; "" = they move with the client's files."""
    by_project: bool = False
    """True if the directory has one directory for each project. Its name is made of the project's path."""
    name: str = r"{session}\.jsonl"
    """A pattern of the names of transcripts. "{session}" is replaced by the id, "{short}" by its start."""
    derived: str = ""
    """A transcript's path below the directory, for a client that may omit it in events; "" = it never does."""
    line_id: str = "id"
    """The field of a line that is its id, "" = lines have none."""
    header: tuple[str, ...] = ()
    """The keys that lead to the session's id in the first line, () = that line has none."""
    version: int = 0
    """The newest known version of the format, 0 = transcripts name none."""
    version_path: tuple[str, ...] = ()
    """The keys that lead to the version in the first line."""
    never_rewritten: str = ""
    """The reason why a session of this client is never rewritten, "" = it may be."""
    client_version: tuple[str, ...] = ()
    """The keys that lead to the client's own version in a line, () = no line names it."""
    shell: "ShellCalls | None" = None
    """Where a transcript has the lines of shell that the agent ran, None = unknown."""


class Client:
    """A client. A subclass has its data, and overrides the methods for what the client does in a way of its own."""

    name: str
    """The agent's name in commands and in the store. The client's module has this name."""
    title: str
    """The client's name for people."""
    program: str = ""
    """The client's own command."""
    events: ClientEvents
    places: ClientPlaces
    settings: ClientSettings

    # -- events

    def name_sender(self, payload: bytes) -> str:
        """The name of the client that sent a payload to a hook of this one: another client may call the same hooks."""
        return self.name

    def as_typed(self, prompt: str) -> str:
        """A prompt of an event or a transcript as the person typed it."""
        return prompt

    def lowest_tier_of(self, event: str) -> str:
        """The lowest tier that handles an event."""
        return USUAL_TIER if event == SUBAGENT_START else _LOWEST.get(self.events.triggers.get(event, ""), USUAL_TIER)

    def seconds_for(self, event: str) -> float:
        """The seconds that handling an event may take."""
        return self.events.budgets.get(event) or _BUDGETS.get(self.events.triggers.get(event, ""), BUDGET)

    def seconds_until_stopped(self, event: str) -> float:
        """The seconds after which the client stops a hook of an event."""
        return float(min((hook.timeout for hook in self.settings.hooks if hook.event == event), default=self.seconds_for(event)))

    def carries_command(self, event: str) -> bool:
        """True for the event that carries a `/casrewind` command."""
        return self.events.triggers.get(event) == "prompt"

    def implied_reason(self, event: str) -> str:
        """The reason that an event implies if its payload has none."""
        return ""

    def refusing_answer(self, text: str) -> dict[str, object]:
        """A prompt hook's answer that withholds the prompt from the model and shows a text."""
        return {key: text if value == "" else value for key, value in self.events.refusal.items()}

    def person_answer(self, text: str) -> dict[str, str]:
        """A hook's answer that shows a text to the person and not to the model, or {}."""
        return {}

    def model_answer(self, event: str, text: str) -> dict[str, object]:
        """The answer of the prompt hook `event` that gives the model a text beside the prompt, or {}."""
        if not self.events.tells_model:
            return {}
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}

    def written_by_tools(self, data: bytes) -> tuple[str, ...]:
        """The paths that tool calls in a subagent's transcript name as written, as they name them. Most clients keep none."""
        return ()

    def task_of_subagent(self, transcript: str) -> str:
        """What a subagent was started for, as the client notes it beside the transcript at a path; "" if it does not. Never raises."""
        return ""

    def works_in(self, transcript: str, directory: str) -> bool:
        """True if the client says by the transcript at a path that the session works in a directory. Never raises."""
        return False

    # -- places

    def find_home(self, home: str, environ: Mapping[str, str]) -> str:
        """The directory of the client's own files, for a user with the home directory `home`."""
        moved = environ.get(self.places.home_variable) if self.places.home_variable else None
        if moved:
            return os.path.abspath(moved)
        other = environ.get(self.places.home_moved_by) if self.places.home_moved_by else None
        return desktop_directory(os.path.abspath(other or home), self.places.home, environ)

    def find_unreported_transcript(self, session: str, home: str, environ: Mapping[str, str]) -> str:
        """The path of a session's transcript if events may omit it, else ""."""
        return ""

    def accepted_transcript_homes(self, home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The directories below which a transcript that an event names is accepted."""
        variables = [name for name in (self.places.home_variable, self.places.home_moved_by) if name]
        return (home, os.path.join(home, self.places.home), *(environ.get(name, "") for name in variables))

    # -- settings

    @property
    def prints_hooks_only(self) -> bool:
        """True if the client's settings are unknown: an installation prints the hooks."""
        return not self.settings.files and not self.settings.extension

    def hooks_of(self, tier: str) -> tuple[Hook, ...]:
        """The hooks of a tier: those of the previous tier come first."""
        handled = TIERS[: TIERS.index(tier) + 1]
        return tuple(hook for each in handled for hook in self.settings.hooks if self.lowest_tier_of(hook.event) == each)

    def event_argument(self, event: str) -> str:
        """The event's name in a hook's command line, "" = payloads have it."""
        return ""

    def unread_files(self, there: set[str]) -> set[str]:
        """The files with hooks that the client does not read when the files `there` exist."""
        return set()

    def find_off_switch(self, settings: "Value", hooks: "Value") -> str:
        """How settings switch all of the client's hooks off, "" if they do not. `hooks`: their object with the events."""
        key = self.settings.off_key
        return f'"{key}" is true' if key and (settings.get(key) is True or hooks.get(key) is True) else ""

    def next_steps(self) -> tuple[str, ...]:
        """What the user has to do after an installation."""
        return ()

    def slash_command_path(self, directory: str) -> str | None:
        """The file of the `/casrewind` command in a settings directory; None if the client cannot show one."""
        return None

    def short_command_path(self, directory: str) -> str | None:
        """The file of the `/back` command in a settings directory; None if the client cannot show one."""
        return None

    def find_plugins(self, directory: str) -> dict[str, list[str]]:
        """{full name: directories} of our plugins that are installed in the client."""
        return {}

    def ask_about_hooks(
        self, hooks: "Sequence[InstalledHook]", program: str, root: str | None, environ: Mapping[str, str]
    ) -> "ClientAnswer":
        """Ask the client's program whether it runs these hooks. It makes neither a session nor a checkpoint, and
        needs no model, key or network. `root`: the project's root or None. Most clients cannot be asked."""
        from .hook_records import ClientAnswer

        return ClientAnswer()


class ConversationClient(Client):
    """A client with conversations that casrewind reads and cuts. `data` is always the bytes of a transcript; bad bytes raise
    only AgentError. `cut_before_prompt` and `cut_at_checkpoint` return the transcript's own lines, in order, byte for byte."""

    sessions: SessionFormat

    def carried_lines(self) -> "CarriedLines":
        """What of a session's lines is the conversation: a fork carries this and nothing else."""
        raise NotImplementedError

    def kind_of_line(self, value: "Value | None") -> str:
        """The kind of a line, one of transcript.KINDS."""
        raise NotImplementedError

    def find_stop(self, end: bytes) -> "tuple[Value | None, bool]":
        """Returns (the client's note in the end of a transcript that the person stopped the newest turn, or None; True if the person
        typed nothing for the agent later). Most clients report that to a hook, or write nothing of it."""
        from . import transcript

        is_last = True
        for line in transcript.parse_lines_backwards(end):
            kind = self.kind_of_line(line.value)
            if kind == transcript.INTERRUPT:
                return line.value, is_last
            if kind in transcript.OF_AGENT:
                break
            is_last = is_last and kind not in transcript.FOR_AGENT
        return None, False

    def prompts(self, data: bytes, *, every: bool = False) -> "list[Prompt]":
        """The user's prompts in conversation order, without abandoned branches unless `every`."""
        raise NotImplementedError

    def cut_before_prompt(self, data: bytes, prompt: "Prompt") -> bytes | None:
        """The transcript before a prompt; None if nothing was said before it (start a new session)."""
        raise NotImplementedError

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The transcript at a checkpoint that was not made for a prompt; None as for `cut_before_prompt`. Raises AgentError if the
        position is not in this transcript."""
        raise NotImplementedError

    def title_of(self, data: bytes) -> str:
        """The session's title, else the start of its first prompt, else ""."""
        from .transcript import title_from_prompts

        return title_from_prompts(self.prompts(data))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """A new session's transcript: `cut`, a part of `data`, with the id `session`. `original` is the path of `data`,
        `root` the project's root."""
        raise NotImplementedError

    def fork_for_other_root(self, data: bytes, old: "Sequence[str]", root: str) -> bytes:
        """A fork's transcript for the project at `root`, which was at one of the places `old`. Changes only the directories
        that the client reads, and no text that the model gets. By default it changes nothing."""
        return data

    def resume_command(self, session: str, data: bytes, home: str, environ: Mapping[str, str]) -> str:
        """The command that opens a new session, made from `data`."""
        return self.sessions.resume.format(session=session)

    def resume_inside(self, session: str, data: bytes) -> str:
        """What a person types in the client to open a new session, made from `data`; "" = nothing does. By its title only if no other
        session has that."""
        from .transcript import TAG

        title = self.title_of(data)
        return self.sessions.resume_inside.format(session=session, title=title if title.endswith(session[:TAG]) else session)

    def resume_moved_command(self, session: str) -> str:
        """The command that opens such a fork, in its directory."""
        return self.sessions.resume.format(session=session)

    def fork_path(self, transcript: str, session: str, fork: bytes) -> str:
        """The path at which the client looks for the session `session`. `fork`: the session's bytes."""
        return os.path.join(os.path.dirname(transcript), session + ".jsonl")

    def rewound_in_place(self, data: bytes, cut: bytes) -> bytes:
        """The session's own transcript after a rewind to `cut` of `data`."""
        return cut

    # -- where sessions are

    def works_in(self, transcript: str, directory: str) -> bool:
        """See `Client`. The client moves the transcript to the directory of sessions of the project in which it works."""
        name, found = dashed_project_name(directory), os.path.basename(os.path.dirname(transcript))
        return self.sessions.by_project and (found == name or (len(name) == LONGEST and found.startswith(name + "-")))

    def path_for_project(self, transcript: str, session: str, root: str, home: str, environ: Mapping[str, str]) -> str:
        """The path at which the client looks for a session of the project at `root`. `transcript`: the session's path on the
        machine that made it."""
        if self.sessions.derived:
            return self.find_unreported_transcript(session, home, environ)
        return os.path.join(self.usual_sessions_directory(home, environ), dashed_project_name(root), os.path.basename(transcript))

    def new_session_id(self) -> str:
        """An id for a new session."""
        import uuid

        return str(uuid.uuid4())

    def read_stored_transcript(self, path: str) -> bytes | None:
        """A transcript that is no file, to the value that the client has now; None if transcripts are files."""
        return None

    def write_fork(self, original: str, session: str, data: bytes, path: str, root: str, environ: Mapping[str, str]) -> str:
        """Write a new session at `path`, made from the session with the path `original`. Returns its path. `root` is the
        project's root. Raises AgentError, StoreFull; then there is no new session."""
        from . import fork_files

        return fork_files.write_fork(original, session, data, path)

    def usual_sessions_directory(self, home: str, environ: Mapping[str, str]) -> str:
        """The usual directory of the client's sessions, for a user with the home directory `home`."""
        return os.path.join(self.find_home(home, environ), self.sessions.directory)

    def sessions_directory_by_variable(self, environ: Mapping[str, str]) -> str:
        """The directory of sessions that a variable names instead, or ""."""
        return ""

    def find_unreported_transcript(self, session: str, home: str, environ: Mapping[str, str]) -> str:
        """See `Client`."""
        if not self.sessions.derived:
            return ""
        from .transcript import is_session_id

        if not is_session_id(session):
            return ""
        return os.path.join(self.usual_sessions_directory(home, environ), self.sessions.derived.format(session=session))

    def accepted_transcript_homes(self, home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
        """See `Client`."""
        derived = (self.usual_sessions_directory(home, environ),) if self.sessions.derived else ()
        return (*super().accepted_transcript_homes(home, environ), self.sessions_directory_by_variable(environ), *derived)


_BASES = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME"}
"""Directories below a home directory, and the variables that name another directory instead."""
LONGEST = 200
"""Characters of a project's path in a directory's name. A client adds a hash of the rest, and finds a session of it by its id."""


def desktop_directory(home: str, directory: str, environ: Mapping[str, str]) -> str:
    """A directory below a home directory. The variables of the desktop may move it."""
    for base, variable in _BASES.items():
        moved = environ.get(variable, "")
        if directory.startswith(base + "/") and os.path.isabs(moved):
            return os.path.join(moved, directory[len(base) + 1 :])
    return os.path.join(home, directory)


def dashed_project_name(path: str) -> str:
    """The name of a project's directory of sessions: its path with a dash for each UTF-16 unit that is no letter or digit."""
    plain = "".join(one if one.isascii() and one.isalnum() else "-" * (1 + (ord(one) > 0xFFFF)) for one in path)
    return plain[:LONGEST]


def make_hooks(
    triggers: Mapping[str, str], matchers: Mapping[str, str] = {}, timeouts: Mapping[str, int] = {}
) -> tuple[Hook, ...]:
    """Hooks for {event: trigger}, with {event: matcher} and {event: seconds, where they are not the usual ones}."""
    return tuple(
        Hook(event, matchers.get(event), timeouts.get(event, _TIMEOUTS.get(trigger, _TIMEOUT)))
        for event, trigger in triggers.items()
    )
