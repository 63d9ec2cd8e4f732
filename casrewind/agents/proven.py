"""The newest version of each client with which casrewind was tried, in the client itself.

The danger prevented here: a client changes its hooks or its sessions, and nobody looks. A newer version is named, and
works or does not; `doctor` tries its hooks either way.
"""

import re

VERSIONS = {
    "claude": "2.1.330",
    "droid": "0.225.2",
    "pi": "0.87.1",
    "codex": "0.169.0",
    "gemini": "0.61.0",
    "copilot": "1.0.102",
    "opencode": "1.18.33",
}


def newer_than_proven(agent: str, said: str) -> str:
    """The newest proven version, if the version that a client said of itself is newer; else ""."""
    proven = VERSIONS.get(agent, "")
    found = re.search(r"\d+(?:\.\d+)+", said)
    return proven if proven and found is not None and _numbers(found[0]) > _numbers(proven) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split("."))
