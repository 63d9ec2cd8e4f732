"""What restores, reverts, undos and redos did to the files since a session's last prompt.

The danger prevented here: an agent believes in files that a person took back, and writes them again. A session is told
what it cannot know, and nothing else: not what its own shell did, and not a restore to where its conversation was cut.
"""

from collections.abc import Mapping, Sequence

from .. import errors
from .._typing import NamedTuple
from ..agents.event import Event
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model import manifest
from ..model import rewind_record as rewinds
from ..model.manifest import DIR, Entry
from ..model.undo_history import ABORT, CONTINUE, REDO, RESTORE, UNDO, Operation, find_origins

_REVERSED = {UNDO: (RESTORE, REDO), REDO: (UNDO,)}
"""{operation: those that it reverses}."""


class Done(NamedTuple):
    """One operation on the files."""

    op: str
    """The operation that was asked for, as its safety checkpoint names it."""
    by_session: str
    """The session whose shell ran it, "" = a person did."""
    turn: str
    """Whose turn it is about: "own", "other", "" = it is about no turn."""
    prompt: str
    """The prompt of the session's own turn, or ""."""
    of: str
    """For undo and redo: the operation in the beginning, as `op` names it."""


class RestoredSince(NamedTuple):
    """The operations that were not reversed again, oldest first, and what they did together."""

    done: tuple[Done, ...]
    written: tuple[bytes, ...]
    """The paths that have another content now, or are there again."""
    removed: tuple[bytes, ...]
    """The paths that are gone."""
    is_whole: bool
    """False if the paths of an operation cannot be read."""


def restored_since(context: Context, event: Event, since: int) -> RestoredSince | None:
    """What was done after the record `since` of the ledger that the event's session cannot know; None = nothing. `since`
    0: the session had no prompt here, so it knows what was before the rewind that made it. Reads the whole ledger."""
    if not since:
        made = context.store.seq_of_rewind(context.root.key, event.session)
        if made is None:
            return None
        since = made
    cut = {
        one.safety for one in context.store.rewinds(since)
        if one.worktree == context.root.key and one.agent == event.agent and one.session == event.session
        if one.mode == rewinds.IN_PLACE
    }  # fmt: skip
    found = [
        operation for operation in context.store.operations(since)
        if operation.worktree == context.root.key and operation.session != event.session and operation.safety not in cut
        if operation.op not in (ABORT, CONTINUE) or _began_before(context, operation, since)
    ]  # fmt: skip
    written, removed, is_whole = _written_and_removed_paths(context, found)
    if not written and not removed and is_whole:
        return None
    left = _without_reversed(found) or found[-1:]  # an undo that kept a path is no whole reversal
    whole = context.store.operations() if any(operation.op in (UNDO, REDO) for operation in left) else ()
    origins = find_origins(operation for operation in whole if operation.worktree == context.root.key)
    return RestoredSince(tuple(_what_was_done(context, event, operation, origins) for operation in left), written, removed, is_whole)


def _began_before(context: Context, end: Operation, since: int) -> bool:
    """True if an interrupted restore that was taken back began before the record `since`: the session saw it half done. The
    record of one that was finished tells of all of it."""
    begun = context.store.checkpoint(end.target)
    return end.op == ABORT and begun is not None and begun.seq <= since


def _without_reversed(operations: Sequence[Operation]) -> list[Operation]:
    left: list[Operation] = []
    for operation in operations:
        if left and left[-1].op in _REVERSED.get(operation.op, ()):
            left.pop()
        else:
            left.append(operation)
    return left


def _written_and_removed_paths(context: Context, operations: Sequence[Operation]) -> tuple[tuple[bytes, ...], tuple[bytes, ...], bool]:
    """Returns (paths written, paths removed, True if all plans could be read) of operations, oldest first. A directory
    counts only if no file changed."""
    sides: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    is_whole = True
    for operation in operations:
        try:
            for action in context.store.plan(operation.plan):
                first, _ = sides.get(action.path, (action.before, None))
                sides[action.path] = first, action.after
        except errors.StoreDamaged:
            is_whole = False
    changed = {path: side for path, side in sides.items() if not manifest.same_for_restore(*side)}
    files = {path: side for path, side in changed.items() if not any(entry is not None and entry.kind == DIR for entry in side)}
    shown = sorted((files or changed).items())
    written = tuple(path for path, (_, after) in shown if after is not None)
    return written, tuple(path for path, (_, after) in shown if after is None), is_whole


def _what_was_done(context: Context, event: Event, operation: Operation, origins: Mapping[str, Operation]) -> Done:
    target = context.store.checkpoint(operation.target)
    turn = prompt = ""
    if target is not None and target.trigger == checkpoints.PROMPT and target.agent != checkpoints.RUN:
        is_own = (target.agent, target.session) == (event.agent, event.session)
        turn, prompt = ("own", target.prompt) if is_own else ("other", "")
    of = _name_of_operation(context, origins.get(operation.safety)) if operation.op in (UNDO, REDO) else ""
    return Done(_name_of_operation(context, operation), operation.session, turn, prompt, of)


def _name_of_operation(context: Context, operation: Operation | None) -> str:
    """The operation that was asked for: a revert has the record of a restore, and only its safety checkpoint has its name."""
    if operation is None:
        return RESTORE
    safety = context.store.checkpoint(operation.safety)
    return safety.more.op if safety is not None and safety.more.op else operation.op
