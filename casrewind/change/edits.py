"""The edits that a plan takes back or takes over, path by path: those of turns, of a directory, or of another machine.

The danger prevented here: work of another turn or of a person goes with a turn's own. A path that another turn may have changed at the
same time, one that the turn may not have made, and one that changed before anybody saw the turn's end are left alone.
"""

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from .. import errors
from .._typing import NamedTuple
from ..history.provenance import Provenance
from ..history.turn_view import TurnView
from ..messages import printable
from ..model import manifest, merge, paths
from ..model.diff import Change, topmost_unclear
from ..model.manifest import FILE, PURGED
from ..model.plan import SHARED, UNSEEN_END, Action, Kept, Plan
from ..model.turn_records import NOT_SAVED, Turn
from ..worktree.spelling import with_other_spellings
from .safety_capture import CapturedState


class PathEdit(NamedTuple):
    """What a turn did to a path, to be taken back. `is_unclear`: the path was not captured after the turn."""

    turn: int
    """The number of the turn; 0 if no turn made it."""
    change: Change
    is_unclear: bool


class Edits(NamedTuple):
    """What turns did to each path, the newest turn first, and the paths that are left alone whatever they are now. `left`: what
    turns did to those, and where they took away what may be of other turns. Of a path that is in `by_path` and in `kept`, only the
    steps go in which no other turn ran."""

    by_path: Mapping[bytes, Sequence[PathEdit]]
    kept: tuple[Kept, ...]
    left: Mapping[bytes, Sequence[PathEdit]]


def edits_taken_over(changes: Iterable[Change]) -> dict[bytes, list[PathEdit]]:
    """Changes of a directory or of another machine, by path. What is taken over is taken back from the other side."""
    return {each.path: [PathEdit(0, Change(each.path, each.new, each.old), is_unclear=False)] for each in changes}


def edits_of_turns(
    view: TurnView,
    turns: Sequence[Turn],
    scope: Sequence[bytes] = (),
    provenance: Provenance | None = None,
    *,
    shared: bool = False,
    skip_damaged: bool = False,
) -> Edits:
    """What these turns, the newest first, changed at the paths in `scope`. `provenance`: it knows the steps of files that other turns may
    have changed, too; without it, such a file is left alone as a whole. Raises as revert.prepare_revert."""
    edits: dict[bytes, list[PathEdit]] = {}
    kept: dict[bytes, Kept] = {}
    taken = frozenset(turn.n for turn in turns)
    filled = [_with_changes(view, turn) for turn in turns]
    scope = with_other_spellings(view.tree, scope, (change.path for turn in filled for change in turn.changes or ()))
    places = paths.PathScope(scope)
    for turn in filled:
        found = view.comparison(turn, scope)
        if turn.damaged and not skip_damaged:
            raise errors.StoreDamaged(f"a part of what {turn.name} changed cannot be read", "casrewind verify shows what is damaged")
        known = {change.path for change in found.changes}
        unclear = [change for change in found.unclear if change.path not in known]
        gone = [change for change in unclear if change.new is None]
        left = [*_paths_left_alone(turn, taken, is_shared=shared), *_paths_that_turn_may_not_have_made(unclear)]
        for item in left:
            if places.covers(item.path):
                names_turn = len(turns) == 1 or item.why == UNSEEN_END
                kept.setdefault(item.path, item if names_turn else item._replace(reason=f"{turn.name}: {item.reason}"))
        for change in found.changes:
            edits.setdefault(change.path, []).append(PathEdit(turn.n, change, is_unclear=False))
        for change in gone:
            edits.setdefault(change.path, []).append(PathEdit(turn.n, change, is_unclear=True))
    if scope and not edits and not kept:
        names, what = ", ".join(map(printable, scope)), turns[0].name if len(turns) == 1 else "these turns"
        raise errors.PathNotFound(f"{what} changed nothing at {names}", f"casrewind show {turns[0].name} lists what it changed")
    taken_back = {path: found for path, found in edits.items() if path not in kept}
    untouched = {path: found for path, found in edits.items() if path in kept}
    for edit in () if shared else _edits_that_displaced(filled, taken, places):
        untouched[edit.change.path] = [*untouched.get(edit.change.path, ()), edit]
    if provenance is not None and not any(turn.subagent for turn in turns):  # its steps are those of its whole turn
        shared_files = [path for path, item in kept.items() if item.why == SHARED]
        taken_back.update((path, steps) for path in shared_files if (steps := _find_certain_steps(provenance, path, taken)))
        taken_back = _follow_moves(view, provenance, taken_back, taken, places, kept)
    return Edits(taken_back, tuple(kept.values()), untouched)


def _find_certain_steps(provenance: Provenance, path: bytes, taken: frozenset[int]) -> list[PathEdit]:
    """The steps in which only these turns edited a file, newest first. [] if one of the steps made the file or removed it."""
    certain = [
        PathEdit(min(edit.makers.turns), Change(path, edit.old, edit.new), is_unclear=False)
        for edit in provenance.steps_at(path)
        if edit.makers.turns and taken.issuperset(edit.makers.turns) and not (edit.makers.is_person or edit.is_background)
    ]
    return certain if _are_edits_of_file(certain) else []


