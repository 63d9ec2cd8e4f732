"""The plugin of ours that a client loads instead of hooks in its settings: its text, and how it is written and removed.

The danger prevented here: overwriting or removing a file of the user that has the same name. Only a file with our mark
is replaced or removed.
"""

import json
import os
import pkgutil
import re

from .. import errors, fsio
from .._typing import NamedTuple
from . import settings_edit, settings_files
from .profiles import TIERS, Profile

MARK = b"written by casrewind install"
_CONSTANTS = re.compile(r"^const (COMMAND|EVENTS|RESIDENT) = (.*)$", re.MULTILINE)


class ExtensionFile(NamedTuple):
    """A plugin file of ours. `command` is what it runs, () if that is unreadable; `events` are its events with their
    timeouts in seconds; `resident`: it starts the helper."""

    path: str
    command: tuple[str, ...]
    events: dict[str, float]
    resident: bool
    data: bytes


def text(profile: Profile, tier: str, *, resident: bool) -> bytes:
    """The plugin's text for a tier."""
    source = pkgutil.get_data(__package__, f"{profile.name}_plugin.js")
    assert source is not None
    values = {
        "COMMAND": settings_edit.hook_command(profile.name),
        "EVENTS": {hook.event: hook.timeout for hook in profile.hooks[tier]},
        "RESIDENT": resident,
    }
    return _CONSTANTS.sub(lambda found: f"const {found[1]} = {json.dumps(values[found[1]])}", source.decode()).encode()


def path_of(profile: Profile, directory: str) -> str:
    """The plugin's path, for a client's settings directory."""
    return os.path.join(directory, profile.extension)


def read(profile: Profile, directory: str) -> ExtensionFile | None:
    """The plugin in a settings directory; None if there is none of ours. Raises AgentError if it is unreadable."""
    path = path_of(profile, directory)
    data = settings_files.read(path).data
    if data is None or MARK not in data:
        return None
    values = dict.fromkeys(("COMMAND", "EVENTS", "RESIDENT"))
    for name, value in _CONSTANTS.findall(data.decode("utf-8", "replace")):
        try:
            values[name] = json.loads(value)
        except (ValueError, RecursionError):
            continue
    command: object = values["COMMAND"]
    events: object = values["EVENTS"]
    words = tuple(command) if isinstance(command, list) and all(isinstance(word, str) for word in command) else ()
    timeouts = {}
    for event, seconds in events.items() if isinstance(events, dict) else ():
        timeouts[event] = float(seconds) if type(seconds) in (int, float) and seconds > 0 else 0.0
    return ExtensionFile(path, words, timeouts, values["RESIDENT"] is True, data)


def write(profile: Profile, directory: str, tier: str, mode: int, *, resident: bool) -> bool:
    """Write the plugin. Returns False if it was there already. Raises AgentError, StoreFull, FileChanged."""
    present = settings_files.read(path_of(profile, directory))
    if present.data is not None and MARK not in present.data:
        raise errors.AgentError(
            f"{fsio.printable(present.path)} is a file of your own: rename it, then try again; nothing was changed"
        )
    wanted = text(profile, tier, resident=resident)
    if present.data == wanted:
        return False
    settings_files.check_writable(present)
    settings_files.put(present, wanted, mode)
    return True


def remove(profile: Profile, directory: str) -> ExtensionFile | None:
    """Remove the plugin, and its directory if that is empty. Returns what was removed. Raises as `write` does."""
    found = read(profile, directory)
    path = path_of(profile, directory)
    settings_files.remove_drafts(path)
    if found is not None:
        settings_files.remove(settings_files.read(path))
        settings_files.remove_empty(os.path.dirname(path))
    return found


def is_current(profile: Profile, found: ExtensionFile) -> bool:
    """True if an installation would write the same file."""
    return any(found.data == text(profile, tier, resident=found.resident) for tier in TIERS)
