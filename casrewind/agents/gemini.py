"""Gemini CLI's transcripts.

A transcript is a log of changes. A line is a message, a message with new contents, a new list of all messages, or a
rewind to a message. So the lines before any line are a valid transcript of that moment. A prompt has no id in its hook;
its line has an id. Each start of the client writes all messages again, which adds no prompt. Nor does a list of messages
that the client made itself: after a compaction, it has a summary, and the last prompts once more, with other ids.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, title_from_prompts

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines
    from .hook_records import ClientAnswer, InstalledHook

# Its event PreCompress comes before every request to the model, not only before a compaction. So it is not used.
_TRIGGERS = {
    "SessionStart": "session_start",
    "BeforeAgent": "prompt",
    "AfterAgent": "turn_end",
    "SessionEnd": "session_end",
    "BeforeTool": "tool_batch",
    "AfterTool": "tool_batch",
}
_CONTEXT = "<session_context>"
_TOLD = "<hook_context>"
"""The beginning of a part that a hook's answer added to a prompt."""
_OWN = (
    (_CONTEXT, transcript.META),
    ("Here is the user's editor context as a JSON object.", transcript.META),
    ("Here is a summary of changes in the user's editor context", transcript.META),
    ("System: Potential loop detected.", transcript.META),
    ("<state_snapshot>", transcript.COMPACT_SUMMARY),
    ("<scratchpad>", transcript.COMPACT_SUMMARY),
    ("I ran the following shell command:\n```sh\n", transcript.BASH_MODE),
)
"""The beginnings of user messages that the client itself writes, also for a command typed after `!`."""
_ROOT = ".project_root"
"""The file with the root of the project that a directory of sessions is for."""
_SAID = frozenset({transcript.PROMPT, transcript.ASSISTANT})


class GeminiLine(NamedTuple):
    """A line of a transcript."""

    start: int
    """The position of its first byte."""
    end: int
    """The position behind its last byte."""
    kind: str
    """One of transcript.KINDS."""
    id: str
    """The message that it adds or changes."""
    rewound: str | None
    """The first message that a rewind removes, None for any other line."""
    all: tuple[Value, ...] | None
    """The messages of a new list, None for any other line."""
    prompt: Prompt | None
    """The prompt that it holds, or None."""


