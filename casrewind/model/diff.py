"""Differences between two manifests. Visits only trees that differ, and in large directories only nodes that differ.

The danger prevented here: a path that one side did not capture is taken for one that was made or removed (`split_unclear`).
"""

from collections.abc import Callable, Iterable, Iterator
from operator import is_

from .. import errors
from .._typing import NamedTuple
from .manifest import DIR, PURGED, Entry, Loader, PathLimit, differing_entries, same_for_restore
from .paths import MAX_DEPTH, parents

TYPE_CHECKING = False
if TYPE_CHECKING:  # a diff of small directories does not need it
    from .directory_nodes import NodeList
    from .manifest import Tree

ADDED, MODIFIED, REMOVED, TYPE = "added", "modified", "removed", "type"


class Change(NamedTuple):
    """One path that differs: its old and new entry, None where the path does not exist."""

    path: bytes
    old: Entry | None
    new: Entry | None

    @property
    def status(self) -> str:
        """"added", "removed", "type" (the kind changed) or "modified"."""
        if self.old is None:
            return ADDED
        if self.new is None:
            return REMOVED
        return MODIFIED if self.old.kind == self.new.kind else TYPE


class Counts(NamedTuple):
    """Numbers of counted changes: added, modified (including changes of type) and removed."""

    added: int
    modified: int
    removed: int


def diff(load: Loader, old: bytes | None, new: bytes | None) -> Iterator[Change]:
    """Yield the changes from manifest `old` to manifest `new` (root digests; None = no manifest), sorted by path.
    Raises ManifestRefused as manifest.walk."""
    # Contents of a/ sort as "a/", after "a" and "a-" and before "b": one order fits both.
    bound = PathLimit(load, old, new)
    stack: list[tuple[bytes, Change | None, bytes | None, bytes | None]] = [(b"", None, old, new)]
    while stack:
        place, change, old_tree, new_tree = stack.pop()
        if change is not None:
            yield change
            continue
        if old_tree == new_tree:
            continue
        if place.count(b"/") > MAX_DEPTH:
            raise errors.ManifestRefused(f"more than {MAX_DEPTH} levels", tuple(root for root in (old, new) if root is not None))
        bound.count_or_refuse(old_tree, new_tree)
        before, rows = differing_entries(load, old_tree, new_tree)
        equal = [*map(is_, before, rows), False].index(False)  # rows that are one object in both, from the start
        after = dict(rows[equal:])
        start = len(stack)
        for name, was in before[equal:]:
            now = after.pop(name, None)
            if was == now:
                continue
            path = place + name
            if not same_for_restore(was, now):
                stack.append((path, Change(path, was, now), None, None))
            below_old = was.digest if was.kind == DIR else None
            below_new = now.digest if now is not None and now.kind == DIR else None
            if below_old != below_new:
                stack.append((path + b"/", None, below_old, below_new))
        for name, now in after.items():
            path = place + name
            stack.append((path, Change(path, None, now), None, None))
            if now.kind == DIR:
                stack.append((path + b"/", None, None, now.digest))
        stack[start:] = sorted(stack[start:], reverse=True)


Captured = Callable[[bytes, Entry], str | None]
"""Returns None if a side would have captured this path, had it existed there as this entry; else the reason why not."""


def split_unclear(changes: Iterable[Change], old: Captured, new: Captured) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Returns (the known changes, the unclear ones). `changes` are sorted by path, `old` and `new` judge the two sides.

    An unclear change is an addition to a side from one that did not capture the path, or the reverse. The path may have
    existed on both sides. Below a directory that is known to have been absent, every path was absent.
    """
    known: list[Change] = []
    unclear: list[Change] = []
    absent: set[bytes] = set()  # directories that one side has, and that the other side is known to lack
    doubtful: set[bytes] = set()
    for change in changes:
        path, before, after = change
        entry = before if after is None else after if before is None else None
        if entry is None:
            kinds = {one.kind for one in (before, after) if one is not None}
            if len(kinds) == 2 and DIR in kinds and PURGED not in kinds:
                absent.add(path)  # a file is in place of the directory
            known.append(change)
            continue
        above = path.rpartition(b"/")[0]
        is_known = above in absent or (above not in doubtful and (old if before is None else new)(path, entry) is None)
        (known if is_known else unclear).append(change)
        if entry.kind == DIR:
            (absent if is_known else doubtful).add(path)
    return tuple(known), tuple(unclear)


def topmost_unclear(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The unclear changes without those below a directory that is among them. They are sorted by path."""
    found: list[Change] = []
    directories: set[bytes] = set()
    for change in changes:
        entry = change.new or change.old
        if entry is not None and entry.kind == DIR:
            directories.add(change.path)
        if change.path.rpartition(b"/")[0] not in directories:
            found.append(change)
    return tuple(found)


def loader_with_damaged_trees_empty(load: Loader) -> Loader:
    """A loader for counting only: a damaged tree or node counts as empty. Damage of the previous
    checkpoint must not block all later saves."""

    def work(digest: bytes) -> "Tree | NodeList":
        try:
            return load(digest)
        except (errors.BlobMissing, errors.BlobCorrupt):
            from .directory_nodes import LOST

            return LOST

    return work


def counted_changes(changes: Iterable[Change]) -> list[Change]:
    """The changes that are counted and shown, sorted by path. A directory that comes or goes with its files is not counted.
    Of empty directories in each other, the topmost one counts."""
    return sorted(_with_empty_directories_last(changes))


def _with_empty_directories_last(changes: Iterable[Change]) -> Iterator[Change]:
    """The same, with empty directories last: of a million files only the directories are remembered."""
    directories: list[Change] = []  # that come or go
    whole: set[tuple[bool, bytes]] = set()  # (True if it comes, a directory)
    holding: set[bytes] = set()  # directories with a change below them
    for change in changes:
        was, is_now = (entry is not None and entry.kind == DIR for entry in (change.old, change.new))
        if was != is_now:
            whole.add((is_now, change.path))
        if was != is_now and None in (change.old, change.new):
            directories.append(change)
            continue
        yield change
        place = change.path.rpartition(b"/")[0]
        while place and place not in holding:
            holding.add(place)
            place = place.rpartition(b"/")[0]
    for change in directories:
        comes = change.old is None
        if change.path not in holding and not any((comes, above) in whole for above in parents(change.path)):
            yield change


def count(changes: Iterable[Change]) -> Counts:
    """The numbers of counted changes. If a manifest is refused, return the count so far, so that a save does not fail."""
    added = modified = removed = 0
    try:
        for change in _with_empty_directories_last(changes):
            if change.old is None:
                added += 1
            elif change.new is None:
                removed += 1
            else:
                modified += 1
    except errors.ManifestRefused:
        pass
    return Counts(added, modified, removed)
