"""Finds a project's conversations in the clients' own directories, if hooks have not reported any conversation.

The danger prevented here: a conversation of another project is found. The name of a directory is only a hint. A
transcript counts if its working directory is the project's root, or below the root and not in another project.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple
from . import client_process, profiles, transcript

_READ = 1 << 18  # bytes of a transcript in which its working directory is looked for
_MOST = 200  # newest transcripts that are looked at
_NAME = 180
"""Characters of a root that its directory's name always has. A client replaces the rest of a long root by a hash."""


class FoundTranscript(NamedTuple):
    """A transcript: the agent's name, the session and the path."""

    agent: str
    session: str
    path: str


def newest(homes: client_process.Homes, root: str, session: str = "") -> FoundTranscript | None:
    """The transcript of a root that was written last; with `session` only that session's."""
    found = []
    for profile in profiles.PROFILES.values():  # the clients of `more_profiles` have no directory for each project
        for path in _candidates(profile, homes, root):
            name = os.path.basename(path).removesuffix(".jsonl")
            identity = name if profile.transcript_name.startswith("{") else name.rpartition("_")[2]
            if client_process.is_id(identity) and session in ("", identity):
                with suppress(OSError):
                    found.append((os.stat(path).st_mtime_ns, FoundTranscript(profile.name, identity, path)))
    found.sort(reverse=True)
    return next((one for _, one in found[:_MOST] if _is_of(one.path, root)), None)


def _candidates(profile: profiles.Profile, homes: client_process.Homes, root: str) -> Iterator[str]:
    """Transcripts in the directories of a client that may be those of a root: their names are made of its path."""
    place = client_process.sessions_of(profile, homes.home, homes.environ)
    places = [moved] if (moved := homes.environ.get(profile.sessions_variable)) else [place]
    for directory in places:
        with suppress(OSError):
            for entry in os.scandir(directory):
                if _plain(entry.name).startswith(_plain(root)[:_NAME]) and entry.is_dir():
                    with suppress(OSError):
                        yield from (one.path for one in os.scandir(entry.path) if one.name.endswith(".jsonl") and one.is_file())


def _plain(path: str) -> str:
    """The letters and digits of a path. Clients replace all other characters in the names of directories."""
    return "".join(character for character in path if character.isascii() and character.isalnum())


def _is_of(path: str, root: str) -> bool:
    """True if a transcript's first working directory is a root, or below it and in no repository of its own."""
    try:
        with open(path, "rb") as file:
            data = file.read(_READ)
    except OSError:
        return False
    named = [transcript.text((line.value or {}).get("cwd")) for line in transcript.containing(data, b'"cwd"')]
    first = next((place for place in reversed(named) if os.path.isabs(place)), "")
    return first != "" and _is_in(os.path.realpath(first), root)


def _is_in(place: str, root: str) -> bool:
    if not fsio.is_in(place, root):
        return False
    while place != root:
        if os.path.lexists(os.path.join(place, ".git")):
            return False
        place = os.path.dirname(place)
    return True
