"""Factory Droid.

Its own rewind makes a new session, so a transcript holds one branch, in the order of its lines. What the client adds for
a prompt (a context line, the lines of the hooks that it ran) stands in front of it and goes with it.
"""

from collections.abc import Sequence

from .. import errors
from ..model.cursor import Cursor
from ..typed import NamedTuple
from . import cursors, lines, profiles, sessions
from .lines import Value
from .prompts import Prompt

PROFILE = profiles.DROID

_CONTEXT = "context-"


class Row(NamedTuple):
    """A line: its bytes are [start, end). `owner` is the id of the prompt that a line in front of it was written for;
    `calls` and `results` the ids of the tool calls that it makes and answers."""

    start: int
    end: int
    kind: str
    id: str
    owner: str
    calls: tuple[str, ...]
    results: tuple[str, ...]
    prompt: Prompt | None


def kind_of(value: Value | None) -> str:
    """The kind of a line, one of lines.KINDS."""
    value = value or {}
    message = lines.members(value.get("message"))
    if value.get("type") in ("session_start", "agent_turn_outcome"):
        return lines.BOOKKEEPING
    if value.get("type") != "message" or message.get("role") not in ("user", "assistant"):
        return lines.UNKNOWN
    return lines.ASSISTANT if message["role"] == "assistant" else _kind_of_user(value, message)


def _kind_of_user(value: Value, message: Value) -> str:
    """The kind of a message in the person's name."""
    if message.get("hookEventName") or message.get("visibility") == "user_only":
        return lines.META
    if lines.text(value.get("id")).startswith(_CONTEXT):
        return lines.ATTACHMENT
    content = message.get("content")
    if any(block.get("type") == "tool_result" for block in lines.blocks(content)):
        return lines.TOOL_RESULT
    said = _typed(content)
    if said.startswith("[Request interrupted by user"):
        return lines.INTERRUPT
    has_more = any(block.get("type") != "text" for block in lines.blocks(content))  # an image, say
    return lines.PROMPT if said or has_more else lines.META


def prompts(data: bytes, *, every: bool = False) -> list[Prompt]:  # noqa: ARG001 - there are no branches here
    """What the person typed, in conversation order."""
    return [row.prompt for row in _rows(data) if row.prompt is not None]


def cut(data: bytes, prompt: Prompt) -> bytes | None:
    """The lines in front of a prompt, less those that were written for it; None when nothing was said before it."""
    table = _rows(data)
    at = next((at for at, row in enumerate(table) if row.prompt is not None and row.id == prompt.message_id), None)
    if at is None:
        raise errors.AgentError("that prompt is not in this transcript (any more)")
    return _closed(data, table, _in_front(table, at))


def cut_at(data: bytes, cursor: Cursor, trigger: str) -> bytes | None:
    """The transcript as it was at a checkpoint, by the ids of its cursor; None when nothing had been said.

    After a tool that is in front of the message that called it: its result is written when the hook is done. Raises
    AgentError when no id and no hash of the cursor is in this transcript.
    """
    table = _rows(data)
    index = {row.id: at for at, row in enumerate(table) if row.id}
    names = [cursor.event_id] if trigger == "prompt" else [cursor.event_id, cursor.message_id]
    ends = [index[name] for name in names if name in index]
    if ends:
        return _closed(data, table, max(ends) + 1)
    if not cursor.offset and not cursor.event_id:
        return None
    if cursors.holds(cursor, data):
        return _closed(data, table, sum(row.end <= cursor.offset for row in table))
    raise errors.AgentError("the place of that checkpoint is not in this transcript (any more)")


def title(data: bytes) -> str:
    """What the session is called, else the beginning of its first prompt, else ""."""
    for line in lines.lines(data):
        value = line.value or {}
        if value.get("type") == "session_start" and lines.text(value.get("title")):
            return lines.text(value["title"])
    first = next((prompt.text for prompt in prompts(data) if prompt.text.strip()), "")
    return first.strip().partition("\n")[0][:80]


def fork(data: bytes, cut: bytes, session: str, title: str = "") -> bytes:
    """`cut` as a session of its own: its first line, which names it, gets the new id and title."""
    name = sessions.fork_title(PROFILE, title or _title_of(data))
    parts = []
    for line in lines.lines(cut if cut.endswith(b"\n") else cut + b"\n"):
        if line.value is not None and line.value.get("type") == "session_start":
            start = {**line.value, "id": session, "title": name}
            import json  # here: a hook has no need of it

            parts.append(json.dumps(start, separators=(",", ":")).encode() + b"\n")
        else:
            parts.append(cut[line.start : line.end])
    return b"".join(parts)


_title_of = title  # inside fork the name is its parameter's


def _typed(content: object) -> str:
    """The person's own words in a message; the client may put reminders in front of them."""
    return "\n".join(text for text in lines.texts(content) if not text.lstrip().startswith("<system-reminder>"))


def _rows(data: bytes) -> list[Row]:
    return [_row(line) for line in lines.lines(data)]


def _row(line: lines.Line) -> Row:
    value = line.value or {}
    kind = kind_of(line.value)
    message = lines.members(value.get("message"))
    name = lines.text(value.get("id")) if value.get("type") == "message" else ""
    parts = lines.blocks(message.get("content"))
    prompt = None
    if kind == lines.PROMPT and name:
        words, time = _typed(message.get("content")), lines.time_ns(value.get("timestamp"))
        prompt = Prompt(words, "", name, name, lines.text(value.get("parentId")), time, line.start, queued=False)
    return Row(
        start=line.start,
        end=line.end,
        kind=kind,
        id=name,
        owner=name.removeprefix(_CONTEXT) if name.startswith(_CONTEXT) else lines.text(message.get("hookParentId")),
        calls=tuple(lines.text(part.get("id")) for part in parts if part.get("type") == "tool_use"),
        results=tuple(lines.text(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"),
        prompt=prompt,
    )


def _in_front(table: Sequence[Row], at: int) -> int:
    """The number of lines in front of a prompt and of those that were written for it."""
    name = table[at].id
    while at > 0 and table[at - 1].owner == name:
        at -= 1
    return at


def _closed(data: bytes, table: Sequence[Row], count: int) -> bytes | None:
    """The first `count` lines, less calls at the end that are not answered; None when nothing was said in them."""
    while count:
        said = [at for at in range(count) if table[at].kind in (lines.PROMPT, lines.ASSISTANT)]
        if not said:
            return None
        answered = {result for row in table[:count] for result in row.results}
        if answered.issuperset(table[said[-1]].calls):
            return data[: table[count - 1].end]
        count = said[-1]
    return None
