"""Checkpoints as the records that the model of turns reads, and the checkpoints that gc keeps or deletes together."""

from collections.abc import Iterable
from functools import lru_cache

from .. import agents
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model import tlv
from ..model.checkpoint import Checkpoint
from ..model.turn_boundaries import checkpoints_by_turn
from ..model.turn_records import PastOperation, Point
from ..model.undo_history import Operation
from ..store.catalog import UNMARKED, Marked
from .checkpoint_names import label_of

_OF_SUBAGENT = ("SubagentStop", "subagentStop")  # events that report a subagent's end


def find_inseparable(everything: Iterable[tuple[Checkpoint, Marked]]) -> tuple[frozenset[str], ...]:
    """The sets of ids that gc keeps or forgets together, one per turn. `everything`: all checkpoints, newest first."""
    worktrees: dict[bytes, list[tuple[Checkpoint, Marked]]] = {}
    for pair in everything:
        worktrees.setdefault(pair[0].worktree, []).append(pair)
    return tuple(group for found in worktrees.values() for group in checkpoints_by_turn(records_of(found, ())))


def records_of(found: list[tuple[Checkpoint, Marked]], operations: list[Operation] | tuple[()]) -> list[Point | PastOperation]:
    """The records of one worktree, oldest first. `found` has the checkpoints, newest first."""
    records: list[Point | PastOperation] = [_as_point(point, marked) for point, marked in reversed(found)]
    records += (
        PastOperation(one.op, one.created_ns, one.target, one.safety, one.plan, one.agent, one.session, one.current) for one in operations
    )
    return records


@lru_cache(maxsize=checkpoints.REMEMBERED)
def _as_point(point: Checkpoint, marked: Marked = UNMARKED) -> Point:
    more = point.more
    field = agents.turn_id_field(point.agent)
    described = point.flags & checkpoints.DESCRIBED and not marked.label
    of_subagent = more.event in _OF_SUBAGENT
    cursor = cursors.decode(point.cursor) if point.cursor else cursors.Cursor()
    return Point(
        seq=point.seq,
        id=point.id,
        created_ns=point.created_ns,
        parent=point.parent,
        trigger=point.trigger,
        tree=point.tree,
        label="" if described or point.trigger == checkpoints.SAFETY else label_of(point, marked),
        prompt=point.prompt,
        agent=point.agent or more.by_agent,
        session=point.session_key[1] or more.by_session,
        turn_id=getattr(cursor, field) if field else "",
        has_turn_ids=bool(field),
        files=point.files,
        turn=more.turn,
        event=more.event,
        reason=more.reason,
        of_subagent=of_subagent,
        subagents=max(more.subagents - of_subagent, 0),  # the client's number includes the subagent that ends
        no_prompt=bool(point.flags & checkpoints.NO_PROMPT),
        tells_ends=more.tells_ends,
        op=more.op,
        target=more.target,
        branch=more.branch,
        domain=point.domain,
        is_saved=point.is_saved,
        prompt_id=cursor.prompt_id or cursor.message_id or cursor.turn_id,
        at_ns=more.at_ns or point.created_ns,
        tasks=more.tasks,
        subagent=more.subagent,
        subagent_type=more.subagent_type,
        subagent_root=more.subagent_root,
        subagent_task=more.subagent_task,
        written=tuple(tlv.text(more.written).split(b"\0")) if more.written else (),
    )
