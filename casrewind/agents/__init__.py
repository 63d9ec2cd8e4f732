"""Adapters to coding agents: read their events and transcripts, and write our hooks into their settings.

They use neither store nor worktree. An agent has a profile (data, in `profiles` or `more_profiles`) and a module of the
same name (code, see `Agent`). Hooks import this package on every event, so its modules are imported only when used.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING, see casrewind/__init__.py
    from .._typing import Protocol
    from ..model.cursor import Cursor
    from . import claude, codex, copilot, droid, gemini, opencode, pi
    from .event import Event
    from .profiles import Profile
    from .prompts import Prompt
    from .transcript import Value

    class Agent(Protocol):
        """The functions of an agent's module. `data` is always the bytes of a transcript; bad bytes raise only
        AgentError. `cut` and `cut_at` return the transcript's own lines, in order, byte for byte."""

        @property
        def PROFILE(self) -> Profile:  # noqa: N802 - a constant of the module
            """The client's names and paths."""

        def kind_of(self, value: Value | None, /) -> str:
            """The kind of a line, one of transcript.KINDS."""

        def prompts(self, data: bytes, /, *, every: bool = False) -> list[Prompt]:
            """The user's prompts in conversation order, without abandoned branches unless `every`."""

        def cut(self, data: bytes, prompt: Prompt, /) -> bytes | None:
            """The transcript before a prompt; None if nothing was said before it (start a new session)."""

        def cut_at(self, data: bytes, cursor: Cursor, trigger: str, /) -> bytes | None:
            """The transcript at a checkpoint that was not made for a prompt; None as for `cut`. Raises AgentError if
            the position is not in this transcript."""

        def title(self, data: bytes, /) -> str:
            """The session's title, else the start of its first prompt, else ""."""

        def fork(self, data: bytes, cut: bytes, session: str, /, *, original: str = "", root: str = "") -> bytes:
            """A new session's transcript: `cut`, a part of `data`, with the id `session`. `original` is the path of
            `data`, `root` the project's root."""

        def fork_path(self, transcript: str, session: str, fork: bytes, /) -> str:
            """The path at which the client looks for the session `session`. `fork`: the session's bytes."""

        def in_place(self, data: bytes, cut: bytes, /) -> bytes:
            """The session's own transcript after a rewind to `cut` of `data`."""

    # The type checker checks each module against Agent
    _AGENTS: tuple[Agent, ...] = (claude, droid, pi, codex, gemini, copilot, opencode)

NAMES = ("claude", "droid", "pi", "codex", "gemini", "copilot", "opencode", "cursor", "qwen", "generic")


def profile_of(name: str) -> "Profile":
    """The agent's profile, which is all that a hook needs. Raises UnknownAgent."""
    from .. import errors
    from .profiles import PROFILES

    if name in PROFILES:
        return PROFILES[name]
    from .more_profiles import ALL

    if name not in ALL:
        raise errors.UnknownAgent(f"no agent {name!r} is known; there are: {', '.join(NAMES)}")
    return ALL[name]


def caller(name: str, payload: bytes) -> str:
    """The client that sent a payload to the hook of the agent `name`. Cursor calls Claude Code's hooks, too."""
    return "cursor" if name == "claude" and b'"cursor_version"' in payload[:_HEAD] else name


_HEAD = 16 * 1024


def turn_field(name: str) -> str:
    """Which id of events and cursors names a whole turn of the agent `name`, from its prompt to its end. "" for clients
    that give no such id: an id that names a message must not be taken for it, or every end belongs to no prompt."""
    return {"claude": "prompt_id", "codex": "turn_id", "pi": "prompt_id"}.get(name, "")


def is_interrupted(name: str, path: str) -> bool:
    """True if the transcript at `path` ends with an interruption by the person. Reads only its end. Never raises."""
    if name != "claude" or not path:  # other clients report it to a hook, or write nothing of it
        return False
    from . import claude

    try:
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
            return claude.is_interrupted(file.read(_TAIL))
    except OSError:
        return False


_TAIL = 64 * 1024


def cursor_at(event: "Event", source: "str | bytes") -> "Cursor":
    """The cursor of an event, from its transcript's path or bytes. Needs only the profile. Never raises."""
    from . import cursors

    return cursors.cursor_at(profile_of(event.agent), source, event)


def get(name: str) -> "Agent":
    """The agent's module. Raises UnknownAgent, and AgentError for a client with conversations that only it can read."""
    from importlib import import_module

    from .. import errors

    profile = profile_of(name)
    if profile.files_only:
        raise errors.AgentError(
            f"the conversations of {profile.title} are not known to casrewind",
            "casrewind restore REF restores the files of a checkpoint"
        )
    agent: Agent = import_module(f"{__name__}.{profile.name}")
    return agent
