"""The history of a path: the checkpoints in which it changed. Reads only the trees above the path, each once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change, Counts
from ..model.directory_nodes import NodeList
from ..model.manifest import DIR, Entry
from ..store import packs
from ..store.catalog import Marked
from ..store.store import Store
from .compare import Comparison, nearest_path
from .restorable import Coverage, DomainComparer, JudgedChanges, has_safety
from .worktree_timeline import WorktreeTimeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .search import Search

FORGOTTEN = "checkpoints before it were forgotten"
_FIRST, _SLICE = 256, 1000
"""Checkpoints that are read together, at first and later: the newest changes are returned before all checkpoints are read."""
_SAMPLES = 10
"""Checkpoints that are searched for the nearest name."""
_Found = Entry | errors.StoreDamaged | None
_Pair = tuple[Checkpoint, Marked]


class PathChange(NamedTuple):
    """A checkpoint in which a path differs from the checkpoint before it, `before` (None for the oldest).
    `change.status` is the kind of change. `counts`: for a directory, the changes at and below it. `reason`: why a
    removal or addition may not be real (path not captured, or earlier checkpoints deleted), else ""."""

    checkpoint: Checkpoint
    marked: Marked
    before: Checkpoint | None
    change: Change
    counts: Counts | None
    reason: str


class Logged(NamedTuple):
    """The history of one path in a worktree. `changes` are sorted, newest first. `compare` returns the changes of such
    a row, at and below the path, while the workspace is open. `damaged`: ids of checkpoints skipped because of damage
    in the store. `not_searched`: of a search, the paths of files that were too large or purged, sorted."""

    path: bytes
    changes: tuple[PathChange, ...]
    compare: Callable[[PathChange], Comparison]
    damaged: tuple[str, ...]
    not_searched: tuple[bytes, ...] = ()


def log_of_path(
    context: Context, path: bytes, most: int | None = None, *, safety: bool = False, search: "Search | None" = None
) -> Logged:
    """The newest `most` checkpoints of this worktree in which `path` (b"" = the root) changed. `safety` includes safety
    checkpoints. `search`: only the changes that it finds. Raises PathNotFound if no checkpoint ever had the path."""
    history = PathHistory(context, path, safety=safety, search=search)
    rows = tuple(chain.from_iterable(history.read_changes_in_parts(most)))
    not_searched = () if search is None else tuple(sorted(search.not_searched))
    return Logged(path, rows, history.compare, history.damaged, not_searched)


class PathHistory:
    """The history of one path in a worktree, of which the newest changes are read first.

    `everything`: the checkpoints of the store that were read so far, newest first."""

    def __init__(
        self, context: Context, path: bytes, *, safety: bool = False, search: "Search | None" = None, everything: Sequence[_Pair] = (),
        timeline: WorktreeTimeline | None = None,
    ) -> None:  # fmt: skip
        """See `log_of_path`. `everything`: all checkpoints, if the caller has read them. `timeline`: what several histories share. Reads
        nothing yet."""
        self.path, self.everything, self._timeline = path, everything, timeline or WorktreeTimeline(context)
        self._context, self._safety, self._is_read = context, safety, bool(everything)
        self._lookup = _PathLookup(context.store, path, search)

    def read_changes_in_parts(self, most: int | None = None) -> Iterator[list[PathChange]]:
        """Yield the newest `most` changes in parts that are not empty, newest first. The store is held while a part is read.
        Raises as `log_of_path`."""
        slices, left, is_there = self._iterate_slices_of_changes(), most, False
        while left != 0:
            with self._context.store.hold_shared_lock():
                found = next(slices, None)
                part = [] if found is None else list(islice(found, left))
                if found is None and not is_there and not self._lookup.seen:
                    raise self._no_history_error()
            if found is None:
                return
            if part:
                is_there, left = True, None if left is None else left - len(part)
                yield part

    def _iterate_slices_of_changes(self) -> Iterator[Iterator[PathChange]]:
        """Yield iterators over the changes, newest first."""
        for timeline in self._read_checkpoints_newest_first():
            yield self._lookup.changes(timeline)
        own = self._of_this_worktree(self.everything)
        is_cut = bool(own and own[-1][0].parent)
        yield (row._replace(reason=FORGOTTEN) if is_cut else row for row in self._lookup.oldest())

    def _read_checkpoints_newest_first(self) -> Iterator[Sequence[_Pair]]:
        """Yield this worktree's checkpoints that count, newest first: few at first."""
        read, rest = self._context.store.checkpoints, self.everything
        if not rest:
            self.everything = read(farthest=_FIRST)
            self._is_read = len(self.everything) < _FIRST
            yield self._shown_of_this_worktree(self.everything)
            rest = () if self._is_read else read(before=self.everything[-1][0].seq)
            self.everything, self._is_read = [*self.everything, *rest], True
        for start in range(0, len(rest), _SLICE):
            yield self._shown_of_this_worktree(rest[start : start + _SLICE])

    def _of_this_worktree(self, found: Sequence[_Pair]) -> list[_Pair]:
        return [pair for pair in found if pair[0].worktree == self._context.root.key]

    def _shown_of_this_worktree(self, found: Sequence[_Pair]) -> list[_Pair]:
        own = self._of_this_worktree(found)
        safety = [] if self._safety else [point for point, _ in own if point.trigger == checkpoints.SAFETY]
        if not safety:
            return own
        ends = frozenset[str | None]()
        if self._context.store.has_agents(self._context.root.key):
            with suppress(errors.StoreDamaged):  # then no end of a turn is known
                ends = self._timeline.since(safety[-1].seq).ends
        left_out = {point.id for point in safety} - ends
        return [pair for pair in own if pair[0].id not in left_out]

    @property
    def is_read(self) -> bool:
        """True if all checkpoints were read."""
        return self._is_read

    @property
    def damaged(self) -> tuple[str, ...]:
        """See Logged."""
        return tuple(dict.fromkeys(self._lookup.damaged))

    @property
    def compare(self) -> Callable[[PathChange], Comparison]:
        """See Logged."""
        return self._lookup.compare

    def _no_history_error(self) -> errors.CasrewindError:
        own, timeline = self._of_this_worktree(self.everything), self._shown_of_this_worktree(self.everything)
        name = printable(self.path or b".")
        if damaged := self.damaged:
            whole = f"no checkpoint that can be read holds {name}, and {len(damaged)} are damaged"
            return errors.StoreDamaged(whole, "casrewind verify shows what is affected")
        return errors.PathNotFound(*_why_no_history(self._context, self.path, timeline, own, name))


