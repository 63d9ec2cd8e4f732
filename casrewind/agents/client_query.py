"""Asks a client whether it runs our hooks or loads our extension. Only `casrewind doctor` uses this.

The first danger prevented here: the settings are right, but the client runs no hook. Codex runs a hook only after the
user trusted it, and reports nothing otherwise. Each client's own program answers without a model, a key or a network.

The second danger: doctor creates a session or a checkpoint. Pi keeps no session, and our extension reports no events.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import errors, launch
from .._typing import Any, NamedTuple
from ..messages import printable
from . import hook_trial, json_edit, settings_files
from .diagnose import ClientHooks, InstalledHook, once
from .install import USER
from .profiles import Profile

_SECONDS = 30.0
"""Time for an answer of the client's program, also on a busy machine."""
_OPENCODE_SECONDS = 10.0
"""Shorter: without a network it gives no answer, which is no problem."""
_MOST = 4 << 20
"""Bytes of output that are read at most."""
_TRUSTED = ("trusted", "managed")
_PI_ARGUMENTS = ("--mode", "rpc", "--no-session", "--offline")
_PI_QUESTION = b'{"type":"get_commands","id":"casrewind"}\n'
_PI_QUIET = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
_PI_COMMAND = "casrewind"


class ClientAnswer(NamedTuple):
    """A client's answer about our hooks. `problems` are sentences with the next step; `notes` need no action."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]


def ask(looked: ClientHooks, program: str, root: str | None, environ: Mapping[str, str]) -> ClientAnswer:
    """Ask the client about the hooks in `looked`. `program`: its path, `root`: the project's root or None."""
    if not looked.hooks:
        return ClientAnswer((), ())
    if looked.profile.name == "codex":
        return _ask_codex(looked, program, root, environ)
    if looked.profile.name == "gemini":
        return ClientAnswer(tuple(_disabled_in_gemini(looked.hooks)), ())
    own = next((hook.settings for hook in looked.hooks if hook.scope == USER), None)
    if looked.profile.name == "pi" and own is not None:
        problem = _pi_problem(looked.profile, program, own, environ)
        return ClientAnswer((problem,) if problem else (), ())
    if looked.profile.name == "opencode" and own is not None:
        return ClientAnswer(tuple(_not_loaded_by_opencode(program, own, environ)), ())
    return ClientAnswer((), ())


def _ask_codex(looked: ClientHooks, program: str, root: str | None, environ: Mapping[str, str]) -> ClientAnswer:
    listed, wrong = _codex_hooks(program, root or "/", environ)
    if wrong:
        return ClientAnswer((), (f"Codex did not say whether it trusts the hooks ({wrong}): type /hooks in it to see",))
    problems = []
    for path in once(hook.settings for hook in looked.hooks):
        here = [hook for hook in looked.hooks if hook.settings == path]
        known = {(str(one.get("eventName")).lower(), one.get("command")): one for one in listed}
        found = [(hook, known.get((hook.event.lower(), hook.line))) for hook in here]
        where = printable(path)
        if missing := [hook.event for hook, one in found if one is None]:
            problems.append(
                f"Codex does not know the hooks of {', '.join(once(missing))} in {where}: it reads a project's hooks only where "
                f"you trust the project, and none if hooks are switched off under [features] in config.toml"
            )
        if untrusted := [hook.event for hook, one in found if one is not None and one.get("trustStatus") not in _TRUSTED]:
            problems.append(
                f"Codex does not run the hooks of {', '.join(once(untrusted))} in {where}, because you have not trusted them yet: "
                f"start codex and choose to trust them, or type /hooks in it"
            )
        if off := [hook.event for hook, one in found if one is not None and one.get("enabled") is False]:
            problems.append(f"the hooks of {', '.join(once(off))} in {where} are switched off in Codex: type /hooks in it")
    return ClientAnswer(tuple(problems), ())


def _codex_hooks(program: str, root: str, environ: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """Returns (the hooks that Codex lists for a project, the reason for no answer or "")."""
    name = {"name": "casrewind", "title": "casrewind", "version": "0"}
    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": name, "capabilities": {"experimentalApi": True}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [root]}},
    )
    answer, wrong = _converse([program, "app-server"], root, environ, b"".join(json.dumps(one).encode() + b"\n" for one in asked), 2)
    if wrong:
        return [], wrong
    try:
        hooks = [hook for place in answer["result"]["data"] for hook in place["hooks"]]
    except (KeyError, TypeError):
        return [], "its answer has another form"
    return [hook for hook in hooks if isinstance(hook, dict)], ""


