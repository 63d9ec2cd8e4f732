"""Finds out whose work a restore takes back: only that of one turn, or also edits made outside of a turn.

The danger prevented here: a person's edits go away with an agent's work, unsaid. An edit counts only if it is proved: the
content of a file is traced back through the turn view, from the worktree to the step that made it. What is unknown is
no edit of a person, but it is not the work of a turn alone, either.
"""

from collections.abc import Iterable

from .. import errors
from ..model.checkpoint import Checkpoint
from ..model.lost_work import NO_EDITS, OutsideEdits
from ..model.manifest import Finder, same_for_restore
from ..model.plan import Action, is_of_file
from ..model.turn_records import Outside, Reset, Row, Turn, is_of_person
from .context import Context
from .newest_turns import read_turns_since
from .turn_view import TurnView


def edited_outside(context: Context, target: Checkpoint, actions: Iterable[Action]) -> OutsideEdits:
    """The paths of these actions whose present content has an edit that was made after `target` outside of all turns;
    none in a worktree without turns. Of a target of another machine, every edit counts: its time says nothing here.

    The worktree is not scanned: an action has the present entry of its path. Of a damaged store nothing is proved.
    """
    trace = _Trace(actions)
    try:
        view = read_turns_since(context, target) if trace.sought and context.store.has_agents(context.root.key) else None
        if view is not None and view.turns:
            trace.add_step_to_worktree(view)
            for row in view.rows(wanted=lambda row: _may_have_made(view, row, target)):
                if not trace.sought:
                    break
                trace.add_step_of_row(context, view, row)
    except (errors.StoreDamaged, errors.ManifestRefused):
        return NO_EDITS
    proved, possible = tuple(sorted(trace.proved)), tuple(sorted(trace.possible - trace.proved))
    if not target.more.machine:
        return OutsideEdits(proved, possible)
    from .machine_merge import find_common_state

    return OutsideEdits(proved, possible, bool(proved) and find_common_state(context, target) is not None, is_of_machine=True)


class _Trace:
    """Paths that are traced back step by step, each with the content that the next older step may have made."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self.sought = {action.source: action.before for action in actions if is_of_file(action)}
        self.proved: set[bytes] = set()
        self.possible: set[bytes] = set()

    def add_step_to_worktree(self, view: TurnView) -> None:
        """The step from the newest checkpoint to the worktree."""
        newest = view.newest_state()
        open_turns = [turn for turn in view.turns if turn.to_now]
        for path, entry in tuple(self.sought.items()):
            known = newest(path)
            if same_for_restore(known, entry):
                continue
            self.sought[path] = known
            if not open_turns:
                self._note_proved_outside_edit(path)
            elif any(turn.mixed for turn in open_turns):
                self.possible.add(path)

    def add_step_of_row(self, context: Context, view: TurnView, row: Row) -> None:
        """The step of a row."""
        is_mixed = isinstance(row, Turn) and row.mixed
        if isinstance(row, Turn) and row.to_now and row.before is not None:
            before = Finder(context.store.load_tree, view.points[row.before].tree)
            for path, entry in self.sought.items():
                self.sought[path] = before.find(path)
                if is_mixed and not same_for_restore(self.sought[path], entry):
                    self.possible.add(path)
        known_changes = row.changes or () if isinstance(row, Turn | Outside | Reset) and not row.damaged else ()
        for change in known_changes:
            if change.path not in self.sought or not same_for_restore(change.new, self.sought[change.path]):
                continue  # what this step made was replaced, or is gone
            if is_of_person(row):
                self._note_proved_outside_edit(change.path)
                continue
            self.sought[change.path] = change.old
            if is_mixed:
                self.possible.add(change.path)

    def _note_proved_outside_edit(self, path: bytes) -> None:
        self.proved.add(path)
        del self.sought[path]


def is_of_turn_alone(context: Context, before: Checkpoint, actions: Iterable[Action]) -> bool:
    """True if these actions only take back what the turn that `before` opened is known to have made."""
    view = read_turns_since(context, before)
    turn = view.turn_of(before.id)
    if turn is None or turn.before != before.id or turn.after is None:
        return False
    if turn.running or turn.cut_short or turn.end_unseen or turn.mixed:
        return False
    turn = view.with_changes(turn)
    if turn.changes is None or turn.damaged or turn.purged:
        return False
    shared = {path for path, _ in turn.shared}
    made = {change.path: change for change in turn.changes if change.path not in shared}
    for path, before_it, after_it, source in actions:
        if before_it == after_it and path == source:
            continue  # it only opens a directory
        if (
            path not in made
            or path != source
            or not same_for_restore(before_it, made[path].new)
            or not same_for_restore(after_it, made[path].old)
        ):
            return False
    return True


def _may_have_made(view: TurnView, row: Row, target: Checkpoint) -> bool:
    """True if a row may have made content after a checkpoint. A restore makes none, but a take brings some."""
    return (isinstance(row, Turn | Outside) or is_of_person(row)) and view.is_after(row, 0 if target.more.machine else target.seq)
