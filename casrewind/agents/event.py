"""Reads the payload of a client's hook as an Event.

The danger prevented here: we do not control the program that calls a hook, and its payload may be megabytes of agent
output. Any input becomes an Event or MalformedEvent, quickly and with little memory. A field that a new client version
changes costs no checkpoint, unless the checkpoint needs that field.
"""

import os
from collections.abc import Mapping

from .. import errors
from .._typing import NamedTuple
from ..fastjson import JsonObject, loads
from .client import SUBAGENT_START, SUBAGENT_STOP, TIERS, Client
from .payload import LIMIT

_HEAD = 256 * 1024  # bytes read of a longer payload
_TASTE = 4096  # characters kept of a text that continues after the head
_SPACE = " \t\r\n"
_COMMAND, _SHORT = "/casrewind", "/back"
_NOTIFICATION = "<task-notification>"


class Event(NamedTuple):
    """An event in a client. Missing ids, paths and texts are ""."""

    agent: str
    """The client's name."""
    name: str
    """The client's name of the event."""
    trigger: str
    """One of model.checkpoint.TRIGGERS, "" = there is nothing to do."""
    tier: str
    """The lowest tier that handles it."""
    session: str
    """The id of the session."""
    transcript: str
    """The path of its transcript."""
    prompt_id: str
    """The client's id of the prompt."""
    message_id: str
    """The client's id of the message."""
    turn_id: str
    """The client's id of the turn."""
    tool_use_id: str
    """The client's id of the tool call."""
    prompt: str
    """The words of the prompt."""
    tools: tuple[str, ...]
    """The tools that will run or ran."""
    source: str
    """What started a session or a compaction; "task_notification" for a turn without a typed prompt;
    "tree" for the first prompt after Pi moved the conversation to another place of its tree."""
    reason: str
    """What ended a session."""
    root: str | None
    """The project's root as the client names it, or None."""
    cwd: str
    """The working directory. It follows the agent's cd."""
    parent: str
    """The session that this session continues."""
    subagent: str
    """The client's id of the subagent that caused the event."""
    command: str | None
    """The text after `/casrewind`, None for any other prompt."""
    env_file: str
    """A file with exports for the agent's shell."""
    pid: int
    """The client's process, 0 = unknown."""
    budget: float
    """Seconds that handling may take."""
    partial: bool
    """Only the head of a huge payload was read."""
    odd: tuple[str, ...] = ()
    """Fields with invalid values, which count as missing."""
    before_tool: bool = False
    """A tool is about to run."""
    subagents: int = 0
    """How many subagents run in the background, as the client reports."""
    tasks: int = 0
    """How many other tasks run in the background, as the client reports."""
    subagent_type: str = ""
    """The type of the subagent."""
    subagent_transcript: str = ""
    """The path of its transcript."""

    @property
    def begins_subagent(self) -> bool:
        """A subagent is about to work."""
        return self.name == SUBAGENT_START and self.trigger != ""

    @property
    def ends_subagent(self) -> bool:
        """A subagent has ended."""
        return self.name == SUBAGENT_STOP and self.trigger != ""


def event_without_payload(agent: str, name: str, trigger: str, session: str, transcript: str) -> Event:
    """An event that no hook reported."""
    return Event(
        agent=agent, name=name, trigger=trigger, tier="", session=session, transcript=transcript, prompt_id="", message_id="", turn_id="",
        tool_use_id="", prompt="", tools=(), source="", reason="", root=None, cwd="", parent="", subagent="", command=None, env_file="",
        pid=0, budget=0.0, partial=False,
    )  # fmt: skip


