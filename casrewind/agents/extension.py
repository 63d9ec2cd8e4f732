"""A client's extension: one file of ours that the client loads, instead of hooks in its settings.

The danger prevented here: a person's file is replaced or removed. A file counts as ours only if a digest in it fits the
rest of it. So an extension of another program, and a copy of ours that was edited, are left alone.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping

from .. import errors, fsio, launch
from .._typing import NamedTuple
from ..messages import printable
from . import settings_files
from .client import TIERS, Client

_MARK = b"// Written by casrewind install"
_DIGEST = re.compile(rb"^// digest ([0-9a-f]+)$", re.MULTILINE)
_VALUE = re.compile(rb"^const ([A-Z]+) = (.*);$", re.MULTILINE)


class ExtensionFile(NamedTuple):
    """The extension that is installed in a client's directory.

    `command` is the command line that it runs, `events` are the events that it reports. `is_intact`: the file is unchanged
    since an installation, of any version, wrote it. `is_current`: the file equals what this version would write.
    """

    path: str
    command: tuple[str, ...]
    events: tuple[str, ...]
    is_intact: bool
    is_current: bool


def extension_bytes(client: Client, tier: str) -> bytes:
    """The bytes of a client's extension for a tier."""
    from importlib import resources

    template = resources.files(__package__).joinpath("data", f"{client.name}_extension.js").read_bytes()
    values = {
        b"COMMAND": launch.own_command(),
        b"EVENTS": {hook.event: hook.timeout for hook in client.hooks_of(tier)},
        b"HARMLESS": sorted(client.events.harmless_tools),
    }
    text = _VALUE.sub(lambda found: _constant_with_value(found, values), template)
    return _DIGEST.sub(b"// digest " + _digest_without_own(text), text, count=1)


def extension_path(client: Client, directory: str) -> str:
    """Where the extension is in a client's directory."""
    return os.path.join(directory, client.settings.extension)


def read_our_extension(client: Client, directory: str) -> ExtensionFile | None:
    """The extension in a client's directory; None if it is missing or another program's. Raises AgentError."""
    path = extension_path(client, directory)
    data = settings_files.read_settings(path).data
    if data is None or _MARK not in data:
        return None
    values = {name: _json_or_none(text) for name, text in reversed(_VALUE.findall(data))}
    command, events = values.get(b"COMMAND"), values.get(b"EVENTS")
    words = tuple(str(word) for word in command) if isinstance(command, list) else ()
    names = tuple(events) if isinstance(events, dict) else ()
    tiers = [tier for tier in TIERS if {hook.event for hook in client.hooks_of(tier)} == set(names)]
    is_current = any(data == extension_bytes(client, tier) for tier in tiers)
    return ExtensionFile(path, words, names, is_ours_unchanged(data), is_current)


def is_ours_unchanged(data: bytes) -> bool:
    """True when an installation wrote these bytes and they were not changed since."""
    found = _DIGEST.search(data)
    return found is not None and _MARK in data and found[1] == _digest_without_own(data)


def install_extension(client: Client, directory: str, data: bytes, mode: int) -> bool:
    """Write the extension into a client's directory; True if the file changed. Raises AgentError, StoreFull."""
    present = _read_if_ours(client, directory)
    if present.data == data:
        return False
    settings_files.check_writable(present)
    settings_files.replace_if_unchanged(present, data, mode)
    return True


def uninstall_extension(client: Client, directory: str) -> tuple[str, tuple[str, ...]] | None:
    """Remove the extension; (its path, its events), None where there was none. Raises AgentError."""
    path = extension_path(client, directory)
    fsio.remove_orphans(os.path.dirname(path))
    found = read_our_extension(client, directory)
    if found is None:
        return None
    settings_files.remove_if_unchanged(_read_if_ours(client, directory))
    settings_files.remove_if_empty(os.path.dirname(path))
    return path, found.events


def _read_if_ours(client: Client, directory: str) -> settings_files.SettingsFile:
    """What is at the extension's place. Raises AgentError for a file that is not ours, or not as it was written."""
    present = settings_files.read_settings(extension_path(client, directory))
    if present.data is not None and not is_ours_unchanged(present.data):
        what = "was edited since casrewind wrote it" if _MARK in present.data else "is an extension of your own"
        raise errors.AgentError(f"{printable(present.path)} {what}; nothing was changed", "move it away, then try again")
    return present


def _constant_with_value(found: "re.Match[bytes]", values: Mapping[bytes, object]) -> bytes:
    """The line of a constant with its new value. A constant that has none in `values` keeps its line."""
    if found[1] not in values:
        return found[0]
    return b"const " + found[1] + b" = " + json.dumps(values[found[1]]).encode() + b";"


def _digest_without_own(data: bytes) -> bytes:
    return hashlib.sha256(_DIGEST.sub(b"// digest 0", data, count=1)).hexdigest().encode()


def _json_or_none(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
