"""The target of a restore: its readable part, and the paths that it covers.

The dangers prevented here: one flipped bit makes the whole undo impossible. A restore deletes a directory because its
tree is unreadable. A restore deletes a path that its target never covered. So below a damaged tree nothing is changed.
A blob with the right digest that no save would write is not damage but forgery, and the whole restore is refused.

Coverage depends only on what the checkpoint recorded, never on today's rules. `.gitignore` changes, files outgrow a
limit, directories become unreadable: none of that means that a path was absent from the checkpoint.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache

from .. import errors
from .._typing import NamedTuple
from ..gitignore.rules import SOURCES, Accepted, RuleChooser, RuleFile, RuleSet
from ..model import domain as domains
from ..model import manifest, paths
from ..model.checkpoint import SAFETY, Checkpoint
from ..model.diff import Captured, Change, split_unclear
from ..model.domain import Domain, RuleRef, Stop
from ..model.manifest import DIR, FILE, Entry, Loader
from ..model.plan import Kept
from ..store import packs
from ..store.packs import ReadBlob
from ..store.store import Store
from ..worktree.scan_policy import ScanPolicy

_DOMAINS = 100
"""Domains that are remembered."""
_WORDS = {domains.TOO_LARGE: "larger than what it captured", domains.IGNORED: "ignored by its rules"}
_BYTES, _LINES = 64 << 20, 1_000_000
"""Limits on all rule files of a checkpoint together: more would take minutes and gigabytes to compile."""


class ReadableTarget(NamedTuple):
    """A target without its unreadable parts: its root `tree`, its paths with their kinds (`named`, None = not requested), and
    the `lost` directories."""

    tree: bytes
    named: Mapping[bytes, str] | None
    lost: tuple[Kept, ...]


NOTHING = ReadableTarget(b"", {}, ())


def readable_entries(load: Loader, root: bytes, lost: list[Kept], *, in_order: bool = False) -> Iterator[tuple[bytes, Entry]]:
    """Yield every readable path and entry of a manifest; `in_order`: by path. Directories with damaged trees are added to
    `lost`. Raises StoreDamaged if the root's own tree is damaged."""
    return manifest.walk(
        load, root, lambda path, error: lost.append(Kept(path, f"its tree is damaged in the store: {error}", benign=False)),
        in_order=in_order
    )


def _is_readable_throughout(load: Loader, root: bytes, now: bytes) -> bool:
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
                rows, others = (
                    (manifest.directory_entries(load, digest), ()) if other is None else manifest.differing_entries(load, digest, other)
                )
                there = {name: entry.digest for name, entry in others if entry.kind == DIR}
                stack += [(entry.digest, there.get(name), depth + 1) for name, entry in rows if entry.kind == DIR]
    except (errors.BlobMissing, errors.BlobCorrupt):
        return False
    return True


def readable_part_of_target(load: Loader, put: Callable[[bytes], bytes], target: bytes, now: bytes, *, names: bool) -> ReadableTarget:
    """The manifest `target`, with each damaged directory replaced by what the manifest `now` has there.

    Trees that both manifests share are not read, because they do not change, unless `names` requests all paths or
    something is lost. Raises StoreDamaged if the root's own tree is damaged.
    """
    lost: list[Kept] = []
    if not names and _is_readable_throughout(load, target, now):
        return ReadableTarget(target, None, ())
    named = {path: entry.kind for path, entry in readable_entries(load, target, lost)}
    if not lost:
        return ReadableTarget(target, named, ())
    finder = manifest.Finder(load, now)
    tree = _replace_subtrees(load, put, target, {item.path: finder.find(item.path) for item in lost})
    return ReadableTarget(tree, named, tuple(lost))


