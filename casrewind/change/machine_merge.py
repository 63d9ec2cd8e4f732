"""A restore to a checkpoint of another machine that keeps what was done here: a merge of both since the last state that both had.

The danger prevented here: the other machine's state without a common one says nothing about what was edited here. So
without a common state there is no merge. A path that only this machine changed is not touched. Nor is one that the other
machine no longer captures: it may still have it.
"""

from collections.abc import Sequence

from .. import errors
from ..context import Context
from ..history.lookup import find_common_state
from ..history.restorable import DomainComparer, has_safety, name_checkpoint_in_errors
from ..messages import printable
from ..model import diff as diffs
from ..model import merge, paths
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..model.plan import Action, Kept, Merged, Plan
from ..worktree.spelling import with_other_spellings
from .edits import Edits, edits_taken_over
from .keep_edits import KeptEdits
from .path_merger import PathMerger, lines_in_words
from .preflight import SKIP_DAMAGED

_WHY = {
    merge.CONFLICTS: "changed here and on {}", merge.REMOVED: "removed here, and changed on {}",
    merge.IS_BINARY: "changed here and on {}, and binary", merge.IS_LARGE: "changed here and on {}, and too large to merge",
}  # fmt: skip


def edit_keeper(context: Context, target: Checkpoint, scope: Sequence[bytes], *, skip_damaged: bool) -> KeptEdits:
    """What makes the plan that keeps edits, for a target of whichever machine. Raises as MachineMerge and KeptEdits."""
    return (MachineMerge if target.more.machine else KeptEdits)(context, target, scope, skip_damaged=skip_damaged)


class MachineMerge(KeptEdits):
    """Makes the plan that keeps what was done here from the plan of an exact restore to `target`."""

    def __init__(self, context: Context, target: Checkpoint, scope: Sequence[bytes], *, skip_damaged: bool) -> None:
        """Finds what the machine changed. Raises CheckpointNotFound without a common state."""
        self._context, self._machine = context, printable(target.more.machine)
        base = find_common_state(context, target)
        if base is None:
            raise errors.CheckpointNotFound(
                f"the files here never were those of {self._machine}, so edits cannot be told apart",
                f"casrewind restore --exact {target.id} restores the state itself",
            )
        with name_checkpoint_in_errors(context.store):
            changes = list(diffs.diff(context.store.load_tree, base.tree, target.tree))
        covered = paths.PathScope(with_other_spellings(context.tree, scope, (change.path for change in changes))).covers
        told = DomainComparer(context.store.read).judge(changes, base.domain, target.domain, strict=has_safety(base, target))
        no_longer_captured = frozenset(change.path for change in told.unclear if change.new is None)
        changes = [change for change in changes if covered(change.path) and change.path not in no_longer_captured]
        edits = edits_taken_over(changes)
        self.turns, self._done, self._left, self._provenance = (), Edits(edits, (), {}), {}, None
        self._files = PathMerger(context, edits, None, is_one=True, skip_damaged=skip_damaged, hint=SKIP_DAMAGED)
        self._exact: Sequence[Action] = ()
        self.made = self._files.made

    def _resolve(self, action: Action, there: Entry | None) -> Entry | Kept | None:
        found = super()._resolve(action, there)
        if not isinstance(found, Kept) or found.why not in _WHY:
            return found
        lines = f"{lines_in_words(found.lines)} " if found.lines else ""
        return found._replace(reason=lines + _WHY[found.why].format(self._machine))

    def files_merged_by_lines(self, plan: Plan) -> tuple[Merged, ...]:
        """The files of the checked plan that are merged by lines."""
        return tuple(item._replace(is_taken_over=True, machine=self._machine) for item in super().files_merged_by_lines(plan))