def read_event(client: Client, payload: bytes, environ: Mapping[str, str], name: str = "") -> Event:
    """Parse the payload. `name`: the event's name if the client passes it on the command line. Raises only
    MalformedEvent, whatever the bytes are."""
    partial = len(payload) > LIMIT
    fields = _Fields(client.events.fields, _parse_truncated(payload, client.events.fields["prompt"]) if partial else _parse_whole(payload))
    name = fields.text_or_raise("name") or name
    if not name:
        raise errors.MalformedEvent("a hook was called with no event in it", "is it installed for the right client?")
    prompt = client.as_typed(fields.optional_text("prompt"))
    calls, tool = fields.batch_calls(), fields.optional_text("tool")
    root = next((value for value in _set_variables(client.events.root_variables, environ) if _is_usable_path(value)), None)
    command = _typed_command(client, prompt, root, environ) if client.carries_command(name) and client.events.refusal else None
    trigger, tier, source = _trigger_tier_source(client, name, prompt, fields)
    notified = source == _NOTIFIED
    subagent, own_transcript = fields.optional_text("subagent"), fields.optional_path("subagent_transcript")
    of_own_turn = bool(subagent) and client.events.subagents_have_turns
    transcript = fields.path_or_raise("transcript") or _find_transcript(client, fields.text_or_raise("session"), environ)
    kinds = fields.types_in_list("background")
    return Event(
        agent=client.name,
        name=name,
        trigger="" if command is not None else trigger,
        tier=tier,
        session=fields.text_or_raise("session"),
        transcript="" if of_own_turn and not own_transcript else transcript,
        prompt_id="" if notified or of_own_turn else fields.optional_text("prompt_id"),  # a notification names a future turn
        message_id=fields.optional_text("message_id"),
        turn_id="" if of_own_turn else fields.optional_text("turn_id"),
        tool_use_id=fields.optional_text("tool_use_id") or (calls[-1].optional_text("tool_use_id") if calls else ""),
        prompt="" if trigger == "turn_end" else prompt,
        tools=tuple(call.optional_text("tool") for call in calls) or ((tool,) if tool else ()),
        source=source,
        reason=fields.optional_text("reason") or client.implied_reason(name),
        root=root
        or fields.first_path_in_list("roots")
        or None,
        cwd=fields.optional_path("cwd"),
        parent=fields.optional_text("parent"),
        subagent=subagent,
        command=command,
        env_file=fields.optional_path("env_file")
        or next((value for value in _set_variables(client.events.env_file_variables, environ) if _is_usable_path(value)), ""),
        pid=next((int(v) for v in _set_variables(client.events.pid_variables, environ) if v.isascii() and v.isdigit() and len(v) < 12), 0),
        budget=client.seconds_for(name),
        partial=partial,
        odd=tuple(dict.fromkeys(fields.odd)),
        before_tool=name == client.events.before_tool,
        subagents=kinds.count("subagent"),
        tasks=len(kinds) - kinds.count("subagent"),
        subagent_type=fields.optional_text("subagent_type"),
        subagent_transcript=own_transcript,
    )


def makes_checkpoint(client: Client, event: Event, tier: str) -> bool:
    """True if a tier makes a checkpoint at this event."""
    if not event.trigger or TIERS.index(event.tier) > TIERS.index(tier):
        return False
    return event.name not in client.events.by_tool or may_change_files(client, event.tools)


def may_change_files(client: Client, tools: tuple[str, ...]) -> bool:
    """True if one of these tools may change files. An unknown tool may; so may an empty list."""
    return not tools or any(tool not in client.events.harmless_tools for tool in tools)


def parse_slash_command(prompt: str) -> str | None:
    """The text after `/casrewind` in a prompt; None for any other prompt, or for several lines, which no user types. A
    plugin's `/casrewind:casrewind back 1` and `/casrewind:back 1` both mean "back 1"."""
    words = prompt.strip().split(maxsplit=1)
    if not words or len(prompt.strip().splitlines()) > 1 or not (words[0] + ":").startswith(_COMMAND + ":"):
        return None
    rest = words[1] if len(words) > 1 else ""
    verb = words[0][len(_COMMAND) + 1 :]
    return f"{verb} {rest}".rstrip() if verb not in ("", "casrewind") else rest


def _typed_command(client: Client, prompt: str, root: str | None, environ: Mapping[str, str]) -> str | None:
    """The text after `/casrewind` in a prompt; also of `/back` where that is the command that an installation wrote."""
    command = parse_slash_command(prompt)
    if command is not None or not prompt.lstrip().startswith(_SHORT):
        return command
    words = prompt.strip().split(maxsplit=1)
    if words[0] != _SHORT or len(prompt.strip().splitlines()) > 1:
        return None
    from .claude_plugin import is_our_command

    homes = [os.path.join(root, client.places.project_home or client.places.home)] if root else []
    homes += [client.find_home(environ["HOME"], environ)] if environ.get("HOME") else []
    there = next((path for home in homes if (path := client.short_command_path(home)) and os.path.lexists(path)), None)
    if there is None or not is_our_command(there):
        return None
    return " ".join([_SHORT.removeprefix("/"), *words[1:]])


_NOTIFIED = "task_notification"


def _trigger_tier_source(client: Client, name: str, prompt: str, fields: "_Fields") -> tuple[str, str, str]:
    """Returns (trigger, tier, source) of an event."""
    trigger, tier = client.events.triggers.get(name, ""), client.lowest_tier_of(name)
    if trigger == "prompt" and prompt.startswith(_NOTIFICATION):  # background work has ended; this was not typed
        return "turn_end", "balanced", _NOTIFIED
    if name in (SUBAGENT_START, SUBAGENT_STOP) and fields.first_present("subagent_type") == "":  # the client's helper for summaries
        return "", tier, ""
    return trigger, tier, fields.optional_text("source")


