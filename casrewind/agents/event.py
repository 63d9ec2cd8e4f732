"""What a client's hook says, as an Event.

The danger prevented here: a hook is called by a program that we do not control, with up to megabytes of whatever an
agent wrote. Whatever comes in, an Event comes out or MalformedEvent is raised, quickly and without much memory. What a
client's next version writes otherwise costs no checkpoint unless it cannot be made without.
"""

import os
import time
from collections.abc import Mapping

from .. import errors
from .._typing import Any, NamedTuple
from ..fastjson import loads
from .profiles import TIERS, Profile

_HEAD = 256 * 1024  # bytes of a longer payload that are looked at
_TASTE = 4096  # characters of a text that goes on behind the head
_SPACE = " \t\r\n"
_COMMAND = "/casrewind"
_NOTIFICATION = "<task-notification>"


class Event(NamedTuple):
    """What happened in a client.

    `name` is the client's name of the event; `trigger` one of model.checkpoint.TRIGGERS, or "": nothing to do; `tier` the
    first tier that takes it. Ids, paths and texts are "" where the client gives none. `tools`: the tools that will run, or
    ran. `source` is what started a session or a compaction ("task_notification" for a turn that nobody typed), `reason`
    what ended a session. `root` is the project's root as the client's environment has it, None where it does not say;
    `cwd` moves with the agent's cd. `parent`: the session that this one goes on from. `subagent`: a subagent did it.
    `command`: what stands behind a `/casrewind`, None for any other prompt.
    `env_file`: the file whose exports the agent's shell reads. `pid`: the client's process, 0 = unknown. `budget`:
    seconds that handling it may take. `partial`: only the head of a huge payload was read. `odd`: our names of fields that
    were there and were not what they should be; they count as not there. `before_tool`: a tool is about to run.
    """

    agent: str
    name: str
    trigger: str
    tier: str
    session: str
    transcript: str
    prompt_id: str
    message_id: str
    turn_id: str
    tool_use_id: str
    prompt: str
    tools: tuple[str, ...]
    source: str
    reason: str
    root: str | None
    cwd: str
    parent: str
    subagent: bool
    command: str | None
    env_file: str
    pid: int
    budget: float
    partial: bool
    odd: tuple[str, ...] = ()
    before_tool: bool = False


def read(profile: Profile, payload: bytes, environ: Mapping[str, str], name: str = "") -> Event:
    """The Event in a payload. `name`: the event's name where the client gives it on the command line.

    Raises MalformedEvent, and nothing else, whatever the bytes are.
    """
    partial = len(payload) > LIMIT
    fields = _Fields(profile.fields, _head(payload, profile.fields["prompt"]) if partial else _whole(payload))
    name = fields.text("name") or name
    if not name:
        raise errors.MalformedEvent("a hook was called with no event in it; is it installed for the right client?")
    prompt = fields.hint("prompt")
    calls, tool = fields.calls(), fields.hint("tool")
    is_typed = name == profile.command_event if profile.command_event else profile.events.get(name, ("", ""))[0] == "prompt"
    command = command_of(prompt) if is_typed else None
    trigger, tier, source = _meaning(profile, name, prompt, fields)
    notified = source == _NOTIFIED
    return Event(
        agent=profile.name,
        name=name,
        trigger="" if command is not None else trigger,
        tier=tier,
        session=fields.text("session"),
        transcript=fields.path("transcript"),
        prompt_id="" if notified else fields.hint("prompt_id"),  # it names a turn that is still to come
        message_id=fields.hint("message_id"),
        turn_id=fields.hint("turn_id"),
        tool_use_id=fields.hint("tool_use_id") or (calls[-1].hint("tool_use_id") if calls else ""),
        prompt="" if notified else prompt,
        tools=tuple(call.hint("tool") for call in calls) or ((tool,) if tool else ()),
        source=source,
        reason=fields.hint("reason"),
        root=next((value for value in _values(profile.root_variables, environ) if _is_path(value)), None),
        cwd=fields.place("cwd"),
        parent=fields.hint("parent"),
        subagent=bool(fields.hint("subagent")),
        command=command,
        env_file=fields.place("env_file") or next((v for v in _values(profile.env_file_variables, environ) if _is_path(v)), ""),
        pid=next((int(v) for v in _values(profile.pid_variables, environ) if v.isascii() and v.isdigit() and len(v) < 12), 0),
        budget=profile.budgets.get(name, BUDGET),
        partial=partial,
        odd=tuple(dict.fromkeys(fields.odd)),
        before_tool=name == profile.before_tool,
    )


