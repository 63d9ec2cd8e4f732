"""The lines of Claude Code's transcripts: what each is, and the tree that they form.

The lines with a uuid are a tree: a rewind inside the client removes nothing, the next prompt only points further back.
What a person sees is one branch of it, from the newest leaf up. The calls of a batch of tools hang below one another and
so do not all lie on that branch with their results.
"""

from collections.abc import Sequence

from ..typed import NamedTuple
from . import lines
from .lines import Value
from .prompts import Prompt

_BOOKKEEPING = frozenset(
    {"queue-operation", "last-prompt", "mode", "permission-mode", "atis-latch", "tools-used", "cost-state"}
    | {"file-history-snapshot", "file-history-delta", "api-request", "api-request-shape", "api-request-blob"}
    | {"custom-title", "ai-title", "summary"}
)
_KINDS = {"assistant": lines.ASSISTANT, "attachment": lines.ATTACHMENT, "system": lines.SYSTEM}
_TYPED = ("typed", "sdk")
_TAGS = (
    ("<task-notification>", lines.TASK_NOTIFICATION),
    ("<local-command-", lines.LOCAL_COMMAND),
    ("<bash-", lines.BASH_MODE),
    ("[Request interrupted by user", lines.INTERRUPT),
)
_COMMAND_TAGS = ("<command-name>", "<command-message>")


class Row(NamedTuple):
    """A line: its bytes are [start, end). Ids are "" where it has none.

    `parent` is the line before it in the conversation, over a compaction too. `calls` and `results`: the ids of the tool
    calls that it makes and answers. `pin`: the line at which the conversation goes on by the client's explicit word.
    `boundary`: here the client compacted the conversation. `prompt` has a prompt's line, without the turn's id if queued.
    """

    start: int
    end: int
    kind: str
    uuid: str
    parent: str
    turn: str
    message: str
    calls: tuple[str, ...]
    results: tuple[str, ...]
    pin: str
    boundary: bool
    prompt: Prompt | None


def kind_of(value: Value | None) -> str:
    """The kind of a line, one of lines.KINDS."""
    if value is None:
        return lines.UNKNOWN
    sort = lines.text(value.get("type"))
    if sort in _BOOKKEEPING:
        return lines.BOOKKEEPING
    if sort not in _KINDS and sort != "user":
        return lines.UNKNOWN
    if value.get("isSidechain") is True:
        return lines.SIDECHAIN
    if sort == "attachment" and _is_queued_prompt(lines.members(value.get("attachment"))):
        return lines.QUEUED
    return _KINDS.get(sort) or _kind_of_user(value)


def _kind_of_user(value: Value) -> str:
    """The kind of a line in the person's name. The order matters here and below: what the client says of a line goes before
    its text, because a person may type anything."""
    content = lines.members(value.get("message")).get("content")
    if any(block.get("type") == "tool_result" for block in lines.blocks(content)):
        return lines.TOOL_RESULT
    if value.get("isCompactSummary") is True:
        return lines.COMPACT_SUMMARY
    if value.get("isMeta") is True:
        return lines.META
    return _kind_of_saying(value, content)


def _kind_of_saying(value: Value, content: object) -> str:
    """The kind of a line with words in it that go to the model."""
    origin = lines.text(lines.members(value.get("origin")).get("kind"))
    if origin == "task-notification":
        return lines.TASK_NOTIFICATION
    source = lines.text(value.get("promptSource"))
    if source in _TYPED:
        return lines.PROMPT
    if value.get("interruptedMessageId"):
        return lines.INTERRUPT
    text = "\n".join(lines.texts(content)).lstrip()
    for tag, kind in _TAGS:
        if text.startswith(tag):
            return kind
    if text.startswith(_COMMAND_TAGS):
        return lines.COMMAND if origin == "human" else lines.LOCAL_COMMAND
    if source == "system" or not lines.blocks(content):
        return lines.META
    # Neither flag nor tag: a person's words from a client older than promptSource, or from a source that is new.
    return lines.PROMPT if origin in ("", "human") else lines.META


