"""The context of every operation: a root, its store, its worktree, and what a scan captures."""

from collections.abc import Callable, Mapping

from ._typing import NamedTuple
from .model.retention import Limits
from .store.store import Store
from .worktree.reader import Worktree
from .worktree.root import Root
from .worktree.scan_policy import ScanPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:  # few operations need them
    from .agents.session_files import Homes

Progress = Callable[[str, int, int], None]
"""Progress callback: (what, number done, total; 0 = unknown)."""


class Context(NamedTuple):
    """An open project: what settings.py (`open_context`) opens and decides for the operations."""

    root: Root
    store: Store
    tree: Worktree
    policy: ScanPolicy
    limits: Limits
    """The limits of gc, if a command names no others. Saves keep to `max_size`, the budget."""
    data: str
    """The directory of all stores. Its log has the failures of hooks that found no store."""
    home: str
    environ: Mapping[str, str]
    """The user's home directory, and the variables that may relocate what is in it."""
    progress: Progress | None = None
    shell: tuple[str, str] = ("", "")
    """The agent and the session that run this process in their shell, "" = none."""
    tells_agent: bool = True
    """A prompt's hook tells the agent what was restored."""

    @property
    def homes(self) -> "Homes":
        """Where the clients' files are."""
        from .agents.session_files import Homes

        return Homes(self.home, self.environ)

    def counter(self, label: str) -> Callable[[int], None] | None:
        """A progress callback with an unknown total."""
        progress = self.progress
        return None if progress is None else lambda done: progress(label, done, 0)

    def progress_bar(self, label: str) -> Callable[[int, int], None] | None:
        """A progress callback with a known total."""
        progress = self.progress
        return None if progress is None else lambda done, total: progress(label, done, total)
