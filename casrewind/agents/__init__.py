"""Translators: an agent's words into ours, and our hooks into its settings. They know neither store nor worktree.

An agent is a profile (data, in `profiles`) and a module of the same name (code for what is not data; `Agent` says what
is in it). Hooks start this package many times an hour: nothing is imported before it is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING, see the package's door
    from .._typing import Protocol
    from ..model.cursor import Cursor
    from . import claude, droid, pi
    from .event import Event
    from .profiles import Profile
    from .prompts import Prompt
    from .transcript import Value

    class Agent(Protocol):
        """An agent. `data` always is the bytes of a transcript; whatever they are, nothing but AgentError is raised.

        What `cut` and `cut_at` give is the transcript's own lines, in order, byte for byte.
        """

        @property
        def PROFILE(self) -> Profile:  # noqa: N802 - a constant of the module
            """What its client calls things."""

        def kind_of(self, value: Value | None, /) -> str:
            """The kind of a line, one of lines.KINDS."""

        def prompts(self, data: bytes, /, *, every: bool = False) -> list[Prompt]:
            """What the person typed, in conversation order; branches that were abandoned are left out unless `every`."""

        def cut(self, data: bytes, prompt: Prompt, /) -> bytes | None:
            """The transcript as it was before a prompt; None when nothing was said before: that is a new session."""

        def cut_at(self, data: bytes, cursor: Cursor, trigger: str, /) -> bytes | None:
            """The transcript as it was at a checkpoint that was not made for a prompt of it; None as for `cut`.

            Raises AgentError when the place is not in this transcript (any more).
            """

        def title(self, data: bytes, /) -> str:
            """What the session is called, else the beginning of its first prompt, else ""."""

        def fork(self, data: bytes, cut: bytes, session: str, title: str = "", /, *, original: str = "", root: str = "") -> bytes:
            """A new session's transcript: `cut` of `data` under the id `session`; `title` instead of the old one's.

            `original` is the path of `data`, `root` the project's root.
            """

        def fork_path(self, transcript: str, session: str, fork: bytes, /) -> str:
            """The path at which the client looks for the session `session`, whose bytes are `fork`."""

        def in_place(self, data: bytes, cut: bytes, /) -> bytes:
            """The session's own transcript after a rewind to `cut` of `data`."""

    _AGENTS: tuple[Agent, ...] = (claude, droid, pi)  # the type checker holds each of them to what an agent offers

NAMES = ("claude", "droid", "pi")


def profile_of(name: str) -> "Profile":
    """The profile of the agent of that name: all that a hook needs. Raises UnknownAgent."""
    from .. import errors
    from .profiles import PROFILES

    if name not in PROFILES:
        raise errors.UnknownAgent(f"no agent {name!r} is known; there are: {', '.join(NAMES)}")
    return PROFILES[name]


def cursor_at(event: "Event", source: "str | bytes") -> "Cursor":
    """The cursor of an event, by its transcript's path or bytes: what a profile says suffices for it. Never raises."""
    from . import cursors

    return cursors.cursor_at(profile_of(event.agent), source, event)


def get(name: str) -> "Agent":
    """The agent of that name, with its code. Raises UnknownAgent."""
    from importlib import import_module

    agent: Agent = import_module(f"{__name__}.{profile_of(name).name}")
    return agent
