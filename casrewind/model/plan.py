"""Plans: what a restore will do, and in which order, as a value. Building a plan reads and changes nothing.

The danger prevented here: a restore that deletes files the checkpoint never covered, or that finds a reason to stop
halfway. Every refusal and every kept path is decided before the first change. Directories are made before their
contents. Removals follow all writes, which may run out of space. Emptied directories follow the removals. Directory
modes, which may forbid all of that, are last.
"""

import io
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple, overload
from . import paths
from .at_risk import OnlyCopy, OpenFile
from .diff import Captured, Change
from .manifest import DIR, LINK, PURGED, Entry, decode_entry, encode_entry

if TYPE_CHECKING:
    from .turn_records import Turn

MAGIC = b"CRP1"
OUTSIDE, SHARED, UNSEEN_END = "outside", "shared", "unseen_end"
"""Words for why a path is kept: no turn changed it; others may have changed it, too; it changed before the end of a turn, and
nothing saw that end."""
EDITED, CHANGED_NOW, APPEARED_NOW = "edited since", "it changed just now", "it appeared just now"
"""Why a path is kept: its content is not what the operation left there, or changes while the operation is made."""


class Action(NamedTuple):
    """One path that a restore changes: from entry `before` to entry `after` (None = absent). `source` is the current
    path of `before`: another spelling of `path` on a file system that folds names, otherwise `path`."""

    path: bytes
    before: Entry | None
    after: Entry | None
    source: bytes

    def reversed(self) -> "Action":
        """The inverse action."""
        return Action(self.source, self.after, self.before, self.path)


class Kept(NamedTuple):
    """A path left unchanged."""

    path: bytes
    reason: str
    benign: bool
    """Unchanged by design, not because a restore was impossible."""
    why: str = ""
    """The reason as one word: SHARED, UNSEEN_END, OUTSIDE ..., "" if there is none."""
    lines: tuple[tuple[int, int], ...] = ()
    """The lines (first, last) that conflict, from 1."""
    by: tuple[int, ...] = ()
    """The numbers of the turns that edited them."""
    option: str = ""
    """The option with which the same command takes the path back, "" if there is none."""

    @property
    def explanation(self) -> str:
        """The reason, and what to do about it."""
        way = f"; {self.option} takes it back{' as well' if self.why == SHARED else ''}" if self.option else ""
        return f"{self.reason}{way}"


def without_options(left: Iterable[Kept]) -> tuple[Kept, ...]:
    """Paths that are left unchanged, for a person who cannot give an option."""
    return tuple(item._replace(option="") for item in left)


class Merged(NamedTuple):
    """A file that becomes a merge."""

    path: bytes
    data: bytes
    """Its bytes."""
    taken: int
    """How many places are taken back."""
    kept: int
    """How many lines stay that were changed since."""
    conflicts: int = 0
    """How many places have markers."""
    by: tuple[int, ...] = ()
    """The numbers of the turns that edited the file since."""
    is_yours: bool = False
    """A person edited it, too."""
    is_taken_over: bool = False
    """The places were taken over instead, from the machine or from a directory."""
    machine: str = ""
    """The machine's name, or "" for a directory."""


class Actions(Sequence[Action]):
    """Actions encoded as a plan. Up to `_MOST_HELD` of them are held decoded, others are decoded on each access: a million
    decoded actions would need most of a gigabyte. Equals a tuple of the same actions."""

    __slots__ = ("_held", "_last", "_starts", "data", "in_order")

    def __init__(self, data: bytes, starts: bytes, held: list[Action], *, in_order: bool) -> None:
        """`data`: a plan's bytes. `starts`: the offsets of its actions (native u64). `held`: its first actions."""
        self.data, self.in_order, self._starts = data, in_order, memoryview(starts).cast("Q")
        self._held = held if len(held) == len(self._starts) else None
        self._last = 0

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, number: int) -> Action: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Action, ...]: ...
    def __getitem__(self, number: int | slice) -> Action | tuple[Action, ...]:
        if isinstance(number, slice):
            return tuple(self[each] for each in range(*number.indices(len(self))))
        return _decode_action(self.data, self._starts[number])[0] if self._held is None else self._held[number]

    def __iter__(self) -> Iterator[Action]:
        if self._held is not None:
            return iter(self._held)
        return (_decode_action(self.data, start)[0] for start in self._starts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Actions):
            return self.data == other.data
        return isinstance(other, tuple) and len(other) == len(self) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def path(self, number: int) -> bytes:
        """The path of an action."""
        if self._held is not None:
            return self._held[number].path
        start = self._starts[number]
        return self.data[start + 5 : start + 5 + int.from_bytes(self.data[start + 1 : start + 5], "little")]

    def index_of(self, path: bytes) -> int | None:
        """The index of the action on a path, or None. Fast for the path of the last call and the next path."""
        for near in (self._last, self._last + 1):
            if near < len(self._starts) and self.path(near) == path:
                self._last = near
                return near
        if not self.in_order:
            return next((number for number in range(len(self)) if self.path(number) == path), None)
        low, high = 0, len(self._starts)
        while low < high:
            middle = (low + high) // 2
            if self.path(middle) < path:
                low = middle + 1
            else:
                high = middle
        if low == len(self._starts) or self.path(low) != path:
            return None
        self._last = low
        return low

    def get(self, path: bytes) -> Action | None:
        """The action on a path."""
        number = self.index_of(path)
        return None if number is None else self[number]


