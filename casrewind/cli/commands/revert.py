"""casrewind revert: take back what one turn changed."""

from collections.abc import Iterator, Sequence

from ... import errors, fsio
from ..._typing import TYPE_CHECKING, Any
from ...model import paths
from ...model.plan import Kept
from ...workspace import context_of
from .. import restore_output
from ..output import age, as_json, print_line
from ..questions import asks
from ..words import Words
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...model.turn_records import Turn


def revert(workspace: Any, options: Any, done: Done) -> int:
    """casrewind revert."""
    from ...ops.restore import Declined
    from ...ops.undo import revert as take_back

    named = Words(workspace, options)
    side = named.side(options.ref)
    if side.turn is None or side.side != "before" or side.point is None:
        raise errors.UsageError(f"revert takes one turn, as in @2; casrewind restore {fsio.printable(options.ref)} restores a state")
    view, before = named.view, side.point
    if side.turn.to_now:
        view.scan()
    turn = view.filled(side.turn)
    points = [view.points[identity] for identity in (turn.before, turn.after) if identity is not None]
    scope = workspace.paths([*options.paths, *options.rest], points, options.directory, worktree=turn.to_now)
    found = view.comparison(turn, scope)
    if turn.damaged:
        raise errors.StoreDamaged(f"a part of what @{turn.n} changed cannot be read: casrewind verify shows what is damaged")
    if scope and not found.changes:
        names = ", ".join(map(fsio.printable, scope))
        raise errors.PathNotFound(f"@{turn.n} changed nothing at {names}; casrewind show @{turn.n} lists what it changed")
    left = list(_left(turn, scope, with_shared=options.shared))
    away = {item.path for item in left}
    changes = [change for change in found.changes if change.path not in away]
    is_asked = not options.dry_run and asks(options, "revert asks before it changes files, and there is no terminal")
    confirm = restore_output.asking(workspace, lambda: _title(turn), done, is_asked=is_asked)
    try:
        report = take_back(context_of(workspace), before, changes, left, dry_run=options.dry_run, confirm=confirm)
    except Declined:
        print_line("nothing was changed")
        return OK
    done()
    if options.json:
        as_json(restore_output.shape(report))
    else:
        if options.dry_run:
            print_line(f"{_title(turn)}:")
        restore_output.print_restored(report)
    return REMARKS if report.incomplete else OK


def _left(turn: "Turn", scope: Sequence[bytes], *, with_shared: bool) -> Iterator[Kept]:
    """The paths of a turn that are left alone whatever they are now."""
    places = paths.PathScope(scope)
    for path, numbers in () if with_shared else turn.shared:
        if places.cover(path):
            others = " and ".join(f"@{number}" for number in numbers)
            yield Kept(path, f"changed while {others} ran, too; --shared takes it back all the same", benign=False)
    for path in turn.purged:
        if places.cover(path):
            yield Kept(path, "its content was purged", benign=False)


def _title(turn: "Turn") -> str:
    moment = turn.ended_ns or turn.started_ns
    when = f" ({age(moment)})" if moment is not None else ""
    return f'revert @{turn.n} "{restore_output.shortened(turn.prompt)}"{when}'
