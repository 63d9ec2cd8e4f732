"""Our hooks as they stand in a client's settings, and how they are told from those of others."""

import re
import shlex
from collections.abc import Mapping, Sequence

from .. import door
from ..typed import Any, NamedTuple
from .profile import Hook, Profile
from .profiles import PROFILES

EVENTS = frozenset(hook.event for profile in PROFILES.values() for tier in profile.hooks.values() for hook in tier)

RESIDENT = "--resident"
"""Stands behind the command line of a hook that starts the helper (casrewind watch) where there is none."""
HTTP = "--http"
"""Stands behind that where hooks of other events are posted: the listener is told of the session, and started where there is none."""
HOST = "127.0.0.1"
HEADER = "X-Casrewind"
"""The header that a posted hook has the secret in."""
_POST_TIMEOUT = 2
"""Seconds that the client waits for the answer to a post: what a listener costs an event that was stopped, and has the port."""
_URL = r"http://127\.0\.0\.1:\d+/casrewind/"
_STARTS = frozenset({"session_start", "prompt"})
"""What the events of such hooks are: the start of a session, and of each turn, for it may have ended meanwhile."""
_PYTHON, _SCRIPT = r"/\S*/python[\d.]*", r"/\S*/casrewind/__main__\.py"


class Address(NamedTuple):
    """Where hooks are posted to: the port on this machine's loopback, and the secret that says that it is the client who does."""

    port: int
    secret: str

    def url(self, agent: str) -> str:
        """The URL for the hooks of an agent."""
        return f"http://{HOST}:{self.port}{path_of(agent)}"


def path_of(agent: str) -> str:
    """The path of that URL."""
    return f"/casrewind/{agent}"


def hook_command(agent: str) -> list[str]:
    """What a client has to run at its events. The interpreter's path is absolute: a client's PATH may be bare."""
    return [*door.command(), "hook", agent]


def is_resident(line: str) -> bool:
    """Whether the command line of a hook of ours has the helper started."""
    return line.rstrip().removesuffix(f" {HTTP}").endswith(f" {RESIDENT}")


def url_of(hook: object, agent: str) -> str:
    """The URL that a hook of ours is posted to, "" where it is a command, or not ours."""
    url = hook.get("url") if isinstance(hook, dict) and hook.get("type") == "http" else None
    return url if isinstance(url, str) and re.fullmatch(_URL + agent, url) else ""


def secret_of(hook: Mapping[str, Any]) -> str:
    """The secret that a posted hook is sent with, "" where there is none."""
    headers = hook.get("headers")
    found = headers.get(HEADER) if isinstance(headers, dict) else None
    return found if isinstance(found, str) else ""


def is_ours(hook: object, agent: str) -> bool:
    """Whether a hook in a client's settings is one that we wrote, by whatever interpreter it was to be run."""
    if not isinstance(hook, dict):
        return False
    words = rf"casrewind.*\shook\s+{agent}(\s+[A-Z]\w+)?(\s+{RESIDENT})?(\s+{HTTP})?\s*$"
    return bool(url_of(hook, agent)) or re.search(words, line_of(hook), re.DOTALL) is not None


def line_of(hook: Mapping[str, Any]) -> str:
    """The command line of a hook in a client's settings."""
    words = [hook.get("command"), *(hook["args"] if isinstance(hook.get("args"), list) else [])]
    return " ".join(word for word in words if isinstance(word, str))


def groups(profile: Profile, tier: str, *, resident: bool = False, address: Address | None = None) -> dict[str, dict[str, Any]]:
    """{event: what the client's settings have to say of our hook there}; `resident`: with the helper; with an `address` those that
    the client can post are posted there."""
    found: dict[str, dict[str, Any]] = {}
    for hook in profile.hooks[tier]:
        run = _command(profile, hook, resident=resident, http=address is not None)
        if address is not None and hook.event in profile.posts:
            headers = {HEADER: address.secret}
            run = {"type": "http", "url": address.url(profile.name), "headers": headers, "timeout": _POST_TIMEOUT}
        found[hook.event] = {**({} if hook.matcher is None else {"matcher": hook.matcher}), "hooks": [run]}
    return found


def _command(profile: Profile, hook: Hook, *, resident: bool, http: bool) -> dict[str, Any]:
    words = hook_command(profile.name)
    if profile.events[hook.event][0] in _STARTS:
        words += [*([RESIDENT] if resident else []), *([HTTP] if http else [])]
    return {"type": "command", "command": shlex.join(words), "timeout": hook.timeout}


def is_written(words: Sequence[str], agent: str) -> bool:
    """Whether words are a command line that some installation wrote, whatever Python it named (by a path that needs no
    quotes)."""
    return re.fullmatch(rf"{_PYTHON} (-P -m casrewind|-I -S {_SCRIPT}) hook {agent}( {RESIDENT})?( {HTTP})?", shlex.join(words)) is not None
