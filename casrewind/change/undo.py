"""Undo and redo: reverse the newest restore, path by path.

The danger prevented here: work done after a restore is lost when that is reversed. Paths edited since are kept.
`prepare_actions` also serves a revert (change/revert.py) and a take (change/take.py), which decide in another way what a path becomes.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from .. import errors
from ..context import Context
from ..history import present_scan
from ..messages import age_in_words, printable
from ..model import history as undo_history
from ..model import manifest, paths
from ..model import plan as plans
from ..model import rewind_record as rewinds
from ..model.checkpoint import TAKEN_FROM
from ..model.history import RESTORE, Operation
from ..model.lost_work import OutsideEdits
from ..model.manifest import DIR, Entry
from ..model.plan import Action, Actions, Kept, Plan
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..worktree.protected_places import ProtectedPlaces
from ..worktree.scan import Scan
from . import preflight, safety_capture
from .execute import Restored
from .safety_capture import CapturedState, Stranger, obstacles_error
from .worktree_change import ChangeRecord, WorktreeChange

Resolve = Callable[[Action, Entry | None], Entry | Kept | None]
"""Returns what a path becomes, given the wanted action and the present entry, or why it is kept."""
StepInWords = Callable[[undo_history.Step], str]
_SESSION = 8  # characters of a session id in a message


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
    what = f"the newest back ({age_in_words(newest.created_ns)}, {newest.agent} {printable(newest.parent[:_SESSION])}) changed no file"
    if not steps:
        raise errors.NothingToUndo(f"nothing to undo: {what}, and its old conversation is still there")
    would = f"nothing was undone: {what}, and undo would take back {in_words(steps[-1])}"
    raise errors.NothingToUndo(would, "casrewind undo --older does that")


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


def prepare_actions(
    context: Context, writer: StoreWriter | DryRunWriter, actions_of: Callable[[Scan], Actions], op: str, aim: str, hint: str,
    resolve: Resolve, *, made: Container[bytes] = (), everything: bool = False, skip_damaged: bool = False,
) -> tuple[Restored, CapturedState]:  # fmt: skip
    """Returns (what these actions would do and keep, the current state). `actions_of` is given the scan. `made`: digests
    that `resolve` stores itself. With `everything`, a path that cannot be stored is an obstacle, else it is kept."""
    scan = present_scan.scan_now(context, writer)
    wanted = actions_of(scan)  # after the scan, to limit memory
    wanted, protected = ProtectedPlaces(context.tree, context.policy.excluded).split_off_protected(wanted)
    strangers: dict[bytes, Stranger] = {}
    load = writer.load_tree
    read = scan.read
    unread = (path for path in _touched_paths(wanted) if path not in read)
    respelled: dict[bytes, bytes] = {}
    tree = safety_capture.add_present_paths(context, writer, scan.tree, unread, respelled, strangers)
    now = CapturedState(tree, scan, load, respelled=respelled)
    if everything and strangers:
        touched = frozenset(_touched_paths(wanted))
        if obstacles := [stranger.what for path, stranger in strangers.items() if path in touched]:
            raise obstacles_error(obstacles)
    kept = list(protected)
    finder, points = manifest.Finder(load, tree), context.tree.mounts.points
    actions = plans.sort_and_pack(possible_actions(wanted, finder, strangers, points, kept, resolve))
    plan = plans.keep_paths(Plan(actions, ()), kept)
    plan = preflight.checked_plan(context, now, plan, hint=hint, made=made, skip_damaged=skip_damaged, benign=False)
    left = {item.path for item in plan.kept}
    unchanged = sum(plans.is_of_file(action) for action in wanted if action.path not in left) - sum(map(plans.is_of_file, plan.actions))
    return Restored(op, aim, "", plan.actions, plan.kept, unchanged, dry_run=False), now


def _touched_paths(wanted: Actions) -> Iterable[bytes]:
    if any(action.source != action.path for action in wanted):
        return sorted({path for action in wanted for path in (action.path, action.source)})
    return (action.path for action in wanted)


def possible_actions(
    wanted: Actions,
    finder: manifest.Finder,
    strangers: Mapping[bytes, Stranger],
    mounts: frozenset[bytes],
    kept: list[Kept],
    resolve: Resolve,
) -> Iterator[Action]:
    """Yield the possible actions of a plan, and add the paths that are kept to `kept`. `strangers` are paths that cannot be
    stored, `mounts` are mount points. Parents come first; a path without a directory to go into is kept absent."""
    will_be: dict[bytes, Entry | None] = {}
    for action in wanted:
        there = finder.find(action.source)
        stranger = _stranger_above(action.source, strangers) if strangers else None
        if stranger is not None and (stranger in mounts or stranger == action.source or action.after is not None):
            kept.append(Kept(action.path, strangers[stranger].why_left, benign=False))
            continue
        after = resolve(action, there)
        if isinstance(after, Kept):
            kept.append(after)
        elif manifest.same_for_restore(there, after) and action.source == action.path:
            continue
        elif after is not None and not _will_have_all_parents(action.path, finder, will_be):
            kept.append(Kept(action.path, "its directory was replaced or removed since", benign=False))
        else:
            if DIR in (there and there.kind, after and after.kind):
                will_be[action.path] = after  # only directories affect other paths
            yield Action(action.path, there, after, action.source)


def _stranger_above(path: bytes, strangers: Mapping[bytes, Stranger]) -> bytes | None:
    """The path at or above `path` that cannot be stored, or None."""
    return next((above for above in (*paths.parents(path), path) if above in strangers), None)


def _will_have_all_parents(path: bytes, finder: manifest.Finder, will_be: Mapping[bytes, Entry | None]) -> bool:
    """True if every parent of a path is, or will be, a directory."""
    above = (will_be[parent] if parent in will_be else finder.find(parent) for parent in paths.parents(path))
    return all(entry is not None and entry.kind == DIR for entry in above)
