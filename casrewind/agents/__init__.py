"""Adapters to coding agents: read their events and transcripts, and write our hooks into their settings.

They use neither store nor worktree. Each agent is a client with a module of its name (see `client`). Hooks import this
package on every event, so its modules are imported only when used.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING, see casrewind/__init__.py
    from ..fastjson import JsonObject
    from ..model.cursor import Cursor
    from .client import Client, ConversationClient
    from .event import Event

NAMES = ("claude", "droid", "pi", "codex", "gemini", "copilot", "opencode", "cursor", "qwen", "generic")
"""The table of clients. Each is a module of this package, with the client in `CLIENT`."""


def load_client(name: str) -> "Client":
    """The client with a name. Imports its module and no other. Raises UnknownAgent."""
    if name not in NAMES:
        from .. import errors

        raise errors.UnknownAgent(f"no agent {name!r} is known; there are: {', '.join(NAMES)}")
    client: Client = __import__(f"{__name__}.{name}", fromlist=["CLIENT"]).CLIENT  # importlib would cost a hook 0.6 ms
    return client


def load_clients() -> "list[Client]":
    """Every known client."""
    return [load_client(name) for name in NAMES]


def load_conversation_client(name: str) -> "ConversationClient":
    """The client with a name, if casrewind can read its conversations. Raises UnknownAgent, AgentError."""
    from .client import ConversationClient

    client = load_client(name)
    if not isinstance(client, ConversationClient):
        from .. import errors

        raise errors.AgentError(
            f"the conversations of {client.title} are not known to casrewind",
            "casrewind restore REF restores the files of a checkpoint",
        )
    return client


def load_conversation_clients() -> "list[ConversationClient]":
    """The clients with conversations that casrewind reads."""
    from .client import ConversationClient

    return [client for client in load_clients() if isinstance(client, ConversationClient)]


def find_sender(name: str, payload: bytes) -> "Client":
    """The client that sent a payload to the hook of the agent `name`. Raises UnknownAgent."""
    client = load_client(name)
    sender = client.name_sender(payload)
    return client if sender == name else load_client(sender)


def turn_id_field(name: str) -> str:
    """Which id of events and cursors names a whole turn of the agent `name`; "" = none does, or the agent is unknown."""
    return load_client(name).events.turn_field if name in NAMES else ""


def tells_model(name: str) -> bool:
    """True if a hook can give a text to the model of the agent `name`."""
    return name in NAMES and bool(load_client(name).model_answer("", ""))


def ends_interrupted(name: str, path: str) -> bool:
    """True if the transcript at `path` ends with an interruption by the person. Reads only its end. Never raises."""
    note, is_last, _, _ = _find_stop(name, path)
    return note is not None and is_last


def stopped_ns(name: str, path: str) -> int:
    """When the person stopped the newest turn of the transcript at `path`, by the client's word (nanoseconds since 1970); 0 if that
    is not known. A clock that lies tells nothing: the time of the file must be that of its last line. Never raises."""
    from . import transcript

    note, _, end, written_ns = _find_stop(name, path)
    at_ns = transcript.time_ns((note or {}).get("timestamp"))
    times = (transcript.time_ns((line.value or {}).get("timestamp")) for line in transcript.parse_lines_backwards(end))
    return at_ns if at_ns and abs(written_ns - next(time for time in times if time)) <= _AGREE_NS else 0


def _find_stop(name: str, path: str) -> "tuple[JsonObject | None, bool, bytes, int]":
    """What ConversationClient.find_stop finds in a transcript, its end, and the time of its last write. Opens regular files only."""
    from .. import fsio
    from .client import ConversationClient

    client = load_client(name) if name in NAMES and path else None
    if not isinstance(client, ConversationClient):
        return None, False, b"", 0
    try:
        with fsio.closing(fsio.open_regular(path)) as fd:
            status = os.fstat(fd)
            end = os.pread(fd, _TAIL, max(status.st_size - _TAIL, 0))
    except (OSError, ValueError):
        return None, False, b"", 0
    return *client.find_stop(end), end, status.st_mtime_ns


_TAIL = 64 * 1024
_AGREE_NS = 2_000_000_000  # between the time in a line and that of its write


def cursor_of_event(event: "Event", source: "str | bytes") -> "Cursor":
    """The cursor of an event, from its transcript's path or bytes. Never raises."""
    from . import transcript_position

    return transcript_position.cursor_at(load_client(event.agent), source, event)
