"""Adapters to coding agents: read their events and transcripts, and write our hooks into their settings.

They use neither store nor worktree. Each agent is a client with a module of its name (see `client`). Hooks import this
package on every event, so its modules are imported only when used.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING, see casrewind/__init__.py
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
    if name not in NAMES or not path:
        return False
    try:
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
            return load_client(name).ends_interrupted(file.read(_TAIL))
    except OSError:
        return False


_TAIL = 64 * 1024


def cursor_of_event(event: "Event", source: "str | bytes") -> "Cursor":
    """The cursor of an event, from its transcript's path or bytes. Never raises."""
    from . import transcript_position

    return transcript_position.cursor_at(load_client(event.agent), source, event)
