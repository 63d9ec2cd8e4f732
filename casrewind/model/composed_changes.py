"""The changes of several steps, put together path by path.

The danger prevented here: a change is charged to a turn that another one made at the same time, or an operation.
"""

from collections.abc import Iterable

from .._typing import NamedTuple
from .diff import Change
from .manifest import PURGED, Entry, same_for_restore
from .subagents import ITSELF
from .turn_records import Difference, Turn


class _Sides(NamedTuple):
    """A path's entry in front of the first step that changed it, and behind the last one."""

    old: Entry | None
    new: Entry | None


class ComposedChanges:
    """The changes of several steps, put together path by path."""

    def __init__(self) -> None:
        """Nothing is put together at first."""
        self._whole: dict[bytes, _Sides] = {}  # of the spans that are done
        self._sides: dict[bytes, _Sides] = {}  # of this span
        self._shared: dict[bytes, set[int]] = {}
        self._displaced: dict[bytes, tuple[Change, frozenset[int]]] = {}  # what a shared path had, and the turn alone took away
        self._unclear: dict[bytes, Change] = {}
        self._dropped: dict[bytes, tuple[_Sides, set[int]]] = {}  # a path's last dropped change, and the turns that shared it
        self._damaged = self._unknown = False

    def add(self, step: Difference, others: tuple[int, ...]) -> None:
        """Add a step. `others`: all other turns that run in it."""
        self._damaged |= step.damaged
        self._unknown |= step.changes is None
        for change in step.changes or ():
            self._put_change(change, others)
        for change in step.unclear:
            earlier = self._unclear.pop(change.path, None)
            if earlier is None:
                self._unclear[change.path] = change
            elif earlier.new is None:  # no longer captured, and captured again: both ends are known
                self._put_change(change._replace(old=earlier.old), others)

    def _put_change(self, change: Change, others: tuple[int, ...]) -> None:
        known = self._sides.get(change.path)
        self._sides[change.path] = _Sides(change.old if known is None else known.old, change.new)
        if others:
            self._shared.setdefault(change.path, set()).update(others)
        elif change.path in self._shared:
            self._displaced[change.path] = (change, frozenset(self._shared[change.path]))

    def drop_changes(self, step: Difference) -> None:
        """Drop the earlier changes of these paths: they were written outside of the turn. If a step brings back what the turn had
        left, as the undo of a restore does, that change counts again. Else a file that the turn moved was only made by it, and a
        revert removed it from its new name without giving it the old one."""
        self._damaged |= step.damaged
        self._unknown |= step.changes is None
        for path in (change.path for change in (*(step.changes or ()), *step.unclear)):
            sides = [found for known in (self._whole, self._sides) if (found := known.pop(path, None)) is not None]
            shared = self._shared.pop(path, set())
            self._unclear.pop(path, None)
            if sides:
                self._dropped[path] = (_Sides(sides[0].old, sides[-1].new), shared)
        for change in step.changes or ():
            sides_again, shared = self._dropped.get(change.path, (None, set()))
            if sides_again is not None and same_for_restore(sides_again.new, change.new):
                self._whole[change.path] = sides_again
                if shared:
                    self._shared[change.path] = set(shared)

    def end_span(self) -> None:
        """A span is done. A path that is in the end what it was at the start of the span was not changed by it."""
        for path, sides in self._sides.items():
            known = self._whole.get(path)
            if not same_for_restore(*sides):
                self._whole[path] = _Sides(sides.old if known is None else known.old, sides.new)
            elif known is None:
                self._shared.pop(path, None)
        self._sides = {}

    def changes_and_doubts(self) -> tuple[tuple[Change, ...] | None, tuple[bytes, ...], bool]:
        """(the changes by path, the paths that cannot be compared, whether something could not be read)."""
        self.end_span()
        if self._unknown:
            return None, (), True
        found = [Change(path, *sides) for path, sides in sorted(self._whole.items()) if not same_for_restore(*sides)]
        purged = tuple(change.path for change in found if _is_purged(change))
        return tuple(change for change in found if not _is_purged(change)), purged, self._damaged

    @property
    def unclear(self) -> tuple[Change, ...]:
        """The paths that one side did not capture, sorted."""
        return tuple(sorted(self._unclear.values()))

    def turn_with_composed_changes(self, turn: Turn, count: int) -> Turn:
        """The turn with what was put together. `count`: how many turns there are. Of a subagent, `others` are numbers of its own turn's
        workers, and other turns below 0 (model/subagents.py)."""
        changes, purged, damaged = self.changes_and_doubts()
        unsure = [(change.path, sorted(self._shared[change.path])) for change in changes or () if change.path in self._shared]
        found = turn._replace(changes=changes, purged=purged, damaged=damaged, unclear=self.unclear)
        if turn.subagent:
            parts = {one: turn._replace(subagent=one).name if one >= 0 else f"@{count + 1 + one}" for _, others in unsure for one in others}
            among = tuple((path, tuple(parts[one] for one in others)) for path, others in unsure)
            return found._replace(among=among, displaced=tuple((change, (ITSELF,)) for change, _ in self._displaced.values()))
        shared = tuple((path, tuple(sorted(count - one for one in others))) for path, others in unsure)
        displaced = tuple((change, tuple(sorted(count - one for one in others))) for change, others in self._displaced.values())
        return found._replace(shared=shared, displaced=displaced)


def _is_purged(change: Change) -> bool:
    """True for a path that is there on both sides, with content that was purged on either."""
    return change.old is not None and change.new is not None and PURGED in (change.old.kind, change.new.kind)


def changes_beyond_plans(changes: Iterable[Change], plans: Iterable[Iterable[Change]]) -> tuple[Change, ...]:
    """What differs between a state with plans carried out and a tree, sorted by path.

    `changes`: what differs between the state's own tree and that tree. `plans`: what each plan changed, in their order.
    """
    direct = {change.path: change for change in changes}
    left: dict[bytes, _Sides] = {}
    for plan in plans:
        for change in plan:
            known = left.get(change.path)
            left[change.path] = _Sides(change.old if known is None else known.old, change.new)
    found = [change for change in direct.values() if change.path not in left]
    for path, (before, after) in left.items():
        now = direct[path].new if path in direct else before
        if not same_for_restore(after, now):
            found.append(Change(path, after, now))
    return tuple(sorted(found))
