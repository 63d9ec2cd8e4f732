"""casrewind statusline: what a client shows in its status line."""

import json
import os
import select
import sys

from ... import errors
from ..._typing import TYPE_CHECKING
from ...hook.state_line import NO_CHECKPOINT, line_of_unusable_store, state_line
from ...settings import Settings, open_until_end
from ..grammar.options import Command
from ..terminal.lines import print_line
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind statusline",),
    options=(),
    more="Reads the client's data from standard input. Claude Code runs it if its settings have a statusLine; see docs/configuration.md.",
    is_alone=True,
)

_PATIENCE = 0.5
"""Seconds in which a client begins to write what it knows."""
_INPUT_BYTES = 1 << 20


def run(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind statusline. Its exit code is 0: a client shows nothing after another one."""
    place = _project_on_stdin() or options.directory
    try:
        with open_until_end(place, settings, create=False) as context:
            print_line(state_line(context))
    except errors.WorkspaceNotFound:
        print_line(NO_CHECKPOINT)
    except (errors.CasrewindError, OSError) as error:
        print_line(line_of_unusable_store(error))
    return OK


def _project_on_stdin() -> str:
    """The project that a client names on standard input, or ""."""
    try:
        if sys.stdin.isatty() or not select.select([0], [], [], _PATIENCE)[0]:
            return ""
        told = json.loads(os.read(0, _INPUT_BYTES))
        place = told.get("workspace", {}).get("project_dir") or told.get("cwd") or ""
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return place if isinstance(place, str) and os.path.isabs(place) and os.path.isdir(place) else ""
