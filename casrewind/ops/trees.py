"""The trees of one restore: it goes along the same two manifests several times, and reads and decodes a tree once while
there are not too many of them. Trees are named by their digests, so what is remembered cannot be out of date.
"""

from ..model.manifest import Loader, Tree

_ENTRIES = 20_000  # as many are remembered, some 8 MB: those of a restore of a thousand files


class Trees:
    """Loads trees, and remembers those that it loaded lately. What it gives is nobody's to change."""

    def __init__(self, load: Loader) -> None:
        """`load` reads a tree."""
        self._load = load
        self._trees: dict[bytes, Tree] = {}
        self._entries = 0

    def __call__(self, digest: bytes) -> Tree:
        """A directory's entries. Raises as `load` does."""
        tree = self._trees.get(digest)
        if tree is None:
            tree = self._load(digest)
            self._entries += len(tree) + 1
            if self._entries > _ENTRIES:
                self._trees, self._entries = {}, len(tree) + 1
            self._trees[digest] = tree
        return tree
