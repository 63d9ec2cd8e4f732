"""The commands that make checkpoints and look at them."""

from __future__ import annotations  # argparse is imported only where the grammar is needed

from ... import errors, fsio
from ...typed import TYPE_CHECKING, Any
from ...workspace import site_of
from .. import shapes
from ..render import text
from ..render import timeline as render
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    import argparse

_MOST_LOGGED = 100
"""Paths that a pattern may match."""


def save(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind save."""
    report = workspace.save(options.message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        text.as_json(shapes.saved(report, workspace.root.path))
    elif not options.quiet:
        render.saved(report)
    return REMARKS if report.faults else OK


def list_checkpoints(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind list."""
    current = workspace.current()
    sessions: dict[str, int | None] = {}
    if options.session is not None:
        from ...ops import conversation

        sessions = conversation.lineage(site_of(workspace), options.session)

    def is_listed(point: Any) -> bool:
        return point.worktree == workspace.root.key and shapes.is_listed(point, safety=False)

    def is_wanted(point: Any) -> bool:
        return (options.all or is_listed(point)) and (options.session is None or _is_of(point, sessions))

    if options.number is None:
        everything = workspace.checkpoints(every_worktree=options.all)
    else:
        everything = site_of(workspace).store.checkpoints(options.number, is_wanted)
    rows = []
    number = 0
    for point, marked in everything:
        listed = is_listed(point)
        number += listed
        if is_wanted(point):
            rows.append((number if listed else None, point, marked))
    done()
    if options.json:
        text.as_json({"checkpoints": [shapes.checkpoint(point, marked, current) for _, point, marked in rows]})
    else:
        render.checkpoint_list(rows, current)
    return OK


def _is_of(point: Any, sessions: dict[str, int | None]) -> bool:
    """Whether a checkpoint was made in one of these sessions, before the next of them went on from it."""
    until = sessions.get(point.session, 0)
    return until is None or point.created_ns <= until


def show(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind show."""
    point = workspace.checkpoint(options.ref)
    marked = workspace.marks(point)
    entries = sorted(workspace.entries(point))
    domain = workspace.domain(point)
    done()
    if options.json:
        text.as_json(
            {
                "checkpoint": shapes.checkpoint(point, marked, workspace.current()),
                "entries": [shapes.entry(where, entry) for where, entry in entries],
                "skipped": shapes.skips(domain.skipped),
            }
        )
    else:
        render.checkpoint(point, marked, entries, domain.skipped)
    return OK


def cat(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind cat."""
    point, given = workspace.checkpoint_and_path(options.file)
    (path,) = workspace.scope([given], options.directory)
    pieces = workspace.cat(point, path)
    done()
    for piece in pieces:
        text.raw(piece)
    return OK


def log(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind log."""
    from ...model import checkpoint as checkpoints
    from .. import logshapes
    from ..render import log as shown

    points = [point for point, _ in workspace.checkpoints() if options.all or point.trigger != checkpoints.SAFETY]
    scope = workspace.paths([options.path], points, options.directory, worktree=False)
    if len(scope) > _MOST_LOGGED:
        raise errors.UsageError(f"{fsio.show(options.path)} matches {len(scope)} paths: log shows at most {_MOST_LOGGED} at once")
    found = [workspace.log(path, options.number, safety=options.all) for path in scope]
    done()
    if options.json:
        text.as_json(logshapes.logged(found, workspace.current()))
    else:
        for one in found:
            shown.logged(one, patch=options.patch)
    damaged = dict.fromkeys(identity for one in found for identity in one.damaged)
    if damaged:
        text.remark(f"casrewind: damaged, and passed over: {', '.join(damaged)}; casrewind verify says whom it affects")
    return errors.StoreDamaged.exit_code if damaged else OK


def pin(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind pin."""
    return _marked(workspace, options, workspace.pin(workspace.checkpoint(options.ref), options.label), done)


def unpin(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind unpin."""
    return _marked(workspace, options, workspace.unpin(workspace.checkpoint(options.ref)), done)


def _marked(workspace: Any, options: argparse.Namespace, report: Any, done: Done) -> int:
    done()
    if options.json:
        text.as_json({"checkpoint": shapes.checkpoint(report.checkpoint, report.marked, workspace.current())})
    else:
        render.marked(report)
    return OK


def diff(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind diff."""
    if len(options.refs) > 2:
        raise errors.UsageError("diff takes at most two checkpoints; paths go behind --")
    old = workspace.checkpoint(options.refs[0] if options.refs else "last")
    new = workspace.checkpoint(options.refs[1]) if len(options.refs) == 2 else None
    sides = [old] if new is None else [old, new]
    found = workspace.diff(old, new, workspace.paths(options.rest, sides, options.directory, worktree=new is None))
    done()
    if options.json:
        missing = [shapes.path(path) for path in found.missing]
        text.as_json({"changes": [shapes.change(change) for change in found.changes], "missing": missing})
    else:
        render.comparison(found, options.form)
    for path in found.missing:
        text.remark(f"casrewind: no such path: {fsio.show(path)}: no checkpoint that was compared has it, nor the worktree")
    return REMARKS if found.missing else OK
