"""The `/casrewind` command for Claude Code, and the plugin that contains this command and the hooks.

The danger prevented here: a plugin that works on one machine only. Its hooks start a launcher in the plugin's own directory.
"""

import json
import os
import shlex
import shutil
from collections.abc import Mapping

from .. import errors, fsio, launch
from .._typing import Any
from .profiles import Profile
from .settings_edit import groups

COMMAND = "casrewind.md"
MARK = b"written by casrewind install"
"""Contained in every command file of ours, of any version."""

_COMMAND_TEXT = """---
description: Turns of this project and its conversation (list, back, diff, show, log, restore, undo, help)
argument-hint: "[back N | diff | show @N | log PATH | restore @N | undo | help]"
disable-model-invocation: true
---

<!-- written by casrewind install; casrewind uninstall removes it -->

casrewind's hook answers this command before any model is asked, so it costs no tokens:

- `/casrewind` lists the newest eight turns, `/casrewind help` all of this
- `/casrewind back 1` goes back to before the last prompt: files and conversation
- `/casrewind diff` shows what changed since then, `/casrewind show @2` what the turn before the last changed
- `/casrewind log PATH` lists the turns that changed a file
- `/casrewind restore @3` resets the files to before the third turn
- `/casrewind undo` takes the newest restore back

If you are a model and read this, the hook did not answer. Change nothing and run nothing. Tell the person that casrewind's
hook did not run, and that `casrewind status` and `casrewind install claude` in a terminal show why and fix it.
"""

_README = """# casrewind

Makes a checkpoint of the project and the conversation at every prompt and every finished turn. Both can be restored to
any checkpoint: exactly, reversibly, without git.

The hooks run the `casrewind` on the PATH, or in `~/.local/bin`; without one they do nothing. Written by `casrewind install
claude --plugin`. Use either the plugin or `casrewind install claude`: with both, every hook runs twice.

This directory can be shared, and is a marketplace of its own: `/plugin marketplace add DIR`, then
`/plugin install casrewind@casrewind`.

In the client, use `/casrewind:casrewind`; in a terminal, `casrewind --help`.
"""

_LICENSE = """MIT License

Copyright (c) 2026 The casrewind authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
_MANIFEST = os.path.join(".claude-plugin", "plugin.json")


def command_file() -> bytes:
    """The `/casrewind` command file. It defines the name in the client; the prompt hook answers the command."""
    return _COMMAND_TEXT.encode()


_RUN = 'sh "${CLAUDE_PLUGIN_ROOT}"/hooks/casrewind.sh'
"""How the plugin's hooks start casrewind. The client sets the variable to the plugin's directory."""
_LAUNCHER = os.path.join("hooks", "casrewind.sh")
_LAUNCHER_TEXT = """#!/bin/sh
# Runs the casrewind of this machine. Without one it does nothing: a plugin that is shared must not block a prompt.
unset PYTHONPATH PYTHONHOME
for found in casrewind "$HOME/.local/bin/casrewind"; do
    if command -v "$found" >/dev/null 2>&1; then exec "$found" "$@"; fi
done
{}cat >/dev/null
"""
_FALLBACK = """if [ -f {0} ]; then exec {1} "$@"; fi
"""


def launcher(*, shared: bool) -> bytes:
    """The program that the plugin's hooks start. One that is not `shared` also knows the casrewind that wrote it."""
    argv = launch.argv()
    fallback = "" if shared else _FALLBACK.format(shlex.quote(argv[-1]), shlex.join(argv))
    return _LAUNCHER_TEXT.format(fallback).encode()


def is_on_path(environ: Mapping[str, str]) -> bool:
    """True if the hooks of a plugin find a casrewind without knowing who wrote the plugin."""
    local = os.path.join(environ.get("HOME", ""), ".local", "bin")
    return shutil.which("casrewind", path=os.pathsep.join((environ.get("PATH", ""), local))) is not None


