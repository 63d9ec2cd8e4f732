"""casrewind list."""

from collections.abc import Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...ops.references import is_numbered
from ...store.catalog import Marked
from ...typed import Any
from ...workspace import site_of
from .. import output
from . import OK, Done

_NARROW = 76
"""Columns that a list needs for everything that it has to say."""


def list_checkpoints(workspace: Any, options: Any, done: Done) -> int:
    """casrewind list."""
    current = workspace.current()
    sessions: dict[str, int | None] = {}
    if options.session is not None:
        from ...ops import conversation

        sessions = conversation.lineage(site_of(workspace), options.session)

    def is_wanted(point: Checkpoint) -> bool:
        listed = options.all or is_numbered(point, workspace.root.key)
        return listed and (options.session is None or _is_of(point, sessions))

    if options.number is None:
        everything = workspace.checkpoints(every_worktree=options.all)
    else:
        everything = site_of(workspace).store.checkpoints(options.number, is_wanted)
    rows = []
    number = 0
    for point, marked in everything:
        counts = is_numbered(point, workspace.root.key)
        number += counts
        if is_wanted(point):
            rows.append((number if counts else None, point, marked))
    done()
    if options.json:
        from .. import json_output

        output.as_json({"checkpoints": [json_output.checkpoint(point, marked, current) for _, point, marked in rows]})
    else:
        _show(rows, current)
    return OK


def _is_of(point: Checkpoint, sessions: dict[str, int | None]) -> bool:
    """Whether a checkpoint was made in one of these sessions, before the next of them went on from it."""
    until = sessions.get(point.session, 0)
    return until is None or point.created_ns <= until


def _show(found: Sequence[tuple[int | None, Checkpoint, Marked]], current: str) -> None:
    if not found:
        output.say("no checkpoints to show; casrewind save makes one")
        return
    names = ("#", "id", "when", "what", "files", "size", "changes")[: 4 if output.width() < _NARROW else None]
    rows = []
    for number, point, marked in found:
        what = output.said_of(point, marked) or ("" if point.trigger == checkpoints.MANUAL else point.trigger.replace("_", " "))
        signs = ("* " if marked.pinned else "") + what + ("  (current)" if point.id == current else "")
        row = (
            "" if number is None else str(number), point.id, output.age(point.created_ns), fsio.show(signs),
            f"{point.files:,}", output.size(point.size), output.signed(point.changes),
        )  # fmt: skip
        rows.append(row[: len(names)])
    output.table(names, rows, right=("#", "files", "size"), last="what")
