"""Writes our hooks for a client's settings, and recognises them there.

The danger prevented here: a hook that ends with exit code 2. Clients take 2 for "block", and Python ends with 2 when it cannot open
a script. So the command line of a hook has a guard: the shell ends with 0, even when the interpreter or the script is gone.
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
"""The option of a hook that starts the helper (casrewind watch) when none runs."""
HTTP = "--http"
"""A further option that earlier versions wrote. With it, the client posted its other events to a URL (decision 0025)."""
EARLIER = frozenset({"-S", HTTP})
"""Words of command lines that earlier versions wrote. -S kept Python from looking for packages; casrewind looked itself."""
_URL = r"http://127\.0\.0\.1:\d+/casrewind/"
_STARTS = frozenset({"session_start", "prompt"})
"""The events whose hooks start the helper: a session's start, and each turn's, because the helper may have ended since."""
_GUARD = "2>/dev/null || :"
"""The end of a command line: it hides error output and makes the exit code 0. Lines of earlier versions lack it."""


def hook_command(agent: str) -> list[str]:
    """What a client has to run at its events. The interpreter's path is absolute: a client's PATH may be bare."""
    return [*door.command(), "hook", agent]


def is_resident(line: str) -> bool:
    """True when the command line of our hook starts the helper."""
    return bare(line).removesuffix(f" {HTTP}").endswith(f" {RESIDENT}")


def bare(line: str) -> str:
    """The command line of a hook without the guard behind it."""
    return line.strip().removesuffix(_GUARD).rstrip()


def is_guarded(line: str) -> bool:
    """True when a command line ends with the guard."""
    return line.rstrip().endswith(f" {_GUARD}")


def is_posted(hook: object, agent: str) -> bool:
    """True when a hook in a client's settings posts to a URL of ours, as an earlier version set it up."""
    url = hook.get("url") if isinstance(hook, dict) and hook.get("type") == "http" else None
    return isinstance(url, str) and re.fullmatch(_URL + agent, url) is not None


def is_ours(hook: object, agent: str) -> bool:
    """True when casrewind wrote this hook in a client's settings, for any interpreter."""
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