def as_run(directory: str, hook: object) -> object:
    """A hook of the plugin in a directory as the command that it ends in; another hook, or one with another launcher, as it is."""
    line = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(hook, dict) or not isinstance(line, str) or not line.startswith(f"{_RUN} "):
        return hook
    try:
        found = fsio.read_file(os.path.join(directory, _LAUNCHER), 1 << 16)
    except OSError:
        return hook
    if found not in (launcher(shared=True), launcher(shared=False)):
        return hook
    return {**hook, "command": shlex.join(launch.argv()) + line[len(_RUN) :]}


def _shared(group: dict[str, Any]) -> dict[str, Any]:
    """A group of hooks that start casrewind by the plugin's own launcher."""
    own = shlex.join(launch.argv())
    return {**group, "hooks": [{**hook, "command": _RUN + hook["command"].removeprefix(own)} for hook in group["hooks"]]}


def files(profile: Profile, tier: str, version: str, *, resident: bool = False) -> dict[str, bytes]:
    """{path: bytes} of the plugin; `resident`: with the helper. Raises AgentError for a client without plugins."""
    if profile.name != "claude":
        raise errors.AgentError(f"{profile.title} does not support plugins: omit --plugin")
    hooks = groups(profile, tier, resident=resident)
    manifest = {
        "name": "casrewind",
        "version": version,
        "description": "Checkpoints of the project and the conversation at every turn, restored exactly",
        "author": {"name": "The casrewind authors"},
        "license": "MIT",
        "keywords": ["checkpoint", "undo", "rewind", "restore"],
    }
    marketplace = {
        "name": "casrewind",
        "description": manifest["description"],
        "owner": {"name": "The casrewind authors"},
        "plugins": [{"name": "casrewind", "source": "./", "description": manifest["description"], "version": version}],
    }
    return {
        _MANIFEST: _json(manifest),
        os.path.join("hooks", "hooks.json"): _json({"hooks": {event: [_shared(group)] for event, group in hooks.items()}}),
        os.path.join(".claude-plugin", "marketplace.json"): _json(marketplace),
        _LAUNCHER: launcher(shared=is_on_path(os.environ)),
        os.path.join("commands", COMMAND): command_file(),
        "README.md": _README.encode(),
        "LICENSE": _LICENSE.encode(),
    }


def write(directory: str, profile: Profile, tier: str, version: str, *, resident: bool = False) -> list[str]:
    """Write the plugin into a new or empty directory, or over an earlier plugin of ours. Returns the paths of its
    files. Raises AgentError for a directory with other contents."""
    wanted = files(profile, tier, version, resident=resident)
    where = fsio.printable(directory)
    try:
        if os.path.lexists(directory) and not os.path.isdir(directory):
            raise errors.AgentError(f"{where} is not a directory: name a new directory for the plugin")
        if os.path.isdir(directory) and os.listdir(directory) and not _is_plugin(directory):
            raise errors.AgentError(f"{where} is not empty and holds no plugin of casrewind's: name a new directory")
        for path, data in wanted.items():
            place = os.path.join(directory, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            fsio.replace_file(os.path.dirname(place), os.path.basename(place), data)
            os.chmod(place, 0o755 if path == _LAUNCHER else 0o644)  # the plugin is meant to be shared
    except OSError as error:
        if fsio.is_full(error):
            raise errors.StoreFull(f"{fsio.reason_of(error)} while writing the plugin to {where}") from error
        reason = error.strerror or str(error)
        raise errors.AgentError(f"the plugin cannot be written to {where}: {reason}; name another directory") from error
    return [os.path.join(directory, path) for path in wanted]


def installed(listing: str) -> dict[str, list[str]]:
    """{full name: directories} of our plugins in a client's list of installed plugins; {} if the list is unreadable."""
    try:
        plugins = json.loads(fsio.read_file(listing, 4 << 20))["plugins"]
        return {
            name: [entry["installPath"] for entry in entries if isinstance(entry["installPath"], str)]
            for name, entries in plugins.items() if is_name(name)
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def is_name(name: str) -> bool:
    """True if a plugin with this full name (name@marketplace) is ours."""
    return name.partition("@")[0] == "casrewind"


def _is_plugin(directory: str) -> bool:
    try:
        value = json.loads(fsio.read_file(os.path.join(directory, _MANIFEST), 1 << 16))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and value.get("name") == "casrewind"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