class GeminiClient(client.ConversationClient):
    """Gemini CLI. Its events have names of their own."""

    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="BeforeTool",
        by_tool=frozenset({"BeforeTool", "AfterTool"}),
        harmless_tools=frozenset(
            {"read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search", "google_web_search"}
            | {"web_fetch", "write_todos", "ask_user", "enter_plan_mode", "exit_plan_mode"}
        ),
        # a prompt has no id: its checkpoint is recognised by its time, so the hook must end within prompt_matching.NEAR_NS
        budgets={"BeforeAgent": 4.0},
        root_variables=("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
        tells_model=True,
    )
    places = client.ClientPlaces(home=".gemini", home_moved_by="GEMINI_CLI_HOME")
    settings = client.ClientSettings(
        hooks=client.make_hooks(_TRIGGERS, {"BeforeTool": "*", "AfterTool": "*"}),
        files=(client.HookFile("settings.json", "hooks", comments=True),),
        timeout_unit=1000,
    )
    sessions = client.SessionFormat(
        directory="tmp",
        resume="gemini --resume {session}",
        name=r"session-[0-9T-]{{16}}-{short}\.jsonl",
        header=("sessionId",),
        shell=transcript.ShellCalls(("toolCalls",), frozenset({"run_shell_command"}), ("args", "command")),
    )

    def carried_lines(self) -> "CarriedLines":
        """Of what a line sets for the session, its messages and its name travel, and not the directories that it may use."""
        from .carried_lines import CarriedLines

        def type_of(value: Value) -> str:
            first = next((name for name in ("$set", "$rewindTo") if name in value), "")
            return first or ("session" if transcript.text_or_empty(value.get("sessionId")) else "")

        told = frozenset({"messages", "summary", "lastUpdated", "startTime", "sessionId", "projectHash", "kind", "memoryScratchpad"})
        return CarriedLines(
            frozenset({"$set", "$rewindTo", "session"}), state=frozenset({"directories"}), only=((("$set",), told),), type_of=type_of
        )

    def find_off_switch(self, settings: Value, hooks: Value) -> str:
        """Gemini has a key that switches hooks on."""
        return '"hooksConfig.enabled" is false' if transcript.object_or_empty(settings.get("hooksConfig")).get("enabled") is False else ""

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        value = value or {}
        if "$set" in value or "$rewindTo" in value or transcript.text_or_empty(value.get("sessionId")):
            return transcript.BOOKKEEPING
        if not transcript.text_or_empty(value.get("id")):
            return transcript.UNKNOWN
        sort = transcript.text_or_empty(value.get("type"))
        if sort == "user":
            return _kind_of_user(value.get("content"))
        return {"gemini": transcript.ASSISTANT, "info": transcript.SYSTEM, "warning": transcript.SYSTEM, "error": transcript.SYSTEM}.get(
            sort, transcript.UNKNOWN
        )

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The user's prompts in conversation order, without those that a rewind removed unless `every`."""
        reading = _PromptReading()
        for row in _parse_lines(data):
            reading.read_next(row)
        return [prompt for name, prompt in reading.found.items() if every or name not in reading.gone]

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The lines before a prompt; None if nothing was said in them. Raises AgentError if the prompt has no line of its
        own, because another file was imported."""
        table = _parse_lines(data)
        at = next((at for at, row in enumerate(table) if row.prompt is not None and row.id == prompt.uuid), None)
        if at is None and any(row.start == prompt.start and row.all is not None for row in table):
            raise errors.AgentError("that prompt was imported with other messages: the client has no moment between them")
        if at is None:
            raise errors.AgentError("that prompt is not in this transcript")
        return _first_lines_if_said(data, table, at)

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The transcript at a checkpoint: the lines before the cursor; None if nothing had been said yet. Raises AgentError
        if neither the hash nor the id of the cursor is in this transcript."""
        table = _parse_lines(data)
        if not cursor.offset and not cursor.event_id:
            return None
        if cursor.offset and transcript.still_has_bytes_before(data, cursor):
            return _first_lines_if_said(data, table, transcript.count_lines_before_cursor(data, table, cursor))
        ends = [at for at, row in enumerate(table) if row.id and row.id == cursor.event_id]
        if ends:
            return _first_lines_if_said(data, table, ends[-1] + 1)
        raise errors.AgentError("the position of that checkpoint is not in this transcript")

    def title_of(self, data: bytes) -> str:
        """The session's summary, else the start of its first prompt, else ""."""
        for line in transcript.parse_lines_containing(data, b'"summary"'):
            said = transcript.text_or_empty(transcript.object_or_empty((line.value or {}).get("$set")).get("summary"))
            if said:
                return said
        return title_from_prompts(self.prompts(data))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` as a new session: the lines that name the session get the new id. A fork has no title of its own."""
        parts = []
        for line in transcript.parse_lines(cut if cut.endswith(b"\n") else cut + b"\n"):
            raw, value = cut[line.start : line.end], line.value or {}
            old = transcript.text_or_empty(value.get("sessionId")) or transcript.text_or_empty(
                transcript.object_or_empty(value.get("$set")).get("sessionId")
            )
            parts.append(raw.replace(b'"' + old.encode("utf-8", "replace") + b'"', b'"' + session.encode() + b'"', 1) if old else raw)
        return b"".join(parts)

    def fork_path(self, transcript: str, session: str, fork: bytes) -> str:
        """The path of a fork: beside the transcript that it was made from, with the present time in its name."""
        import time

        name = f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{session[:8]}.jsonl"
        return os.path.join(os.path.dirname(transcript), name)

    def path_for_project(self, transcript: str, session: str, root: str, home: str, environ: Mapping[str, str]) -> str:
        """In the project's directory, which has the root in a file."""
        sessions, name = self.usual_sessions_directory(home, environ), _project_name(root)
        with suppress(OSError):
            name = next((one for one in sorted(os.listdir(sessions)) if _read_root_of(os.path.join(sessions, one)) == root), name)
        number, free = 0, name
        while _read_root_of(os.path.join(sessions, free)) not in ("", root):
            number += 1
            free = f"{name}-{number}"
        return os.path.join(sessions, free, "chats", os.path.basename(transcript))

    def write_fork(self, original: str, session: str, data: bytes, path: str, root: str, environ: Mapping[str, str]) -> str:
        """Write a session. Without the file with the root, the client does not find the project's directory."""
        from .. import fsio
        from ..messages import printable, write_error

        path = super().write_fork(original, session, data, path, root, environ)
        directory = os.path.dirname(os.path.dirname(path))
        if not _read_root_of(directory):
            try:
                fsio.replace_file(directory, _ROOT, os.fsencode(root))
            except OSError as error:
                raise write_error(error, f"the session {printable(path)}") from error
        return path

    def ask_about_hooks(
        self, hooks: "Sequence[InstalledHook]", program: str, root: str | None, environ: Mapping[str, str]
    ) -> "ClientAnswer":
        """The user can switch hooks off one by one. The client's settings say so."""
        from ..messages import printable
        from . import json_edit, settings_files
        from .hook_records import ClientAnswer, distinct

        problems = []
        for path in distinct(hook.settings for hook in hooks):
            try:
                value = json_edit.parse_with_comments((settings_files.read_settings(path).data or b"{}").decode("utf-8-sig"))
                disabled = value["hooksConfig"]["disabled"]
            except (errors.AgentError, ValueError, RecursionError, KeyError, TypeError):
                continue
            off = [hook.event for hook in hooks if isinstance(disabled, list) and hook.line in disabled]
            if off:
                problems.append(
                    f"the hooks of {', '.join(distinct(off))} are switched off in {printable(path)} (hooksConfig.disabled): take their "
                    f"command lines out of that list"
                )
        return ClientAnswer(tuple(problems))


CLIENT = GeminiClient()


def _project_name(root: str) -> str:
    """The client's name for a project: the letters and digits of its directory's name."""
    import re

    return re.sub("[^a-z0-9]+", "-", os.path.basename(root).lower()).strip("-") or "project"


def _read_root_of(directory: str) -> str:
    """The root of the project that a directory of sessions is for; "" if none is named."""
    from .. import fsio

    try:
        return os.fsdecode(fsio.read_file(os.path.join(directory, _ROOT), 1 << 16)).strip()
    except OSError:
        return ""


def _kind_of_user(content: object) -> str:
    parts = transcript.content_blocks(content)
    if any("functionResponse" in part for part in parts):
        return transcript.TOOL_RESULT
    said = _typed_text(parts)
    if own := next((kind for beginning, kind in _OWN if said.lstrip().startswith(beginning)), ""):
        return own
    return transcript.PROMPT if said.strip() or any("text" not in part for part in parts) else transcript.META


def _typed_text(parts: Sequence[Value]) -> str:
    """What a person typed: the texts of a message's parts, without those that a hook's answer added."""
    texts = [transcript.text_or_empty(part.get("text")) for part in parts if "text" in part]
    return "\n".join(text for at, text in enumerate(texts) if not at or not text.startswith(_TOLD))


class _PromptReading:
    """One pass over the lines of a transcript."""

    def __init__(self) -> None:
        self.found: dict[str, Prompt] = {}
        """The prompts by the ids of their messages."""
        self.gone: set[str] = set()
        """Those that a rewind removed."""
        self._present: dict[str, None] = {}  # the messages of the conversation
        self._before: dict[str, int] = {}  # {a message that has a line of its own: the number of prompts before that line}
        self._originals: dict[str, str] = {}  # {a copy of a prompt: the prompt}

    def read_next(self, row: GeminiLine) -> None:
        """Read the next line."""
        if row.rewound is not None:
            self._rewind(row.rewound)
        elif row.all is not None:
            self._replace_all(row.all, row.start)
        elif row.id:
            self._before.setdefault(row.id, len(self.found))
            self._present[row.id] = None
            if row.prompt is not None:
                self.found.setdefault(row.id, row.prompt)

    def _rewind(self, target: str) -> None:
        names = list(self._present)
        # The client drops every message if it does not know the id
        removed = names[names.index(target) :] if target in self._present else [*names, *self.found]
        self.gone.update(self._originals.get(name, name) for name in removed)
        for name in removed:
            self._present.pop(name, None)

    def _replace_all(self, messages: Sequence[Value], start: int) -> None:
        """A new list of all messages. Where messages have lines of their own, the client made the list of these."""
        names = [transcript.text_or_empty(message.get("id")) for message in messages]
        if messages and names[0] in self._before and CLIENT.kind_of_line(messages[0]) == transcript.META:
            for name in list(self.found)[self._before[names[0]] :]:  # it wrote a line for each message of the list, too
                del self.found[name]
        prompts = [prompt for message in messages if (prompt := _prompt_in_value(message, start)) and prompt.uuid not in self.found]
        if not self._before and not self.found:  # another file was imported
            self.found.update((prompt.uuid, prompt) for prompt in prompts)
        self._present = dict.fromkeys(names)
        left = [prompt for name, prompt in self.found.items() if name not in self._present]
        for prompt in reversed(prompts):  # the client keeps the end of a conversation
            at = next((at for at in reversed(range(len(left))) if left[at].text == prompt.text), None)
            if at is not None:
                self._originals[prompt.uuid] = left[at].uuid
                del left[at:]


def _parse_lines(data: bytes) -> list[GeminiLine]:
    return [_parse_line(line) for line in transcript.parse_lines(data)]


def _parse_line(line: transcript.TranscriptLine) -> GeminiLine:
    value = line.value or {}
    kind = CLIENT.kind_of_line(line.value)
    messages = transcript.object_or_empty(value.get("$set")).get("messages")
    return GeminiLine(
        start=line.start,
        end=line.end,
        kind=kind,
        id=transcript.text_or_empty(value.get("id")) if kind != transcript.BOOKKEEPING else "",
        rewound=value["$rewindTo"] if isinstance(value.get("$rewindTo"), str) else None,
        all=tuple(message for message in messages if isinstance(message, dict)) if isinstance(messages, list) else None,
        prompt=_prompt_in_value(value, line.start),
    )


def _prompt_in_value(value: Value, start: int) -> Prompt | None:
    if CLIENT.kind_of_line(value) != transcript.PROMPT:
        return None
    name, time = transcript.text_or_empty(value.get("id")), transcript.time_ns(value.get("timestamp"))
    return Prompt(_typed_text(transcript.content_blocks(value.get("content"))), "", "", name, "", time, start, queued=False)


def _first_lines_if_said(data: bytes, table: Sequence[GeminiLine], count: int) -> bytes | None:
    """The first `count` lines, without unknown ones at the end; None if nothing was said in them."""
    count = transcript.count_to_known_end(table, count)
    for row in table[:count]:
        if row.kind in _SAID or any(CLIENT.kind_of_line(message) in _SAID for message in row.all or ()):
            return data[: table[count - 1].end]
    return None