def wanted(profile: Profile, event: Event, tier: str) -> bool:
    """Whether a tier takes a checkpoint at this event."""
    if not event.trigger or TIERS.index(event.tier) > TIERS.index(tier):
        return False
    return event.name not in profile.by_tool or may_mutate(profile, event.tools)


def may_mutate(profile: Profile, tools: tuple[str, ...]) -> bool:
    """Whether one of these tools may change files. An unknown one may; no name at all may be anything."""
    return not tools or any(tool not in profile.harmless for tool in tools)


def command_of(prompt: str) -> str | None:
    """What stands behind `/casrewind` in a prompt ("" for nothing), None when the prompt is something else, or has more than
    one line: a person types one, and a program hands on whole texts.

    As a plugin's command it is `/casrewind:casrewind back 1`, or `/casrewind:back 1`: "back 1", all of them.
    """
    words = prompt.strip().split(maxsplit=1)
    if not words or len(prompt.strip().splitlines()) > 1 or not (words[0] + ":").startswith(_COMMAND + ":"):
        return None
    rest = words[1] if len(words) > 1 else ""
    verb = words[0][len(_COMMAND) + 1 :]
    return f"{verb} {rest}".rstrip() if verb not in ("", "casrewind") else rest


_NOTIFIED = "task_notification"


def _meaning(profile: Profile, name: str, prompt: str, fields: "_Fields") -> tuple[str, str, str]:
    """(trigger, tier, source) of an event."""
    trigger, tier = profile.events.get(name, ("", TIERS[0]))
    if trigger == "prompt" and prompt.startswith(_NOTIFICATION):  # background work has ended; nobody typed this
        return "turn_end", "balanced", _NOTIFIED
    if name == "SubagentStop" and fields.value("subagent_type") == "":  # the client's own helper that writes a summary
        return "", tier, ""
    return trigger, tier, fields.hint("source")


def _values(names: tuple[str, ...], environ: Mapping[str, str]) -> list[str]:
    """The values of these variables of the environment, as far as they are there."""
    return [environ[name] for name in names if environ.get(name)]


def _is_path(value: str) -> bool:
    """Whether a text can be the path of something: absolute, without NUL, with a form in bytes."""
    if not value.startswith("/") or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