class Plan(NamedTuple):
    """What would be done to the worktree."""

    actions: Sequence[Action]
    """Sorted by path."""
    kept: tuple[Kept, ...]
    """The paths left unchanged."""
    merged: tuple[Merged, ...] = ()
    """The files among the actions that are merged by lines."""
    only_copies: tuple[OnlyCopy, ...] = ()
    """The removed files that may be the only copies of ignored files."""
    open_files: tuple[OpenFile, ...] = ()
    """The files that a program has open for writing."""
    read: "Callable[[bytes, Entry], bytes | None] | None" = None
    """Returns the bytes of what is planned: see Restored."""
    why_again: str = ""
    """Why a person is asked once more, or ""."""
    foreign: tuple[bytes, ...] = ()
    """Of a rewind: the paths that another session may have changed."""
    turns: "tuple[Turn, ...]" = ()
    """Of a restore that keeps edits: the turns that it takes back, newest first."""


def build_plan(changes: Iterable[Change], why_unknown: Captured, scope: Sequence[bytes] = ()) -> Plan:
    """The plan that turns the present (old side of the changes) into the target (new side). `changes` are sorted by
    path.

    A path absent from the target is removed only if `why_unknown` finds no reason why the target may not have covered
    it. `scope` limits the plan to these paths and those below them. Raises ContentInTheWay if a path of the target
    requires replacing content outside the scope.
    """
    kept: list[Kept] = []
    actions = _actions_for_wanted_changes(_mark_changes_in_scope(changes, scope), why_unknown, kept)
    return _without_nonempty_removals(sort_and_pack(actions), kept)


def _actions_for_wanted_changes(changes: Iterable[tuple[Change, bool]], why_unknown: Captured, kept: list[Kept]) -> Iterator[Action]:
    """Yield the actions of the chosen changes; add paths to leave unchanged to `kept`."""
    instead: dict[bytes, str] = {}  # kinds that replace present directories; the directories' contents come later
    for change, is_chosen in changes:
        path = change.path
        if change.new is not None and change.new.kind != DIR:
            if change.old is not None and change.old.kind == DIR:
                instead[path] = change.new.kind
            if is_chosen and change.new.kind == PURGED:
                kept.append(Kept(path, "purged: its bytes were removed from the store", benign=False))
                continue
        if not is_chosen:
            continue
        if change.new is not None:
            yield Action(path, change.old, change.new, path)
        elif change.old is not None:
            above = next((instead[parent] for parent in paths.parents(path) if parent in instead), "") if instead else ""
            reason = None if above else why_unknown(path, change.old)
            if above == PURGED:
                kept.append(Kept(path, "what the checkpoint had in its place was purged", benign=False))
            elif reason is None:
                yield Action(path, change.old, None, path)
            else:
                kept.append(Kept(path, reason, benign=True))


def _mark_changes_in_scope(changes: Iterable[Change], scope: Sequence[bytes]) -> Iterator[tuple[Change, bool]]:
    """Yield (change, True if the change is in scope)."""
    if not scope or b"" in scope:
        yield from ((change, True) for change in changes)
        return
    everything = {change.path: change for change in changes}
    path_scope = paths.PathScope(scope)
    chosen = {path: change for path, change in everything.items() if path_scope.covers(path)}
    for path in list(chosen):
        if chosen[path].new is None:
            continue
        for parent in paths.parents(path):
            above = everything.get(parent)
            if above is None or parent in chosen:
                continue
            if above.old is not None and above.old.kind != DIR:
                raise errors.ContentInTheWay(
                    f"{paths.lossy_text(parent)} is in the way of {paths.lossy_text(path)} and is not among the paths asked for",
                    "name it too, or move it away"
                )
            if above.old is None:
                chosen[parent] = above
    yield from ((change, path in chosen) for path, change in everything.items())


def _without_nonempty_removals(actions: Actions, kept: list[Kept]) -> Plan:
    above: dict[bytes, bool] = {}
    for item in kept:
        for parent in paths.parents(item.path):
            above.setdefault(parent, item.benign)
    going = ((parent, benign) for parent, benign in above.items() if (action := actions.get(parent)) and action.after is None)
    holding = {parent: Kept(parent, "holds kept paths", benign=benign) for parent, benign in going}
    return Plan(without(actions, holding), tuple(sorted({*kept, *holding.values()})))


