"""Factory Droid's transcripts.

Droid's own rewind makes a new session, so a transcript has one branch, in the order of its lines. Lines that the client
adds for a prompt (context, hook output) precede the prompt, and are cut with it.
"""

from collections.abc import Sequence

from .. import errors
from .._typing import NamedTuple
from ..model.cursor import Cursor
from . import cursors, profiles, session_files, transcript
from .prompts import Prompt, place_of, title_of
from .transcript import Value

PROFILE = profiles.DROID

_CONTEXT = "context-"


class DroidLine(NamedTuple):
    """A line: bytes [start, end). `owner`: id of the following prompt that the line belongs to. `calls` and `results`:
    ids of the tool calls that it makes and answers."""

    start: int
    end: int
    kind: str
    id: str
    owner: str
    calls: tuple[str, ...]
    results: tuple[str, ...]
    prompt: Prompt | None


def kind_of(value: Value | None) -> str:
    """The kind of a line, one of transcript.KINDS."""
    value = value or {}
    message = transcript.members(value.get("message"))
    if value.get("type") in ("session_start", "agent_turn_outcome"):
        return transcript.BOOKKEEPING
    if value.get("type") != "message" or message.get("role") not in ("user", "assistant"):
        return transcript.UNKNOWN
    return transcript.ASSISTANT if message["role"] == "assistant" else _kind_of_user(value, message)


def _kind_of_user(value: Value, message: Value) -> str:
    if message.get("hookEventName") or message.get("visibility") == "user_only":
        return transcript.META
    if transcript.text(value.get("id")).startswith(_CONTEXT):
        return transcript.ATTACHMENT
    content = message.get("content")
    if any(block.get("type") == "tool_result" for block in transcript.blocks(content)):
        return transcript.TOOL_RESULT
    said = _typed(content)
    if said.startswith("[Request interrupted by user"):
        return transcript.INTERRUPT
    has_more = any(block.get("type") != "text" for block in transcript.blocks(content))  # an image, say
    return transcript.PROMPT if said or has_more else transcript.META


def prompts(data: bytes, *, every: bool = False) -> list[Prompt]:
    """The user's prompts in conversation order. There are no branches."""
    return [row.prompt for row in _rows(data) if row.prompt is not None]


def cut(data: bytes, prompt: Prompt) -> bytes | None:
    """The lines before a prompt, without the prompt's own context lines; None if nothing was said before it."""
    table = _rows(data)
    return transcript.closed(data, table, _in_front(table, place_of(table, prompt)))


def cut_at(data: bytes, cursor: Cursor, trigger: str) -> bytes | None:
    """The transcript at a checkpoint, by the ids of its cursor; None if nothing had been said yet. For a checkpoint
    after a tool, the cut is before the tool's result, which the client writes after the hook. Raises AgentError if no
    id and no hash of the cursor is in this transcript."""
    table = _rows(data)
    index = {row.id: at for at, row in enumerate(table) if row.id}
    names = [cursor.event_id] if trigger == "prompt" else [cursor.event_id, cursor.message_id]
    ends = [index[name] for name in names if name in index]
    if ends:
        return transcript.closed(data, table, max(ends) + 1)
    if not cursor.offset and not cursor.event_id:
        return None
    if cursors.holds(cursor, data):
        return transcript.closed(data, table, sum(row.end <= cursor.offset for row in table))
    raise errors.AgentError("the position of that checkpoint is not in this transcript")


def title(data: bytes) -> str:
    """The session's title, else the start of its first prompt, else ""."""
    for line in transcript.lines(data):
        value = line.value or {}
        if value.get("type") == "session_start" and transcript.text(value.get("title")):
            return transcript.text(value["title"])
    return title_of(prompts(data))


def fork(data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
    """`cut` as a new session: the line that names the session gets the new id and title."""
    start = {"id": session, "title": session_files.fork_title(title(data))}
    return transcript.replaced(cut, lambda value: {**value, **start} if value.get("type") == "session_start" else None)


def fork_path(transcript: str, session: str, fork: bytes) -> str:
    """The path of a fork: beside the transcript that it was made from."""
    return session_files.beside(transcript, session)


in_place = session_files.cut_alone


def _typed(content: object) -> str:
    """The user's own words in a message, without the client's reminders."""
    return "\n".join(text for text in transcript.texts(content) if not text.lstrip().startswith("<system-reminder>"))


def _rows(data: bytes) -> list[DroidLine]:
    return [_row(line) for line in transcript.lines(data)]


def _row(line: transcript.TranscriptLine) -> DroidLine:
    value = line.value or {}
    kind = kind_of(line.value)
    message = transcript.members(value.get("message"))
    name = transcript.text(value.get("id")) if value.get("type") == "message" else ""
    parts = transcript.blocks(message.get("content"))
    prompt = None
    if kind == transcript.PROMPT and name:
        words, time = _typed(message.get("content")), transcript.time_ns(value.get("timestamp"))
        prompt = Prompt(words, "", name, name, transcript.text(value.get("parentId")), time, line.start, queued=False)
    return DroidLine(
        start=line.start,
        end=line.end,
        kind=kind,
        id=name,
        owner=name.removeprefix(_CONTEXT) if name.startswith(_CONTEXT) else transcript.text(message.get("hookParentId")),
        calls=tuple(transcript.text(part.get("id")) for part in parts if part.get("type") == "tool_use"),
        results=tuple(transcript.text(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"),
        prompt=prompt,
    )


def _in_front(table: Sequence[DroidLine], at: int) -> int:
    """The number of lines before a prompt and its context lines."""
    name = table[at].id
    while at > 0 and table[at - 1].owner == name:
        at -= 1
    return at
