"""The lines of a transcript, read without trusting them.

A transcript belongs to another program that is writing it right now: its last line may be torn, a crash may have left
zeros, a tool may have put out bytes that are no UTF-8. A line that cannot be read is still a line: it keeps its place and
passes through as it is.
"""

from collections.abc import Iterator

from .._typing import Any, NamedTuple
from ..fastjson import loads

Value = dict[str, Any]
"""A line's JSON object."""


PROMPT, QUEUED = "prompt", "queued"
"""What a person typed: between turns, and while a turn was running."""
COMMAND, LOCAL_COMMAND, BASH_MODE = "command", "local_command", "bash_mode"
"""A command whose text goes to the model, one that the client carries out itself, a shell line typed by the person."""
TASK_NOTIFICATION, INTERRUPT, META, COMPACT_SUMMARY = "task_notification", "interrupt", "meta", "compact_summary"
"""Lines in the person's name that the client wrote."""
TOOL_RESULT, ASSISTANT, ATTACHMENT, SYSTEM, SIDECHAIN = "tool_result", "assistant", "attachment", "system", "sidechain"
"""Other parts of a conversation; the last is a subagent's."""
BOOKKEEPING, UNKNOWN = "bookkeeping", "unknown"
"""Lines that are no part of the conversation, and lines of a kind that this version does not know."""
KINDS = frozenset(
    {PROMPT, QUEUED, COMMAND, LOCAL_COMMAND, BASH_MODE, TASK_NOTIFICATION, INTERRUPT, META, COMPACT_SUMMARY, TOOL_RESULT}
    | {ASSISTANT, ATTACHMENT, SYSTEM, SIDECHAIN, BOOKKEEPING, UNKNOWN}
)


class TranscriptLine(NamedTuple):
    """A whole line: its bytes are [start, end) of the transcript, the newline included. `value` is None when they are
    no JSON object."""

    start: int
    end: int
    value: Value | None


def parse(raw: bytes) -> Value | None:
    """The JSON object that these bytes are, None when they are none. Clients read broken UTF-8 as U+FFFD; so does this."""
    try:
        value = loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):  # the second: somebody nested brackets a thousand deep
        return None
    return value if isinstance(value, dict) else None


def whole(data: bytes) -> int:
    """The end of the last whole line, in bytes; what stands behind it is still being written."""
    return data.rfind(b"\n") + 1


def lines(data: bytes) -> Iterator[TranscriptLine]:
    """Every whole line, in order."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield TranscriptLine(start, end, parse(data[start:end]))
        start = end


def backwards(data: bytes) -> Iterator[TranscriptLine]:
    """Every whole line, the last one first. The first line given back may begin before `data` does: then it is None."""
    end = whole(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end - 1) + 1
        yield TranscriptLine(start, end, parse(data[start:end]))
        end = start


def text(value: object) -> str:
    """A field that should be text, "" when it is anything else."""
    return value if isinstance(value, str) else ""


def members(value: object) -> Value:
    """A field that should be an object, {} when it is anything else."""
    return value if isinstance(value, dict) else {}


def blocks(content: object) -> list[Value]:
    """The blocks of a message's content: a list of objects, or plain text as one block of type "text"."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def texts(content: object) -> list[str]:
    """The texts of a message's content."""
    return [text(block.get("text")) for block in blocks(content) if block.get("type") == "text"]


def time_ns(value: object) -> int:
    """A time as transcripts write it ("2026-11-20T23:31:06.967Z"), in nanoseconds since 1970; 0 when it is none."""
    from datetime import UTC, datetime, timedelta  # 1 ms that hooks do not need

    try:
        moment = datetime.fromisoformat(text(value))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def containing(data: bytes, word: bytes) -> Iterator[TranscriptLine]:
    """Every whole line with `word` in it, the last one first. Only these are parsed."""
    end = whole(data)
    while (at := data.rfind(word, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at) + 1
        yield TranscriptLine(start, stop, parse(data[start:stop]))
        end = start
