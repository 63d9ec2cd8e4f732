"""Undo and redo: reverse the newest restore, path by path.

The danger prevented here: work done after a restore is lost when that is reversed. Paths edited since are kept.
"""

from collections.abc import Callable, Iterable

from .. import errors
from ..context import Context
from ..messages import age_in_words, session_in_words
from ..model import manifest, undo_history
from ..model import plan as plans
from ..model import rewind_record as rewinds
from ..model.at_risk import OutsideEdits
from ..model.checkpoint import PROMPT, TAKEN_FROM
from ..model.manifest import Entry
from ..model.plan import Action, Actions, Kept
from ..model.undo_history import RESTORE, Operation
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.scan import Scan
from .possible_actions import prepare_actions
from .result import Restored
from .safety_capture import CapturedState
from .worktree_change import ChangeRecord, WorktreeChange

StepInWords = Callable[[undo_history.Step], str]

def prepare_undo(context: Context, *, everything: bool = False, older: bool = False) -> WorktreeChange:
    """The change that undoes the newest restore: its paths, and only those. A path that was edited since is kept, unless `everything`.
    `older`: also if a newer rewind changed only a conversation. Raises NothingToUndo."""
    if not older:
        refuse_behind_rewind(context)
    history = context.store.history(context.root.key)
    if not history.undo:
        raise errors.NothingToUndo("nothing to undo: no restore was made in this worktree, or all of them are undone")
    return _reversed_step(context, undo_history.UNDO, history.undo[-1], everything=everything)


def prepare_redo(context: Context) -> WorktreeChange:
    """The change that redoes the newest undo. Raises NothingToUndo."""
    history = context.store.history(context.root.key)
    if not history.redo:
        raise errors.NothingToUndo("nothing to redo: no undo was made since the newest restore")
    return _reversed_step(context, undo_history.REDO, history.redo[-1], everything=False)


def edited_since(context: Context, step: undo_history.Step, actions: Iterable[Action]) -> OutsideEdits:
    """The paths of a plan that reverses all of a step, which are not as the step left them."""
    left = context.store.plan(step.plan)
    found = []
    for action in actions:
        done = left.get(action.path)
        if done is not None and plans.is_of_file(action) and not manifest.same_for_restore(action.before, done.after):
            found.append(action.path)
    return OutsideEdits(tuple(sorted(found)), (), can_stay=False, is_of_undo=True)


def refuse_behind_rewind(context: Context, in_words: StepInWords = lambda _: "an older restore") -> None:
    """Raise NothingToUndo if the newest operation is a rewind that changed only a conversation: undo would mean an older
    one. `in_words` names the step that undo would take back."""
    newest = newer_rewind(context)
    if newest is None:
        return
    steps = context.store.history(context.root.key).undo
    what = f"the newest back ({age_in_words(newest.created_ns)}, {session_in_words(newest.agent, newest.parent)}) changed no file"
    if not steps:
        raise errors.NothingToUndo(f"nothing to undo: {what}, and its old conversation is still there")
    would = f"nothing was undone: {what}, and undo would take back {in_words(steps[-1])}"
    raise errors.NothingToUndo(would, "casrewind undo --older does that")


def is_newest_deed(context: Context, session: str) -> bool:
    """True if the newest step was done just now: no undo and no prompt in this worktree is newer, and no session but `session` made it."""
    history = context.store.history(context.root.key)
    made = context.store.checkpoint(history.undo[-1].safety) if history.undo and not history.redo else None
    if made is None or made.more.by_session not in ("", session):
        return False
    prompts = (point for point, _ in context.store.checkpoints() if point.worktree == context.root.key and point.trigger == PROMPT)
    return all(point.seq < made.seq for point in prompts)


def newer_rewind(context: Context) -> rewinds.Rewind | None:
    """The newest rewind that changed a conversation and no file, if it is newer than all that undo and redo know."""
    history = context.store.history(context.root.key)
    newest = [(context.store.checkpoint(step.safety), step) for step in (*history.undo[-1:], *history.redo[-1:])]
    made, step = max(((made, step) for made, step in newest if made is not None), key=lambda pair: pair[0].seq, default=(None, None))
    found = [one for one in context.store.rewinds(0 if made is None else made.seq) if one.worktree == context.root.key]
    if made is not None and step is not None and made.more.op == RESTORE and found and not found[0].safety:
        found = found[found[0].checkpoint == step.target :]  # of an older version: it was done with that restore
    return next((one for one in reversed(found) if one.safety in ("", rewinds.CHAT_ONLY)), None)


def _reversed_step(context: Context, op: str, step: undo_history.Step, *, everything: bool) -> WorktreeChange:
    """The change that reverses a step of the history, for undo and redo."""
    aim = step.safety if op == undo_history.UNDO else step.target

    def reversed_actions(_scan: Scan) -> Actions:
        return plans.reverse(context.store.plan(step.plan))

    def exactly(action: Action, there: Entry | None) -> Entry | Kept | None:
        is_done = action.source == action.path and manifest.same_for_restore(there, action.after)
        if is_done or everything or manifest.same_for_restore(there, action.before):
            return action.after
        return Kept(action.path, plans.EDITED, benign=False)

    def look(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        hint = f"What is sound can be had with casrewind restore {step.safety or step.target} --skip-damaged"
        report, now = prepare_actions(context, writer, reversed_actions, op, aim, hint, exactly, everything=everything)
        made = context.store.checkpoint(step.safety)
        return report._replace(taken_from="" if made is None else made.meta.get(TAKEN_FROM, "")), now

    current = step.safety if op == undo_history.UNDO else step.before
    operation = Operation(op, 0, context.root.key, step.target, "", b"", current)
    return WorktreeChange(context, look, ChangeRecord(operation, is_recorded_if_empty=True))