def _converse(command: Sequence[str], cwd: str, environ: Mapping[str, str], data: bytes, number: int) -> tuple[dict[str, Any], str]:
    """Start a program that answers JSON lines, and send it `data`. Returns (the answer with the id `number`, the
    reason for no answer or ""). The program is ended afterwards."""
    try:
        child = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=dict(environ),
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return {}, f"it cannot be started: {getattr(error, 'strerror', None) or error}"
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with suppress(OSError):
            child.stdin.write(data)  # less than a pipe holds
            child.stdin.flush()
        return _answer(child.stdout.fileno(), number)
    finally:
        with suppress(OSError):
            child.stdin.close()
        _end(child)
        child.stdout.close()


def _answer(fd: int, number: int) -> tuple[dict[str, Any], str]:
    kept, end = b"", time.monotonic() + _SECONDS
    while (left := end - time.monotonic()) > 0 and len(kept) < _MOST:
        if not select.select([fd], (), (), left)[0]:
            continue
        part = os.read(fd, 1 << 16)
        if not part:
            return {}, "it ended without an answer"
        kept += part
        *lines, kept = kept.split(b"\n")
        for line in lines:
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict) and value.get("id") == number:
                    return (value, "") if "result" in value else ({}, "it refused the question")
    return {}, f"it gave no answer within {_SECONDS:g} s"


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the program and its children; it ends by itself when its input ends."""
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)


def _disabled_in_gemini(hooks: Sequence[InstalledHook]) -> list[str]:
    """Problems: hooks of ours that the user switched off one by one in the client."""
    found = []
    for path in once(hook.settings for hook in hooks):
        try:
            value = json_edit.parse((settings_files.read(path).data or b"{}").decode("utf-8-sig"))
            disabled = value["hooksConfig"]["disabled"]
        except (errors.AgentError, ValueError, RecursionError, KeyError, TypeError):
            continue
        off = [hook.event for hook in hooks if isinstance(disabled, list) and hook.line in disabled]
        if off:
            found.append(
                f"the hooks of {', '.join(once(off))} are switched off in {printable(path)} (hooksConfig.disabled): take their "
                f"command lines out of that list"
            )
    return found


def _pi_problem(profile: Profile, program: str, path: str, environ: Mapping[str, str]) -> str:
    """Why a client does not have the command of the extension at `path`, or ""."""
    variables = {**environ, **_PI_QUIET, launch.TRIAL: "1"}
    ran = hook_trial.run([program, *_PI_ARGUMENTS], cwd="/", environ=variables, seconds=_SECONDS, data=_PI_QUESTION)
    where = printable(path)
    answer = next((value for line in ran.out.splitlines() if (value := _pi_commands(line)) is not None), None)
    if answer is None:
        said = ran.trouble or f"ended with {ran.code}"
        line = printable(hook_trial.last_line(ran.err))
        return f"{profile.title} was asked for its commands and {said}{f': {line}' if line else ''}; run it by hand to see"
    if any(_is_our_command(command, path) for command in answer):
        return ""
    return f"{profile.title} does not load {where}: its own error messages say why; casrewind install {profile.name} writes it anew"


def _pi_commands(line: bytes) -> list[object] | None:
    """The commands in a line of the client's output, None when it is another line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    data = value.get("data") if isinstance(value, dict) and value.get("command") == "get_commands" else None
    commands = data.get("commands") if isinstance(data, dict) else None
    return commands if isinstance(commands, list) else None


def _is_our_command(command: object, path: str) -> bool:
    """True for the command that the extension at `path` registers."""
    if not isinstance(command, dict) or not str(command.get("name")).startswith(_PI_COMMAND):
        return False
    source = command.get("sourceInfo")
    told = source.get("path") if isinstance(source, dict) else None
    return isinstance(told, str) and os.path.realpath(told) == os.path.realpath(path)


def _not_loaded_by_opencode(program: str, path: str, environ: Mapping[str, str]) -> list[str]:
    """Returns a problem if the client does not load the extension at `path`, else nothing.

    A client that does not answer in time is no problem: it may wait for a network.
    """
    ran = hook_trial.run([program, "debug", "config"], cwd="/", environ=environ, seconds=_OPENCODE_SECONDS)
    try:
        loaded = None if ran.trouble or ran.code else json.loads(ran.out).get("plugin")
    except (ValueError, AttributeError, RecursionError):
        return []
    if not isinstance(loaded, list):
        return []
    names = [os.path.realpath(name.removeprefix("file://")) for name in loaded if isinstance(name, str)]
    if os.path.realpath(path) in names:
        return []
    return [f"OpenCode does not load {printable(path)}: casrewind install opencode writes it anew"]
