"""casrewind statusline: one line for the status line of an agent's client."""

import json
import os
import select
import sys

from ... import errors
from ..._typing import Any
from ...settings import Settings
from ...workspace import Workspace, context_of
from ..output import print_line
from ..state_line import state_line
from . import OK

_PATIENCE = 0.5
"""Seconds in which a client begins to write what it knows."""
_MOST = 1 << 20


def statusline(settings: Settings, options: Any) -> int:
    """casrewind statusline. Its exit code is 0: a client shows nothing after another one."""
    place = _told() or options.directory
    try:
        with Workspace(place, settings, create=False) as workspace:
            print_line(state_line(context_of(workspace)))
    except errors.WorkspaceNotFound:
        print_line("casrewind: no checkpoint yet")
    except errors.CasrewindError as error:
        print_line(f"casrewind: NOT PROTECTED: {str(error).splitlines()[0]}")
    return OK


def _told() -> str:
    """The project that a client names on standard input, or ""."""
    try:
        if sys.stdin.isatty() or not select.select([0], [], [], _PATIENCE)[0]:
            return ""
        told = json.loads(os.read(0, _MOST))
        place = told.get("workspace", {}).get("project_dir") or told.get("cwd") or ""
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return place if isinstance(place, str) and os.path.isabs(place) and os.path.isdir(place) else ""
