"""How many of the newest checkpoints of a worktree give the right turns without the older ones.

The danger prevented here: a part of a timeline that is read as if it were all of it. A turn that began in front of the
part could run in it, end in it, or own one of its records. Where a record leaves a doubt, the part begins behind it.
"""

from collections.abc import Sequence

from . import checkpoint as checkpoints
from .turn_boundaries import Session
from .turn_records import Point

_WITH_ENDS = (checkpoints.PROMPT, "turn_end", "tool_batch")
"""Triggers whose records can open a turn. Such a record must say whether the client reports ends."""


def needs_no_older_record(point: Point) -> bool:
    """False for a record of an operation, of an earlier version, or of a task notification, which continues a turn."""
    if point.trigger == checkpoints.SAFETY:
        return False
    if point.trigger == checkpoints.MANUAL or _only_closes(point):
        return True
    if point.trigger in _WITH_ENDS and point.tells_ends is None:
        return False
    if point.trigger == checkpoints.PROMPT:
        return bool(point.turn)
    if point.trigger == "turn_end" and point.has_turn_ids and not point.turn_id:
        return False
    return bool(point.turn) or not point.turn_id  # an id of the client's may be that of an older turn


def certain_from_position(points: Sequence[Point]) -> int:
    """The lowest position from which turn_boundaries.find_boundaries needs no older record. `points`: oldest first.
    len(points) = none. It does not know which sessions are alive: none may be that has records in front of it only.

    From there on, each session begins with a prompt that opens a turn. Each named turn and each parent is there, too.
    No record continues a turn that has ended, and none is of an operation.
    """
    found = len(points)
    unopened: set[Session] = set()  # sessions whose oldest record here belongs to an older turn
    named: set[str] = set()  # turns that records here name and that are not here yet
    parents: set[str] = set()
    for at in range(len(points) - 1, -1, -1):
        point = points[at]
        if not needs_no_older_record(point):
            break
        named.discard(point.id)
        parents.discard(point.id)
        is_hand = point.trigger == checkpoints.MANUAL
        if point.turn == point.id and point.trigger == checkpoints.PROMPT:
            unopened.discard((point.agent, point.session))
        elif not _only_closes(point):
            if point.turn:
                named.add(point.turn)
            if not is_hand or (point.session and not point.turn):
                unopened.add((point.agent, point.session))
        if not unopened and not named and not parents:
            found = at
        if point.parent:
            parents.add(point.parent)
    return found


def certain_counts(points: Sequence[Point], opened: Sequence[str]) -> tuple[int, int]:
    """Returns (how many turns, how many saves by hand) of a part that certain_from has found are certainly shown right:
    the newest ones. So are all rows above the oldest of them. `opened`: the ids of what opened the turns of the part.
    """
    ends = (checkpoints.PROMPT, checkpoints.MANUAL)  # a row outside of turns that began in front of the part ends there
    first = next((at for at in range(1, len(points)) if points[at].trigger in ends), len(points))
    later = points[first + 1 :]
    turns = {point.id for point in later}.intersection(opened)
    return len(turns), sum(point.trigger == checkpoints.MANUAL for point in later)


def _only_closes(point: Point) -> bool:
    """True for a record that at most leaves an older turn of its session without an end."""
    if point.trigger == checkpoints.SESSION_START:
        return point.has_turn_ids and not point.turn and not point.turn_id
    return point.trigger == "session_end"
