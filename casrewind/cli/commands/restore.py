"""casrewind restore, jump, undo and redo."""

import os

from ... import errors
from ..._typing import Any
from .. import restore_output
from ..output import as_json, asks, print_line
from . import OK, REMARKS, Done


def restore(workspace: Any, options: Any, done: Done) -> int:
    """casrewind restore."""
    from ...ops.restore import Declined

    if options.resume is not None:
        return _resume(workspace, options, done)
    if options.ref is None:
        raise errors.UsageError("restore needs to know what: give a REF; casrewind list shows them")
    point = workspace.checkpoint(options.ref)
    if options.what != "code":
        from . import back

        return back.restore(workspace, options, point, done)
    if options.to is not None:
        return _restore_to(workspace, options, point, done)
    scope = workspace.paths(options.rest, [point], options.directory)
    if options.dashed and not scope:
        raise errors.UsageError("restore REF -- needs at least one path behind the dashes")
    if options.dry_run:
        report = workspace.plan_restore(point, scope, skip_damaged=options.skip_damaged)
        done()
        return _restored(report, options)

    def confirm(plan: Any) -> bool:
        done()
        return restore_output.confirm(plan, options.ref)

    is_asked = asks(options, f"{options.command} asks before it changes files, and there is no terminal")
    try:
        report = workspace.restore(point, scope, confirm if is_asked else None, skip_damaged=options.skip_damaged)
    except Declined:
        print_line("nothing was changed")
        return OK
    done()
    return _restored(report, options)


def _resume(workspace: Any, options: Any, done: Done) -> int:
    if options.ref is not None or options.to or options.dry_run or options.dashed:
        raise errors.UsageError(f"restore --{options.resume} takes nothing else: what to restore is known")
    report = workspace.resume(forward=options.resume == "continue")
    done()
    return _restored(report if options.resume == "continue" else report._replace(op="abort"), options)


def _restore_to(workspace: Any, options: Any, point: Any, done: Done) -> int:
    if options.dashed or options.dry_run:
        raise errors.UsageError("restore --to DIR writes the whole checkpoint: it takes no paths and no --dry-run")
    place = os.path.normpath(os.path.join(options.directory, options.to))
    report = workspace.materialise(point, place, skip_damaged=options.skip_damaged)
    done()
    return _restored(report, options)


def undo(workspace: Any, options: Any, done: Done) -> int:
    """casrewind undo."""
    report = workspace.undo(everything=options.all)
    done()
    return _restored(report, options)


def redo(workspace: Any, options: Any, done: Done) -> int:
    """casrewind redo."""
    report = workspace.redo()
    done()
    return _restored(report, options)


def _restored(report: Any, options: Any) -> int:
    if options.json:
        as_json(restore_output.shape(report))
    else:
        restore_output.print_restored(report)
    return REMARKS if report.incomplete else OK
