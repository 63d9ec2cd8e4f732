"""The spelling of names on a disk that folds case or Unicode forms, as those of Macs do.

The danger prevented here: an agent renames `Readme` to `README`. There, both names lead to the one file, so a plan that writes the one and
removes the other removes what it wrote. No disk is asked whether it folds in general: it may fold forms and keep case apart, or
another one may be mounted below. It is asked for each pair of names, which are one file if they have one inode.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ..model import paths
from .reader import Worktree


class NameSpelling:
    """The spelling of paths on disk: `README` may also be found as `readme`."""

    def __init__(self, tree: Worktree) -> None:
        """Directories are listed on demand."""
        self._tree = tree
        self._listed: dict[bytes, frozenset[bytes]] = {}

    def find(self, path: bytes) -> bytes:
        """A path as the directories list it. What is absent of it is as it was given."""
        spelled = b""
        for part in path.split(b"/"):
            names = self._names(spelled)
            name = part if part in names else next(filter(partial(self._are_one, spelled, part), self._alike(part, names)), part)
            spelled = paths.join(spelled, name)
        return spelled

    def _alike(self, name: bytes, names: Iterable[bytes]) -> Iterator[bytes]:
        key = paths.case_folded_key(name)
        return (other for other in names if paths.case_folded_key(other) == key)

    def _are_one(self, place: bytes, one: bytes, other: bytes) -> bool:
        """True if two names in a directory are one file."""
        try:
            found = [self._tree.status_of(paths.join(place, name)) for name in (one, other)]
        except OSError:
            return False
        first, second = found
        return first is not None and second is not None and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)

    def _names(self, place: bytes) -> frozenset[bytes]:
        names = self._listed.get(place)
        if names is None:
            try:
                names = frozenset(self._tree.names(place))
            except OSError:
                names = frozenset()
            self._listed[place] = names
        return names


def with_other_spellings(tree: Worktree, scope: Sequence[bytes], found: Iterable[bytes]) -> tuple[bytes, ...]:
    """The paths of a scope, and those of `found` that are the same files on disk, or lie below these, under another spelling."""
    if not scope or b"" in scope:
        return tuple(scope)
    spelling, exact = NameSpelling(tree), paths.PathScope(scope)
    on_disk = [spelling.find(path) for path in scope]
    files, keys = paths.PathScope(on_disk), frozenset(map(paths.case_folded_key, scope))
    below = tuple(f"{key}/" for key in keys)
    more = {path: None for path in on_disk if not exact.covers(path)}
    for path in found:
        key = paths.case_folded_key(path)
        if (key in keys or key.startswith(below)) and not exact.covers(path) and files.covers(spelling.find(path)):
            more[path] = None
    return (*scope, *more)
