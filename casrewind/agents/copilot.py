"""GitHub Copilot CLI's sessions.

A session is a directory: a file of events and a few files about it. The events form one chain. The client accepts a
file that ends after any event. A fork is a new directory with the events before the cut.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, find_line_of_prompt, fork_title

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines

_TRIGGERS = {
    "sessionStart": "session_start",
    "userPromptSubmitted": "prompt",
    "agentStop": "turn_end",
    "subagentStop": "turn_end",
    "preCompact": "compact",
    "sessionEnd": "session_end",
    "preToolUse": "tool_batch",
    "postToolUse": "tool_batch",
}
_KINDS = {
    "assistant.message": transcript.ASSISTANT,
    "tool.execution_complete": transcript.TOOL_RESULT,
    "system.message": transcript.SYSTEM,
    "system.notification": transcript.META,
    "session.compaction_complete": transcript.COMPACT_SUMMARY,
    "abort": transcript.INTERRUPT,
}
_PROMPT_HOOKS = frozenset({"sessionStart", "userPromptSubmitted"})
_ONLY_SET = frozenset(
    {"session.mode_changed", "session.mode_notice_delivered", "session.remote_steerable_changed", "session.session_limits_changed",
     "session.schedule_created", "session.schedule_cancelled", "session.schedule_rearmed", "session.autopilot_objective_changed",
     "session.autopilot_stopped", "session.managed_settings_enforced", "session.managed_settings_resolved", "subagent.selected"}
)  # fmt: skip
"""Events that set how a session goes on, and say nothing of the conversation."""
_ABOUT = "workspace.yaml"
_TOLD = frozenset(
    {"git_root", "repository", "host_type", "branch", "client_name", "user_named", "summary", "summary_count", "fork_count",
     "created_at", "updated_at"}
)  # fmt: skip
"""What of that file travels."""
_DIRECTORIES = ("checkpoints", "files")


class CopilotLine(NamedTuple):
    """An event of a session."""

    start: int
    """The position of its first byte."""
    end: int
    """The position behind its last byte."""
    type: str
    """The client's name of it."""
    kind: str
    """One of transcript.KINDS."""
    id: str
    """Its id."""
    hook: str
    """The hook that it is about, "" = none."""
    calls: tuple[str, ...]
    """The ids of the tool calls that it makes."""
    results: tuple[str, ...]
    """The ids of the tool calls that it answers."""
    prompt: Prompt | None
    """The prompt that it holds, or None."""


