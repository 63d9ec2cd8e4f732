"""Why nothing can be saved: the store is on a read-only file system, a part of it is another user's, or its disk is full.

The danger prevented here: hooks fail in silence, and the person finds out when a checkpoint is missing. Nothing is
written to find out. A quota cannot be seen this way.
"""

import os
import stat

from ..messages import printable
from .budget import free_bytes
from .layout import Layout

_LEAST_FREE = 16 << 10
"""Bytes that the smallest save needs, with its pages of the index."""


def why_unwritable(store: str) -> str:
    """The reason why no save can write to the store at that path, with a remedy; "" if none is known."""
    where = printable(store)
    try:
        status = os.statvfs(store)
    except OSError:
        return ""
    if status.f_flag & os.ST_RDONLY:
        return f"the store {where} is on a file system that is mounted read-only: mount it writable, or give --store DIR"
    for part in _written_paths(Layout(store)):
        if why := _why_not_writable(part):
            return f"{printable(part)}, a part of the store, {why}: make all of the store yours (chown -R, chmod -R u+rwX)"
    if free_bytes(store) < _LEAST_FREE:
        return f"the disk of the store {where} is full: free some space, casrewind gc may free some in the store"
    if status.f_files and not status.f_favail:
        return f"the disk of the store {where} has no free inode: remove some files there"
    return ""


def _written_paths(layout: Layout) -> list[str]:
    """The store's directory, and what a save writes in it."""
    index, locks = os.path.join(layout.root, "index"), os.path.dirname(layout.lock_path(""))
    parts = [layout.root, layout.packs, layout.temporary, layout.journals, locks, index, layout.ledger, os.path.join(index, "data.mdb")]
    try:
        return [*parts, *(os.path.join(locks, name) for name in sorted(os.listdir(locks)))]
    except OSError:
        return parts


def _why_not_writable(path: str) -> str:
    """Why this process may not write to a file or directory; "" if it may, or if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""  # missing, or in a directory that is named before it
    needed = os.R_OK | os.W_OK | (os.X_OK if stat.S_ISDIR(status.st_mode) else 0)
    if os.access(path, needed):
        return ""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to you ({os.geteuid()})"
    return "does not let you write"
