"""Cat: the bytes of one file as a checkpoint holds it, piece by piece."""

from collections.abc import Iterator
from itertools import chain

from .. import errors, fsio
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.domain import Skip
from ..model.manifest import DIR, LINK, PURGED, Entry
from .save import all_skips
from .site import Site


def cat(site: Site, point: Checkpoint, path: bytes) -> Iterator[bytes]:
    """The bytes of the file `path` (below the root) at a checkpoint, of a link those of its target; piece by piece, each
    checked. gc has to wait until the last one. Raises PathNotFound for everything else, StoreDamaged at any piece."""
    pieces = _pieces(site, point, path)
    return chain((next(pieces, b""),), pieces)


def _pieces(site: Site, point: Checkpoint, path: bytes) -> Iterator[bytes]:
    with site.store.holding():
        entry = _find(site, point, path)
        if entry.kind == LINK:
            yield entry.target
        else:
            yield from site.store.content(entry)


def _find(site: Site, point: Checkpoint, path: bytes) -> Entry:
    """The entry of a file or link. Raises PathNotFound."""
    entry = manifest.Finder(site.store.load_tree, point.tree).find(path) if path else None
    name = fsio.show(path or b".")
    if not path or (entry is not None and entry.kind == DIR):
        raise errors.PathNotFound(
            f"{name} is a directory in {point.id}: name a file in it (casrewind show {point.id} lists them), or have it "
            f"written elsewhere with casrewind restore {point.id} --to DIR"
        )
    if entry is None:
        skip = _skip_of(path, all_skips(site.store.domain(point.domain)))
        why = f": {fsio.show(skip.path)} was not captured ({skip.reason})" if skip is not None else ""
        raise errors.PathNotFound(f"no {name} in {point.id}{why}; casrewind show {point.id} lists what it holds")
    if entry.kind == PURGED:
        raise errors.PathNotFound(f"{name} was purged from {point.id}: its bytes are gone from the store")
    return entry


def _skip_of(path: bytes, skips: tuple[Skip, ...]) -> Skip | None:
    """What was said of a path, or of a directory above it."""
    above = {path, *paths.parents(path)}
    return next((skip for skip in skips if skip.path in above), None)
