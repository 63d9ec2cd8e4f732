"""The `casrewind` command: parse, call one method of the workspace, print, exit.

Exit codes are on the exceptions (errors.py); 3 says that something was left undone or unread, 64 a usage error, 130 an
interrupt, 70 a bug.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from . import failures

OK, REMARKS = 0, 3
_CREATES = frozenset({"save", "run"})
_PATHS = frozenset({"diff", "restore"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        from . import parser as grammar

        failures.fill_standard_streams()
        before, after, dashed = grammar.split(given)
        options = grammar.parse(before)
        if options.command is None:
            grammar.build().print_help()
            return OK
        if dashed and options.command not in _PATHS | {"run"}:
            raise errors.UsageError(f"{options.command} takes nothing behind --")
        code = _run(options, after, dashed=dashed)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return failures.interrupted()
    except BrokenPipeError:
        failures.drop_output()  # whoever read our output has seen enough
        return OK
    except Exception as error:
        if failures.is_interrupt(error):
            return failures.interrupted()
        if isinstance(error, errors.CasrewindError):
            failures.say_error(str(error))
            return error.exit_code
        if isinstance(error, OSError):
            return failures.system_error(error)
        return failures.bug(error, given)


def _run(options: argparse.Namespace, after: list[str], *, dashed: bool) -> int:
    from ..workspace import Workspace
    from . import environment, progress

    found = environment.read(store=options.store, force=getattr(options, "force", False))
    options.budget = found.config.max_size
    options.rest, options.dashed = after, dashed
    reporter = progress.reporter(quiet=options.quiet)
    create = options.command in _CREATES
    with Workspace(options.directory, found.settings, create=create, progress=reporter) as workspace:
        try:
            if options.command not in ("restore", "undo", "status") and workspace.is_interrupted():
                failures.say_error(
                    "note: a restore was interrupted here; casrewind restore --continue finishes it, --abort takes it back"
                )
            return _HANDLERS[options.command](workspace, options, reporter.close if reporter else lambda: None)
        finally:
            if reporter is not None:
                reporter.close()


Done = Callable[[], None]
"""Takes progress off the screen, before something is printed."""


def _save(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from . import render, shapes

    report = workspace.save(options.message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        render.as_json(shapes.saved(report, workspace.root.path))
    elif not options.quiet:
        render.saved(report)
    return REMARKS if report.faults else OK


def _list(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from . import render, shapes

    everything = workspace.checkpoints(every_worktree=options.all)
    current = workspace.current()
    rows = []
    number = 0
    for point, marked in everything:
        listed = shapes.is_listed(point, safety=False) and point.worktree == workspace.root.key
        number += listed
        if (listed or options.all) and (options.session is None or point.session == options.session):
            rows.append((number if listed else None, point, marked))
    rows = rows[: options.number]
    done()
    if options.json:
        render.as_json({"checkpoints": [shapes.checkpoint(point, marked, current) for _, point, marked in rows]})
    else:
        render.checkpoint_list(rows, current)
    return OK


def _show(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from . import render, shapes

    point = workspace.checkpoint(options.ref)
    marked = workspace.marks(point.id)
    entries = sorted(workspace.entries(point))
    domain = workspace.domain(point)
    done()
    if options.json:
        render.as_json(
            {
                "checkpoint": shapes.checkpoint(point, marked, workspace.current()),
                "entries": [shapes.entry(where, entry) for where, entry in entries],
                "skipped": shapes.skips(domain.skipped),
            }
        )
    else:
        render.checkpoint(point, marked, entries, domain.skipped)
    return OK


def _diff(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from . import render, shapes

    if len(options.refs) > 2:
        raise errors.UsageError("diff takes at most two checkpoints; paths go behind --")
    old = workspace.checkpoint(options.refs[0] if options.refs else "last")
    new = workspace.checkpoint(options.refs[1]) if len(options.refs) == 2 else None
    found = workspace.diff(old, new, workspace.scope(options.rest, options.directory))
    done()
    if options.json:
        render.as_json({"changes": [shapes.change(change) for change in found.changes]})
    else:
        render.comparison(found, options.form)
    return OK


def _resume(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    if options.ref is not None or options.to or options.dry_run or options.dashed:
        raise errors.UsageError(f"restore --{options.resume} takes nothing else: what to restore is known")
    report = workspace.resume(forward=options.resume == "continue")
    done()
    return _restored(report if options.resume == "continue" else report._replace(op="abort"), options)


def _restore_to(workspace: Any, options: argparse.Namespace, point: Any, done: Done) -> int:
    if options.dashed or options.dry_run:
        raise errors.UsageError("restore --to DIR writes the whole checkpoint: it takes no paths and no --dry-run")
    report = workspace.materialise(point, os.path.normpath(os.path.join(options.directory, options.to)))
    done()
    return _restored(report, options)


def _restore(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from ..ops.restore import Declined
    from . import render

    if options.resume is not None:
        return _resume(workspace, options, done)
    if options.ref is None:
        raise errors.UsageError("restore needs to know what: give a REF; casrewind list shows them")
    point = workspace.checkpoint(options.ref)
    if options.what != "code":
        raise errors.AgentError(
            f"--{options.what} needs a checkpoint with a conversation, and {point.id} has none: it was not made by "
            f"an agent's hook; leave --{options.what} out to restore the files"
        )
    if options.to is not None:
        return _restore_to(workspace, options, point, done)
    scope = workspace.scope(options.rest, options.directory)
    if options.dashed and not scope:
        raise errors.UsageError("restore REF -- needs at least one path behind the dashes")
    if options.dry_run:
        report = workspace.plan_restore(point, scope)
        done()
        return _restored(report, options)
    confirm = None
    if not options.yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise errors.UsageError("restore asks before it changes anything, and there is no terminal: say --yes")

        def confirm(plan: Any) -> bool:
            done()
            return render.ask(plan, options.ref)

    try:
        report = workspace.restore(point, scope, confirm)
    except Declined:
        render.say("nothing was changed")
        return OK
    done()
    return _restored(report, options)


def _restored(report: Any, options: argparse.Namespace) -> int:
    from . import render, shapes

    if options.json:
        render.as_json(shapes.restored(report))
    else:
        render.restored(report, dry_list=report.dry_run)
    return REMARKS if report.incomplete else OK


def _undo(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    report = workspace.undo(everything=options.all)
    done()
    return _restored(report, options)


def _redo(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    report = workspace.redo()
    done()
    return _restored(report, options)


def _run_command(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    import signal
    import subprocess

    from . import render

    if not options.rest:
        raise errors.UsageError("run needs a command: casrewind run -- COMMAND")
    command = " ".join(options.rest)
    label = options.message or command[:200]
    before = workspace.save(f"before: {label}")
    done()
    if not options.quiet:
        render.remark(f"saved {before.checkpoint.id} before the command")
    render.faults(before)
    # an interrupt from the terminal is the command's to answer; after it there is still a checkpoint to make
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.Popen(options.rest).wait()
    except OSError as error:
        failures.say_error(f"cannot run {options.rest[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    finally:
        signal.signal(signal.SIGINT, handler)
        after = workspace.save(f"after: {label}")
        done()
        if not options.quiet:
            render.run_ended(before, after)
        render.faults(after)
    return 128 - code if code < 0 else code


def _status(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from . import render, shapes

    found = workspace.status()
    done()
    if options.json:
        last = None
        if found.last is not None:
            last = shapes.checkpoint(found.last, workspace.marks(found.last.id), workspace.current())
        render.as_json(shapes.status(found, workspace.root.path, workspace.store_path, options.budget, last))
    else:
        render.status(found, workspace.root.path, workspace.store_path, options.budget)
    return OK


def _verify(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from . import render, shapes

    found = workspace.verify()
    done()
    if options.json:
        render.as_json(shapes.verified(found))
    else:
        render.verified(found)
    return errors.StoreDamaged.exit_code if found.problems else OK


_HANDLERS: dict[str, Callable[[Any, argparse.Namespace, Done], int]] = {
    "save": _save,
    "list": _list,
    "show": _show,
    "diff": _diff,
    "restore": _restore,
    "undo": _undo,
    "redo": _redo,
    "run": _run_command,
    "status": _status,
    "verify": _verify,
}
