"""Room: what a save needs of the store's budget and of the disk, and how it gets it.

The danger prevented here: a store that eats the disk, and a save that is refused because old ones are in its way. A save that
would go over the budget is taken back, gc forgets the oldest checkpoints, and it is done again. Where that cannot help,
because what has to stay is more than the budget already, the save goes on: a budget is no reason to lose anybody's work.
"""

from .. import errors
from ..store.session import Measure
from ..worktree import scan as scans
from . import stat_cache
from .site import Site


def measure(site: Site) -> int:
    """Bytes of the files that a save would have to read now. Nothing is read but directories."""
    counting = Measure(site.store.read)
    scan = scans.scan(site.tree, counting, site.options, stat_cache.read(site))
    return min(counting.size, scan.size)  # a file too young for its stamp to be believed was looked at twice


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
