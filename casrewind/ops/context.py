"""What every verb works on: a root, its store, its worktree, and how to scan it."""

from collections.abc import Callable

from .._typing import NamedTuple
from ..gitignore.rules import ScanOptions
from ..store.store import Store
from ..worktree.reader import Worktree
from ..worktree.root import Root

TYPE_CHECKING = False
if TYPE_CHECKING:  # no save has need of it where nobody watches
    from ..worktree.change_set import ChangeSet

Progress = Callable[[str, int, int], None]
"""Told what is going on: (what, how many are done, of how many; 0 = not known)."""


class Context(NamedTuple):
    """One workspace, open. `budget`: bytes of its store that no save goes over, None = as many as there are. `watch`:
    what is known of the worktree by somebody who watches it; a save asks for it, and tells how it went. `shell`: the agent and
    the session in whose shell this process runs, "" = in nobody's."""

    root: Root
    store: Store
    tree: Worktree
    options: ScanOptions
    progress: Progress | None = None
    budget: int | None = None
    watch: "ChangeSet | None" = None
    shell: tuple[str, str] = ("", "")

    def counter(self, what: str) -> Callable[[int], None] | None:
        """A report for something whose end is not known."""
        progress = self.progress
        return None if progress is None else lambda done: progress(what, done, 0)

    def progress_bar(self, what: str) -> Callable[[int, int], None] | None:
        """A report for something whose end is known."""
        progress = self.progress
        return None if progress is None else lambda done, total: progress(what, done, total)
