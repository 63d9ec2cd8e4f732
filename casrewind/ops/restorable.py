"""The target of a restore: what of a checkpoint can be had, and which paths it speaks for.

The dangers prevented here: one flipped bit that costs the whole undo; a restore that deletes a directory because the tree that
lists it cannot be read; and one that deletes what its target never spoke for. Where a tree is damaged the worktree stays as
it is. Bytes that have their digest and are no tree, or no tree that a save would write, are not damage but forgery: they are
refused as a whole. What a checkpoint would have known of is decided by what it recorded, never by today's rules: `.gitignore`
changes between checkpoints, files grow over a limit, a directory could not be read; none of that makes a path "absent then".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from .. import errors
from .._typing import NamedTuple
from ..gitignore.rules import RuleFile, RuleSet, ScanOptions
from ..model import domain as domains
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.domain import Domain, RuleRef
from ..model.manifest import DIR, FILE, Entry, Loader
from ..model.plan import Captured, Kept
from ..store import packs
from ..store.store import Store

_BYTES, _LINES = 64 << 20, 1_000_000
"""Of all rule files of a checkpoint: more take minutes and gigabytes to understand."""


class ReadableTarget(NamedTuple):
    """A target without what cannot be read of it: its root `tree`, every path that it names (None: nobody asked), and what
    was `lost`."""

    tree: bytes
    named: tuple[bytes, ...] | None
    lost: tuple[Kept, ...]


NOTHING = ReadableTarget(b"", (), ())


def survey(load: Loader, root: bytes, lost: list[Kept]) -> Iterator[tuple[bytes, Entry]]:
    """Every path and entry of a manifest that can be had; the directories whose trees are damaged go into `lost`.

    Raises StoreDamaged when nothing can be had: when the root's own tree is damaged.
    """
    bound = manifest.PathLimit(load, root)
    stack: list[tuple[bytes, bytes]] = [(b"", root)]
    while stack:
        place, digest = stack.pop()
        if place.count(b"/") >= paths.MAX_DEPTH:
            raise errors.ManifestRefused(f"more than {paths.MAX_DEPTH} levels", (root,))
        bound.visit(digest)
        try:
            rows = manifest.entries(load, digest)
        except (errors.BlobMissing, errors.BlobCorrupt) as error:
            if not place:
                raise
            lost.append(Kept(place, f"its tree is damaged in the store: {error}", benign=False))
            continue
        for name, entry in rows:
            path = paths.join(place, name)
            yield path, entry
            if entry.kind == DIR:
                stack.append((path, entry.digest))


def _is_whole(load: Loader, root: bytes, now: bytes) -> bool:
    """Whether every tree of a manifest can be had that the manifest `now` does not have in the same place, and what that has there."""
    stack: list[tuple[bytes, bytes | None, int]] = [(root, now, 0)]
    seen: set[int] = set()
    try:
        while stack:
            digest, other, depth = stack.pop()
            if depth > paths.MAX_DEPTH:
                raise errors.ManifestRefused(f"more than {paths.MAX_DEPTH} levels", (root,))
            if digest != other and hash((digest, other)) not in seen:
                seen.add(hash((digest, other)))
                rows, others = (manifest.entries(load, digest), ()) if other is None else manifest.differing(load, digest, other)
                there = {name: entry.digest for name, entry in others if entry.kind == DIR}
                stack += [(entry.digest, there.get(name), depth + 1) for name, entry in rows if entry.kind == DIR]
    except (errors.BlobMissing, errors.BlobCorrupt):
        return False
    return True


def sound(load: Loader, put: Callable[[bytes], bytes], target: bytes, now: bytes, *, names: bool) -> ReadableTarget:
    """The manifest `target` where, for each directory whose tree is damaged, stands what the manifest `now` has there.

    Unless the `names` of all its paths are wanted, or something is lost, trees that both have are not read: nothing in
    these directories has to be restored. Raises StoreDamaged when nothing can be had: when the root's own tree is damaged.
    """
    lost: list[Kept] = []
    if not names and _is_whole(load, target, now):
        return ReadableTarget(target, None, ())
    named = tuple(path for path, _ in survey(load, target, lost))
    if not lost:
        return ReadableTarget(target, named, ())
    finder = manifest.Finder(load, now)
    tree = _graft(load, put, target, {item.path: finder.find(item.path) for item in lost})
    return ReadableTarget(tree, named, tuple(lost))


def _graft(
    load: Loader, store: Callable[[bytes], bytes], root: bytes, changes: Mapping[bytes, Entry | None]
) -> bytes:
    """As manifest.patch, but an entry comes as it is: a directory with the tree that it names. The trees that are replaced are
    not looked into; none of the paths may lie under another one."""
    finder = manifest.Finder(load, root)
    made = dict(changes)
    pending = {path.rpartition(b"/")[0] for path in changes}
    while True:
        place = max(pending, key=lambda path: path.count(b"/") + (path != b""))  # deepest first, the root last
        pending.discard(place)
        rows = dict(finder.directory(place))
        for path, entry in made.items():
            parent, _, name = path.rpartition(b"/")
            if parent == place and entry is None:
                rows.pop(name, None)
            elif parent == place and entry is not None and path:
                rows[name] = entry
        digest = store(manifest.encode_tree(rows.items()))
        here = finder.find(place) if place else None
        if here is None:
            return digest
        made[place] = here._replace(digest=digest)
        pending.add(place.rpartition(b"/")[0])


class Coverage:
    """What one checkpoint would have captured."""

    def __init__(self, store: Store, domain: Domain) -> None:
        """`store` gives the bytes of the recorded rule files."""
        self._domain = domain
        files = list(_rule_files(store, domain.rules))
        self._rules = RuleSet(files, ignore_case=domain.ignore_case, default_excludes=domain.default_excludes)
        self._skipped = {rule.base: "ignore rules that are not stored" for rule in domain.unstored}
        for skip in domain.skipped:
            kind = domains.kind_of(skip.reason)
            if kind == domains.UNREADABLE_RULES:
                self._skipped[_base_of(skip.path)] = kind
            elif kind != domains.SETTINGS:  # of such a file everything is known but what the project asked for
                self._skipped[skip.path] = kind

    def why_not(self, path: bytes, entry: Entry) -> str | None:
        """The reason why the checkpoint may not have known of `path`, had it existed then as `entry`; None = it would."""
        for place in (path, *reversed(paths.parents(path)), b""):
            reason = self._skipped.get(place)
            if reason is not None:
                return f"not known to the checkpoint: {reason} then"
        if entry.kind == FILE and entry.size > self._domain.max_file_size:
            return "not known to the checkpoint: larger than what it captured"
        if not self._rules.captured(path, entry.kind == DIR):
            return "not known to the checkpoint: ignored by its rules"
        return None


class RecordedPaths(NamedTuple):
    """What a checkpoint says of paths: `why_not(path, entry)` is why it may not have known of one, None when it would have;
    `unstable` were changing while they were saved, `late` were stored as they were after its moment. `lost`: what of this is
    damaged."""

    why_not: Captured
    unstable: tuple[bytes, ...] = ()
    late: tuple[bytes, ...] = ()
    lost: tuple[Kept, ...] = ()


def recorded(store: Store, point: Checkpoint) -> RecordedPaths:
    """What a checkpoint says of paths. Where that is damaged it knows of none, so that nothing is deleted."""
    try:
        domain = store.domain(point.domain)
        return RecordedPaths(Coverage(store, domain).why_not, domain.unstable, domain.late)
    except (errors.BlobMissing, errors.BlobCorrupt) as error:
        why = f"nothing is deleted: which paths it speaks for is damaged in the store: {error}"
        return RecordedPaths(_nothing_is_known, lost=(Kept(b".", why, benign=False),))


def _nothing_is_known(_path: bytes, _entry: Entry) -> str:
    return "not known to the checkpoint: what it speaks for is damaged in the store"


def with_recorded_rules(store: Store, worktree: bytes, options: ScanOptions) -> ScanOptions:
    """Options of a scan where the project's own file cannot be read, with the rules that the newest checkpoint recorded of it."""
    newest = store.head(worktree)
    try:
        rules = () if newest is None else store.domain(newest.domain).rules
        found = list(_rule_files(store, (rule for rule in rules if rule.source == "project")))
    except (errors.BlobMissing, errors.BlobCorrupt):
        return options  # more is captured, and nothing is deleted
    return options._replace(outside=(*options.outside, *found))


