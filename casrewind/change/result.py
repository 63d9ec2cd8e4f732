"""What a verb that changes files did, or would do."""

from collections.abc import Callable, Sequence

from .._typing import TYPE_CHECKING, NamedTuple
from ..model.at_risk import OnlyCopy, OpenFile
from ..model.manifest import Entry
from ..model.plan import Action, Kept, Merged

if TYPE_CHECKING:
    from ..model.turn_records import Turn


class WrittenDirectory(NamedTuple):
    """A directory with a checkpoint's files."""

    directory: str
    files: int
    from_worktree: int
    """How many of the files share their blocks with the worktree's."""
    seconds: float
    """After how many seconds they were there."""
    origin_problem: str = ""
    """Why nothing there says what it was made from, or ""."""


class Materialised(NamedTuple):
    """Directories that a checkpoint was written into (with `dry_run`: would be)."""

    target: str
    """The id of the checkpoint."""
    actions: Sequence[Action]
    """What makes its paths in each of the directories."""
    kept: tuple[Kept, ...]
    """The paths that are not there, or not as in the checkpoint."""
    dry_run: bool
    written: tuple[WrittenDirectory, ...] = ()
    """The directories."""
    carried: tuple[tuple[bytes, int], ...] = ()
    """The paths and bytes of the ignored files that were copied into each."""
    commit: str = ""
    """The commit that the checkpoint notes, or ""."""

    @property
    def incomplete(self) -> bool:
        """True if a path is not there, or not as in the checkpoint."""
        return any(not item.benign for item in self.kept)


class Restored(NamedTuple):
    """The result of a verb that changes files (with `dry_run`: what it would do)."""

    op: str
    """The verb."""
    target: str
    """The id of the target checkpoint."""
    safety: str
    """The id of the safety checkpoint, "" if nothing had to change."""
    actions: Sequence[Action]
    """What was done."""
    kept: tuple[Kept, ...]
    """The paths that were not changed."""
    unchanged: int
    """How many files and links of the target needed no change."""
    dry_run: bool
    merged: tuple[Merged, ...] = ()
    """The files among the actions that were merged by lines."""
    edited: tuple[bytes, ...] = ()
    """The paths that keep edits, and so are not as in the target."""
    tells_agent: bool = False
    """This is the first restore of the worktree, and the hook will tell an agent of it."""
    taken_from: str = ""
    """The directory whose changes were taken, or were until an undo. "" = it is about no directory."""
    read: Callable[[bytes, Entry], bytes | None] | None = None
    """Returns the bytes of what is planned, by path and entry, while the workspace is open; None if they are gone. None: the store
    has all of them."""
    only_copies: tuple[OnlyCopy, ...] = ()
    """Removed files that may be the only copies of ignored files. `safety` has them, and is pinned."""
    open_files: tuple[OpenFile, ...] = ()
    """The files that a program has open for writing, if a database is among the paths of the actions."""
    foreign: tuple[bytes, ...] = ()
    """Of a rewind: the paths that another session may have changed."""
    turns: "tuple[Turn, ...]" = ()
    """Of a restore that keeps edits: the turns that it takes back, newest first."""

    @property
    def exact(self) -> bool:
        """True if every path in question is as in the target."""
        return not self.edited and not self.incomplete

    @property
    def incomplete(self) -> bool:
        """True if a planned action was not done, or a file has markers of a conflict."""
        return any(not item.benign for item in self.kept) or any(item.conflicts for item in self.merged)
