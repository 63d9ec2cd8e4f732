"""Clients: where each keeps its settings, which hooks it gets in which tier, and how ours are told from others.

A client is data here; what is done with it is in settings, install and plugin.
"""

import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import errors

TIERS = ("minimal", "balanced", "aggressive")


class Hook(NamedTuple):
    """One hook: the client's name of the event, the matcher (None: the event has none), the client's timeout in seconds."""

    event: str
    matcher: str | None
    timeout: int


# The timeouts are the client's last resort: a hook keeps a budget of its own below them and is never awaited that long.
# A prompt hook answers `/casrewind restore` after up to 20 s; a shorter timeout would send that prompt to the model.
_START = Hook("SessionStart", None, 10)
_PROMPT = Hook("UserPromptSubmit", None, 30)
_STOP = Hook("Stop", None, 30)
_SUBAGENT = Hook("SubagentStop", None, 30)
_COMPACT = Hook("PreCompact", None, 30)
_END = Hook("SessionEnd", None, 5)  # Claude Code ends a session after 1.5 s where no hook asks for more
_BEFORE_TOOL = Hook("PreToolUse", "*", 15)
_AFTER_TOOLS = Hook("PostToolBatch", None, 15)
_AFTER_TOOL = Hook("PostToolUse", "*", 15)  # for a client that has no event for a whole batch

_MINIMAL = (_START, _PROMPT)
_BALANCED = (*_MINIMAL, _STOP, _SUBAGENT, _COMPACT, _END)


class File(NamedTuple):
    """A file of a client's that holds hooks: its path below the directory, and the key of the object with the events
    ("": the file is that object)."""

    name: str
    key: str


class Client(NamedTuple):
    """One client.

    `directory` is where its settings lie, below the home directory and below a project's root; the variable `moved_by`
    names another in place of the first, `home_moved_by` another home directory ("": there is no such variable).

    `files` hold hooks. For each event the client takes the first of them that says something of it; a file that is
    `instead` of another counts only where that is missing. `off` is the key that switches all hooks off.

    `commands` is the directory of the person's own commands, or None where the client can show none of ours.
    """

    name: str
    title: str
    program: str
    directory: str
    moved_by: str
    home_moved_by: str
    files: tuple[File, ...]
    instead: Mapping[str, str]
    off: str
    commands: str | None
    tiers: Mapping[str, tuple[Hook, ...]]


_CLAUDE = Client(
    name="claude",
    title="Claude Code",
    program="claude",
    directory=".claude",
    moved_by="CLAUDE_CONFIG_DIR",
    home_moved_by="",
    files=(File("settings.json", "hooks"),),
    instead={},
    off="disableAllHooks",
    commands="commands",
    tiers={"minimal": _MINIMAL, "balanced": _BALANCED, "aggressive": (*_BALANCED, _BEFORE_TOOL, _AFTER_TOOLS)},
)
_DROID = Client(
    name="droid",
    title="Factory Droid",
    program="droid",
    directory=".factory",
    moved_by="",
    home_moved_by="FACTORY_HOME_OVERRIDE",
    files=(File("hooks.json", ""), File("hooks/hooks.json", ""), File("settings.json", "hooks")),
    instead={"hooks/hooks.json": "hooks.json"},
    off="hooksDisabled",
    commands=None,
    tiers={"minimal": _MINIMAL, "balanced": _BALANCED, "aggressive": (*_BALANCED, _BEFORE_TOOL, _AFTER_TOOL)},
)
CLIENTS = {client.name: client for client in (_CLAUDE, _DROID)}
EVENTS = frozenset(hook.event for client in CLIENTS.values() for tier in client.tiers.values() for hook in tier)


def client_of(agent: str) -> Client:
    """The client of an agent's name. Raises UnknownAgent."""
    if agent not in CLIENTS:
        raise errors.UnknownAgent(f"no agent {agent!r} is known here; hooks can be installed for: {', '.join(CLIENTS)}")
    return CLIENTS[agent]


def hook_command(agent: str, event: str) -> list[str]:  # noqa: ARG001 - an event may come to have a door of its own
    """What a client has to run at an event. The interpreter's path is absolute: a client's PATH may be bare."""
    return [sys.executable, "-P", "-m", "casrewind", "hook", agent]  # -P: no module of the project's is imported


def is_ours(hook: object, agent: str) -> bool:
    """Whether a hook in a client's settings is one that we wrote, by whatever interpreter it was to be run."""
    if not isinstance(hook, dict):
        return False
    words = [hook.get("command"), *(hook["args"] if isinstance(hook.get("args"), list) else [])]
    line = " ".join(word for word in words if isinstance(word, str))
    return re.search(rf"casrewind.*\shook\s+{agent}(\s+[A-Z]\w+)?\s*$", line, re.DOTALL) is not None


def groups(client: Client, tier: str) -> dict[str, dict[str, Any]]:
    """{event: what the client's settings have to say of our hook there}."""
    found: dict[str, dict[str, Any]] = {}
    for hook in client.tiers[tier]:
        run = {"type": "command", "command": shlex.join(hook_command(client.name, hook.event)), "timeout": hook.timeout}
        found[hook.event] = {**({} if hook.matcher is None else {"matcher": hook.matcher}), "hooks": [run]}
    return found
