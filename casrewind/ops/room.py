"""Room: what a save needs of the store's budget and of the disk, and how it gets it.

The danger prevented here: a store that eats the disk, and a save that is refused because old ones are in its way. A save that
would go over the budget is taken back, gc forgets the oldest checkpoints, and it is done again. Where that cannot help,
because what has to stay is more than the budget already, the save goes on: a budget is no reason to lose anybody's work.
"""

import os
from contextlib import suppress

from .. import errors, fsio
from ..store import allowance
from ..store.session import DrySession, Measure
from ..worktree import scan as scans
from .site import Site

_PLENTY = 8 << 30
"""Free bytes from which on a first save is begun without a look at how much it is: that takes as long as a tenth of it."""

def measure(site: Site) -> int:
    """Bytes of the files that a save would have to read now. Nothing is read but directories."""
    remembered = site.store.stamps(site.root.key)
    counting = Measure()
    scan = scans.scan(site.tree, counting, DrySession(site.store.read).load_tree, site.options, remembered.get)
    return min(counting.size, scan.size)  # a file too young for its stamp to be believed was looked at twice


def check_first(site: Site) -> None:
    """Refuse a first save that cannot fit on the disk, before anything is written. Raises StoreFull."""
    free = allowance.free(site.store.path)
    if free > _PLENTY:
        return  # what is larger still is stopped while it is written, and takes back what it wrote
    with suppress(OSError):
        status = os.statvfs(site.root.path)
        if free > (status.f_blocks - status.f_bfree) * status.f_frsize:
            return  # there is room for all that the worktree's file system holds
    needed = measure(site)
    if needed > free:
        raise errors.StoreFull(
            f"no space left for a first save: {needed:,} bytes are to be saved, {max(free, 0):,} may be written to the disk of "
            f"the store {fsio.show(site.store.path)}; nothing was written: free some space, or ignore what need not be saved"
        )


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
