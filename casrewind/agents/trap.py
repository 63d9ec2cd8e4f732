"""What keeps a client's posts from this machine's loopback: a proxy, or a list of the URLs that it may post to.

The danger prevented here: hooks that are posted into nowhere. The client says nothing of it, and goes on.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence

from .. import errors, fsio
from ..typed import Any
from . import files
from .ours import HOST
from .profile import Profile

_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
"""The variables by which Claude Code goes to a proxy: those for TLS, too, whatever the URL is, and not ALL_PROXY (tried)."""
_EXCEPTIONS = ("no_proxy", "NO_PROXY")


def obstacles(profile: Profile, url: str, places: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What keeps a client from posting to `url`, each as a sentence that says what to do.

    `places` are its settings files, the weakest first, as far as they are there; `environ` is what it is started with.
    """
    found = [(path, value) for path in (*places, profile.managed) if path and (value := _read(path)) is not None]
    return [*_proxy(profile, url, found, environ), *_list(profile, url, found)]


def _read(path: str) -> dict[str, Any] | None:
    """Settings as they are, None where they cannot be understood: others have said so."""
    try:
        value = json.loads((files.read(path).data or b"{}").decode("utf-8-sig"))
    except (errors.AgentError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _proxy(profile: Profile, url: str, found: Sequence[tuple[str, dict[str, Any]]], environ: Mapping[str, str]) -> list[str]:
    variables = {name: (value, "the environment here") for name, value in environ.items()}
    for path, settings in found:
        more = settings.get("env")
        if isinstance(more, dict):
            variables |= {name: (value, f'"env" in {fsio.show(path)}') for name, value in more.items() if isinstance(value, str)}
    name = next((name for name in _PROXIES if variables.get(name, ("", ""))[0]), None)
    exceptions = next((variables[name][0] for name in _EXCEPTIONS if variables.get(name, ("", ""))[0]), "")
    if name is None or {"*", HOST, url.split("/")[2]}.intersection(re.split(r"[\s,]+", exceptions)):
        return []
    where = variables[name][1]
    said = f"{name} is set ({where}), so {profile.title} sends posted hooks to that proxy, where they end: add {HOST} to NO_PROXY there"
    return [f"{said}, or casrewind install {profile.name} --no-http"]


def _list(profile: Profile, url: str, found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    lists = [(path, settings[profile.url_key]) for path, settings in found if profile.url_key and settings.get(profile.url_key) is not None]
    patterns = [item for _, value in lists if isinstance(value, list) for item in value if isinstance(item, str)]
    if not lists or any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), url) for pattern in patterns):
        return []
    where = " and ".join(fsio.show(path) for path, _ in lists)
    said = f'"{profile.url_key}" in {where} does not name {url}, so {profile.title} posts nothing there'
    return [f"{said}: add http://{HOST}:*/casrewind/*, or casrewind install {profile.name} --no-http"]


def settings_of(profile: Profile, user: str, root: str | None) -> list[str]:
    """The settings files of a client, the weakest first: those in the directory `user`, then those of a project."""
    project = [] if root is None else [os.path.join(root, profile.home)]
    names = [file.name for file in profile.files]
    aside = [file.name for file in profile.aside]
    return [os.path.join(user, name) for name in names] + [os.path.join(place, name) for place in project for name in (*names, *aside)]