def _replace_subtrees(
    load: Loader, store: Callable[[bytes], bytes], root: bytes, changes: Mapping[bytes, Entry | None]
) -> bytes:
    """Like manifest_edits.patch, but an entry is inserted as it is: a directory with its tree. Replaced trees are not read.
    No path may lie below another."""
    finder = manifest.Finder(load, root)
    made = dict(changes)
    pending = {path.rpartition(b"/")[0] for path in changes}
    while True:
        directory = max(pending, key=lambda path: path.count(b"/") + (path != b""))  # deepest first, the root last
        pending.discard(directory)
        rows = dict(finder.entries_of_directory(directory))
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

    def __init__(self, read: ReadBlob, domain: Domain, other: Domain | None = None, *, strict: bool = True) -> None:
        """`read` reads the recorded rule files. `other`: the domain of the checkpoint that has the paths. The same rules
        and the same skips hid them in neither. `strict`: ask the rules even if they are the same."""
        self._domain = domain
        self._rules: RuleSet | None = None
        self._skipped: dict[bytes, str] = {}
        is_other = other is None or _rules_of(domain) != _rules_of(other)
        if strict or is_other:
            chooser = RuleChooser()
            known = (rule for rule in domain.rules if rule.source in SOURCES)
            chosen = [(file, chooser.accept_or_replace(file).file) for file in _rule_files(read, known)]
            files = [file for _, file in chosen if file is not None]
            self._skipped |= {file.base: domains.UNREADABLE_RULES for file, used in chosen if used is None}
            self._skipped |= {rule.base: "ignore rules of an unknown kind" for rule in domain.rules if rule.source not in SOURCES}
            self._rules = RuleSet(files, ignore_case=domain.ignore_case, default_excludes=domain.default_excludes)
        if is_other:
            self._skipped |= {rule.base: "ignore rules that are not stored" for rule in domain.unstored}
        for skip in domain.skipped if other is None else set(domain.skipped).difference(other.skipped):
            kind = domains.reason_without_detail(skip.reason)
            if kind == domains.UNREADABLE_RULES:
                self._skipped[_base_of(skip.path)] = kind
            elif kind != domains.SETTINGS:  # of such a file, only the project's own settings are unknown
                self._skipped[skip.path] = kind

    def why_not_captured(self, path: bytes, entry: Entry) -> str | None:
        """Why the checkpoint may not have captured `path`, had it existed then as `entry`. None = it would have."""
        kind = self.kind_of_skip(path, entry)
        return None if kind is None else f"not known to the checkpoint: {_WORDS.get(kind, f'{kind} then')}"

    def kind_of_skip(self, path: bytes, entry: Entry) -> str | None:
        """The same in one word of model/domain.py."""
        for place in (path, *reversed(paths.parents(path)), b"") if self._skipped else ():
            reason = self._skipped.get(place)
            if reason is not None:
                return reason
        if self._rules is None:
            return None
        if entry.kind == FILE and entry.size > self._domain.max_file_size:
            return domains.TOO_LARGE
        return None if self._rules.captured(path, entry.kind == DIR) else domains.IGNORED


def _rules_of(domain: Domain) -> tuple[object, ...]:
    """All that decides which path is ignored."""
    return (
        domain.ignore_case, domain.default_excludes, domain.max_file_size, frozenset(domain.rules), frozenset(domain.unstored)
    )  # fmt: skip


class JudgedChanges(NamedTuple):
    """The known and the unclear changes (model/diff.py). `damaged`: a domain cannot be read, so more is unclear."""

    changes: tuple[Change, ...]
    unclear: tuple[Change, ...] = ()
    damaged: bool = False


class DomainComparer:
    """Decides which changes between two checkpoints are known, and which only mean that a path was not captured.

    Each comparison of two trees asks it. It reads nothing for checkpoints with the same domain, or if no path was added
    or removed.
    """

    def __init__(self, read: ReadBlob) -> None:
        """`read` reads the domains and the recorded rule files."""
        self._read = read
        self._domains: dict[bytes, Domain] = {}

    def judge(
        self, changes: Iterable[Change], old: "bytes | Domain", new: "bytes | Domain", *,
        present: Captured | None = None, certain: Container[bytes] = frozenset(), strict: bool = False,
    ) -> JudgedChanges:  # fmt: skip
        """The `changes`, sorted by path, from a side to another one. `old`, `new`: the domains or their digests; b"" =
        everything is known. `present` judges the new side in place of its domain: the worktree shows what it has.
        `certain`: paths that are known on the old side. `strict`: a side is a safety checkpoint, which may hold paths that
        its own domain leaves out."""
        changes = tuple(changes)
        is_known = not old or not new or (old == new and not strict)
        if is_known or all(change.old is not None and change.new is not None for change in changes):
            return JudgedChanges(changes)
        damage: list[Exception] = []
        before, after = (self.captured_by(one, other, damage, strict=strict) for one, other in ((old, new), (new, old)))
        known, unclear = split_unclear(changes, lambda path, entry: None if path in certain else before(path, entry), present or after)
        return JudgedChanges(known, unclear, bool(damage))

    def captured_by(
        self, side: "bytes | Domain", other: "bytes | Domain", damage: list[Exception] | None = None, *, strict: bool = False
    ) -> Captured:
        """Why the checkpoint with the domain `side` may not have captured a path that the checkpoint with `other` has.
        Reads nothing before it is asked. Damage of the record is added to `damage`; then no path is known."""
        known: list[Captured] = []

        def why_not_captured(path: bytes, entry: Entry) -> str | None:
            if not known:
                try:
                    known.append(Coverage(self._read, self._domain(side), self._domain(other), strict=strict).why_not_captured)
                except errors.StoreDamaged as error:
                    known.append(_nothing_is_known)
                    if damage is not None:
                        damage.append(error)
            return known[0](path, entry)

        return why_not_captured

    def stop_of(self, domain: bytes) -> Stop | None:
        """The stop in a domain. Raises StoreDamaged."""
        return self._domain(domain).stop if domain else None

    def _domain(self, side: "bytes | Domain") -> Domain:
        if isinstance(side, Domain):
            return side
        if side not in self._domains:
            if len(self._domains) >= _DOMAINS:
                self._domains.clear()
            self._domains[side] = domains.decode(self._read(side, packs.DOMAIN))
        return self._domains[side]


