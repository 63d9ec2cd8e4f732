"""casrewind diff: what a turn changed, or what differs between two states."""

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history import compare, lookup
from ...messages import age_in_words, printable
from ...typed_commands import as_typed
from ..grammar.options import FORMS, JSON, Command, Option, flag
from ..show.text import folded_to_width
from ..terminal.lines import print_json, print_line, print_lines, remark
from ..terminal.table import terminal_width
from . import OK, REMARKS, Done
from .words import NOW, Side, Words, paths_of

if TYPE_CHECKING:
    from ...context import Context
    from ...history.compare import Comparison
    from ...model.checkpoint import Checkpoint
    from ...model.turn_records import Turn
    from ...store.review_marks import ReviewMark
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind diff", "casrewind diff @2 -p", "casrewind diff 3 1 src/", "casrewind diff -- '*.py' ':!tests'"),
    options=(
        Option(
            ("words",),
            "without REF: show what changed from before the newest turn until now. @N: what that turn changed. @N.1: what a subagent of "
            "it changed. Any other REF: what changed from REF until now. Two REFs: what differs between them. A PATH limits the output. "
            "Put -- before a PATH that could be a REF",
            "REF | PATH",
            nargs="*",
        ),
        flag("--since-review", "show what changed since the state that casrewind review --done marked"),
        *FORMS, JSON,
    ),
    usage=(
        "[-p | --stat | --name-status | --name-only] [-U N] [--word-diff] [--json] [REF [REF]] [--] [PATH ...]",
        "--since-review [-p | --stat | --name-status | --name-only] [-U N] [--word-diff] [--json] [--] [PATH ...]",
    ),
    defaults={"form": "summary"},
    behind="paths go",
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind diff."""
    named = Words(context, options)
    looked = _mark_or_raise(context, options) if options.since_review else None
    sides = named.take_diff_sides() if looked is None else [Side(looked[1])]
    if len(sides) == 1 and sides[0].turn is not None and sides[0].side == "before":
        return _diff_turn(context, options, named, sides[0].turn, done)
    old = sides[0] if sides else _default_start(context, named)
    new = sides[1] if len(sides) == 2 else NOW
    found = _compare_sides(context, options, old, new)
    done()
    is_named = looked is not None or not sides or any(side.turn is not None for side in sides)
    heading = f"from {_side_title(context, old)} to {_side_title(context, new)}" if is_named else ""
    if looked is not None:
        heading = f"since you looked, {age_in_words(looked[0].at_ns)}: {heading}"
    _print_comparison(options, found, heading, old, new)
    return _report_missing_paths(found)


def _mark_or_raise(context: "Context", options: "ParsedOptions") -> "tuple[ReviewMark, Checkpoint]":
    """How far a person looked, and the state that they saw. All words are paths."""
    from ...history.review_mark import find_mark

    found = find_mark(context)
    if found is None:
        raise errors.CheckpointNotFound("nothing is marked as reviewed here", "casrewind review --done marks the files as they are now")
    options.rest = [*options.words, *options.rest]
    return found


def _diff_turn(context: "Context", options: "ParsedOptions", named: Words, turn: "Turn", done: Done) -> int:
    """The change of a turn, which is not always that of its two states."""
    view, turn = named.view_with(turn), named.with_changes(turn)
    points = named.known_states(turn)
    scope = paths_of(context, options.rest, points, options, worktree=turn.to_now)
    found = view.comparison(turn, scope)
    if scope:
        found = found._replace(missing=compare.missing_paths(context, points, scope))
    done()
    before = Side(view.points.get(turn.before or ""), turn, "before")
    after = Side(view.points.get(turn.after or ""), turn, "after")
    from ..show.restored import quoted_title, turn_details

    title = ", ".join((f"{view.typed_number(turn)} {quoted_title(turn)}", *turn_details(turn)))
    heading = f"{title}: from {turn.before} to {turn.after or 'the files now'}"
    _print_comparison(options, found, heading, before, after, turn)
    if turn.purged:
        remark(f"casrewind: purged, and not compared: {', '.join(printable(path) for path in turn.purged)}")
    if turn.damaged:
        remark(
            f"casrewind: a part of what {view.typed_number(turn)} changed is damaged; {as_typed('verify')} shows what is affected"
        )
    return errors.StoreDamaged.exit_code if turn.damaged else _report_missing_paths(found)


def _default_start(context: "Context", named: Words) -> Side:
    """Where a diff without a REF starts: before the newest turn, else at the newest checkpoint."""
    newest = named.newest()
    if newest is not None and newest.before is not None:
        return named.side_named("@1")
    return Side(lookup.checkpoint(context, "last"))


def _compare_sides(context: "Context", options: "ParsedOptions", old: Side, new: Side) -> "Comparison":
    points = [side.point for side in (old, new) if side.point is not None]
    if not points:  # both are the files as they are
        return compare.comparison_of_changes(context, ())
    scope = paths_of(context, options.rest, points, options, worktree=len(points) == 1)
    if old.point is not None:
        return compare.compare(context, old.point, new.point, scope)
    assert new.point is not None
    missing = compare.missing_paths(context, points, scope) if scope else ()
    return compare.compare_to_checkpoint(context, compare.scan_worktree(context), new.point, scope)._replace(missing=missing)


def _print_comparison(
    options: "ParsedOptions", found: "Comparison", heading: str, old: Side, new: Side, turn: "Turn | None" = None
) -> None:
    if options.json:
        from ..show import shapes

        shape = {"from": _side_json(old), "to": _side_json(new), "turn": None if turn is None else shapes.turn(turn)}
        print_json({**shape, **_diff_json(found, with_renames=not options.no_renames)})
        return
    import sys

    from ..show import comparison
    from ..show.comparison import PATCH, STAT, SUMMARY, form_of
    from ..terminal import colour_decision
    from ..terminal.pager import pager

    form = form_of(options)
    with pager(options):
        if heading and (form.name in (SUMMARY, STAT) or (form.name == PATCH and colour_decision.is_read_by_person(sys.stdout))):
            for line in folded_to_width(heading, terminal_width()):  # a program that reads a patch or names gets nothing else
                print_line(line)
        print_lines(comparison.comparison_lines(found, form, terminal_width(), () if turn is None else turn.unsure))


def _side_title(context: "Context", side: Side) -> str:
    """A side for people: before "prompt" (@1, 3 min ago)."""
    from ..plan.facts import checkpoint_title
    from ..show.restored import quoted_title, turn_details

    if side.point is None:
        return "the files now"
    if side.turn is not None:
        return f"{side.side} {quoted_title(side.turn)} ({', '.join((side.number, *turn_details(side.turn)))})"
    return checkpoint_title(context, side.point)


def _report_missing_paths(found: "Comparison") -> int:
    for path in found.missing:
        remark(f"casrewind: no such path: {printable(path)}: neither the compared checkpoints nor the worktree have it")
    return REMARKS if found.missing else OK


def _side_json(side: Side) -> "Shape":
    from ..show.shapes import time_of

    return {
        "checkpoint": None if side.point is None else side.point.id,
        "turn": None if side.turn is None else side.turn.id,
        "n": None if side.turn is None else side.turn.n,
        "side": side.side,
        "at": None if side.point is None else time_of(side.point.created_ns),
    }


def _diff_json(found: "Comparison", *, with_renames: bool) -> "Shape":
    from ...history import rename_detection
    from ..show import shapes

    moved = rename_detection.find_renames(found) if with_renames else ()
    return {
        "changes": shapes.changes(found.changes),
        **shapes.unclear(found.unclear),
        "missing": [shapes.path(path) for path in found.missing],
        "renames": [
            {**shapes.path(item.source, "from"), **shapes.path(item.path, "to"), "similarity": item.similarity}
            for item in moved
        ],
    }
