"""Log: in which checkpoints a path changed. Of each checkpoint only the trees above that path are read, and each once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from .. import errors, fsio
from .._typing import NamedTuple
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change, Counts
from ..model.domain import Skip
from ..model.manifest import DIR, LINK, PURGED, Entry
from ..model.tree_nodes import NodeList
from ..store import packs
from ..store.catalog import Marked
from ..store.store import Store
from .compare import Comparison, nearest
from .context import Context
from .restorable import Coverage
from .save import all_skips

FORGOTTEN = "checkpoints before it were forgotten"
_SLICE = 1000
"""Checkpoints that are looked at in one go: who wants the newest change does not wait for all."""
_SAMPLES = 10
"""Checkpoints that are searched for the nearest name."""
_Found = Entry | errors.StoreDamaged | None
_Pair = tuple[Checkpoint, Marked]


class PathChange(NamedTuple):
    """One checkpoint in which a path differs from the one before it.

    `before` is that one, None for the oldest there is. `change.status` says what happened. `counts`: of a directory, what
    changed at and under it. `reason` says why a removal, or an addition, may be none: the path was not captured then, or what
    was before is not known any more; else "".
    """

    checkpoint: Checkpoint
    marked: Marked
    before: Checkpoint | None
    change: Change
    counts: Counts | None
    reason: str


class Logged(NamedTuple):
    """What the timeline of a worktree knows of one path.

    `changes` are sorted, newest first. `compare` gives what a row of them changed, at the path and under it, as long as the
    workspace is open. `damaged` are the ids of the checkpoints that were passed over, because of damage in the store.
    """

    path: bytes
    changes: tuple[PathChange, ...]
    compare: Callable[[PathChange], Comparison]
    damaged: tuple[str, ...]


def log(context: Context, path: bytes, most: int | None = None, *, safety: bool = False) -> Logged:
    """In which checkpoints of this worktree `path` (b"" = the root) changed: the newest `most`. With `safety`, safety
    checkpoints count, too. Raises PathNotFound when none of them ever held it."""
    with context.store.holding():
        everything = [pair for pair in context.store.checkpoints() if pair[0].worktree == context.root.key]
        timeline = [pair for pair in everything if safety or pair[0].trigger != checkpoints.SAFETY]
        look = _PathLookup(context.store, path)
        rows = tuple(islice(look.changes(timeline), most))
        if not rows and not look.seen and most != 0:
            raise _nothing(context, path, timeline, everything, look.damaged)
        if rows and rows[-1].before is None and everything[-1][0].parent:
            rows = (*rows[:-1], rows[-1]._replace(reason=FORGOTTEN))
    return Logged(path, rows, look.compare, tuple(look.damaged))


class _PathLookup:
    """One path in many manifests."""

    def __init__(self, store: Store, path: bytes) -> None:
        """`path` is below the root."""
        self._store, self._path = store, path
        self._names = path.split(b"/") if path else []
        self._known: list[dict[bytes, _Found]] = [{} for _ in self._names]  # by depth: what a tree has of that name
        self._trees: dict[bytes, manifest.Tree | NodeList] = {}
        self.damaged: list[str] = []
        self.seen = False

    def changes(self, timeline: Sequence[_Pair]) -> Iterator[PathChange]:
        """A row for each checkpoint that differs from the one before it; `timeline` is newest first."""
        newer: tuple[Checkpoint, Marked, Entry | None] | None = None
        for start in range(0, len(timeline), _SLICE):
            part = timeline[start : start + _SLICE]
            found = self._entries({point.tree for point, _ in part})
            for point, marked in part:
                entry = found[point.tree]
                if isinstance(entry, errors.StoreDamaged):
                    self.damaged.append(point.id)
                    continue
                self.seen |= entry is not None
                if newer is not None:
                    yield from self._row(*newer, point, entry)
                newer = point, marked, entry
        if newer is not None and newer[2] is not None:
            yield from self._row(*newer, None, None)

    def _entries(self, roots: Iterable[bytes]) -> dict[bytes, _Found]:
        """The path's entry below each of these root trees: level by level, so that each is one read of many trees."""
        found: dict[bytes, _Found] = {root: manifest.dir_entry(0, root) for root in roots}
        for name, known in zip(self._names, self._known, strict=True):
            places = {root: entry.digest for root, entry in found.items() if isinstance(entry, Entry) and entry.kind == DIR}
            self._look_for(name, set(places.values()), known)
            for root, entry in found.items():
                if root in places:
                    found[root] = known[places[root]]
                elif isinstance(entry, Entry):
                    found[root] = None  # a file stands where a directory was
        return found

    def _look_for(self, name: bytes, trees: set[bytes], known: dict[bytes, _Found]) -> None:
        """Find out what these directories have of that name; of a large one a node of each level is read."""
        looking = {digest: [digest] for digest in trees - known.keys()}
        while looking:
            further: dict[bytes, list[bytes]] = {}
            for node, data in self._store.read_many(list(looking), packs.TREE):
                found = data if isinstance(data, errors.StoreDamaged) else manifest.entry_in(data, name)
                if isinstance(found, bytes):
                    further.setdefault(found, []).extend(looking[node])
                else:
                    known.update(dict.fromkeys(looking[node], found))
            looking = further

    def _row(
        self, point: Checkpoint, marked: Marked, now: Entry | None, before: Checkpoint | None, was: Entry | None
    ) -> Iterator[PathChange]:
        """The row of `point`, if there is one."""
        if was == now:
            return
        change, counts = Change(self._path, was, now), None
        if any(entry is not None and entry.kind == DIR for entry in (was, now)):
            try:
                counts = diffs.count(list(self._below(change)))
            except (errors.StoreDamaged, errors.ManifestRefused):
                self.damaged.append(point.id)
                return
            if manifest.same(was, now) and not any(counts):
                return  # mtimes alone
        elif manifest.same(was, now):
            return
        yield PathChange(point, marked, before, change, counts, self._why_gone(point, change))

    def _why_gone(self, point: Checkpoint, change: Change) -> str:
        """Why a path that is not in a checkpoint may have been there all the same, or ""."""
        if change.old is None or change.new is not None:
            return ""
        return Coverage(self._store, self._store.domain(point.domain)).why_not(self._path, change.old) or ""

    def _below(self, change: Change) -> Iterator[Change]:
        """The changes at a path and under it."""
        if change.path and not manifest.same(change.old, change.new):
            yield change
        old, new = (entry.digest if entry is not None and entry.kind == DIR else None for entry in (change.old, change.new))
        for found in diffs.diff(self._load, old, new):
            yield found._replace(path=paths.join(change.path, found.path))

    def _load(self, digest: bytes) -> manifest.Tree | NodeList:
        """A tree; the newest ones are remembered, for each is compared with two."""
        if digest not in self._trees:
            if len(self._trees) >= _SLICE:
                self._trees.clear()
            self._trees[digest] = self._store.load_tree(digest)
        return self._trees[digest]

    def compare(self, row: PathChange) -> Comparison:
        """What a row changed, and the bytes of both sides."""

        def stored(_path: bytes, entry: Entry) -> bytes:
            return b"".join(self._store.content(entry))

        return Comparison(tuple(sorted(self._below(row.change), key=lambda change: change.path)), (), stored, stored)


