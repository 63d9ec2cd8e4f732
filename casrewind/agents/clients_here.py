"""Finds the clients that a user has: by their programs and their settings directories."""

import os
from collections.abc import Mapping

from .._typing import NamedTuple
from . import diagnose, hook_trial
from .client_process import home_of
from .more_profiles import ALL
from .profiles import Profile


class ClientHere(NamedTuple):
    """A client that seems to be installed. `program`: its path, None if it is not on the PATH. `directory`: its
    settings directory, None if that is missing. `connected`: it has hooks of ours for the user."""

    profile: Profile
    program: str | None
    directory: str | None
    connected: bool


def find(home: str, environ: Mapping[str, str]) -> list[ClientHere]:
    """The clients that are there. Runs no program."""
    found = []
    for profile in ALL.values():
        if profile.shown:
            continue
        program = hook_trial.find(profile.program, environ)
        directory = home_of(profile, home, environ)
        there = directory if os.path.isdir(directory) else None
        if program is not None or there is not None:
            hooks = diagnose.find_hooks(profile, None, home, environ, "").hooks
            found.append(ClientHere(profile, program, there, connected=bool(hooks)))
    return found
