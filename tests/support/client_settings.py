"""A client's settings as documents for tests, and a second opinion on what in them is whose: json, and nothing of ours."""

import json
import os
import re

FOREIGN = {"type": "command", "command": "/usr/bin/notify --done 'hook claude'", "timeout": 7}
"""Somebody else's hook."""


def is_ours(hook):
    if not isinstance(hook, dict):
        return False
    return re.search(r"casrewind/__main__\.py'? hook \w+( [\w-]+)? 2>/dev/null \|\| :$", str(hook.get("command"))) is not None


def hooks(path, key="hooks"):
    """{event: [(matcher, hook)]} of everything in a settings file. Some clients have hooks without a group."""
    with open(path, encoding="utf-8-sig") as file:
        document = json.load(file)
    events = document.get(key, {}) if key else document
    return {
        event: [
            (group.get("matcher"), hook)
            for group in groups if isinstance(group, dict) for hook in (group["hooks"] if isinstance(group.get("hooks"), list) else [group])
        ]
        for event, groups in events.items() if isinstance(groups, list)
    }  # fmt: skip


def ours(path, key="hooks"):
    """{event: [(matcher, timeout)]} of our hooks in a settings file."""
    found = {event: [(matcher, hook["timeout"]) for matcher, hook in every if is_ours(hook)] for event, every in hooks(path, key).items()}
    return {event: every for event, every in found.items() if every}


def others(document, key="hooks"):
    """A parsed document without our hooks, and without groups, events and hooks that hold nothing."""
    if not isinstance(document, dict):
        return document
    found = dict(document)
    events = found.pop(key, {}) if key else found
    kept = {}
    for event, groups in events.items():
        if not isinstance(groups, list):
            kept[event] = groups
            continue
        left = []
        for group in groups:
            if isinstance(group, dict) and isinstance(group.get("hooks"), list):
                group = {**group, "hooks": [hook for hook in group["hooks"] if not is_ours(hook)]}
                if not group["hooks"]:
                    continue
            if not is_ours(group):
                left.append(group)
        if left:
            kept[event] = left
    return {**found, "hooks": kept} if key else kept


def read(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(path, mode)
    return str(path)
