"""Asks a client whether it loads our extension. The client tells its commands over RPC, without a model, a key or a network.

The danger prevented here: a session or a checkpoint of doctor's own. The client keeps no session, and our extension reports no
events.
"""

import json
import os
from collections.abc import Mapping

from .. import fsio, launch
from . import hook_trial
from .profiles import Profile

_SECONDS = 20.0
_ARGUMENTS = ("--mode", "rpc", "--no-session", "--offline")
_QUESTION = b'{"type":"get_commands","id":"casrewind"}\n'
_QUIET = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
_COMMAND = "casrewind"


def extension_problem(profile: Profile, program: str, path: str, environ: Mapping[str, str]) -> str:
    """Why a client does not have the command of the extension at `path`, or ""."""
    variables = {**environ, **_QUIET, launch.TRIAL: "1"}
    ran = hook_trial.run([program, *_ARGUMENTS], cwd="/", environ=variables, seconds=_SECONDS, data=_QUESTION)
    where = fsio.printable(path)
    answer = next((value for line in ran.out.splitlines() if (value := _answer(line)) is not None), None)
    if answer is None:
        said = ran.trouble or f"ended with {ran.code}"
        line = fsio.printable(hook_trial.last_line(ran.err))
        return f"{profile.title} was asked for its commands and {said}{f': {line}' if line else ''}; run it by hand to see"
    if any(_is_ours(command, path) for command in answer):
        return ""
    return f"{profile.title} does not load {where}: its own error messages say why; casrewind install {profile.name} writes it anew"


def _answer(line: bytes) -> list[object] | None:
    """The commands in a line of the client's output, None when it is another line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    data = value.get("data") if isinstance(value, dict) and value.get("command") == "get_commands" else None
    commands = data.get("commands") if isinstance(data, dict) else None
    return commands if isinstance(commands, list) else None


def _is_ours(command: object, path: str) -> bool:
    """True for the command that the extension at `path` registers."""
    if not isinstance(command, dict) or not str(command.get("name")).startswith(_COMMAND):
        return False
    source = command.get("sourceInfo")
    told = source.get("path") if isinstance(source, dict) else None
    return isinstance(told, str) and os.path.realpath(told) == os.path.realpath(path)
