"""The `/casrewind` command for Claude Code, and the plugin that contains this command and the hooks.

The danger prevented here: a plugin that is shared names paths of one machine, and its hooks do nothing on another. So
its hooks start a launcher that lies in the plugin. The launcher looks for casrewind each time.
"""

import json
import os
import shlex

from .. import errors, fsio
from ..fastjson import JsonObject
from ..messages import printable, write_error
from .client import Client
from .settings_edit import hook_command, make_hook_entries
from .settings_files import SHARED, read_settings

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

- `/casrewind` lists the newest eight turns, `/casrewind help` shows the commands
- `/casrewind back 1` goes back to before the newest prompt: files and conversation
- `/casrewind diff` shows what changed since then, `/casrewind show @2` what the prompt before the newest one changed
- `/casrewind log PATH` lists the turns that changed a file
- `/casrewind restore @3` restores the files to before prompt @3 of the list
- `/casrewind undo` undoes the newest restore

If you are a model and read this, the hook did not answer. Change nothing and run nothing. Tell the person that casrewind's
hook did not run, and that `casrewind status` and `casrewind install claude` in a terminal show why and fix it.
"""

_SHORT_TEXT = """---
description: Go back to before the newest prompt, or prompt N of the list (casrewind)
argument-hint: "[N] [--code | --chat]"
disable-model-invocation: true
---

<!-- written by casrewind install; casrewind uninstall removes it -->

This is `/casrewind back`. casrewind's hook answers it before any model is asked, so it costs no tokens.

If you are a model and read this, the hook did not answer. Change nothing and run nothing. Tell the person that casrewind's
hook did not run, and that `casrewind status` and `casrewind install claude` in a terminal show why and fix it.
"""

_README = """# casrewind

Saves a checkpoint of the project and the conversation at every prompt and every finished turn. Both can be restored.
This directory is a marketplace with one plugin for Claude Code. It has no path of a machine, so it can be shared.

1. Install casrewind: https://github.com/casrewind/casrewind#install
2. In the client: `/plugin marketplace add` with the path or address of this directory,
   then `/plugin install casrewind@casrewind`.

The hooks look for `casrewind` on the PATH, in `~/.local/bin` and in the usual directories. The variable
CASREWIND_COMMAND can name it instead. Without casrewind the hooks do nothing. Use either the plugin or
`casrewind install claude`: with both, every hook runs twice.