def without(actions: Sequence[Action], left: Collection[bytes]) -> Actions:
    """The actions on paths that are not in `left`."""
    return sort_and_pack(action for action in actions if action.path not in left) if left else sort_and_pack(actions)


def with_modes(actions: Iterable[Action], modes: Mapping[bytes, int]) -> Actions:
    """The actions, with these modes for the new files at these paths."""

    def with_mode(action: Action) -> Action:
        mode = modes.get(action.path)
        return action if mode is None or action.after is None else action._replace(after=action.after._replace(mode=mode))

    return sort_and_pack(map(with_mode, actions))


def with_times(actions: Sequence[Action], chosen: Collection[bytes], now_ns: int) -> Sequence[Action]:
    """The actions, with this mtime for the new files at these paths."""

    def with_time(action: Action) -> Action:
        after = action.after
        return action if after is None or action.path not in chosen else action._replace(after=after._replace(mtime_ns=now_ns))

    return sort_and_pack(map(with_time, actions)) if chosen else actions


def keep_paths(plan: Plan, extra: Iterable[Kept]) -> Plan:
    """The plan without the actions on these paths, which are kept. Directories above them are not removed."""
    more = list(extra)
    return _without_nonempty_removals(without(plan.actions, {item.path for item in more}), [*plan.kept, *more])


def reverse(actions: Iterable[Action]) -> Actions:
    """The inverse actions, sorted by path."""
    return sort_and_pack(action.reversed() for action in actions)


def is_of_file(action: Action) -> bool:
    """True if a file or a link is on one side of the action, not only directories."""
    return any(entry is not None and entry.kind != DIR for entry in (action.before, action.after))


def content_differs(action: Action) -> bool:
    """True if the action writes bytes or a link target, not only a mode or a name."""
    before, after = action.before, action.after
    if after is None or after.kind == DIR:
        return False
    if before is None or before.kind != after.kind:
        return True
    return before.target != after.target if after.kind == LINK else before.digest != after.digest


_BATCH_FILES, _BATCH_BYTES = 2000, 256 << 20


class Phases(NamedTuple):
    """The actions of a plan by kind of work; each list is in execution order. `opens`: directories that need owner
    permissions first. `makes`: directories. `writes`: new contents and links. `modes`: changes of a mode or a name's
    spelling. `removes`: files and links. `rmdirs`: directories. `dir_modes`: modes of the remaining directories."""

    opens: "ActionSelection"
    makes: "ActionSelection"
    writes: "ActionSelection"
    modes: "ActionSelection"
    removes: "ActionSelection"
    rmdirs: "ActionSelection"
    dir_modes: "ActionSelection"


class ActionSelection:
    """Some actions of a plan, stored by index and decoded on iteration."""

    __slots__ = ("_actions", "numbers")

    def __init__(self, actions: Sequence[Action]) -> None:
        """Starts empty."""
        self._actions, self.numbers = actions, list[int]()

    def __iter__(self) -> Iterator[Action]:
        return (self._actions[number] for number in self.numbers)

    def sort(self, *, deepest: bool) -> None:
        """Sort by depth, deepest first or last."""
        self.numbers.sort(key=lambda number: self._actions[number].path.count(b"/"), reverse=deepest)


def phases(actions: Sequence[Action]) -> Phases:
    """Sort the actions of a plan into phases."""
    found = Phases._make(ActionSelection(actions) for _ in Phases._fields)
    for number, action in enumerate(actions):
        before, after = action.before, action.after
        if forbids_owner_to_change_contents(action):
            found.opens.numbers.append(number)
        if after is None:
            (found.rmdirs if before is not None and before.kind == DIR else found.removes).numbers.append(number)
        elif after.kind == DIR:
            if before is None or before.kind != DIR:
                found.makes.numbers.append(number)
            elif action.source != action.path:
                found.modes.numbers.append(number)
            found.dir_modes.numbers.append(number)
        elif content_differs(action):
            found.writes.numbers.append(number)
        else:
            found.modes.numbers.append(number)
    for downwards in (found.opens, found.makes, found.modes):
        downwards.sort(deepest=False)
    for upwards in (found.rmdirs, found.dir_modes):
        upwards.sort(deepest=True)
    return found


def forbids_owner_to_change_contents(action: Action) -> bool:
    """True for a directory with a mode that forbids its owner to change the contents."""
    before = action.before
    return before is not None and before.kind == DIR and before.mode & stat.S_IRWXU != stat.S_IRWXU