def _are_edits_of_file(steps: Iterable[PathEdit]) -> bool:
    """True if none of the steps made the path, removed it, or made another kind of it."""
    return all(side is not None and side.kind == FILE for step in steps for side in (step.change.old, step.change.new))


def _follow_moves(
    view: TurnView, provenance: Provenance, edits: dict[bytes, list[PathEdit]], taken: frozenset[int], places: paths.PathScope,
    kept: Container[bytes],
) -> dict[bytes, list[PathEdit]]:  # fmt: skip
    """The edits by path. If somebody else moved a file since, they are under its new path, unless that is in `kept`."""
    found = dict(edits)
    for path, steps in edits.items():
        if not _are_edits_of_file(steps):
            continue
        place = path
        while not os.path.lexists(os.path.join(os.fsencode(view.tree.root), place)):
            edit = next(provenance.edits_of(place, None), None)
            moved = None if edit is None or not taken.isdisjoint(edit.makers.turns) else provenance.moved_away(edit)
            if moved is None or moved.path in found or moved.path in kept or not places.covers(moved.path):
                break
            place = moved.path
        else:
            if place != path:
                del found[path]
                found[place] = [step._replace(change=step.change._replace(path=place)) for step in steps]
    return found


def name_parts(plan: Plan, done: Edits) -> Plan:
    """The plan, with "in part" before the reason of each path that is taken back in part. A path that is left alone keeps its reason."""
    in_part = {item.path for item in done.kept if item.path in done.by_path}
    planned = {action.path for action in plan.actions} if in_part else ()
    found = (item for item in plan.kept if item.path not in in_part or item.why == SHARED)
    kept = (item._replace(reason=f"in part: {item.reason}") if item.path in in_part and item.path in planned else item for item in found)
    return plan._replace(kept=tuple(kept))


def _with_changes(view: TurnView, turn: Turn) -> Turn:
    """A turn with its changes. Raises CheckpointNotFound if other turns changed files at the same time and no checkpoint divides them."""
    if turn.not_saved:
        raise errors.CheckpointNotFound(
            f"what {turn.name} changed cannot be told from the edits of the turns beside it: {NOT_SAVED}",
            "casrewind diff shows them together, and casrewind restore takes a state back"
        )
    if turn.to_now and turn.before is not None:
        view.scan_worktree()
    return view.with_changes(turn)


def _edits_that_displaced(turns: Iterable[Turn], taken: frozenset[int], places: paths.PathScope) -> Iterator[PathEdit]:
    """The edits that took away what may be of other turns than those that are taken back."""
    for turn in turns:
        for change, numbers in turn.displaced:
            if places.covers(change.path) and not taken.issuperset(numbers):
                yield PathEdit(turn.n, change, is_unclear=False)


def left_alone(done: Edits, now: CapturedState) -> Iterator[Kept]:
    """The paths that are left alone, without those where nothing is to do: one turn changed them, and they are as before it."""
    finder = manifest.Finder(now.load, now.tree)
    for item in done.kept:
        edits = done.left.get(item.path, ())
        if item.why != UNSEEN_END or len(edits) != 1 or not manifest.same_for_restore(finder.find(item.path), edits[0].change.old):
            yield item


def reversed_action(path: bytes, edits: Sequence[PathEdit]) -> Action:
    """What the turns did to a path, reversed. A plan holds nothing that was purged."""
    before, after = (None if one is None or one.kind == PURGED else one for one in (edits[0].change.new, edits[-1].change.old))
    return Action(path, before, after, path)


def _paths_left_alone(turn: Turn, taken: Container[int], *, is_shared: bool) -> Iterator[Kept]:
    """The paths of a turn that are left alone whatever they are now. `taken`: the turns that are taken back, too."""
    for path, every in () if is_shared else turn.shared:
        numbers = tuple(number for number in every if number not in taken)
        if not numbers:
            continue
        yield Kept(path, _why_shared_with([f"@{number}" for number in numbers]), benign=False, why=SHARED, by=numbers)
    for path, names in () if is_shared else turn.among:
        yield Kept(path, _why_shared_with(names), benign=False, why=SHARED, by=(turn.n,))
    for path in turn.purged:
        yield Kept(path, "its content was purged", benign=False, why=merge.IS_PURGED)
    for path in () if is_shared else turn.doubtful:
        yield Kept(path, f"may be yours: casrewind did not see {turn.name} end", benign=False, why=UNSEEN_END)


def _why_shared_with(names: Sequence[str]) -> str:
    """Why a path is left alone that these turns, or subagents, may have changed, too."""
    return f"changed while {' and '.join(names)} ran, too"


def _paths_that_turn_may_not_have_made(unclear: Sequence[Change]) -> Iterator[Kept]:
    """The paths that the turn may not have made. As in a restore, they stay; a directory stands for what is in it."""
    for change in topmost_unclear([change for change in unclear if change.old is None]):
        yield Kept(change.path, "not captured before the turn, so it may be older", benign=True)


