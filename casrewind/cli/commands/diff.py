"""casrewind diff."""

import sys

from ... import errors, fsio
from ...model.diff import count
from ...typed import TYPE_CHECKING, Any
from .. import json_output
from ..output import COLOURS, SIGNS, as_json, counted, paint, raw, remark, say, sizes
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...ops.compare import Comparison


def diff(workspace: Any, options: Any, done: Done) -> int:
    """casrewind diff."""
    if len(options.refs) > 2:
        raise errors.UsageError("diff takes at most two checkpoints; paths go behind --")
    old = workspace.checkpoint(options.refs[0] if options.refs else "last")
    new = workspace.checkpoint(options.refs[1]) if len(options.refs) == 2 else None
    sides = [old] if new is None else [old, new]
    found = workspace.diff(old, new, workspace.paths(options.rest, sides, options.directory, worktree=new is None))
    done()
    if options.json:
        missing = [json_output.path(path) for path in found.missing]
        as_json({"changes": [json_output.change(change) for change in found.changes], "missing": missing})
    else:
        show(found, options.form)
    for path in found.missing:
        remark(f"casrewind: no such path: {fsio.show(path)}: no checkpoint that was compared has it, nor the worktree")
    return REMARKS if found.missing else OK


def show(found: "Comparison", form: str) -> None:
    """A comparison for a person, as "stat", "patch" or "name-status"."""
    if form == "patch":
        from .. import patch

        shown = sys.stdout.isatty()
        for change in found.changes:
            for data in patch.lines(found, change):
                if shown:  # a person looks at it: content may hold sequences that command a terminal
                    text = fsio.show(data.replace(b"\t", b"        "))
                    say(paint(text, {"+": "32", "-": "31", "@": "36", "d": "1"}.get(text[:1], "0")))
                else:
                    raw(data + b"\n")
        return
    for change in found.changes:
        sign = SIGNS[change.status]
        line = f"{paint(sign, COLOURS[sign])}  {fsio.show(change.path)}"
        say(line if form == "name-status" else line + sizes(change))
    if form == "stat":
        say(counted(count(list(found.changes))) if found.changes else "no difference")
