"""The shelf: the directory in which stores stand side by side, each named after a root. List them, look at one, move one.

The danger prevented here: one broken store that hides all the others, and a store that is moved while somebody works
in it, or on top of another one that holds something.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from .. import errors, fsio
from ..model.checkpoint import Checkpoint
from .layout import Layout
from .store import Store

_PATIENCE = 1.0
"""Seconds that a look at one of many stores waits for a lock."""


class Seen(NamedTuple):
    """A store as it was found: its directory, its checkpoints (newest first), bytes on disk, when its ledger was last
    written (nanoseconds since 1970, 0 when it has none). `problem` is why it cannot be used, or None; then nothing else
    is known of it but its size."""

    path: str
    checkpoints: tuple[Checkpoint, ...]
    size: int
    written_ns: int
    problem: errors.CasrewindError | None


def place(data: str, name: str) -> str:
    """Where the store of that name stands under the data directory."""
    return os.path.join(data, "stores", name)


def names(data: str) -> list[str]:
    """The names of what stands on the shelf, sorted; nothing where there is no shelf yet. Raises StoreError."""
    shelf = os.path.join(data, "stores")
    try:
        with os.scandir(shelf) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise fsio.store_error(error, "listing the stores in", shelf) from error


def look(path: str) -> Seen:
    """One store, sound or not."""
    layout = Layout(path)
    points: Sequence[Checkpoint] = ()
    problem: errors.CasrewindError | None = None
    try:
        if not layout.exists():
            raise errors.WorkspaceNotFound("nothing in it: a store that was never finished, or one that cannot be read")
        with Store(path, deadline=_PATIENCE) as store:
            points = [point for point, _ in store.checkpoints()]
    except errors.CasrewindError as error:
        problem = error
    except OSError as error:
        problem = fsio.store_error(error, "looking at", path)
    written = 0
    with suppress(OSError):
        written = os.lstat(layout.ledger).st_mtime_ns
    return Seen(path, tuple(points), layout.size(), written, problem)


def holds(path: str) -> bool:
    """True when a store, or something that was one, stands at `path`."""
    return Layout(path).exists()


@contextmanager
def alone(path: str, deadline: float) -> Iterator[None]:
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
            with alone(path, deadline):
                with Store(path, deadline=deadline) as store:
                    if store.checkpoints():
                        raise errors.WorkspaceError(f"the store {fsio.show(path)} holds checkpoints: it stays")
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
        raise fsio.store_error(error, f"moving the store {fsio.show(source)} to", target) from error