def _is_queued_prompt(attachment: Value) -> bool:
    """Whether an attachment is a prompt that was typed while a turn was running."""
    if attachment.get("type") != "queued_command" or attachment.get("isMeta") is True:
        return False
    if lines.text(attachment.get("commandMode")) not in ("", "prompt"):
        return False
    if lines.text(lines.members(attachment.get("origin")).get("kind")) not in ("", "human"):
        return False
    return not "\n".join(lines.texts(attachment.get("prompt"))).startswith("<task-notification>")


def rows(data: bytes) -> list[Row]:
    """Every whole line of a transcript."""
    return [_row(line) for line in lines.lines(data)]


def _row(line: lines.Line) -> Row:
    value = line.value or {}
    kind = kind_of(line.value)
    in_tree = kind not in (lines.BOOKKEEPING, lines.UNKNOWN, lines.SIDECHAIN)
    uuid = lines.text(value.get("uuid")) if in_tree else ""
    parent = lines.text(value.get("parentUuid")) or lines.text(value.get("logicalParentUuid")) if in_tree else ""
    message = lines.members(value.get("message"))
    parts = lines.blocks(message.get("content")) if kind in (lines.ASSISTANT, lines.TOOL_RESULT) else []
    is_pin = value.get("type") == "last-prompt" and value.get("explicit") is True
    return Row(
        start=line.start,
        end=line.end,
        kind=kind,
        uuid=uuid,
        parent=parent,
        turn=lines.text(value.get("promptId")) if in_tree else "",
        message=lines.text(message.get("id")),
        calls=tuple(lines.text(part.get("id")) for part in parts if part.get("type") == "tool_use"),
        results=tuple(lines.text(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"),
        pin=lines.text(value.get("leafUuid")) if is_pin else "",
        boundary=kind == lines.SYSTEM and value.get("subtype") == "compact_boundary",
        prompt=_prompt(line, value, kind, uuid, parent) if uuid else None,
    )


def _prompt(line: lines.Line, value: Value, kind: str, uuid: str, parent: str) -> Prompt | None:
    if kind == lines.PROMPT:
        content: object = lines.members(value.get("message")).get("content")
        time: object = value.get("timestamp")
    elif kind == lines.QUEUED:
        content = lines.members(value.get("attachment")).get("prompt")
        time = lines.members(value.get("attachment")).get("timestamp") or value.get("timestamp")
    else:
        return None
    return Prompt(
        text="\n".join(lines.texts(content)),
        prompt_id=lines.text(value.get("promptId")),
        message_id="",
        uuid=uuid,
        parent=parent,
        time_ns=lines.time_ns(time),
        start=line.start,
        queued=kind == lines.QUEUED,
    )


def places(table: Sequence[Row]) -> dict[str, int]:
    """{uuid: index of its line}; of a line that is there twice, the first."""
    found: dict[str, int] = {}
    for index, row in enumerate(table):
        if row.uuid:
            found.setdefault(row.uuid, index)
    return found


def branch(table: Sequence[Row], *, pinned: bool) -> list[int]:
    """The indices of the lines from the conversation's first to its newest leaf.

    `pinned`: the client's explicit word on where the conversation goes on counts like a line. A line whose parent is
    missing follows the line of the tree that is in front of it: the client can take a line out.
    """
    index = places(table)
    at = _leaf(table, index, pinned=pinned)
    found: list[int] = []
    visited: set[int] = set()
    while at is not None and at not in visited:
        visited.add(at)
        found.append(at)
        parent = table[at].parent
        at = None if not parent else index[parent] if parent in index else in_front(table, at)
    return found[::-1]


def _leaf(table: Sequence[Row], index: dict[str, int], *, pinned: bool) -> int | None:
    for at in range(len(table) - 1, -1, -1):
        if table[at].uuid:
            return at
        if pinned and table[at].pin in index:
            return index[table[at].pin]
    return None


def in_front(table: Sequence[Row], at: int) -> int | None:
    """The index of the nearest line of the tree in front of a line, None when there is none."""
    return next((i for i in range(at - 1, -1, -1) if table[i].uuid), None)
