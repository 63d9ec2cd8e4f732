"""casrewind statusline and at: what the client of an agent runs, or its extension."""

import json
import os
import select
import sys

from ... import errors
from ..._typing import TYPE_CHECKING
from ...hook.state_line import line_of_unusable_store, state_line
from ...messages import plural
from ...ops.context import Context
from ...settings import Settings, open_until_end
from ..terminal.lines import print_json, print_line
from . import OK, Done

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

_PATIENCE = 0.5
"""Seconds in which a client begins to write what it knows."""
_MOST = 1 << 20
_NAMED = 5
"""Paths that a question in a client names: its answers have to stay on the screen."""


def statusline(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind statusline. Its exit code is 0: a client shows nothing after another one."""
    place = _project_on_stdin() or options.directory
    try:
        with open_until_end(place, settings, create=False) as context:
            print_line(state_line(context))
    except errors.WorkspaceNotFound:
        print_line("casrewind: no checkpoint yet")
    except (errors.CasrewindError, OSError) as error:
        print_line(line_of_unusable_store(error))
    return OK


def _project_on_stdin() -> str:
    """The project that a client names on standard input, or ""."""
    try:
        if sys.stdin.isatty() or not select.select([0], [], [], _PATIENCE)[0]:
            return ""
        told = json.loads(os.read(0, _MOST))
        place = told.get("workspace", {}).get("project_dir") or told.get("cwd") or ""
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return place if isinstance(place, str) and os.path.isabs(place) and os.path.isdir(place) else ""


def at(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind at: the checkpoint of a session's entry. A client's extension runs this before it asks a person."""
    from ...ops import lookup
    from ...ops.checkpoint_names import label_of
    from ...ops.restore import restore
    from ..show.restored import first_changes, written_and_removed

    if not options.session:
        raise errors.UsageError("at needs --session ID: the client's id of the session")
    entries = tuple(filter(None, (options.entry or "").split(",")))
    if options.turn is not None:
        from ...ops import conversation

        entries = (conversation.prompt_of_turn(context, options.turn, options.session),)
    point = lookup.checkpoint_of_entry(context, options.session, entries)
    written, removed, first, problem = 0, 0, "", None
    if point is not None:
        try:
            actions = restore(context, point, dry_run=True).actions
            written, removed = written_and_removed(actions)
            first = "\n".join(line.text for line in first_changes(actions, _NAMED))
        except errors.CasrewindError as error:
            problem = str(error)  # a restore would be refused, and that is an answer
    done()
    if not options.json:
        if point is None:
            print_line("no checkpoint was made there")
        elif problem is not None:
            print_line(f"{point.id}: a restore would be refused: {problem}")
        else:
            print_line(f"{point.id}: a restore would write {plural(written, 'path')} and remove {removed}")
        return OK
    marks = None if point is None else lookup.marks(context, point)
    print_json(
        {
            "checkpoint": None if point is None else point.id,
            "entry": entries[0] if entries else None,
            "written": written,
            "removed": removed,
            "plan": first,
            "problem": problem,
            "label": None if point is None or marks is None else label_of(point, marks) or None,
            "pinned": marks is not None and marks.pinned,
            "checkpoints": sum(found.trigger != "safety" for found, _ in lookup.checkpoints_of(context)),
            "undo": bool(context.store.history(context.root.key).undo),
        }
    )
    return OK
