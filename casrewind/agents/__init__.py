"""Translators: an agent's words into ours, and our hooks into its settings. They know neither store nor worktree.

An agent is a profile (data, in `profiles`) and a module of the same name (code for what is not data; `agent.Agent` says
what is in it). Hooks start this package many times an hour: nothing is imported before it is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing.TYPE_CHECKING, see the package's door
    from ..model.cursor import Cursor
    from . import claude, droid
    from .agent import Agent
    from .event import Event
    from .profile import Profile

    _AGENTS: tuple[Agent, ...] = (claude, droid)  # the type checker holds each of them to what an agent offers

NAMES = ("claude", "droid")


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
