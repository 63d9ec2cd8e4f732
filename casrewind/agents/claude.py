"""Claude Code's transcripts: the kinds of lines, the tree that they form, and where a rewind cuts it.

The danger prevented here: a rewound conversation contains turns that the user abandoned, or the client rejects it. The lines with a uuid
form a tree. A rewind inside the client removes no lines; the next prompt only points further back. Lines of unknown kinds are in that
tree, too: in some sessions more than a third of it. The user sees one branch, from the newest leaf up. So a cut is after the parent of a
prompt, and never inside a batch of tool calls. The calls of a batch form a chain, so their results are not all on that branch.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from .. import errors, fsio
from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, title_from_prompts, title_to_type

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines

_TRIGGERS = {**client.EVENTS, client.SUBAGENT_START: "tool_batch", "PostToolBatch": "tool_batch"}
_HEAD = 16 * 1024  # bytes of a payload that are searched for its client, and of a note
_BOOKKEEPING = frozenset(
    {"queue-operation", "last-prompt", "mode", "permission-mode", "atis-latch", "tools-used", "cost-state"}
    | {"file-history-snapshot", "file-history-delta", "api-request", "api-request-shape", "api-request-blob"}
    | {"custom-title", "ai-title", "summary"}
)
_KINDS = {"assistant": transcript.ASSISTANT, "attachment": transcript.ATTACHMENT, "system": transcript.SYSTEM}
_TYPED = ("typed", "sdk")
_WRITERS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
"""{tool: its argument with the path that it writes}."""
_TAGS = (
    ("<task-notification>", transcript.TASK_NOTIFICATION),
    ("<local-command-", transcript.LOCAL_COMMAND),
    ("<bash-", transcript.BASH_MODE),
    ("[Request interrupted by user", transcript.INTERRUPT),
)
_COMMAND_TAGS = ("<command-name>", "<command-message>")
_WORKTREE_NOTE = "worktree-state"
_SEARCHED = 1 << 20  # bytes at the end of a transcript; the client repeats the note with each turn
_SAID = frozenset({transcript.PROMPT, transcript.COMMAND, transcript.TASK_NOTIFICATION, transcript.ASSISTANT, transcript.COMPACT_SUMMARY})
_TITLES = (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary"))


class ClaudeLine(NamedTuple):
    """A line of a transcript. Missing ids are ""."""

    start: int
    """The position of its first byte."""
    end: int
    """The position behind its last byte."""
    kind: str
    """One of transcript.KINDS."""
    uuid: str
    """Its id in the tree."""
    parent: str
    """The previous line of the conversation, across compactions."""
    turn: str
    """The id of its turn."""
    message: str
    """The id of the model's message that it is a part of."""
    calls: tuple[str, ...]
    """The ids of the tool calls that it makes."""
    results: tuple[str, ...]
    """The ids of the tool calls that it answers."""
    pin: str
    """The line from which the client explicitly continues."""
    boundary: bool
    """The client compacted the conversation here."""
    is_link: bool
    """It is not of a kind that is known to be in the conversation. It only links its children to its parent."""
    prompt: Prompt | None
    """The prompt that it holds, or None. A queued prompt has no turn id."""

    @property
    def may_end(self) -> bool:
        """True for a line that may be the newest leaf, or the end of a cut."""
        return self.uuid != "" and not self.is_link


