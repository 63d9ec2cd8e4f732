"""The context of every operation: a root, its store, its worktree, and what a scan captures."""

from collections.abc import Callable

from .._typing import NamedTuple
from ..store.store import Store
from ..worktree.reader import Worktree
from ..worktree.root import Root
from ..worktree.scan_policy import ScanPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a save with a watcher needs it
    from ..worktree.change_set import ChangeSet

Progress = Callable[[str, int, int], None]
"""Progress callback: (what, number done, total; 0 = unknown)."""


class Context(NamedTuple):
    """An open workspace. `budget`: maximum size of the store in bytes for saves, None = unlimited. `watch`: the
    worktree's changes that a watcher has seen, or None; a save reads them and records its result there. `shell`: the
    agent and session that run this process in their shell, "" = none."""

    root: Root
    store: Store
    tree: Worktree
    policy: ScanPolicy
    progress: Progress | None = None
    budget: int | None = None
    watch: "ChangeSet | None" = None
    shell: tuple[str, str] = ("", "")

    def counter(self, what: str) -> Callable[[int], None] | None:
        """A progress callback with an unknown total."""
        progress = self.progress
        return None if progress is None else lambda done: progress(what, done, 0)

    def progress_bar(self, what: str) -> Callable[[int, int], None] | None:
        """A progress callback with a known total."""
        progress = self.progress
        return None if progress is None else lambda done, total: progress(what, done, total)
