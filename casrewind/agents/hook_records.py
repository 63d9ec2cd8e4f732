"""A hook of ours in a client's settings, and what the client says of it."""

from collections.abc import Iterable, Sequence

from .._typing import NamedTuple

USER, PROJECT, LOCAL, PLUGIN = "user", "project", "local", "plugin"
"""The places of a hook: the user's settings, the project's, the user's for one project, a plugin."""


class InstalledHook(NamedTuple):
    """A hook of ours in a client's settings."""

    scope: str
    """USER, PROJECT, LOCAL or PLUGIN."""
    settings: str
    """The path of the settings file."""
    event: str
    """The client's name of the event."""
    line: str
    """The command line."""
    words: tuple[str, ...]
    """The parsed command line, () if a shell would reject it."""
    timeout: float
    """Seconds after which the client ends the hook."""
    as_ours: bool
    """The hook equals what an installation would write now."""


class ClientAnswer(NamedTuple):
    """What a client's program says of our hooks. `problems` are sentences with the next step; `notes` need no action."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def first_user_file(hooks: Sequence[InstalledHook]) -> str | None:
    """The first file of the user's own settings that has one of the hooks."""
    return next((hook.settings for hook in hooks if hook.scope == USER), None)


def distinct(items: Iterable[str]) -> list[str]:
    """The distinct items in their order."""
    return list(dict.fromkeys(items))