def _base_of(path: bytes) -> bytes:
    """The directory that the rules of a rule file are relative to. What git keeps in `.git` speaks of the whole worktree."""
    return b"" if path.startswith(b".git/") else path.rpartition(b"/")[0]


def _rule_files(store: Store, rules: Iterable[RuleRef]) -> Iterator[RuleFile]:
    read = cache(store.read)  # a thousand directories may have the same rules
    size = count = 0
    for rule in rules:
        data = read(rule.digest, packs.RULES)
        size, count = size + len(data), count + data.count(b"\n")
        if size > _BYTES or count > _LINES:  # a domain may name the same bytes any number of times
            raise errors.BlobCorrupt(f"refused rules of a checkpoint: {size:,} bytes and {count:,} lines are more than rule files have")
        yield RuleFile(rule.base, rule.source, data)


@contextmanager
def naming(store: Store) -> Iterator[None]:
    """Raise ManifestRefused with the id of the checkpoint in it."""
    try:
        yield
    except errors.ManifestRefused as error:
        found = next((point.id for point, _ in store.checkpoints() if point.tree in error.roots), "")
        raise errors.ManifestRefused(error.why, error.roots, found) from error


def entries(store: Store, tree: bytes) -> Iterator[tuple[bytes, Entry]]:
    """As manifest.walk."""
    with naming(store):
        yield from manifest.walk(store.load_tree, tree)
