"""What differs between two manifests, found by visiting only the trees that differ."""

from collections.abc import Iterator

from .. import errors
from ..typed import NamedTuple
from .manifest import DIR, Entry, Loader, Tree, same
from .paths import MAX_DEPTH, join

ADDED, MODIFIED, REMOVED, TYPE = "added", "modified", "removed", "type"


class Change(NamedTuple):
    """One path that differs: its old and new entry, None where it does not exist."""

    path: bytes
    old: Entry | None
    new: Entry | None

    @property
    def status(self) -> str:
        """"added", "removed", "type" (another kind of thing) or "modified"."""
        if self.old is None:
            return ADDED
        if self.new is None:
            return REMOVED
        return MODIFIED if self.old.kind == self.new.kind else TYPE


class Counts(NamedTuple):
    """How many paths were added, modified (a change of type counts here) and removed."""

    added: int
    modified: int
    removed: int


def diff(load: Loader, old: bytes | None, new: bytes | None) -> Iterator[Change]:
    """The changes from manifest `old` to manifest `new` (root digests; None = nothing at all), in no special order."""
    stack: list[tuple[bytes, bytes | None, bytes | None]] = [(b"", old, new)]
    while stack:
        prefix, old_tree, new_tree = stack.pop()
        if old_tree == new_tree:
            continue
        if prefix.count(b"/") >= MAX_DEPTH:
            raise errors.UnsafePath(f"refused manifest: more than {MAX_DEPTH} levels")
        before: Tree = load(old_tree) if old_tree is not None else []
        after = dict(load(new_tree)) if new_tree is not None else {}
        for name, was in before:
            now = after.pop(name, None)
            if was == now:
                continue
            path = join(prefix, name)
            if not same(was, now):
                yield Change(path, was, now)
            below_old = was.digest if was.kind == DIR else None
            below_new = now.digest if now is not None and now.kind == DIR else None
            if below_old != below_new:
                stack.append((path, below_old, below_new))
        for name, now in after.items():
            path = join(prefix, name)
            yield Change(path, None, now)
            if now.kind == DIR:
                stack.append((path, None, now.digest))


def lenient(load: Loader) -> Loader:
    """A loader for counting only: a directory whose tree is damaged has nothing in it.

    What is counted against is an older checkpoint: if its damage stopped the next one, nothing could ever be saved again.
    """

    def work(digest: bytes) -> Tree:
        try:
            return load(digest)
        except (errors.BlobMissing, errors.BlobCorrupt):
            return []

    return work


def count(changes: Iterator[Change] | list[Change]) -> Counts:
    """Count changes by what happened."""
    added = modified = removed = 0
    for change in changes:
        if change.old is None:
            added += 1
        elif change.new is None:
            removed += 1
        else:
            modified += 1
    return Counts(added, modified, removed)
