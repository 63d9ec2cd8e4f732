"""All projects of a user: listing and pruning their stores, and going on with that of a moved project. Needs no open workspace."""

import os
from collections.abc import Callable

from .settings import Settings, default_settings, find_root, store_path
from .store.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .upkeep.adopt import Moved
    from .upkeep.all_stores import Found, Pruned


def stores(settings: Settings | None = None) -> "list[Found]":
    """Every store under the data directory, most recently used first. Unusable stores have a `problem`."""
    from .upkeep import all_stores

    return all_stores.list_stores((settings or default_settings()).data)


def prune_missing(
    age: float, settings: Settings | None = None, confirm: "Callable[[Pruned], bool] | None" = None, *, dry_run: bool = False
) -> "Pruned":
    """Permanently remove stores that were unused for `age` seconds and have only missing roots.

    Doubtful stores are kept and reported: the root's disk may be unmounted, or the store is in use or broken. Stores
    with pinned checkpoints or an open restore are kept too, unless `Settings.force` is set.

    `confirm` is called with the planned removals; if it returns False, Declined is raised. Raises StoreError if a store
    could not be removed completely.
    """
    from .upkeep.all_stores import prune_missing

    given = settings or default_settings()
    return prune_missing(given.data, age, confirm, force=given.force, dry_run=dry_run)


def adopt_moved(path: str | os.PathLike[str], settings: Settings | None = None, *, dry_run: bool = False) -> "Moved":
    """Adopt the checkpoints that the project of `path` left behind when it was moved, if exactly one store fits.

    A store fits if its root is gone and half of a sample of its files exist here with the recorded sizes and times. The
    project itself must have no store, or an empty one. Otherwise nothing is changed, and `Moved.candidates` lists
    possible roots: pass the right one to `adopt`. Workspace methods never adopt by themselves; commands and hooks do.

    With `dry_run`, only report. Raises WorkspaceNotFound (no such directory), RootRefused, StoreBusy, StoreError.
    """
    from .upkeep import adopt as adoption

    given = settings or default_settings()
    if not may_have_moved(path, given):
        return adoption.NOTHING
    return adoption.adopt_moved_here(find_root(os.fspath(path), given), given.data, given.deadline, dry_run=dry_run)


def may_have_moved(path: str | os.PathLike[str], settings: Settings) -> bool:
    """True if the project of `path` has no record in a store of its own. Quick: every hook asks. Raises as `adopt_moved`."""
    layout = Layout(store_path(find_root(os.fspath(path), settings), settings))
    return settings.store is None and (not layout.exists() or layout.is_untouched())
