"""A plan: what a restore will do, as a value. Building one reads nothing and changes nothing.

The danger prevented here: a restore that deletes what it never knew, or that meets the reason to stop when half of the
work is done. Every refusal and every path that will be left alone is decided before the first change.
"""

import struct
from collections.abc import Callable, Iterable, Sequence

from .. import errors
from ..typed import NamedTuple
from . import paths
from .diff import Change
from .manifest import DIR, LINK, PURGED, Entry, decode_entry, encode_entry

MAGIC = b"CRP1"


class Action(NamedTuple):
    """One path that a restore changes: from entry `before` (None = absent) to entry `after` (None = absent).

    `source` is the path where `before` stands now: another spelling of `path` on a file system that folds names,
    otherwise `path` itself.
    """

    path: bytes
    before: Entry | None
    after: Entry | None
    source: bytes

    def reversed(self) -> "Action":
        """The action that takes this one back."""
        return Action(self.source, self.after, self.before, self.path)


class Kept(NamedTuple):
    """A path that is left as it is, and why. `benign` when that is by design and not something left undone."""

    path: bytes
    reason: str
    benign: bool


class Plan(NamedTuple):
    """The actions, sorted by path, and the paths that are left alone."""

    actions: tuple[Action, ...]
    kept: tuple[Kept, ...]


Captured = Callable[[bytes, Entry], str | None]
"""Would the target have captured this path, had it existed then? None = yes; else the reason why not."""


def build(changes: Iterable[Change], why_unknown: Captured, scope: Sequence[bytes] = ()) -> Plan:
    """The plan that makes the present (the changes' old side) into the target (their new side).

    A path that is not in the target is removed only if `why_unknown` finds no reason why the target may not have known
    of it. `scope` limits the plan to these paths and what lies under them. Raises ContentInTheWay when a path of the
    target needs, outside the scope, something else to be replaced.
    """
    everything = {change.path: change for change in changes}
    chosen = _in_scope(everything, scope)
    actions: dict[bytes, Action] = {}
    kept: list[Kept] = []
    for path, change in chosen.items():
        if change.new is not None:
            if change.new.kind == PURGED:
                kept.append(Kept(path, "purged: its bytes were removed from the store", benign=False))
            else:
                actions[path] = Action(path, change.old, change.new, path)
        elif change.old is not None:
            reason = None if (above := _in_its_place(path, everything)) else why_unknown(path, change.old)
            if above == PURGED:
                kept.append(Kept(path, "what the checkpoint had in its place was purged", benign=False))
            elif reason is None:
                actions[path] = Action(path, change.old, None, path)
            else:
                kept.append(Kept(path, reason, benign=True))
    _keep_parents(actions, kept)
    return Plan(tuple(sorted(actions.values(), key=lambda action: action.path)), tuple(sorted(kept)))


def _in_scope(everything: dict[bytes, Change], scope: Sequence[bytes]) -> dict[bytes, Change]:
    if not scope or b"" in scope:
        return everything
    places = paths.Places(scope)
    chosen = {path: change for path, change in everything.items() if places.cover(path)}
    for path in list(chosen):
        if chosen[path].new is None:
            continue
        for parent in paths.parents(path):
            above = everything.get(parent)
            if above is None or parent in chosen:
                continue
            if above.old is not None and above.old.kind != DIR:
                raise errors.ContentInTheWay(
                    f"{paths.display(parent)} is in the way of {paths.display(path)} and is not among the paths asked "
                    f"for: name it too, or move it away"
                )
            if above.old is None:
                chosen[parent] = above
    return chosen


def _in_its_place(path: bytes, everything: dict[bytes, Change]) -> str:
    """What the target has above `path` instead of a directory, so that nothing could have been there then; "" = nothing."""
    for parent in paths.parents(path):
        above = everything.get(parent)
        if above is not None and above.new is not None and above.new.kind != DIR:
            return above.new.kind
    return ""


def _keep_parents(actions: dict[bytes, Action], kept: list[Kept]) -> None:
    """A directory that still holds a kept path is not removed."""
    for item in list(kept):
        for parent in paths.parents(item.path):
            action = actions.get(parent)
            if action is not None and action.after is None:
                del actions[parent]
                kept.append(Kept(parent, "holds kept paths", benign=item.benign))


def keep(plan: Plan, extra: Iterable[Kept]) -> Plan:
    """The plan without the actions on some paths, which are kept instead; directories above them stay too."""
    actions = {action.path: action for action in plan.actions}
    kept = list(plan.kept)
    for item in extra:
        actions.pop(item.path, None)
        kept.append(item)
    _keep_parents(actions, kept)
    return Plan(tuple(sorted(actions.values(), key=lambda action: action.path)), tuple(sorted(set(kept))))


