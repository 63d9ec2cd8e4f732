"""Codex's transcripts ("rollouts").

A rollout is linear. Each line belongs to a turn, and a turn has an id that its hooks report. At a prompt's hook the
first lines of the turn are already written, but not the prompt. So a rollout is cut by turn, never by size.

A rewind inside the client starts another file for the same session, and the client's own fork makes a short file. Both
name the file and position from which they continue (`history_base`). That reference is kept as it is.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import fsio
from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, find_line_of_prompt

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines
    from .hook_records import ClientAnswer, InstalledHook

_TRIGGERS = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    "Interrupt": "turn_end",
    client.SUBAGENT_START: "tool_batch",
    client.SUBAGENT_STOP: "turn_end",
    "PreCompact": "compact",
    "SessionEnd": "session_end",
    "PreToolUse": "tool_batch",
    "PostToolUse": "tool_batch",
}
_STARTED = "task_started"
_ENDED = ("task_complete", "turn_aborted")
_BOOKKEEPING = frozenset({"session_meta", "event_msg", "turn_context", "world_state", "token_usage_record"})
_EVENTS = (
    "task_started", "task_complete", "turn_aborted", "user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content",
    "token_count", "item_started", "item_completed", "context_compacted", "thread_rolled_back", "thread_name_updated", "turn_diff",
    "plan_update", "exec_command_begin", "exec_command_end", "patch_apply_begin", "patch_apply_end", "mcp_tool_call_begin",
    "mcp_tool_call_end", "web_search_begin", "web_search_end", "view_image_tool_call", "entered_review_mode", "exited_review_mode",
    "error", "stream_error", "warning",
)  # fmt: skip
"""The events in a rollout that tell what was said and done."""
_STRICTEST = {"approval_policy": "untrusted", "sandbox_policy": {"type": "read-only"}, "summary": "auto"}
"""The settings of a turn with which Codex asks before each command that it does not know as harmless."""
_POLICIES = ("untrusted", "on-failure", "on-request", "never", "read-only", "workspace-write", "danger-full-access")
"""What its settings can say of the approval and of the sandbox."""
_TRUSTED = ("trusted", "managed")
_FIRST_LINE = 1 << 20  # bytes that are searched for what a transcript is about
_TYPED = "user."
_OWN = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md", "<skill>", "<subagent_notification>", "<user_shell_command>",
)  # fmt: skip
"""The beginnings of user messages that an earlier version of the client wrote without a kind."""
_SAID = frozenset({transcript.PROMPT, transcript.ASSISTANT, transcript.COMPACT_SUMMARY})


class CodexLine(NamedTuple):
    """A line of a transcript. Missing ids are ""."""

    start: int
    """The position of its first byte."""
    end: int
    """The position behind its last byte."""
    kind: str
    """One of transcript.KINDS."""
    turn: str
    """The id of its turn."""
    begins: str
    """The turn that it starts."""
    ends: str
    """The turn that it ends."""
    call: str
    """The id of the tool call that it makes."""
    result: str
    """The id of the tool call that it answers."""
    based: bool
    """The conversation continues another file."""
    prompt: Prompt | None
    """The prompt that it holds, or None."""


class CodexClient(client.ConversationClient):
    """Codex. It runs a hook only after the user trusted it."""

    name = "codex"
    title = "Codex"
    program = "codex"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="PreToolUse",
        by_tool=frozenset({"PreToolUse", "PostToolUse"}),
        harmless_tools=frozenset({"update_plan", "view_image", "web_search", "request_user_input"}),
        fields={**client.FIELDS, "prompt_id": ("turn_id", "turnId")},  # a turn has one prompt, and those typed while it ran
        budgets={"Interrupt": 2.0},
        turn_field="turn_id",
        subagents_have_turns=True,
        tells_model=True,
    )
    places = client.ClientPlaces(home=".codex", home_variable="CODEX_HOME")
    settings = client.ClientSettings(
        hooks=client.make_hooks(_TRIGGERS, timeouts={"Interrupt": 3, "SessionEnd": 3}),  # Codex lowers more than 3 s with a warning
        files=(client.HookFile("hooks.json", "hooks"),),
    )
    sessions = client.SessionFormat(
        directory="sessions",
        resume="codex resume {session}",
        name=r"rollout-[0-9T-]{{19}}-{session}(_[0-9a-f-]+)?\.jsonl",
        line_id="",
        header=("payload", "id"),
        client_version=("payload", "cli_version"),
        shell=transcript.ShellCalls(
            ("payload",), frozenset({"exec_command", "shell", "shell_command", "local_shell"}), ("arguments", "cmd|command")
        ),
        never_rewritten="Codex keeps a copy of each session's turns, which would still show what was cut",
    )

    def carried_lines(self) -> "CarriedLines":
        """The contexts of turns and the settings of the thread stay where they were: the client reads the last of each."""
        from .carried_lines import CarriedLines

        def type_of(value: Value) -> str:
            sort = transcript.text_or_empty(value.get("type"))
            name = transcript.text_or_empty(transcript.object_or_empty(value.get("payload")).get("type"))
            return f"event_msg.{name}" if sort == "event_msg" else sort

        return CarriedLines(
            frozenset({"session_meta", "response_item", "compacted", "token_usage_record", *(f"event_msg.{name}" for name in _EVENTS)}),
            (("payload", "id"), ("payload", "item", "id")),
            ((), ("payload",)),
            frozenset({"thread_settings", "collaboration_mode", "persistent_mode", "state"}),
            type_of=type_of,
            keeps_places=True,
            strictest=_make_strictest_line,
        )

    def resume_command(self, session: str, data: bytes, home: str, environ: Mapping[str, str]) -> str:
        """A session with the strictest settings (`_make_strictest_line`) is opened with those of the person's config.toml."""
        import tomllib

        if not _read_session_meta(data).get("history_base"):
            return super().resume_command(session, data, home, environ)
        try:
            config = tomllib.loads(fsio.read_file(os.path.join(self.find_home(home, environ), "config.toml"), 1 << 20).decode())
        except (OSError, ValueError):
            config = {}
        chosen = [(option, config.get(key)) for option, key in (("-a", "approval_policy"), ("-s", "sandbox_mode"))]
        options = "".join(f"{option} {value} " for option, value in chosen if value in _POLICIES)
        return f"codex resume {options}{session}"

    def implied_reason(self, event: str) -> str:
        """An interruption is an event of its own."""
        return "interrupt" if event == "Interrupt" else ""

    def written_by_tools(self, data: bytes) -> tuple[str, ...]:
        """See `Client`. The client notes the files that a patch changed, where it could be applied."""
        found = []
        for line in transcript.parse_lines_containing(data, b'"FileChange"'):
            item = transcript.object_or_empty(transcript.object_or_empty((line.value or {}).get("payload")).get("item"))
            changes = transcript.object_or_empty(item.get("changes") if item.get("status") == "completed" else None)
            for path, change in changes.items():
                found += [path, transcript.text_or_empty(transcript.object_or_empty(change).get("move_path"))]
        return tuple(dict.fromkeys(filter(None, found)))

    def task_of_subagent(self, path: str) -> str:
        """See `Client`. The model's text to a subagent is encrypted: the name that it gave to the task is the end of the subagent's own."""
        with suppress(OSError, ValueError):
            about = _read_session_meta(fsio.read_file(path, _FIRST_LINE))
            return transcript.text_or_empty(about.get("agent_path")).rpartition("/")[2]
        return ""

    def next_steps(self) -> tuple[str, ...]:
        """Codex reports nothing about hooks that it does not trust yet."""
        return (
            "Codex asks before it runs new hooks: start codex and choose to trust them (later: /hooks); until then it runs none",
        )

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        value = value or {}
        sort, payload = transcript.text_or_empty(value.get("type")), transcript.object_or_empty(value.get("payload"))
        if sort in _BOOKKEEPING:
            return transcript.BOOKKEEPING
        if sort == "compacted":
            return transcript.COMPACT_SUMMARY
        if sort != "response_item":
            return transcript.UNKNOWN
        name = transcript.text_or_empty(payload.get("type"))
        if name == "message":
            return _kind_of_message(payload)
        if name.endswith("_output"):
            return transcript.TOOL_RESULT
        return transcript.ASSISTANT if name.endswith("_call") or name == "reasoning" else transcript.UNKNOWN

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The user's prompts in conversation order, as far as they are in this file. There are no branches."""
        return [row.prompt for row in _parse_lines(data) if row.prompt is not None]

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The lines before a prompt's turn; for a prompt typed during a turn, the lines before the prompt. None if nothing
        was said before."""
        table = _parse_lines(data)
        at = find_line_of_prompt(table, prompt)
        start = None if prompt.queued else _first_line_of_turn(table, prompt.prompt_id)
        return _without_open_calls(data, table, at if start is None or start > at else start)

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The transcript at a checkpoint, by the turn of its cursor; None if nothing had been said yet. Raises AgentError
        if neither the turn nor the hash of the cursor is in this transcript.

        The client writes a turn's last lines after the hook. So a turn ends at its last line, and a tool at its result.
        """
        table = _parse_lines(data)
        start = _first_line_of_turn(table, cursor.prompt_id)
        if start is not None and trigger in ("turn_end", "session_end"):
            return _without_open_calls(data, table, _index_after_turn(table, start))
        if start is not None and trigger == "prompt":
            return _without_open_calls(data, table, start)
        if cursor.tool_use_id:
            ends = [at for at, row in enumerate(table) if row.result == cursor.tool_use_id]
            if ends:
                return _without_open_calls(data, table, ends[0] + 1)
        if not cursor.offset:
            return None
        return _without_open_calls(data, table, transcript.count_lines_before_cursor(data, table, cursor))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` as a new session: the new id replaces the old one, except in the reference to another file. A rollout has
        no title."""
        old = transcript.text_or_empty(_read_session_meta(data).get("id"))
        cut = cut if cut.endswith(b"\n") else cut + b"\n"
        if not old:
            return cut
        import re  # a late import: a hook does not need it

        if _read_session_meta(data).get("history_base") and not _find_model(cut):  # see _make_strictest_line
            cut += next((data[line.start : line.end] for line in transcript.parse_lines_backwards(data) if _model_in_line(line)), b"")
        # Inside a text of the conversation the quotation marks are escaped, so the pattern finds none there.
        own = re.compile(rb'(?<!"history_base":\{)"(id|session_id|thread_id)":"' + re.escape(old.encode()) + rb'"')
        return own.sub(rb'"\1":"' + session.encode() + rb'"', cut)

    def resume_moved_command(self, session: str) -> str:
        """Without -C, the client's terminal asks for the directory, and proposes the old one."""
        return f"codex resume -C . {session}"

    def fork_path(self, transcript: str, session: str, fork: bytes) -> str:
        """The path of a fork: beside the transcript that it was made from, with the present time in its name."""
        import time

        return os.path.join(os.path.dirname(transcript), f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S')}-{session}.jsonl")

    def path_for_project(self, transcript: str, session: str, root: str, home: str, environ: Mapping[str, str]) -> str:
        """In the directory of the day that its name has."""
        name = os.path.basename(transcript)
        day = name.removeprefix("rollout-")[:10].split("-")
        return os.path.join(self.usual_sessions_directory(home, environ), *day, name)

    def ask_about_hooks(
        self, hooks: "Sequence[InstalledHook]", program: str, root: str | None, environ: Mapping[str, str]
    ) -> "ClientAnswer":
        """Codex says which hooks it knows, and which of them the user trusts."""
        from ..messages import printable
        from .hook_records import ClientAnswer, distinct

        if not hooks:
            return ClientAnswer()
        listed, wrong = _ask_codex_for_hooks(program, root or "/", environ)
        if wrong:
            return ClientAnswer(notes=(f"Codex did not say whether it trusts the hooks ({wrong}): type /hooks in it to see",))
        problems = []
        for path in distinct(hook.settings for hook in hooks):
            here = [hook for hook in hooks if hook.settings == path]
            known = {(str(one.get("eventName")).lower(), one.get("command")): one for one in listed}
            listings = [(hook, known.get((hook.event.lower(), hook.line))) for hook in here]
            where = printable(path)
            if missing := [hook.event for hook, one in listings if one is None]:
                problems.append(
                    f"Codex does not know the hooks of {', '.join(distinct(missing))} in {where}: it reads a project's hooks only where "
                    f"you trust the project, and none if hooks are switched off under [features] in config.toml"
                )
            if untrusted := [hook.event for hook, one in listings if one is not None and one.get("trustStatus") not in _TRUSTED]:
                problems.append(
                    f"Codex does not run the hooks of {', '.join(distinct(untrusted))} in {where}, because you have not trusted them yet: "
                    f"start codex and choose to trust them, or type /hooks in it"
                )
            if off := [hook.event for hook, one in listings if one is not None and one.get("enabled") is False]:
                problems.append(f"the hooks of {', '.join(distinct(off))} in {where} are switched off in Codex: type /hooks in it")
        return ClientAnswer(tuple(problems))


CLIENT = CodexClient()


def _kind_of_message(payload: Value) -> str:
    role = payload.get("role")
    if role == "assistant":
        return transcript.ASSISTANT
    if role != "user":
        return transcript.META
    kinds = _passthrough_metadata(payload).get("content_item_kinds")
    said = "\n".join(_texts_in_content(payload)).lstrip()
    if said.startswith("<turn_aborted>"):
        return transcript.INTERRUPT
    if isinstance(kinds, list):
        return transcript.PROMPT if any(transcript.text_or_empty(kind).startswith(_TYPED) for kind in kinds) else transcript.META
    return transcript.META if said.startswith(_OWN) else transcript.PROMPT


def _passthrough_metadata(payload: Value) -> Value:
    return transcript.object_or_empty(payload.get("internal_chat_message_metadata_passthrough"))


def _texts_in_content(payload: Value) -> list[str]:
    return [transcript.text_or_empty(part.get("text")) for part in transcript.content_blocks(payload.get("content"))]


def _read_session_meta(data: bytes) -> Value:
    """What a file's first line about its session says, or {}."""
    values = (line.value or {} for line in transcript.parse_lines(data))
    found = next((value for value in values if value.get("type") == "session_meta"), {})
    return transcript.object_or_empty(found.get("payload"))


def _make_strictest_line(data: bytes) -> bytes:
    """A session that continues another file gets the approval and the sandbox of that file's last turn: so it gets the strictest
    ones at its end. b"" for any other session. Raises AgentError if it names no model: the client reads no settings without one."""
    from .. import errors

    about = _read_session_meta(data)
    if not about.get("history_base"):
        return b""
    model = _find_model(data)
    if not model:
        raise errors.AgentError("this session of Codex continues another file, and names no model: no session was written")
    state = {"turn_id": about.get("id"), "cwd": about.get("cwd"), "model": model, **_STRICTEST}
    line = {"timestamp": about.get("timestamp"), "type": "turn_context", "payload": state}
    ordinals = [value["ordinal"] for one in transcript.parse_lines(data) if type((value := one.value or {}).get("ordinal")) is int]
    return transcript.encode_line({**line, "ordinal": max(ordinals) + 1} if ordinals else line)


def _find_model(data: bytes) -> str:
    """The model that a session's last settings name, or ""."""
    return next(filter(None, map(_model_in_line, transcript.parse_lines_backwards(data))), "")


def _model_in_line(line: transcript.TranscriptLine) -> str:
    """The model that a line with settings names, or ""."""
    value = line.value or {}
    payload = transcript.object_or_empty(value.get("payload"))
    settings = payload if value.get("type") == "turn_context" else transcript.object_or_empty(payload.get("thread_settings"))
    return transcript.text_or_empty(settings.get("model"))


def _parse_lines(data: bytes) -> list[CodexLine]:
    turns: set[str] = set()
    found = []
    for line in transcript.parse_lines(data):
        row = _parse_line(line)
        if row.prompt is not None:
            if row.turn and row.turn in turns:
                row = row._replace(prompt=row.prompt._replace(queued=True))
            turns.add(row.turn)
        found.append(row)
    return found


def _parse_line(line: transcript.TranscriptLine) -> CodexLine:
    value = line.value or {}
    payload = transcript.object_or_empty(value.get("payload"))
    kind, name = CLIENT.kind_of_line(line.value), transcript.text_or_empty(payload.get("type"))
    is_event, is_item = value.get("type") == "event_msg", value.get("type") == "response_item"
    turn = (
        transcript.text_or_empty(payload.get("turn_id"))
        if is_event
        else transcript.text_or_empty(_passthrough_metadata(payload).get("turn_id"))
    )
    call = transcript.text_or_empty(payload.get("call_id")) if is_item else ""
    prompt = None
    if kind == transcript.PROMPT:
        time = transcript.time_ns(value.get("timestamp"))
        uuid = transcript.text_or_empty(payload.get("id")) or f"{turn}@{line.start}"
        prompt = Prompt("\n".join(_texts_in_content(payload)), turn, "", uuid, "", time, line.start, queued=False)
    return CodexLine(
        start=line.start,
        end=line.end,
        kind=kind,
        turn=turn,
        begins=turn if is_event and name == _STARTED else "",
        ends=turn if is_event and name in _ENDED else "",
        call=call if name.endswith("_call") else "",
        result="" if name.endswith("_call") else call,
        based=value.get("type") == "session_meta" and bool(transcript.object_or_empty(payload.get("history_base"))),
        prompt=prompt,
    )


def _first_line_of_turn(table: Sequence[CodexLine], turn: str) -> int | None:
    """The index of the line that starts a turn, or None."""
    return next((at for at, row in enumerate(table) if turn and row.begins == turn), None)


def _index_after_turn(table: Sequence[CodexLine], start: int) -> int:
    """The index after a turn's last line. A turn without an end lasts until the next turn starts."""
    turn = table[start].begins
    for at in range(start + 1, len(table)):
        if table[at].ends == turn:
            return at + 1
        if table[at].begins:
            return at
    return len(table)


def _without_open_calls(data: bytes, table: Sequence[CodexLine], count: int) -> bytes | None:
    """The first `count` lines, without unanswered calls and unknown lines at the end; None if nothing was said in them."""
    while count := transcript.count_to_known_end(table, count):
        said = [at for at in range(count) if table[at].kind in _SAID]
        if not said and not any(row.based for row in table[:count]):
            return None
        answered = {row.result for row in table[:count]}
        open_call = next((at for at in _calls_at_end(table, said) if table[at].call not in answered), None)
        if open_call is None:
            return data[: table[count - 1].end]
        count = open_call
    return None


def _calls_at_end(table: Sequence[CodexLine], said: Sequence[int]) -> list[int]:
    """The indices of the calls after the last line that is no call, in order."""
    calls: list[int] = []
    for at in reversed(said):
        if not table[at].call:
            break
        calls.append(at)
    return calls[::-1]


def _ask_codex_for_hooks(program: str, root: str, environ: Mapping[str, str]) -> tuple[list[Value], str]:
    """Returns (the hooks that Codex lists for a project, the reason for no answer or "")."""
    import json

    from . import run_program

    name = {"name": "casrewind", "title": "casrewind", "version": "0"}
    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": name, "capabilities": {"experimentalApi": True}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [root]}},
    )
    question = b"".join(json.dumps(one).encode() + b"\n" for one in asked)
    answer, wrong = run_program.ask_json_program([program, "app-server"], root, environ, question, 2)
    if wrong:
        return [], wrong
    try:
        hooks = [hook for place in answer["result"]["data"] for hook in place["hooks"]]
    except (KeyError, TypeError):
        return [], "its answer has another form"
    return [hook for hook in hooks if isinstance(hook, dict)], ""
