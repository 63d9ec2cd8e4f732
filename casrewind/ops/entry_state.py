"""Finds the checkpoint of an entry of a conversation: a message, or the end of an answer.

The danger prevented here: files of one moment with the conversation of another. Only a checkpoint that was made at that
very entry counts; the nearest one does not.
"""

from collections.abc import Collection

from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model.checkpoint import Checkpoint
from .context import Context

_ORDER = ("turn_end", "tool_batch", "compact", "session_end", "session_start")
"""Triggers by how well the files of their checkpoints belong to the entry at which the conversation stood."""


def find(context: Context, session: str, entries: Collection[str]) -> Checkpoint | None:
    """The checkpoint of an entry, or None. `entries` are its id and those of the entries that belong to it, such as the
    results of its tool calls.

    Copies of a session have the same ids, so the checkpoints of other sessions count when `session` has none.
    """
    wanted = [entry.encode("utf-8", "surrogatepass") for entry in entries if entry]
    found: list[tuple[tuple[int, int, int], Checkpoint]] = []
    for point, _ in context.store.checkpoints():
        if point.worktree == context.root.key and any(entry in point.cursor for entry in wanted):
            rank = _rank(point, entries)
            if rank is not None:
                found.append(((rank, int(point.session != session), point.seq), point))
    return min(found)[1] if found else None


def _rank(point: Checkpoint, entries: Collection[str]) -> int | None:
    """How well a checkpoint fits, 0 is best; None when it was not made at one of these entries."""
    cursor = cursors.decode(point.cursor)
    if point.trigger == checkpoints.PROMPT:
        return 0 if cursor.prompt_id in entries else None
    if cursor.message_id not in entries or point.trigger not in _ORDER:
        return None
    is_before = point.trigger == "tool_batch" and not cursor.tool_use_id
    return len(_ORDER) + 1 if is_before else _ORDER.index(point.trigger) + 1
