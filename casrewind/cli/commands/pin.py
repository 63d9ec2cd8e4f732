"""casrewind pin and unpin."""

from ... import fsio
from ...ops.marks import Marking
from ...typed import Any
from .. import json_output
from ..output import as_json, say
from . import OK, Done


def pin(workspace: Any, options: Any, done: Done) -> int:
    """casrewind pin."""
    return _report(workspace, options, workspace.pin(workspace.checkpoint(options.ref), options.label), done)


def unpin(workspace: Any, options: Any, done: Done) -> int:
    """casrewind unpin."""
    return _report(workspace, options, workspace.unpin(workspace.checkpoint(options.ref)), done)


def _report(workspace: Any, options: Any, report: Any, done: Done) -> int:
    done()
    if options.json:
        as_json({"checkpoint": json_output.checkpoint(report.checkpoint, report.marked, workspace.current())})
    else:
        show(report)
    return OK


def show(report: Marking) -> None:
    """What was marked, for a person."""
    name, label = report.checkpoint.id, fsio.show(report.label)
    if not report.changed:
        already = f"{name} is pinned already{f', its label is {label!r}' if label else ''}"
        say(already if report.marked.pinned else f"{name} is not pinned, and no label keeps it")
    elif not report.marked.pinned:
        say(f"unpinned {name}{f'; its label {label!r} stays, and does not keep it any more' if label else ''}")
    else:
        before = f" (it was {fsio.show(report.before)!r})" if report.before not in ("", report.label) else ""
        say(f"pinned {name}{f', its label is {label!r}' if label else ''}{before}")
