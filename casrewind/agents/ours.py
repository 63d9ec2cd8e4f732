"""Our hooks as they stand in a client's settings, and how they are told from those of others."""

import re
import shlex
from collections.abc import Sequence

from .. import door
from ..typed import Any
from .profile import Profile
from .profiles import PROFILES

EVENTS = frozenset(hook.event for profile in PROFILES.values() for tier in profile.hooks.values() for hook in tier)

_PYTHON, _SCRIPT = r"/\S*/python[\d.]*", r"/\S*/casrewind/__main__\.py"


def hook_command(agent: str) -> list[str]:
    """What a client has to run at its events. The interpreter's path is absolute: a client's PATH may be bare."""
    return [*door.command(), "hook", agent]


def is_ours(hook: object, agent: str) -> bool:
    """Whether a hook in a client's settings is one that we wrote, by whatever interpreter it was to be run."""
    if not isinstance(hook, dict):
        return False
    words = [hook.get("command"), *(hook["args"] if isinstance(hook.get("args"), list) else [])]
    line = " ".join(word for word in words if isinstance(word, str))
    return re.search(rf"casrewind.*\shook\s+{agent}(\s+[A-Z]\w+)?\s*$", line, re.DOTALL) is not None


def groups(profile: Profile, tier: str) -> dict[str, dict[str, Any]]:
    """{event: what the client's settings have to say of our hook there}."""
    found: dict[str, dict[str, Any]] = {}
    for hook in profile.hooks[tier]:
        run = {"type": "command", "command": shlex.join(hook_command(profile.name)), "timeout": hook.timeout}
        found[hook.event] = {**({} if hook.matcher is None else {"matcher": hook.matcher}), "hooks": [run]}
    return found


def is_written(words: Sequence[str], agent: str) -> bool:
    """Whether words are a command line that some installation wrote, whatever Python it named (by a path that needs no
    quotes)."""
    return re.fullmatch(rf"{_PYTHON} (-P -m casrewind|-I -S {_SCRIPT}) hook {agent}", shlex.join(words)) is not None