def has_safety(*points: Checkpoint) -> bool:
    """True if one of them is a safety checkpoint: it may hold paths that its own domain leaves out."""
    return any(point.trigger == SAFETY for point in points)


class RecordedPaths(NamedTuple):
    """What a checkpoint recorded about paths. `why_not_captured(path, entry)`: why it may not have captured a path, or None.
    `unstable` paths were changing during the save; `late` paths changed after the checkpoint's time. `lost`: damage to
    this record."""

    why_not_captured: Captured
    unstable: tuple[bytes, ...] = ()
    late: tuple[bytes, ...] = ()
    lost: tuple[Kept, ...] = ()


def recorded_coverage(store: Store, point: Checkpoint) -> RecordedPaths:
    """What a checkpoint recorded about paths. A damaged record covers no path, so that nothing is deleted."""
    try:
        domain = store.domain(point.domain)
        return RecordedPaths(Coverage(store.read, domain).why_not_captured, domain.unstable, domain.late)
    except (errors.BlobMissing, errors.BlobCorrupt) as error:
        why = f"nothing is deleted: the record of the paths that it covers is damaged in the store: {error}"
        return RecordedPaths(_nothing_is_known, lost=(Kept(b".", why, benign=False),))


def _nothing_is_known(_path: bytes, _entry: Entry) -> str:
    return "not known to the checkpoint: the record of the paths that it covers is damaged in the store"


def with_recorded_rules(store: Store, worktree: bytes, policy: ScanPolicy) -> ScanPolicy:
    """The policy if rules outside of the tree are unreadable: the newest checkpoint's record of them is used."""
    newest = store.head(worktree)
    try:
        rules = () if newest is None else store.domain(newest.domain).rules
        found = list(_rule_files(store.read, (rule for rule in rules if rule.source in policy.lost)))
    except (errors.BlobMissing, errors.BlobCorrupt):
        return policy  # then more is captured and nothing is deleted
    return policy._replace(outside=(*policy.outside, *found))


def accepted_rules(store: Store, worktree: bytes) -> Accepted:
    """Finds the rule files that the newest checkpoint recorded."""
    newest = store.head(worktree)
    rules: tuple[RuleRef, ...] = ()
    with suppress(errors.BlobMissing, errors.BlobCorrupt):  # then more is captured and nothing is deleted
        rules = () if newest is None else store.domain(newest.domain).rules
    known = {(rule.base, rule.source): rule.digest for rule in rules}

    def accepted(base: bytes, source: str) -> bytes | None:
        digest = known.get((base, source))
        with suppress(errors.BlobMissing, errors.BlobCorrupt):
            return None if digest is None else store.read(digest, packs.RULES)
        return None

    return accepted


def _base_of(path: bytes) -> bytes:
    """The directory that a rule file applies to. Rule files in `.git` apply to the whole worktree."""
    return b"" if path.startswith(b".git/") else path.rpartition(b"/")[0]


def _rule_files(read_blob: ReadBlob, rules: Iterable[RuleRef]) -> Iterator[RuleFile]:
    read = cache(read_blob)  # many directories may share the same rules
    size = count = 0
    for rule in rules:
        data = read(rule.digest, packs.RULES)
        size, count = size + len(data), count + data.count(b"\n")
        if size > _BYTES or count > _LINES:  # a domain may repeat the same rule file without limit
            raise errors.BlobCorrupt(f"refused rules of a checkpoint: {size:,} bytes and {count:,} lines are more than rule files have")
        yield RuleFile(rule.base, rule.source, data)


@contextmanager
def name_checkpoint_in_errors(store: Store) -> Iterator[None]:
    """Add the checkpoint's id to a ManifestRefused error."""
    try:
        yield
    except errors.ManifestRefused as error:
        found = next((point.id for point, _ in store.checkpoints() if point.tree in error.roots), "")
        raise errors.ManifestRefused(error.why, error.roots, found) from error


def walk_with_checkpoint_id(store: Store, tree: bytes) -> Iterator[tuple[bytes, Entry]]:
    """Like manifest.walk, with `name_checkpoint_in_errors`."""
    with name_checkpoint_in_errors(store):
        yield from manifest.walk(store.load_tree, tree)
