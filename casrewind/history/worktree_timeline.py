"""The timeline: the turns, saves and operations of one worktree, newest first, read as far as it is asked for.

The danger prevented here: a command for one turn reads a history of years. And a number that names another turn because
only a part was read: a part counts only as far as the whole history certainly has the same turns.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from .._typing import NamedTuple
from ..agents import client_process
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..model.turn_boundaries import certain_counts, certain_from_position, needs_no_older_record
from ..model.turn_records import Point
from ..store.catalog import Marked
from .checkpoint_names import ReferencePlace
from .compare import ScannedWorktree
from .turn_checkpoints import records_of
from .turn_view import TurnView

SHORT = 256
"""A worktree with more checkpoints has a long history: a list of it begins before all of them are read."""
WINDOWS = (256, 1024)
"""Checkpoints of a store that are read at first, and at next. After them, all."""


class Part(NamedTuple):
    """The newest rows of a timeline, or all of them. The `turns` newest turns are certainly right, and so are all rows above the
    oldest of them, and all rows down to the `saves`th save by hand. `since`: the record of the ledger behind which it is certain
    who changed what."""

    view: TurnView
    turns: int
    saves: int
    since: int
    is_all: bool = False

    @property
    def rows(self) -> int | None:
        """How many rows are certainly right. None: all."""
        return None if self.is_all else self.view.count_down_to(self.turns, self.saves)


class WorktreeTimeline:
    """Reads the checkpoints of one worktree. The number of a turn does not move while it is used."""

    def __init__(
        self,
        context: Context,
        seen: ScannedWorktree | None = None,
        everything: Sequence[tuple[Checkpoint, Marked]] | None = None,
        *,
        needs_operations: bool = True,
        place: ReferencePlace | None = None,
    ) -> None:
        """Reads nothing yet. The arguments are those of TurnView."""
        self._context, self._seen, self._place, self._needs_operations = context, seen, place, needs_operations
        self._everything, self._until = everything, 0
        self._part: Part | None = None
        self._windows = [] if everything is not None or (place is not None and place.machine) else list(WINDOWS)

    @cached_property
    def whole(self) -> Part:
        """All rows. Raises StoreDamaged."""
        seen = self._seen if self._part is None else self._part.view.seen
        view = TurnView(self._context, seen, self.everything, needs_operations=self._needs_operations, place=self._place)
        return Part(view, len(view.turns), 0, 0, is_all=True)

    @property
    def everything(self) -> Sequence[tuple[Checkpoint, Marked]]:
        """All checkpoints of the store, newest first, of all worktrees."""
        if self._everything is None:
            found = self._context.store.checkpoints()
            self._everything = [pair for pair in found if pair[0].seq <= self._until] if self._until else found
        return self._everything

    @property
    def is_short(self) -> bool:
        """True if the history is so short that a list reads all of it at once."""
        return self._context.store.count_listed_checkpoints(self._context.root.key) <= SHORT

    def with_turns(self, number: int) -> TurnView:
        """A view that has this many of the newest turns, if there are so many."""
        return (self.whole if number < 1 else self._read_until(lambda part: part.turns >= number, number)).view

    def with_checkpoint(self, identity: str) -> TurnView:
        """A view that has a checkpoint, with the turn that it belongs to."""
        return self._read_until(lambda part: identity in part.view.points).view

    def since(self, seq: int) -> TurnView:
        """A view in which all rows after a record of the ledger are certain. 0: all rows."""
        return (self._read_until(lambda part: part.since <= seq) if seq else self.whole).view

    def newest(self) -> Part:
        """The first part of a list of a long history: some rows. All of a short one."""
        return self.whole if self.is_short else self._read_until(lambda part: bool(part.rows))

    def newest_with(self, turns: int, rows: int) -> Part:
        """The first part of a list that has so many turns. In a project without turns it has so many rows."""
        if self._context.store.has_agents(self._context.root.key):
            return self._read_until(lambda part: part.turns >= turns, turns)
        return self._read_until(lambda part: part.saves >= rows and not part.view.turns, rows)

    def parts_from(self, first: Part) -> Iterator[tuple[Part, slice]]:
        """The first part and then all, each with the rows of it that come then. All is read when it is asked for."""
        yield first, slice(first.rows)
        if not first.is_all:
            yield self.whole, slice(first.rows, None)

    def _read_until(self, is_enough: Callable[[Part], bool], least: int = 0) -> Part:
        """The part that was read last, or a larger one that is enough. `least`: checkpoints that it needs."""
        if "whole" in self.__dict__:
            return self.whole
        while self._part is None or not is_enough(self._part):
            if not self._windows:
                return self.whole
            most = self._windows.pop(0)
            if most > least:
                self._part = self._read_newest(most) or self._part
        return self._part

    def _read_newest(self, most: int) -> Part | None:
        """The part of the newest checkpoints that explains itself."""
        context = self._context
        everything = context.store.checkpoints(farthest=most)
        if len(everything) < most and not self._until:
            self._everything = everything  # that is all of them
        if len(everything) < most:
            self._windows = []
            return None
        self._until = self._until or everything[0][0].seq
        found = [pair for pair in everything if pair[0].worktree == context.root.key and pair[0].seq <= self._until]
        points = [record for record in records_of(found, ()) if isinstance(record, Point)]
        if not all(map(needs_no_older_record, points)):
            self._windows = []  # a longer part begins behind the same record
        start = certain_from_position(points)
        kept = found[: len(points) - start]
        if not kept or _has_others_alive(context, kept):
            return None
        view = TurnView(context, self._seen, everything=kept, has_operations=False)
        turns, saves = certain_counts(points[start:], [turn.id for turn in view.turns])
        by_hand = [point for point, _ in kept if point.trigger == checkpoints.MANUAL]
        certain = [*(view.points[turn.id] for turn in view.turns[:turns]), *by_hand[:saves]]
        return Part(view, turns, saves, min((point.seq for point in certain), default=self._until))


def _has_others_alive(context: Context, kept: list[tuple[Checkpoint, Marked]]) -> bool:
    """True if a running client may work on a turn that began in front of these checkpoints."""
    known = {point.session_key for point, _ in kept if point.trigger != checkpoints.MANUAL}
    sessions = (*context.store.sessions.all(), *context.store.sessions.running_commands())
    others = (one for one in sessions if (one.agent, one.session) not in known and one.pid > 0)
    return any(client_process.is_alive_or_unknown(client_process.ClientProcess(one.pid, one.pid_start)) for one in others)
