"""All of a user's projects: their stores, and one that was moved. What is asked before there is a workspace."""

import os
from collections.abc import Callable

from .settings import Settings, default_settings, find_root, store_of
from .worktree import root as roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ops.adopt import Adopted, Moved
    from .ops.stores import Found, Pruned


def stores(settings: Settings | None = None) -> "list[Found]":
    """Every store under the data directory, the one used last first. What cannot be used is listed with its `problem`."""
    from .ops import stores as shelves

    return shelves.stores((settings or default_settings()).data)


def prune_missing(
    age: float, settings: Settings | None = None, confirm: "Callable[[Pruned], bool] | None" = None, *, dry_run: bool = False
) -> "Pruned":
    """Remove whole stores, for good: those of which every root is gone and that were not used for `age` seconds.

    What is in doubt is kept and named: a root whose disk may only not be mounted, a store that is in use, or broken, or
    with pinned checkpoints or an open restore (the last two go with `Settings.force`). `confirm` is called with what would
    be done; Declined is raised when it says False. Raises StoreError for what could not be removed wholly.
    """
    from .ops import stores as store_list

    given = settings or default_settings()
    return store_list.prune(given.data, store_list.PruneRule(age, given.force), confirm, dry_run=dry_run)


def adopt(path: str | os.PathLike[str], old: str | os.PathLike[str], settings: Settings | None = None) -> "Adopted":
    """Make the checkpoints of the root `old`, which was moved, those of the root that `path` lies in.

    `old` is relative to `path`. Raises UsageError (they are the same), WorkspaceNotFound (`old` has no checkpoints),
    RootRefused (`old` is still there), WorkspaceError (`path` has checkpoints of its own), JournalOpen, StoreBusy and
    kin; then nothing was changed.
    """
    from .ops import adopt as adopts

    given = settings or default_settings()
    root = find_root(os.fspath(path), given)
    former = roots.former(os.path.join(os.path.abspath(path), old))
    store = None if given.store is None else store_of(root, given)
    return adopts.adopt(adopts.AdoptRequest(root, former, given.data, store, given.force, given.deadline))


def adopt_moved(path: str | os.PathLike[str], settings: Settings | None = None, *, dry_run: bool = False) -> "Moved":
    """Adopt what the project that `path` lies in left behind when it was moved, if that is beyond doubt, unless `dry_run`.

    It is when `path` has no store, or an empty one, and exactly one store is there whose root is gone and half of a sample of
    whose files are here with the recorded sizes and times. Else nothing is changed, and `Moved.candidates` are roots that a
    person may know better about: give the right one to `adopt`. No method of a workspace does this unasked; the command does.

    Raises WorkspaceNotFound (no such directory), RootRefused, StoreBusy, StoreError.
    """
    from .ops import adopt as adoption

    given = settings or default_settings()
    root = find_root(os.fspath(path), given)
    if given.store is not None or not _may_have_moved(root, given):
        return adoption.NOTHING
    return adoption.follow(root, given.data, given.deadline, dry_run=dry_run)


def _may_have_moved(root: roots.Root, settings: Settings) -> bool:
    """Whether a root has no store of its own, or one in which nothing was ever written down."""
    from .store.layout import Layout

    layout = Layout(store_of(root, settings))
    return not layout.exists() or layout.is_untouched()
