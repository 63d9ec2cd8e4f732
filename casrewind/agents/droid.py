"""Factory Droid's transcripts.

Droid's own rewind makes a new session, so a transcript has one branch, in the order of its lines. Lines that the client
adds for a prompt (context, hook output) precede the prompt, and are cut with it.
"""

import os
from collections.abc import Mapping, Sequence

from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, find_line_of_prompt, fork_title, title_from_prompts

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines

_TRIGGERS = {**client.EVENTS, "PostToolUse": "tool_batch"}  # it has no event for a whole batch
_CONTEXT = "context-"
_TOLD = frozenset(
    {"model", "reasoningEffort", "providerLock", "providerLockTimestamp", "assistantActiveTimeMs", "tokenUsage", "inclusiveTokenUsage",
     "childInclusiveTokenUsageBySessionId", "lastCallTokenUsage"}
)  # fmt: skip
"""What travels of the file with a session's settings."""


class DroidLine(NamedTuple):
    """A line of a transcript."""

    start: int
    """The position of its first byte."""
    end: int
    """The position behind its last byte."""
    kind: str
    """One of transcript.KINDS."""
    id: str
    """Its id."""
    owner: str
    """The id of the following prompt that it belongs to."""
    calls: tuple[str, ...]
    """The ids of the tool calls that it makes."""
    results: tuple[str, ...]
    """The ids of the tool calls that it answers."""
    prompt: Prompt | None
    """The prompt that it holds, or None."""


