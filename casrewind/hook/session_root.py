"""Decides in which project the events of a session are recorded.

The danger prevented here: one turn in two projects. An agent enters another directory in the middle of a turn, its end is
recorded there, and going back goes one prompt too far. So the project is decided at the start of a session and at each
prompt. Until the next one it stays.
"""

import os

from .. import errors, locations
from ..agents.client import Client
from ..agents.event import Event
from ..settings import Settings, default_settings, find_root
from ..store import agent_sessions, registry


def find_directory(client: Client, event: Event) -> str:
    """A directory of the project in which an event is recorded. Reads what earlier events of the session left in the stores."""
    settings = default_settings()  # the configuration file has no say in this
    named = event.root or event.cwd or os.getcwd()
    is_start = event.trigger == "session_start" and event.source != "compact"  # a client starts anew in the middle of a turn
    is_prompt = event.trigger == "prompt" or event.command is not None
    if event.root and (is_start or is_prompt):  # the client names the project of its start, and may be back in a worktree of it
        place = _find_worktree(event.root, event.cwd, settings) if event.cwd else ""
        is_there = place and any(client.works_in(event.transcript, each) for each in (place, _as_written(event.cwd, place)))
        return place if is_there else named
    known = "" if is_start else _last_root(event, settings)
    if not known or not is_prompt:
        return known or named
    if not locations.is_in(locations.real_path(named), known):
        return named
    return _find_worktree(known, named, settings) or known  # the agent may have gone to any other directory of it


def _find_worktree(project: str, directory: str, settings: Settings) -> str:
    """The worktree with a directory, if it is another one of the project's repository; else ""."""
    try:
        outer, inner = find_root(project, settings), find_root(directory, settings)
    except (errors.CasrewindError, OSError):
        return ""
    is_other = inner.path != outer.path and inner.common_dir is not None and inner.common_dir == outer.common_dir
    return inner.path if is_other else ""


def _as_written(directory: str, place: str) -> str:
    """The directory `place`, in which `directory` lies, in the spelling of the latter: a client may name its files after that."""
    below = os.path.relpath(locations.real_path(directory), place)
    return os.path.normpath(os.path.join(directory, *([] if below == "." else [".."] * len(below.split("/")))))


def _last_root(event: Event, settings: Settings) -> str:
    """The root that the session's last event was recorded in; "" without one, or if that directory is gone."""
    if not event.session:
        return ""
    stores = [registry.store_directory(settings.data, name) for name in registry.store_names(settings.data)]
    known = agent_sessions.find_newest(stores, event.agent, event.session)
    if known is None:
        return ""
    try:
        root = find_root(known.root, settings).path
        return root if root == locations.real_path(known.root) else ""
    except (errors.CasrewindError, OSError):
        return ""  # it was a worktree that is removed
