"""The shelf: the directory in which stores stand side by side, each named after a root. List them, look at one, move or
remove one.

The danger prevented here: one broken store that hides all the others, a store that is moved while somebody works in it, or
on top of another one that holds something, and half a store where a removal was interrupted.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from .. import errors, fsio
from .._typing import NamedTuple
from ..model.checkpoint import Checkpoint
from . import catalog
from .index import Tables
from .layout import Layout
from .store import Store

PATIENCE = 1.0
"""Seconds that a look at one of many stores waits for a lock."""
_REMOVED, _TOKEN = ".removed-", 8
"""What stands in the name of a store that was taken off the shelf, before so many digits: no store's own name ends so."""


class StoreSummary(NamedTuple):
    """A store as it was found: its directory, its checkpoints (newest first), bytes on disk, when its ledger was last
    written (nanoseconds since 1970, 0 when it has none), how many checkpoints are pinned, how many restores are open.
    `problem` is why it cannot be used, or None; then nothing else is known of it but its size."""

    path: str
    checkpoints: tuple[Checkpoint, ...]
    size: int
    written_ns: int
    pinned: int
    restores: int
    problem: errors.CasrewindError | None


def store_directory(data: str, name: str) -> str:
    """Where the store of that name stands under the data directory."""
    return os.path.join(data, "stores", name)


def names(data: str) -> list[str]:
    """The names of what stands on the shelf, sorted; nothing where there is no shelf yet. Raises StoreError."""
    registry = os.path.join(data, "stores")
    try:
        with os.scandir(registry) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not _is_removed(entry.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise fsio.store_error(error, "listing the stores in", registry) from error


def inspect(path: str) -> StoreSummary:
    """One store, sound or not."""
    layout = Layout(path)
    points: Sequence[Checkpoint] = ()
    pinned = restores = 0
    problem: errors.CasrewindError | None = None
    try:
        if not layout.exists():
            raise errors.WorkspaceNotFound("nothing in it: a store that was never finished, or one that cannot be read")
        with Store(path, deadline=PATIENCE) as store:
            found = store.checkpoints()
            points = [point for point, _ in found]
            pinned = sum(marked.pinned for _, marked in found)
            restores = len(store.journals.names())
    except errors.CasrewindError as error:
        problem = error
    except OSError as error:
        problem = fsio.store_error(error, "looking at", path)
    written = 0
    with suppress(OSError):
        written = os.lstat(layout.ledger).st_mtime_ns
    return StoreSummary(path, tuple(points), layout.size(), written, pinned, restores, problem)


def newest_in(store: Store, *, quickly: bool = False) -> list[Checkpoint]:
    """The newest checkpoint of each worktree in a store. `quickly`: as the index stands, which may be behind, and nothing
    where it is of no use. Raises StoreDamaged, StoreBusy."""
    ledger_index = store._ledger_index  # noqa: SLF001 - a room of the same cellar
    return ledger_index.read_unchecked(_newest) or [] if quickly else ledger_index.query(_newest)


def _newest(tables: Tables) -> list[Checkpoint]:
    found = (catalog.point(tables, catalog.decode_heads(value).newest) for _, value in tables[b"heads"].items())
    return [point for point in found if point is not None]


def by_last_use(data: str) -> list[str]:
    """The names of what stands on the shelf, what was written to last first. Nothing is opened. Raises StoreError."""

    def written(name: str) -> int:
        try:
            return -os.stat(Layout(store_directory(data, name)).ledger).st_mtime_ns
        except OSError:
            return 0

    return sorted(names(data), key=written)


def holds(path: str) -> bool:
    """True when a store, or something that was one, stands at `path`."""
    return Layout(path).exists()


def is_untouched(path: str) -> bool:
    """True when nothing was ever written down in the store at `path`."""
    return Layout(path).is_untouched()


@contextmanager
def hold_alone(path: str, deadline: float) -> Iterator[None]:
    """Keep everybody else from writing into the store at `path`, and from restoring out of it. Raises StoreBusy."""
    layout = Layout(path)
    with (
        fsio.locked(layout.lock("gc"), exclusive=True, deadline=deadline),
        fsio.locked(layout.lock("gate"), exclusive=True, deadline=deadline),
        fsio.locked(layout.lock("store"), exclusive=True, deadline=deadline),
    ):
        yield


def remove_empty(path: str, deadline: float) -> None:
    """Remove the store at `path`, or what is left of its making. Raises WorkspaceError when it holds a checkpoint."""
    try:
        if holds(path):
            with hold_alone(path, deadline):
                with Store(path, deadline=deadline) as store:
                    if store.checkpoints():
                        raise errors.WorkspaceError(f"the store {fsio.printable(path)} holds checkpoints: it stays")
                os.unlink(Layout(path).format)  # without it, an interrupted removal leaves no store behind
        if os.path.isdir(path):
            import shutil

            shutil.rmtree(path)
    except OSError as error:
        raise fsio.store_error(error, "removing the empty store", path) from error


def move(source: str, target: str) -> None:
    """Give a store another place on its shelf, durable when this returns. The caller holds it `alone`."""
    try:
        os.rename(source, target)
        fsio.sync_directory(os.path.dirname(target))
    except OSError as error:
        raise fsio.store_error(error, f"moving the store {fsio.printable(source)} to", target) from error


@contextmanager
def hold_for_removal(path: str, deadline: float) -> Iterator[None]:
    """Keep everybody from writing into the store at `path`, a pin or a label included. Raises StoreBusy."""
    with hold_alone(path, deadline), fsio.locked(Layout(path).lock("publish"), exclusive=True, deadline=deadline):
        yield


def remove(path: str) -> None:
    """Take the store at `path` off the shelf, durable when this returns: from one instant to the next it is none any more.
    The caller holds it `to_be_removed`, and calls `clear` afterwards, which gives the space back. Raises StoreError."""
    layout = Layout(path)
    try:
        if os.path.islink(path):
            raise errors.StoreError(f"{fsio.printable(path)} is a link to a store that is somewhere else: remove both by hand")
        if not layout.writable():
            raise errors.StoreNotWritable(f"the store {fsio.printable(path)} cannot be written: it stays")
        index, _ = layout.index()
        os.rename(path, f"{path}{_REMOVED}{fsio.token(_TOKEN // 2)}")
        fsio.sync_directory(os.path.dirname(path))  # else a power cut could bring back a name for what is removed behind it
    except OSError as error:
        raise fsio.store_error(error, "removing the store", path) from error
    if os.path.dirname(index) != path:  # of a store on a network, the index is in a temporary directory here
        import shutil

        shutil.rmtree(index, ignore_errors=True)


def clear(data: str) -> None:
    """Give back the space of all that was taken off the shelf, by this process or by one that was killed over it. Raises
    StoreError."""
    import shutil

    registry = os.path.join(data, "stores")
    try:
        doomed = [os.path.join(registry, name) for name in os.listdir(registry) if _is_removed(name)]
        for path in doomed:
            while os.path.lexists(path):
                with suppress(FileNotFoundError):  # another process does the same
                    shutil.rmtree(path)
        if doomed:
            fsio.sync_directory(registry)
    except FileNotFoundError:
        return
    except OSError as error:
        raise fsio.store_error(error, "removing what is left of stores in", registry) from error


def _is_removed(name: str) -> bool:
    _, mark, token = name.rpartition(_REMOVED)
    return bool(mark) and len(token) == _TOKEN and not token.strip("0123456789abcdef")
