"""A clone that was killed: its store is marked until it is whole, and the same clone goes on.

The danger prevented here: a cut clone looks whole. It has all files, some checkpoints and no remote, and the person goes on working in
it. So a mark is set before anything else, every command names it, and only the end of the clone removes it.
"""

import os
import stat
from contextlib import suppress

from .. import errors, fsio, locations
from .._typing import NamedTuple
from ..context import Context
from ..messages import store_errors
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, FILE, LINK, Entry
from ..settings import Settings, store_path
from ..store import push_notes
from ..worktree import root as roots
from .remote_config import identity_of

_MARK = push_notes.CLONING


class Begun(NamedTuple):
    """A clone that was killed: the id of the remote, and of the checkpoint that it was to write."""

    identity: bytes
    checkpoint: str


def find_begun(directory: str, settings: Settings) -> Begun | None:
    """The clone into this directory that was killed, or None."""
    if not os.path.isdir(directory):
        return None
    try:
        remotes = os.path.join(store_path(roots.root_at(locations.real_path(directory)), settings), "remotes")
        place = push_notes.remote_directory(remotes)
        return Begun(identity_of(place), fsio.read_file(os.path.join(place, _MARK), 200).decode("ascii", "replace")) if place else None
    except (OSError, errors.CasrewindError):
        return None


def mark_begun(place: str, checkpoint: str) -> None:
    """Mark the remote in this directory of the store as that of a clone that is not whole yet. Raises StoreError."""
    with store_errors("writing the remote in", place):
        fsio.replace_file(place, _MARK, checkpoint.encode())


def mark_done(place: str) -> None:
    """Remove the mark. Raises StoreError."""
    with store_errors("writing the remote in", place), suppress(FileNotFoundError):
        os.unlink(os.path.join(place, _MARK))


def remove_written_files(context: Context, point: Checkpoint) -> None:
    """Remove what a killed clone wrote: each file and link that is as it is in the checkpoint, drafts, and directories that are empty
    then. What a person made or changed stays, and is in the way."""
    root = os.fsencode(context.root.path)
    below = sorted(manifest.walk(context.store.load_tree, point.tree), reverse=True)
    for path, entry in below:
        place = os.path.join(root, path)
        if os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):
            continue  # below a link: nobody wrote there
        with suppress(OSError):
            if entry.kind == DIR:
                fsio.remove_orphans(os.fsdecode(place))
                os.rmdir(place)
            elif _is_as_written(context, place, entry):
                os.unlink(place)
    with suppress(OSError):
        fsio.remove_orphans(context.root.path)


def _is_as_written(context: Context, place: bytes, entry: Entry) -> bool:
    """True if a file or link is as it is in a checkpoint. Raises OSError."""
    status = os.lstat(place)
    if entry.kind == LINK:
        return stat.S_ISLNK(status.st_mode) and os.readlink(place) == entry.target
    if entry.kind != FILE or not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
        return False
    with open(place, "rb") as file:
        return all(file.read(len(part)) == part for part in context.store.content(entry))
