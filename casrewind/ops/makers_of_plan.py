"""Finds out whose work a restore takes back: a person's, that of another agent's session, or only that of one turn.

The danger prevented here: a person's edits, or what another agent does in the same worktree, go away unsaid with an agent's
work. Provenance (ops/provenance.py) answers for each path. A person's edit counts only if it is proved, that of another
session if it may be one. What is unknown is no edit of a person, but it is not the work of a turn alone, either.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress

from .. import errors
from ..model.checkpoint import Checkpoint
from ..model.lost_work import NO_EDITS, OutsideEdits
from ..model.manifest import Entry, same_for_restore
from ..model.plan import Action, is_of_file
from .context import Context
from .provenance import Makers, Provenance
from .worktree_timeline import WorktreeTimeline


def edited_outside(context: Context, target: Checkpoint, actions: Iterable[Action]) -> OutsideEdits:
    """The paths of these actions whose present content has an edit that was made after `target` outside of all turns;
    none in a worktree without turns. Of a target of another machine, every edit counts: its time says nothing here.

    The worktree is not scanned: an action has the present entry of its path. Of a damaged store nothing is proved.
    """
    proved, possible = list[bytes](), list[bytes]()
    present = {action.source: action.before for action in actions if is_of_file(action)}
    try:
        since = 0 if target.more.machine else target.seq
        view = WorktreeTimeline(context).since(since) if present and context.store.has_agents(context.root.key) else None
        if view is not None and view.turns:
            provenance = Provenance(context, view, since)
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


class OtherSessions:
    """Finds the paths that turns of other sessions may have edited after a checkpoint. Two agents can share a worktree, and a
    rewind for one resets all of it. Create this before the restore, which is an edit itself."""

    def __init__(self, context: Context, since: Checkpoint, own: Collection[str]) -> None:
        """`own`: the sessions that are no others. A checkpoint of another machine has no place among those here: then all that
        the sessions that work now have done counts."""
        self._provenance: Provenance | None = None
        if not context.store.has_agents(context.root.key):
            return
        seq = 0 if since.more.machine else since.seq
        view = WorktreeTimeline(context, needs_operations=False).since(seq)
        others = [turn for turn in view.turns if turn.session and turn.session not in own]
        if since.more.machine:
            working = {turn.session for turn in others if turn.running}
            others = [turn for turn in others if turn.session in working]
        self._turns = frozenset(turn.n for turn in others)
        self._provenance = Provenance(context, view, seq) if others else None

    def among(self, actions: Iterable[Action]) -> tuple[bytes, ...]:
        """The paths of these actions that another session may have edited, sorted."""
        return tuple(sorted(action.path for action in actions if self._may_have_edited(action.source, action.before)))

    def _may_have_edited(self, path: bytes, present: Entry | None) -> bool:
        with suppress(errors.StoreDamaged, errors.ManifestRefused):
            edits = () if self._provenance is None else self._provenance.edits_of(path, present)
            return any(not self._turns.isdisjoint(edit.makers.turns) for edit in edits)
        return False


def is_of_turn_alone(context: Context, before: Checkpoint, actions: Iterable[Action]) -> bool:
    """True if these actions only take back what the turn that `before` opened is known to have made."""
    view = WorktreeTimeline(context).since(before.seq)
    turn = view.turn_of(before.id)
    if turn is None or turn.before != before.id or turn.after is None or turn.running or turn.cut_short or turn.end_unseen:
        return False
    provenance = Provenance(context, view, before.seq)
    alone = Makers((turn.n,))
    try:
        for path, present, wanted, source in actions:
            if present == wanted and path == source:
                continue  # it only opens a directory
            edits = list(provenance.edits_of(path, present)) if path == source else []
            if len(edits) != 1 or edits[0].makers != alone or not same_for_restore(edits[0].old, wanted):
                return False
    except (errors.StoreDamaged, errors.ManifestRefused):
        return False
    return True