class DroidClient(client.ConversationClient):
    """Factory Droid. Each session has a second file, with its settings."""

    name = "droid"
    title = "Factory Droid"
    program = "droid"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="PreToolUse",
        by_tool=frozenset({"PreToolUse", "PostToolUse"}),
        harmless_tools=frozenset({"Read", "LS", "Grep", "Glob", "WebSearch", "FetchUrl", "TodoWrite", "AskUser", "ExitSpecMode"}),
        root_variables=("FACTORY_PROJECT_DIR", "DROID_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
        env_file_variables=("CLAUDE_ENV_FILE",),
        refusal={"continue": False, "stopReason": ""},  # Droid ignores a decision
        tells_model=True,
    )
    places = client.ClientPlaces(home=".factory", home_moved_by="FACTORY_HOME_OVERRIDE")
    settings = client.ClientSettings(
        hooks=client.make_hooks(_TRIGGERS, {"PreToolUse": "*", "PostToolUse": "*"}),
        files=(client.HookFile("hooks.json", ""), client.HookFile("hooks/hooks.json", ""), client.HookFile("settings.json", "hooks")),
        off_key="hooksDisabled",
    )
    sessions = client.SessionFormat(
        directory="sessions",
        resume="droid --resume {session}",
        by_project=True,
        header=("id",),
        version=2,
        version_path=("version",),
        shell=transcript.ShellCalls(("message", "content"), frozenset({"Execute"}), ("input", "command")),
    )

    def carried_lines(self) -> "CarriedLines":
        """Each line has an id, but for the outcomes of turns."""
        from .carried_lines import CarriedLines

        modes = frozenset({"interactionMode", "specMode"})
        return CarriedLines(frozenset({"session_start", "agent_turn_outcome"}), holders=((), ("message",)), state=modes)

    def unread_files(self, there: set[str]) -> set[str]:
        """Droid reads hooks/hooks.json only if hooks.json is missing."""
        return {"hooks.json"} if "hooks/hooks.json" in there and "hooks.json" not in there else {"hooks/hooks.json"}

    def write_fork(self, original: str, session: str, data: bytes, path: str, root: str, environ: Mapping[str, str]) -> str:
        """Write a session. Of its original's settings it gets the model and what was counted. It names a directory of the project."""
        from . import fork_files

        def change(value: Value) -> Value | None:
            cwd = transcript.text_or_empty(value.get("cwd"))
            there = fork_files.directory_in_project(cwd, root)
            return {**value, "cwd": there} if value.get("type") == "session_start" and cwd != there else None

        data = transcript.with_lines_replaced(data, change)
        return fork_files.write_fork(original, session, data, path, companions={".settings.json": _settings_that_travel})

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        value = value or {}
        message = transcript.object_or_empty(value.get("message"))
        if value.get("type") in ("session_start", "agent_turn_outcome"):
            return transcript.BOOKKEEPING
        if value.get("type") != "message" or message.get("role") not in ("user", "assistant"):
            return transcript.UNKNOWN
        return transcript.ASSISTANT if message["role"] == "assistant" else _kind_of_user(value, message)

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The user's prompts in conversation order. There are no branches."""
        return [row.prompt for row in _parse_lines(data) if row.prompt is not None]

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The lines before a prompt, without the prompt's own context lines; None if nothing was said before it."""
        table = _parse_lines(data)
        return transcript.without_open_calls(data, table, _count_before_prompt(table, find_line_of_prompt(table, prompt)))

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The transcript at a checkpoint, by the ids of its cursor; None if nothing had been said yet. For a checkpoint
        after a tool, the cut is before the tool's result, which the client writes after the hook. Raises AgentError if no
        id and no hash of the cursor is in this transcript."""
        table = _parse_lines(data)
        index = {row.id: at for at, row in enumerate(table) if row.id}
        names = [cursor.event_id] if trigger == "prompt" else [cursor.event_id, cursor.message_id]
        ends = [index[name] for name in names if name in index]
        if ends:
            return transcript.without_open_calls(data, table, max(ends) + 1)
        if not cursor.offset and not cursor.event_id:
            return None
        return transcript.without_open_calls(data, table, transcript.count_lines_before_cursor(data, table, cursor))

    def title_of(self, data: bytes) -> str:
        """The session's title, else the start of its first prompt, else ""."""
        for line in transcript.parse_lines(data):
            value = line.value or {}
            if value.get("type") == "session_start" and transcript.text_or_empty(value.get("title")):
                return transcript.text_or_empty(value["title"])
        return title_from_prompts(self.prompts(data))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` as a new session: the line that names the session gets the new id and title, and a directory of the project."""
        from . import fork_files

        title = fork_title(self.title_of(data))

        def change(value: Value) -> Value | None:
            if value.get("type") != "session_start":
                return None
            cwd = transcript.text_or_empty(value.get("cwd"))
            there = fork_files.directory_in_project(cwd, root)
            return {**value, "id": session, "title": title, **({"cwd": there} if there != cwd else {})}

        return transcript.with_lines_replaced(cut, change)

    def fork_path(self, transcript: str, session: str, fork: bytes) -> str:
        """The path of a fork: beside its original, unless the project moved. Droid looks for a session in the directory that
        it has for the directory in the session's first line."""
        place, old = os.path.split(os.path.dirname(transcript))
        wanted = client.dashed_project_name(_find_directory(fork))
        is_same = not wanted or old == wanted or (len(wanted) == client.LONGEST and old.startswith(wanted))
        return os.path.join(place, old if is_same or not old.startswith("-") else wanted, session + ".jsonl")


CLIENT = DroidClient()


def _settings_that_travel(data: bytes) -> bytes:
    """The file with a session's settings, as a fork gets it."""
    return transcript.encode_line({name: one for name, one in (transcript.parse_object(data) or {}).items() if name in _TOLD})


def _find_directory(data: bytes) -> str:
    """The directory that a session runs in, from its first line, or ""."""
    line = next(transcript.parse_lines(data), None)
    return transcript.text_or_empty(((line and line.value) or {}).get("cwd"))


def _kind_of_user(value: Value, message: Value) -> str:
    if message.get("hookEventName") or message.get("visibility") == "user_only":
        return transcript.META
    if transcript.text_or_empty(value.get("id")).startswith(_CONTEXT):
        return transcript.ATTACHMENT
    content = message.get("content")
    if any(block.get("type") == "tool_result" for block in transcript.content_blocks(content)):
        return transcript.TOOL_RESULT
    said = _words_of_user(content)
    if said.startswith("[Request interrupted by user"):
        return transcript.INTERRUPT
    has_more = any(block.get("type") != "text" for block in transcript.content_blocks(content))  # an image, say
    return transcript.PROMPT if said or has_more else transcript.META


def _words_of_user(content: object) -> str:
    """The user's own words in a message, without the client's reminders."""
    return "\n".join(text for text in transcript.content_texts(content) if not text.lstrip().startswith("<system-reminder>"))


def _parse_lines(data: bytes) -> list[DroidLine]:
    return [_parse_line(line) for line in transcript.parse_lines(data)]


def _parse_line(line: transcript.TranscriptLine) -> DroidLine:
    value = line.value or {}
    kind = CLIENT.kind_of_line(line.value)
    message = transcript.object_or_empty(value.get("message"))
    name = transcript.text_or_empty(value.get("id")) if kind != transcript.BOOKKEEPING else ""  # one of these has the session's id
    parts = transcript.content_blocks(message.get("content"))
    prompt = None
    if kind == transcript.PROMPT and name:
        words, time = _words_of_user(message.get("content")), transcript.time_ns(value.get("timestamp"))
        prompt = Prompt(words, "", name, name, transcript.text_or_empty(value.get("parentId")), time, line.start, queued=False)
    return DroidLine(
        start=line.start,
        end=line.end,
        kind=kind,
        id=name,
        owner=name.removeprefix(_CONTEXT) if name.startswith(_CONTEXT) else transcript.text_or_empty(message.get("hookParentId")),
        calls=tuple(transcript.text_or_empty(part.get("id")) for part in parts if part.get("type") == "tool_use"),
        results=tuple(transcript.text_or_empty(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"),
        prompt=prompt,
    )


def _count_before_prompt(table: Sequence[DroidLine], at: int) -> int:
    """The number of lines before a prompt and its context lines. Unknown lines among these go with them."""
    name = table[at].id
    while at > 0 and (table[at - 1].owner == name or table[at - 1].kind == transcript.UNKNOWN):
        at -= 1
    return at