def fold(plan: Plan, target_paths: Iterable[bytes]) -> Plan:
    """The same plan on a file system that folds case and normalisation.

    There, the path that goes and the path that comes may be one and the same file: such a pair becomes a rename.
    `target_paths` are all paths of the target; two that fold together cannot both exist and are refused (UnsafePath).
    """
    seen: dict[str, bytes] = {}
    for path in target_paths:
        other = seen.setdefault(paths.fold(path), path)
        if other != path:
            raise errors.UnsafePath(
                f"{paths.display(other)} and {paths.display(path)} are the same name on this file system: restore them "
                f"elsewhere with --to DIR, or one of them by its path"
            )
    removals = {paths.fold(action.path): action for action in plan.actions if action.after is None}
    actions = []
    merged: set[bytes] = set()
    for action in plan.actions:
        twin = removals.get(paths.fold(action.path)) if action.after is not None and action.before is None else None
        if twin is not None:
            merged.add(twin.path)
            action = Action(action.path, twin.before, action.after, twin.path)
        actions.append(action)
    return Plan(tuple(action for action in actions if action.path not in merged), plan.kept)


def reverse(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions that take these back, sorted by path."""
    return tuple(sorted((action.reversed() for action in actions), key=lambda action: action.path))


def content_differs(action: Action) -> bool:
    """True when the action has to put bytes or a link target in place, not only a mode or a name."""
    before, after = action.before, action.after
    if after is None or after.kind == DIR:
        return False
    if before is None or before.kind != after.kind:
        return True
    return before.target != after.target if after.kind == LINK else before.digest != after.digest


_ACTION = struct.Struct("<B")
_HAS_BEFORE, _HAS_AFTER, _HAS_SOURCE = 1, 2, 4


def encode(actions: Sequence[Action]) -> bytes:
    """The actions as bytes: what a journal and the undo history keep."""
    told = bytearray(MAGIC + struct.pack("<I", len(actions)))
    for action in actions:
        moved = action.source != action.path
        bits = (
            (_HAS_BEFORE if action.before is not None else 0)
            | (_HAS_AFTER if action.after is not None else 0)
            | (_HAS_SOURCE if moved else 0)
        )
        told += _ACTION.pack(bits) + struct.pack("<I", len(action.path)) + action.path
        if moved:
            told += struct.pack("<I", len(action.source)) + action.source
        for entry in (action.before, action.after):
            if entry is not None:
                told += encode_entry(b"", entry)
    return bytes(told)


def decode(data: bytes) -> tuple[Action, ...]:
    """The actions in these bytes; raises ManifestCorrupt, or UnsafePath for a path that may not be touched."""
    if data[:4] != MAGIC or len(data) < 8:
        raise errors.ManifestCorrupt("damaged plan: no plan; run casrewind verify")
    actions = []
    (count,) = struct.unpack_from("<I", data, 4)
    position = 8
    try:
        for _ in range(count):
            (bits,) = _ACTION.unpack_from(data, position)
            if bits & ~(_HAS_BEFORE | _HAS_AFTER | _HAS_SOURCE):
                raise errors.ManifestCorrupt(f"damaged plan: unknown bits {bits}; run casrewind verify")
            path, position = _path(data, position + 1)
            source, position = _path(data, position) if bits & _HAS_SOURCE else (path, position)
            if paths.fold(source) != paths.fold(path):
                raise errors.ManifestCorrupt("damaged plan: a path comes from another one; run casrewind verify")
            before = after = None
            if bits & _HAS_BEFORE:
                before, position = _entry(data, position)
            if bits & _HAS_AFTER:
                after, position = _entry(data, position)
            actions.append(Action(path, before, after, source))
    except struct.error as error:
        raise errors.ManifestCorrupt("damaged plan: cut short; run casrewind verify") from error
    if position != len(data):
        raise errors.ManifestCorrupt("damaged plan: bytes after the last action; run casrewind verify")
    return tuple(actions)


def _entry(data: bytes, position: int) -> tuple[Entry, int]:
    name, entry, position = decode_entry(data, position)
    if name or entry.kind == PURGED:
        raise errors.ManifestCorrupt("damaged plan: an entry with a name, or without bytes; run casrewind verify")
    return entry, position


def _path(data: bytes, position: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<I", data, position)
    path = data[position + 4 : position + 4 + length]
    if len(path) != length:
        raise errors.ManifestCorrupt("damaged plan: cut short; run casrewind verify")
    return paths.check(path), position + 4 + length
