"""Finds out who made the content of a file, and whose work a plan takes back: that of turns or a person. For some of it nobody
can tell.

The danger prevented here: a person's lines are removed as if an agent had written them, without a word; or a turn is named for
lines that it never wrote. So nothing is guessed from times or names. The content of a file is traced back from the worktree, edit by
edit, through the rows of the turn view. A merge has the content of before and what it brought; what a restore brought back belongs to
whoever made it originally. What no row explains has no maker, and that is not the agent. In a plan, a person's edit counts
only if it is proved, that of another agent's session if it may be one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import takewhile

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import enumerated
from ..model.at_risk import NO_EDITS, OutsideEdits
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.line_diff import Block, blocks, lines_of
from ..model.manifest import FILE, Entry, Finder, same_for_restore
from ..model.merge import FileMovedOn
from ..model.plan import Action, is_of_file
from ..model.turn_records import BACKGROUND, OPERATIONS, Forgotten, Interval, Outside, Reset, Row, Turn, is_of_person
from ..model.undo_history import ABORT, REDO, UNDO
from .compare import comparison_of_changes
from .lookup import find_common_state
from .rename_detection import Rename, find_renames
from .turn_view import TurnView
from .worktree_timeline import WorktreeTimeline


class Makers(NamedTuple):
    """Who made something: the numbers of turns, newest first, and whether a person did. `perhaps`: the candidates for each part that
    has more than one."""

    turns: tuple[int, ...] = ()
    is_person: bool = False
    perhaps: "tuple[Makers, ...]" = ()

    @property
    def is_one(self) -> bool:
        """True if there is exactly one turn or person."""
        return len(self.turns) + self.is_person == 1

    def __str__(self) -> str:
        """In words: "@1, @3 and you", "@2 and @1 or you", or ""."""
        return enumerated([*self.names, *(" or ".join(some.names) for some in self.perhaps)])

    @property
    def names(self) -> list[str]:
        """The turns and the person as they are named: @1, you."""
        return [*(f"@{number}" for number in self.turns), *(["you"] if self.is_person else [])]


NOBODY_KNOWN = Makers()
_BRING_BACK = frozenset({OPERATIONS[UNDO], OPERATIONS[REDO], OPERATIONS[ABORT]})
"""The rows of operations that bring back what was there. Its edits are in older rows."""


class Edit(NamedTuple):
    """What happened to a path between two known states. `makers`: who did it. Several makers are candidates: one of them did. No
    maker means an operation, or that it is unknown."""

    makers: Makers
    path: bytes
    old: Entry | None
    new: Entry | None
    row: Row | None
    """The row of what no turn did, if there is one. None since the newest checkpoint."""
    order: int = 0
    """See Interval."""

    @property
    def is_background(self) -> bool:
        """True for background work of its maker, behind the end of the turn."""
        return isinstance(self.row, Outside) and self.row.kind == BACKGROUND


class Provenance:
    """Traces what files have. Nothing is read before it is asked for."""

    def __init__(self, context: Context, view: TurnView, since: int = 0, left_out: Collection[int] = ()) -> None:
        """`since`: only edits after this record of the ledger count. `left_out`: numbers of turns that no answer names."""
        self._context, self._view, self._left_out = context, view, frozenset(left_out)
        self._intervals = takewhile(lambda interval: interval.order > 2 * since, view.intervals())
        self._changes: dict[bytes, list[tuple[Interval, Change]]] = {}
        """The changes of each path in the intervals that were read so far, newest first."""
        self._renames: dict[int, tuple[Rename, ...]] = {}
        """The renames of each step that was asked for, by its order."""
        self._doubtful: dict[int, frozenset[bytes]] = {}
        self._finders: dict[str, Finder] = {}
        """Of the checkpoints to which operations went back."""

    def edits_of(self, path: bytes, present: Entry | None) -> Iterator[Edit]:
        """The edits that the present entry of a path has, newest first. Raises StoreDamaged, ManifestRefused."""
        newest = self.edit_since_newest(path, present)
        if newest is not None:
            yield newest
        yield from self.edits_before(path, present if newest is None else newest.old)

    def edit_since_newest(self, path: bytes, present: Entry | None) -> Edit | None:
        """The edit of a path since the newest checkpoint."""
        known = self._newest(path)
        return None if same_for_restore(known, present) else Edit(self._makers_since_newest, path, known, present, None)

    def edits_before(self, path: bytes, known: Entry | None, limit: int = -1, *, by_lines: bool = False) -> Iterator[Edit]:
        """The edits that an entry of a path has, newest first: only those whose order is at most `limit`, if that is not negative.
        `by_lines`: for whoever traces lines, each operation is an edit.
        Raises StoreDamaged, ManifestRefused."""
        for interval, change in self._changes_at(path):
            if 0 <= limit < interval.order or not same_for_restore(change.new, known) or same_for_restore(change.old, known):
                continue  # behind the state that a restore brought back; or what was made was replaced, or is gone
            row = interval.row
            if isinstance(row, Reset) and row.kind in _BRING_BACK and not by_lines:
                continue
            target = self._view.named.get(row.target) if isinstance(row, Reset) and not (by_lines or is_of_person(row)) else None
            if target is not None and self._has_entry(target, path, known):
                limit = 2 * target.seq
                continue
            yield Edit(self._makers_in(interval, path), path, change.old, known, row, interval.order)
            known = change.old

    def makers_of(self, path: bytes, present: Entry | None) -> Makers:
        """Who made edits that the present entry of a path has."""
        try:
            return self._makers_among([edit.makers for edit in self.edits_of(path, present)])
        except (errors.StoreDamaged, errors.ManifestRefused):
            return NOBODY_KNOWN

    def makers_of_lines(
        self,
        path: bytes,
        present: Entry,
        lines: Sequence[bytes],
        chosen: Sequence[tuple[int, int]],
        read: Callable[[Entry], bytes],
    ) -> Makers:
        """Who was the last to edit each of these lines of the present content: (start, end) from 0, without the end. An empty range
        is where lines were removed."""
        found: list[Makers] = []
        sought, now = list(chosen), lines
        try:
            edits = self.edits_of(path, present)
            while sought and (edit := next(edits, None)) is not None:
                entry = edit.old
                if entry is None and (moved := self.moved_here(edit)) is not None:
                    entry, edits = moved.old, self.edits_before(moved.source, moved.old, edit.order - 1)
                if entry is None or entry.kind != FILE:
                    found.append(edit.makers)
                    break
                old = lines_of(read(entry))
                touched = blocks(old, now)
                parts = [_untouched_parts(start, end, touched) for start, end in sought]
                found += [edit.makers] * any(is_touched for is_touched, _ in parts)
                sought, now = [each for _, left in parts for each in left], old
        except (errors.StoreDamaged, errors.ManifestRefused, FileMovedOn):
            return NOBODY_KNOWN
        return self._makers_among(found)

    def _makers_among(self, found: Sequence[Makers]) -> Makers:
        """The makers of several edits, without the turns that are left out."""
        asked = [makers._replace(turns=tuple(turn for turn in makers.turns if turn not in self._left_out)) for makers in found]
        certain = [makers for makers, whole in zip(asked, found, strict=True) if whole.is_one]
        turns = {number for makers in certain for number in makers.turns}
        perhaps = dict.fromkeys(makers for makers, whole in zip(asked, found, strict=True) if makers.turns and not whole.is_one)
        return Makers(tuple(sorted(turns)), any(makers.is_person for makers in certain), tuple(perhaps))

    def steps_at(self, path: bytes) -> Iterator[Edit]:
        """Every edit that a path had, newest first, whatever it has now. What changed since the newest checkpoint is among them if the
        worktree was scanned."""
        latest = self._latest.get(path) if self._view.seen is not None else None
        if latest is not None:
            yield Edit(self._makers_since_newest, path, latest.old, latest.new, None)
        for interval, change in self._changes_at(path):
            yield Edit(self._makers_in(interval, path), path, change.old, change.new, interval.row, interval.order)

    def versions_of(self, path: bytes) -> Iterator[Entry]:
        """What a path had before and behind each edit of the turns that are left out."""
        for interval, change in self._changes_at(path):
            if not self._left_out.isdisjoint(interval.turns):
                yield from (entry for entry in (change.new, change.old) if entry is not None)

    def moved_here(self, edit: Edit) -> Rename | None:
        """Where a file came from that an edit made: one that went in the same step, with the same or similar content."""
        return next((each for each in self._renames_of(edit) if each.path == edit.path), None)

    def moved_away(self, edit: Edit) -> Rename | None:
        """Where a file went that an edit took away: one that came in the same step, with the same or similar content."""
        return next((each for each in self._renames_of(edit) if each.source == edit.path), None)

    def _renames_of(self, edit: Edit) -> tuple[Rename, ...]:
        """The renames in the step of an edit. Many files may be moved in one: it is looked at once."""
        if edit.order not in self._renames:
            steps = (interval.changes for interval, _ in self._changes.get(edit.path, ()) if interval.order == edit.order)
            changes = next(steps, ()) if edit.order else self._latest.values()
            self._renames[edit.order] = find_renames(comparison_of_changes(self._context, changes, to_now=not edit.order))
        return self._renames[edit.order]

    def entry_in(self, point: Checkpoint, path: bytes) -> Entry | None:
        """The entry of a path in a checkpoint."""
        if point.id not in self._finders:
            self._finders[point.id] = Finder(self._context.store.load_tree, point.tree)
        return self._finders[point.id].find(path)

    def _changes_at(self, path: bytes) -> Iterator[tuple[Interval, Change]]:
        """The changes at a path, newest first. Intervals are read as far as they are asked for."""
        found = self._changes.setdefault(path, [])
        at = 0
        while True:
            while at == len(found):
                interval = next(self._intervals, None)
                if interval is None:
                    return
                for change in interval.changes:
                    self._changes.setdefault(change.path, []).append((interval, change))
            yield found[at]
            at += 1

    def _makers_in(self, interval: Interval, path: bytes) -> Makers:
        """Who may have made the change of an interval at a path."""
        if interval.turns:
            return Makers(interval.turns, is_person=any(path in self._doubtful_in(number) for number in interval.turns))
        if isinstance(interval.row, Outside) and interval.row.kind == BACKGROUND:
            return Makers((interval.row.of,))
        return Makers((), is_person=interval.row is not None and is_of_person(interval.row))

    def _doubtful_in(self, number: int) -> frozenset[bytes]:
        """The paths that somebody else may have changed, because nobody saw the end of a turn."""
        if number not in self._doubtful:
            turn = self._view.turns[number - 1]
            if turn.mixed and turn.to_now:
                turn = self._view.with_changes_so_far(turn)
            elif turn.mixed:
                turn = self._view.with_changes(turn)
            self._doubtful[number] = frozenset(turn.doubtful)
        return self._doubtful[number]

    def _has_entry(self, point: Checkpoint, path: bytes, entry: Entry | None) -> bool:
        """True if a checkpoint has this entry at a path."""
        return same_for_restore(self.entry_in(point, path), entry)

    @cached_property
    def _latest(self) -> dict[bytes, Change]:
        """What changed since the newest checkpoint, by path. Scans the worktree."""
        return {change.path: change for change in self._view.changes_since_newest()}

    @cached_property
    def _newest(self) -> Callable[[bytes], Entry | None]:
        return self._view.newest_state()

    @cached_property
    def _makers_since_newest(self) -> Makers:
        """Who made the changes since the newest checkpoint."""
        running = [turn for turn in self._view.turns if turn.to_now]
        return Makers(tuple(turn.n for turn in running), is_person=not running or any(turn.mixed for turn in running))


def _untouched_parts(start: int, end: int, touched: Sequence[Block]) -> tuple[bool, list[tuple[int, int]]]:
    """Returns (True if one of these blocks made some of the new lines `start` to `end`, or removed lines there, and the lines that none
    made, as places in the old text)."""
    found, shift, is_touched = [], 0, False
    for block in touched:
        if block.new_start > end:
            break
        is_beside = block.new_start == end or block.new_end == start
        is_of_lines = not is_beside or start == end or block.new_start == block.new_end
        is_touched |= block.new_end >= start and is_of_lines
        if start < block.new_start:
            found.append((start + shift, min(block.new_start, end) + shift))
        start, shift = max(start, block.new_end), block.old_end - block.new_end
    if start < end or not (is_touched or found):
        found.append((start + shift, end + shift))
    return is_touched, found


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
        turns, has_forgotten = ([], False) if view is None else turns_since(view, target)
        return found._replace(can_stay=bool(turns) and not has_forgotten)
    return found._replace(can_stay=bool(proved) and find_common_state(context, target) is not None, is_of_machine=True)


def turns_since(view: TurnView, target: Checkpoint) -> tuple[list[Turn], bool]:
    """Returns (the turns that began after a checkpoint, newest first, True if some after it were forgotten)."""

    def is_since(identity: str) -> bool:
        return view.points[identity].seq >= target.seq

    turns = [turn for turn in view.turns if is_since(turn.id)]
    forgotten = view.rows(wanted=lambda row: isinstance(row, Forgotten) and is_since(row.checkpoint))
    return turns, any(True for _ in forgotten)


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
            if not edits or any(edit.makers != alone for edit in edits) or not same_for_restore(edits[-1].old, wanted):
                return False
    except (errors.StoreDamaged, errors.ManifestRefused):
        return False
    return True
