"""The registry of stores: one directory with a store per root. Lists, inspects, moves and removes stores.

The dangers prevented here: One broken store hides all others. A store is moved during use, or onto another store. An
interrupted removal leaves half a store.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from .. import errors, fsio, locks
from .._typing import NamedTuple
from ..messages import printable, store_error
from ..model.checkpoint import Checkpoint
from . import catalog
from .index import Tables
from .layout import Layout
from .store import Store

PATIENCE = 1.0
"""Seconds to wait for a lock when inspecting one of many stores."""
_REMOVED, _TOKEN = ".removed-", 8
"""Suffix of removed stores, followed by this many hex digits: no store's own name ends so."""


class StoreSummary(NamedTuple):
    """The state of a store: directory, checkpoints (newest first), bytes on disk, last ledger write, counts.

    `written_ns` is in nanoseconds since 1970, 0 without a ledger. `pinned` counts checkpoints, `restores` open
    restores. `problem` is the reason why the store cannot be used, or None; with a problem, only the path, size and
    time are known.
    """

    path: str
    checkpoints: tuple[Checkpoint, ...]
    size: int
    written_ns: int
    pinned: int
    restores: int
    problem: errors.CasrewindError | None


def store_directory(data: str, name: str) -> str:
    """The directory of the store with that name in the data directory."""
    return os.path.join(data, "stores", name)