def _find_transcript(client: Client, session: str, environ: Mapping[str, str]) -> str:
    """The path of a session's transcript, from its id; "" if the client always reports it or the home directory is unknown."""
    home = environ.get("HOME", "")
    return client.find_unreported_transcript(session, home, environ) if _is_usable_path(home) else ""


def _set_variables(names: tuple[str, ...], environ: Mapping[str, str]) -> list[str]:
    return [environ[name] for name in names if environ.get(name)]


def _is_usable_path(value: str) -> bool:
    """True if a text is a usable path: absolute, without NUL, encodable as bytes."""
    if not value.startswith("/") or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


class _Fields:
    """A payload with access by our field names."""

    def __init__(
        self, names: Mapping[str, tuple[str, ...]], payload: JsonObject, odd: list[str] | None = None
    ) -> None:
        """Invalid fields are added to `odd`."""
        self._names = names
        self._payload = payload
        self.odd: list[str] = [] if odd is None else odd

    def first_present(self, field: str) -> object:
        """The field's value under the first name that is present, or None."""
        values = (self._payload.get(name) for name in self._names.get(field, ()))
        return next((value for value in values if value is not None), None)

    def text_or_raise(self, field: str) -> str:
        value = self.first_present(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise errors.MalformedEvent(f"the {field} of an event is {type(value).__name__} instead of text")
        return value

    def path_or_raise(self, field: str) -> str:
        value = self.text_or_raise(field)
        if value and not _is_usable_path(value):
            raise errors.MalformedEvent(f"the {field} of an event is not an absolute path")
        return value

    def optional_text(self, field: str) -> str:
        """An optional text. Any other type counts as "" and is recorded as odd."""
        value = self.first_present(field)
        if value is None or isinstance(value, str):
            return value or ""
        self.odd.append(field)
        return ""

    def optional_path(self, field: str) -> str:
        """An optional path."""
        value = self.optional_text(field)
        if value and not _is_usable_path(value):
            self.odd.append(field)
            return ""
        return value

    def types_in_list(self, field: str) -> list[object]:
        """The types of the things in a list; of anything else, none."""
        items = self.first_present(field)
        return [item.get("type") for item in items if isinstance(item, dict)] if isinstance(items, list) else []

    def first_path_in_list(self, field: str) -> str:
        """The first of an optional list of paths."""
        value = self.first_present(field)
        first = value[0] if isinstance(value, list) and value else ""
        return first if isinstance(first, str) and _is_usable_path(first) else ""

    def batch_calls(self) -> list["_Fields"]:
        """The tool calls of a batch."""
        calls = self.first_present("tools")
        if calls is None:
            return []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            self.odd.append("tools")
            return []
        return [_Fields(self._names, call, self.odd) for call in calls]


def _parse_whole(payload: bytes) -> JsonObject:
    try:
        value = loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise errors.MalformedEvent(f"a hook was called with {len(payload)} bytes that are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise errors.MalformedEvent("a hook was called with JSON that is not an object")
    return value


def _parse_truncated(payload: bytes, texts: tuple[str, ...]) -> JsonObject:
    """The members that end within the head, and the beginning of the next member if it is one of `texts`."""
    text = payload[:_HEAD].decode("utf-8", "replace")
    from json import JSONDecoder

    decode = JSONDecoder().raw_decode
    found: JsonObject = {}
    try:
        at = _skip_mark(text, 0, "{")
        while True:
            key, at = decode(text, _skip_space(text, at))
            at = _skip_space(text, _skip_mark(text, at, ":"))
            try:
                found[key], at = decode(text, at)
            except ValueError:
                if key in texts:
                    found[key] = _text_of_cut_string(text[at : at + _TASTE])
                break
            at = _skip_mark(text, at, ",")
    except (ValueError, RecursionError, IndexError, TypeError):  # TypeError: a key that is not a string
        pass
    return found


def _skip_space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _skip_mark(text: str, at: int, mark: str) -> int:
    """The position after the punctuation mark `mark`, which must come next."""
    at = _skip_space(text, at)
    if text[at] != mark:
        raise ValueError(mark)
    return at + 1


def _text_of_cut_string(piece: str) -> str | None:
    """The text of a truncated JSON string; None if the piece is not a string."""
    for end in range(len(piece), max(len(piece) - 12, 1), -1):  # the cut may be inside an escape, or a pair of escapes
        try:
            value = loads(piece[:end] + '"')
        except (ValueError, RecursionError):
            continue
        return value[:-1] if isinstance(value, str) else None  # the last character may be half of a surrogate pair
    return None