def _nothing(
    context: Context, path: bytes, timeline: Sequence[_Pair], everything: Sequence[_Pair], damaged: Sequence[str]
) -> errors.CasrewindError:
    """What is to be raised of a path that is nowhere."""
    name = fsio.printable(path or b".")
    if damaged:
        whole = f"no checkpoint that can be read holds {name}, and {len(damaged)} are damaged"
        return errors.StoreDamaged(f"{whole}: casrewind verify says whom it affects")
    return errors.PathNotFound(_why_nothing(context, path, timeline, everything, name))


def _why_nothing(context: Context, path: bytes, timeline: Sequence[_Pair], everything: Sequence[_Pair], name: str) -> str:
    """Why there is nothing to say of a path, and what to do."""
    if not timeline:
        return "no checkpoints yet: casrewind save makes one"
    if len(timeline) < len(everything):
        look = _PathLookup(context.store, path)
        if any(look.changes(everything)):
            return f"only safety checkpoints ever held {name}: casrewind log --all shows them"
    said = f"no checkpoint ever held {name}"
    newest = timeline[0][0]
    why = Coverage(context.store, context.store.domain(newest.domain)).why_not(path, manifest.file_entry(0o644, 0, 0, b""))
    if why is not None:
        return f"{said}; {newest.id}, the newest, would not have: {why.partition(': ')[2]}"
    for point, _ in timeline[:: max(len(timeline) // _SAMPLES, 1)]:
        near = nearest(manifest.Finder(context.store.load_tree, point.tree), path)
        if near is not None:
            return f"{said}; the nearest known name is {fsio.printable(near)}, in {point.id}"
    return f"{said}; casrewind show last lists what the newest one holds"


def cat(context: Context, point: Checkpoint, path: bytes) -> Iterator[bytes]:
    """The bytes of the file `path` (below the root) at a checkpoint, of a link those of its target; piece by piece, each
    checked. gc has to wait until the last one. Raises PathNotFound for everything else, StoreDamaged at any piece."""
    pieces = _pieces(context, point, path)
    return chain((next(pieces, b""),), pieces)


def _pieces(context: Context, point: Checkpoint, path: bytes) -> Iterator[bytes]:
    with context.store.holding():
        entry = _find(context, point, path)
        if entry.kind == LINK:
            yield entry.target
        else:
            yield from context.store.content(entry)


def _find(context: Context, point: Checkpoint, path: bytes) -> Entry:
    """The entry of a file or link. Raises PathNotFound."""
    entry = manifest.Finder(context.store.load_tree, point.tree).find(path) if path else None
    name = fsio.printable(path or b".")
    if not path or (entry is not None and entry.kind == DIR):
        raise errors.PathNotFound(
            f"{name} is a directory in {point.id}: name a file in it (casrewind show {point.id} lists them), or have it "
            f"written elsewhere with casrewind restore {point.id} --to DIR"
        )
    if entry is None:
        skip = _skip_of(path, all_skips(context.store.domain(point.domain)))
        why = f": {fsio.printable(skip.path)} was not captured ({skip.reason})" if skip is not None else ""
        raise errors.PathNotFound(f"no {name} in {point.id}{why}; casrewind show {point.id} lists what it holds")
    if entry.kind == PURGED:
        raise errors.PathNotFound(f"{name} was purged from {point.id}: its bytes are gone from the store")
    return entry


def _skip_of(path: bytes, skips: tuple[Skip, ...]) -> Skip | None:
    """What was said of a path, or of a directory above it."""
    above = {path, *paths.parents(path)}
    return next((skip for skip in skips if skip.path in above), None)