In the client, type `/casrewind:casrewind`; in a terminal, `casrewind --help`.
"""

LAUNCHER = os.path.join("hooks", "casrewind.sh")
"""The path of the launcher in the plugin."""
ROOT = "${CLAUDE_PLUGIN_ROOT}"
"""The client replaces it by the directory of the plugin."""
_LAUNCHER_TEXT = """# Starts casrewind's hooks, wherever casrewind is installed. Written by casrewind install claude --plugin.
PYTHONSAFEPATH=1
export PYTHONSAFEPATH
unset PYTHONPATH PYTHONHOME
found=$(command -v casrewind)
for program in "${CASREWIND_COMMAND:-}" "$found" "$HOME/.local/bin/casrewind" "$HOME/.local/casrewind/bin/casrewind" \\
    /opt/homebrew/bin/casrewind /usr/local/bin/casrewind; do
    case $program in
        /*) [ -x "$program" ] && exec "$program" "$@" ;;
    esac
done
cat >/dev/null
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
_MARKETPLACE = os.path.join(".claude-plugin", "marketplace.json")


def slash_command_file() -> bytes:
    """The `/casrewind` command file. It defines the name in the client; the prompt hook answers the command."""
    return _COMMAND_TEXT.encode()


def short_command_file() -> bytes:
    """The `/back` command file."""
    return _SHORT_TEXT.encode()


def is_our_command(path: str) -> bool:
    """True if the file of a command is there, and we wrote it."""
    try:
        return MARK in (read_settings(path).data or b"")
    except errors.CasrewindError:
        return False


def launcher_script() -> bytes:
    """The shell script that the plugin's hooks run. It finds casrewind, and passes its arguments on."""
    return _LAUNCHER_TEXT.encode()


def hooks_that_run_launcher(client: Client, tier: str) -> dict[str, JsonObject]:
    """As `settings_edit.make_hook_entries`, but the hooks run the plugin's launcher."""
    own, found = shlex.join(hook_command(client.name)), make_hook_entries(client, tier)
    line = f'sh "{ROOT}/{LAUNCHER}" hook {client.name}'
    for group in found.values():
        group["hooks"] = [{**hook, "command": hook["command"].replace(own, line, 1)} for hook in group["hooks"]]
    return found


def plugin_files(client: Client, tier: str, version: str) -> dict[str, bytes]:
    """{path: bytes} of the plugin. Raises AgentError for a client without plugins."""
    if client.name != "claude":
        raise errors.AgentError(f"{client.title} does not support plugins", "omit --plugin")
    hooks = hooks_that_run_launcher(client, tier)
    author, description = {"name": "The casrewind developers"}, "Undo for files and conversation, back to before any prompt"
    marketplace = {
        "name": "casrewind",
        "owner": author,
        "metadata": {"description": description},
        "plugins": [{"name": "casrewind", "source": "./", "description": description}],
    }
    manifest = {
        "name": "casrewind",
        "version": version,
        "description": description,
        "author": author,
        "homepage": "https://github.com/casrewind/casrewind",
        "license": "MIT",
        "keywords": ["checkpoint", "undo", "rewind", "restore"],
    }
    return {
        _MANIFEST: _as_json_bytes(manifest),
        _MARKETPLACE: _as_json_bytes(marketplace),
        LAUNCHER: launcher_script(),
        os.path.join("hooks", "hooks.json"): _as_json_bytes({"hooks": {event: [group] for event, group in hooks.items()}}),
        os.path.join("commands", COMMAND): slash_command_file(),
        "README.md": _README.encode(),
        "LICENSE": _LICENSE.encode(),
    }


def write_plugin(directory: str, client: Client, tier: str, version: str) -> list[str]:
    """Write the plugin into a new or empty directory, or over an earlier plugin of ours. Returns the paths of its
    files. Raises AgentError for a directory with other contents."""
    wanted = plugin_files(client, tier, version)
    where = printable(directory)
    try:
        if os.path.lexists(directory) and not os.path.isdir(directory):
            raise errors.AgentError(f"{where} is not a directory", "name a new directory for the plugin")
        if os.path.isdir(directory) and os.listdir(directory) and not _holds_our_plugin(directory):
            raise errors.AgentError(f"{where} is not empty and holds no casrewind plugin", "name a new directory")
        for path, data in wanted.items():
            place = os.path.join(directory, path)
            fsio.make_directories(os.path.dirname(place), SHARED)
            fsio.replace_file(os.path.dirname(place), os.path.basename(place), data)
            os.chmod(place, 0o644)  # the plugin is meant to be shared
    except OSError as error:
        raise write_error(error, f"the plugin to {where}", "name another directory") from error
    return [os.path.join(directory, path) for path in wanted]


def our_plugins_in_list(listing: str) -> dict[str, list[str]]:
    """{full name: directories} of our plugins in a client's list of installed plugins; {} if the list is unreadable."""
    try:
        plugins = json.loads(fsio.read_file(listing, 4 << 20))["plugins"]
        return {
            name: [entry["installPath"] for entry in entries if isinstance(entry["installPath"], str)]
            for name, entries in plugins.items() if is_our_plugin_name(name)
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def is_our_plugin_name(name: str) -> bool:
    """True if a plugin with this full name (name@marketplace) is ours."""
    return name.partition("@")[0] == "casrewind"


def _holds_our_plugin(directory: str) -> bool:
    try:
        value = json.loads(fsio.read_file(os.path.join(directory, _MANIFEST), 1 << 16))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and value.get("name") == "casrewind"


def _as_json_bytes(value: JsonObject) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
