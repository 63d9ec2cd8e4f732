"""What somebody who watches a worktree tells a scan of it, and what the scan tells him.

The danger prevented here: a directory that counts as untouched because nobody was looking. A scan has every directory watched
before it looks at it, so what changes later is told; and where there is any doubt, of which the one who watches knows as well
as the scan, everything is looked at as if nobody had watched.
"""

import os

from ..typed import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sheet import Sheet


class Add(Protocol):
    """Has the directory at a path of the system watched."""

    def __call__(self, place: bytes, *, follow: bool) -> int:
        """The watch's number. With `follow` a link at the path is followed. Raises OSError."""


class Watch:
    """One scan's view of a watched worktree.

    `changed`: the directories in which something may have changed, `below`: those of which, with all under them, nothing
    is known; as paths below the root. `full`: look at everything. `root`: (device, inode) of the root that is watched.
    `expected`: the generation of the stat cache (store/stamprows.py) that all this is told of, None for none.
    """

    def __init__(
        self,
        add: Add,
        root: tuple[int, int],
        *,
        changed: set[bytes],
        below: set[bytes],
        full: bool,
        expected: int | None,
    ) -> None:
        """`add` watches a directory."""
        self._add, self._root = add, root
        self.changed, self.below, self.full, self.expected = changed, below, full, expected
        self.entered: list[tuple[int, bytes]] = []
        """The numbers and paths of the directories that are watched from now on."""
        self.rest: set[bytes] = set()
        """The directories of which the stat cache still says what they are not: those that could not be entered, or are gone."""
        self.failed = ""
        """Why not all of the worktree is watched."""
        self.kept: tuple[bytes, Sheet] | None = None
        """A sheet that is there already, by its name: the next save need not read it, and may use it up."""
        self.proof: tuple[tuple[int, ...], str] | None = None
        """That the index is what was written last (store/index.py)."""
        self.page = b""
        """A sheet that is worth keeping: another one than that."""
        self.settled: int | None = None
        """The generation of the stat cache that knows all that was found, None when there is none."""

    def meet(self, generation: int | None) -> None:
        """Compare what it was told of with what there is: of another stat cache it knows nothing."""
        if generation is None or generation != self.expected:
            self.full = True

    def meet_root(self, root: os.stat_result) -> None:
        """Compare the root: of another one it knows nothing."""
        if (root.st_dev, root.st_ino) != self._root:
            self.failed, self.full = "another directory has come into the place of the root", True

    def see(self, path: bytes, place: bytes, *, follow: bool = False) -> None:
        """Have the directory `path`, which is at `place`, watched before it is looked at."""
        if self.failed:
            return
        try:
            self.entered.append((self._add(place, follow=follow), path))
        except (FileNotFoundError, NotADirectoryError):
            pass  # its parent has changed since, and tells so
        except OSError as error:
            self.failed = error.strerror or str(error)