def store_names(data: str) -> list[str]:
    """The sorted names of the stores, empty without a registry. Raises StoreError."""
    registry = os.path.join(data, "stores")
    try:
        with os.scandir(registry) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not _is_removed_name(entry.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise store_error(error, "listing the stores in", registry) from error


def inspect(path: str) -> StoreSummary:
    """Inspect one store, sound or not."""
    layout = Layout(path)
    points: Sequence[Checkpoint] = ()
    pinned = restores = 0
    problem: errors.CasrewindError | None = None
    try:
        if not layout.exists():
            raise errors.WorkspaceNotFound("nothing in it: an unfinished store, or an unreadable one")
        with Store(path, deadline=PATIENCE) as store:
            found = store.checkpoints()
            points = [point for point, _ in found]
            pinned = sum(marked.pinned for _, marked in found)
            restores = len(store.journals.names())
    except errors.CasrewindError as error:
        problem = error
    except OSError as error:
        problem = store_error(error, "looking at", path)
    written = 0
    with suppress(OSError):
        written = os.lstat(layout.ledger).st_mtime_ns
    return StoreSummary(path, tuple(points), layout.size(), written, pinned, restores, problem)


def newest_of_each_worktree(store: Store, *, quickly: bool = False) -> list[Checkpoint]:
    """The newest checkpoint of each worktree of this machine in a store. Raises StoreDamaged, StoreBusy. `quickly`: from the index as
    it is, which may be behind; empty if the index is unusable."""
    ledger_index = store._ledger_index  # noqa: SLF001 - same package
    return ledger_index.read_index_as_it_is(_newest_of_this_machine) or [] if quickly else ledger_index.query(_newest_of_this_machine)


def _newest_of_this_machine(tables: Tables) -> list[Checkpoint]:
    found = (catalog.point(tables, catalog.decode_worktree(value).newest) for _, value in tables[b"worktrees"].items())
    return [point for point in found if point is not None and not point.more.machine]


def names_by_last_write(data: str) -> list[str]:
    """The names of the stores, last written first. Opens no store. Raises StoreError."""

    def written(name: str) -> int:
        try:
            return -os.stat(Layout(store_directory(data, name)).ledger).st_mtime_ns
        except OSError:
            return 0

    return sorted(store_names(data), key=written)


def has_store_or_remains(path: str) -> bool:
    """True if there is a store at `path`, or the remains of one."""
    return Layout(path).exists()


def is_untouched(path: str) -> bool:
    """True if the store at `path` exists but has neither a record nor private rules yet."""
    return Layout(path).is_untouched()


@contextmanager
def hold_alone(path: str, deadline: float) -> Iterator[None]:
    """Exclude other processes from writing to the store at `path` and restoring out of it. Raises StoreBusy."""
    layout = Layout(path)
    with (
        locks.locked(layout.lock_path("gc"), exclusive=True, deadline=deadline),
        locks.locked(layout.lock_path("gate"), exclusive=True, deadline=deadline),
        locks.locked(layout.lock_path("store"), exclusive=True, deadline=deadline),
    ):
        yield


def remove_store_if_empty(path: str, deadline: float) -> None:
    """Remove the store at `path`, or the remains of its creation. Raises WorkspaceError if it has a checkpoint or
    private rules."""
    try:
        if has_store_or_remains(path):
            with hold_alone(path, deadline):
                with Store(path, deadline=deadline) as store:
                    if store.checkpoints():
                        raise errors.WorkspaceError(f"the store {printable(path)} holds checkpoints and is kept")
                if os.path.lexists(rules := Layout(path).rules):
                    raise errors.WorkspaceError(
                        f"the store {printable(path)} holds private rules (casrewind include, exclude) and is kept",
                        f"move {printable(rules)} away, and try again"
                    )
                os.unlink(Layout(path).format)  # without FORMAT, an interrupted removal leaves no store behind
        if os.path.isdir(path):
            import shutil

            shutil.rmtree(path)
    except OSError as error:
        raise store_error(error, "removing the empty store", path) from error


def rename_store(source: str, target: str) -> None:
    """Rename a store within the registry, durably. The caller uses `hold_alone`."""
    try:
        os.rename(source, target)
        fsio.sync_directory(os.path.dirname(target))
    except OSError as error:
        raise store_error(error, f"moving the store {printable(source)} to", target) from error


@contextmanager
def hold_for_removal(path: str, deadline: float) -> Iterator[None]:
    """Exclude all other writers from the store at `path`, including pins and labels. Raises StoreBusy."""
    with hold_alone(path, deadline), locks.locked(Layout(path).lock_path("publish"), exclusive=True, deadline=deadline):
        yield


def rename_out_of_registry(path: str) -> None:
    """Remove the store at `path` from the registry, atomically and durably, by a rename. The caller uses
    `hold_for_removal`, and calls `free_removed_stores` afterwards to free the space. Raises StoreError."""
    layout = Layout(path)
    try:
        if os.path.islink(path):
            raise errors.StoreError(f"{printable(path)} is a link to a store elsewhere", "remove both by hand")
        if not layout.is_writable():
            raise errors.StoreNotWritable(f"the store {printable(path)} cannot be written and is kept")
        index, _ = layout.choose_index_directory()
        os.rename(path, f"{path}{_REMOVED}{os.urandom(_TOKEN // 2).hex()}")
        fsio.sync_directory(os.path.dirname(path))  # a power cut must not bring back a partly removed store
    except OSError as error:
        raise store_error(error, "removing the store", path) from error
    if os.path.dirname(index) != path:  # the index of a store on a network is in a temporary directory here
        import shutil

        shutil.rmtree(index, ignore_errors=True)


def free_removed_stores(data: str) -> None:
    """Free the space of removed stores, including those of killed processes. Raises StoreError."""
    import shutil

    registry = os.path.join(data, "stores")
    try:
        doomed = [os.path.join(registry, name) for name in os.listdir(registry) if _is_removed_name(name)]
        for path in doomed:
            while os.path.lexists(path):
                with suppress(FileNotFoundError):  # another process does the same
                    shutil.rmtree(path)
        if doomed:
            fsio.sync_directory(registry)
    except FileNotFoundError:
        return
    except OSError as error:
        raise store_error(error, "removing the remains of stores in", registry) from error


def _is_removed_name(name: str) -> bool:
    """True for the name of a store directory whose removal was begun."""
    _, mark, token = name.rpartition(_REMOVED)
    return bool(mark) and len(token) == _TOKEN and not token.strip("0123456789abcdef")
