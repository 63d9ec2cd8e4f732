"""casrewind at: find the checkpoint of a session's entry. A client's extension runs this before it asks a person."""

from ... import errors
from ..._typing import Any
from ...ops import references
from ...ops.references import label_of
from ...workspace import context_of
from ..output import as_json, plural, print_line
from ..restore_output import numbers
from . import OK, Done


def at(workspace: Any, options: Any, done: Done) -> int:
    """casrewind at."""
    if not options.session:
        raise errors.UsageError("at needs --session ID: the client's id of the session")
    context = context_of(workspace)
    entries = tuple(filter(None, (options.entry or "").split(",")))
    point = references.of_entry(context.store, context.root.key, options.session, entries)
    written, removed, problem = 0, 0, None
    if point is not None:
        try:
            written, removed = numbers(workspace.plan_restore(point, ()).actions)
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
    marks = None if point is None else workspace.marks(point)
    as_json(
        {
            "checkpoint": None if point is None else point.id,
            "written": written,
            "removed": removed,
            "problem": problem,
            "label": None if point is None or marks is None else label_of(point, marks) or None,
            "pinned": marks is not None and marks.pinned,
            "checkpoints": sum(found.trigger != "safety" for found, _ in workspace.checkpoints()),
            "undo": bool(context.store.history(context.root.key).undo),
        }
    )
    return OK
