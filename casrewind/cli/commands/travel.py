"""The commands that go back, and forward again."""

from __future__ import annotations  # argparse is imported only where the grammar is needed

import os
import sys
from collections.abc import Callable

from ... import errors
from ...typed import TYPE_CHECKING, Any
from .. import failures, shapes
from ..render import text, timeline, travel
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    import argparse


def _resume(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    if options.ref is not None or options.to or options.dry_run or options.dashed:
        raise errors.UsageError(f"restore --{options.resume} takes nothing else: what to restore is known")
    report = workspace.resume(forward=options.resume == "continue")
    done()
    return _restored(report if options.resume == "continue" else report._replace(op="abort"), options)


def _restore_to(workspace: Any, options: argparse.Namespace, point: Any, done: Done) -> int:
    if options.dashed or options.dry_run:
        raise errors.UsageError("restore --to DIR writes the whole checkpoint: it takes no paths and no --dry-run")
    place = os.path.normpath(os.path.join(options.directory, options.to))
    report = workspace.materialise(point, place, skip_damaged=options.skip_damaged)
    done()
    return _restored(report, options)


def restore(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind restore."""
    from ...ops.restore import Declined
    if options.resume is not None:
        return _resume(workspace, options, done)
    if options.ref is None:
        raise errors.UsageError("restore needs to know what: give a REF; casrewind list shows them")
    point = workspace.checkpoint(options.ref)
    if options.what != "code":
        from . import chat

        return chat.restore(workspace, options, point, done)
    if options.to is not None:
        return _restore_to(workspace, options, point, done)
    scope = workspace.paths(options.rest, [point], options.directory)
    if options.dashed and not scope:
        raise errors.UsageError("restore REF -- needs at least one path behind the dashes")
    if options.dry_run:
        report = workspace.plan_restore(point, scope, skip_damaged=options.skip_damaged)
        done()
        return _restored(report, options)
    confirm = _confirmation(options, done, options.ref)
    try:
        report = workspace.restore(point, scope, confirm, skip_damaged=options.skip_damaged)
    except Declined:
        text.say("nothing was changed")
        return OK
    done()
    return _restored(report, options)


def _restored(report: Any, options: argparse.Namespace) -> int:
    if options.json:
        text.as_json(shapes.restored(report))
    else:
        travel.restored(report, dry_list=report.dry_run)
    return REMARKS if report.incomplete else OK


def _confirmation(options: argparse.Namespace, done: Done, what: str) -> Callable[[Any], bool] | None:
    """What asks the person, None with --yes. Raises UsageError where nobody can be asked."""
    if options.yes:
        return None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise errors.UsageError(f"{options.command} asks before it changes files, and there is no terminal: say --yes")

    def confirm(plan: Any) -> bool:
        done()
        return travel.ask(plan, what)

    return confirm


def undo(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind undo."""
    report = workspace.undo(everything=options.all)
    done()
    return _restored(report, options)


def redo(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind redo."""
    report = workspace.redo()
    done()
    return _restored(report, options)


def run(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind run."""
    import signal
    import subprocess

    if not options.rest:
        raise errors.UsageError("run needs a command: casrewind run -- COMMAND")
    command = " ".join(options.rest)
    label = options.message or command[:200]
    described = not options.message
    before = workspace.save(f"before: {label}", described=described)
    done()
    if not options.quiet:
        text.remark(f"saved {before.checkpoint.id} before the command")
    timeline.faults(before)
    # an interrupt from the terminal is the command's to answer; after it there is still a checkpoint to make
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.Popen(options.rest).wait()
    except OSError as error:
        failures.say_error(f"cannot run {options.rest[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    finally:
        signal.signal(signal.SIGINT, handler)
        after = workspace.save(f"after: {label}", described=described)
        done()
        if not options.quiet:
            timeline.run_ended(before, after)
        timeline.faults(after)
    return 128 - code if code < 0 else code