def batches(writes: Iterable[Action]) -> Iterator[list[Action]]:
    """Yield groups of writes that are staged, synced and renamed together: bounded space, one sync for many files."""
    batch: list[Action] = []
    size = 0
    for action in writes:
        batch.append(action)
        size += action.after.size if action.after is not None else 0
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_PLAN = struct.Struct("<4sI")  # magic, number of actions
_ACTION = struct.Struct("<BI")  # bits, length of the path
_LENGTH = struct.Struct("<I")
_START = struct.Struct("=Q")
_HAS_BEFORE, _HAS_AFTER, _HAS_SOURCE = 1, 2, 4
_MOST_HELD = 10_000
"""Actions of a plan that are held decoded: about 8 MB. A restore goes over its plan some fifteen times."""


def sort_and_pack(actions: Iterable[Action]) -> Actions:
    """These actions sorted by path. Sorted input, the usual case, is not held in memory twice."""
    found = actions if isinstance(actions, Actions) else _pack(actions)
    return found if found.in_order else _pack(sorted(found, key=lambda action: action.path))


def _pack(actions: Iterable[Action]) -> Actions:
    encoded, starts = io.BytesIO(), bytearray()  # BytesIO returns its bytes without a copy
    encoded.write(bytes(_PLAN.size))
    left = iter(actions)
    held = list(islice(left, _MOST_HELD))
    last, in_order = b"", True
    for action in chain(held, left):
        in_order, last = in_order and last <= action.path, action.path
        starts += _START.pack(encoded.tell())
        encoded.write(_encode_action(action))
    encoded.seek(0)
    encoded.write(_PLAN.pack(MAGIC, len(starts) // _START.size))
    return Actions(encoded.getvalue(), bytes(starts), held, in_order=in_order)


def encode(actions: Iterable[Action]) -> bytes:
    """The actions as bytes, for journals and the undo history."""
    return (actions if isinstance(actions, Actions) else _pack(actions)).data


def _encode_action(action: Action) -> bytes:
    path, before, after, source = action
    data = _ACTION.pack(
        (_HAS_BEFORE if before is not None else 0) | (_HAS_AFTER if after is not None else 0) | (_HAS_SOURCE if source != path else 0),
        len(path),
    ) + path  # fmt: skip
    if source != path:
        data += _LENGTH.pack(len(source)) + source
    if before is not None:
        data += encode_entry(b"", before)
    return data + encode_entry(b"", after) if after is not None else data


def decode(data: bytes) -> Actions:
    """The actions in these bytes. Raises ManifestCorrupt, or UnsafePath for a path that may not be changed."""
    if data[:4] != MAGIC or len(data) < _PLAN.size:
        raise errors.ManifestCorrupt("damaged plan: not a plan", "run casrewind verify")
    _, count = _PLAN.unpack_from(data)
    position, starts = _PLAN.size, bytearray()
    held: list[Action] = []
    last, in_order = b"", True
    try:
        for _ in range(count):
            starts += _START.pack(position)
            action, position = _decode_action(data, position)
            if count <= _MOST_HELD:
                held.append(action)
            in_order, last = in_order and last <= action.path, action.path
            is_same = paths.check_path(action.path) == action.source
            if not is_same and paths.case_folded_key(paths.check_path(action.source)) != paths.case_folded_key(action.path):
                raise errors.ManifestCorrupt("damaged plan: a path and its source do not match", "run casrewind verify")
    except (struct.error, IndexError) as error:
        raise errors.ManifestCorrupt("damaged plan: cut short", "run casrewind verify") from error
    if position != len(data):
        raise errors.ManifestCorrupt("damaged plan: bytes after the last action", "run casrewind verify")
    return Actions(data, bytes(starts), held, in_order=in_order)


def _decode_action(data: bytes, position: int) -> tuple[Action, int]:
    bits = data[position]
    if bits & ~(_HAS_BEFORE | _HAS_AFTER | _HAS_SOURCE):
        raise errors.ManifestCorrupt(f"damaged plan: unknown bits {bits}", "run casrewind verify")
    path, position = _decode_path(data, position + 1)
    source = path
    if bits & _HAS_SOURCE:
        source, position = _decode_path(data, position)
    before = after = None
    if bits & _HAS_BEFORE:
        before, position = _decode_entry(data, position)
    if bits & _HAS_AFTER:
        after, position = _decode_entry(data, position)
    return Action(path, before, after, source), position


def _decode_entry(data: bytes, position: int) -> tuple[Entry, int]:
    name, entry, position = decode_entry(data, position)
    if name or entry.kind == PURGED:
        raise errors.ManifestCorrupt("damaged plan: an entry with a name, or without bytes", "run casrewind verify")
    return entry, position


def _decode_path(data: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(data, position)
    path = data[position + 4 : position + 4 + length]
    if len(path) != length:
        raise errors.ManifestCorrupt("damaged plan: cut short", "run casrewind verify")
    return path, position + 4 + length
