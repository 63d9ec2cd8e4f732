"""Reads the lines of a transcript without trusting them.

Another program is still writing the transcript. Its last line may be incomplete, a crash may have left zeros, tool
output may be invalid UTF-8. An unreadable line is still a line: it keeps its position and is copied unchanged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple, Protocol
from ..fastjson import JsonObject, loads

if TYPE_CHECKING:
    from ..model.cursor import Cursor

Value = JsonObject
"""A line's JSON object."""


PROMPT, QUEUED = "prompt", "queued"
"""Prompts typed by the user between turns, and during a turn."""
COMMAND, LOCAL_COMMAND, BASH_MODE = "command", "local_command", "bash_mode"
"""A command with text for the model, a command that the client executes itself, a shell line typed by the user."""
TASK_NOTIFICATION, INTERRUPT, META, COMPACT_SUMMARY = "task_notification", "interrupt", "meta", "compact_summary"
"""User lines that the client wrote."""
TOOL_RESULT, ASSISTANT, ATTACHMENT, SYSTEM, SIDECHAIN = "tool_result", "assistant", "attachment", "system", "sidechain"
"""Other parts of a conversation; a sidechain is a subagent's."""
BOOKKEEPING, UNKNOWN = "bookkeeping", "unknown"
"""Lines that do not belong to the conversation, and lines of an unknown kind."""
KINDS = frozenset(
    {PROMPT, QUEUED, COMMAND, LOCAL_COMMAND, BASH_MODE, TASK_NOTIFICATION, INTERRUPT, META, COMPACT_SUMMARY, TOOL_RESULT}
    | {ASSISTANT, ATTACHMENT, SYSTEM, SIDECHAIN, BOOKKEEPING, UNKNOWN}
)

OF_AGENT = frozenset({ASSISTANT, TOOL_RESULT, TASK_NOTIFICATION, COMPACT_SUMMARY})
"""Lines that only a turn has which goes on."""
FOR_AGENT = frozenset({PROMPT, QUEUED, COMMAND})
"""What a person types for the agent."""

TAG = 4
"""Characters of a session's id in a title that a person types. Lists have as many, or more if two sessions begin alike."""
_LONGEST_TITLE = 80  # characters of a title that is taken from a prompt
_TYPED_TITLE = 20  # characters of one that a person types, but for the tag


class TranscriptLine(NamedTuple):
    """A complete line: bytes [start, end) of the transcript, including the newline. `value` is None if they are no JSON
    object."""

    start: int
    end: int
    value: Value | None


def parse_object(raw: bytes) -> Value | None:
    """Parse a JSON object; None for anything else. Like the clients, this reads broken UTF-8 as U+FFFD."""
    try:
        value = loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):  # RecursionError: deeply nested brackets
        return None
    return value if isinstance(value, dict) else None


def encode_line(value: Value) -> bytes:
    """A line with a JSON object, as clients write it."""
    import json  # late: a hook does not need it

    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def is_session_id(session: str) -> bool:
    """True if a text is a valid session id. It becomes part of a file name and of a shell command."""
    return 0 < len(session) <= 128 and _ID_CHARACTERS.issuperset(session) and not session.startswith("-")


def end_of_complete_lines(data: bytes) -> int:
    """The end of the last complete line, in bytes. The rest is still being written."""
    return data.rfind(b"\n") + 1


def parse_lines(data: bytes) -> Iterator[TranscriptLine]:
    """Every complete line, in order."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield TranscriptLine(start, end, parse_object(data[start:end]))
        start = end


def parse_lines_backwards(data: bytes) -> Iterator[TranscriptLine]:
    """Every complete line, the last first. The first line of `data` may be cut off: then its value is None."""
    end = end_of_complete_lines(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end - 1) + 1
        yield TranscriptLine(start, end, parse_object(data[start:end]))
        end = start


def text_or_empty(value: object) -> str:
    """A field that should be text; "" for any other type."""
    return value if isinstance(value, str) else ""


def object_or_empty(value: object) -> Value:
    """A field that should be an object; {} for any other type."""
    return value if isinstance(value, dict) else {}


def member_at_keys(value: object, keys: tuple[str, ...]) -> object:
    """The member of an object to which these keys lead, or None."""
    for key in keys:
        value = object_or_empty(value).get(key)
    return value


def content_blocks(content: object) -> list[Value]:
    """The blocks of a message's content: a list of objects, or plain text as one block of type "text"."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def content_texts(content: object) -> list[str]:
    """The texts of a message's content."""
    return [text_or_empty(block.get("text")) for block in content_blocks(content) if block.get("type") == "text"]


