"""Compare two checkpoints, or one with the worktree. Publishes nothing."""

from collections.abc import Callable, Iterable, Sequence

from ..model import diff as diffs
from ..model import paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.domain import Skip
from ..model.manifest import Entry, Loader
from ..store.session import DrySession
from ..typed import NamedTuple
from ..worktree.files import NotCapturable
from .missing import missing
from .present import scan_now
from .refused import naming
from .save import all_skips
from .site import Site

_Bytes = Callable[[bytes, Entry], bytes | None]


class Comparison(NamedTuple):
    """The changes from one state to another, sorted by path.

    `skipped`: compared with the worktree, what could not be looked at there. `old(path, entry)` and `new(path, entry)` give
    the bytes of a file of either side (None when they can no longer be had), as long as the workspace is open.
    `missing`: the paths that were asked for and that exist nowhere, sorted.
    """

    changes: tuple[Change, ...]
    skipped: tuple[Skip, ...]
    old: Callable[[bytes, Entry], bytes | None]
    new: Callable[[bytes, Entry], bytes | None]
    missing: tuple[bytes, ...] = ()


class Look(NamedTuple):
    """The worktree as it was when it was looked at: the digest of its manifest, what loads that and stored ones, and the
    paths that could not be looked at."""

    tree: bytes
    load: Loader
    skipped: tuple[Skip, ...]


def look(site: Site) -> Look:
    """Scan the worktree, once for any number of comparisons."""
    session = DrySession(site.store.read)
    scan = scan_now(site, session)
    return Look(scan.tree, session.load_tree, all_skips(scan.domain))


def compare(site: Site, old: Checkpoint, new: Checkpoint | None, scope: Sequence[bytes] = ()) -> Comparison:
    """What changed from `old` to `new`, or to the worktree as it is now (None), limited to `scope`.

    Raises PathNotFound when no path in `scope` exists, neither on one of the two sides nor in the worktree.
    """
    absent = missing(site, [old] if new is None else [old, new], scope) if scope else ()
    stored, present = _readers(site)
    if new is not None:
        with naming(site.store):
            return Comparison(_sorted(diffs.diff(site.store.load_tree, old.tree, new.tree), scope), (), stored, stored, absent)
    seen = look(site)
    with naming(site.store):
        found = _sorted(diffs.diff(seen.load, old.tree, seen.tree), scope)
    return Comparison(found, seen.skipped, stored, present, absent)


def towards(site: Site, seen: Look, point: Checkpoint) -> Comparison:
    """What changes on the way from the worktree, as it was `seen`, to a checkpoint: what a restore would do, before the
    rules of what it leaves alone."""
    stored, present = _readers(site)
    with naming(site.store):
        return Comparison(_sorted(diffs.diff(seen.load, seen.tree, point.tree), ()), seen.skipped, present, stored)


def _readers(site: Site) -> tuple[_Bytes, _Bytes]:
    """(what gives the bytes of a stored entry, what gives those of one that stands in the worktree)."""

    def stored(_path: bytes, entry: Entry) -> bytes | None:
        return b"".join(site.store.content(entry))

    def present(path: bytes, entry: Entry) -> bytes | None:
        keeper = _Keeper()
        try:
            captured = site.tree.capture(path, keeper)
        except (OSError, NotCapturable):
            return None
        return keeper.data if captured is not None and captured.entry.digest == entry.digest else None

    return stored, present


class _Keeper(DrySession):
    """Keeps the bytes of the one file that is captured."""

    def __init__(self) -> None:
        super().__init__(lambda *_: b"")
        self.data = b""

    def put_file(self, data: bytes) -> bytes:
        self.data = data
        return super().put_file(data)


def _sorted(changes: Iterable[Change], scope: Sequence[bytes]) -> tuple[Change, ...]:
    places = paths.Places(scope)
    chosen = (change for change in changes if places.cover(change.path))
    return tuple(sorted(chosen, key=lambda change: change.path))