class CopilotClient(client.ConversationClient):
    """GitHub Copilot CLI. Its payloads lack the event's name."""

    name = "copilot"
    title = "GitHub Copilot CLI"
    program = "copilot"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="preToolUse",
        by_tool=frozenset({"preToolUse", "postToolUse"}),
        harmless_tools=frozenset({"view", "glob", "grep", "rg", "report_intent", "web_fetch", "list_bash", "ask_user"}),
        fields={**client.FIELDS, "name": ("hook_event_name",), "session": ("sessionId", "session_id"), "tool": ("toolName", "tool_name"),
                "transcript": ("transcriptPath", "transcript_path")},
        root_variables=("COPILOT_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
    )
    places = client.ClientPlaces(home=".copilot", home_variable="COPILOT_HOME", project_home=".github")
    settings = client.ClientSettings(
        hooks=client.make_hooks(_TRIGGERS),
        files=(client.HookFile("hooks/casrewind.json", "hooks", flat=True, empty='{\n  "version": 1\n}\n'),),
        off_key="disableAllHooks",
    )
    sessions = client.SessionFormat(
        directory="session-state",
        resume="copilot --resume={session}",
        resume_inside="/resume {session}",
        name=r"{session}/events\.jsonl",
        derived="{session}/events.jsonl",
        header=("data", "sessionId"),
        version=1,
        version_path=("data", "version"),
        client_version=("data", "copilotVersion"),
        shell=transcript.ShellCalls(("data", "toolRequests"), frozenset({"bash"}), ("arguments", "command")),
    )

    def carried_lines(self) -> "CarriedLines":
        """Each event has an id. One that only sets something becomes one that only says that no agent was chosen: the client
        refuses a session in which an event lacks a field, or says something that it does not know."""
        from .carried_lines import CarriedLines

        modes = frozenset({"mode", "agentMode", "currentMode", "previousMode", "newMode"})
        others = frozenset({"remoteSteerable", "continuePendingWork", "githubMcpToolConfig", "sessionLimits"})
        empty: Value = {"type": "subagent.deselected", "data": {}}
        return CarriedLines(holders=((), ("data",)), state=modes | others, whole=_ONLY_SET, empty=empty)

    def model_answer(self, event: str, text: str) -> dict[str, object]:
        """The member that the client gives to the model."""
        return {"additionalContext": text}

    def event_argument(self, event: str) -> str:
        """The event's name, which payloads lack."""
        return event

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        sort = transcript.text_or_empty((value or {}).get("type"))
        if sort == "user.message":
            return _kind_of_user(transcript.object_or_empty((value or {}).get("data")))
        if sort in _KINDS:
            return _KINDS[sort]
        is_known = sort.startswith(("session.", "assistant.", "tool.", "hook.", "subagent.", "permission.", "skill."))
        return transcript.BOOKKEEPING if is_known else transcript.UNKNOWN

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The user's prompts in conversation order. There are no branches."""
        return [row.prompt for row in _parse_lines(data) if row.prompt is not None]

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The events before a prompt and its hooks; None if nothing was said before it."""
        table = _parse_lines(data)
        return transcript.without_open_calls(data, table, _count_before_prompt(table, find_line_of_prompt(table, prompt)))

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The events at a checkpoint; None if nothing had been said yet. A turn's end includes the hooks of that turn.
        Raises AgentError if no id and no hash of the cursor is in this transcript."""
        table = _parse_lines(data)
        end = next((at for at, row in enumerate(table) if cursor.event_id and row.id == cursor.event_id), None)
        if end is None and not cursor.offset and not cursor.event_id:
            return None
        if end is None:
            end = transcript.count_lines_before_cursor(data, table, cursor) - 1
        if trigger in ("turn_end", "session_end"):
            passed = (transcript.BOOKKEEPING, transcript.UNKNOWN)
            while end + 1 < len(table) and table[end + 1].kind in passed and not _belongs_to_next_prompt(table[end + 1]):
                end += 1
        return transcript.without_open_calls(data, table, end + 1)

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` as a new session: the event that starts the session gets the new id. The title is in another file."""

        def change(value: Value) -> Value | None:
            about = transcript.object_or_empty(value.get("data"))
            return {**value, "data": {**about, "sessionId": session}} if value.get("type") == "session.start" and about else None

        return transcript.with_lines_replaced(cut, change)

    def fork_path(self, transcript: str, session: str, fork: bytes) -> str:
        """The path of a fork's events file. Its directory lies beside the original session's directory."""
        place, name = os.path.split(transcript)
        return os.path.join(os.path.dirname(place), session, name)

    def write_fork(self, original: str, session: str, data: bytes, path: str, root: str, environ: Mapping[str, str]) -> str:
        """Write the directory of a session. The events are written last."""
        from .. import fsio
        from ..messages import printable, write_error

        old = os.path.dirname(original)
        directory = os.path.dirname(path)
        where = printable(directory)
        if not transcript.is_session_id(session) or os.path.lexists(directory):
            raise errors.AgentError(f"cannot make the session {where}: it exists already, or its name is not an id")
        try:
            about = _make_session_file(
                _read_or_empty(os.path.join(old, _ABOUT)), session, self.title_of(data), root, is_fork=old != directory
            )
            for place in (directory, *(os.path.join(directory, name) for name in _DIRECTORIES)):
                fsio.make_directories(place)
            fsio.replace_file(directory, _ABOUT, about)
            fsio.replace_file(directory, os.path.basename(original), data)
        except OSError as error:
            _remove_tree_if_possible(directory)
            raise write_error(error, f"the session {where}") from error
        return os.path.join(directory, os.path.basename(original))


CLIENT = CopilotClient()


def _kind_of_user(data: Value) -> str:
    """The kind of a user message. A source other than the user is named in it."""
    if transcript.text_or_empty(data.get("agentId")) or transcript.text_or_empty(data.get("parentToolCallId")):
        return transcript.SIDECHAIN
    if transcript.text_or_empty(data.get("source")) not in ("", "user"):
        return transcript.META
    return transcript.PROMPT


def _read_or_empty(path: str) -> bytes:
    from .. import fsio

    try:
        return fsio.read_file(path, 1 << 20)
    except FileNotFoundError:
        return b""


def _make_session_file(old: bytes, session: str, title: str, root: str, *, is_fork: bool) -> bytes:
    """The file about a session, made from that of the original session: YAML with one text per line. A session whose
    original has no such file, or another directory than one of the project, runs in the project's root."""
    import json  # late: a hook does not need it

    from . import fork_files
    lines = old.decode("utf-8", "replace").splitlines()
    named = next((line for line in lines if line.startswith("cwd:")), "cwd:")
    lines = [line for line in lines if line.partition(":")[0] in _TOLD]
    directory = fork_files.directory_in_project(_text_in_yaml_line(named), root)
    made = [f"id: {session}", f"cwd: {json.dumps(directory)}", *lines, f"name: {json.dumps(fork_title(title) if is_fork else title)}"]
    return "".join(f"{line}\n" for line in made).encode()


def _text_in_yaml_line(line: str) -> str:
    """The text of a line of that file."""
    import json

    value = line.partition(":")[2].strip()
    with suppress(ValueError):
        return transcript.text_or_empty(json.loads(value)) if value.startswith('"') else value
    return ""


def _remove_tree_if_possible(directory: str) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


def _parse_lines(data: bytes) -> list[CopilotLine]:
    rows: list[CopilotLine] = []
    said: dict[str, int] = {}
    for line in transcript.parse_lines(data):
        row = _parse_line(line)
        value = line.value or {}
        if row.hook == "userPromptSubmitted" and row.type == "hook.start":
            words = transcript.text_or_empty(
                transcript.object_or_empty(transcript.object_or_empty(value.get("data")).get("input")).get("prompt")
            )
            said[words] = transcript.time_ns(value.get("timestamp"))
        elif row.prompt is not None and row.prompt.text in said:
            # The hook of a prompt runs first and may take some time
            row = row._replace(prompt=row.prompt._replace(time_ns=said.pop(row.prompt.text) or row.prompt.time_ns))
        rows.append(row)
    return rows


def _parse_line(line: transcript.TranscriptLine) -> CopilotLine:
    value = line.value or {}
    about = transcript.object_or_empty(value.get("data"))
    kind = CLIENT.kind_of_line(line.value)
    sort, name = transcript.text_or_empty(value.get("type")), transcript.text_or_empty(value.get("id"))
    prompt = None
    if kind == transcript.PROMPT and name:
        words, time = transcript.text_or_empty(about.get("content")), transcript.time_ns(value.get("timestamp"))
        message = transcript.text_or_empty(about.get("messageId"))
        prompt = Prompt(words, "", message, name, transcript.text_or_empty(value.get("parentId")), time, line.start, queued=False)
    called = transcript.text_or_empty(about.get("toolCallId"))
    return CopilotLine(
        start=line.start,
        end=line.end,
        type=sort,
        kind=kind,
        id=name,
        hook=transcript.text_or_empty(about.get("hookType")) if sort.startswith("hook.") else "",
        calls=tuple(transcript.text_or_empty(call.get("toolCallId")) for call in transcript.content_blocks(about.get("toolRequests")))
        if kind == transcript.ASSISTANT
        else (),
        results=(called,) if kind == transcript.TOOL_RESULT else (),
        prompt=prompt,
    )


def _belongs_to_next_prompt(row: CopilotLine) -> bool:
    """True for an event that belongs to the next prompt."""
    return row.type == "session.resume" or row.hook in _PROMPT_HOOKS


def _count_before_prompt(table: Sequence[CopilotLine], at: int) -> int:
    """The number of events before a prompt and the events that belong to it. Unknown events among these go with them."""
    end = at
    passed = (transcript.SYSTEM, transcript.UNKNOWN)
    while end > 0 and (_belongs_to_next_prompt(table[end - 1]) or table[end - 1].kind in passed):
        end -= 1
    return end
