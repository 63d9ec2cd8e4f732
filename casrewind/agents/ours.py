"""Our hooks as they stand in a client's settings, and how they are told from those of others.

The danger prevented here: a hook that ends with 2. Clients read that as "block", and an interpreter ends with it when it cannot
open its script. So a shell stands around the hook, replaces nothing by it, and can only end with 0, whatever is gone.
"""

import re
import shlex
from collections.abc import Mapping

from .. import door
from ..typed import Any
from .profile import Hook, Profile
from .profiles import PROFILES

EVENTS = frozenset(hook.event for profile in PROFILES.values() for tier in profile.hooks.values() for hook in tier)

RESIDENT = "--resident"
"""Stands behind the command line of a hook that starts the helper (casrewind watch) where there is none."""
HTTP = "--http"
"""Stands behind that in lines of earlier versions, whose other hooks the client posted to a URL (decision 0025)."""
_URL = r"http://127\.0\.0\.1:\d+/casrewind/"
_STARTS = frozenset({"session_start", "prompt"})
"""What the events of such hooks are: the start of a session, and of each turn, for it may have ended meanwhile."""
_GUARD = "2>/dev/null || :"
"""Stands behind a command line: what goes wrong is neither shown nor told to the client. Lines of earlier versions lack it."""


def hook_command(agent: str) -> list[str]:
    """What a client has to run at its events. The interpreter's path is absolute: a client's PATH may be bare."""
    return [*door.command(), "hook", agent]


def is_resident(line: str) -> bool:
    """Whether the command line of a hook of ours has the helper started."""
    return bare(line).removesuffix(f" {HTTP}").endswith(f" {RESIDENT}")


def bare(line: str) -> str:
    """The command line of a hook without the guard behind it."""
    return line.strip().removesuffix(_GUARD).rstrip()


def is_guarded(line: str) -> bool:
    """Whether the guard stands behind a command line."""
    return line.rstrip().endswith(f" {_GUARD}")


def is_posted(hook: object, agent: str) -> bool:
    """Whether a hook in a client's settings is one that an earlier version had the client post to a URL."""
    url = hook.get("url") if isinstance(hook, dict) and hook.get("type") == "http" else None
    return isinstance(url, str) and re.fullmatch(_URL + agent, url) is not None


def is_ours(hook: object, agent: str) -> bool:
    """Whether a hook in a client's settings is one that we wrote, by whatever interpreter it was to be run."""
    if not isinstance(hook, dict):
        return False
    words = rf"casrewind.*\shook\s+{agent}(\s+[A-Z]\w+)?(\s+{RESIDENT})?(\s+{HTTP})?$"
    return is_posted(hook, agent) or re.search(words, bare(line_of(hook)), re.DOTALL) is not None


def line_of(hook: Mapping[str, Any]) -> str:
    """The command line of a hook in a client's settings."""
    words = [hook.get("command"), *(hook["args"] if isinstance(hook.get("args"), list) else [])]
    return " ".join(word for word in words if isinstance(word, str))


def groups(profile: Profile, tier: str, *, resident: bool = False) -> dict[str, dict[str, Any]]:
    """{event: what the client's settings have to say of our hook there}; `resident`: with the helper."""
    found: dict[str, dict[str, Any]] = {}
    for hook in profile.hooks[tier]:
        run = _command(profile, hook, resident=resident)
        found[hook.event] = {**({} if hook.matcher is None else {"matcher": hook.matcher}), "hooks": [run]}
    return found


def _command(profile: Profile, hook: Hook, *, resident: bool) -> dict[str, Any]:
    words = hook_command(profile.name)
    if profile.events[hook.event][0] in _STARTS:
        words += [RESIDENT] if resident else []
    return {"type": "command", "command": f"{shlex.join(words)} {_GUARD}", "timeout": hook.timeout}