class _Fields:
    """A payload, asked by our names of its fields."""

    def __init__(
        self, names: Mapping[str, tuple[str, ...]], payload: dict[str, Any], odd: list[str] | None = None
    ) -> None:
        """`odd` is told the fields that are not what they should be."""
        self._names = names
        self._payload = payload
        self.odd: list[str] = [] if odd is None else odd

    def value(self, field: str) -> Any:
        """The field's value by the first name that is there, None when there is none."""
        values = (self._payload.get(name) for name in self._names.get(field, ()))
        return next((value for value in values if value is not None), None)

    def text(self, field: str) -> str:
        value = self.value(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise errors.MalformedEvent(f"the {field} of an event is {type(value).__name__} instead of text")
        return value

    def path(self, field: str) -> str:
        value = self.text(field)
        if value and not _is_path(value):
            raise errors.MalformedEvent(f"the {field} of an event is no absolute path")
        return value

    def hint(self, field: str) -> str:
        """A text that an event can do without: "" when it is anything else, which is noted."""
        value = self.value(field)
        if value is None or isinstance(value, str):
            return value or ""
        self.odd.append(field)
        return ""

    def place(self, field: str) -> str:
        """A path that an event can do without."""
        value = self.hint(field)
        if value and not _is_path(value):
            self.odd.append(field)
            return ""
        return value

    def calls(self) -> list["_Fields"]:
        """The calls of a batch of tools."""
        calls = self.value("tools")
        if calls is None:
            return []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            self.odd.append("tools")
            return []
        return [_Fields(self._names, call, self.odd) for call in calls]


def _whole(payload: bytes) -> dict[str, Any]:
    try:
        value = loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise errors.MalformedEvent(f"a hook was called with {len(payload)} bytes that are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise errors.MalformedEvent("a hook was called with JSON that is no object")
    return value


def _head(payload: bytes, texts: tuple[str, ...]) -> dict[str, Any]:
    """The members in front of the first one that does not end in the head; of that its beginning if it is one of `texts`."""
    text = payload[:_HEAD].decode("utf-8", "replace")
    from json import JSONDecoder

    decode = JSONDecoder().raw_decode
    found: dict[str, Any] = {}
    try:
        at = _behind(text, 0, "{")
        while True:
            key, at = decode(text, _value(text, at))
            at = _value(text, _behind(text, at, ":"))
            try:
                found[key], at = decode(text, at)
            except ValueError:
                if key in texts:
                    found[key] = _beginning(text[at : at + _TASTE])
                break
            at = _behind(text, at, ",")
    except (ValueError, RecursionError, IndexError, TypeError):  # the last: a key that is no text
        pass
    return found


def _value(text: str, at: int) -> int:
    """Where the value starts that comes after white space."""
    while text[at] in _SPACE:
        at += 1
    return at


def _behind(text: str, at: int, mark: str) -> int:
    """The position behind a punctuation mark that must come next."""
    at = _value(text, at)
    if text[at] != mark:
        raise ValueError(mark)
    return at + 1


def _beginning(piece: str) -> str | None:
    """The text that a piece of a JSON string stands for, None when it is a piece of something else."""
    for end in range(len(piece), max(len(piece) - 12, 1), -1):  # the cut may go through an escape, or a pair of them
        try:
            value = loads(piece[:end] + '"')
        except (ValueError, RecursionError):
            continue
        return value[:-1] if isinstance(value, str) else None  # the last character may be half of one
    return None


BUDGET = 20.0
"""Seconds that an event may take for which a profile says nothing else."""
LIMIT = 8 * 1024 * 1024
"""Bytes of a payload that are parsed as a whole. Of a longer one only the fields before its first long value are read:
clients put what identifies an event in front of what it carries."""
_PAUSE = 0.25
"""Seconds without a byte after which a whole payload is all there is, though the client keeps its end of the pipe open."""
_PATIENCE = 3.0
"""Seconds without a byte after which half a payload, or none, is not waited for any longer."""


def drain(fd: int) -> bytes:
    """Read a payload to its end, so that the client's write never fails; of a huge one only what `read` looks at is kept.

    A client that never closes its end is waited for as long as it takes to see that no more will come.
    """
    from select import select

    parts: list[bytes] = []
    size, idle, end = 0, 0.0, time.monotonic() + BUDGET
    while time.monotonic() < end:
        if not select((fd,), (), (), _PAUSE)[0]:
            idle += _PAUSE
            if idle >= _PATIENCE or (idle == _PAUSE and _is_whole(parts)):
                break
            continue
        part = os.read(fd, 1 << 20)
        if not part:
            break
        idle = 0.0
        if size <= LIMIT:
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _is_whole(parts: list[bytes]) -> bool:
    """Whether nothing is missing in a payload that can be parsed."""
    if not parts or not parts[-1].rstrip().endswith(b"}"):
        return False
    from ..fastjson import loads

    try:
        return isinstance(loads(b"".join(parts).decode("utf-8", "replace")), dict)
    except (ValueError, RecursionError):
        return False
