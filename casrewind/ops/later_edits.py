"""Finds out who edited a file after a checkpoint: other turns, or a person outside of all turns.

The content of a file is traced back from the worktree, step by step. What no step explains has no name.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

from .. import errors
from .._typing import NamedTuple
from ..messages import enumerated
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.line_diff import blocks, lines_of
from ..model.manifest import FILE, Entry, Finder, same_for_restore
from ..model.turn_records import Outside, Row, Turn, is_of_person
from .context import Context
from .path_contents import FileMovedOn
from .turn_view import TurnView


class Editors(NamedTuple):
    """The numbers of turns, newest first, and whether a person edited, too."""

    turns: tuple[int, ...] = ()
    is_person: bool = False

    def __str__(self) -> str:
        """In words: "@1, @3 and you", or ""."""
        return enumerated([*(f"@{number}" for number in self.turns), *(["you"] if self.is_person else [])])


class _Step(NamedTuple):
    """One edit of a file. `turn`: the number of its turn, 0 = a person's, None = unknown."""

    turn: int | None
    old: Entry | None
    new: Entry | None


class LaterEdits:
    """The edits after a checkpoint. Nothing is read before it is asked for."""

    def __init__(self, context: Context, view: TurnView, start: Checkpoint, left_out: Collection[int]) -> None:
        """`start`: the edits after it. `left_out`: the numbers of turns that do not count."""
        self._context, self._view = context, view
        self._start, self._left_out = start.seq, left_out

    def of_file(self, path: bytes, present: Entry | None) -> Editors:
        """Who made edits of a file that are in its present content."""
        try:
            return self._editors_of_turns([step.turn for step in self._edits_of_file(path, present)])
        except errors.StoreDamaged:
            return Editors()

    def of_lines(
        self, path: bytes, present: Entry, lines: Sequence[bytes], chosen: Sequence[tuple[int, int]], read: Callable[[Entry], bytes]
    ) -> Editors:
        """Who was the last to edit these lines (first, last; from 1) of the present content."""
        found: list[int | None] = []
        sought = [(first - 1, last) for first, last in chosen]
        now = lines
        try:
            for step in self._edits_of_file(path, present):
                if not sought:
                    break
                if step.old is None or step.old.kind != FILE:
                    found.append(step.turn)
                    break
                old = lines_of(read(step.old))
                touched = blocks(old, now)
                left = []
                for start, end in sought:
                    if any(block.new_start <= end and start <= block.new_end for block in touched):
                        found.append(step.turn)
                    else:
                        before = [block for block in touched if block.new_end < start]
                        moved = before[-1].old_end - before[-1].new_end if before else 0
                        left.append((start + moved, end + moved))
                sought, now = left, old
        except (errors.StoreDamaged, FileMovedOn):
            return Editors()
        return self._editors_of_turns(found)

    def _editors_of_turns(self, found: Sequence[int | None]) -> Editors:
        turns = sorted({turn for turn in found if turn and turn not in self._left_out})
        return Editors(tuple(turns), 0 in found)

    def _edits_of_file(self, path: bytes, present: Entry | None) -> Iterator[_Step]:
        """The edits of a file that are in its present content, newest first."""
        known = self._newest(path)
        if not same_for_restore(known, present):
            yield _Step(self._maker_now, known, present)
        for row, changes in self._rows:
            if isinstance(row, Turn) and row.changes is None and row.to_now and row.before is not None:
                change: Change | None = Change(path, self._state_before(row.before).find(path), known)
            else:
                change = changes.get(path)
            if change is not None and same_for_restore(change.new, known) and not same_for_restore(change.old, known):
                yield _Step(_maker_of_row(row), change.old, change.new)
                known = change.old

    def _state_before(self, identity: str) -> Finder:
        return Finder(self._context.store.load_tree, self._view.points[identity].tree)

    @cached_property
    def _newest(self) -> Callable[[bytes], Entry | None]:
        return self._view.newest_state()

    @cached_property
    def _maker_now(self) -> int | None:
        """Who made the changes since the newest checkpoint."""
        running = [turn.n for turn in self._view.turns if turn.to_now]
        return running[0] if len(running) == 1 else None if running else 0

    @cached_property
    def _rows(self) -> list[tuple[Row, Mapping[bytes, Change]]]:
        rows = self._view.rows(wanted=lambda row: self._view.is_after(row, self._start))
        return [(row, {change.path: change for change in getattr(row, "changes", None) or ()}) for row in rows]


def _maker_of_row(row: Row) -> int | None:
    return row.n if isinstance(row, Turn) else 0 if is_of_person(row) else row.of if isinstance(row, Outside) else None