def time_ns(value: object) -> int:
    """A transcript's time ("2026-11-20T23:31:06.967Z") in nanoseconds since 1970; 0 if it is invalid."""
    from datetime import UTC, datetime, timedelta  # importing it costs 1 ms that hooks do not need

    try:
        moment = datetime.fromisoformat(text_or_empty(value))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def parse_lines_containing(data: bytes, word: bytes) -> Iterator[TranscriptLine]:
    """Every complete line with `word` in it, the last first. Only these lines are parsed."""
    end = end_of_complete_lines(data)
    while (at := data.rfind(word, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at) + 1
        yield TranscriptLine(start, stop, parse_object(data[start:stop]))
        end = start


def with_lines_replaced(data: bytes, change: Callable[[Value], Value | None]) -> bytes:
    """The transcript with some lines replaced. `change` returns the new value of a line, or None to keep its bytes."""
    data = data if data.endswith(b"\n") else data + b"\n"
    parts = []
    for line in parse_lines(data):
        value = None if line.value is None else change(line.value)
        parts.append(data[line.start : line.end] if value is None else encode_line(value))
    return b"".join(parts)


def hash_for_cursor(data: bytes) -> bytes:
    """The hash of a part of a transcript for a cursor; b"" for no bytes."""
    if not data:
        return b""
    from ..model import digest as digests  # late: the import of hashlib is slower than a hook's work

    return digests.of(data)


def still_has_bytes_before(data: bytes, cursor: "Cursor") -> bool:
    """True if a transcript still has the bytes before a cursor (compared by the hashes of their start and end)."""
    from ..model.cursor import WINDOW  # late: a hook that has nothing to do does not need it

    if cursor.offset > len(data):
        return False
    return (
        hash_for_cursor(data[: min(WINDOW, cursor.offset)]) == cursor.prefix
        and hash_for_cursor(data[max(0, cursor.offset - WINDOW) : cursor.offset]) == cursor.tail
    )


class EndedLine(Protocol):
    """A line of a transcript, or an entry."""

    @property
    def end(self) -> int:
        """The position after the line."""


def count_lines_before_cursor(data: bytes, table: Sequence[EndedLine], cursor: "Cursor") -> int:
    """The number of lines before a cursor. Raises AgentError if the transcript no longer has the bytes before it."""
    if not still_has_bytes_before(data, cursor):
        raise errors.AgentError("the position of that checkpoint is not in this transcript")
    return sum(line.end <= cursor.offset for line in table)


class Prompt(NamedTuple):
    """A prompt that the user typed."""

    text: str
    """Its words."""
    prompt_id: str
    """The client's id of it, "" = none. A queued prompt has the id of the running turn."""
    message_id: str
    """The client's id of its message, "" = none."""
    uuid: str
    """The id of its line."""
    parent: str
    """The id of the line before it in the conversation."""
    time_ns: int
    """Nanoseconds since 1970, 0 = unknown."""
    start: int
    """The offset of its line, in bytes."""
    queued: bool
    """It was typed during a turn."""


class PromptLine(Protocol):
    """A line of a transcript."""

    @property
    def prompt(self) -> Prompt | None:
        """The prompt that the line holds."""


def find_line_of_prompt(table: Sequence[PromptLine], prompt: Prompt) -> int:
    """The index of the line that holds a prompt. Raises AgentError if no line holds it."""
    for at, row in enumerate(table):
        if row.prompt is not None and row.prompt.uuid == prompt.uuid:
            return at
    raise errors.AgentError("that prompt is not in this transcript")


def title_from_prompts(prompts: Iterable[Prompt]) -> str:
    """A session's title: the start of the first prompt that has text; "" if no prompt has text."""
    first = next((prompt.text for prompt in prompts if prompt.text.strip()), "")
    return first.strip().partition("\n")[0][:_LONGEST_TITLE]


_FORK = "[Fork] "


def fork_title(title: str) -> str:
    """A fork's title: the fork prefix, once, and the session's title."""
    while title.startswith(_FORK):
        title = title[len(_FORK) :]
    return _FORK + title


def title_to_type(title: str, session: str, forked: str) -> str:
    """A fork's title for a client that opens a session by it: the first words of the title, and the start of the id, which tells forks
    apart. `forked`: the session that is forked. If it is a fork, too, its title ends in the start of its own id."""
    words = "".join(letter if letter.isalnum() else " " for letter in title).split()
    if words and words[-1] == forked[:TAG]:
        del words[-1]
    typed = ""
    for word in words:
        if len(typed) + len(word) > _TYPED_TITLE:
            break
        typed += word + " "
    return typed + session[:TAG]


class KindLine(EndedLine, Protocol):
    """A line of a linear transcript."""

    @property
    def kind(self) -> str:
        """One of KINDS."""


def count_to_known_end(table: Sequence[KindLine], count: int) -> int:
    """The number of the first `count` lines, without those of an unknown kind at their end. Such a line may be a part of what
    comes next, so it ends no cut."""
    while count > 0 and table[count - 1].kind == UNKNOWN:
        count -= 1
    return count


class CallLine(KindLine, Protocol):
    """A line of a linear transcript, with the ids of the tool calls that it makes and answers."""

    @property
    def calls(self) -> tuple[str, ...]:
        """The calls that the line makes."""

    @property
    def results(self) -> tuple[str, ...]:
        """The calls that the line answers."""


def without_open_calls(data: bytes, table: Sequence[CallLine], count: int) -> bytes | None:
    """The first `count` lines, without unanswered calls and unknown lines at the end; None if nothing was said in them."""
    while (count := count_to_known_end(table, count)) > 0:
        said = [at for at in range(count) if table[at].kind in (PROMPT, ASSISTANT)]
        if not said:
            return None
        answered = {result for row in table[:count] for result in row.results}
        if answered.issuperset(table[said[-1]].calls):
            return data[: table[count - 1].end]
        count = said[-1]
    return None


def paths_in_calls(data: bytes, fields: Mapping[str, str]) -> tuple[str, ...]:
    """The paths in calls of tools, without those of calls that failed or were refused. `fields`: {tool: its argument with the path}."""
    named: dict[str, str] = {}
    failed = set()
    for line in parse_lines_containing(data, b'"tool_'):
        for block in content_blocks(object_or_empty((line.value or {}).get("message")).get("content")):
            field = fields.get(text_or_empty(block.get("name")))
            if block.get("type") == "tool_use" and field is not None:
                named[text_or_empty(block.get("id"))] = text_or_empty(object_or_empty(block.get("input")).get(field))
            elif block.get("type") == "tool_result" and block.get("is_error") is True:
                failed.add(text_or_empty(block.get("tool_use_id")))
    return tuple(dict.fromkeys(path for call, path in named.items() if path and call not in failed))


class ShellCalls(NamedTuple):
    """Where a transcript has the lines of shell that the agent ran."""

    calls: tuple[str, ...]
    """The keys that lead from a line to its calls of tools, or to its only one."""
    tools: frozenset[str]
    """The names of tools that run a shell."""
    command: tuple[str, ...]
    """The keys that lead from a call to what the shell gets, a text or the words of a command; the last may be several, with | between."""
    tool: str = "name"
    """The key of a call with the name of its tool."""


def commands_in_calls(data: bytes, shell: ShellCalls) -> list[str]:
    """The lines of shell that the agent ran, in order."""
    held = (member_at_keys(line.value, shell.calls) for line in parse_lines(data))
    calls = (call for one in held for call in content_blocks(one if isinstance(one, list) else [one]))
    found = (_command_at(call, shell.command) for call in calls if text_or_empty(call.get(shell.tool)) in shell.tools)
    return [command for command in found if command]


def _command_at(call: Value, keys: tuple[str, ...]) -> str:
    """The line of shell to which these keys lead; "" for anything else."""
    holder = member_at_keys(call, keys[:-1])
    if isinstance(holder, str):
        holder = parse_object(holder.encode("utf-8", "replace"))
    given = next((value for key in keys[-1].split("|") if (value := object_or_empty(holder).get(key))), "")
    words = [text_or_empty(word) for word in given] if isinstance(given, list) else []
    if len(words) == 3 and words[1].startswith("-"):  # a shell, -c or -lc, and the line
        return words[2]
    return text_or_empty(given) or " ".join(words[:1])


def newest_text_at(data: bytes, keys: tuple[str, ...]) -> str:
    """The text to which these keys lead in the newest line that has one, or ""."""
    lines = parse_lines_containing(data, keys[-1].encode()) if keys else ()
    return next(filter(None, (text_or_empty(member_at_keys(line.value, keys)) for line in lines)), "")