class ClaudeClient(client.ConversationClient):
    """Claude Code. Other clients call the hooks in its settings, too."""

    name = "claude"
    title = "Claude Code"
    program = "claude"
    events = client.ClientEvents(
        triggers={**_TRIGGERS, "StopFailure": "turn_end"},
        before_tool="PreToolUse",
        by_tool=frozenset({"PreToolUse"}),
        harmless_tools=frozenset(
            {"Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "ToolSearch", "TodoRead", "TodoWrite"}
            | {"TaskList", "TaskGet", "TaskOutput", "BashOutput", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}
        ),
        turn_field="prompt_id",
        root_variables=("CLAUDE_PROJECT_DIR",),
        pid_variables=("CLAUDE_PID",),
        env_file_variables=("CLAUDE_ENV_FILE",),
        tells_model=True,
    )
    places = client.ClientPlaces(home=".claude", home_variable="CLAUDE_CONFIG_DIR")
    settings = client.ClientSettings(
        hooks=client.make_hooks(_TRIGGERS, {"PreToolUse": "*"}),
        files=(client.HookFile("settings.json", "hooks"),),
        aside=(client.HookFile("settings.local.json", "hooks"),),
        off_key="disableAllHooks",
    )
    sessions = client.SessionFormat(
        directory="projects",
        resume="claude --resume {session}",
        resume_inside="/resume {title}",
        by_project=True,
        line_id="uuid",
        client_version=("version",), shell=transcript.ShellCalls(("message", "content"), frozenset({"Bash"}), ("input", "command")),
    )

    def carried_lines(self) -> "CarriedLines":
        """Its own mode lines, and what a prompt and a decision were allowed, stay where they were."""
        from .carried_lines import CarriedLines

        titles = {"custom-title", "ai-title", "summary"}
        files = {"file-history-snapshot", "file-history-delta", "content-replacement"}
        requests = {"api-request", "api-request-shape", "api-request-blob", "tools-used", "queue-operation", "last-prompt"}
        tools: dict[tuple[str, ...], object] = {("attachment", "attachment", "allowedTools"): []}  # a command brings along what it may use
        return CarriedLines(frozenset(titles | files | requests), (("uuid",),), state=frozenset({"mode"}), instead=tools)

    def name_sender(self, payload: bytes) -> str:
        """Cursor calls the hooks in Claude Code's settings."""
        return "cursor" if b'"cursor_version"' in payload[:_HEAD] else self.name

    def person_answer(self, text: str) -> dict[str, str]:
        """The member that the client shows to the person."""
        return {"systemMessage": text}

    def slash_command_path(self, directory: str) -> str:
        """The client's commands are files in a directory of its settings."""
        return os.path.join(directory, "commands", "casrewind.md")

    def short_command_path(self, directory: str) -> str:
        """As `slash_command_path`."""
        return os.path.join(directory, "commands", "back.md")

    def find_plugins(self, directory: str) -> dict[str, list[str]]:
        """The plugin of ours in the client's list."""
        from . import claude_plugin

        return claude_plugin.our_plugins_in_list(os.path.join(directory, "plugins", "installed_plugins.json"))

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        if value is None:
            return transcript.UNKNOWN
        sort = transcript.text_or_empty(value.get("type"))
        if sort in _BOOKKEEPING:
            return transcript.BOOKKEEPING
        if value.get("isSidechain") is True:
            return transcript.SIDECHAIN
        if sort not in _KINDS and sort != "user":
            return transcript.UNKNOWN
        if sort == "attachment" and _is_queued_prompt(transcript.object_or_empty(value.get("attachment"))):
            return transcript.QUEUED
        return _KINDS.get(sort) or _kind_of_user(value)

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The user's prompts on the current branch, in conversation order; with `every`, all prompts in file order. A
        prompt typed during a turn gets that turn's prompt_id, as in its hook event."""
        table = parse_lines(data)
        found, turn = [], ""
        for at in range(len(table)) if every else branch_to_newest_leaf(table, pinned=True):
            prompt = table[at].prompt
            turn = table[at].turn or turn
            if prompt is not None:
                found.append(prompt._replace(prompt_id=prompt.prompt_id or turn) if prompt.queued else prompt)
        return found

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The transcript up to and including the parent of a prompt; None if nothing was said before it. For a queued
        prompt the cut is in the running turn: after the tool results that preceded its delivery to the model."""
        table = parse_lines(data)
        index = first_lines_by_uuid(table)
        target = index.get(prompt.uuid)
        if target is None:
            raise errors.AgentError("that prompt is not in this transcript")
        return _without_open_calls(data, table, _end_above(table, index, target))

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The transcript at a checkpoint, by the ids of its cursor; None if nothing had been said yet.

        A hook runs before the client writes its last lines. So a turn ends where the next turn starts, a batch at its last
        result, a compaction at its boundary. Raises AgentError if no id and no hash of the cursor is in this transcript.
        """
        table = parse_lines(data)
        index = first_lines_by_uuid(table)
        ends = _at_or_before(table, index[cursor.event_id]) if cursor.event_id in index else []
        if trigger in ("turn_end", "session_end"):
            ends += _last_line_of_turn(table, cursor.prompt_id or _turn_at_or_before(table, max(ends, default=-1)))
        if cursor.tool_use_id:
            ends += [at for at, row in enumerate(table) if cursor.tool_use_id in row.results][:1]
        if ends:
            end = max(ends)
            return _without_open_calls(data, table, _line_before_compaction(table, end) if trigger == "compact" else end)
        if not cursor.offset and not cursor.event_id:
            return None
        return _without_open_calls(data, table, transcript.count_lines_before_cursor(data, table, cursor) - 1)

    def title_of(self, data: bytes) -> str:
        """The session's title, else the start of its first prompt, else ""."""
        for sort, field in _TITLES:
            for line in transcript.parse_lines_containing(data, f'"{sort}"'.encode()):
                value = line.value or {}
                if value.get("type") == sort and transcript.text_or_empty(value.get(field)):
                    return transcript.text_or_empty(value[field])
        return title_from_prompts(self.prompts(data))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` as a new session. Its lines keep the old session id, which the client accepts."""
        title = title_to_type(self.title_of(data), session, transcript.newest_text_at(data, ("sessionId",)))
        line = {"type": "custom-title", "customTitle": title, "sessionId": session}
        return cut + (b"" if cut.endswith(b"\n") else b"\n") + transcript.encode_line(line)

    def fork_for_other_root(self, data: bytes, old: Sequence[str], root: str) -> bytes:
        """Each line names its working directory, and the client tells the model of the one that it is started in."""
        from .. import locations  # late: a hook does not need it

        spelled: dict[str, str] = {}  # the client writes the path with which it was started, on each line

        def change(value: Value) -> Value | None:
            cwd = transcript.text_or_empty(value.get("cwd"))
            if cwd and not any(locations.is_in(cwd, place) for place in old):
                if cwd not in spelled:
                    spelled[cwd] = locations.real_path(cwd)
                cwd = spelled[cwd]
            place = next((place.rstrip("/") for place in old if cwd and locations.is_in(cwd, place)), None)
            return None if place is None else {**value, "cwd": root + cwd[len(place) :]}

        return transcript.with_lines_replaced(data, change)

    def written_by_tools(self, data: bytes) -> tuple[str, ...]:
        """See `Client`."""
        return transcript.paths_in_calls(data, _WRITERS)

    def task_of_subagent(self, transcript: str) -> str:
        """See `Client`."""
        return _noted_task(f"{transcript.removesuffix('.jsonl')}.meta.json")

    def works_in(self, transcript: str, directory: str) -> bool:
        """See `Client`. Where a variable gives the directory of transcripts another name, the client's note of its worktree counts."""
        if super().works_in(transcript, directory):
            return True
        from .. import locations

        noted = _noted_worktree(transcript)
        return noted != "" and locations.real_path(noted) == locations.real_path(directory)


CLIENT = ClaudeClient()


def _kind_of_user(value: Value) -> str:
    """The kind of a user line. Order matters here and below: the client's flags precede the text, because a user may
    type anything."""
    content = transcript.object_or_empty(value.get("message")).get("content")
    if any(block.get("type") == "tool_result" for block in transcript.content_blocks(content)):
        return transcript.TOOL_RESULT
    if value.get("isCompactSummary") is True:
        return transcript.COMPACT_SUMMARY
    if value.get("isMeta") is True:
        return transcript.META
    return _kind_of_user_text(value, content)


def _kind_of_user_text(value: Value, content: object) -> str:
    """The kind of a user line with text for the model."""
    origin = transcript.text_or_empty(transcript.object_or_empty(value.get("origin")).get("kind"))
    if origin == "task-notification":
        return transcript.TASK_NOTIFICATION
    source = transcript.text_or_empty(value.get("promptSource"))
    if source in _TYPED:
        return transcript.PROMPT
    if value.get("interruptedMessageId"):
        return transcript.INTERRUPT
    text = "\n".join(transcript.content_texts(content)).lstrip()
    for tag, kind in _TAGS:
        if text.startswith(tag):
            return kind
    if text.startswith(_COMMAND_TAGS):
        return transcript.COMMAND if origin == "human" else transcript.LOCAL_COMMAND
    if source == "system" or not transcript.content_blocks(content):
        return transcript.META
    # No flag and no tag: the user's words from a client without promptSource, or a new kind of source.
    return transcript.PROMPT if origin in ("", "human") else transcript.META


def _is_queued_prompt(attachment: Value) -> bool:
    if attachment.get("type") != "queued_command" or attachment.get("isMeta") is True:
        return False
    if transcript.text_or_empty(attachment.get("commandMode")) not in ("", "prompt"):
        return False
    if transcript.text_or_empty(transcript.object_or_empty(attachment.get("origin")).get("kind")) not in ("", "human"):
        return False
    return not "\n".join(transcript.content_texts(attachment.get("prompt"))).startswith("<task-notification>")


def parse_lines(data: bytes) -> list[ClaudeLine]:
    """Every complete line of a transcript."""
    return [_parse_line(line) for line in transcript.parse_lines(data)]


def _parse_line(line: transcript.TranscriptLine) -> ClaudeLine:
    value = line.value or {}
    kind = CLIENT.kind_of_line(line.value)
    is_link = kind in (transcript.BOOKKEEPING, transcript.UNKNOWN)
    in_tree = "parentUuid" in value if is_link else kind != transcript.SIDECHAIN
    uuid = transcript.text_or_empty(value.get("uuid")) if in_tree else ""
    parent = (
        transcript.text_or_empty(value.get("parentUuid")) or transcript.text_or_empty(value.get("logicalParentUuid")) if in_tree else ""
    )
    message = transcript.object_or_empty(value.get("message"))
    parts = transcript.content_blocks(message.get("content")) if kind in (transcript.ASSISTANT, transcript.TOOL_RESULT) else []
    is_pin = value.get("type") == "last-prompt" and value.get("explicit") is True
    return ClaudeLine(
        start=line.start,
        end=line.end,
        kind=kind,
        uuid=uuid,
        parent=parent,
        turn=transcript.text_or_empty(value.get("promptId")) if in_tree and not is_link else "",
        message=transcript.text_or_empty(message.get("id")),
        calls=tuple(transcript.text_or_empty(part.get("id")) for part in parts if part.get("type") == "tool_use"),
        results=tuple(transcript.text_or_empty(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"),
        pin=transcript.text_or_empty(value.get("leafUuid")) if is_pin else "",
        boundary=kind == transcript.SYSTEM and value.get("subtype") == "compact_boundary",
        is_link=is_link,
        prompt=_prompt_in_line(line, value, kind, uuid, parent) if uuid else None,
    )


def _prompt_in_line(line: transcript.TranscriptLine, value: Value, kind: str, uuid: str, parent: str) -> Prompt | None:
    if kind == transcript.PROMPT:
        content: object = transcript.object_or_empty(value.get("message")).get("content")
        time: object = value.get("timestamp")
    elif kind == transcript.QUEUED:
        content = transcript.object_or_empty(value.get("attachment")).get("prompt")
        time = transcript.object_or_empty(value.get("attachment")).get("timestamp") or value.get("timestamp")
    else:
        return None
    return Prompt(
        text="\n".join(transcript.content_texts(content)),
        prompt_id=transcript.text_or_empty(value.get("promptId")),
        message_id="",
        uuid=uuid,
        parent=parent,
        time_ns=transcript.time_ns(time),
        start=line.start,
        queued=kind == transcript.QUEUED,
    )


def first_lines_by_uuid(table: Sequence[ClaudeLine]) -> dict[str, int]:
    """{uuid: index of its first line, of a known kind if there is one}."""
    found: dict[str, int] = {}
    for is_link in (False, True):
        for index, row in enumerate(table):
            if row.uuid and row.is_link == is_link:
                found.setdefault(row.uuid, index)
    return found


def branch_to_newest_leaf(table: Sequence[ClaudeLine], *, pinned: bool) -> list[int]:
    """The indices of the lines from the conversation's first line to its newest leaf. `pinned`: the client's explicit
    choice of where to continue counts as a leaf."""
    index = first_lines_by_uuid(table)
    at = _newest_leaf_or_pin(table, index, pinned=pinned)
    found: list[int] = []
    visited: set[int] = set()
    while at is not None and at not in visited:
        visited.add(at)
        found.append(at)
        at = _line_above(table, index, at)
    return found[::-1]


def _line_above(table: Sequence[ClaudeLine], index: dict[str, int], at: int) -> int | None:
    """The index of a line's parent, None for a first line. A client can remove a line; its children then follow the
    previous line that may be a leaf."""
    parent = table[at].parent
    return None if not parent else index[parent] if parent in index else tree_line_before(table, at)


def _end_above(table: Sequence[ClaudeLine], index: dict[str, int], at: int) -> int | None:
    """The index of the nearest line above a line that may be the end of a cut, or None."""
    while True:
        above = _line_above(table, index, at)
        if above is not None and above >= at:  # the lines were reordered
            above = tree_line_before(table, at)
        if above is None or table[above].may_end:
            return above
        at = above  # always less


def _newest_leaf_or_pin(table: Sequence[ClaudeLine], index: dict[str, int], *, pinned: bool) -> int | None:
    for at in range(len(table) - 1, -1, -1):
        if table[at].may_end:
            return at
        if pinned and table[at].pin in index:
            return index[table[at].pin]
    return None


def tree_line_before(table: Sequence[ClaudeLine], at: int) -> int | None:
    """The index of the nearest line before a line that may be a leaf, or None."""
    return next((i for i in range(at - 1, -1, -1) if table[i].may_end), None)


def _at_or_before(table: Sequence[ClaudeLine], at: int) -> list[int]:
    """A list with the index of a line, or of the nearest line before it, that may end a cut; [] without one."""
    found = at if table[at].may_end else tree_line_before(table, at)
    return [] if found is None else [found]


def _without_open_calls(data: bytes, table: Sequence[ClaudeLine], end: int | None) -> bytes | None:
    """The lines up to and including `end`, without an unanswered batch of calls at the end; None if nothing was said.
    Lines with the client's explicit choice of where to continue are removed: the last line decides here. So are lines of
    unknown kinds behind that one."""
    while end is not None and end >= 0:
        table = table[: end + 1]
        chain = branch_to_newest_leaf(table, pinned=False)
        if not any(table[at].kind in _SAID for at in chain):
            return None
        start = _start_of_unanswered_batch(table, chain)
        if start is None:
            kept = [row for at, row in enumerate(table) if at <= chain[-1] or not (row.uuid or row.kind == transcript.UNKNOWN)]
            return b"".join(data[row.start : row.end] for row in kept if not row.pin)
        parent = _end_above(table, first_lines_by_uuid(table), start)
        end = parent if parent is not None else tree_line_before(table, start)
    return None


def _start_of_unanswered_batch(table: Sequence[ClaudeLine], chain: Sequence[int]) -> int | None:
    """The index of the first call of the branch's last message if one of its calls has no result, else None. Unanswered
    calls of earlier messages are kept: the client already sent them on."""
    last = next((at for at in reversed(chain) if table[at].kind in _SAID), None)
    if last is None or table[last].kind != transcript.ASSISTANT:
        return None
    message = table[last].message
    group = {at for at, row in enumerate(table) if row.message == message and row.calls} if message else {last}
    answered = {result for row in table for result in row.results}
    if all(answered.issuperset(table[at].calls) for at in group):
        return None
    return min(group.intersection(chain), default=last)


def _noted_worktree(path: str) -> str:
    """The worktree in which the client works by its last note in a transcript; "" if it left it, or noted none."""
    data = b""
    with suppress(OSError, ValueError), fsio.closing(fsio.open_regular(os.path.realpath(path))) as fd:
        os.lseek(fd, max(os.fstat(fd).st_size - _SEARCHED, 0), os.SEEK_SET)
        data = fsio.read_fd(fd)
    noted = (line.value or {} for line in transcript.parse_lines_containing(data, _WORKTREE_NOTE.encode()))
    last = next((value for value in noted if value.get("type") == _WORKTREE_NOTE), {})
    return transcript.text_or_empty(transcript.object_or_empty(last.get("worktreeSession")).get("worktreePath"))


def _noted_task(path: str) -> str:
    """The description of a subagent in the client's note of it."""
    with suppress(OSError, ValueError):
        return transcript.text_or_empty(transcript.object_or_empty(transcript.parse_object(fsio.read_file(path, _HEAD))).get("description"))
    return ""


def _last_line_of_turn(table: Sequence[ClaudeLine], turn: str) -> list[int]:
    """The index of a turn's last line, in a list; [] if the turn is missing. A turn lasts until a user line has a
    different turn id. A compaction belongs to the turn if the turn continues after it."""
    start = next((at for at, row in enumerate(table) if turn and row.turn == turn), None)
    if start is None:
        return []
    end, behind = start, False
    for at in range(start, len(table)):
        row = table[at]
        if row.turn and row.turn != turn:
            break
        behind = row.boundary or (behind and not row.turn)
        if row.may_end and not behind:
            end = at
    return [end]


def _turn_at_or_before(table: Sequence[ClaudeLine], at: int) -> str:
    """The turn id of a line: that of the nearest line at or before it with a turn id."""
    return next((table[i].turn for i in range(at, -1, -1) if table[i].turn), "")


def _line_before_compaction(table: Sequence[ClaudeLine], end: int) -> int | None:
    """The index of the last line before the first compaction after `end`; `end` if there is no compaction."""
    boundary = next((at for at in range(end + 1, len(table)) if table[at].boundary), None)
    if boundary is None:
        return end
    parent = _end_above(table, first_lines_by_uuid(table), boundary)
    return parent if parent is not None and end <= parent else tree_line_before(table, boundary)
