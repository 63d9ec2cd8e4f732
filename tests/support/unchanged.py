"""Proof that nothing was changed: the pictures of several directories, before and after."""

from contextlib import contextmanager

from .picture import differences, picture

BESIDE = (b"index", b"locks", b"tmp")
"""What in a store may change without anything being changed: derived, or empty files to lock."""


def store_picture(store):
    """The picture of a store without what is disposable in it."""
    return picture(store, mtimes=True, skip=BESIDE)


@contextmanager
def unchanged(root, stores=None):
    """The worktree `root` and every store below the directory `stores` are the same at the end of the block."""
    before = picture(root, mtimes=True, inodes=True), _stores(stores)
    yield
    after = picture(root, mtimes=True, inodes=True), _stores(stores)
    for one, other in zip(before, after, strict=True):
        assert differences(one, other) == {}


def _stores(place):
    """The pictures of the stores under `data/stores`, path by path."""
    if place is None or not (place / "stores").is_dir():
        return {}
    found = {}
    for store in sorted((place / "stores").iterdir()):
        for path, entry in store_picture(store).items():
            found[store.name.encode() + b"/" + path] = entry
    return found
