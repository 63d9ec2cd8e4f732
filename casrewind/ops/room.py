"""Room: what a save needs of the store's budget and of the disk, and how it gets it.

The danger prevented here: a store that eats the disk, and a save that is refused because old ones are in its way. A save that
would go over the budget is taken back, gc forgets the oldest checkpoints, and it is done again. Where that cannot help,
because what has to stay is more than the budget already, the save goes on: a budget is no reason to lose anybody's work.
"""

import _thread
import os
from contextlib import suppress

from .. import errors, fsio
from ..store import allowance
from ..store.session import DrySession, Measure
from ..worktree import scan as scans
from ..worktree.aside import Aside
from .site import Site


def measure(site: Site) -> int:
    """Bytes of the files that a save would have to read now. Nothing is read but directories."""
    remembered = site.remembered()
    counting = Measure()
    scan = scans.scan(site.tree, counting, DrySession(site.store.read).load_tree, site.options, remembered.get)
    return min(counting.size, scan.size)  # a file too young for its stamp to be believed was looked at twice


class Fitting:
    """Whether a first save can fit on the disk: looked for by a fork, where there may be one, while the scan begins, and known
    before anything is written. `close` it, whatever happens."""

    def __init__(self, site: Site) -> None:
        """Begin to look, if that is needed."""
        self._site, self._free = site, allowance.free(site.store.path)
        self._aside: Aside | None = None
        self._is_known = False
        with suppress(OSError):
            status = os.statvfs(site.root.path)  # is there room for all that the worktree's file system holds?
            self._is_known = self._free > (status.f_blocks - status.f_bfree) * status.f_frsize
        if not self._is_known and site.options.processes > 1 and site.watch is None and _thread._count() == 0:  # noqa: SLF001 - it has no other name
            self._aside = Aside(lambda: [_has_at_most(site.root.path, self._free)], ())

    def settle(self) -> None:
        """Refuse a first save that cannot fit, before anything is written. Raises StoreFull."""
        if self._is_known:
            return
        self._is_known = True
        if self._aside is not None and self._aside.comes():
            fits = any(self._aside.numbers())
        else:
            fits = _has_at_most(self._site.root.path, self._free)
        if fits:
            return
        needed = measure(self._site)
        if needed > self._free:
            raise errors.StoreFull(
                f"no space left for a first save: {needed:,} bytes are to be saved, {max(self._free, 0):,} may be written to the "
                f"disk of the store {fsio.show(self._site.store.path)}; nothing was written: free some space, or ignore what need "
                "not be saved"
            )

    def close(self) -> None:
        """Let go of the fork."""
        if self._aside is not None:
            self._aside.close()


def _has_at_most(root: str, most: int) -> bool:
    """Whether everything below a directory, what is ignored as well, has no more than so many bytes: a quick look, which says
    no where it is in doubt. What will be saved is found out in a fifth of the time of a first save."""
    places = [root]
    try:
        while places and most >= 0:
            with os.scandir(places.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        places.append(entry.path)
                    else:
                        most -= entry.stat(follow_symlinks=False).st_size
    except OSError:
        return False
    return most >= 0


def make(site: Site, over: errors.OverBudget, *, again: bool) -> bool:
    """Have gc forget what stands in the way of a save that would go over the budget; False when that cannot be had. The
    first time what it needs is guessed from what it wrote until it was stopped, `again` all of it is taken for granted."""
    from . import gc

    budget = site.budget
    if budget is None:
        return False
    whole = measure(site)
    needed = whole if again else min(whole, 2 * over.written)
    try:
        return gc.make_room(site, max(needed, over.written))
    except errors.StoreBusy:
        return False  # another gc, or a long restore: better over the budget than no checkpoint
