"""The versions of the clients with which casrewind was tried, in one table. The page docs/internals/clients.md shows it.

The danger prevented here: a person trusts a version of a client that was never tried. With an old Node, for example in a
container, npm silently installs an old version.
"""

import re
from collections.abc import Mapping

from .._typing import NamedTuple


class TriedVersions(NamedTuple):
    """The versions of one client."""

    tests: str
    """The version that the tests run."""
    newest: str
    """The newest one with which they were run."""


TRIED: Mapping[str, TriedVersions] = {
    "claude": TriedVersions("2.1.329", "2.1.332"),
    "droid": TriedVersions("0.225.2", "0.225.2"),
    "pi": TriedVersions("0.87.1", "1.6.0"),
    "codex": TriedVersions("0.169.0", "0.171.0"),
    "gemini": TriedVersions("0.61.0", "0.61.0"),
    "copilot": TriedVersions("1.0.102", "1.0.102"),
    "opencode": TriedVersions("1.18.33", "1.18.33"),
}
"""{client: its versions}. Other clients were never run."""


def describe_untried(name: str, version: str) -> str:
    """What to say of the version that a client told of itself if it is older or newer than those with which casrewind was
    tried, as the rest of a sentence; else ""."""
    tried, found = TRIED.get(name), re.search(r"\d+(?:\.\d+)+", version)
    if tried is None or found is None:
        return ""
    if _numbers(found[0]) > _numbers(tried.newest):
        return f"is newer than {tried.newest}, the newest version with which casrewind was tried"
    if _numbers(found[0]) < _numbers(tried.tests):
        return f"is older than {tried.tests}, the oldest version with which casrewind is tried: under an old Node, npm installs an old one"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split("."))