class _PathLookup:
    """Looks up one path in many manifests."""

    def __init__(self, store: Store, path: bytes, search: "Search | None" = None) -> None:
        self._store, self._path, self._search = store, path, search
        self._names = path.split(b"/") if path else []
        self._known: list[dict[bytes, _Found]] = [{} for _ in self._names]  # by depth: {tree: its entry of that name}
        self._trees: dict[bytes, manifest.Tree | NodeList] = {}
        self._comparer = DomainComparer(store.read)
        self._newer: tuple[Checkpoint, Marked, Entry | None] | None = None  # the oldest one so far
        self.damaged: list[str] = []
        self.seen = False

    def changes(self, timeline: Sequence[_Pair]) -> Iterator[PathChange]:
        """Yield a row for each checkpoint that differs from the one before it. `timeline` is newest first, and continues that of
        the call before."""
        found = self._find_entry_in_each_root({point.tree for point, _ in timeline})
        for point, marked in timeline:
            entry = found[point.tree]
            if isinstance(entry, errors.StoreDamaged):
                self.damaged.append(point.id)
                continue
            self.seen |= entry is not None
            if self._newer is not None:
                yield from self._row_if_changed(*self._newer, point, entry)
            self._newer = point, marked, entry

    def oldest(self) -> Iterator[PathChange]:
        """Yield the row of the oldest checkpoint, if it has the path."""
        if self._newer is not None and self._newer[2] is not None:
            yield from self._row_if_changed(*self._newer, None, None)

    def _find_entry_in_each_root(self, roots: Iterable[bytes]) -> dict[bytes, _Found]:
        """The path's entry in each root tree. Works level by level, so that each level is a single batch of reads."""
        found: dict[bytes, _Found] = {root: manifest.Entry(manifest.DIR, 0, digest=root) for root in roots}
        for name, known in zip(self._names, self._known, strict=True):
            trees = {root: entry.digest for root, entry in found.items() if isinstance(entry, Entry) and entry.kind == DIR}
            self._find_in_trees(name, set(trees.values()), known)
            for root, entry in found.items():
                if root in trees:
                    found[root] = known[trees[root]]
                elif isinstance(entry, Entry):
                    found[root] = None  # a file is in place of a directory
        return found

    def _find_in_trees(self, name: bytes, trees: set[bytes], known: dict[bytes, _Found]) -> None:
        """Add to `known` the entry `name` of each tree; in a large directory this reads one node per level."""
        looking = {digest: [digest] for digest in trees - known.keys()}
        while looking:
            further: dict[bytes, list[bytes]] = {}
            for node, data in self._store.read_many(list(looking), packs.TREE):
                found = data if isinstance(data, errors.StoreDamaged) else manifest.entry_or_node_in(data, name)
                if isinstance(found, bytes):
                    further.setdefault(found, []).extend(looking[node])
                else:
                    known.update(dict.fromkeys(looking[node], found))
            looking = further

    def _row_if_changed(
        self, point: Checkpoint, marked: Marked, now: Entry | None, before: Checkpoint | None, was: Entry | None
    ) -> Iterator[PathChange]:
        if was == now:
            return
        change, counts = Change(self._path, was, now), None
        is_directory = any(entry is not None and entry.kind == DIR for entry in (was, now))
        if not is_directory and manifest.same_for_restore(was, now):
            return
        if is_directory or self._search is not None:
            try:
                told = self._changes_found(self._known_and_unclear(change, before, point))
                counts = diffs.count(list(told.changes)) if is_directory else None
            except (errors.StoreDamaged, errors.ManifestRefused):
                self.damaged.append(point.id)
                return
            if self._search is not None and told.damaged:
                self.damaged.append(point.id)
            if self._search is not None and not told.changes and not told.unclear:
                return
            if manifest.same_for_restore(was, now) and not any(counts or ()) and not told.unclear:
                return  # only mtimes changed
        yield PathChange(point, marked, before, change, counts, self._why_unclear(before, point, change))

    def _known_and_unclear(self, change: Change, before: Checkpoint | None, point: Checkpoint) -> JudgedChanges:
        """The known and the unclear changes at and below the path."""
        changes = tuple(self._changes_at_and_below(change))
        if before is None:
            return JudgedChanges(changes)
        return self._comparer.judge(changes, before.domain, point.domain, strict=has_safety(before, point))

    def _changes_found(self, told: JudgedChanges) -> JudgedChanges:
        """The changes that the search finds; without a search, all."""
        if self._search is None:
            return told
        found = self._search.matching_changes(self._comparison(told))
        return found._replace(damaged=found.damaged or told.damaged)

    def _why_unclear(self, before: Checkpoint | None, point: Checkpoint, change: Change) -> str:
        """Why a path missing from a checkpoint may have existed then, or ""."""
        entry = change.new or change.old
        if before is None or entry is None or (change.old is not None and change.new is not None):
            return ""
        here, there = (before, point) if change.old is None else (point, before)
        finder, path = manifest.Finder(self._load_and_cache_tree, here.tree), self._path
        for above in paths.parents(path):
            if (found := finder.find(above)) is None:  # below an absent directory every path was absent
                path, entry = above, Entry(DIR, 0o755)
                break
            if found.kind != DIR:
                return ""
        why = self._comparer.captured_by(here.domain, there.domain, strict=has_safety(here, there))(path, entry)
        return "" if why is None else f"{'captured since' if here is before else 'no longer captured'}: {why}"

    def _changes_at_and_below(self, change: Change) -> Iterator[Change]:
        if change.path and not manifest.same_for_restore(change.old, change.new):
            yield change
        old, new = (entry.digest if entry is not None and entry.kind == DIR else None for entry in (change.old, change.new))
        for found in diffs.diff(self._load_and_cache_tree, old, new):
            yield found._replace(path=paths.join(change.path, found.path))

    def _load_and_cache_tree(self, digest: bytes) -> manifest.Tree | NodeList:
        """Load a tree. Recent trees are cached, because each is compared with two others."""
        if digest not in self._trees:
            if len(self._trees) >= _SLICE:
                self._trees.clear()
            self._trees[digest] = self._store.load_tree(digest)
        return self._trees[digest]

    def compare(self, row: PathChange) -> Comparison:
        """The changes of a row, with the bytes of both sides."""
        return self._comparison(self._changes_found(self._known_and_unclear(row.change, row.before, row.checkpoint)))

    def _comparison(self, told: JudgedChanges) -> Comparison:
        def stored(_path: bytes, entry: Entry) -> bytes:
            return b"".join(self._store.content(entry))

        changes, unclear = (tuple(sorted(some, key=lambda change: change.path)) for some in (told.changes, told.unclear))
        return Comparison(changes, (), stored, stored, (), unclear)


def _why_no_history(context: Context, path: bytes, timeline: Sequence[_Pair], everything: Sequence[_Pair], name: str) -> tuple[str, ...]:
    """Returns (the problem) or (the problem, what to do)."""
    if not timeline:
        return "no checkpoints yet", "casrewind save makes one"
    if len(timeline) < len(everything):
        lookup = _PathLookup(context.store, path)
        if any(lookup.changes(everything)) or any(lookup.oldest()):
            return f"only safety checkpoints ever held {name}", "casrewind log --all shows them"
    said = f"no checkpoint ever held {name}"
    newest = timeline[0][0]
    coverage = Coverage(context.store.read, context.store.domain(newest.domain))
    why = coverage.why_not_captured(path, manifest.Entry(manifest.FILE, 0o644, 0, 0, b""))
    if why is not None:
        return (f"{said}; {newest.id}, the newest, would not have: {why.partition(': ')[2]}",)
    for point, _ in timeline[:: max(len(timeline) // _SAMPLES, 1)]:
        near = nearest_path(manifest.Finder(context.store.load_tree, point.tree), path)
        if near is not None:
            return (f"{said}; the nearest known name is {printable(near)}, in {point.id}",)
    return said, "casrewind show last lists what the newest one holds"
