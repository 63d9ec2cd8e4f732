"""Finds out whose work a restore takes back: only that of one turn, or also edits that no turn made.

The danger prevented here: a person's edits go away with an agent's work, unsaid. An edit counts only if it is proved: the
content of a file is traced back through the turn view, from the worktree to the step that made it. What is unknown is
no edit of a person, but it is not the work of a turn alone, either.
"""

from collections.abc import Iterable

from .. import errors
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, Finder, same
from ..model.plan import Action
from ..model.turn_records import BACKGROUND, Outside, Row, Turn
from .context import Context
from .turn_view import TurnView


def edited_outside(context: Context, target: Checkpoint, actions: Iterable[Action]) -> tuple[bytes, ...]:
    """The paths of these actions whose present content has an edit that was made after `target` outside of all turns;
    none in a worktree without turns.

    The worktree is not scanned: an action has the present entry of its path. Of a damaged store nothing is proved.
    """
    try:
        return tuple(sorted(_edited_outside(context, target, actions)))
    except (errors.StoreDamaged, errors.ManifestRefused):
        return ()


def _edited_outside(context: Context, target: Checkpoint, actions: Iterable[Action]) -> set[bytes]:
    sought = {action.source: action.before for action in actions if not _is_directory(action)}
    found: set[bytes] = set()
    view = TurnView(context)
    if not sought or not view.turns:
        return found
    newest = view.newest_state()
    is_open = any(turn.to_now for turn in view.turns)
    for path, entry in tuple(sought.items()):  # the step from the newest checkpoint to the worktree
        known = newest(path)
        if not same(known, entry):
            sought[path] = known
            if not is_open:
                found.add(path)
    for path in found:
        del sought[path]
    for row in view.rows(wanted=lambda row: _is_after(view, row, target)):
        if not sought:
            break
        if isinstance(row, Turn) and row.to_now and row.before is not None:
            before = Finder(context.store.load_tree, view.points[row.before].tree)
            sought = {path: before.find(path) for path in sought}
        known_changes = row.changes or () if isinstance(row, Turn | Outside) and not row.damaged else ()
        for change in known_changes:
            if change.path not in sought or not same(change.new, sought[change.path]):
                continue  # what this step made was replaced, or is gone
            if isinstance(row, Outside) and row.kind != BACKGROUND:
                found.add(change.path)
                del sought[change.path]
            else:
                sought[change.path] = change.old
    return found


def is_of_turn_alone(context: Context, before: Checkpoint, actions: Iterable[Action]) -> bool:
    """True if these actions only take back what the turn that `before` opened is known to have made."""
    view = TurnView(context)
    turn = view.turn_of(before.id)
    if turn is None or turn.before != before.id or turn.after is None:
        return False
    if turn.running or turn.cut_short or turn.end_unseen or turn.mixed:
        return False
    turn = view.filled(turn)
    if turn.changes is None or turn.damaged or turn.purged:
        return False
    shared = {path for path, _ in turn.shared}
    made = {change.path: change for change in turn.changes if change.path not in shared}
    for path, before_it, after_it, source in actions:
        if before_it == after_it and path == source:
            continue  # it only opens a directory
        if path not in made or path != source or not same(before_it, made[path].new) or not same(after_it, made[path].old):
            return False
    return True


def _is_directory(action: Action) -> bool:
    return all(entry is None or entry.kind == DIR for entry in (action.before, action.after))


def _is_after(view: TurnView, row: Row, target: Checkpoint) -> bool:
    """True if a row may have changed something after a checkpoint."""
    if isinstance(row, Turn):
        return row.after is None or view.points[row.after].seq > target.seq
    if isinstance(row, Outside):
        return not row.checkpoint or view.points[row.checkpoint].seq > target.seq
    return False  # a restore makes no content
