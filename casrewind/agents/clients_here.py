"""Finds the clients that a user has: by their programs and their settings directories. Asks a client what it loads."""

import json
import os
from collections.abc import Iterator, Mapping

from .. import fsio
from .._typing import NamedTuple
from . import extension, hook_trial
from .client_process import home_of
from .install import target_of
from .profiles import PROFILES, Profile

_SECONDS = 10.0


class ClientHere(NamedTuple):
    """A client that seems to be installed. `program`: its path, None if it is not on the PATH. `directory`: its settings
    directory, None if that is missing. `connected`: it has hooks of ours for the user."""

    profile: Profile
    program: str | None
    directory: str | None
    connected: bool


def find(home: str, environ: Mapping[str, str]) -> list[ClientHere]:
    """The clients that are there. Runs no program."""
    from . import diagnose

    found = []
    for profile in PROFILES.values():
        if profile.shown:
            continue
        program = hook_trial.find(profile.program, environ)
        directory = home_of(profile, home, environ)
        there = directory if os.path.isdir(directory) else None
        if program is not None or there is not None:
            hooks = diagnose.find_hooks(profile, None, home, environ, "").hooks
            found.append(ClientHere(profile, program, there, connected=bool(hooks)))
    return found


def plugin_problems(profile: Profile, program: str, home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Ask a client whether it loads the plugin of ours. Yields a problem, if there is one. A client that does not answer
    in time is no problem: without a network it may wait for one."""
    if profile.name != "opencode" or extension.read(profile, target_of(profile, None, home, environ).directory) is None:
        return
    path = os.path.realpath(extension.path_of(profile, target_of(profile, None, home, environ).directory))
    ran = hook_trial.run([program, "debug", "config"], cwd="/", environ=environ, seconds=_SECONDS)
    if ran.trouble or ran.code:
        return
    try:
        loaded = json.loads(ran.out).get("plugin")
    except (ValueError, AttributeError, RecursionError):
        return
    if not isinstance(loaded, list):
        return
    if path not in [os.path.realpath(name.removeprefix("file://")) for name in loaded if isinstance(name, str)]:
        yield f"{profile.title} does not load {fsio.printable(path)}: casrewind install {profile.name} writes it anew"


