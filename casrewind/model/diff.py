"""Differences between two manifests. Visits only trees that differ, and in large directories only nodes that differ."""

from collections.abc import Iterator

from .. import errors
from .._typing import NamedTuple
from .manifest import DIR, Entry, Loader, PathLimit, differing, same
from .paths import MAX_DEPTH

TYPE_CHECKING = False
if TYPE_CHECKING:  # a diff of small directories does not need it
    from .manifest import Tree
    from .tree_nodes import NodeList

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
    """Numbers of paths added, modified (including changes of type) and removed."""

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
        bound.visit(old_tree, new_tree)
        before, rows = differing(load, old_tree, new_tree)
        after = dict(rows)
        start = len(stack)
        for name, was in before:
            now = after.pop(name, None)
            if was == now:
                continue
            path = place + name
            if not same(was, now):
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


def lenient(load: Loader) -> Loader:
    """A loader for counting only: a damaged tree or node counts as empty. Damage of the previous
    checkpoint must not block all later saves."""

    def work(digest: bytes) -> "Tree | NodeList":
        try:
            return load(digest)
        except (errors.BlobMissing, errors.BlobCorrupt):
            from .tree_nodes import LOST

            return LOST

    return work


def count(changes: Iterator[Change] | list[Change]) -> Counts:
    """Count the changes. If a manifest is refused, return the count so far, so that a save does not fail."""
    added = modified = removed = 0
    try:
        for change in changes:
            if change.old is None:
                added += 1
            elif change.new is None:
                removed += 1
            else:
                modified += 1
    except errors.ManifestRefused:
        pass
    return Counts(added, modified, removed)
