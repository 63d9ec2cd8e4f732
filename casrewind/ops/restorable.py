"""The target of a restore: its readable part, and the paths that it covers.

The dangers prevented here: one flipped bit makes the whole undo impossible. A restore deletes a directory because its
tree is unreadable. A restore deletes a path that its target never covered. So below a damaged tree nothing is changed.
A blob with the right digest that no save would write is not damage but forgery, and the whole restore is refused.

Coverage depends only on what the checkpoint recorded, never on today's rules. `.gitignore` changes, files outgrow a
limit, directories become unreadable: none of that means that a path was absent from the checkpoint.
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
"""Limits on all rule files of a checkpoint together: more would take minutes and gigabytes to compile."""


class ReadableTarget(NamedTuple):
    """A target without its unreadable parts: its root `tree`, its paths (`named`, None = not requested), and the `lost`
    directories."""

    tree: bytes
    named: tuple[bytes, ...] | None
    lost: tuple[Kept, ...]


NOTHING = ReadableTarget(b"", (), ())


def survey(load: Loader, root: bytes, lost: list[Kept]) -> Iterator[tuple[bytes, Entry]]:
    """Yield every readable path and entry of a manifest. Directories with damaged trees are added to `lost`. Raises
    StoreDamaged if the root's own tree is damaged."""
    return manifest.walk(
        load, root, lambda path, error: lost.append(Kept(path, f"its tree is damaged in the store: {error}", benign=False))
    )


def _is_whole(load: Loader, root: bytes, now: bytes) -> bool:
    """True if every tree of a manifest is readable. Skips trees that the manifest `now` has in the same place."""
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
    """The manifest `target`, with each damaged directory replaced by what the manifest `now` has there.

    Trees that both manifests share are not read, because they do not change, unless `names` requests all paths or
    something is lost. Raises StoreDamaged if the root's own tree is damaged.
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
    """Like manifest.patch, but an entry is inserted as it is: a directory with its tree. Replaced trees are not read.
    No path may lie below another."""
    finder = manifest.Finder(load, root)
    made = dict(changes)
    pending = {path.rpartition(b"/")[0] for path in changes}
    while True:
        directory = max(pending, key=lambda path: path.count(b"/") + (path != b""))  # deepest first, the root last
        pending.discard(directory)
        rows = dict(finder.directory(directory))
        for path, entry in made.items():
            parent, _, name = path.rpartition(b"/")
            if parent == directory and entry is None:
                rows.pop(name, None)
            elif parent == directory and entry is not None and path:
                rows[name] = entry
        digest = store(manifest.encode_tree(rows.items()))
        here = finder.find(directory) if directory else None
        if here is None:
            return digest
        made[directory] = here._replace(digest=digest)
        pending.add(directory.rpartition(b"/")[0])


class Coverage:
    """Decides whether one checkpoint would have captured a path."""

    def __init__(self, store: Store, domain: Domain) -> None:
        """`store` provides the recorded rule files."""
        self._domain = domain
        files = list(_rule_files(store, domain.rules))
        self._rules = RuleSet(files, ignore_case=domain.ignore_case, default_excludes=domain.default_excludes)
        self._skipped = {rule.base: "ignore rules that are not stored" for rule in domain.unstored}
        for skip in domain.skipped:
            kind = domains.kind_of(skip.reason)
            if kind == domains.UNREADABLE_RULES:
                self._skipped[_base_of(skip.path)] = kind
            elif kind != domains.SETTINGS:  # of such a file, only the project's own settings are unknown
                self._skipped[skip.path] = kind

    def why_not(self, path: bytes, entry: Entry) -> str | None:
        """Why the checkpoint may not have captured `path`, had it existed then as `entry`. None = it would have."""
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
    """What a checkpoint recorded about paths. `why_not(path, entry)`: why it may not have captured a path, or None.
    `unstable` paths were changing during the save; `late` paths changed after the checkpoint's time. `lost`: damage to
    this record."""

    why_not: Captured
    unstable: tuple[bytes, ...] = ()
    late: tuple[bytes, ...] = ()
    lost: tuple[Kept, ...] = ()


def recorded(store: Store, point: Checkpoint) -> RecordedPaths:
    """What a checkpoint recorded about paths. A damaged record covers no path, so that nothing is deleted."""
    try:
        domain = store.domain(point.domain)
        return RecordedPaths(Coverage(store, domain).why_not, domain.unstable, domain.late)
    except (errors.BlobMissing, errors.BlobCorrupt) as error:
        why = f"nothing is deleted: the record of the paths that it covers is damaged in the store: {error}"
        return RecordedPaths(_nothing_is_known, lost=(Kept(b".", why, benign=False),))


def _nothing_is_known(_path: bytes, _entry: Entry) -> str:
    return "not known to the checkpoint: the record of the paths that it covers is damaged in the store"


def with_recorded_rules(store: Store, worktree: bytes, options: ScanOptions) -> ScanOptions:
    """Scan options if the project's settings file is unreadable: the newest checkpoint's record of its rules is
    used."""
    newest = store.head(worktree)
    try:
        rules = () if newest is None else store.domain(newest.domain).rules
        found = list(_rule_files(store, (rule for rule in rules if rule.source == "project")))
    except (errors.BlobMissing, errors.BlobCorrupt):
        return options  # then more is captured and nothing is deleted
    return options._replace(outside=(*options.outside, *found))


def _base_of(path: bytes) -> bytes:
    """The directory that a rule file applies to. Rule files in `.git` apply to the whole worktree."""
    return b"" if path.startswith(b".git/") else path.rpartition(b"/")[0]


def _rule_files(store: Store, rules: Iterable[RuleRef]) -> Iterator[RuleFile]:
    read = cache(store.read)  # many directories may share the same rules
    size = count = 0
    for rule in rules:
        data = read(rule.digest, packs.RULES)
        size, count = size + len(data), count + data.count(b"\n")
        if size > _BYTES or count > _LINES:  # a domain may repeat the same rule file without limit
            raise errors.BlobCorrupt(f"refused rules of a checkpoint: {size:,} bytes and {count:,} lines are more than rule files have")
        yield RuleFile(rule.base, rule.source, data)


@contextmanager
def naming(store: Store) -> Iterator[None]:
    """Add the checkpoint's id to a ManifestRefused error."""
    try:
        yield
    except errors.ManifestRefused as error:
        found = next((point.id for point, _ in store.checkpoints() if point.tree in error.roots), "")
        raise errors.ManifestRefused(error.why, error.roots, found) from error


def entries(store: Store, tree: bytes) -> Iterator[tuple[bytes, Entry]]:
    """Like manifest.walk, with `naming`."""
    with naming(store):
        yield from manifest.walk(store.load_tree, tree)
