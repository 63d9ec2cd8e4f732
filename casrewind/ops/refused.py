"""Finds the checkpoint of a refused manifest: the walk that refuses it knows only trees."""

from collections.abc import Iterator
from contextlib import contextmanager

from .. import errors
from ..model import manifest
from ..model.manifest import Entry
from ..store.store import Store


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
