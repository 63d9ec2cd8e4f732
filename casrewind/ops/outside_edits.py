"""Finds out whose work a restore takes back: only that of one turn, or also edits made outside of a turn.

The danger prevented here: a person's edits go away with an agent's work, unsaid. An edit counts only if it is proved
(ops/provenance.py). What is unknown is no edit of a person, but it is not the work of a turn alone, either.
"""

from collections.abc import Iterable

from .. import errors
from ..model.checkpoint import Checkpoint
from ..model.lost_work import NO_EDITS, OutsideEdits
from ..model.manifest import same_for_restore
from ..model.plan import Action, is_of_file
from .context import Context
from .newest_turns import read_turns_since
from .provenance import Makers, Provenance


def edited_outside(context: Context, target: Checkpoint, actions: Iterable[Action]) -> OutsideEdits:
    """The paths of these actions whose present content has an edit that was made after `target` outside of all turns;
    none in a worktree without turns. Of a target of another machine, every edit counts: its time says nothing here.

    The worktree is not scanned: an action has the present entry of its path. Of a damaged store nothing is proved.
    """
    proved, possible = list[bytes](), list[bytes]()
    present = {action.source: action.before for action in actions if is_of_file(action)}
    try:
        view = read_turns_since(context, target) if present and context.store.has_agents(context.root.key) else None
        if view is not None and view.turns:
            provenance = Provenance(context, view, 0 if target.more.machine else target.seq)
            for path, entry in present.items():
                may_be = False
                for edit in provenance.edits_of(path, entry):
                    if edit.makers == Makers(is_person=True):
                        proved.append(path)
                        break
                    may_be |= edit.makers.is_person
                else:
                    if may_be:
                        possible.append(path)
    except (errors.StoreDamaged, errors.ManifestRefused):
        return NO_EDITS
    found = OutsideEdits(tuple(sorted(proved)), tuple(sorted(possible)))
    if not target.more.machine:
        return found
    from .machine_merge import find_common_state

    return found._replace(can_stay=bool(proved) and find_common_state(context, target) is not None, is_of_machine=True)


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
