"""casrewind restore, jump, undo and redo."""

import os
from collections.abc import Callable

from ... import errors
from ..._typing import Any
from ...ops.execute import Restored
from .. import restore_output, words
from ..output import as_json, print_line
from ..questions import asks, may_ask
from . import OK, REMARKS, Done


def restore(workspace: Any, options: Any, done: Done) -> int:
    """casrewind restore."""
    from ...ops.restore import Declined

    if options.resume is not None:
        return _resume(workspace, options, done)
    if options.ref is None:
        raise errors.UsageError("restore: which checkpoint? casrewind list shows them, casrewind restore last restores the newest")
    if words.Words(workspace, options).is_now(options.ref):
        if options.what != "code" or options.to is not None:
            raise errors.CheckpointNotFound(f"{options.ref}: that turn has no end yet, so there is no checkpoint of the state after it")
        done()
        return _restored(Restored("restore", "", "", (), (), 0, dry_run=options.dry_run), options)
    point = words.restored(workspace, options)
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
        if not options.json:
            restore_output.warn(workspace, report.actions)
            print_line(f"{restore_output.target_of(workspace, point)}:")
        return _restored(report, options)

    is_asked = asks(options, f"{options.command} asks before it changes files, and there is no terminal")
    title = restore_output.target_of(workspace, point) if is_asked else ""
    confirm = restore_output.asking(workspace, lambda: title, done, is_asked=is_asked)
    try:
        report = workspace.restore(point, scope, confirm, skip_damaged=options.skip_damaged)
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

    def take_back(confirm: Callable[[Any], bool] | None) -> Any:
        return workspace.undo(confirm, everything=options.all, dry_run=options.dry_run)

    return _take_back(workspace, options, done, take_back)


def redo(workspace: Any, options: Any, done: Done) -> int:
    """casrewind redo."""

    def take_back(confirm: Callable[[Any], bool] | None) -> Any:
        return workspace.redo(confirm, dry_run=options.dry_run)

    return _take_back(workspace, options, done, take_back)


def _take_back(workspace: Any, options: Any, done: Done, take_back: Callable[[Callable[[Any], bool] | None], Any]) -> int:
    """Undo or redo: list the steps, show the plan, or carry it out. On a terminal the command asks first."""
    from ...ops.restore import Declined
    from .. import undo_output

    if options.list:
        done()
        undo_output.print_steps(workspace, options)
        return OK

    title = "" if options.json else undo_output.title_of(workspace, options.command)
    is_asked = may_ask(options) and not options.dry_run
    confirm = restore_output.asking(workspace, lambda: undo_output.title_of(workspace, options.command), done, is_asked=is_asked)
    try:
        report = take_back(confirm)
    except Declined:
        print_line("nothing was changed")
        return OK
    done()
    if not options.json and not is_asked:  # a question has named it already
        print_line(f"{title}:")
    return _restored(report, options)


def _restored(report: Any, options: Any) -> int:
    if options.json:
        as_json(restore_output.shape(report))
    else:
        restore_output.print_restored(report)
    return REMARKS if report.incomplete else OK
