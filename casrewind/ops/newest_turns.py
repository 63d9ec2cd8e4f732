"""The newest turns of this worktree, read from the newest checkpoints of its store.

The danger prevented here: a command for one turn reads a history of years. And a number that names another turn because
only a part was read: a view is returned only if the whole history certainly has the same turns.
"""

from collections.abc import Iterator

from .._typing import NamedTuple
from ..agents import client_process
from ..model import checkpoint as checkpoints
from ..model.certain_turns import certain_counts, certain_from_position, needs_no_older_record
from ..model.checkpoint import Checkpoint
from ..model.turn_records import Point
from ..store.catalog import Marked
from .compare import ScannedWorktree
from .context import Context
from .turn_checkpoints import records_of
from .turn_view import TurnView

SHORT = 256
"""A worktree with more checkpoints has a long history: a list of it begins before all of them are read."""
WINDOWS = (256, 1024)
"""Checkpoints of a store that are read at first, and at next. After them the caller reads all."""


class NewestTurns(NamedTuple):
    """A view of the newest checkpoints. The `turns` newest turns are certainly right, and so are all rows above the oldest of
    them, and all rows down to the `saves`th save by hand. `seq`: the record of the ledger up to which the store was read."""

    view: TurnView
    turns: int
    saves: int
    seq: int

    @property
    def since(self) -> int:
        """The sequence number of a checkpoint: who changed what after it is certain."""
        points = self.view.points
        by_hand = [point.seq for point in points.values() if point.trigger == checkpoints.MANUAL][: self.saves]
        return min([points[turn.id].seq for turn in self.view.turns[: self.turns]] + by_hand)

    @property
    def rows(self) -> int:
        """How many rows are certainly right."""
        return self.view.count_down_to(self.turns, self.saves)


def read_newest(context: Context, turns: int, checkpoint: str = "") -> NewestTurns | None:
    """At least this many of the newest turns, and a checkpoint with the turn that it belongs to. The ledger is not read.
    None: the caller has to read all checkpoints."""
    return next((part for part in _certain_parts(context, turns, checkpoint) if part.turns >= turns), None)


def read_turns_since(context: Context, point: Checkpoint, *, needs_operations: bool = True) -> TurnView:
    """A view in which everything after a checkpoint is certain: of the newest checkpoints if these are enough, else of all.
    `needs_operations`: see TurnView. Raises StoreDamaged."""
    part = read_newest(context, 0, point.id)
    is_enough = part is not None and part.turns and part.since <= point.seq
    return part.view if part is not None and is_enough else TurnView(context, needs_operations=needs_operations)


def read_rows(context: Context, rows: int, turns: int) -> NewestTurns | None:
    """What a list begins with: at least so many of the newest turns. Without turns, it has at least so many rows. None: see
    `read_newest`."""
    if context.store.has_agents(context.root.key):
        return read_newest(context, turns)
    return next((part for part in _certain_parts(context, rows, "") if part.saves >= rows and not part.view.turns), None)  # of none


def read_some(context: Context, seen: ScannedWorktree | None = None) -> NewestTurns | None:
    """Some of the newest rows that are certainly right. None if all checkpoints are few, or have to be read. `seen`: see
    TurnView."""
    if context.store.count_listed_checkpoints(context.root.key) <= SHORT:
        return None
    return next((part for part in _certain_parts(context, 0, "", seen) if part.rows), None)


def read_all(context: Context, part: NewestTurns, *, needs_operations: bool = True) -> TurnView:
    """A view of all checkpoints, in which the turns of a part have the numbers that they have there. `needs_operations`: see
    TurnView. Raises StoreDamaged."""
    everything = [pair for pair in context.store.checkpoints() if pair[0].seq <= part.seq]
    return TurnView(context, part.view.seen, everything, needs_operations=needs_operations)


def _certain_parts(context: Context, least: int, checkpoint: str, seen: ScannedWorktree | None = None) -> Iterator[NewestTurns]:
    """The parts that explain themselves, from small to large. `least`: checkpoints that are needed."""
    for most in WINDOWS:
        if most <= least:
            continue
        everything = context.store.checkpoints(farthest=most)
        if len(everything) < most:
            return  # that is all of them
        found = [pair for pair in everything if pair[0].worktree == context.root.key]
        points = [record for record in records_of(found, ()) if isinstance(record, Point)]
        start = certain_from_position(points)
        kept = found[: len(points) - start]
        is_there = not checkpoint or any(point.id == checkpoint for point, _ in kept)
        if kept and is_there and not _has_others_alive(context, kept):
            view = TurnView(context, seen, everything=kept, has_operations=False)
            turns, saves = certain_counts(points[start:], [turn.id for turn in view.turns])
            yield NewestTurns(view, turns, saves, everything[0][0].seq)
        if not all(map(needs_no_older_record, points)):
            return  # a longer part begins behind the same record


def _has_others_alive(context: Context, kept: list[tuple[Checkpoint, Marked]]) -> bool:
    """True if a running client may work on a turn that began in front of these checkpoints."""
    known = {point.session_key for point, _ in kept if point.trigger != checkpoints.MANUAL}
    sessions = (*context.store.sessions.all(), *context.store.sessions.running_commands())
    others = (one for one in sessions if (one.agent, one.session) not in known and one.pid > 0)
    return any(client_process.is_alive_or_unknown(client_process.ClientProcess(one.pid, one.pid_start)) for one in others)
